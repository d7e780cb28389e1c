//! The node of a leaf, which adds the gradient that arrives to the leaf's `grad`; and the `grad` of tensors with `retain_grad`.
#![expect(unsafe_code, reason = "promises that its node begins with the header")]

use super::meta::{GRAD, Variable, variable};
use crate::alias;
use crate::factory;
use crate::graph::gradients::Gradients;
use crate::graph::hooks::{NodeHooks, Retaining};
use crate::graph::node::{Context, Node, NodeHeader, NodePtr, new_node};
use flambeau_core::{
    Geometry, IntrusivePtr, Layout, Result, Scalar, TensorImpl, WeakIntrusivePtr, ensure, shape,
};
use flambeau_ops::native::pointwise::accumulate::accumulate_;
use flambeau_ops::{Tensor, ops};
use std::sync::Arc;

/// Adds to the `grad` of a leaf. The leaf owns the node, and so do the graphs that the leaf is part of.
#[repr(C)]
pub(crate) struct AccumulateGrad {
    header: NodeHeader,
    leaf: WeakIntrusivePtr<TensorImpl>,
    /// The geometry of the leaf for which it accepts gradients, where it is not the leaf's first.
    geometry: Option<Box<Geometry>>,
}

impl AccumulateGrad {
    pub(crate) fn of(leaf: &Tensor) -> NodePtr {
        Self::with_header(leaf, NodeHeader::first(leaf))
    }

    /// Another node for a leaf whose geometry was changed, with the hooks of the first.
    pub(crate) fn sharing_hooks(leaf: &Tensor, hooks: &Arc<NodeHooks>) -> NodePtr {
        Self::with_header(leaf, NodeHeader::first(leaf).sharing_hooks(hooks))
    }

    fn with_header(leaf: &Tensor, header: NodeHeader) -> NodePtr {
        let geometry = leaf.impl_().was_resized().then(|| Box::new(leaf.geometry().clone()));
        let leaf = IntrusivePtr::downgrade(leaf.impl_());
        new_node(AccumulateGrad { header, leaf, geometry })
    }

    /// Whether the leaf has the geometry for which gradients are accepted.
    pub(crate) fn fits(&self, leaf: &Tensor) -> bool {
        self.geometry.as_deref().unwrap_or(leaf.impl_().first_geometry()) == leaf.geometry()
    }

    /// Whether a leaf whose geometry was changed requires a gradient. A gradient for the former geometry is an error: read with the
    /// present geometry, its elements would be the gradients of other elements of the leaf.
    #[cold]
    fn requires_grad_after_reshape(&self, leaf: &Tensor, variable: &Variable) -> Result<bool> {
        if !variable.requires_grad_flag() {
            return Ok(false);
        }
        let before = self.geometry.as_deref().unwrap_or(leaf.impl_().first_geometry());
        let now = leaf.geometry();
        ensure!(
            before == now,
            Autograd,
            "AccumulateGrad: a leaf that the graph was recorded with has been given another geometry by an inplace operation: it              had sizes {:?} with strides {:?}, and has sizes {:?} with strides {:?} now",
            before.sizes(),
            before.strides(),
            now.sizes(),
            now.strides()
        );
        Ok(true)
    }
}

// SAFETY: (header).
unsafe impl Node for AccumulateGrad {
    fn name(&self) -> &str {
        "AccumulateGrad"
    }

    fn apply(&self, cx: &Context<'_>, mut grads: Gradients) -> Result<Gradients> {
        let grad = grads.first_mut().and_then(Option::take);
        // Nobody can read the gradient of a leaf that was dropped.
        let leaf = self.leaf.upgrade().map(Tensor::from_impl);
        if let (Some(grad), Some(leaf)) = (grad, leaf)
            && let Some(variable) = variable(&leaf)
            && (variable.requires_grad_state() == GRAD
                || self.requires_grad_after_reshape(&leaf, variable)?)
        {
            accumulate(&leaf, variable, grad, cx.create_graph())?;
            self.header.hooks().map_or(Ok(()), |hooks| hooks.run_post_accumulate(&leaf))?;
        }
        Ok(Gradients::new())
    }
}

