//! Autograd's methods on tensors and nodes.

use crate::alias::alias;
use crate::batched::below;
use crate::engine::backward;
use crate::grad_mode::{is_grad_enabled, is_inference_mode_enabled};
use crate::graph::gradients::Gradients;
use crate::graph::hooks::{HookHandle, NodeHooks, PostAccumulateHook, PostHook, PreHook, TensorHook};
use crate::graph::node::NodePtr;
use crate::variable::history::gradient_edge;
use crate::variable::meta::{Variable, add_autograd_key, is_leaf, requires_grad, variable, variable_or_init};
use crate::variable::{layout_parts, tangents, view};
use flambeau_core::{DispatchKey, DispatchKeySet, IntrusivePtr, Layout, Result, bail, ensure};
use flambeau_ops::{Tensor, ops};
use std::sync::Arc;

/// What autograd adds to a [`Tensor`].
pub trait Autograd {
    /// Whether operators on this tensor are recorded: its flag is set, or it has a history.
    fn requires_grad(&self) -> bool;

    /// Sets or clears the flag of a leaf.
    ///
    /// # Errors
    /// `Autograd` for tensors with history, for inference tensors, and for types other than floating point.
    fn requires_grad_(&self, requires_grad: bool) -> Result<&Tensor>;

    /// The tensor with its flag set or cleared, at the end of a chain that makes it.
    ///
    /// # Errors
    /// As [`requires_grad_`](Self::requires_grad_).
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]).with_requires_grad(true)?;
    /// assert!(x.requires_grad() && x.is_leaf());
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    fn with_requires_grad(self, requires_grad: bool) -> Result<Tensor>;

    /// Whether it has no history: it was created by the user, or by operators on tensors that require no gradient.
    fn is_leaf(&self) -> bool;

    /// The node of the operator that computed it. `None` for leaves.
    ///
    /// # Errors
    /// `Autograd` for a view whose base was modified in place since, if the view was created in no_grad or inference mode, by an operator
    /// with several results, or in a custom function.
    fn grad_fn(&self) -> Result<Option<NodePtr>>;

    /// Which output of `grad_fn`'s operator it is.
    fn output_nr(&self) -> u32;

    /// The gradient accumulated so far.
    fn grad(&self) -> Option<Tensor>;

    /// Replaces or clears the gradient.
    ///
    /// # Errors
    /// `Autograd` where size, type or device differ from the tensor's.
    fn set_grad(&self, grad: Option<&Tensor>) -> Result<()>;

    /// [`backward`](crate::backward) from this tensor alone, which must have one element.
    ///
    /// # Errors
    /// Those of [`backward`](crate::backward).
    fn backward(&self) -> Result<()>;

    /// Stores the gradient of a tensor that is no leaf in its `grad` too.
    ///
    /// # Errors
    /// `Autograd` if it requires none.
    fn retain_grad(&self) -> Result<()>;

    /// Whether [`retain_grad`](Self::retain_grad) was called.
    fn retains_grad(&self) -> bool;

    /// Calls `hook` with the gradient of this tensor whenever a pass computes it; a tensor that it returns replaces the gradient.
    ///
    /// # Errors
    /// `Autograd` if it requires none.
    fn register_hook<H>(&self, hook: H) -> Result<HookHandle>
    where
        H: Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static;

    /// Calls `hook` with this leaf whenever its gradient has been accumulated.
    ///
    /// # Errors
    /// `Autograd` unless it is a leaf that requires a gradient.
    fn register_post_accumulate_grad_hook<H>(&self, hook: H) -> Result<HookHandle>
    where
        H: Fn(&Tensor) -> Result<()> + Send + Sync + 'static;

    /// Removes the history of this tensor, in place.
    ///
    /// # Errors
    /// `Autograd` for views.
    fn detach_(&self) -> Result<&Tensor>;

    /// Whether it is a view of a [`base`](Self::base).
    fn is_view(&self) -> bool;

    /// The tensor that it is a view of. PyTorch's `_base`.
    fn base(&self) -> Option<Tensor>;

    /// Whether it was created in inference mode.
    fn is_inference(&self) -> bool;
}

impl Autograd for Tensor {
    #[inline]
    fn requires_grad(&self) -> bool {
        match layout_parts::values(self) {
            None => requires_grad(self) || below(self).is_some_and(requires_grad),
            Some(values) => requires_grad(&values),
        }
    }

    fn requires_grad_(&self, requires: bool) -> Result<&Tensor> {
        if let Some(below) = below(self) {
            below.requires_grad_(requires)?;
            return Ok(self);
        }
        if let Some(values) = layout_parts::values(self) {
            values.requires_grad_(requires)?;
            return Ok(self);
        }
        if requires {
            check_can_require_grad(self)?;
        }
        ensure!(
            requires || is_leaf(self),
            Autograd,
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a \
             subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        );
        if !requires && variable(self).is_none() {
            return Ok(self);
        }
        let Some(variable) = variable_or_init(self, Variable::default) else {
            bail!(Autograd, "this tensor's gradients are kept by another crate");
        };
        variable.set_requires_grad(requires && is_leaf(self));
        if requires {
            add_autograd_key(self);
        } else if variable.view.get().is_none() {
            self.impl_().remove_keys(DispatchKeySet::of(DispatchKey::Autograd));
        }
        Ok(self)
    }

