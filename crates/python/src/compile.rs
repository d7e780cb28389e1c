//! `flambeau.compile`: the plans of a function of Python's.

use crate::call::{call, run_owning};
use crate::errors::error_from_python;
use crate::tensor::{tensor_in, wrap};
use flambeau_compile::FunctionOf;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;

type Object<'py> = Bound<'py, PyAny>;

/// What a call of a plan gives: its number, and the tensors.
type Planned<'py> = (u64, Vec<Object<'py>>);

/// The plans of a function.
#[pyclass(frozen, name = "_Plans", module = "flambeau._flambeau")]
pub(crate) struct PyPlans(flambeau_compile::Plans);

#[pymethods]
impl PyPlans {
    #[new]
    fn new() -> Self {
        PyPlans(flambeau_compile::Plans::default())
    }

    /// The number and the results of the plan for such tensors, or `None` where the function is to run as it is written.
    fn call<'py>(
        &self,
        py: Python<'py>,
        state: &str,
        function: Py<PyAny>,
        tensors: Vec<Object<'py>>,
    ) -> PyResult<Option<Planned<'py>>> {
        let (function, tensors) = (function_of(function), tensors_of(&tensors)?);
        let Some((number, results)) = run_owning(py, || self.0.call_planned(state, &function, &tensors))?
        else {
            return Ok(None);
        };
        let results = results.into_iter().map(|result| wrap(py, result)).collect::<PyResult<_>>()?;
        Ok(Some((number, results)))
    }

    /// The number of the plan for such tensors, and what it runs, or why there is none.
    fn explain(
        &self,
        py: Python<'_>,
        state: &str,
        function: Py<PyAny>,
        tensors: Vec<Object<'_>>,
    ) -> PyResult<(Option<u64>, String)> {
        let (function, tensors) = (function_of(function), tensors_of(&tensors)?);
        let explanation = run_owning(py, || Ok(self.0.explain(state, &function, &tensors)))?;
        Ok((explanation.plan, explanation.to_string()))
    }

    /// How many plans there are, those of functions that run as they are written included.
    fn __len__(&self) -> usize {
        self.0.count()
    }
}

fn tensors_of(objects: &[Object<'_>]) -> PyResult<Vec<Tensor>> {
    let tensor = |object: &Object<'_>| {
        tensor_in(object).cloned().ok_or_else(|| PyTypeError::new_err("compile: expected a Tensor"))
    };
    objects.iter().map(tensor).collect()
}

/// A function of Python's that takes a tuple of tensors and returns a list of them.
fn function_of(function: Py<PyAny>) -> Arc<FunctionOf> {
    Arc::new(move |tensors: &[Tensor]| call_python(&function, tensors))
}

fn call_python(function: &Py<PyAny>, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let called = |py: Python<'_>| -> PyResult<Vec<Tensor>> {
        let objects = tensors.iter().map(|tensor| wrap(py, tensor.clone())).collect::<PyResult<Vec<_>>>()?;
        let returned = call(function.bind(py), (PyTuple::new(py, objects)?,))?;
        let returned: Vec<Object<'_>> = returned.cast::<PyList>()?.iter().collect();
        tensors_of(&returned)
    };
    Python::attach(called).map_err(error_from_python)
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyPlans>()
}
