//! What recording kernels call; the kernels are generated from `derivatives.yaml`.
//!
//! # The pattern
//! For each operator that is not composed of recorded ones:
//!
//! 1. **A struct of saved values**, `MulBackward0`: a [`SavedVariable`](crate::SavedVariable) for each tensor whose *values*
//!    the formula uses, in an `Option` if only some gradients need it (saved where the edge that needs it is there: see
//!    [`record::saved_input`](crate::record::saved_input)); sizes, geometry and plain arguments as they are.
//! 2. **`impl Backward`**: `NAME` is what PyTorch calls the node and what the struct is called, `SAVES` whether a field is a saved tensor. `backward`
//!    gives one formula for each differentiable input in the order of the edges, through
//!    [`record::gradients`](crate::record::gradients), which runs those that are wanted. Formulas call operators through
//!    `flambeau_ops::ops`, so that a pass with `create_graph` records them. They do not undo broadcasting and do not convert types: the engine does.
//! 3. **The kernel** for `DispatchKey::Autograd`, of the operator's own signature behind a `DispatchKeySet`:
//!    * functional: below, and if there are [`recorded_edges`](crate::record::recorded_edges): the struct,
//!      [`set_history`](crate::record::set_history). The struct is made after the call, so that outputs can be saved.
//!    * in-place: if recording, [`check_inplace`](crate::record::check_inplace), `edges` and values of `self` that a formula
//!      needs ([`original`](crate::record::original)) come *before* the call; saved outputs and
//!      [`rebase_history`](crate::record::rebase_history) after it.
//!    * `out=`: [`check_out`](crate::record::check_out), then below.
//!    * no derivative: as functional, with [`NotImplemented`](crate::record::NotImplemented), so that the error comes in the backward
//!      pass and names the operator.
//!    * not differentiable (results are bool, integers, numbers): the call below and nothing else. Results that are not
//!      floating point carry no history in any case; of several results,
//!      [`set_history_of_all`](crate::record::set_history_of_all) is given all, in order, and skips those.
//! 4. For a view operator also **the kernel for `DispatchKey::ADInplaceOrView`**: [`record::view`](crate::record::view), or
//!    [`record::views`](crate::record::views) for several results.
//! 5. **`register!`** for each kernel. An operator with no kernel for `Autograd` refuses tensors that require a gradient: none may
//!    be forgotten. Composite operators (`CompositeImplicitAutograd`) need none.

mod arguments;
pub(crate) mod copy_slices;
pub mod scalar;

pub use arguments::*;

use crate::grad_mode::is_grad_enabled;
use crate::graph::gradients::Gradients;
use crate::graph::node::{Context, Edge, Edges, IntoEdges, NodePtr};
use crate::graph::operator::{Backward, GraphNode};
use crate::variable::history::{gradient_edge, gradient_edges, set_gradient_edge};
use crate::variable::meta::{Variable, attach_to_fresh, is_leaf, requires_grad, variable};
use crate::variable::saved_variable::{SavedVariable, Unpacked};
use crate::variable::{tangents, view};
use copy_slices::CopySlices;
use flambeau_core::{DispatchKey, DispatchKeySet, IntrusivePtr, Result, ThreadKeysGuard, bail, ensure};
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// Until it is dropped, calls on this thread go to the kernels below recording, and carry no tangents. The grad mode stays as
/// it is, so that views made meanwhile know it.
#[inline]
pub fn below() -> ThreadKeysGuard {
    const ABOVE: DispatchKeySet =
        DispatchKeySet::of(DispatchKey::Autograd).union(DispatchKeySet::of(DispatchKey::ForwardGrad));
    ThreadKeysGuard::exclude(ABOVE)
}

/// Whether the call is to be recorded.
#[inline]
pub fn any_requires_grad<'a>(inputs: impl IntoIterator<Item = &'a Tensor>) -> bool {
    is_grad_enabled() && inputs.into_iter().any(requires_grad)
}

/// Where the gradients of the differentiable inputs go. For an in-place operator, to be asked before it runs.
///
/// # Errors
/// As for a view whose base was modified where that was forbidden.
#[inline(always)]
pub fn edges<const N: usize>(inputs: [&Tensor; N]) -> Result<[Option<Edge>; N]> {
    gradient_edges(inputs.map(Some))
}

/// The same for any number.
///
/// # Errors
/// Those of [`edges`].
pub fn edges_of_all(inputs: &[&Tensor]) -> Result<Edges> {
    inputs.iter().map(|input| gradient_edge(input)).collect()
}

/// The same, if the call is to be recorded.
///
/// # Errors
/// Those of [`edges`].
#[inline(always)]
pub fn recorded_edges<const N: usize>(inputs: [&Tensor; N]) -> Result<Option<[Option<Edge>; N]>> {
    recorded_edges_optional(inputs.map(Some))
}

