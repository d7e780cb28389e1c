//! Derivatives of operators that plug-ins define: a node that calls a function of C, and tangents by differentiating that node.

use crate::entry::{fallible, list, taken};
use crate::handles::{as_handle, borrow, operator};
use crate::kernels::{Context, listed};
use crate::plugins::origin;
use crate::values::Passed;
use flambeau_autograd::graph::node::Owned;
use flambeau_autograd::record::{edges_of_all, set_history_of_all};
use flambeau_autograd::{Backward, Gradients, SavedVariable, Unpacked, forward, is_grad_enabled};
use flambeau_core::{DispatchKey, Result, bail, ensure, error};
use flambeau_ops::dispatch::{BoxedKernel, Call, OperatorInfo, Value};
use flambeau_ops::{Tensor, registry};
use flambeau_plugin::abi::{
    FbBackward, FbBackwardFunction, FbDrop, FbError, FbOperator, FbSetup, FbSetupFunction, FbTensor, FbValue,
    OVERRIDE,
};
use std::ffi::{c_int, c_void};
use std::ptr;

/// A derivative that a plug-in gave.
struct Derivative {
    setup: Option<FbSetupFunction>,
    backward: FbBackwardFunction,
    context: Context,
}

/// The kernel for `Autograd`.
struct Record(&'static Derivative);

/// The kernel for `ForwardGrad`.
struct Tangents;

pub(crate) unsafe extern "C" fn autograd(
    op: *const FbOperator,
    setup: Option<FbSetupFunction>,
    backward: FbBackwardFunction,
    context: *mut c_void,
    drop: Option<FbDrop>,
    flags: u32,
) -> *mut FbError {
    fallible("autograd", || {
        let context = Context::new(context, drop);
        // SAFETY: a handle.
        let op = unsafe { operator(op) }?.operator;
        ensure!(
            !op.arguments()?.iter().any(|argument| argument.is_written()),
            NotImplemented(op.name()),
            "expected an operator that writes no argument, since its derivative has to be recorded, but got {}",
            op.schema()
        );
        let origin = origin();
        let origin = (origin.as_str(), flags & OVERRIDE != 0);
        registry::implement(op, [DispatchKey::Autograd, DispatchKey::ForwardGrad], origin, || {
            let derivative = &*Box::leak(Box::new(Derivative { setup, backward, context }));
            [Box::leak(Box::new(Record(derivative))), &Tangents]
        })
    })
}

impl BoxedKernel for Tangents {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let arguments = call.operator.arguments()?;
        let inputs: Vec<usize> =
            (0..arguments.len()).filter(|at| arguments[*at].ty.holds_tensors()).collect();
        forward::transposed(call.operator, &inputs, call.arguments)
    }
}

/// The tensors of arguments or results, in order.
fn tensors(values: &[Value]) -> Vec<&Tensor> {
    values.iter().flat_map(Value::tensors).collect()
}

impl BoxedKernel for Record {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let results = call.below(call.arguments)?;
        let (inputs, outputs) = (tensors(call.arguments), tensors(&results));
        let is_input = |output: &&Tensor| inputs.iter().any(|input| input.is_same(output));
        ensure!(
            !outputs.iter().any(is_input),
            Autograd(call.operator.name()),
            "expected new tensors as results but got an argument"
        );
        if !is_grad_enabled() {
            return Ok(results);
        }
        let edges = edges_of_all(&inputs)?;
        if edges.iter().all(Option::is_none) {
            return Ok(results);
        }
        let saved = self.save(call.arguments, &results)?;
        let save = |tensor: &Tensor| match outputs.iter().position(|output| output.is_same(tensor)) {
            Some(at) => SavedVariable::output(tensor, at as u32),
            None => SavedVariable::other(tensor),
        };
        let node = PluginBackward {
            operator: call.operator,
            derivative: self.0,
            saved: saved.iter().map(save).collect::<Result<_>>()?,
            arguments: call.arguments.iter().map(without_tensors).collect(),
            inputs: inputs.len(),
        };
        set_history_of_all(&outputs, edges, node);
        Ok(results)
    }
}

fn without_tensors(value: &Value) -> Value {
    match value {
        Value::Tensor(_) | Value::Tensors(_) | Value::OptionalTensors(_) => Value::None,
        other => other.clone(),
    }
}

/// A recorded call, for the function that says what is saved.
struct Recorded {
    arguments: Passed,
    results: Passed,
    saved: Option<Vec<Tensor>>,
}

impl Record {
    /// The tensors that the backward needs.
    fn save(&self, arguments: &[Value], results: &[Value]) -> Result<Vec<Tensor>> {
        let Some(setup) = self.0.setup else {
            return Ok(tensors(arguments).into_iter().cloned().collect());
        };
        let mut recorded =
            Recorded { arguments: Passed::new(arguments), results: Passed::new(results), saved: None };
        // SAFETY: the plug-in promised such a function, and what it gets lives until it returns.
        unsafe { taken(setup(self.0.context.data(), ptr::from_mut(&mut recorded).cast())) }?;
        Ok(recorded.saved.unwrap_or_default())
    }
}

/// The node of a call.
struct PluginBackward {
    operator: &'static dyn OperatorInfo,
    derivative: &'static Derivative,
    saved: Vec<SavedVariable>,
    arguments: Vec<Value>,
    inputs: usize,
}

