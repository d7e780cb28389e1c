//! Tensors from Python's numbers and nested lists, and instances of subclasses.

use super::{PyTensor, make_known, tensor_in, wrap};
use crate::arguments::{device_of, dtype_of, is_number, scalar_of, type_name};
use crate::errors::raise;
use crate::numpy;
use flambeau_autograd::Autograd;
use flambeau_core::{Device, Element, Scalar, ScalarType, default_dtype, fallible};
use flambeau_ops::{Tensor, dispatch_all_types, ops};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::cell::Cell;

type Object<'py> = Bound<'py, PyAny>;

#[pymethods]
impl PyTensor {
    /// `Tensor(data)`, or `Tensor(2, 3)` for sizes, as of old: of the default type. `flambeau.tensor` is what to use.
    #[new]
    #[pyo3(signature = (*data, device = None))]
    fn new_object(data: &Bound<'_, PyTuple>, device: Option<&Object<'_>>) -> PyResult<Self> {
        if let Some(tensor) = HANDED_OVER.take() {
            return Ok(PyTensor::new(tensor));
        }
        let device = device.map(device_of).transpose()?;
        let sizes: Option<Vec<i64>> = data.extract().ok();
        let first = if data.len() == 1 { Some(data.get_item(0)?) } else { None };
        let tensor = match (first.as_ref().and_then(tensor_in), sizes, &first) {
            (Some(tensor), _, _) => without_history(tensor)?,
            (None, Some(sizes), _) => {
                let sizes = if sizes.is_empty() { vec![0] } else { sizes };
                ops::empty_memory_format(&sizes, None, None, device, None, None).map_err(raise)?
            }
            (None, None, Some(data)) => from_data_or_array(data, device)?,
            (None, None, None) => {
                return Err(PyTypeError::new_err("Tensor() takes sizes, or one sequence or tensor"));
            }
        };
        Ok(PyTensor::new(tensor))
    }

    /// An object of `cls`, a subclass, that looks at the elements, with their history.
    fn as_subclass<'py>(&self, cls: &Object<'py>) -> PyResult<Object<'py>> {
        made_of(cls, ops::alias(self.tensor()).map_err(raise)?)
    }

    /// An object of `cls`, a subclass, that looks at the elements of `data` without its history.
    #[staticmethod]
    #[pyo3(signature = (cls, data, require_grad = false))]
    fn _make_subclass<'py>(
        cls: &Object<'py>,
        data: &Bound<'py, PyTensor>,
        require_grad: bool,
    ) -> PyResult<Object<'py>> {
        let object = PyTensor::type_object(cls.py()).getattr("__new__")?.call1((cls, data))?;
        register(&object)?;
        if require_grad && let Some(tensor) = tensor_in(&object) {
            tensor.requires_grad_(true).map_err(raise)?;
        }
        Ok(object)
    }
}

thread_local! {
    /// The tensor that the next object is to be made of, as it is.
    static HANDED_OVER: Cell<Option<Tensor>> = const { Cell::new(None) };
}

/// An object of `cls` for a tensor that has come from an operator, in the place of the plain one.
#[pyfunction(name = "_hand_over")]
pub(crate) fn hand_over<'py>(cls: &Object<'py>, tensor: &Bound<'py, PyTensor>) -> PyResult<Object<'py>> {
    made_of(cls, tensor.get().tensor().clone())
}

/// An object of `cls`, a class of tensors, for a tensor as it is.
pub(super) fn made_of<'py>(cls: &Object<'py>, tensor: Tensor) -> PyResult<Object<'py>> {
    let make = PyTensor::type_object(cls.py()).getattr("__new__")?;
    HANDED_OVER.set(Some(tensor));
    let made = make.call1((cls,));
    HANDED_OVER.set(None);
    let object = made?;
    register(&object)?;
    Ok(object)
}

/// Makes `object`, which `Tensor.__new__` made, the one that its tensor comes back as.
#[pyfunction(name = "_register")]
pub(crate) fn register(object: &Object<'_>) -> PyResult<()> {
    make_known(object.cast::<PyTensor>()?.as_any());
    Ok(())
}

