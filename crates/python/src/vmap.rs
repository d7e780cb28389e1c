//! `vmap`: levels that Python's function opens and closes, and tensors that are batched in them.

use crate::call::IntoPython;
use crate::errors::raise;
use crate::tensor::tensor_in;
use flambeau_ops::Tensor;
use flambeau_ops::batched::{self, Level, LevelGuard, Randomness, current_level};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CString;

type Object<'py> = Bound<'py, PyAny>;

thread_local! {
    /// The levels that Python has opened on this thread.
    static LEVELS: RefCell<Vec<LevelGuard>> = const { RefCell::new(Vec::new()) };
}

fn tensor<'a>(value: &'a Object<'_>) -> PyResult<&'a Tensor> {
    tensor_in(value).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))
}

/// Opens a level, and returns how many Python has open.
#[pyfunction]
fn _vmap_enter(size: i64, randomness: &str) -> PyResult<usize> {
    let randomness = match randomness {
        "different" => Randomness::Different,
        "same" => Randomness::Same,
        _ => Randomness::Error,
    };
    let guard = LevelGuard::open(size, randomness).map_err(raise)?;
    Ok(LEVELS.with_borrow_mut(|levels| {
        levels.push(guard);
        levels.len()
    }))
}

#[pyfunction]
fn _vmap_exit() -> PyResult<()> {
    match LEVELS.with_borrow_mut(Vec::pop) {
        Some(guard) => {
            drop(guard);
            Ok(())
        }
        None => Err(PyRuntimeError::new_err("vmap: no level is open")),
    }
}

fn level() -> PyResult<Level> {
    current_level().ok_or_else(|| PyRuntimeError::new_err("vmap: no level is open"))
}

/// The tensor, whose dimension `dim` is the batch of the innermost level.
#[pyfunction]
fn _vmap_wrap<'py>(py: Python<'py>, value: &Object<'py>, dim: i64) -> PyResult<Object<'py>> {
    batched::wrap(tensor(value)?, dim, level()?).map_err(raise)?.into_python(py)
}

/// The tensor with the batch of the innermost level in dimension `dim`.
#[pyfunction]
#[pyo3(signature = (value, dim))]
fn _vmap_unwrap<'py>(py: Python<'py>, value: &Object<'py>, dim: Option<i64>) -> PyResult<Object<'py>> {
    flambeau_vmap::out_of_level(tensor(value)?, dim, level()?).map_err(raise)?.into_python(py)
}

/// The tensor below the wrapper of the innermost level, and its dimension of the batch; the tensor and `None` if it is not batched there.
#[pyfunction]
fn _vmap_parts<'py>(py: Python<'py>, value: &Object<'py>) -> PyResult<(Object<'py>, Option<i64>)> {
    match batched::unwrap(tensor(value)?, level()?.id) {
        Some((inside, dim)) => Ok((inside.into_python(py)?, Some(dim))),
        None => Ok((value.clone(), None)),
    }
}

/// The size of the batch of the innermost level and what random operators do in it; `None` where no level is open.
#[pyfunction]
fn _vmap_level() -> Option<(i64, &'static str)> {
    let level = current_level()?;
    let randomness = match level.randomness {
        Randomness::Error => "error",
        Randomness::Different => "different",
        Randomness::Same => "same",
    };
    Some((level.size, randomness))
}

#[pyfunction]
fn _is_batched(value: &Object<'_>) -> bool {
    tensor_in(value).is_some_and(batched::is_batched)
}

/// The tensor, batched at all levels that are open.
#[pyfunction]
fn _batched_at_all_levels<'py>(py: Python<'py>, value: &Object<'py>) -> PyResult<Object<'py>> {
    if current_level().is_none() {
        return Ok(value.clone());
    }
    batched::batched_at_all_levels(tensor(value)?).map_err(raise)?.into_python(py)
}

/// How many calls were computed example by example, by the name of the operator.
#[pyfunction]
fn _vmap_loops() -> BTreeMap<&'static str, u64> {
    flambeau_vmap::loops()
}

/// Passes what the crate warns of to Python's `warnings`.
fn warn(text: &str) {
    Python::attach(|py| {
        let text = CString::new(text).unwrap_or_default();
        if let Err(error) = PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1) {
            // A filter has made an exception of it, which a rule cannot raise.
            error.write_unraisable(py, None);
        }
    });
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    flambeau_vmap::set_warning(warn);
    module.add_function(wrap_pyfunction!(_vmap_enter, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_exit, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_wrap, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_unwrap, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_parts, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_level, module)?)?;
    module.add_function(wrap_pyfunction!(_is_batched, module)?)?;
    module.add_function(wrap_pyfunction!(_batched_at_all_levels, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_loops, module)?)
}
