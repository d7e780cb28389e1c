//! Several results under names: tuples as `torch.return_types` has them, `x.max(0).values`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

/// `collections.namedtuple` classes, by their names, made when first asked for: most programs need none.
static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The values of a tuple under names.
pub(crate) fn named<'py>(
    values: Bound<'py, PyAny>,
    names: &'static [&'static str],
) -> PyResult<Bound<'py, PyAny>> {
    class(values.py(), names)?.call_method1("_make", (values,))
}

fn class<'py>(py: Python<'py>, names: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let key = PyString::new(py, &names.join(" "));
    if let Some(class) = classes.get_item(&key)? {
        return Ok(class);
    }
    let class = py.import("collections")?.call_method1("namedtuple", (names.join("_"), &key))?;
    class.setattr("__module__", "flambeau.return_types")?;
    classes.set_item(key, &class)?;
    Ok(class)
}
