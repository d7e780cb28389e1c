//! Forward mode: the level that Python's context manager holds, and tensors with tangents.

use super::Object;
use crate::call::IntoPython;
use crate::errors::raise;
use crate::tensor::tensor_in;
use flambeau_autograd::forward::{DualLevel, dual_level, make_dual, unpack_dual};
use flambeau_ops::Tensor;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    /// The level that is open on this thread.
    static LEVEL: RefCell<Option<DualLevel>> = const { RefCell::new(None) };
}

#[pyfunction]
fn _enter_dual_level() -> PyResult<()> {
    let level = dual_level().map_err(raise)?;
    LEVEL.set(Some(level));
    Ok(())
}

#[pyfunction]
fn _exit_dual_level() -> PyResult<()> {
    match LEVEL.take() {
        Some(level) => {
            drop(level);
            Ok(())
        }
        None => Err(PyRuntimeError::new_err("Trying to exit a forward AD level that was not entered")),
    }
}

fn tensor<'a>(value: &'a Object<'_>) -> PyResult<&'a Tensor> {
    tensor_in(value).ok_or_else(|| super::wrong(value))
}

#[pyfunction]
fn _make_dual<'py>(py: Python<'py>, primal: &Object<'py>, tangent: &Object<'py>) -> PyResult<Object<'py>> {
    make_dual(tensor(primal)?, tensor(tangent)?).map_err(raise)?.into_python(py)
}

#[pyfunction]
fn _unpack_dual<'py>(py: Python<'py>, value: &Object<'py>) -> PyResult<(Object<'py>, Object<'py>)> {
    let (primal, tangent) = unpack_dual(tensor(value)?).map_err(raise)?;
    Ok((primal.into_python(py)?, tangent.into_python(py)?))
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_enter_dual_level, module)?)?;
    module.add_function(wrap_pyfunction!(_exit_dual_level, module)?)?;
    module.add_function(wrap_pyfunction!(_make_dual, module)?)?;
    module.add_function(wrap_pyfunction!(_unpack_dual, module)?)
}
