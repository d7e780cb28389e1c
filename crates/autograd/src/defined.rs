//! Operators that a program defined while it runs and that have no derivative: neither their histories nor their tangents vanish silently.
//!
//! The kernels are defaults: they are in force until an operator has its own for the key, and do not count as kernels of its own.

use crate::forward::{transposed, unpack_dual};
use crate::graph::gradients::Gradients;
use crate::graph::node::Context;
use crate::graph::operator::Backward;
use crate::record;
use flambeau_core::{DispatchKey, DispatchKeySet, Error, ErrorKind, Result, ThreadKeysGuard, bail, ensure};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{BoxedKernel, Call, OperatorInfo, Value};
use flambeau_ops::registry::DefaultKernel;
use parking_lot::Mutex;

inventory::submit! { DefaultKernel::new(DispatchKey::Autograd, &WithoutFormula) }
inventory::submit! { DefaultKernel::new(DispatchKey::ForwardGrad, &Tangents) }

/// Excludes the keys that have seen a call by the time a kernel of a backend, or a class or a mode of a front end, runs.
pub fn below_autograd() -> ThreadKeysGuard {
    const ABOVE: DispatchKeySet = DispatchKeySet::of(DispatchKey::ADInplaceOrView)
        .union(DispatchKeySet::of(DispatchKey::Autograd))
        .union(DispatchKeySet::of(DispatchKey::ForwardGrad))
        .union(DispatchKeySet::of(DispatchKey::Autocast));
    ThreadKeysGuard::exclude(ABOVE)
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
        let written = written(call)?;
        written.iter().try_for_each(|tensor| record::check_inplace(tensor))?;
        let edges = record::edges_of_all(&inputs)?;
        let results = below()?;
        let name = call.operator.name();
        let outputs = new_tensors(name, &results, &inputs, &written)?;
        if outputs.iter().any(|output| output.dtype().is_differentiable()) {
            record::set_history_of_all(&outputs, edges.clone(), NoFormula(name));
        }
        for tensor in written.iter().filter(|tensor| tensor.dtype().is_differentiable()) {
            record::rebase_history(tensor, edges.clone(), NoFormula(name))?;
        }
        Ok(results)
    }
}

/// The tensors that a call writes, as the schema says.
fn written<'c>(call: &Call<'c>) -> Result<Vec<&'c Tensor>> {
    let arguments = call.operator.arguments()?;
    let pairs = arguments.iter().zip(call.arguments);
    Ok(pairs.filter(|(argument, _)| argument.is_written()).flat_map(|(_, value)| value.tensors()).collect())
}

/// The tensors among the results that are not arguments which were written. They get a history of their own, which would replace that of
/// an argument.
fn new_tensors<'r>(
    name: &str,
    results: &'r [Value],
    inputs: &[&Tensor],
    written: &[&Tensor],
) -> Result<Vec<&'r Tensor>> {
    let is_in = |list: &[&Tensor], tensor: &Tensor| list.iter().any(|other| other.is_same(tensor));
    let tensors = results.iter().flat_map(Value::tensors);
    let made: Vec<&Tensor> = tensors.filter(|tensor| !is_in(written, tensor)).collect();
    ensure!(
        !made.iter().any(|tensor| is_in(inputs, tensor)),
        Autograd(name),
        "expected new tensors as results but got an argument that the schema does not say is written"
    );
    Ok(made)
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
        let is_functional = !call.operator.arguments()?.iter().any(|argument| argument.is_written());
        if !is_functional || !FORMULAS.lock().contains(&address(call.operator)) {
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

/// The operators with a derivative from which tangents follow, by address: a name may be defined again.
static FORMULAS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn address(operator: &dyn OperatorInfo) -> usize {
    std::ptr::from_ref(operator).cast::<()>().addr()
}

/// Registers the defaults as kernels of an operator: they then take its calls although it is an implicit composite for other keys.
///
/// # Errors
/// Those of [`register_boxed`](OperatorInfo::register_boxed).
pub fn register_defaults(operator: &'static dyn OperatorInfo) -> Result<()> {
    if !operator.has_kernel(DispatchKey::Autograd) {
        operator.register_boxed(DispatchKey::Autograd, &WithoutFormula)?;
    }
    if !operator.has_kernel(DispatchKey::ForwardGrad) {
        operator.register_boxed(DispatchKey::ForwardGrad, &Tangents)?;
    }
    Ok(())
}

/// Has the tangents of an operator follow from its kernel for `Autograd`, whose backward pass is differentiable itself.
pub fn note_formula(operator: &'static dyn OperatorInfo) {
    FORMULAS.lock().push(address(operator));
}
