//! Files of `torch.save` as Python's values; `flambeau_nn` reads them.

use crate::errors::raise;
use crate::tensor::attributes::size_object;
use crate::tensor::wrap;
use crate::types::dtype_object;
use flambeau_autograd::Autograd;
use flambeau_nn::serialization::{Value, load_pytorch};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use std::path::PathBuf;

type Object<'py> = Bound<'py, PyAny>;

/// The value in a file that `torch.save` wrote; nothing in it is run.
#[pyfunction]
fn _load_pytorch(py: Python<'_>, path: PathBuf) -> PyResult<Object<'_>> {
    let value = py.detach(|| load_pytorch(path)).map_err(raise)?;
    object(py, value)
}

/// A value is nested no deeper than its reader allows, so this comes to an end.
fn object(py: Python<'_>, value: Value) -> PyResult<Object<'_>> {
    match value {
        Value::None => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Text(value) => value.into_bound_py_any(py),
        Value::Tuple(items) => Ok(PyTuple::new(py, objects(py, items)?)?.into_any()),
        Value::List(items) => Ok(PyList::new(py, objects(py, items)?)?.into_any()),
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
        other => Err(raise(flambeau_core::Error::new(
            flambeau_core::ErrorKind::NotImplemented,
            format!("no Python value for {other:?}"),
        ))),
    }
}

static ORDERED_DICT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static PARAMETER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn objects(py: Python<'_>, values: Vec<Value>) -> PyResult<Vec<Object<'_>>> {
    values.into_iter().map(|value| object(py, value)).collect()
}

fn filled(dict: Object<'_>, entries: Vec<(Value, Value)>) -> PyResult<Object<'_>> {
    for (key, value) in entries {
        dict.set_item(object(dict.py(), key)?, object(dict.py(), value)?)?;
    }
    Ok(dict)
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_load_pytorch, module)?)
}
