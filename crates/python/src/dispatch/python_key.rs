//! The dispatch key `Python`: calls with an object of a class that has `__torch_dispatch__`, and all calls while a mode is active.

use super::kernels::distinct;
use super::operator::overload_of;
use super::schema::{OperatorSchema, schema_of};
use super::{below_autograd, values};
use crate::call::call as call_python;
use crate::errors::error_from_python;
use crate::tensor::wrap;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, apply_thread_keys};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{BoxedKernel, BoxedRegistration, Call, Value, inventory};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

/// Calls the modes and the classes.
pub(super) struct PythonKey;

inventory::submit!(BoxedRegistration::fallback(DispatchKey::Python, &PythonKey));
// Implicit composites that PyTorch does not take apart, since they read elements, or have a kernel of their own there.
inventory::submit!(BoxedRegistration::new(&flambeau_ops::ops::T, DispatchKey::Python, &PythonKey));
inventory::submit!(BoxedRegistration::new(
    &flambeau_ops::ops::_LOCAL_SCALAR_DENSE,
    DispatchKey::Python,
    &PythonKey
));

fn has_key(tensor: &&Tensor) -> bool {
    tensor.key_set().has(DispatchKey::Python)
}

impl BoxedKernel for PythonKey {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        #[cfg(feature = "compile")]
        if flambeau_compile::is_capturing() {
            return flambeau_compile::record(call);
        }
        let of_mode = apply_thread_keys(DispatchKeySet::EMPTY).has(DispatchKey::Python);
        if !of_mode && !call.arguments.iter().flat_map(Value::tensors).any(|tensor| has_key(&tensor)) {
            return call.below(call.arguments);
        }
        let schema = schema_of(call.operator)?;
        let results = Python::attach(|py| {
            let _below = below_autograd();
            call_front_end(py, call, schema)
        });
        let results = results.map_err(error_from_python)?;
        count_writes(schema, call.arguments);
        distinct(results, call.arguments)
    }
}

fn call_front_end(py: Python<'_>, call: &Call<'_>, schema: &'static OperatorSchema) -> PyResult<Vec<Value>> {
    static DISPATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dispatch = DISPATCH.get_or_try_init(py, || {
        PyResult::Ok(py.import("flambeau._dispatch")?.getattr("dispatch")?.unbind())
    })?;
    let objects = PyList::empty(py);
    for tensor in call.arguments.iter().flat_map(Value::tensors).filter(has_key) {
        objects.append(wrap(py, tensor.clone())?)?;
    }
    let (args, kwargs) = values::python_arguments(py, schema, call.arguments, false)?;
    let overload = overload_of(py, call.operator)?;
    let returned = call_python(dispatch.bind(py), (overload, objects, args, kwargs))?;
    values::results(schema, &returned)
}

/// Advances the versions of written arguments that have no elements: no guard saw the write, and saved variables must notice it.
fn count_writes(schema: &OperatorSchema, arguments: &[Value]) {
    let pairs = schema.parameters.iter().zip(arguments);
    let written = pairs.filter(|(parameter, _)| parameter.argument.is_written());
    let tensors = written.flat_map(|(_, value)| value.tensors());
    tensors
        .filter(|tensor| super::wrapper::is_wrapper(tensor))
        .for_each(|tensor| tensor.impl_().count_write());
}
