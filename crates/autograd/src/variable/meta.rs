//! The autograd metadata of a tensor: its history or its gradient, its hooks, and the base of a view.
//!
//! The lock inside is never held while an operator or code of the user runs.

use crate::grad_mode::{is_grad_enabled, is_inference_mode_enabled};
use crate::graph::dual_level::Slot;
use crate::graph::grad_accumulator_cache;
use crate::graph::node::{Edge, NodePtr};
use crate::graph::release::release;
use crate::spin_lock::SpinLock;
use flambeau_core::{AutogradMeta, AutogradMetaBox, DispatchKey, DispatchKeySet};
use flambeau_ops::Tensor;
use once_cell::sync::OnceCell;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// PyTorch's `AutogradMeta`.
#[derive(Default)]
pub(crate) struct Variable {
    /// The flag `requires_grad` of a leaf: one of [`NO_GRAD`], [`GRAD`] and [`GRAD_AFTER_RESHAPE`].
    requires_grad: AtomicU8,
    /// Whether `state.grad_fn` is `Some`, which can be read without the lock.
    has_history: AtomicBool,
    pub(crate) view: OnceCell<View>,
    /// The node of a leaf that was part of a graph. It has a weak reference to the leaf: a leaf that was dropped needs no gradient.
    pub(super) accumulator: OnceCell<NodePtr>,
    pub(crate) state: SpinLock<State>,
}

/// The tensor does not require a gradient by itself.
const NO_GRAD: u8 = 0;
/// The tensor requires a gradient.
pub(super) const GRAD: u8 = 1;
/// The tensor requires a gradient, and its geometry was changed since: gradients of graphs from before no longer fit it.
const GRAD_AFTER_RESHAPE: u8 = 2;

/// What changes over a tensor's life.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) grad: Option<Tensor>,
    pub(crate) grad_fn: Option<NodePtr>,
    pub(crate) output_nr: u32,
    pub(crate) retains_grad: bool,
    /// The tensor's tangent, while a dual level is open.
    pub(crate) tangent: Option<Arc<Slot>>,
}

/// How a view was created, which decides whether it may be written in place while gradients are recorded. PyTorch's
/// `CreationMeta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CreationMeta {
    Default,
    NoGrad,
    MultiOutput,
    Inference,
    InCustomFunction,
}

impl CreationMeta {
    const ALL: [CreationMeta; 5] = {
        use CreationMeta::*;
        [Default, NoGrad, MultiOutput, Inference, InCustomFunction]
    };

    pub(super) fn now(multi_output: bool) -> Self {
        match (is_inference_mode_enabled(), is_grad_enabled(), multi_output) {
            (true, _, _) => CreationMeta::Inference,
            (_, false, _) => CreationMeta::NoGrad,
            (_, _, true) => CreationMeta::MultiOutput,
            _ => CreationMeta::Default,
        }
    }
}

/// The metadata of a view.
pub(crate) struct View {
    pub(crate) base: Tensor,
    pub(super) creation: AtomicU8,
    pub(super) attr_version: AtomicU32,
}

impl View {
    pub(crate) fn creation(&self) -> CreationMeta {
        let code = self.creation.load(Ordering::Relaxed) as usize;
        CreationMeta::ALL.get(code).copied().unwrap_or(CreationMeta::Default)
    }

    pub(crate) fn set_creation(&self, creation: CreationMeta) {
        self.creation.store(creation as u8, Ordering::Relaxed);
    }

    /// Whether the history of the view is out of date: the base was written since, and requires a gradient.
    pub(crate) fn is_behind(&self, view: &Tensor) -> bool {
        self.attr_version.load(Ordering::Relaxed) != view.version() && requires_grad(&self.base)
    }

    /// Marks the history as right for this version of the elements.
    pub(crate) fn set_attr_version(&self, version: u32) {
        self.attr_version.store(version, Ordering::Relaxed);
    }
}

impl AutogradMeta for Variable {
    #[inline]
    fn requires_grad(&self) -> bool {
        self.requires_grad_flag()
            || self.has_history()
            || self.view.get().is_some_and(|v| requires_grad(&v.base))
    }

    // Only leaves are saved by nodes as they are. Of other tensors aliases are saved, which keep the former geometry.
    fn geometry_changed(&self) -> bool {
        let is_leaf = self.requires_grad_flag() && !self.has_history();
        if is_leaf {
            self.requires_grad.store(GRAD_AFTER_RESHAPE, Ordering::Relaxed);
        }
        is_leaf
    }
}

impl Drop for Variable {
    #[inline]
    fn drop(&mut self) {
        if let Some(node) = self.state.get_mut().grad_fn.take() {
            release(node);
        }
        if let Some(node) = self.accumulator.get() {
            grad_accumulator_cache::evict(node);
        }
    }
}

impl Variable {
    /// The metadata of a view.
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
            requires_grad: AtomicU8::new(NO_GRAD),
            has_history: AtomicBool::new(true),
            view: OnceCell::new(),
            accumulator: OnceCell::new(),
            state: SpinLock::new(state),
        }
    }

    /// The flag that [`requires_grad_`](crate::Autograd::requires_grad_) sets.
    #[inline]
    pub(crate) fn requires_grad_flag(&self) -> bool {
        self.requires_grad_state() != NO_GRAD
    }

    /// The flag, and whether the geometry was changed since it was set.
    #[inline]
    pub(super) fn requires_grad_state(&self) -> u8 {
        self.requires_grad.load(Ordering::Relaxed)
    }

    pub(crate) fn set_requires_grad(&self, requires_grad: bool) {
        let state = match (requires_grad, self.requires_grad_state()) {
            (false, _) => NO_GRAD,
            (true, GRAD_AFTER_RESHAPE) => GRAD_AFTER_RESHAPE,
            (true, _) => GRAD,
        };
        self.requires_grad.store(state, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_history(&self) -> bool {
        self.has_history.load(Ordering::Relaxed)
    }

    /// Replaces the history; the former one is dropped outside the lock.
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
}

/// The autograd metadata of `tensor`.
#[inline]
pub(crate) fn variable(tensor: &Tensor) -> Option<&Variable> {
    let meta: &dyn Any = tensor.impl_().autograd_meta()?;
    meta.downcast_ref()
}

/// The same; it is created if there is none. `None` where another crate has attached metadata of its own type.
#[inline]
pub(crate) fn variable_or_init(tensor: &Tensor, init: impl FnOnce() -> Variable) -> Option<&Variable> {
    let meta: &dyn Any = tensor.impl_().autograd_meta_or_init(|| AutogradMetaBox::new(init));
    meta.downcast_ref()
}

/// Whether `tensor` requires a gradient, by its flag, its history or its base.
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

/// Whether `tensor` has no history, and would not get one from its base.
pub(crate) fn is_leaf(tensor: &Tensor) -> bool {
    let Some(variable) = variable(tensor) else { return true };
    !variable.has_history() && variable.view.get().is_none_or(|view| !view.is_behind(tensor))
}

/// Adds the dispatch key with which calls on `tensor` go to the recording kernels.
#[inline]
pub(crate) fn add_autograd_key(tensor: &Tensor) {
    tensor.impl_().add_keys(DispatchKeySet::of(DispatchKey::Autograd));
}

/// Attaches the metadata that `make` returns to a tensor that nobody else owns and that has none yet; returns whether it did.
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

/// The metadata of `tensor`, if it has the dispatch key with which calls on it are recorded.
#[inline(always)]
pub(super) fn recorded_variable(tensor: &Tensor) -> Option<&Variable> {
    if tensor.key_set().has(DispatchKey::Autograd) { variable(tensor) } else { None }
}
