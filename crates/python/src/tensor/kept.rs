//! What Python put on a tensor whose object is gone, while the tensor lives on in Rust: its class and its attributes.
//!
//! An object that comes back, from `grad`, from a hook, has them again, as if it had never gone. What PyTorch does by keeping the
//! object itself, which the stable interface has no way to do.

use super::PyTensor;
use super::construct::made_of;
use crate::cycles::Counted;
use flambeau_core::TensorImpl;
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyType};

/// What the front end keeps with a tensor.
pub(crate) struct Kept(Mutex<Option<Parts>>);

struct Parts {
    class: Py<PyType>,
    attributes: Py<PyDict>,
    _counted: Counted,
}

impl Kept {
    /// Keeps the class and the attributes of an object that goes, unless both are those of any tensor.
    pub(super) fn keep(
        py: Python<'_>,
        class: &Bound<'_, PyType>,
        attributes: Option<Bound<'_, PyDict>>,
        tensor: &Tensor,
    ) {
        let attributes = attributes.filter(|attributes| !attributes.is_empty());
        if attributes.is_none() && class.is(PyTensor::type_object(py)) {
            return;
        }
        let attributes = attributes.unwrap_or_else(|| PyDict::new(py)).unbind();
        let parts = Some(Parts { class: class.clone().unbind(), attributes, _counted: Counted::new() });
        if let Some(place) = place(tensor.impl_()) {
            let before = std::mem::replace(&mut *place.0.lock(), parts);
            return drop(before);
        }
        // What another front end has attached stays.
        let _ = tensor.impl_().set_front_end(Box::new(Kept(Mutex::new(parts))));
    }

    /// Shows them to the collector of cycles. Whoever asks is alone with the tensor.
    pub(crate) fn show(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(parts) = self.0.try_lock() else { return Ok(()) };
        let Some(parts) = &*parts else { return Ok(()) };
        visit.call(&parts.class)?;
        visit.call(&parts.attributes)
    }

    pub(super) fn forget(&self) {
        let parts = self.0.lock().take();
        drop(parts);
    }
}

#[inline]
fn place(tensor: &TensorImpl) -> Option<&Kept> {
    tensor.front_end()?.downcast_ref()
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
    let parts = place.0.lock().take();
    let Some(Parts { class, attributes, .. }) = parts else { return Ok(None) };
    let object = made_of(class.bind(py).as_any(), tensor.clone())?;
    object.setattr("__dict__", attributes)?;
    Ok(Some(object))
}
