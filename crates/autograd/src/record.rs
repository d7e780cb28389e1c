//! The functions that recording kernels call. The kernels are generated from `derivatives.yaml`.
//!
//! # The pattern
//! For each operator that is not composite:
//!
//! 1. **`node!`**, the derivative: a struct, `MulBackward0`, with a [`SavedVariable`] for each tensor whose *values*
//!    the formulas use, a [`MaybeSaved`] if only some gradients need it (it is saved if the edge of such a
//!    gradient exists: see [`record::saved_input`](crate::record::saved_input)); sizes, geometry and plain arguments as they are. It
//!    has one formula for each differentiable input in the order of the edges, and [`record::gradients`](crate::record::gradients)
//!    evaluates those that are needed. Formulas call operators through `flambeau_ops::ops`, so that a pass with `create_graph` records
//!    them. They neither undo broadcasting nor convert dtypes: the engine does.
//! 2. **A kernel** for `DispatchKey::Autograd`, with a `DispatchKeySet` and then the operator's own arguments:
//!    * `recorded!`, functional: calls the kernel below. If there are [`recorded_edges`], it then makes the
//!      struct and calls [`set_history`]; the outputs exist by then and can be saved.
//!    * `recorded_in_place!`: if recording, [`check_inplace`], `edges` and the values of `self` that a
//!      formula needs ([`original`]) come *before* the call; saved outputs and
//!      [`rebase_history`] after it.
//!    * `out_variant!`: [`check_out`], then the kernel below.
//!    * no derivative: as functional, with [`NotImplemented`], so that the backward pass fails with an
//!      error that names the operator.
//!    * `unrecorded!`, not differentiable (results are bool, integers, numbers): the kernel below and nothing else. Results that are
//!      not floating point have no history in any case; [`set_history_of_all`] takes all results,
//!      in order, and skips those.
//! 3. For a view operator also **`tracked!`**, the kernel for `DispatchKey::ADInplaceOrView`: [`record::view`](crate::record::view), or
//!    [`record::views`](crate::record::views) for several results.
//!
//! An operator without kernel for `Autograd` fails on tensors that require a gradient, unless it is composite
//! (`CompositeImplicitAutograd`).

mod arguments;
pub(crate) mod copy_slices;
mod fields;
mod kernels;
pub mod scalar;

pub use arguments::*;
pub use fields::{Field, MaybeSaved, Saved};
pub use kernels::*;

/// What the macros of generated files name.
#[doc(hidden)]
pub use flambeau_ops::dispatch;

use crate::grad_mode::is_grad_enabled;
use crate::graph::gradients::Gradients;
use crate::graph::node::{Context, Edge, Edges, IntoEdges, NodePtr};
use crate::graph::operator::{Backward, GraphNode};
use crate::variable::history::{gradient_edge, gradient_edges, set_gradient_edge};
use crate::variable::meta::{Variable, attach_to_fresh, is_leaf, requires_grad, variable};
use crate::variable::saved_variable::SavedVariable;
use crate::variable::{tangents, view};
use copy_slices::CopySlices;
#[doc(hidden)]
pub use flambeau_core::Result;
use flambeau_core::{DispatchKey, DispatchKeySet, IntrusivePtr, ThreadKeysGuard, bail, ensure};
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// Until the guard is dropped, calls on this thread skip the dispatch keys `Autograd` and `ForwardGrad`: they are not recorded and
/// propagate no tangents. The grad mode does not change, since views that are created meanwhile store it.
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

/// The edges of the differentiable inputs. For an in-place operator they must be collected before it runs.
///
/// # Errors
/// `Autograd` for a view whose base was modified in place since, if the view was created in no_grad or inference mode, by an operator
/// with several results, or in a custom function.
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

/// Makes `result` the output of a node with this derivative, if its elements are floating point numbers.
#[inline]
pub fn set_history<B: Backward>(result: &mut Tensor, edges: impl IntoEdges, backward: B) {
    if result.dtype().is_differentiable() {
        let node = GraphNode::record(edges, result, backward);
        set_first_history(result, node);
    }
}

