//! Named tuples for several results, as in `torch.return_types`: `x.max(0).values`.

use crate::call::call;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// The names of an operator's results, and the named tuple type, which is created on first use, since
/// most programs need none.
pub(crate) struct Names {
    operator: &'static str,
    results: &'static [&'static str],
    make: PyOnceLock<Py<PyAny>>,
}

impl Names {
    pub(crate) const fn new(operator: &'static str, results: &'static [&'static str]) -> Self {
        Names { operator, results, make: PyOnceLock::new() }
    }

    /// The values of a tuple under these names.
    pub(crate) fn give<'py>(&self, values: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = values.py();
        let make = self.make.get_or_try_init(py, || {
            let results = PyTuple::new(py, self.results)?;
            let class = py.import("flambeau.return_types")?.call_method1("make", (self.operator, results))?;
            class.getattr("_make").map(Bound::unbind)
        })?;
        call(make.bind(py), (values,))
    }
}
