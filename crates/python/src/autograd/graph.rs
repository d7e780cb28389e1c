//! Nodes of the graph and hooks, as Python sees them.

use super::Object;
use crate::call::{IntoPython, call};
use crate::cycles::{self, Object as Held};
use crate::errors::error_from_python;
use crate::tensor::{tensor_in, wrap};
use flambeau_autograd::exclusive::{Owned, clear_hooks};
use flambeau_autograd::{Gradients, HookHandle, NodeHandle, NodePtr};
use flambeau_core::{Result as Checked, ThinPtr};
use flambeau_ops::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;
use std::sync::Arc;

/// One step of the backward pass.
#[pyclass(name = "Node", module = "flambeau.autograd", frozen)]
pub(crate) struct PyNode(pub(crate) NodePtr);

#[pymethods]
impl PyNode {
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Where the gradients of the inputs go: pairs of a node and a number.
    #[getter]
    fn next_functions(&self) -> Vec<(Option<PyNode>, u32)> {
        let edges = self.0.header().edges().iter();
        let pair = |edge: &Option<flambeau_autograd::Edge>| match edge {
            Some(edge) => (Some(PyNode(edge.node.clone())), edge.input_nr),
            None => (None, 0),
        };
        edges.map(pair).collect()
    }

    #[getter]
    fn _sequence_nr(&self) -> u64 {
        self.0.header().sequence_nr()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|other| ThinPtr::ptr_eq(&self.0, &other.get().0))
    }

    fn __hash__(&self) -> isize {
        (ThinPtr::address(&self.0) >> 4) as isize
    }

    fn __repr__(&self) -> String {
        format!("<{} object at {:#x}>", self.0.name(), ThinPtr::address(&self.0))
    }

    /// Calls `hook(grad_inputs, grad_outputs)` after the node has run.
    fn register_hook(&self, hook: Py<PyAny>) -> PyHookHandle {
        let (hook, held) = cycles::held(hook);
        let run = move |inputs: &[Option<Tensor>], outputs: &[Option<Tensor>]| {
            replaced(|py| call(hook.bind(py), (tuple(py, inputs)?, tuple(py, outputs)?)))
        };
        PyHookHandle(NodeHandle::register_hook(&self.0, run).holding(held))
    }

    /// Calls `hook(grad_outputs)` before the node runs.
    fn register_prehook(&self, hook: Py<PyAny>) -> PyHookHandle {
        let (hook, held) = cycles::held(hook);
        let run =
            move |outputs: &[Option<Tensor>]| replaced(|py| call(hook.bind(py), (tuple(py, outputs)?,)));
        PyHookHandle(self.0.register_prehook(run).holding(held))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if cycles::are_any_held() && cycles::can_traverse() {
            cycles::traverse(Owned::Node(&self.0), &visit)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        clear_hooks(&self.0);
    }
}

fn tuple<'py>(py: Python<'py>, gradients: &[Option<Tensor>]) -> PyResult<Bound<'py, PyTuple>> {
    let objects = gradients.iter().map(|gradient| gradient.clone().into_python(py));
    PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
}

/// The gradients that a hook on a node returns; none where it returns `None`.
fn replaced(call: impl for<'py> FnOnce(Python<'py>) -> PyResult<Object<'py>>) -> Checked<Option<Gradients>> {
    Python::attach(|py| {
        let returned = call(py)?;
        if returned.is_none() {
            return Ok(None);
        }
        super::optional_tensors(&returned).map(|gradients| Some(gradients.into_iter().collect()))
    })
    .map_err(error_from_python)
}

/// A hook on a gradient, written in Python.
pub(super) fn gradient_hook(hook: Arc<Held>) -> impl Fn(&Tensor) -> Checked<Option<Tensor>> + Send + Sync {
    move |gradient: &Tensor| {
        Python::attach(|py| {
            let returned = call(hook.bind(py), (wrap(py, gradient.clone())?,))?;
            match tensor_in(&returned) {
                Some(tensor) => Ok(Some(tensor.clone())),
                None if returned.is_none() => Ok(None),
                None => Err(PyTypeError::new_err(format!(
                    "expected a hook to return None or a Tensor but got {}",
                    super::type_name(&returned)
                ))),
            }
        })
        .map_err(error_from_python)
    }
}

/// Takes a hook away again.
#[pyclass(name = "RemovableHandle", module = "flambeau.autograd", frozen)]
pub(crate) struct PyHookHandle(pub(crate) HookHandle);

#[pymethods]
impl PyHookHandle {
    fn remove(&self) {
        self.0.remove();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.0.remove();
    }
}

/// How many nodes of operators there are.
#[pyfunction]
fn _live_nodes() -> i64 {
    flambeau_autograd::live_nodes()
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_live_nodes, module)?)?;
    module.add_class::<PyNode>()?;
    module.add_class::<PyHookHandle>()
}
