//! The class `Tensor`: one Python object for one tensor, which is found again whenever Rust returns that tensor.

#![expect(unsafe_code, reason = "a tensor points back at its Python object")]

mod attribute_store;
pub(crate) mod attributes;
mod construct;
mod convert;
mod data;
mod garbage_collection;
mod indexing;
mod operators;
#[expect(unsafe_code, reason = "an entry point from C is made where its signature is")]
mod to;

use flambeau_core::TensorImpl;
use flambeau_ops::Tensor;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub(crate) use attribute_store::AttributeStore;
pub(crate) use construct::{new_object_of, without_history};
pub(crate) use data::uncounted;

/// Puts the functions that make tensors into the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    garbage_collection::install(module.py())?;
    crate::call::install(module, to::BINDINGS)?;
    module.add_function(wrap_pyfunction!(construct::tensor, module)?)?;
    module.add_function(wrap_pyfunction!(construct::as_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(construct::make_subclass, module)?)?;
    module.add_function(wrap_pyfunction!(construct::register, module)?)
}

/// A tensor in Python. The class is meant to be subclassed, and takes attributes and weak references.
///
/// Invariant (identity): where `object` is not null, it is this very object, and the tensor points back at it; the pointer
/// is cleared before the object is deallocated. Both are written with the interpreter's lock held.
#[pyclass(name = "Tensor", module = "flambeau", subclass, weakref, dict, frozen)]
pub(crate) struct PyTensor {
    tensor: ManuallyDrop<Tensor>,
    object: AtomicPtr<ffi::PyObject>,
    /// Whether it comes from `x.data` and nothing has used it yet: see [`data`].
    is_fresh: AtomicBool,
}

impl PyTensor {
    pub(crate) fn new(tensor: Tensor) -> Self {
        let tensor = ManuallyDrop::new(tensor);
        PyTensor { tensor, object: AtomicPtr::new(ptr::null_mut()), is_fresh: AtomicBool::new(false) }
    }

    /// The class itself.
    #[inline]
    pub(crate) fn type_object(py: Python<'_>) -> &Bound<'_, PyType> {
        static CLASS: pyo3::sync::PyOnceLock<Py<PyType>> = pyo3::sync::PyOnceLock::new();
        CLASS.get_or_init(py, || py.get_type::<PyTensor>().unbind()).bind(py)
    }

    /// The tensor, to be used: a saved variable may share its elements from now on.
    #[inline]
    pub(crate) fn tensor(&self) -> &Tensor {
        self.is_fresh.store(false, Ordering::Relaxed);
        &self.tensor
    }

    /// The tensor, to be looked at or written.
    #[inline]
    pub(crate) fn peek(&self) -> &Tensor {
        &self.tensor
    }
}

impl Drop for PyTensor {
    #[inline]
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        // SAFETY: (going) the interpreter deallocates the object that is registered for the tensor. The tensor is not used again.
        unsafe {
            if object.is_null() {
                return ManuallyDrop::drop(&mut self.tensor);
            }
            self.tensor.impl_().forget_python_object(object.cast());
            garbage_collection::take_attributes(object, &self.tensor);
            ManuallyDrop::drop(&mut self.tensor);
            garbage_collection::release_class(object);
        }
    }
}

/// The tensor of a Python object, if it is one.
#[inline]
pub(crate) fn tensor_in<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    value.cast::<PyTensor>().ok().map(|object| object.get().tensor())
}

/// The Python object of a tensor: the one it has, or a new one.
#[inline]
pub(crate) fn wrap(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    match known(py, tensor.impl_()) {
        Some(object) => Ok(object),
        None => {
            if let Some(object) = attribute_store::resurrected(py, &tensor)? {
                return Ok(object);
            }
            let object = Bound::new(py, PyTensor::new(tensor))?.into_any();
            register_object(&object);
            Ok(object)
        }
    }
}

/// The living Python object of a tensor.
#[inline]
fn known<'py>(py: Python<'py>, tensor: &TensorImpl) -> Option<Bound<'py, PyAny>> {
    let object: *mut ffi::PyObject = tensor.python_object().cast();
    if object.is_null() {
        return None;
    }
    // SAFETY: (identity), and the interpreter's lock is held. An object that is being deallocated has no references left, and
    // must not be returned.
    unsafe { (ffi::Py_REFCNT(object) > 0).then(|| Bound::from_borrowed_ptr(py, object)) }
}

/// Registers the object as that of its tensor, which [`wrap`] returns from now on.
#[inline]
pub(crate) fn register_object(object: &Bound<'_, PyAny>) {
    let Ok(tensor) = object.cast::<PyTensor>() else { return };
    let tensor = tensor.get();
    tensor.object.store(object.as_ptr(), Ordering::Relaxed);
    // SAFETY: (object) the object owns the tensor, and `Drop` takes it out; a `Bound` says that the lock is held.
    unsafe { tensor.tensor.impl_().set_python_object(object.as_ptr().cast()) };
}
