//! What autograd keeps beside a tensor: its history or its gradient, its hooks, and whose view it is.
//!
//! The lock inside is never held while an operator or somebody else's code runs.

use crate::accumulate_grad::AccumulateGrad;
use crate::forward::Slot;
use crate::hooks::NodeHooks;
use crate::node::{Edge, NodePtr, release};
use crate::spares;
use crate::spin_lock::SpinLock;
use crate::view::{self, View};
use flambeau_core::{AutogradMeta, AutogradMetaBox, DispatchKey, DispatchKeySet, Result, shape};
use flambeau_ops::Tensor;
use once_cell::sync::OnceCell;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// PyTorch's `AutogradMeta`.
#[derive(Default)]
pub(crate) struct Variable {
    /// What a leaf was asked for.
    requires_grad: AtomicBool,
    /// Whether `state.grad_fn` is there, for those who only want to know that.
    has_history: AtomicBool,
    pub(crate) view: OnceCell<View>,
    /// The node of a leaf that was part of a graph. It knows the leaf weakly: a leaf that nobody holds wants no gradient.
    accumulator: OnceCell<NodePtr>,
    pub(crate) state: SpinLock<State>,
}

/// What changes over a tensor's life.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) grad: Option<Tensor>,
    pub(crate) grad_fn: Option<NodePtr>,
    pub(crate) output_nr: u32,
    pub(crate) retains_grad: bool,
    /// What the tensor carries while a dual level is open.
    pub(crate) tangent: Option<Arc<Slot>>,
}

impl AutogradMeta for Variable {
    #[inline]
    fn requires_grad(&self) -> bool {
        self.is_asked() || self.has_history() || self.view.get().is_some_and(|v| requires_grad(&v.base))
    }
}

impl Drop for Variable {
    #[inline]
    fn drop(&mut self) {
        if let Some(node) = self.state.get_mut().grad_fn.take() {
            release(node);
        }
        if let Some(node) = self.accumulator.get() {
            spares::give_up(node);
        }
    }
}

impl Variable {
    /// Of a view.
    #[inline]
    pub(crate) fn of_view(view: View) -> Self {
        let mut variable = Variable::default();
        variable.view = OnceCell::with_value(view);
        variable
    }

    #[inline(always)]
    pub(crate) fn with_history(node: Option<NodePtr>, output_nr: u32) -> Self {
        let state = State { grad_fn: node, output_nr, ..State::default() };
        Variable {
            requires_grad: AtomicBool::new(false),
            has_history: AtomicBool::new(true),
            view: OnceCell::new(),
            accumulator: OnceCell::new(),
            state: SpinLock::new(state),
        }
    }

