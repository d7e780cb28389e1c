//! What autograd keeps beside a tensor: its history or its gradient, its hooks, and whose view it is.
//!
//! The lock inside is never held while an operator or somebody else's code runs.

use crate::grad_mode::{is_grad_enabled, is_inference_mode_enabled};
use crate::graph::dual_level::Slot;
use crate::graph::node::{Edge, NodePtr};
use crate::graph::release::release;
use crate::graph::spares;
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
    /// What a leaf was asked for: one of [`NOT_ASKED`], [`ASKED`] and [`ASKED_AND_RESHAPED`].
    requires_grad: AtomicU8,
    /// Whether `state.grad_fn` is there, for those who only want to know that.
    has_history: AtomicBool,
    pub(crate) view: OnceCell<View>,
    /// The node of a leaf that was part of a graph. It knows the leaf weakly: a leaf that nobody holds wants no gradient.
    pub(super) accumulator: OnceCell<NodePtr>,
    pub(crate) state: SpinLock<State>,
}

/// No gradient was asked for.
const NOT_ASKED: u8 = 0;
/// A gradient was asked for.
pub(super) const ASKED: u8 = 1;
/// The same of a leaf that was given another geometry since: graphs from before have another gradient than those after.
const ASKED_AND_RESHAPED: u8 = 2;

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

/// How a view came to be, which decides whether it may be written in place with gradients recorded.
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

/// What a view remembers.
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

    /// Whether the base has a history that was not there, or was another, when the view took its own.
    pub(crate) fn is_behind(&self, view: &Tensor) -> bool {
        self.attr_version.load(Ordering::Relaxed) != view.version() && requires_grad(&self.base)
    }

    /// The history is right for this version of the elements.
    pub(crate) fn set_attr_version(&self, version: u32) {
        self.attr_version.store(version, Ordering::Relaxed);
    }
}

impl AutogradMeta for Variable {
    #[inline]
    fn requires_grad(&self) -> bool {
        self.is_asked() || self.has_history() || self.view.get().is_some_and(|v| requires_grad(&v.base))
    }

    // Of others aliases are saved, which keep the geometry that they had.
    fn geometry_changed(&self) -> bool {
        let is_leaf = self.is_asked() && !self.has_history();
        if is_leaf {
            self.requires_grad.store(ASKED_AND_RESHAPED, Ordering::Relaxed);
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
            requires_grad: AtomicU8::new(NOT_ASKED),
            has_history: AtomicBool::new(true),
            view: OnceCell::new(),
            accumulator: OnceCell::new(),
            state: SpinLock::new(state),
        }
    }

    /// Whether it is a leaf of which a gradient was asked for.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked() != NOT_ASKED
    }

    /// The same, and whether its geometry changed since.
    #[inline]
    pub(super) fn asked(&self) -> u8 {
        self.requires_grad.load(Ordering::Relaxed)
    }

    pub(crate) fn ask(&self, requires_grad: bool) {
        let asked = if self.asked() == ASKED_AND_RESHAPED { ASKED_AND_RESHAPED } else { ASKED };
        self.requires_grad.store(if requires_grad { asked } else { NOT_ASKED }, Ordering::Relaxed);
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

/// Whether `tensor` has no history, nor would take one from its base.
pub(crate) fn is_leaf(tensor: &Tensor) -> bool {
    let Some(variable) = variable(tensor) else { return true };
    !variable.has_history() && variable.view.get().is_none_or(|view| !view.is_behind(tensor))
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

/// What is attached to `tensor`, if calls on it are to be recorded at all.
#[inline(always)]
pub(super) fn recorded_variable(tensor: &Tensor) -> Option<&Variable> {
    if tensor.key_set().has(DispatchKey::Autograd) { variable(tensor) } else { None }
}
