//! Grad modes: guards that Python's context managers hold.

use flambeau_autograd::anomaly;
use flambeau_autograd::grad_mode::GradModeGuard;
use flambeau_autograd::{
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled,
};
use pyo3::prelude::*;
use std::cell::RefCell;

/// A mode in force, and whether nobody holds it: it was set by a call of `set_grad_enabled` alone.
struct Mode {
    guard: GradModeGuard,
    loose: bool,
}

thread_local! {
    /// The modes in force on this thread, innermost last. They belong to the thread, so that a context manager may be
    /// entered again or left on another thread without harm.
    static MODES: RefCell<Vec<Mode>> = const { RefCell::new(Vec::new()) };
}

fn enter(make: impl FnOnce() -> GradModeGuard) -> usize {
    let guard = make();
    MODES.with_borrow_mut(|modes| {
        modes.push(Mode { guard, loose: false });
        modes.len() - 1
    })
}

/// Drops the innermost mode if `which` says so.
fn leave_if(which: impl FnOnce(&[Mode]) -> bool) -> bool {
    let left = MODES.with_borrow_mut(|modes| if which(modes) { modes.pop() } else { None });
    left.map(|mode| drop(mode.guard)).is_some()
}

#[pyfunction]
fn _enter_no_grad() -> usize {
    enter(no_grad)
}

#[pyfunction]
fn _enter_enable_grad() -> usize {
    enter(enable_grad)
}

#[pyfunction]
fn _enter_inference_mode() -> usize {
    enter(inference_mode)
}

/// Sets a mode that the next call replaces, unless it is held: a loop of calls does not grow the list.
#[pyfunction]
fn _set_grad_enabled(enabled: bool) -> usize {
    leave_if(|modes| modes.last().is_some_and(|mode| mode.loose));
    let depth = enter(|| set_grad_enabled(enabled));
    MODES.with_borrow_mut(|modes| modes.iter_mut().skip(depth).for_each(|mode| mode.loose = true));
    depth
}

/// Holds the mode of that depth until it is left.
#[pyfunction]
fn _hold_mode(depth: usize) {
    MODES.with_borrow_mut(|modes| modes.iter_mut().skip(depth).take(1).for_each(|mode| mode.loose = false));
}

/// Leaves the mode of that depth, and those inside it that were left open.
#[pyfunction]
fn _leave_mode(depth: usize) {
    while leave_if(|modes| modes.len() > depth) {}
}

#[pyfunction(name = "is_grad_enabled")]
fn grad_enabled() -> bool {
    is_grad_enabled()
}

#[pyfunction(name = "is_inference_mode_enabled")]
fn inference_mode_enabled() -> bool {
    is_inference_mode_enabled()
}

/// Whether anomaly mode is on, and whether it looks for NaN.
#[pyfunction]
fn _anomaly() -> (bool, bool) {
    anomaly::is_anomaly_enabled()
}

#[pyfunction]
fn _set_anomaly(on: bool, check_nan: bool) {
    anomaly::set_detect_anomaly(on, check_nan);
}

/// Where the Python program is, for nodes that are recorded in anomaly mode.
fn python_trace() -> Option<String> {
    Python::try_attach(|py| {
        let lines = py.import("traceback").ok()?.call_method0("format_stack").ok()?;
        Some(lines.extract::<Vec<String>>().ok()?.concat())
    })?
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    anomaly::set_tracer(python_trace);
    module.add_function(wrap_pyfunction!(_anomaly, module)?)?;
    module.add_function(wrap_pyfunction!(_set_anomaly, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_no_grad, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_enable_grad, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_inference_mode, module)?)?;
    module.add_function(wrap_pyfunction!(_set_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_hold_mode, module)?)?;
    module.add_function(wrap_pyfunction!(_leave_mode, module)?)?;
    module.add_function(wrap_pyfunction!(grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(inference_mode_enabled, module)?)
}
