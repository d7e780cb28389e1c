//! Autograd in Python: gradients and hooks of tensors, backward passes, grad modes.

mod forward;
mod function;
mod gradcheck;
mod graph;
mod modes;
mod saving;
mod tensor;

use crate::arguments::type_name;
use crate::call::{IntoPython, call, run_owning};
use crate::tensor::tensor_in;
use flambeau_autograd::{backward, grad};
use flambeau_ops::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

/// One tensor, or a list or tuple of them; `None` where that is allowed.
fn tensors(value: &Object<'_>) -> PyResult<Vec<Tensor>> {
    optional_tensors(value)?.into_iter().map(|tensor| tensor.ok_or_else(|| wrong(value))).collect()
}

fn optional_tensors(value: &Object<'_>) -> PyResult<Vec<Option<Tensor>>> {
    if let Some(tensor) = tensor_in(value) {
        return Ok(vec![Some(tensor.clone())]);
    }
    let read = |item: Object<'_>| match tensor_in(&item) {
        Some(tensor) => Ok(Some(tensor.clone())),
        None if item.is_none() => Ok(None),
        None => Err(wrong(&item)),
    };
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return tuple.iter().map(read).collect();
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(read).collect();
    }
    if !value.hasattr("__iter__")? {
        return Err(wrong(value));
    }
    let tuple = call(value.py().get_type::<PyTuple>().as_any(), (value,))?;
    tuple.cast::<PyTuple>()?.iter().map(read).collect()
}

fn wrong(value: &Object<'_>) -> PyErr {
    PyTypeError::new_err(format!("expected a Tensor or a sequence of Tensors but got {}", type_name(value)))
}

/// Accumulates the gradients of leaves, from one tensor or several.
#[pyfunction(name = "_backward")]
#[pyo3(signature = (tensors, grad_tensors = None, retain_graph = None, create_graph = false, inputs = None))]
fn run_backward(
    py: Python<'_>,
    tensors: &Object<'_>,
    grad_tensors: Option<&Object<'_>>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&Object<'_>>,
) -> PyResult<()> {
    let roots = self::tensors(tensors)?;
    let grads = grad_tensors.map_or(Ok(vec![]), optional_tensors)?;
    let inputs = inputs.map(self::tensors).transpose()?;
    run_owning(py, || backward(&roots, &grads, retain_graph, create_graph, inputs.as_deref()))
}

/// The gradients of `outputs` with respect to `inputs`, as a tuple.
#[pyfunction(name = "_grad")]
#[pyo3(signature = (outputs, inputs, grad_outputs = None, retain_graph = None, create_graph = false, allow_unused = false))]
fn run_grad<'py>(
    py: Python<'py>,
    outputs: &Object<'py>,
    inputs: &Object<'py>,
    grad_outputs: Option<&Object<'py>>,
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> PyResult<Object<'py>> {
    let (roots, inputs) = (tensors(outputs)?, tensors(inputs)?);
    let grads = grad_outputs.map_or(Ok(vec![]), optional_tensors)?;
    let found = run_owning(py, || grad(&roots, &inputs, &grads, retain_graph, create_graph, allow_unused))?;
    let objects = found.into_iter().map(|grad| grad.into_python(py));
    Ok(PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

impl IntoPython for Option<Tensor> {
    fn into_python(self, py: Python<'_>) -> PyResult<Object<'_>> {
        self.map_or_else(|| Ok(py.None().into_bound(py)), |tensor| tensor.into_python(py))
    }
}

/// Puts functions and classes into the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_backward, module)?)?;
    module.add_function(wrap_pyfunction!(run_grad, module)?)?;
    modes::install(module)?;
    forward::install(module)?;
    function::install(module)?;
    gradcheck::install(module)?;
    saving::install(module)?;
    graph::install(module)
}
