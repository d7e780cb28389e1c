//! `x[...]`, read and written: views for numbers, slices, `None` and `...`; tensors and lists of indices for the rest.

use super::{PyTensor, construct, tensor_in, wrap};
use crate::arguments::{LARGE, is_number, scalar_of};
use crate::call::run;
use crate::errors::raise;
use flambeau_core::{Layout, Result, ScalarType};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PySlice, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

#[pymethods]
impl PyTensor {
    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Object<'py>) -> PyResult<Object<'py>> {
        let (py, tensor) = (slf.py(), slf.get().tensor());
        if index.is_exact_instance_of::<PyInt>() && tensor.dim() > 0 {
            return wrap(py, ops::select_int(tensor, 0, index.extract()?).map_err(raise)?);
        }
        let parsed = ParsedIndex::parse(tensor, index)?;
        let found = match parsed.indices.is_empty() {
            true if parsed.view.is_same(tensor) => ops::alias(tensor).map_err(raise)?,
            true => parsed.view,
            false => run(py, tensor.numel() >= LARGE, || ops::index_tensor(&parsed.view, &parsed.indices))?,
        };
        wrap(py, found)
    }

    fn __setitem__<'py>(slf: &Bound<'py, Self>, index: &Object<'py>, value: &Object<'py>) -> PyResult<()> {
        slf.get().write(value, || {
            let (py, tensor) = (slf.py(), slf.get().peek());
            if tensor.layout() != Layout::Strided {
                return Err(PyTypeError::new_err("Cannot assign to a sparse tensor: its slices are copies"));
            }
            let parsed = ParsedIndex::parse(tensor, index)?;
            if parsed.indices.is_empty() {
                return assign(py, &parsed.view, value);
            }
            let values = values_for(tensor, value)?;
            run(py, true, || ops::index_put_(&parsed.view, &parsed.indices, &values, false))
        })
    }

    fn __delitem__(&self, _index: &Object<'_>) -> PyResult<()> {
        Err(PyTypeError::new_err("Tensor does not support deleting items"))
    }
}

/// A parsed index: the view that numbers, slices and `None` select, and the tensors that index this view, by dimension.
struct ParsedIndex {
    view: Tensor,
    indices: Vec<Option<Tensor>>,
    dim: i64,
}

impl ParsedIndex {
    fn parse(tensor: &Tensor, index: &Object<'_>) -> PyResult<ParsedIndex> {
        let mut parsed = ParsedIndex { view: tensor.clone(), indices: vec![], dim: 0 };
        let Ok(items) = index.cast::<PyTuple>() else {
            parsed.apply(index, 0)?;
            return Ok(parsed);
        };
        let used: i64 = items.iter_borrowed().map(|item| dimensions_of(&item)).sum();
        if used > tensor.dim() as i64 {
            return Err(PyIndexError::new_err(format!(
                "too many indices for tensor of dimension {}",
                tensor.dim()
            )));
        }
        if items.iter_borrowed().filter(|item| item.is(index.py().Ellipsis())).count() > 1 {
            return Err(PyIndexError::new_err("an index can only have a single ellipsis ('...')"));
        }
        for item in items.iter_borrowed() {
            parsed.apply(&item, tensor.dim() as i64 - used)?;
        }
        Ok(parsed)
    }

    /// Applies one item; `rest` is how many dimensions `...` stands for.
    fn apply(&mut self, item: &Object<'_>, rest: i64) -> PyResult<()> {
        let py = item.py();
        if item.is_none() {
            self.step(ops::unsqueeze)?;
            self.dim += 1;
        } else if item.is(py.Ellipsis()) {
            self.dim += rest;
        } else if let Ok(slice) = item.cast::<PySlice>() {
            self.slice(slice)?;
        } else if let Ok(flag) = item.cast::<PyBool>() {
            self.step(ops::unsqueeze)?;
            self.index(Tensor::from_vec(vec![flag.is_true()], &[1]).map_err(raise)?);
        } else if let Some(tensor) = tensor_in(item) {
            self.tensor(tensor)?;
        } else if is_number(item) {
            let at: i64 = item.extract().map_err(|_| refused(item))?;
            self.select(at)?;
        } else if item.hasattr("__len__")? && item.hasattr("__getitem__")? {
            self.index(construct::from_data(item, empty_as_indices(item)?, None)?);
        } else {
            return Err(refused(item));
        }
        Ok(())
    }

    fn step(&mut self, operator: impl FnOnce(&Tensor, i64) -> Result<Tensor>) -> PyResult<()> {
        self.view = operator(&self.view, self.dim).map_err(raise)?;
        Ok(())
    }

