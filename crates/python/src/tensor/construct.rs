//! Tensors from Python's numbers and nested lists, and instances of subclasses.

use super::{PyTensor, register_object, tensor_in, wrap};
use crate::arguments::{device_of, dtype_of, dtype_of_number, is_number, scalar_of, type_name};
use crate::call::call;
use crate::errors::raise;
use crate::{dispatch, dlpack, numpy};
use flambeau_autograd::Autograd;
use flambeau_core::sizes_and_strides::MAX_DIMS;
use flambeau_core::{Device, DimVec, Element, Layout, Scalar, ScalarType, default_dtype, fallible, shape};
use flambeau_ops::{Tensor, dispatch_all_types, ops};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::cell::Cell;

type Object<'py> = Bound<'py, PyAny>;

#[pymethods]
impl PyTensor {
    /// `Tensor(data)`, or `Tensor(2, 3)` for sizes, as of old: of the default type. `flambeau.tensor` is what to use.
    #[new]
    #[pyo3(signature = (*data, device = None))]
    fn new_object(data: &Bound<'_, PyTuple>, device: Option<&Object<'_>>) -> PyResult<Self> {
        if let Some(tensor) = TENSOR_FOR_NEW.take() {
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

    /// An object of `cls`, a subclass, that shares the elements, with their history.
    fn as_subclass<'py>(&self, cls: &Object<'py>) -> PyResult<Object<'py>> {
        let alias = ops::alias(self.tensor()).map_err(raise)?;
        dispatch::add_key_of_class(cls, &alias);
        new_object_of(cls, alias)
    }

    /// An object of `cls`, a subclass, that shares the elements of `data` without its history.
    #[staticmethod]
    #[pyo3(signature = (cls, data, require_grad = false))]
    fn _make_subclass<'py>(
        cls: &Object<'py>,
        data: &Bound<'py, PyTensor>,
        require_grad: bool,
    ) -> PyResult<Object<'py>> {
        let object = call(&PyTensor::type_object(cls.py()).getattr("__new__")?, (cls, data))?;
        register(&object)?;
        if let Some(tensor) = tensor_in(&object) {
            dispatch::add_key_of_class(cls, tensor);
        }
        if require_grad && let Some(tensor) = tensor_in(&object) {
            tensor.requires_grad_(true).map_err(raise)?;
        }
        Ok(object)
    }
}

thread_local! {
    /// The tensor for which the next call of `__new__` makes an object.
    static TENSOR_FOR_NEW: Cell<Option<Tensor>> = const { Cell::new(None) };
}

/// An object of `cls` for the result of an operator, instead of the plain `Tensor`.
#[pyfunction(name = "_make_subclass")]
pub(crate) fn make_subclass<'py>(cls: &Object<'py>, tensor: &Bound<'py, PyTensor>) -> PyResult<Object<'py>> {
    let tensor = tensor.get().tensor();
    dispatch::add_key_of_class(cls, tensor);
    new_object_of(cls, tensor.clone())
}

/// An object of `cls`, a class of tensors, for a tensor as it is.
pub(crate) fn new_object_of<'py>(cls: &Object<'py>, tensor: Tensor) -> PyResult<Object<'py>> {
    let make = PyTensor::type_object(cls.py()).getattr("__new__")?;
    TENSOR_FOR_NEW.set(Some(tensor));
    let made = call(&make, (cls,));
    TENSOR_FOR_NEW.set(None);
    let object = made?;
    register(&object)?;
    Ok(object)
}

/// Registers `object`, which `Tensor.__new__` made, as the object of its tensor.
#[pyfunction(name = "_register")]
pub(crate) fn register(object: &Object<'_>) -> PyResult<()> {
    register_object(object.cast::<PyTensor>()?.as_any());
    Ok(())
}

/// A new tensor with a copy of `data`: a number, nested sequences of numbers, a tensor, an array, or another library's tensor.
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
        None => match array_in(data)? {
            Some(array) => copied(&array, dtype, device, true)?,
            None => from_data(data, dtype, device)?,
        },
    };
    if requires_grad {
        made.requires_grad_(true).map_err(raise)?;
    }
    wrap(data.py(), made)
}

