//! Kernels that are functions of Python's.

use super::below_autograd;
use super::schema::schema_of;
use super::values;
use crate::call::call_named;
use crate::errors::{error_from_python, raise};
use flambeau_autograd::no_grad;
use flambeau_core::{Error, ErrorKind, Result};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{BoxedKernel, Call, Value};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A function of Python's as a kernel. It gets every argument, those behind the `*` by name.
pub(super) struct PythonKernel {
    pub(super) function: Py<PyAny>,
    pub(super) in_force: Arc<AtomicBool>,
    /// Whether operators that it calls are recorded: it is composite, or a kernel of autograd itself.
    pub(super) is_recorded: bool,
}

impl BoxedKernel for PythonKernel {
    fn is_in_force(&self) -> bool {
        self.in_force.load(Ordering::Acquire)
    }

    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let schema = schema_of(call.operator)?;
        let results = Python::attach(|py| {
            let (args, kwargs) = values::python_arguments(py, schema, call.arguments, true)?;
            let kwargs = Some(&kwargs).filter(|kwargs| !kwargs.is_empty());
            let _below = (!self.is_recorded).then(below_autograd);
            let _unrecorded = (!self.is_recorded).then(no_grad);
            let returned = call_named(self.function.bind(py), args, kwargs)?;
            values::results(schema, &returned)
        });
        let results = results.map_err(error_from_python)?;
        distinct(results, call.arguments)
    }
}

/// The results of a kernel without those that are arguments: a result gets a history of its own, which would replace the argument's.
pub(super) fn distinct(results: Vec<Value>, arguments: &[Value]) -> Result<Vec<Value>> {
    let is_argument =
        |tensor: &Tensor| arguments.iter().flat_map(Value::tensors).any(|given| given.is_same(tensor));
    let apart =
        |tensor: Tensor| if is_argument(&tensor) { super::wrapper::alias(&tensor) } else { Ok(tensor) };
    let separate = |value: Value| {
        Ok(match value {
            Value::Tensor(tensor) => Value::Tensor(apart(tensor)?),
            Value::Tensors(list) => Value::Tensors(list.into_iter().map(apart).collect::<Result<_>>()?),
            other => other,
        })
    };
    results.into_iter().map(separate).collect()
}

/// Counts writes of tensors that their storages' guards did not see, such as those through an array of NumPy's.
#[pyfunction]
fn _count_writes(tensors: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
    for tensor in &tensors {
        let found = crate::tensor::tensor_in(tensor);
        let none = || raise(Error::new(ErrorKind::InvalidArgument, "expected tensors"));
        found.ok_or_else(none)?.impl_().count_write();
    }
    Ok(())
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_count_writes, module)?)
}
