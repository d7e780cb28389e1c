//! Hooks, written in Python, on the tensors that a graph saves.

use super::Object;
use crate::call::{IntoPython, call};
use crate::cycles::Object as Held;
use crate::errors::error_from_python;
use crate::tensor::tensor_in;
use flambeau_autograd::graph::hooks::{Packed, SavedTensorsHooksGuard};
use flambeau_autograd::saved_tensors_hooks;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::any::Any;
use std::cell::RefCell;

thread_local! {
    /// The pairs in force on this thread, innermost last.
    static IN_FORCE: RefCell<Vec<SavedTensorsHooksGuard>> = const { RefCell::new(Vec::new()) };
}

/// From now on this thread's graphs keep what `pack` returns, and call `unpack` with it when they need the tensor.
#[pyfunction]
fn _enter_saved_tensors_hooks(pack: Py<PyAny>, unpack: Py<PyAny>) {
    let guard = saved_tensors_hooks(move |tensor| packed(&pack, tensor), move |data| unpacked(&unpack, data));
    IN_FORCE.with_borrow_mut(|guards| guards.push(guard));
}

/// Ends the innermost pair.
#[pyfunction]
fn _leave_saved_tensors_hooks() -> PyResult<()> {
    let left = IN_FORCE.with_borrow_mut(Vec::pop);
    left.map(drop)
        .ok_or_else(|| PyRuntimeError::new_err("no hooks on saved tensors are in force on this thread"))
}

fn packed(pack: &Py<PyAny>, tensor: &Tensor) -> Result<Packed> {
    let made = |py: Python<'_>| {
        let made = call(pack.bind(py), (tensor.clone().into_python(py)?,))?;
        PyResult::Ok(Box::new(Held::new(made.unbind())) as Packed)
    };
    Python::attach(made).map_err(error_from_python)
}

fn unpacked(unpack: &Py<PyAny>, data: &(dyn Any + Send + Sync)) -> Result<Tensor> {
    let tensor = |py: Python<'_>| {
        let packed = data.downcast_ref::<Held>().map(|packed| packed.bind(py));
        expected(call(unpack.bind(py), (packed,))?)
    };
    Python::attach(tensor).map_err(error_from_python)
}

fn expected(returned: Object<'_>) -> PyResult<Tensor> {
    tensor_in(&returned).cloned().ok_or_else(|| {
        PyTypeError::new_err(format!(
            "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
            super::type_name(&returned)
        ))
    })
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_enter_saved_tensors_hooks, module)?)?;
    module.add_function(wrap_pyfunction!(_leave_saved_tensors_hooks, module)?)
}
