//! Objects of classes that compute with tensors themselves: those without elements of their own, and those with.

use crate::arguments::{device_of, dtype_of, ints_of};
use crate::call::call;
use crate::errors::{error_from_python, raise};
use crate::tensor::{PyTensor, new_object_of, wrap};
use flambeau_autograd::Autograd;
use flambeau_core::{
    Device, DispatchKey, Geometry, Result, Scalar, ScalarType, TensorImpl, default_dtype, shape,
};
use flambeau_ops::{Tensor, ops};
use pyo3::prelude::*;
use pyo3::types::PyDict;

type Object<'py> = Bound<'py, PyAny>;

/// Whether a class computes with the tensor, which has no elements of its own.
pub(crate) fn is_wrapper(tensor: &Tensor) -> bool {
    let storage = tensor.storage();
    tensor.key_set().has(DispatchKey::Python) && storage.nbytes() == 0 && !storage.is_host()
}

/// Whether a class has `__torch_dispatch__`.
fn has_dispatch(class: &Object<'_>) -> bool {
    class.getattr("__flambeau_dispatch__").is_ok_and(|dispatch| !dispatch.is_none())
}

/// Adds the key `Python` to a tensor that becomes an object of the class, if the class computes with it.
pub(crate) fn add_key_of_class(class: &Object<'_>, tensor: &Tensor) {
    if !class.is(PyTensor::type_object(class.py())) && has_dispatch(class) {
        tensor.impl_().add_keys(DispatchKey::Python.into());
    }
}

/// An object of `cls` with sizes, strides, a dtype and a device, and without elements.
#[pyfunction]
#[pyo3(signature = (cls, size, strides = None, storage_offset = None, dtype = None, device = None, requires_grad = false))]
fn _make_wrapper_subclass<'py>(
    cls: &Object<'py>,
    size: &Object<'py>,
    strides: Option<&Object<'py>>,
    storage_offset: Option<i64>,
    dtype: Option<&Object<'py>>,
    device: Option<&Object<'py>>,
    requires_grad: bool,
) -> PyResult<Object<'py>> {
    let sizes = ints_of(size)?;
    let strides = match strides {
        Some(strides) => ints_of(strides)?,
        None => shape::contiguous_strides(&sizes),
    };
    let dtype: ScalarType = dtype.map(dtype_of).transpose()?.unwrap_or_else(default_dtype);
    let device: Device = device.map(device_of).transpose()?.unwrap_or(Device::CPU);
    let geometry = Geometry::strided(&sizes, &strides, storage_offset.unwrap_or(0)).map_err(raise)?;
    let made = TensorImpl::without_elements(geometry, dtype, device, DispatchKey::Python.into());
    let tensor = Tensor::from_impl(made.map_err(raise)?);
    if requires_grad {
        tensor.requires_grad_(true).map_err(raise)?;
    }
    new_object_of(cls, tensor)
}

/// Another tensor for the same elements: for one without elements an object of the same class with the same attributes.
pub(super) fn alias(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.key_set().has(DispatchKey::Python) {
        return Ok(Tensor::from_impl(tensor.impl_().shallow_copy()));
    }
    Python::attach(|py| {
        let object = wrap(py, tensor.clone())?;
        let copy = match is_wrapper(tensor) {
            true => {
                let (geometry, keys) = (tensor.geometry().clone(), DispatchKey::Python.into());
                TensorImpl::without_elements(geometry, tensor.dtype(), tensor.device(), keys)
                    .map_err(raise)?
            }
            false => tensor.impl_().shallow_copy(),
        };
        let copy = Tensor::from_impl(copy);
        let made = new_object_of(object.get_type().as_any(), copy.clone())?;
        let attributes = object.getattr("__dict__")?;
        call(&made.getattr("__dict__")?.getattr("update")?, (attributes.cast::<PyDict>()?,))?;
        Ok(copy)
    })
    .map_err(error_from_python)
}

/// The number that the class of a wrapper of one element says it is.
#[cold]
pub(crate) fn item_of_wrapper(tensor: &Tensor) -> Result<Scalar> {
    let _below = super::below_autograd();
    ops::_local_scalar_dense(tensor)
}

/// `TwoTensor(size=(2, 3), dtype=flambeau.float32)`, for classes without `__repr__`.
#[cold]
pub(crate) fn text_of_wrapper(py: Python<'_>, tensor: &Tensor) -> PyResult<String> {
    let class = wrap(py, tensor.clone())?.get_type();
    let (name, sizes) = (class.name()?, tensor.sizes());
    let grad = if tensor.requires_grad() { ", requires_grad=True" } else { "" };
    Ok(format!(
        "{name}(size={sizes:?}, dtype=flambeau.{}, device='{}'{grad})",
        tensor.dtype(),
        tensor.device()
    ))
}

/// Whether the tensor has no elements of its own, but those that its class knows.
#[pyfunction]
fn _is_wrapper(tensor: &Bound<'_, PyTensor>) -> bool {
    is_wrapper(tensor.get().peek())
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_is_wrapper, module)?)?;
    module.add_function(wrap_pyfunction!(_make_wrapper_subclass, module)?)
}