    fn select(&mut self, at: i64) -> PyResult<()> {
        if self.view.dim() == 0 {
            return Err(PyIndexError::new_err(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert it to a number",
            ));
        }
        self.step(|view, dim| ops::select_int(view, dim, at))
    }

    fn slice(&mut self, slice: &Bound<'_, PySlice>) -> PyResult<()> {
        if self.view.dim() == 0 {
            return Err(PyIndexError::new_err("slice() cannot be applied to a 0-dim tensor."));
        }
        let size = *self
            .view
            .sizes()
            .get(self.dim as usize)
            .ok_or_else(|| PyIndexError::new_err("too many indices"))?;
        let range = slice.indices(size as isize)?;
        if range.step <= 0 {
            return Err(PyValueError::new_err("step must be greater than zero"));
        }
        let (start, stop, step) = (range.start as i64, range.stop as i64, range.step as i64);
        if (start, step) != (0, 1) || stop < size {
            self.step(|view, dim| ops::slice_tensor(view, dim, Some(start), Some(stop), step))?;
        }
        self.dim += 1;
        Ok(())
    }

    /// An integer without dimensions selects, unless it differs between the examples of a batch; anything else indexes.
    fn tensor(&mut self, tensor: &Tensor) -> PyResult<()> {
        let differs = is_batched(tensor) && tensor.dtype().is_integral(false);
        if tensor.dim() > 0 || tensor.dtype() == ScalarType::U8 || differs {
            self.index(tensor.clone());
        } else if tensor.dtype() == ScalarType::Bool {
            self.step(ops::unsqueeze)?;
            self.index(ops::unsqueeze(tensor, 0).map_err(raise)?);
        } else if tensor.dtype().is_integral(false) {
            self.select(tensor.item_scalar().map_err(raise)?.to_i64())?;
        } else {
            return Err(PyIndexError::new_err(
                "tensors used as indices must be long, int, byte or bool tensors",
            ));
        }
        Ok(())
    }

    fn index(&mut self, index: Tensor) {
        let masks = matches!(index.dtype(), ScalarType::Bool | ScalarType::U8);
        let dims = if masks { index.dim().max(1) as i64 } else { 1 };
        self.indices.resize(self.dim as usize, None);
        self.indices.push(Some(index));
        self.dim += dims;
    }
}

/// How many dimensions of the tensor an item indexes.
fn dimensions_of(item: &Object<'_>) -> i64 {
    if item.is_none() || item.is(item.py().Ellipsis()) || item.is_instance_of::<PyBool>() {
        return 0;
    }
    match tensor_in(item) {
        Some(tensor) if matches!(tensor.dtype(), ScalarType::Bool | ScalarType::U8) => tensor.dim() as i64,
        _ => 1,
    }
}

/// An empty list is a list of int64 indices.
fn empty_as_indices(item: &Object<'_>) -> PyResult<Option<ScalarType>> {
    Ok((item.len()? == 0).then_some(ScalarType::I64))
}

fn refused(item: &Object<'_>) -> PyErr {
    let class = crate::arguments::type_name(item);
    PyIndexError::new_err(format!(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {class})"
    ))
}

/// Writes a number or a tensor into a view.
fn assign(py: Python<'_>, view: &Tensor, value: &Object<'_>) -> PyResult<()> {
    let large = view.numel() >= LARGE;
    if tensor_in(value).is_none() && is_number(value) {
        let number = scalar_of(value)?;
        return run(py, large, || ops::fill__scalar(view, number));
    }
    let values = without_leading_ones(values_for(view, value)?, view.dim())?;
    run(py, large, || ops::copy_(view, &values, false))
}

/// The value as a tensor of the target's type.
fn values_for(target: &Tensor, value: &Object<'_>) -> PyResult<Tensor> {
    match tensor_in(value) {
        Some(tensor) => Ok(tensor.clone()),
        None => construct::from_data(value, Some(target.dtype()), None),
    }
}

/// As in NumPy, `x[0] = ones(1, 3)` is allowed for a row.
fn without_leading_ones(values: Tensor, dim: usize) -> PyResult<Tensor> {
    let sizes = values.sizes();
    let extra = sizes.len().saturating_sub(dim);
    if extra == 0 || sizes[..extra].iter().any(|size| *size != 1) {
        return Ok(values);
    }
    let sizes = sizes[extra..].to_vec();
    ops::view(&values, &sizes).map_err(raise)
}
