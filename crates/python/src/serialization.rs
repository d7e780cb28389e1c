//! Reads and writes files of Python values, by `flambeau_nn`.

use crate::call::detached;
use crate::errors::{error_from_python, raise};
use crate::objects;
use crate::tensor::attributes::size_object;
use crate::tensor::{tensor_in, wrap};
use crate::types::dtype_object;
use flambeau_autograd::Autograd;
use flambeau_core::{Error, ErrorKind};
use flambeau_nn::StateDict;
use flambeau_nn::serialization::{Metadata, Value, load, load_pytorch, save_unless};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;

type Object<'py> = Bound<'py, PyAny>;

/// Writes tensors by name, and metadata, to a safetensors file. The main thread checks for signals meanwhile: an exception that a
/// signal handler raises leaves the previous file unchanged.
#[pyfunction]
fn _save_safetensors(
    py: Python<'_>,
    path: PathBuf,
    tensors: &Bound<'_, PyDict>,
    notes: Metadata,
    gets_signals: bool,
) -> PyResult<()> {
    let entry = |(name, value): (Object<'_>, Object<'_>)| {
        let tensor = tensor_in(&value).ok_or_else(|| PyTypeError::new_err("expected tensors by name"))?;
        Ok((name.extract()?, tensor.clone()))
    };
    let tensors: StateDict = tensors.iter().map(entry).collect::<PyResult<_>>()?;
    let interrupted = || match gets_signals {
        true => Python::attach(|py| py.check_signals()).map_err(error_from_python),
        false => Ok(()),
    };
    detached(py, || save_unless(path, &tensors, &notes, &interrupted)).map_err(raise)
}

/// The tensors and notes of a safetensors file.
#[pyfunction]
fn _load_safetensors(py: Python<'_>, path: PathBuf) -> PyResult<(Bound<'_, PyDict>, Metadata)> {
    let (tensors, notes) = detached(py, || load(path)).map_err(raise_unread)?;
    let found = PyDict::new(py);
    for (name, tensor) in tensors {
        found.set_item(name, wrap(py, tensor)?)?;
    }
    Ok((found, notes))
}

/// The value in a file that `torch.save` wrote; nothing in it is run.
#[pyfunction]
fn _load_pytorch(py: Python<'_>, path: PathBuf) -> PyResult<Object<'_>> {
    let value = detached(py, || load_pytorch(path)).map_err(raise_unread)?;
    object(py, value)
}

/// The exception for a file that cannot be read: a `ValueError` where that is because of what it holds.
#[cold]
fn raise_unread(error: Error) -> PyErr {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match error.kind() {
        ErrorKind::OutOfMemory => raise(error),
        ErrorKind::Io if cause.is_some_and(|cause| cause.raw_os_error().is_some()) => raise(error),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// A value is nested no deeper than its reader allows, so this comes to an end.
fn object(py: Python<'_>, value: Value) -> PyResult<Object<'_>> {
    match value {
        Value::None => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => objects::int(py, value),
        Value::Float(value) => objects::float(py, value),
        Value::Text(value) => objects::text(py, &value),
        Value::Tuple(items) => Ok(objects::tuple(py, items.len(), next_object(py, items))?.into_any()),
        Value::List(items) => Ok(objects::list(py, items.len(), next_object(py, items))?.into_any()),
        Value::Dict(entries) => filled(PyDict::new(py).into_any(), entries),
        Value::OrderedDict { entries, metadata } => {
            let made = filled(ORDERED_DICT.import(py, "collections", "OrderedDict")?.call0()?, entries)?;
            if let Some(metadata) = metadata {
                made.setattr("_metadata", object(py, *metadata)?)?;
            }
            Ok(made)
        }
        Value::Size(sizes) => size_object(py, &sizes),
        Value::Dtype(dtype) => Ok(dtype_object(py, dtype)?.into_any()),
        Value::Tensor(tensor) => wrap(py, tensor),
        Value::Parameter(tensor) => {
            let requires_grad = tensor.requires_grad();
            PARAMETER
                .import(py, "flambeau.nn.parameter", "Parameter")?
                .call1((wrap(py, tensor)?, requires_grad))
        }
        other => Err(raise(Error::new(ErrorKind::NotImplemented, format!("no Python value for {other:?}")))),
    }
}

static ORDERED_DICT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static PARAMETER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The objects of values, one after the other.
fn next_object<'py>(py: Python<'py>, values: Vec<Value>) -> impl FnMut(usize) -> PyResult<Object<'py>> {
    let mut values = values.into_iter();
    move |_| object(py, values.next().unwrap_or(Value::None))
}

fn filled(dict: Object<'_>, entries: Vec<(Value, Value)>) -> PyResult<Object<'_>> {
    for (key, value) in entries {
        dict.set_item(object(dict.py(), key)?, object(dict.py(), value)?)?;
    }
    Ok(dict)
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_save_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(_load_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(_load_pytorch, module)?)
}