    /// Whether it is a leaf of which a gradient was asked for.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.requires_grad.load(Ordering::Relaxed)
    }

    pub(crate) fn ask(&self, requires_grad: bool) {
        self.requires_grad.store(requires_grad, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_history(&self) -> bool {
        self.has_history.load(Ordering::Relaxed)
    }

    /// Replaces the history; what was there before is dropped outside the lock.
    pub(crate) fn set_edge(&self, edge: Option<Edge>) {
        self.has_history.store(edge.is_some(), Ordering::Relaxed);
        let (node, output_nr) = edge.map_or((None, 0), |edge| (Some(edge.node), edge.input_nr));
        let before = {
            let mut state = self.state.lock();
            state.output_nr = output_nr;
            std::mem::replace(&mut state.grad_fn, node)
        };
        before.into_iter().for_each(release);
    }

    /// The accumulator of the leaf `tensor`, made now if there was none; another one for the same hooks where the leaf was
    /// given other sizes since.
    #[inline]
    pub(crate) fn accumulator(&self, tensor: &Tensor) -> NodePtr {
        let first = self.first_accumulator(tensor);
        if !tensor.impl_().was_resized() {
            return spares::owner_of(first);
        }
        match first.header().outputs() {
            [output] if shape::same(output.sizes(), tensor.sizes()) => first.clone(),
            _ => AccumulateGrad::sharing_hooks(tensor, first.header().hooks_or_init()),
        }
    }

    /// Where the gradient of `tensor` goes. The history of a view must be up to date.
    #[inline]
    fn edge(&self, tensor: &Tensor) -> Option<Edge> {
        if self.has_history() {
            let state = self.state.lock();
            return state.grad_fn.clone().map(|node| Edge { node, input_nr: state.output_nr });
        }
        self.is_asked().then(|| Edge { node: self.accumulator(tensor), input_nr: 0 })
    }

    #[inline]
    fn first_accumulator(&self, tensor: &Tensor) -> &NodePtr {
        self.accumulator.get_or_init(|| AccumulateGrad::of(tensor))
    }

    /// The hooks of the leaf `tensor`, made now if there were none.
    pub(crate) fn leaf_hooks(&self, tensor: &Tensor) -> Arc<NodeHooks> {
        self.first_accumulator(tensor).header().hooks_or_init().clone()
    }
}

/// What is attached to `tensor`.
#[inline]
pub(crate) fn variable(tensor: &Tensor) -> Option<&Variable> {
    let meta: &dyn Any = tensor.impl_().autograd_meta()?;
    meta.downcast_ref()
}

/// The same, attached now if it is not there yet. `None` where another crate has attached something of its own.
#[inline]
pub(crate) fn variable_or_init(tensor: &Tensor, init: impl FnOnce() -> Variable) -> Option<&Variable> {
    let meta: &dyn Any = tensor.impl_().autograd_meta_or_init(|| AutogradMetaBox::new(init));
    meta.downcast_ref()
}

/// Whether a gradient is asked for, directly or through history.
#[inline]
pub(crate) fn requires_grad(tensor: &Tensor) -> bool {
    recorded_variable(tensor).is_some_and(Variable::requires_grad_now)
}

impl Variable {
    #[inline]
    fn requires_grad_now(&self) -> bool {
        AutogradMeta::requires_grad(self)
    }
}

/// Makes calls on `tensor` pass through the recording kernels.
#[inline]
pub(crate) fn add_autograd_key(tensor: &Tensor) {
    tensor.impl_().add_keys(DispatchKeySet::of(DispatchKey::Autograd));
}

/// Attaches what `make` makes to a tensor that nobody else holds and that has nothing attached; says whether it was so.
#[inline(always)]
pub(crate) fn attach_to_fresh(tensor: &mut Tensor, make: impl FnOnce() -> Variable) -> bool {
    match tensor.impl_mut() {
        Some(fresh) if fresh.autograd_meta().is_none() => {
            fresh.attach(AutogradMetaBox::new(make), DispatchKeySet::of(DispatchKey::Autograd));
            true
        }
        _ => false,
    }
}

/// Gives `tensor` a history: it is output `output_nr` of `node`'s operator.
#[inline]
pub(crate) fn set_gradient_edge(tensor: &Tensor, node: NodePtr, output_nr: u32) {
    add_autograd_key(tensor);
    if tensor.impl_().autograd_meta().is_none() {
        variable_or_init(tensor, || Variable::with_history(Some(node), output_nr));
        return;
    }
    if let Some(variable) = variable(tensor) {
        variable.set_edge(Some(Edge { node, input_nr: output_nr }));
        if let Some(view) = variable.view.get() {
            view.set_attr_version(tensor.version());
        }
    }
}

/// Where the gradient of `tensor` goes: to the node that made it, or to the accumulator of a leaf. `None` if nobody wants it.
///
/// # Errors
/// `Autograd` for a view whose base was modified in a way that leaves it no history; see [`view`](crate::view).
#[inline]
pub(crate) fn gradient_edge(tensor: &Tensor) -> Result<Option<Edge>> {
    let [edge] = gradient_edges([Some(tensor)])?;
    Ok(edge)
}

/// Those of several tensors, some of which may be absent. All are asked what is attached to them just once.
///
/// # Errors
/// Those of [`gradient_edge`].
#[inline(always)]
pub(crate) fn gradient_edges<const N: usize>(tensors: [Option<&Tensor>; N]) -> Result<[Option<Edge>; N]> {
    let variables = tensors.map(|tensor| Some((recorded_variable(tensor?)?, tensor?)));
    for variable in variables {
        if let Some((variable, tensor)) = variable
            && let Some(view) = variable.view.get()
        {
            view::refresh(tensor, variable, view)?;
        }
    }
    // It cannot fail from here on, so that the edges come in registers.
    Ok(variables.map(|variable| variable.and_then(|(variable, tensor)| variable.edge(tensor))))
}

/// What is attached to `tensor`, if calls on it are to be recorded at all.
#[inline(always)]
fn recorded_variable(tensor: &Tensor) -> Option<&Variable> {
    if tensor.key_set().has(DispatchKey::Autograd) { variable(tensor) } else { None }
}