/// `data` itself where it is a tensor of that type and device, its elements where it is such an array of NumPy's or another library's
/// tensor, and otherwise a new tensor.
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
        None => match shared(data)? {
            Some(array) => copied(&array, dtype, device, false)?,
            None => from_data(data, dtype, device)?,
        },
    };
    wrap(data.py(), made)
}

/// As of old: elements of the default type, those of an array of that type without a copy.
fn from_data_or_array(data: &Object<'_>, device: Option<Device>) -> PyResult<Tensor> {
    let dtype = Some(default_dtype());
    match shared(data)? {
        Some(array) => copied(&array, dtype, device, false),
        None => from_data(data, dtype, device),
    }
}

/// The same elements, in a tensor that autograd takes for a new one.
pub(crate) fn without_history(tensor: &Tensor) -> PyResult<Tensor> {
    if dispatch::is_wrapper(tensor) || tensor.layout() != Layout::Strided {
        return ops::detach(tensor).map_err(raise);
    }
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
    let sizes = measure(data)?;
    let mut found = Found::with_room(shape::numel(&sizes).map_err(raise)?)?;
    found.take(data, &sizes)?;
    let dtype = dtype.unwrap_or_else(|| found.dtype.unwrap_or_else(default_dtype));
    let host = filled(&found.numbers, &sizes, dtype)?;
    match device {
        None => Ok(host),
        Some(device) if device.is_cpu() => Ok(host),
        Some(device) => copied(&host, None, Some(device), false),
    }
}

/// The sizes, read from the first items; the other items are checked against them. The depth is bounded, since a list may contain itself.
fn measure(data: &Object<'_>) -> PyResult<DimVec> {
    let mut sizes = DimVec::new();
    let mut item = data.clone();
    loop {
        match found_in(&item)? {
            Some(tensor) => {
                sizes.extend_from_slice(tensor.sizes());
                break;
            }
            None => match sequence_length(&item)? {
                Some(length) => sizes.push(length as i64),
                None => break,
            },
        }
        if sizes.last() == Some(&0) || sizes.len() > MAX_DIMS {
            break;
        }
        item = first_of(&item)?;
    }
    if sizes.len() > MAX_DIMS {
        return Err(PyValueError::new_err(format!(
            "new(): too many dimensions '{}': expected at most {MAX_DIMS}, but the data is nested deeper",
            type_name(data)
        )));
    }
    Ok(sizes)
}

fn first_of<'py>(sequence: &Object<'py>) -> PyResult<Object<'py>> {
    match (sequence.cast::<PyList>(), sequence.cast::<PyTuple>()) {
        (Ok(list), _) => list.get_item(0),
        (_, Ok(tuple)) => tuple.get_item(0),
        _ => call(&sequence.getattr("__getitem__")?, (0,)),
    }
}

/// The tensor that an item of nested sequences is, or that shares the elements of an array.
fn found_in(item: &Object<'_>) -> PyResult<Option<Tensor>> {
    match tensor_in(item) {
        Some(tensor) => Ok(Some(tensor.clone())),
        None => array_in(item),
    }
}

/// A tensor of the elements of an array or of another library's tensor, which are copied next.
fn array_in(data: &Object<'_>) -> PyResult<Option<Tensor>> {
    match numpy::to_be_copied(data)? {
        Some(array) => Ok(Some(array)),
        None => dlpack::exported(data),
    }
}

/// The same, which shares the elements.
fn shared(data: &Object<'_>) -> PyResult<Option<Tensor>> {
    match numpy::shared(data)? {
        Some(array) => Ok(Some(array)),
        None => dlpack::exported(data),
    }
}

/// The length, if it is a sequence; text is none, and neither is a mapping.
fn sequence_length(data: &Object<'_>) -> PyResult<Option<usize>> {
    if let Ok(list) = data.cast::<PyList>() {
        return Ok(Some(list.len()));
    }
    if let Ok(tuple) = data.cast::<PyTuple>() {
        return Ok(Some(tuple.len()));
    }
    if is_number(data) || data.is_instance_of::<PyDict>() {
        return Ok(None);
    }
    if data.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", type_name(data))));
    }
    if !data.hasattr("__getitem__")? || !data.hasattr("__len__")? {
        return Ok(None);
    }
    call(&data.getattr("__len__")?, ())?.extract().map(Some)
}

/// The items of a sequence that Python code may make one by one, some hundred at a time.
struct Items<'py> {
    iterator: Object<'py>,
    islice: Object<'py>,
}