/// A new tensor with a copy of `data`: a number, nested sequences of numbers, or a tensor.
#[pyfunction]
#[pyo3(signature = (data, *, dtype = None, device = None, requires_grad = false, pin_memory = false))]
pub(crate) fn tensor<'py>(
    data: &Object<'py>,
    dtype: Option<&Object<'py>>,
    device: Option<&Object<'py>>,
    requires_grad: bool,
    pin_memory: bool,
) -> PyResult<Object<'py>> {
    if pin_memory {
        return Err(PyValueError::new_err("pinned memory needs a CUDA device"));
    }
    let (dtype, device) = (dtype.map(dtype_of).transpose()?, device.map(device_of).transpose()?);
    let made = match tensor_in(data) {
        Some(tensor) => copied(tensor, dtype, device, true)?,
        None => match numpy::to_be_copied(data)? {
            Some(array) => copied(&array, dtype, device, true)?,
            None => from_data(data, dtype, device)?,
        },
    };
    if requires_grad {
        made.requires_grad_(true).map_err(raise)?;
    }
    wrap(data.py(), made)
}

/// `data` itself where it is a tensor of that type and device, its elements where it is such an array of NumPy's, and otherwise
/// a new tensor.
#[pyfunction]
#[pyo3(signature = (data, dtype = None, device = None))]
pub(crate) fn as_tensor<'py>(
    data: &Object<'py>,
    dtype: Option<&Object<'py>>,
    device: Option<&Object<'py>>,
) -> PyResult<Object<'py>> {
    let (dtype, device) = (dtype.map(dtype_of).transpose()?, device.map(device_of).transpose()?);
    let made = match tensor_in(data) {
        Some(tensor) => {
            ops::to_dtype_layout(tensor, dtype, None, device, None, false, false, None).map_err(raise)?
        }
        None => match numpy::shared(data)? {
            Some(array) => copied(&array, dtype, device, false)?,
            None => from_data(data, dtype, device)?,
        },
    };
    wrap(data.py(), made)
}

/// As of old: elements of the default type, those of an array of that type without a copy.
fn from_data_or_array(data: &Object<'_>, device: Option<Device>) -> PyResult<Tensor> {
    let dtype = Some(default_dtype());
    match numpy::shared(data)? {
        Some(array) => copied(&array, dtype, device, false),
        None => from_data(data, dtype, device),
    }
}

/// The same elements, in a tensor that autograd takes for a new one.
pub(crate) fn without_history(tensor: &Tensor) -> PyResult<Tensor> {
    let same = tensor.impl_().alias(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    same.map(Tensor::from_impl).map_err(raise)
}

fn copied(
    tensor: &Tensor,
    dtype: Option<ScalarType>,
    device: Option<Device>,
    copy: bool,
) -> PyResult<Tensor> {
    let plain = ops::detach(tensor).map_err(raise)?;
    ops::to_dtype_layout(&plain, dtype, None, device, None, false, copy, None).map_err(raise)
}

/// A tensor of the numbers in nested sequences.
pub(super) fn from_data(
    data: &Object<'_>,
    dtype: Option<ScalarType>,
    device: Option<Device>,
) -> PyResult<Tensor> {
    let mut sizes = vec![];
    measure(data, &mut sizes)?;
    let count = sizes.iter().fold(1usize, |product, size| product.saturating_mul(*size as usize));
    let mut numbers = fallible::with_capacity(count).map_err(|e| raise(e.context("tensor")))?;
    flatten(data, &sizes, &mut numbers)?;
    let dtype = dtype.unwrap_or_else(|| inferred(&numbers));
    let host = filled(&numbers, &sizes, dtype)?;
    match device {
        None => Ok(host),
        Some(device) if device.is_cpu() => Ok(host),
        Some(device) => copied(&host, None, Some(device), false),
    }
}

/// The sizes, as the first items tell them; the others are held against them.
fn measure(data: &Object<'_>, sizes: &mut Vec<i64>) -> PyResult<()> {
    if let Some(array) = numpy::to_be_copied(data)? {
        sizes.extend_from_slice(array.sizes());
        return Ok(());
    }
    if let Some(tensor) = tensor_in(data) {
        sizes.extend_from_slice(tensor.sizes());
        return Ok(());
    }
    let Some(length) = sequence_length(data)? else { return Ok(()) };
    sizes.push(length as i64);
    if length == 0 { Ok(()) } else { measure(&data.get_item(0)?, sizes) }
}

/// The length, if it is a sequence; text is none.
fn sequence_length(data: &Object<'_>) -> PyResult<Option<usize>> {
    if let Ok(list) = data.cast::<PyList>() {
        return Ok(Some(list.len()));
    }
    if let Ok(tuple) = data.cast::<PyTuple>() {
        return Ok(Some(tuple.len()));
    }
    if is_number(data) {
        return Ok(None);
    }
    if data.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", type_name(data))));
    }
    Ok(data
        .hasattr("__len__")?
        .then(|| data.len())
        .transpose()?
        .filter(|_| data.hasattr("__getitem__").unwrap_or(false)))
}