    fn with_requires_grad(self, requires_grad: bool) -> Result<Tensor> {
        self.requires_grad_(requires_grad)?;
        Ok(self)
    }

    fn is_leaf(&self) -> bool {
        layout_parts::values(self)
            .map_or_else(|| is_leaf(below(self).unwrap_or(self)), |values| is_leaf(&values))
    }

    fn grad_fn(&self) -> Result<Option<NodePtr>> {
        if let Some(below) = below(self) {
            return below.grad_fn();
        }
        if let Some(values) = layout_parts::values(self) {
            return values.grad_fn();
        }
        gradient_edge(self)?;
        Ok(variable(self).and_then(|variable| variable.state.lock().grad_fn.clone()))
    }

    fn output_nr(&self) -> u32 {
        variable(self).map_or(0, |variable| variable.state.lock().output_nr)
    }

    fn grad(&self) -> Option<Tensor> {
        if let Some(values) = layout_parts::values(self) {
            return layout_parts::whole(self, values.grad()?).ok();
        }
        variable(self)?.state.lock().grad.clone()
    }

    fn set_grad(&self, grad: Option<&Tensor>) -> Result<()> {
        ensure!(below(self).is_none(), Autograd, "vmap: a batched tensor has no gradient to be set");
        if let Some(values) = layout_parts::values(self) {
            let grad = grad.map(|grad| layout_parts::part(self, grad)).transpose()?;
            return values.set_grad(grad.as_ref());
        }
        if let Some(grad) = grad {
            check_grad(self, grad)?;
        } else if variable(self).is_none() {
            return Ok(());
        }
        if let Some(variable) = variable_or_init(self, Variable::default) {
            // Dropped outside the lock: its destructor may run code of the user.
            let before = std::mem::replace(&mut variable.state.lock().grad, grad.cloned());
            drop(before);
        }
        Ok(())
    }

    fn backward(&self) -> Result<()> {
        backward(std::slice::from_ref(self), &[], None, false, None)
    }

    fn retain_grad(&self) -> Result<()> {
        if let Some(values) = layout_parts::values(self) {
            return values.retain_grad();
        }
        ensure!(requires_grad(self), Autograd, "can't retain_grad on Tensor that has requires_grad=False");
        let (Some(node), Some(variable)) = (self.grad_fn()?, variable(self)) else { return Ok(()) };
        let mut state = variable.state.lock();
        let is_new = !std::mem::replace(&mut state.retains_grad, true);
        let output_nr = state.output_nr;
        drop(state);
        if is_new {
            let hooks = node.header().hooks_or_init();
            hooks.retain(output_nr, IntrusivePtr::downgrade(self.impl_()));
        }
        Ok(())
    }

    fn retains_grad(&self) -> bool {
        variable(&layout_parts::receiver(self)).is_some_and(|variable| variable.state.lock().retains_grad)
    }

    fn register_hook<H>(&self, hook: H) -> Result<HookHandle>
    where
        H: Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    {
        let hook: Arc<TensorHook> = match self.sparse_parts() {
            None => Arc::new(hook),
            Some(parts) => {
                let (layout, sizes) = (self.layout(), self.sizes().to_vec());
                Arc::new(move |grad: &Tensor| {
                    let whole = Tensor::from_sparse_parts(layout, &sizes, parts.with_values(grad.clone()))?;
                    let replaced = hook(&whole)?;
                    replaced.map(|replaced| layout_parts::part(&whole, &replaced)).transpose()
                })
            }
        };
        let (hooks, output_nr) = hooks_of(&layout_parts::receiver(self))?;
        Ok(hooks.add_tensor(output_nr, hook))
    }

    fn register_post_accumulate_grad_hook<H>(&self, hook: H) -> Result<HookHandle>
    where
        H: Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    {
        let hook: Arc<PostAccumulateHook> = Arc::new(hook);
        ensure!(
            self.layout() == Layout::Strided,
            NotImplemented,
            "post accumulate grad hooks of tensors of layout {} are not implemented: register one on its values",
            self.layout()
        );
        ensure!(
            is_leaf(self),
            Autograd,
            "post accumulate grad hooks cannot be registered on non-leaf tensors"
        );
        Ok(hooks_of(self)?.0.add_post_accumulate(hook))
    }

    fn detach_(&self) -> Result<&Tensor> {
        if let Some(below) = below(self) {
            below.detach_()?;
            return Ok(self);
        }
        if let Some(parts) = self.sparse_parts() {
            self.replace_sparse_parts(parts.with_values(ops::detach(parts.values())?))?;
            return Ok(self);
        }
        ensure!(!self.is_view(), Autograd, "Can't detach views in-place. Use detach() instead.");
        if let Some(variable) = variable(self) {
            variable.set_edge(None);
            variable.set_requires_grad(false);
            self.impl_().remove_keys(DispatchKeySet::of(DispatchKey::Autograd));
        }
        Ok(self)
    }