/// A node while its backward runs.
struct RunningBackward {
    arguments: Passed,
    saved: Vec<*mut FbTensor>,
    gradients: Vec<*mut FbTensor>,
    needs: Vec<bool>,
    made: Gradients,
}

impl Backward for PluginBackward {
    const NAME: &'static str = "PluginBackward";
    const SAVES: bool = true;

    fn backward(&self, cx: &flambeau_autograd::Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let unpack = |saved: &SavedVariable| saved.unpack(cx).map(Unpacked::into_tensor);
        let saved: Vec<Tensor> = self.saved.iter().map(unpack).collect::<Result<_>>()?;
        let mut running = RunningBackward {
            arguments: Passed::new(&self.arguments),
            saved: saved.iter().map(as_handle).collect(),
            gradients: grads.iter().map(|grad| grad.as_ref().map_or(ptr::null_mut(), as_handle)).collect(),
            needs: (0..self.inputs).map(|input| cx.needs(input)).collect(),
            made: (0..self.inputs).map(|_| None).collect(),
        };
        let derivative = self.derivative;
        // SAFETY: the plug-in promised such a function, and what it gets lives until it returns.
        unsafe {
            taken((derivative.backward)(derivative.context.data(), ptr::from_mut(&mut running).cast()))
        }
        .map_err(|error| error.context(format!("the backward of {}", self.operator.name())))?;
        Ok(running.made)
    }

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        self.saved.iter().for_each(|saved| saved.owns(visit));
    }
}

/// # Safety
/// - `setup` is null, or what a setup function was given, which is still running.
unsafe fn recorded<'r>(setup: *const FbSetup) -> Option<&'r Recorded> {
    // SAFETY: as above.
    unsafe { setup.cast::<Recorded>().as_ref() }
}

/// # Safety
/// - `backward` is null, or what a backward function was given, which is still running.
unsafe fn running<'r>(backward: *const FbBackward) -> Option<&'r RunningBackward> {
    // SAFETY: as above.
    unsafe { backward.cast::<RunningBackward>().as_ref() }
}

pub(crate) unsafe extern "C" fn setup_arguments(setup: *const FbSetup, count: *mut usize) -> *const FbValue {
    // SAFETY: what `flambeau.h` demands; so in the functions below.
    unsafe { listed(recorded(setup).map_or(&[][..], |recorded| recorded.arguments.as_slice()), count) }
}

pub(crate) unsafe extern "C" fn setup_results(setup: *const FbSetup, count: *mut usize) -> *const FbValue {
    // SAFETY: as above.
    unsafe { listed(recorded(setup).map_or(&[][..], |recorded| recorded.results.as_slice()), count) }
}

pub(crate) unsafe extern "C" fn setup_save(
    setup: *mut FbSetup,
    tensors: *const *mut FbTensor,
    count: usize,
) -> *mut FbError {
    fallible("setup_save", || {
        // SAFETY: as above.
        let (recorded, handles) =
            unsafe { (setup.cast::<Recorded>().as_mut(), list(tensors, count, "tensors")?) };
        let recorded = recorded.ok_or_else(|| error!(InvalidArgument, "expected a setup but got NULL"))?;
        ensure!(recorded.saved.is_none(), InvalidArgument, "expected tensors to save once");
        // SAFETY: as above.
        let tensor =
            |handle: &*mut FbTensor| unsafe { borrow(*handle, "tensors") }.map(|tensor| tensor.clone());
        recorded.saved = Some(handles.iter().map(tensor).collect::<Result<_>>()?);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn backward_arguments(
    backward: *const FbBackward,
    count: *mut usize,
) -> *const FbValue {
    // SAFETY: as above.
    unsafe { listed(running(backward).map_or(&[][..], |running| running.arguments.as_slice()), count) }
}

pub(crate) unsafe extern "C" fn backward_saved(
    backward: *const FbBackward,
    count: *mut usize,
) -> *const *mut FbTensor {
    // SAFETY: as above.
    unsafe { listed(running(backward).map_or(&[][..], |running| &running.saved[..]), count) }
}

pub(crate) unsafe extern "C" fn backward_gradients(
    backward: *const FbBackward,
    count: *mut usize,
) -> *const *mut FbTensor {
    // SAFETY: as above.
    unsafe { listed(running(backward).map_or(&[][..], |running| &running.gradients[..]), count) }
}

pub(crate) unsafe extern "C" fn backward_needs(backward: *const FbBackward, input: usize) -> c_int {
    // SAFETY: as above.
    let needs = unsafe { running(backward) }.and_then(|running| running.needs.get(input).copied());
    c_int::from(needs == Some(true))
}

pub(crate) unsafe extern "C" fn backward_set_gradient(
    backward: *mut FbBackward,
    input: usize,
    gradient: *mut FbTensor,
) -> *mut FbError {
    fallible("backward_set_gradient", || {
        // SAFETY: as above.
        let running = unsafe { backward.cast::<RunningBackward>().as_mut() };
        let Some(running) = running else { bail!(InvalidArgument, "expected a backward but got NULL") };
        let inputs = running.made.len();
        let Some(slot) = running.made.get_mut(input) else {
            bail!(Index, "expected one of {inputs} inputs but got number {input}")
        };
        // SAFETY: as above.
        *slot = Some(unsafe { borrow(gradient, "gradient") }?.clone());
        Ok(())
    })
}
