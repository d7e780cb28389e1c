//! Errors as the exceptions that PyTorch raises, and exceptions as errors on their way through Rust.

use flambeau_core::{Error, ErrorKind};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::error::Error as _;

/// The exception for an error; an exception that was raised in a hook comes out as it was.
#[cold]
pub(crate) fn raise(error: Error) -> PyErr {
    if let Some(raised) = error.source().and_then(|source| source.downcast_ref::<PyErr>()) {
        return Python::attach(|py| raised.clone_ref(py));
    }
    let message = error.message().to_owned();
    match error.kind() {
        ErrorKind::Index => PyIndexError::new_err(message),
        ErrorKind::NotImplemented => PyNotImplementedError::new_err(message),
        ErrorKind::Io => PyOSError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    }
}

/// The error for an exception that Python code raised inside an operator or a backward pass.
#[cold]
pub(crate) fn carry(raised: PyErr) -> Error {
    Error::with_source(ErrorKind::Internal, raised.to_string(), raised)
}
