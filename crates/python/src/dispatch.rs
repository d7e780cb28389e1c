//! Operators by their schemas: any of them called from Python, kernels written in Python, and the dispatch key `Python`, by which
//! classes (`__torch_dispatch__`) and modes see calls below autograd.
//!
//! What is policy, such as the order in which modes and classes are called, is in `flambeau._dispatch` and `flambeau.library`.

mod kernels;
mod operator;
mod private_operators;
mod python_key;
mod schema;
mod values;
mod wrapper;

use flambeau_autograd::defined::below_autograd;
use flambeau_core::{DispatchKey, ThreadKeysGuard};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::RefCell;

pub(crate) use wrapper::{add_key_of_class, is_wrapper, item_of_wrapper, text_of_wrapper};

/// Calls a function of Python's whose operators are not recorded.
#[pyfunction]
#[pyo3(signature = (function, args, kwargs = None))]
fn _call_below_autograd<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _below = below_autograd();
    crate::call::call_named(function, args.clone(), kwargs)
}

/// Calls a function of Python's with classes and modes out of force: objects are treated as plain tensors.
#[pyfunction]
#[pyo3(signature = (function, args, kwargs = None))]
fn _call_below_dispatch<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _below = below_autograd();
    let _plain = ThreadKeysGuard::exclude(DispatchKey::Python.into());
    crate::call::call_named(function, args.clone(), kwargs)
}

/// Calls a function of Python's with a dispatch key that its operators skip.
#[pyfunction]
#[pyo3(signature = (key, function, args, kwargs = None))]
fn _call_excluding<'py>(
    key: &str,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _without = ThreadKeysGuard::exclude(operator::key_named(key)?.into());
    crate::call::call_named(function, args.clone(), kwargs)
}

thread_local! {
    /// The exclusions that Python has entered on this thread, innermost last.
    static ENTERED: RefCell<Vec<ThreadKeysGuard>> = const { RefCell::new(Vec::new()) };
}

/// Begins a block whose operators are not recorded, and says how many are open around it.
#[pyfunction]
fn _enter_below_autograd() -> usize {
    let guard = below_autograd();
    ENTERED.with_borrow_mut(|entered| {
        entered.push(guard);
        entered.len() - 1
    })
}

/// Ends the block around which so many are open, and those inside it that were left open.
#[pyfunction]
fn _leave_below_autograd(depth: usize) {
    while let Some(guard) =
        ENTERED.with_borrow_mut(|entered| if entered.len() > depth { entered.pop() } else { None })
    {
        drop(guard);
    }
}

/// Whether a mode of this thread sees all calls from now on; returns what was before.
#[pyfunction]
fn _set_dispatch_mode_active(active: bool) -> bool {
    !flambeau_core::set_included(DispatchKey::Python.into(), active).is_empty()
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_call_below_autograd, module)?)?;
    module.add_function(wrap_pyfunction!(_call_below_dispatch, module)?)?;
    module.add_function(wrap_pyfunction!(_call_excluding, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_below_autograd, module)?)?;
    module.add_function(wrap_pyfunction!(_leave_below_autograd, module)?)?;
    module.add_function(wrap_pyfunction!(_set_dispatch_mode_active, module)?)?;
    wrapper::install(module)?;
    kernels::install(module)?;
    operator::install(module)
}
