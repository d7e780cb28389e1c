//! Errors as the exceptions that PyTorch raises, and exceptions as errors while they pass through Rust.

use crate::objects;
use flambeau_core::{Error, ErrorKind};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyNotImplementedError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use std::error::Error as _;
use std::io;

/// The exception for an error; an exception that was raised in a hook comes out as it was.
#[cold]
pub(crate) fn raise(error: Error) -> PyErr {
    Python::attach(|py| match error.source().and_then(|source| source.downcast_ref::<PyErr>()) {
        Some(raised) => raised.clone_ref(py),
        None => made(py, &error).unwrap_or_else(|raised| raised),
    })
}

/// Made at once and not lazily: without memory for the exception object, the `MemoryError` raised instead is an exception too.
fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = match error.kind() {
        ErrorKind::Index => py.get_type::<PyIndexError>(),
        ErrorKind::NotImplemented => py.get_type::<PyNotImplementedError>(),
        ErrorKind::Io => py.get_type::<PyOSError>(),
        ErrorKind::OutOfMemory => out_of_memory(py)?.clone(),
        ErrorKind::LinAlg => linear_algebra(py)?.clone(),
        _ => py.get_type::<PyRuntimeError>(),
    };
    let message = objects::text(py, error.message())?;
    // From the error number Python chooses the subclass: `FileNotFoundError`, `PermissionError`.
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    Ok(PyErr::from_value(match cause.and_then(io::Error::raw_os_error) {
        Some(code) if error.kind() == ErrorKind::Io => class.call1((code, message))?,
        _ => class.call1((message,))?,
    }))
}

/// The class of out-of-memory exceptions: Python programs expect a `MemoryError`, and PyTorch's a `RuntimeError`.
fn out_of_memory(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let bases = PyTuple::new(py, [py.get_type::<PyMemoryError>(), py.get_type::<PyRuntimeError>()])?;
        let doc = c"There is less memory than an operator requested; nothing was changed.";
        objects::exception_class(c"flambeau.OutOfMemoryError", doc, &bases)
    })?;
    Ok(class.bind(py))
}

/// The class of exceptions for matrices that cannot be decomposed: `flambeau.linalg.LinAlgError`.
fn linear_algebra(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let bases = PyTuple::new(py, [py.get_type::<PyRuntimeError>()])?;
        let doc = c"A matrix is singular, not positive definite, or not finite, so that a decomposition or a solution does not exist.";
        objects::exception_class(c"flambeau.linalg.LinAlgError", doc, &bases)
    })?;
    Ok(class.bind(py))
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LinAlgError", linear_algebra(module.py())?)?;
    module.add("OutOfMemoryError", out_of_memory(module.py())?)
}

/// The error for an exception that Python code raised inside an operator or a backward pass.
#[cold]
pub(crate) fn error_from_python(raised: PyErr) -> Error {
    Error::with_source(ErrorKind::Internal, raised.to_string(), raised)
}
