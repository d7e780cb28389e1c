//! `__flambeau_function__`: whether an argument has a class that overrides operators, and the call of its override. Programs without
//! such classes pay one load of a flag.

use crate::arguments::{Given, Signature};
use crate::call::call;
use crate::tensor::{PyTensor, tensor_in};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

type Object<'py> = Bound<'py, PyAny>;

/// Whether the program has a subclass of `Tensor` with an override.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether overrides are enabled on this thread.
    static ON: Cell<bool> = const { Cell::new(true) };
    /// Whether a mode of this thread sees every call, whatever its arguments are.
    static MODE: Cell<bool> = const { Cell::new(false) };
}

/// From now on arguments are searched for overrides.
#[pyfunction]
fn _enable_overrides() {
    ANY.store(true, Ordering::Relaxed);
}

/// Enables or disables overrides on this thread; returns what was before.
#[pyfunction]
fn _set_overrides_enabled(on: bool) -> bool {
    ON.replace(on)
}

/// Whether a mode of this thread sees every call from now on; returns what was before.
#[pyfunction]
fn _set_mode_active(active: bool) -> bool {
    ANY.store(true, Ordering::Relaxed);
    MODE.replace(active)
}

/// Whether an argument is of a subclass with an override, or a mode sees every call.
#[inline]
pub(crate) fn has_overrides(given: &Given<'_, '_>) -> bool {
    ANY.load(Ordering::Relaxed) && ON.get() && (MODE.get() || values(given).any(has_override))
}

/// The same for the arguments of a function that is written in Python.
#[pyfunction]
fn _has_overrides(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> bool {
    has_overrides_in(args, Some(kwargs))
}

/// The same for a call by value.
pub(crate) fn has_overrides_in(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> bool {
    let named = || kwargs.is_some_and(|kwargs| kwargs.values().iter().any(|value| has_override(&value)));
    ANY.load(Ordering::Relaxed)
        && ON.get()
        && (MODE.get() || args.iter_borrowed().any(|value| has_override(&value)) || named())
}

fn values<'a, 'py>(given: &Given<'a, 'py>) -> impl Iterator<Item = &'a Object<'py>> {
    given.receiver.into_iter().chain(given.positional).chain(given.named)
}

/// Whether it is a tensor of a subclass with an override, or a list with one.
fn has_override(value: &Object<'_>) -> bool {
    let is_plain = |value: &Object<'_>| value.get_type().is(PyTensor::type_object(value.py()));
    let overrides =
        |value: &Object<'_>| !is_plain(value) && tensor_in(value).is_some() && class_overrides(value);
    !is_plain(value) && (overrides(value) || has_item(value, overrides))
}

/// Whether an item of a list or tuple is such a one. Nested lists are not searched: no operator takes them, and a list may contain
/// itself.
fn has_item(value: &Object<'_>, is: impl Fn(&Object<'_>) -> bool) -> bool {
    match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => list.iter().any(|item| is(&item)),
        (_, Ok(tuple)) => tuple.iter().any(|item| is(&item)),
        _ => false,
    }
}

/// Whether a binary operator of a plain tensor defers to the override of its right operand.
#[inline]
pub(crate) fn defers(other: &Object<'_>) -> bool {
    ANY.load(Ordering::Relaxed) && ON.get() && has_override(other)
}

/// Whether the class has an override; `__flambeau_function__ = None` says that it has none.
fn class_overrides(value: &Object<'_>) -> bool {
    value.get_type().getattr("__flambeau_function__").is_ok_and(|answer| !answer.is_none())
}

/// The same of a class that is no tensor's, which may have the protocol under PyTorch's name only.
fn other_class_overrides(value: &Object<'_>) -> bool {
    class_overrides(value)
        || value.get_type().getattr("__torch_function__").is_ok_and(|answer| !answer.is_none())
}

/// Whether an argument that is no tensor has an override: tried where no overload fits.
pub(crate) fn has_non_tensor_override(given: &Given<'_, '_>) -> bool {
    let is_other_override = |value: &Object<'_>| tensor_in(value).is_none() && other_class_overrides(value);
    values(given).any(|value| is_other_override(value) || has_item(value, is_other_override))
}

/// Calls the overrides of the arguments' classes.
#[cold]
pub(crate) fn call_override<'py>(signature: &Signature, given: &Given<'_, 'py>) -> PyResult<Object<'py>> {
    static CALL_OVERRIDE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = given.py;
    let function = CALL_OVERRIDE.get_or_try_init(py, || {
        PyResult::Ok(py.import("flambeau._overrides")?.getattr("call_override_by_name")?.unbind())
    })?;
    let arguments: Vec<&Object<'py>> = given.receiver.into_iter().chain(given.positional).collect();
    let arguments = PyTuple::new(py, arguments)?;
    let named = PyDict::new(py);
    for (name, value) in given.names.into_iter().flatten().zip(given.named) {
        named.set_item(name, value)?;
    }
    let name = PyString::new(py, signature.name);
    call(function.bind(py), (name, given.receiver.is_some(), arguments, named))
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_enable_overrides, module)?)?;
    module.add_function(wrap_pyfunction!(_has_overrides, module)?)?;
    module.add_function(wrap_pyfunction!(_set_mode_active, module)?)?;
    module.add_function(wrap_pyfunction!(_set_overrides_enabled, module)?)
}