/// The same where some inputs may be absent.
///
/// # Errors
/// Those of [`edges`].
#[inline(always)]
pub fn recorded_edges_optional<const N: usize>(
    inputs: [Option<&Tensor>; N],
) -> Result<Option<[Option<Edge>; N]>> {
    if !is_grad_enabled() {
        return Ok(None);
    }
    let edges = gradient_edges(inputs)?;
    Ok(edges.iter().any(Option::is_some).then_some(edges))
}

/// Makes `result` the output of a node with this derivative. A result that is no floating point number carries no history.
#[inline]
pub fn set_history<B: Backward>(result: &mut Tensor, edges: impl IntoEdges, backward: B) {
    if result.dtype().is_differentiable() {
        let node = GraphNode::record(edges, result, backward);
        set_first_history(result, node);
    }
}

/// Not generic, so that it is compiled once.
fn set_first_history(result: &mut Tensor, node: NodePtr) {
    let mut node = Some(node);
    if !attach_to_fresh(result, || Variable::with_history(node.take(), 0))
        && let Some(node) = node
    {
        set_gradient_edge(result, node, 0);
    }
}

/// The same for several results.
pub fn set_history_of_all<B: Backward>(results: &[&Tensor], edges: impl IntoEdges, backward: B) {
    let node = GraphNode::record_all(edges, results, backward);
    for (output_nr, result) in
        results.iter().enumerate().filter(|(_, result)| result.dtype().is_differentiable())
    {
        set_gradient_edge(result, node.clone(), output_nr as u32);
    }
}

/// The same where some results carry no history: those for which `carries` says so, and those it does not reach.
pub fn set_history_of_some<B: Backward>(
    results: &[&Tensor],
    carries: &[bool],
    edges: impl IntoEdges,
    backward: B,
) {
    let node = GraphNode::record_all(edges, results, backward);
    let recorded = results.iter().zip(carries).enumerate();
    for (output_nr, (result, _)) in
        recorded.filter(|(_, (result, carries))| **carries && result.dtype().is_differentiable())
    {
        set_gradient_edge(result, node.clone(), output_nr as u32);
    }
}

/// Refuses writing in place where the history would be lost. To be asked before the operator runs, if the call is
/// recorded.
///
/// # Errors
/// `Autograd` for leaves that require a gradient, views of such, inference tensors, and views that
/// [may not be written](view).
pub fn check_inplace(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.key_set().has(DispatchKey::ADInplaceOrView),
        Autograd,
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal \
         tensor before doing inplace update."
    );
    let Some(variable) = variable(self_) else { return Ok(()) };
    if let Some(view) = variable.view.get() {
        view::check_writable(variable, view)?;
        ensure!(
            !(requires_grad(self_) && is_leaf(&view.base)),
            Autograd,
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        );
    }
    ensure!(
        !(requires_grad(self_) && is_leaf(self_)),
        Autograd,
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    Ok(())
}

/// Input number `nr`, whose values a formula uses; saved only if `used`, that is, if the gradient by that formula is wanted.
///
/// # Errors
/// Those of [`SavedVariable::input`].
#[inline]
pub fn saved_input(used: bool, tensor: &Tensor, nr: u32) -> Result<Option<SavedVariable>> {
    if used { SavedVariable::input(tensor, nr).map(Some) } else { Ok(None) }
}

/// The same for the values of a tensor about to be written: a recorded copy.
///
/// # Errors
/// Those of `clone` and [`SavedVariable::input`].
pub fn original(used: bool, self_: &Tensor) -> Result<Option<SavedVariable>> {
    if used { original_always(self_).map(Some) } else { Ok(None) }
}

/// The same for values that are always needed.
///
/// # Errors
/// Those of `clone` and [`SavedVariable::input`].
pub fn original_always(self_: &Tensor) -> Result<SavedVariable> {
    SavedVariable::private(ops::clone(self_, None)?)
}

/// A tensor that was saved because the formula that now wants it was wanted.
///
/// # Errors
/// Those of [`SavedVariable::unpack`].
#[inline]
pub fn unpack<'a>(saved: &'a Option<SavedVariable>, cx: &Context<'_>) -> Result<Unpacked<'a>> {
    match saved {
        Some(saved) => saved.unpack(cx),
        None => bail!(Internal, "{}: a tensor that was not saved is wanted", cx.name()),
    }
}

/// Makes `self_`, just written in place, the output of a node with this derivative. If it is a view, what changes is the
/// history of its base, from which all views then take theirs.
///
/// # Errors
/// Those of [`edges`].
pub fn rebase_history<B: Backward>(self_: &Tensor, edges: impl IntoEdges, backward: B) -> Result<()> {
    let node = GraphNode::record(edges, self_, backward);
    rebase(self_, node, 0)
}

