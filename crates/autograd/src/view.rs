//! Views: which tensor's memory a tensor looks at, so that writing through either changes the history of both.
//!
//! A view remembers its base, the root of all views, and the version at which its history was right. An in-place operator
//! on a view rewrites the history of the base ([`copy_slices`](crate::copy_slices)); every other view then finds its own
//! behind, and takes a new one from the base when it is next asked: [`refresh`].

use crate::engine::Context;
use crate::formulas::AsStrided;
use crate::grad_mode::{is_grad_enabled, is_inference_mode_enabled};
use crate::node::{Edge, Edges, GraphNode};
use crate::variable::{
    Variable, add_autograd_key, attach_to_fresh, gradient_edge, requires_grad, variable, variable_or_init,
};
use flambeau_core::{DispatchKey, DispatchKeySet, Result, bail};
use flambeau_ops::Tensor;
use smallvec::smallvec;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

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

    fn now(multi_output: bool) -> Self {
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
    creation: AtomicU8,
    attr_version: AtomicU32,
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

/// Notes that `result` looks at the memory of `source`. `multi_output` tells that it is one of several results of one
/// operator, which may overlap.
///
/// The result passes through the recording kernels from now on, since its base may acquire a history later.
pub fn track(source: &Tensor, result: &mut Tensor, multi_output: bool) {
    if result.is_same(source) {
        return;
    }
    let creation = CreationMeta::now(multi_output);
    if creation == CreationMeta::Inference {
        // A view of an ordinary tensor is an ordinary tensor.
        result.impl_().add_keys(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
    }
    if !result.is_floating_point() {
        return;
    }
    let (base, creation) = match variable(source).and_then(|v| v.view.get()) {
        Some(view) if creation == CreationMeta::Default => (&view.base, view.creation()),
        Some(view) => (&view.base, creation),
        None => (source, creation),
    };
    let version = result.version();
    let view = || View {
        base: base.clone(),
        creation: AtomicU8::new(creation as u8),
        attr_version: AtomicU32::new(version),
    };
    if attach_to_fresh(result, || Variable::of_view(view())) {
        return;
    }
    if let Some(variable) = variable_or_init(result, Variable::default) {
        // A tensor is a view of one base for good; a second note says the same.
        let _ = variable.view.set(view());
        add_autograd_key(result);
    }
}

/// Whose view `tensor` is. PyTorch's `_base`.
pub(crate) fn base(tensor: &Tensor) -> Option<&Tensor> {
    variable(tensor)?.view.get().map(|view| &view.base)
}

/// Brings the history of a view up to the last write through its base or another view.
///
/// # Errors
/// `Autograd` where the view was made in a way that forbids it.
#[inline]
pub(crate) fn refresh(tensor: &Tensor, variable: &Variable, view: &View) -> Result<()> {
    if view.attr_version.load(Ordering::Relaxed) == tensor.version() {
        return Ok(());
    }
    refresh_slowly(tensor, variable, view)
}

#[cold]
fn refresh_slowly(tensor: &Tensor, variable: &Variable, view: &View) -> Result<()> {
    if !variable.has_history() && !requires_grad(&view.base) {
        return Ok(());
    }
    let version = tensor.version();
    check_creation(variable, view, "its base or another view of its base has been")?;
    let edge = as_strided_edge(gradient_edge(&view.base)?, &view.base, tensor);
    variable.set_edge(Some(edge));
    view.set_attr_version(version);
    Ok(())
}

/// The edge of `view` as an `as_strided` of `base`.
fn as_strided_edge(base_edge: Option<Edge>, base: &Tensor, view: &Tensor) -> Edge {
    let backward = AsStrided { base: base.geometry().clone(), view: view.geometry().clone() };
    let edges: Edges = smallvec![base_edge];
    Edge { node: GraphNode::record(edges, view, backward), input_nr: 0 }
}

/// The edge that gives a saved output its history back: to the node that runs, and, where it was written through a view,
/// through that view.
pub(crate) fn output_edge(cx: &Context<'_>, output: &Tensor, output_nr: u32) -> Edge {
    let node = cx.node().clone();
    match cx.base() {
        None => Edge { node, input_nr: output_nr },
        Some(base) => {
            let backward = AsStrided { base: base.clone(), view: output.geometry().clone() };
            let edges: Edges = smallvec![Some(Edge { node, input_nr: 0 })];
            Edge { node: GraphNode::record(edges, output, backward), input_nr: 0 }
        }
    }
}

/// Whether a view may be written in place while gradients are recorded.
///
/// # Errors
/// `Autograd` for views made in no_grad or inference mode, by operators with several results, or in a custom function.
pub(crate) fn check_writable(variable: &Variable, view: &View) -> Result<()> {
    check_creation(variable, view, "is being")
}

fn check_creation(variable: &Variable, view: &View, what: &str) -> Result<()> {
    let mode = match view.creation() {
        CreationMeta::Default => return Ok(()),
        CreationMeta::NoGrad => "no_grad",
        CreationMeta::Inference => "inference",
        CreationMeta::MultiOutput => bail!(
            Autograd,
            "{} {what} modified inplace. This view is the output of a function that returns multiple views. Such \
             functions do not allow the output views to be modified inplace. You should replace the inplace operation by \
             an out-of-place one.",
            name_of_view(variable)
        ),
        CreationMeta::InCustomFunction => bail!(
            Autograd,
            "{} {what} modified inplace. This view was created inside a custom Function (or because an input was returned \
             as-is) and the autograd logic to handle view+inplace would override the custom backward associated with the \
             custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the \
             output of the custom Function.",
            name_of_view(variable)
        ),
    };
    bail!(
        Autograd,
        "A view was created in {mode} mode and {what} modified inplace with grad mode enabled. Given that this use case is \
         ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace \
         either both inside the {mode} block (if you don't want the inplace to be tracked) or both outside (if you want \
         the inplace to be tracked)."
    )
}

fn name_of_view(variable: &Variable) -> String {
    let state = variable.state.lock();
    let name = state.grad_fn.as_ref().map_or("a view operator", |node| node.name());
    format!("Output {} of {name} is a view and", state.output_nr)
}
