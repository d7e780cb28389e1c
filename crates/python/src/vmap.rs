//! `vmap`: levels that Python's function opens and closes, and tensors that are batched in them.

use crate::call::IntoPython;
use crate::errors::raise;
use crate::tensor::tensor_in;
use flambeau_ops::Tensor;
use flambeau_ops::batched::{self, Below, Level, LevelGuard, Randomness, current_level, open_level, parts};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CString;

type Object<'py> = Bound<'py, PyAny>;

thread_local! {
    /// The levels that Python has opened on this thread.
    static LEVELS: RefCell<Vec<LevelGuard>> = const { RefCell::new(Vec::new()) };
    /// What hides levels on this thread, while rules of Python's run.
    static HIDING: RefCell<Vec<Below>> = const { RefCell::new(Vec::new()) };
}

fn tensor<'a>(value: &'a Object<'_>) -> PyResult<&'a Tensor> {
    tensor_in(value).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))
}

/// Opens a level, and returns how many Python has open. With `of_tangents` only tangents are batched at it.
#[pyfunction]
#[pyo3(signature = (size, randomness, of_tangents = false))]
fn _vmap_enter(size: i64, randomness: &str, of_tangents: bool) -> PyResult<usize> {
    let randomness = match randomness {
        "different" => Randomness::Different,
        "same" => Randomness::Same,
        _ => Randomness::Error,
    };
    let guard = match of_tangents {
        true => LevelGuard::open_for_tangents(size, randomness),
        false => LevelGuard::open(size, randomness),
    };
    let guard = guard.map_err(raise)?;
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

/// The level of a number, or the innermost one.
fn level_or_innermost(id: Option<u64>) -> PyResult<Level> {
    id.map_or_else(level, |id| open_level(id).map_err(raise))
}

/// The tensor, whose dimension `dim` is the batch of a level, by default of the innermost one.
#[pyfunction]
#[pyo3(signature = (value, dim, level = None))]
fn _vmap_wrap<'py>(
    py: Python<'py>,
    value: &Object<'py>,
    dim: i64,
    level: Option<u64>,
) -> PyResult<Object<'py>> {
    batched::wrap(tensor(value)?, dim, level_or_innermost(level)?).map_err(raise)?.into_python(py)
}

/// The tensor with the batch of the innermost level in dimension `dim`.
#[pyfunction]
#[pyo3(signature = (value, dim))]
fn _vmap_unwrap<'py>(py: Python<'py>, value: &Object<'py>, dim: Option<i64>) -> PyResult<Object<'py>> {
    flambeau_vmap::out_of_level(tensor(value)?, dim, level()?).map_err(raise)?.into_python(py)
}

/// The tensor below the wrapper of a level, by default of the innermost one, and its dimension of the batch; the tensor and `None` if it
/// is not batched there.
#[pyfunction]
#[pyo3(signature = (value, level = None))]
fn _vmap_parts<'py>(
    py: Python<'py>,
    value: &Object<'py>,
    level: Option<u64>,
) -> PyResult<(Object<'py>, Option<i64>)> {
    match batched::unwrap(tensor(value)?, level_or_innermost(level)?.id) {
        Some((inside, dim)) => Ok((inside.into_python(py)?, Some(dim))),
        None => Ok((value.clone(), None)),
    }
}

/// The highest level at which one of the values is batched: its number, how many examples it has, and what random operators do in it.
#[pyfunction]
fn _vmap_level_of(values: Vec<Object<'_>>) -> PyResult<Option<(u64, i64, &'static str)>> {
    let levels = values.iter().filter_map(|value| parts(tensor_in(value)?).map(|inside| inside.level));
    let Some(id) = levels.max() else { return Ok(None) };
    let level = open_level(id).map_err(raise)?;
    let randomness = match level.randomness {
        Randomness::Error => "error",
        Randomness::Different => "different",
        Randomness::Same => "same",
    };
    Ok(Some((id, level.size, randomness)))
}

/// Hides a level and those above it, while a rule for it runs.
#[pyfunction]
fn _vmap_hide(level: u64) {
    HIDING.with_borrow_mut(|hiding| hiding.push(Below::level(level)));
}

/// Shows what the last [`_vmap_hide`] has hidden.
#[pyfunction]
fn _vmap_show() -> PyResult<()> {
    match HIDING.with_borrow_mut(Vec::pop) {
        Some(below) => {
            drop(below);
            Ok(())
        }
        None => Err(PyRuntimeError::new_err("vmap: no level is hidden")),
    }
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
    module.add_function(wrap_pyfunction!(_vmap_level_of, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_hide, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_show, module)?)?;
    module.add_function(wrap_pyfunction!(_is_batched, module)?)?;
    module.add_function(wrap_pyfunction!(_batched_at_all_levels, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_loops, module)?)
}
