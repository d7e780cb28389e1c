//! Several results under names: tuples as `torch.return_types` has them, `x.max(0).values`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

/// The names of an operator's results.
pub(crate) struct Names {
    pub(crate) operator: &'static str,
    pub(crate) results: &'static [&'static str],
}

/// The class for each operator, made in Python when first asked for: most programs need none.
static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The values of a tuple under their names.
pub(crate) fn named<'py>(values: Bound<'py, PyAny>, names: &Names) -> PyResult<Bound<'py, PyAny>> {
    class(values.py(), names)?.call_method1("_make", (values,))
}

fn class<'py>(py: Python<'py>, names: &Names) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let key = PyTuple::new(py, names.results)?;
    let key = (names.operator, key).into_pyobject(py)?;
    if let Some(class) = classes.get_item(&key)? {
        return Ok(class);
    }
    let class = py.import("flambeau.return_types")?.call_method1("make", &key)?;
    classes.set_item(key, &class)?;
    Ok(class)
}
