//! Which calls are recorded: guards that Python's context managers hold.

use flambeau_autograd::grad_mode::GradModeGuard;
use flambeau_autograd::{enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad};
use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    /// The guards in force on this thread, innermost last. They belong to the thread, as the modes do, so that a context
    /// manager may be entered again or left on another thread without harm.
    static GUARDS: RefCell<Vec<GradModeGuard>> = const { RefCell::new(Vec::new()) };
}

fn enter(guard: GradModeGuard) -> usize {
    GUARDS.with_borrow_mut(|guards| {
        guards.push(guard);
        guards.len() - 1
    })
}

#[pyfunction]
fn _enter_no_grad() -> usize {
    enter(no_grad())
}

#[pyfunction]
fn _enter_enable_grad() -> usize {
    enter(enable_grad())
}

#[pyfunction]
fn _enter_inference_mode() -> usize {
    enter(inference_mode())
}

/// Leaves the mode of that depth, and those inside it that a generator left open.
#[pyfunction]
fn _leave_mode(depth: usize) {
    while GUARDS.with_borrow(Vec::len) > depth {
        let left = GUARDS.with_borrow_mut(Vec::pop);
        drop(left);
    }
}

#[pyfunction(name = "is_grad_enabled")]
fn grad_enabled() -> bool {
    is_grad_enabled()
}

#[pyfunction(name = "is_inference_mode_enabled")]
fn inference_mode_enabled() -> bool {
    is_inference_mode_enabled()
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_enter_no_grad, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_enable_grad, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_inference_mode, module)?)?;
    module.add_function(wrap_pyfunction!(_leave_mode, module)?)?;
    module.add_function(wrap_pyfunction!(grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(inference_mode_enabled, module)?)
}
