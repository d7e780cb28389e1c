//! `gradcheck` for functions written in Python.

use super::Object;
use crate::call::detached;
use crate::errors::error_from_python;
use crate::tensor::tensor_in;
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_core::{Error, ErrorKind, Result};
use flambeau_ops::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::error::Error as _;

/// What is wrong with the gradients of `function` at `inputs`; `None` if nothing is.
#[pyfunction]
fn _gradcheck(
    py: Python<'_>,
    function: Py<PyAny>,
    inputs: Vec<Object<'_>>,
    tolerances: [f64; 4],
    check_undefined_grad: bool,
    modes: [bool; 2],
) -> PyResult<Option<String>> {
    let inputs = inputs.iter().map(read).collect::<PyResult<Vec<Tensor>>>()?;
    let call = |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
        Python::attach(|py| {
            let objects = inputs.iter().map(|input| crate::tensor::wrap(py, input.clone()));
            let arguments = PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)?;
            outputs(&crate::call::call(function.bind(py), arguments)?)
        })
        .map_err(error_from_python)
    };
    let [eps, atol, rtol, nondet_tol] = tolerances;
    let [check_forward_ad, check_backward_ad] = modes;
    let check =
        GradCheck { eps, atol, rtol, nondet_tol, check_undefined_grad, check_forward_ad, check_backward_ad };
    match detached(py, || check.check(call, &inputs)) {
        Ok(()) => Ok(None),
        Err(error) if is_finding(&error) => Ok(Some(error.message().to_owned())),
        Err(error) => Err(crate::errors::raise(error)),
    }
}

/// Whether it says something about the gradients, and was not raised by the function.
fn is_finding(error: &Error) -> bool {
    error.kind() == ErrorKind::Autograd && error.source().is_none()
}

fn read(value: &Object<'_>) -> PyResult<Tensor> {
    super::tensors(value)?.pop().ok_or_else(|| super::wrong(value))
}

/// The tensors that a function returned, one or several.
fn outputs(returned: &Object<'_>) -> PyResult<Vec<Tensor>> {
    match tensor_in(returned) {
        Some(tensor) => Ok(vec![tensor.clone()]),
        None => super::tensors(returned),
    }
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_gradcheck, module)?)
}