    fn is_view(&self) -> bool {
        view::base(self).is_some()
    }

    fn base(&self) -> Option<Tensor> {
        view::base(self).cloned()
    }

    fn is_inference(&self) -> bool {
        !self.key_set().has(DispatchKey::ADInplaceOrView)
    }
}

/// The hooks of the node that receives the gradient of `tensor`, and the number of the output of that node.
fn hooks_of(tensor: &Tensor) -> Result<(Arc<NodeHooks>, u32)> {
    ensure!(
        requires_grad(tensor),
        Autograd,
        "cannot register a hook on a tensor that doesn't require gradient"
    );
    let Some(variable) = variable(tensor) else {
        bail!(Internal, "a tensor requires a gradient but has no autograd metadata")
    };
    Ok(match tensor.grad_fn()? {
        Some(node) => (node.header().hooks_or_init().clone(), tensor.output_nr()),
        None => (variable.leaf_hooks(tensor), 0),
    })
}

fn check_can_require_grad(tensor: &Tensor) -> Result<()> {
    ensure!(
        tensor.dtype().is_differentiable(),
        Autograd,
        "only Tensors of floating point dtype can require gradients"
    );
    ensure!(
        !tensor.is_inference() || is_inference_mode_enabled(),
        Autograd,
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
    );
    Ok(())
}

fn check_grad(tensor: &Tensor, grad: &Tensor) -> Result<()> {
    ensure!(!grad.is_same(tensor), Autograd, "can't assign Variable as its own grad");
    ensure!(
        grad.dtype() == tensor.dtype(),
        Autograd,
        "attempting to assign a gradient with dtype '{}' to a tensor with dtype '{}'. The gradient must match the tensor's \
         dtype",
        grad.dtype(),
        tensor.dtype()
    );
    ensure!(
        grad.device() == tensor.device(),
        Autograd,
        "attempting to assign a gradient located on device '{}' to a tensor on device '{}'",
        grad.device(),
        tensor.device()
    );
    ensure!(
        grad.sizes() == tensor.sizes(),
        Autograd,
        "attempting to assign a gradient of size '{:?}' to a tensor of size '{:?}'. Please ensure that the gradient and \
         the tensor are the same size",
        grad.sizes(),
        tensor.sizes()
    );
    Ok(())
}

/// Autograd's methods on nodes.
pub trait NodeHandle {
    /// Calls `hook` with the gradients of the operator's outputs before the node runs.
    fn register_prehook<H>(&self, hook: H) -> HookHandle
    where
        H: Fn(&[Option<Tensor>]) -> Result<Option<Gradients>> + Send + Sync + 'static;

    /// Calls `hook` with the gradients of the operator's inputs and of its outputs after the node has run.
    fn register_hook<H>(&self, hook: H) -> HookHandle
    where
        H: Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Gradients>> + Send + Sync + 'static;
}

impl NodeHandle for NodePtr {
    fn register_prehook<H>(&self, hook: H) -> HookHandle
    where
        H: Fn(&[Option<Tensor>]) -> Result<Option<Gradients>> + Send + Sync + 'static,
    {
        let hook: Arc<PreHook> = Arc::new(hook);
        self.header().hooks_or_init().add_pre(hook)
    }

    fn register_hook<H>(&self, hook: H) -> HookHandle
    where
        H: Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Gradients>> + Send + Sync + 'static,
    {
        let hook: Arc<PostHook> = Arc::new(hook);
        self.header().hooks_or_init().add_post(hook)
    }
}

/// What a printed tensor shows of autograd: `requires_grad=True` or the node that computed it, and its tangent.
fn describe(tensor: &Tensor) -> Option<String> {
    let history = match tensor.grad_fn() {
        Ok(Some(node)) => Some(format!("grad_fn=<{}>", node.name())),
        Ok(None) => tensor.requires_grad().then(|| "requires_grad=True".to_string()),
        Err(_) => Some("grad_fn=<Invalid>".to_string()),
    };
    let tangent = tangents::tangent(tensor).ok().flatten();
    let tangent = tangent.map(|tangent| format!("tangent={tangent}"));
    let parts: Vec<String> = history.into_iter().chain(tangent).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

inventory::submit! { flambeau_ops::tensor::display::Suffix(describe) }

/// Values that replace those of a sparse tensor, which is what `old` and `new` stand for: they go on requiring a gradient.
fn replaced(old: &Tensor, new: Tensor) -> Result<Tensor> {
    if !(requires_grad(old) && is_leaf(old)) {
        return Ok(new);
    }
    ensure!(
        !is_grad_enabled(),
        Autograd,
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    // An alias: what computed the values may hold them too, and must not become the leaf.
    alias(&new)?.with_requires_grad(true)
}

inventory::submit! { flambeau_ops::tensor::sparse::Replacement(replaced) }
