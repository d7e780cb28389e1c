//! Views and their bases: a write in place through a view or through its base changes the history of both.
//!
//! A view keeps a reference to its base, which is no view itself, and the version at which its own history was right. An in-place
//! operator on a view replaces the history of the base ([`copy_slices`](crate::record::copy_slices)). Every other view then has an
//! older version than the storage, and regenerates its history from that of the base when it is used next:
//! [`refresh`](super::history::refresh).

use super::meta::{
    CreationMeta, Variable, View, add_autograd_key, attach_to_fresh, variable, variable_or_init,
};
use flambeau_core::{DispatchKey, DispatchKeySet, Result, bail};
use flambeau_ops::Tensor;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// Records that `result` is a view of `source`. With `multi_output` it is one of several results of one operator, which may
/// overlap.
///
/// Calls on the result go to the recording kernels from now on, since its base may get a history later.
pub(crate) fn track(source: &Tensor, result: &mut Tensor, multi_output: bool) {
    if result.is_same(source) {
        return;
    }
    let creation = CreationMeta::now(multi_output);
    if creation == CreationMeta::Inference {
        // A view of an ordinary tensor is an ordinary tensor.
        result.impl_().add_keys(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
    }
    if !result.dtype().is_differentiable() {
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
        // The base of a tensor never changes, so setting it a second time would set the same base.
        let _ = variable.view.set(view());
        add_autograd_key(result);
    }
}

/// The base of which `tensor` is a view. PyTorch's `_base`.
pub(crate) fn base(tensor: &Tensor) -> Option<&Tensor> {
    variable(tensor)?.view.get().map(|view| &view.base)
}

/// Whether a view may be written in place while gradients are recorded.
///
/// # Errors
/// `Autograd` for views that were created in no_grad or inference mode, by operators with several results, or in a custom function.
pub(crate) fn check_writable(variable: &Variable, view: &View) -> Result<()> {
    check_creation(variable, view, "is being")
}

pub(super) fn check_creation(variable: &Variable, view: &View, what: &str) -> Result<()> {
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
