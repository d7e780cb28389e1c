//! Calls with numbers before the tensors, as PyTorch had them before 1.0 and still takes them: `x.add_(0.5, y)`, `addmm(0.5, m, 2, a, b)`.

use super::{Given, Signature};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

/// The operators that have such calls.
const NAMES: &[&str] =
    &["add", "sub", "addcmul", "addcdiv", "addmm", "addmv", "addr", "addbmm", "baddbmm", "sspaddmm"];

/// Calls the operator with its numbers by name, if these are arguments of such a call; `None` where they are not. To be tried where no
/// overload fits.
#[cold]
pub(super) fn call<'py>(
    signature: &Signature,
    given: &Given<'_, 'py>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    NAMES.contains(&signature.name.trim_end_matches('_')).then(|| reordered(signature, given).transpose())?
}

fn reordered<'py>(signature: &Signature, given: &Given<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static NUMBERS_FIRST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = given.py;
    let function = NUMBERS_FIRST.get_or_try_init(py, || {
        PyResult::Ok(py.import("flambeau._methods")?.getattr("numbers_first")?.unbind())
    })?;
    let positional: Vec<_> = given.receiver.into_iter().chain(given.positional).collect();
    let positional = PyTuple::new(py, positional)?;
    let named = PyDict::new(py);
    for (name, value) in given.names.into_iter().flatten().zip(given.named) {
        named.set_item(name, value)?;
    }
    let name = PyString::new(py, signature.name);
    let found = crate::call::call(function.bind(py), (name, given.receiver.is_some(), positional, named))?;
    Ok((!found.is_none()).then_some(found))
}
