//! `x.data = y`: other elements for a tensor that keeps its history, its gradient and its hooks.

use super::{PyTensor, without_history};
use crate::errors::raise;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

#[pymethods]
impl PyTensor {
    /// The same elements without history.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        super::wrap(py, without_history(self.tensor())?)
    }

    /// The tensor shares the elements of the new data from now on; views of it keep those that they had.
    #[setter(data)]
    fn set_data(&self, data: &Bound<'_, PyTensor>) -> PyResult<()> {
        let (this, data) = (self.tensor(), data.get().tensor());
        if this.dtype() != data.dtype() || this.device() != data.device() {
            return Err(PyRuntimeError::new_err(format!(
                "attempted to set `data` to {} on {}, but the tensor has {} on {}: its type and device never change",
                data.dtype(),
                data.device(),
                this.dtype(),
                this.device()
            )));
        }
        this.set_data(data).map_err(raise)
    }
}
