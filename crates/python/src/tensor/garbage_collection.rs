//! `tp_traverse`, `tp_clear` and deallocation of a tensor's Python object.
//!
//! PyO3 0.27 releases neither the dictionary of a deallocated object, which it only empties, nor its reference to the class.

#![expect(unsafe_code, reason = "looks into the object around a tensor")]

use super::{AttributeStore, PyTensor};
use crate::cycles;
use crate::errors::raise;
use flambeau_autograd::exclusive::{Owned, clear_autograd_state, is_exclusive};
use flambeau_core::IntrusivePtr;
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// Offsets of the parts of an object, in bytes from its start.
struct Layout {
    value: usize,
    attributes: usize,
    /// Whether the deallocation of an object does not decrement the reference count of its class.
    leaves_class: bool,
}

static LAYOUT: OnceLock<Layout> = OnceLock::new();

/// Finds out the layout and the behaviour on deallocation, by making one object.
pub(super) fn install(py: Python<'_>) -> PyResult<()> {
    let class = PyTensor::type_object(py);
    // SAFETY: the class is there, and the lock is held.
    let count = || unsafe { ffi::Py_REFCNT(class.as_ptr()) };
    let before = count();
    let object = Bound::new(py, PyTensor::new(Tensor::from_vec(vec![0.0f32], &[1]).map_err(raise)?))?;
    let value = ptr::from_ref(object.get()).addr().checked_sub(object.as_ptr().addr());
    drop(object);
    let Some(value) = value else {
        return Err(PyRuntimeError::new_err("expected an object to begin before its value"));
    };
    let attributes = class.getattr("__dictoffset__")?.extract()?;
    LAYOUT.get_or_init(|| Layout { value, attributes, leaves_class: count() > before });
    Ok(())
}

impl Layout {
    /// The object around a tensor.
    fn object(&self, tensor: &PyTensor) -> *mut ffi::PyObject {
        ptr::with_exposed_provenance_mut(ptr::from_ref(tensor).expose_provenance() - self.value)
    }

    /// The address of the slot of the dictionary, which is null until there is one.
    ///
    /// # Safety
    /// - (tensor) The object is one of the class `Tensor` or of a subclass.
    unsafe fn attributes(&self, object: *mut ffi::PyObject) -> *mut Option<NonNull<ffi::PyObject>> {
        // SAFETY: (tensor): it lies inside.
        unsafe { object.byte_add(self.attributes).cast() }
    }
}

/// A pointer to an object as a reference to a reference.
fn borrowed(pointer: &NonNull<ffi::PyObject>) -> &Py<PyAny> {
    // SAFETY: `Py` is such a pointer, and no more; a borrow of it counts nothing.
    unsafe { &*ptr::from_ref(pointer).cast() }
}

#[pymethods]
impl PyTensor {
    /// Attributes belong to the object alone if nobody else has its tensor; otherwise they are [stored](AttributeStore) when the object is
    /// deallocated.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(layout) = LAYOUT.get() else { return Ok(()) };
        let object = layout.object(self);
        // SAFETY: (tensor) the collector knows the tensor by its object.
        let (class, attributes) = unsafe { (ffi::Py_TYPE(object), *layout.attributes(object)) };
        if layout.leaves_class
            && let Some(class) = NonNull::new(class.cast())
        {
            visit.call(borrowed(&class))?;
        }
        if !cycles::can_traverse() || attributes.is_none() && !cycles::are_any_held() {
            return Ok(());
        }
        let alone = match cycles::are_any_held() {
            true => cycles::traverse(Owned::Tensor(self.peek()), &visit)?,
            false => is_exclusive(self.peek()),
        };
        if alone && let Some(attributes) = attributes { visit.call(borrowed(&attributes)) } else { Ok(()) }
    }

    fn __clear__(&self) {
        let Some(layout) = LAYOUT.get() else { return };
        if IntrusivePtr::strong_count(self.peek().impl_()) != 1 {
            return;
        }
        // SAFETY: (tensor); the lock is held, and the reference in the slot is owned by whoever takes it out.
        let attributes = unsafe { (*layout.attributes(layout.object(self))).take() };
        clear_autograd_state(self.peek(), &mut |extension| {
            extension.downcast_ref().into_iter().for_each(AttributeStore::clear);
        });
        if let Some(attributes) = attributes {
            // SAFETY: as above.
            unsafe { ffi::Py_DECREF(attributes.as_ptr()) };
        }
    }
}

/// Takes the attributes of an object that is being deallocated, and stores them if somebody else has its tensor.
///
/// # Safety
/// - (going) The interpreter deallocates the object, which is one of the class `Tensor` or of a subclass.
pub(super) unsafe fn take_attributes(object: *mut ffi::PyObject, tensor: &Tensor) {
    let Some(layout) = LAYOUT.get() else { return };
    // SAFETY: (going); the lock is held then. Weak references are cleared before anything else; the reference in the slot is owned by
    // whoever takes it out.
    let attributes = unsafe {
        if ffi::Py_TYPE(object) != PyTensor::type_object(Python::assume_attached()).as_type_ptr() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        (*layout.attributes(object)).take()
    };
    if attributes.is_none() && IntrusivePtr::strong_count(tensor.impl_()) == 1 {
        return;
    }
    // SAFETY: as above.
    let (py, attributes, class) = unsafe {
        let py = Python::assume_attached();
        let attributes = attributes.map(|attributes| Bound::from_owned_ptr(py, attributes.as_ptr()));
        (py, attributes, Bound::from_borrowed_ptr(py, ffi::Py_TYPE(object).cast::<ffi::PyObject>()))
    };
    let attributes = attributes.and_then(|attributes| attributes.cast_into::<PyDict>().ok());
    if let Ok(class) = class.cast_into()
        && tensor.impl_().python_object().is_null()
        && IntrusivePtr::strong_count(tensor.impl_()) != 1
    {
        AttributeStore::store(py, &class, attributes, tensor);
    }
}

/// Releases an object's reference to its class, after everything else that runs code.
///
/// # Safety
/// - (going) As for [`take_attributes`].
pub(super) unsafe fn release_class(object: *mut ffi::PyObject) {
    /// A class whose only reference was its last object's. The interpreter reads it once more when it frees the object's memory.
    static LAST: Mutex<Option<Py<PyAny>>> = Mutex::new(None);
    if !LAYOUT.get().is_some_and(|layout| layout.leaves_class) {
        return;
    }
    // SAFETY: (going): the object owns a reference to its class.
    unsafe {
        let class = ffi::Py_TYPE(object).cast::<ffi::PyObject>();
        if ffi::Py_REFCNT(class) > 1 {
            return ffi::Py_DECREF(class);
        }
        let class = Py::from_owned_ptr(Python::assume_attached(), class);
        let before = LAST.lock().replace(class);
        drop(before);
    }
}