/// Adds `grad` to the `grad` of the leaf. The sum is computed in place, where the storage's guard excludes other threads; where the
/// pass is recorded it is computed in a new tensor, and once more if another thread has replaced the gradient meanwhile.
fn accumulate(leaf: &Tensor, variable: &Variable, grad: Tensor, create_graph: bool) -> Result<()> {
    if can_steal(leaf, &grad, create_graph) {
        let mut state = variable.state.lock();
        if state.grad.is_none() {
            state.grad = Some(grad);
            return Ok(());
        }
    }
    let mut first = Some(grad);
    let mut owned = None;
    loop {
        let before = variable.state.lock().grad.clone();
        match (&before, &first) {
            (Some(before), Some(grad)) if !create_graph && !alias::refuses_kernels(before, grad) => {
                match accumulate_(before, grad) {
                    // A dense gradient cannot be added to a sparse one in place.
                    Err(_) if before.layout() != grad.layout() && before.layout() != Layout::Strided => {
                        let sum = ops::add_tensor(grad, before, Scalar::Int(1))?;
                        let before = variable.state.lock().grad.replace(sum);
                        drop(before);
                        return Ok(());
                    }
                    result => return result,
                }
            }
            (Some(before), Some(grad)) => {
                let sum = ops::add_tensor(before, grad, Scalar::Int(1))?;
                let mut state = variable.state.lock();
                if state.grad.as_ref().is_some_and(|now| now.is_same(before)) {
                    state.grad = Some(sum);
                    return Ok(());
                }
                continue;
            }
            _ => {}
        }
        if owned.is_none() {
            owned = first.take().map(|grad| own(leaf, grad, create_graph)).transpose()?;
        }
        let mut state = variable.state.lock();
        if state.grad.is_none() {
            state.grad = owned;
            return Ok(());
        }
        drop(state);
        // Another thread has set the first gradient meanwhile.
        first = owned.take();
    }
}

/// A gradient that nobody else owns, laid out like its leaf: `grad` itself if it is so already, else a copy.
fn own(leaf: &Tensor, grad: Tensor, create_graph: bool) -> Result<Tensor> {
    if can_steal(leaf, &grad, create_graph) {
        return Ok(grad);
    }
    if alias::is_wrapper(&grad) || grad.layout() != Layout::Strided {
        return ops::clone(&grad, None);
    }
    let copy = if shape::is_non_overlapping_and_dense(leaf.sizes(), leaf.strides()) {
        factory::empty_strided(leaf.sizes(), leaf.strides(), grad.dtype(), grad.device())?
    } else {
        factory::empty(leaf.sizes(), grad.dtype(), grad.device())?
    };
    ops::copy_(&copy, &grad, false)?;
    Ok(copy)
}

/// Whether `grad` itself can become the gradient of the leaf, without a copy. PyTorch's term is stealing.
#[inline]
fn can_steal(leaf: &Tensor, grad: &Tensor, create_graph: bool) -> bool {
    !create_graph
        && grad.is_sole_owner()
        && grad.owns_sparse_values()
        && has_layout_of(grad, leaf)
        && grad.impl_().autograd_meta().is_none()
}

/// Whether `grad` has the strides of `leaf`, or, if the leaf is not dense, is row-major.
fn has_layout_of(grad: &Tensor, leaf: &Tensor) -> bool {
    if leaf.is_contiguous() || !shape::is_non_overlapping_and_dense(leaf.sizes(), leaf.strides()) {
        return grad.is_contiguous();
    }
    grad.strides() == leaf.strides()
}

/// Adds the gradients of a node's outputs to the `grad` of the tensors with `retain_grad`.
///
/// # Errors
/// Those of adding and copying.
pub(crate) fn keep_grads(retaining: &Retaining, grads: &Gradients, create_graph: bool) -> Result<()> {
    for (output_nr, tensor) in retaining {
        if let (Some(Some(grad)), Some(tensor)) = (grads.get(*output_nr as usize), tensor.upgrade()) {
            keep_grad(&Tensor::from_impl(tensor), grad, create_graph)?;
        }
    }
    Ok(())
}

fn keep_grad(tensor: &Tensor, grad: &Tensor, create_graph: bool) -> Result<()> {
    let Some(variable) = variable(tensor) else { return Ok(()) };
    let before = variable.state.lock().grad.clone();
    let now = match before {
        Some(before) => ops::add_tensor(&before, grad, Scalar::Int(1))?,
        None if create_graph || alias::is_wrapper(grad) => ops::clone(grad, None)?,
        None if grad.layout() != Layout::Strided => ops::clone(grad, None)?,
        None => {
            let copy = factory::empty(grad.sizes(), grad.dtype(), grad.device())?;
            ops::copy_(&copy, grad, false)?;
            copy
        }
    };
    let before = variable.state.lock().grad.replace(now);
    drop(before);
    Ok(())
}
