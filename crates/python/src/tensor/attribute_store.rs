//! The class and the attributes of a Python object that was deallocated while its tensor lives on in Rust.
//!
//! When the tensor is returned to Python again, from `grad` or by a hook, a new object with this class and these attributes is made
//! (resurrection). PyTorch keeps the object itself alive instead, which the stable ABI does not allow.

use super::PyTensor;
use super::construct::new_object_of;
use crate::cycles::Counted;
use flambeau_core::TensorImpl;
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyType};

/// The front end's data attached to a tensor.
pub(crate) struct AttributeStore(Mutex<Option<Parts>>);

struct Parts {
    class: Py<PyType>,
    attributes: Py<PyDict>,
    _counted: Counted,
}

impl AttributeStore {
    /// Stores the class and the attributes of an object that is being deallocated, unless it is a plain `Tensor` without attributes.
    pub(super) fn store(
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
        if let Some(store) = store_of(tensor.impl_()) {
            let before = std::mem::replace(&mut *store.0.lock(), parts);
            return drop(before);
        }
        // Data that another front end has attached stays.
        let _ = tensor.impl_().set_front_end(Box::new(AttributeStore(Mutex::new(parts))));
    }

    /// Visits them for the cyclic garbage collector, which only calls this for a tensor with a single owner.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(parts) = self.0.try_lock() else { return Ok(()) };
        let Some(parts) = &*parts else { return Ok(()) };
        visit.call(&parts.class)?;
        visit.call(&parts.attributes)
    }

    pub(super) fn clear(&self) {
        let parts = self.0.lock().take();
        drop(parts);
    }
}

#[inline]
fn store_of(tensor: &TensorImpl) -> Option<&AttributeStore> {
    tensor.front_end()?.downcast_ref()
}

/// A new object for a tensor whose previous object stored its class and attributes.
#[inline]
pub(super) fn resurrected<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    match store_of(tensor.impl_()) {
        None => Ok(None),
        Some(store) => resurrect(py, tensor, store),
    }
}

#[cold]
fn resurrect<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    store: &AttributeStore,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let parts = store.0.lock().take();
    let Some(Parts { class, attributes, .. }) = parts else { return Ok(None) };
    let object = new_object_of(class.bind(py).as_any(), tensor.clone())?;
    object.setattr("__dict__", attributes)?;
    Ok(Some(object))
}
