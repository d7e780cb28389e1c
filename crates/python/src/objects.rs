//! Creates Python objects, and returns a `MemoryError` where PyO3's own constructors would panic.

#![expect(unsafe_code, reason = "makes objects by the interpreter's C interface")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple, PyType};
use std::ffi::CStr;
use std::ptr;

type Object<'py> = Bound<'py, PyAny>;

/// A new object, or the exception that the interpreter has set instead.
///
/// # Safety
/// - (owned) `object` is a new reference, or null with an exception set.
unsafe fn made<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> PyResult<Object<'py>> {
    // SAFETY: (owned).
    unsafe { Bound::from_owned_ptr_or_err(py, object) }
}

/// An `int`.
pub(crate) fn int(py: Python<'_>, value: i64) -> PyResult<Object<'_>> {
    // SAFETY: (owned).
    unsafe { made(py, ffi::PyLong_FromLongLong(value)) }
}

/// An `int` that may be above those of i64.
pub(crate) fn unsigned_int(py: Python<'_>, value: u64) -> PyResult<Object<'_>> {
    // SAFETY: (owned).
    unsafe { made(py, ffi::PyLong_FromUnsignedLongLong(value)) }
}

/// A `float`.
pub(crate) fn float(py: Python<'_>, value: f64) -> PyResult<Object<'_>> {
    // SAFETY: (owned).
    unsafe { made(py, ffi::PyFloat_FromDouble(value)) }
}

/// A `complex`.
pub(crate) fn complex(py: Python<'_>, re: f64, im: f64) -> PyResult<Object<'_>> {
    // SAFETY: (owned).
    unsafe { made(py, ffi::PyComplex_FromDoubles(re, im)) }
}

/// A `str`.
pub(crate) fn text<'py>(py: Python<'py>, value: &str) -> PyResult<Object<'py>> {
    // SAFETY: (owned); the bytes are UTF-8, and so many.
    unsafe { made(py, ffi::PyUnicode_FromStringAndSize(value.as_ptr().cast(), value.len() as isize)) }
}

/// `bytes`, a copy.
pub(crate) fn bytes<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: (owned); so many bytes.
    let object =
        unsafe { made(py, ffi::PyBytes_FromStringAndSize(value.as_ptr().cast(), value.len() as isize))? };
    Ok(object.cast_into::<PyBytes>()?)
}

/// A class of exceptions.
pub(crate) fn exception_class(name: &CStr, doc: &CStr, bases: &Bound<'_, PyTuple>) -> PyResult<Py<PyType>> {
    // SAFETY: (owned); texts that end with a zero, and a tuple of classes.
    let class = unsafe {
        let class =
            ffi::PyErr_NewExceptionWithDoc(name.as_ptr(), doc.as_ptr(), bases.as_ptr(), ptr::null_mut());
        made(bases.py(), class)?
    };
    Ok(class.cast_into::<PyType>()?.unbind())
}

/// A list of `count` objects, of which `item` makes one after the other.
pub(crate) fn list<'py>(
    py: Python<'py>,
    count: usize,
    mut item: impl FnMut(usize) -> PyResult<Object<'py>>,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: (owned).
    let list = unsafe { made(py, ffi::PyList_New(count as isize))? };
    for index in 0..count {
        let item = item(index)?;
        // SAFETY: a list that nobody else has seen, inside its length; it takes the reference over.
        if unsafe { ffi::PyList_SetItem(list.as_ptr(), index as isize, item.into_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(list.cast_into::<PyList>()?)
}

/// A tuple of `count` objects, of which `item` makes one after the other.
pub(crate) fn tuple<'py>(
    py: Python<'py>,
    count: usize,
    mut item: impl FnMut(usize) -> PyResult<Object<'py>>,
) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: (owned).
    let tuple = unsafe { made(py, ffi::PyTuple_New(count as isize))? };
    for index in 0..count {
        let item = item(index)?;
        // SAFETY: a tuple that nobody else has seen, inside its length; it takes the reference over.
        if unsafe { ffi::PyTuple_SetItem(tuple.as_ptr(), index as isize, item.into_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(tuple.cast_into::<PyTuple>()?)
}
