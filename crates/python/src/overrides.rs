//! Calls with arguments of classes that answer for themselves, by `__flambeau_function__`: whether there are any, and handing
//! the call over. Programs without such classes pay one look at a flag.

use crate::arguments::{Given, Signature};
use crate::call::call;
use crate::tensor::{PyTensor, tensor_in};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

type Object<'py> = Bound<'py, PyAny>;

/// Whether the program has a subclass of `Tensor` that is asked.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread asks subclasses.
    static ON: Cell<bool> = const { Cell::new(true) };
}

/// From now on subclasses are asked.
#[pyfunction]
fn _note_subclass() {
    ANY.store(true, Ordering::Relaxed);
}

/// Whether this thread asks from now on; returns what was before.
#[pyfunction]
fn _ask_subclasses(on: bool) -> bool {
    ON.replace(on)
}

/// Whether a subclass among the arguments may want to answer.
#[inline]
pub(crate) fn may_matter(given: &Given<'_, '_>) -> bool {
    ANY.load(Ordering::Relaxed) && ON.get() && values(given).any(is_asked)
}

fn values<'a, 'py>(given: &Given<'a, 'py>) -> impl Iterator<Item = &'a Object<'py>> {
    given.receiver.into_iter().chain(given.positional).chain(given.named)
}

/// Whether it is a tensor of a class that is asked, or a list with one.
fn is_asked(value: &Object<'_>) -> bool {
    let is_plain = |value: &Object<'_>| value.get_type().is(PyTensor::type_object(value.py()));
    let asked = |value: &Object<'_>| !is_plain(value) && tensor_in(value).is_some() && answers(value);
    !is_plain(value) && (asked(value) || has_item(value, asked))
}

/// Whether an item of a list or tuple is such a one. Operators take lists of tensors and no lists of lists, and what a list of lists
/// holds may be the list itself.
fn has_item(value: &Object<'_>, is: impl Fn(&Object<'_>) -> bool) -> bool {
    match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => list.iter().any(|item| is(&item)),
        (_, Ok(tuple)) => tuple.iter().any(|item| is(&item)),
        _ => false,
    }
}

/// Whether an operator of a plain tensor leaves the answer to the object on its right.
#[inline]
pub(crate) fn defers(other: &Object<'_>) -> bool {
    ANY.load(Ordering::Relaxed) && ON.get() && is_asked(other)
}

/// Whether the class has an answer; `None` in its place says that it wants none.
fn answers(value: &Object<'_>) -> bool {
    value.get_type().getattr("__flambeau_function__").is_ok_and(|answer| !answer.is_none())
}

/// Whether an argument that is no tensor at all has an answer: asked where no overload fits.
pub(crate) fn has_stranger(given: &Given<'_, '_>) -> bool {
    let is_stranger = |value: &Object<'_>| tensor_in(value).is_none() && answers(value);
    values(given).any(|value| is_stranger(value) || has_item(value, is_stranger))
}

/// What the classes of the arguments answer.
#[cold]
pub(crate) fn ask<'py>(signature: &Signature, given: &Given<'_, 'py>) -> PyResult<Object<'py>> {
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = given.py;
    let ask = ASK.get_or_try_init(py, || {
        PyResult::Ok(py.import("flambeau._overrides")?.getattr("ask_by_name")?.unbind())
    })?;
    let arguments: Vec<&Object<'py>> = given.receiver.into_iter().chain(given.positional).collect();
    let arguments = PyTuple::new(py, arguments)?;
    let named = PyDict::new(py);
    for (name, value) in given.names.into_iter().flatten().zip(given.named) {
        named.set_item(name, value)?;
    }
    let name = PyString::new(py, signature.name);
    call(ask.bind(py), (name, given.receiver.is_some(), arguments, named))
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_note_subclass, module)?)?;
    module.add_function(wrap_pyfunction!(_ask_subclasses, module)?)
}