fn flatten(data: &Object<'_>, sizes: &[i64], into: &mut Vec<Scalar>) -> PyResult<()> {
    if let Some(tensor) = tensor_in(data) {
        return flatten_tensor(tensor, sizes, into);
    }
    if let Some(array) = numpy::to_be_copied(data)? {
        return flatten_tensor(&array, sizes, into);
    }
    let [first, rest @ ..] = sizes else {
        if !is_number(data) {
            let class = type_name(data);
            return Err(match data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>() {
                true => PyTypeError::new_err(format!("must be real number, not {class}")),
                false if data.is_instance_of::<PyString>() => {
                    PyTypeError::new_err(format!("new(): invalid data type '{class}'"))
                }
                false => PyRuntimeError::new_err(format!("Could not infer dtype of {class}")),
            });
        }
        fallible::push(into, scalar_of(data)?).map_err(raise)?;
        return Ok(());
    };
    let Some(length) = sequence_length(data)? else {
        return Err(PyTypeError::new_err(format!("expected a sequence of length {first} but got a number")));
    };
    if length as i64 != *first {
        return Err(PyValueError::new_err(format!("expected sequence of length {first} (got {length})")));
    }
    if let Ok(list) = data.cast::<PyList>() {
        return list.iter().try_for_each(|item| flatten(&item, rest, into));
    }
    data.try_iter()?.try_for_each(|item| flatten(&item?, rest, into))
}

fn flatten_tensor(tensor: &Tensor, sizes: &[i64], into: &mut Vec<Scalar>) -> PyResult<()> {
    if tensor.sizes() != sizes {
        let message = format!("expected a tensor of sizes {sizes:?} but got {:?}", tensor.sizes());
        return Err(PyValueError::new_err(message));
    }
    let flat = ops::reshape(&ops::detach(tensor).map_err(raise)?, &[-1]).map_err(raise)?;
    for element in ops::unbind_int(&flat, 0).map_err(raise)? {
        fallible::push(into, element.item_scalar().map_err(raise)?).map_err(raise)?;
    }
    Ok(())
}

/// Floating point if any number is, else integers if any is, else bool; of nothing, the default type.
fn inferred(numbers: &[Scalar]) -> ScalarType {
    let floats = numbers.iter().any(|number| number.is_floating_point());
    let bools = numbers.iter().all(|number| matches!(number, Scalar::Bool(_)));
    match () {
        () if floats || numbers.is_empty() => default_dtype(),
        () if bools => ScalarType::Bool,
        () => ScalarType::I64,
    }
}

/// The numbers as a tensor of a type that must hold them.
fn filled(numbers: &[Scalar], sizes: &[i64], dtype: ScalarType) -> PyResult<Tensor> {
    if dtype.is_integral(false) {
        numbers.iter().try_for_each(|number| number.check_range(dtype)).map_err(raise)?;
    }
    dispatch_all_types!(all, dtype, "tensor", T => {
        fallible::collect(numbers.iter().map(|number| T::from_scalar(*number)))
            .and_then(|values| Tensor::from_vec(values, sizes))
    })
    .map_err(raise)
}