pub(crate) fn rebase(self_: &Tensor, node: NodePtr, output_nr: u32) -> Result<()> {
    let Some(base) = view::base(self_) else {
        move_history(self_, node, output_nr);
        return Ok(());
    };
    let mut edges = Edges::from(node.header().edges());
    let base_edge = gradient_edge(base)?;
    match edges.first_mut() {
        Some(first) => *first = base_edge,
        None => edges.push(base_edge),
    }
    move_history(base, CopySlices::node(edges, base, self_, node), 0);
    gradient_edge(self_)?;
    Ok(())
}

/// Gives a tensor another history; if its gradient is retained, it is that of its new value from now on.
fn move_history(tensor: &Tensor, node: NodePtr, output_nr: u32) {
    if let Some(variable) = variable(tensor) {
        let state = variable.state.lock();
        let before = if state.retains_grad { state.grad_fn.clone() } else { None };
        drop(state);
        if let Some(before) = before {
            let weak = IntrusivePtr::downgrade(tensor.impl_());
            before.header().hooks().into_iter().for_each(|hooks| hooks.stop_retaining(&weak));
            node.header().hooks_or_init().retain(output_nr, weak);
        }
    }
    set_gradient_edge(tensor, node, output_nr);
}

/// Refuses an `out=` call that would have to be recorded. `name` is the operator's base name.
///
/// # Errors
/// `Autograd`.
pub fn check_out<const N: usize>(name: &str, inputs: [&Tensor; N]) -> Result<()> {
    ensure!(
        !any_requires_grad(inputs),
        Autograd,
        "{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments \
         requires grad."
    );
    tangents::check_out(name, &inputs)
}

/// Calls a view operator below, and notes which base the result looks at: the kernel for `ADInplaceOrView`.
///
/// # Errors
/// Those of the operator.
#[inline]
pub fn view(source: &Tensor, operator: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    let mut result = {
        let _below = ThreadKeysGuard::exclude(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
        operator()?
    };
    view::track(source, &mut result, false);
    Ok(result)
}

/// The same for operators with several results, which may not be written in place afterwards.
///
/// # Errors
/// Those of the operator.
pub fn views(source: &Tensor, operator: impl FnOnce() -> Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    let mut results = {
        let _below = ThreadKeysGuard::exclude(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
        operator()?
    };
    results.iter_mut().for_each(|result| view::track(source, result, true));
    Ok(results)
}

/// The derivative of an operator that has none: an error that names it, in the backward pass.
pub struct NotImplemented(pub &'static str);

impl Backward for NotImplemented {
    const NAME: &'static str = "NotImplemented";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        bail!(NotImplemented, "the derivative for '{}' is not implemented.", self.0)
    }
}

/// The derivative of an operator that writes what has no gradient: nothing of what was there before is left.
pub struct Overwritten;

impl Backward for Overwritten {
    const NAME: &'static str = "Overwritten";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        Ok(smallvec![None])
    }
}

/// The formula of an input for which none is known.
///
/// # Errors
/// `NotImplemented`, always.
pub fn not_implemented<T>(name: &str) -> Result<T> {
    bail!(NotImplemented, "the derivative for '{name}' is not implemented.")
}

/// The gradient that arrived for the only output, and the gradients of the inputs that `cx` needs, from one formula each:
/// `gradients(cx, [&|| mul(grad, other), ...])`.
///
/// # Errors
/// The first of a formula.
#[inline]
pub fn gradients<const N: usize>(
    cx: &Context<'_>,
    formulas: [&dyn Fn() -> Result<Tensor>; N],
) -> Result<Gradients> {
    let mut grads = Gradients::new();
    for (i, formula) in formulas.iter().enumerate() {
        grads.push(if cx.needs(i) { Some(formula()?) } else { None });
    }
    Ok(grads)
}

/// The same for formulas that may say that there is no gradient.
///
/// # Errors
/// The first of a formula.
#[inline]
pub fn optional_gradients<const N: usize>(
    cx: &Context<'_>,
    formulas: [&dyn Fn() -> Result<Option<Tensor>>; N],
) -> Result<Gradients> {
    let mut grads = Gradients::new();
    for (i, formula) in formulas.iter().enumerate() {
        grads.push(if cx.needs(i) { formula()? } else { None });
    }
    Ok(grads)
}

/// Registers a kernel of an operator of the library: `register!(MUL_TENSOR, Autograd, mul_tensor)`.
macro_rules! register {
    ($operator:ident, $key:ident, $kernel:ident) => {
        flambeau_ops::dispatch::register!(flambeau_ops::ops::$operator, $key, $kernel);
    };
}
pub(crate) use register;