/// Not generic, so that it is compiled only once.
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

/// The same where some results get no history: those for which `differentiable` is false or has no element.
pub fn set_history_of_some<B: Backward>(
    results: &[&Tensor],
    differentiable: &[bool],
    edges: impl IntoEdges,
    backward: B,
) {
    let node = GraphNode::record_all(edges, results, backward);
    for (output_nr, (result, differentiable)) in results.iter().zip(differentiable).enumerate() {
        if *differentiable && result.dtype().is_differentiable() {
            set_gradient_edge(result, node.clone(), output_nr as u32);
        }
    }
}

/// Refuses writing in place where the history would be lost. To be called before the operator runs, if the call is
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

/// Saves input number `nr`, whose values a formula uses, if `used`: if the gradient of that formula is needed.
///
/// # Errors
/// Those of [`SavedVariable::input`].
#[inline]
pub fn saved_input(used: bool, tensor: &Tensor, nr: u32) -> Result<MaybeSaved> {
    let saved = if used { Some(SavedVariable::input(tensor, nr)?) } else { None };
    Ok(MaybeSaved(saved))
}

/// The same for a tensor that is about to be written in place: saves a recorded copy.
///
/// # Errors
/// Those of `clone` and [`SavedVariable::input`].
pub fn original(used: bool, self_: &Tensor) -> Result<MaybeSaved> {
    let saved = if used { Some(original_always(self_)?) } else { None };
    Ok(MaybeSaved(saved))
}

/// The same for values that are always needed.
///
/// # Errors
/// Those of `clone` and [`SavedVariable::input`].
pub fn original_always(self_: &Tensor) -> Result<SavedVariable> {
    SavedVariable::private(ops::clone(self_, None)?)
}

/// Makes `self_`, which was just written in place, the output of a node with this derivative. If it is a view, the history of its base
/// changes, from which all views then regenerate theirs.
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

/// Replaces the history of a tensor. If its gradient is retained, it is the gradient of the new value from now on.
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

/// Refuses a call of `operator`, which is its name and which writes `out=` or several arguments, that would have to be recorded.
///
/// # Errors
/// `Autograd`.
pub fn check_out<const N: usize>(operator: &str, inputs: [&Tensor; N]) -> Result<()> {
    ensure!(!any_requires_grad(inputs), Autograd, "{}", out_is_recorded(operator));
    tangents::check_out(operator, &inputs)
}

fn out_is_recorded(operator: &str) -> String {
    let name = operator.split('.').next().unwrap_or_default();
    if name.ends_with('_') {
        return format!(
            "{name}(): it writes several of its arguments and is not recorded, but one of the arguments requires grad; call it \
             under no_grad()."
        );
    }
    format!(
        "{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments \
         requires grad."
    )
}

/// Calls a view operator below, and records the base of the result: the kernel for `ADInplaceOrView`.
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

/// The derivative of an operator for which none is implemented: the backward pass fails with an error that names the operator.
pub struct NotImplemented(pub &'static str);

impl Backward for NotImplemented {
    const NAME: &'static str = "NotImplemented";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        bail!(NotImplemented, "the derivative for '{}' is not implemented.", self.0)
    }
}

/// The derivative of an operator that overwrites its argument with values that have no gradient.
pub struct Overwritten;

impl Backward for Overwritten {
    const NAME: &'static str = "Overwritten";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        Ok(smallvec![None])
    }
}

/// The formula of an input for which none is implemented.
///
/// # Errors
/// `NotImplemented`, always.
pub fn not_implemented<T>(name: &str) -> Result<T> {
    bail!(NotImplemented, "the derivative for '{name}' is not implemented.")
}

/// The gradients of the inputs that `cx` needs, from one formula each: `gradients(cx, [&|| mul(grad, other), ...])`.
///
/// # Errors
/// The first error of a formula.
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

/// The same for formulas that may return no gradient.
///
/// # Errors
/// The first error of a formula.
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
