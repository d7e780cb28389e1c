//! Kernels that are functions of Python's, and the kernels of operators from outside that have no derivative.

use super::below_autograd;
use super::schema::schema_of;
use super::values;
use crate::call::call_named;
use crate::errors::{error_from_python, raise};
use flambeau_autograd::forward::{transposed, unpack_dual};
use flambeau_autograd::{Backward, Context, Gradients, no_grad, record};
use flambeau_core::{Error, ErrorKind, Result, bail};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{BoxedKernel, Call, DispatchKey, OperatorInfo, Value};
use parking_lot::Mutex;
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

/// The derivative of an operator for which none is registered.
struct NoFormula(&'static str);

impl Backward for NoFormula {
    const NAME: &'static str = "NotImplemented";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        let (name, overload) = self.0.split_once('.').unwrap_or((self.0, "default"));
        let name = name.replace("::", ".");
        let message = format!(
            "Trying to backward through {name}.{overload} but no autograd formula was registered. Please use register_autograd to add one."
        );
        Err(Error::new(ErrorKind::Autograd, message))
    }
}

/// The kernel for `Autograd` of an operator without a registered derivative: a backward pass through its results is an error.
struct WithoutFormula;

impl BoxedKernel for WithoutFormula {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let inputs: Vec<&Tensor> = call.arguments.iter().flat_map(Value::tensors).collect();
        let below = || {
            let _below = below_autograd();
            call.operator.call_boxed(call.arguments)
        };
        if !record::any_requires_grad(inputs.iter().copied()) {
            return below();
        }
        let schema = schema_of(call.operator)?;
        let written: Vec<&Tensor> = schema
            .parameters
            .iter()
            .zip(call.arguments)
            .filter(|(parameter, _)| parameter.argument.is_written())
            .flat_map(|(_, value)| value.tensors())
            .collect();
        written.iter().try_for_each(|tensor| record::check_inplace(tensor))?;
        let edges = record::edges_of_all(&inputs)?;
        let results = below()?;
        let outputs: Vec<&Tensor> = results.iter().flat_map(Value::tensors).collect();
        let name = call.operator.name();
        if outputs.iter().any(|output| output.dtype().is_differentiable()) {
            record::set_history_of_all(&outputs, edges.clone(), NoFormula(name));
        }
        for tensor in written.iter().filter(|tensor| tensor.dtype().is_differentiable()) {
            record::rebase_history(tensor, edges.clone(), NoFormula(name))?;
        }
        Ok(results)
    }
}

/// The kernel for `ForwardGrad`: tangents follow from the backward pass, where it is registered and differentiable itself.
struct Tangents;

impl BoxedKernel for Tangents {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let mut has_tangent = false;
        for tensor in call.arguments.iter().flat_map(Value::tensors) {
            has_tangent |= unpack_dual(tensor)?.1.is_some();
        }
        if !has_tangent {
            return call.below(call.arguments);
        }
        let schema = schema_of(call.operator)?;
        let has_formula = FORMULAS.lock().contains(&address(call.operator));
        if !has_formula || !schema.schema.is_functional() {
            bail!(
                NotImplemented(call.operator.name()),
                "Trying to use forward AD with {} that does not support it because it has no derivative: use register_autograd \
                 to add one",
                call.operator.name()
            );
        }
        let inputs: Vec<usize> = (0..call.arguments.len())
            .filter(|index| call.arguments[*index].tensors().any(|tensor| tensor.dtype().is_differentiable()))
            .collect();
        transposed(call.operator, &inputs, call.arguments)
    }
}

/// The operators with a derivative in Python, by address: a name may be defined again.
static FORMULAS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn address(operator: &dyn OperatorInfo) -> usize {
    std::ptr::from_ref(operator).cast::<()>().addr()
}

/// Has backward passes and tangents of an operator from outside be errors until it has a derivative.
pub(super) fn add_autograd(operator: &'static dyn OperatorInfo) -> Result<()> {
    if !operator.has_kernel(DispatchKey::Autograd) {
        operator.register_boxed(DispatchKey::Autograd, &WithoutFormula)?;
    }
    if !operator.has_kernel(DispatchKey::ForwardGrad) {
        operator.register_boxed(DispatchKey::ForwardGrad, &Tangents)?;
    }
    Ok(())
}

/// Registers that an operator has a derivative, from which its tangents follow.
pub(super) fn note_formula(operator: &'static dyn OperatorInfo) {
    FORMULAS.lock().push(address(operator));
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