impl<'py> Items<'py> {
    fn of(sequence: &Object<'py>) -> PyResult<Self> {
        let py = sequence.py();
        let iterator = call(&py.import("builtins")?.getattr("iter")?, (sequence,))?;
        Ok(Items { iterator, islice: py.import("itertools")?.getattr("islice")? })
    }

    /// The next ones, `most` at most; none where there are no more.
    fn next(&mut self, most: usize) -> PyResult<Bound<'py, PyList>> {
        let next = call(&self.islice, (&self.iterator, most.min(512)))?;
        let list = call(next.py().get_type::<PyList>().as_any(), (next,))?;
        Ok(list.cast_into::<PyList>()?)
    }
}

/// The numbers in nested sequences, and the type that they promote to; none where there are none.
struct Found {
    numbers: Vec<Scalar>,
    dtype: Option<ScalarType>,
}

impl Found {
    fn with_room(count: i64) -> PyResult<Self> {
        let numbers = fallible::with_capacity(count as usize).map_err(|e| raise(e.context("tensor")))?;
        Ok(Found { numbers, dtype: None })
    }

    /// Appends data that must have these sizes.
    fn take(&mut self, data: &Object<'_>, sizes: &[i64]) -> PyResult<()> {
        if let Some(tensor) = found_in(data)? {
            return self.take_tensor(&tensor, sizes);
        }
        let [first, rest @ ..] = sizes else { return self.take_number(data) };
        let Some(length) = sequence_length(data)? else {
            return Err(PyTypeError::new_err(format!(
                "expected a sequence of length {first} but got a number"
            )));
        };
        let wrong =
            |length| PyValueError::new_err(format!("expected sequence of length {first} (got {length})"));
        if length as i64 != *first {
            return Err(wrong(length));
        }
        if let Ok(list) = data.cast::<PyList>() {
            return list.iter().try_for_each(|item| self.take(&item, rest));
        }
        if let Ok(tuple) = data.cast::<PyTuple>() {
            return tuple.iter_borrowed().try_for_each(|item| self.take(&item, rest));
        }
        let mut count = 0;
        let mut items = Items::of(data)?;
        while count < length {
            let next = items.next(length - count)?;
            if next.is_empty() {
                return Err(wrong(count));
            }
            next.iter().try_for_each(|item| self.take(&item, rest))?;
            count += next.len();
        }
        Ok(())
    }

    fn take_number(&mut self, data: &Object<'_>) -> PyResult<()> {
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
        let number = scalar_of(data)?;
        self.note(dtype_of_number(data, number));
        fallible::push(&mut self.numbers, number).map_err(raise)?;
        Ok(())
    }

    fn take_tensor(&mut self, tensor: &Tensor, sizes: &[i64]) -> PyResult<()> {
        if tensor.sizes() != sizes {
            let message = format!("expected a tensor of sizes {sizes:?} but got {:?}", tensor.sizes());
            return Err(PyValueError::new_err(message));
        }
        self.note(tensor.dtype());
        let flat = ops::reshape(&ops::detach(tensor).map_err(raise)?, &[-1]).map_err(raise)?;
        for element in ops::unbind_int(&flat, 0).map_err(raise)? {
            let number = element.item_scalar().map_err(raise)?;
            fallible::push(&mut self.numbers, number).map_err(raise)?;
        }
        Ok(())
    }

    fn note(&mut self, dtype: ScalarType) {
        if self.dtype != Some(dtype) {
            self.dtype = self.dtype.map_or(Some(dtype), |before| before.promote(dtype).or(Some(dtype)));
        }
    }
}

/// The numbers as a tensor of a type that must hold them.
fn filled(numbers: &[Scalar], sizes: &[i64], dtype: ScalarType) -> PyResult<Tensor> {
    if dtype.is_integral(false) || (!dtype.is_complex() && numbers.iter().any(|number| number.is_complex())) {
        numbers.iter().try_for_each(|number| number.check_range(dtype)).map_err(raise)?;
    }
    dispatch_all_types!(stored, dtype, "tensor", T => {
        fallible::collect(numbers.iter().map(|number| T::from_scalar(*number)))
            .and_then(|values| Tensor::from_vec(values, sizes))
    })
    .map_err(raise)
}
