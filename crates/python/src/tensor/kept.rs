//! What Python put on a tensor whose object is gone, while the tensor lives on in Rust: its class and its attributes.
//!
//! An object that comes back, from `grad`, from a hook, has them again, as if it had never gone. What PyTorch does by keeping the
//! object itself, which the stable interface has no way to do.

#![expect(unsafe_code, reason = "looks at an object that is on its way out")]

use super::PyTensor;
use super::construct::made_of;
use flambeau_core::{IntrusivePtr, TensorImpl};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::ptr;

/// Attached to a tensor as its extension.
struct Kept(Mutex<Option<(Py<PyType>, Py<PyDict>)>>);

/// Keeps the class and the attributes of an object that is being deallocated, if somebody else holds its tensor.
///
/// # Safety
/// - The interpreter's lock is held, and the object's attributes are still in place.
pub(super) unsafe fn keep(object: *mut ffi::PyObject, tensor: &Tensor) {
    if IntrusivePtr::strong_count(tensor.impl_()) == 1 {
        return;
    }
    // SAFETY: the lock is held. The function leaves the count of the object alone, which has reached 0.
    let (py, attributes, class) = unsafe {
        let py = Python::assume_attached();
        let found = ffi::PyObject_GenericGetDict(object, ptr::null_mut());
        (
            py,
            Bound::from_owned_ptr_or_opt(py, found),
            Bound::from_borrowed_ptr(py, ffi::Py_TYPE(object).cast()),
        )
    };
    let (Some(Ok(attributes)), Ok(class)) =
        (attributes.map(Bound::cast_into::<PyDict>), class.cast_into::<PyType>())
    else {
        // Not even an empty dictionary could be made: there were no attributes.
        return drop(PyErr::take(py));
    };
    if attributes.is_empty() && class.is(PyTensor::type_object(py)) {
        return;
    }
    // The dictionary itself is emptied with the object.
    match attributes.copy() {
        Ok(attributes) => attach(tensor, (class.unbind(), attributes.unbind())),
        Err(error) => error.write_unraisable(py, None),
    }
}

fn attach(tensor: &Tensor, kept: (Py<PyType>, Py<PyDict>)) {
    if let Some(place) = place(tensor.impl_()) {
        *place.0.lock() = Some(kept);
        return;
    }
    // What another front end has attached stays.
    let _ = tensor.impl_().set_extension(Box::new(Kept(Mutex::new(Some(kept)))));
}

#[inline]
fn place(tensor: &TensorImpl) -> Option<&Kept> {
    tensor.extension()?.downcast_ref()
}

/// A new object for a tensor whose last one left something to keep.
#[inline]
pub(super) fn revived<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    match place(tensor.impl_()) {
        None => Ok(None),
        Some(place) => revive(py, tensor, place),
    }
}

#[cold]
fn revive<'py>(py: Python<'py>, tensor: &Tensor, place: &Kept) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some((class, attributes)) = place.0.lock().take() else { return Ok(None) };
    let object = made_of(class.bind(py).as_any(), tensor.clone())?;
    object.setattr("__dict__", attributes)?;
    Ok(Some(object))
}
