//! What autograd adds to the class `Tensor`.

use super::graph::{PyHookHandle, PyNode, gradient_hook};
use super::{Object, run_backward};
use crate::call::{IntoPython, call};
use crate::cycles;
use crate::errors::{error_from_python, raise};
use crate::tensor::{PyTensor, tensor_in, wrap};
use flambeau_autograd::Autograd;
use flambeau_ops::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

#[pymethods]
impl PyTensor {
    #[getter]
    fn requires_grad(&self) -> bool {
        self.tensor().requires_grad()
    }

    #[setter(requires_grad)]
    fn set_requires_grad(&self, requires_grad: bool) -> PyResult<()> {
        self.tensor().requires_grad_(requires_grad).map(drop).map_err(raise)
    }

    /// Sets whether a leaf requires a gradient.
    #[pyo3(signature = (requires_grad = true))]
    fn requires_grad_<'py>(slf: Bound<'py, Self>, requires_grad: bool) -> PyResult<Bound<'py, Self>> {
        slf.get().set_requires_grad(requires_grad)?;
        Ok(slf)
    }

    #[getter]
    fn is_leaf(&self) -> bool {
        self.tensor().is_leaf()
    }

    #[getter]
    fn grad<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.tensor().grad().into_python(py)
    }

    #[setter(grad)]
    fn set_grad(&self, grad: &Object<'_>) -> PyResult<()> {
        let grad = if grad.is_none() { None } else { Some(expect_tensor(grad)?) };
        self.tensor().set_grad(grad).map_err(raise)
    }

    /// The node that made it; `None` for leaves.
    #[getter]
    fn grad_fn(&self) -> PyResult<Option<PyNode>> {
        Ok(self.tensor().grad_fn().map_err(raise)?.map(PyNode))
    }

    #[getter]
    fn output_nr(&self) -> u32 {
        self.tensor().output_nr()
    }

    /// Accumulates the gradients of the leaves that this tensor depends on.
    #[pyo3(signature = (gradient = None, retain_graph = None, create_graph = false, inputs = None))]
    fn backward(
        slf: &Bound<'_, Self>,
        gradient: Option<&Object<'_>>,
        retain_graph: Option<bool>,
        create_graph: bool,
        inputs: Option<&Object<'_>>,
    ) -> PyResult<()> {
        run_backward(slf.py(), slf.as_any(), gradient, retain_graph, create_graph, inputs)
    }

    /// Keeps the gradient of a tensor that is no leaf.
    fn retain_grad(&self) -> PyResult<()> {
        self.tensor().retain_grad().map_err(raise)
    }

    #[getter]
    fn retains_grad(&self) -> bool {
        self.tensor().retains_grad()
    }

    /// Calls `hook` with the gradient whenever a pass computes it; what it returns replaces the gradient.
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<PyHookHandle> {
        let (hook, held) = cycles::held(hook);
        let handle = self.tensor().register_hook(gradient_hook(hook)).map_err(raise)?;
        Ok(PyHookHandle(handle.holding(held)))
    }

    /// Calls `hook` with this leaf whenever its gradient has been accumulated.
    fn register_post_accumulate_grad_hook(&self, hook: Py<PyAny>) -> PyResult<PyHookHandle> {
        let (hook, held) = cycles::held(hook);
        let run = move |leaf: &Tensor| {
            Python::attach(|py| call(hook.bind(py), (wrap(py, leaf.clone())?,)).map(drop))
                .map_err(error_from_python)
        };
        let handle = self.tensor().register_post_accumulate_grad_hook(run).map_err(raise)?;
        Ok(PyHookHandle(handle.holding(held)))
    }

    /// Forgets the history of this very tensor.
    fn detach_<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().tensor().detach_().map_err(raise)?;
        Ok(slf)
    }

    #[getter]
    fn _base<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.tensor().base().into_python(py)
    }

    fn _is_view(&self) -> bool {
        self.tensor().is_view()
    }

    fn is_inference(&self) -> bool {
        self.tensor().is_inference()
    }
}

fn expect_tensor<'a>(value: &'a Object<'_>) -> PyResult<&'a Tensor> {
    let message =
        || PyTypeError::new_err(format!("expected a Tensor or None but got {}", super::type_name(value)));
    tensor_in(value).ok_or_else(message)
}
