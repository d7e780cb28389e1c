//! Where the gradient of a tensor goes: to the node that computed it, or to the accumulator of a leaf. The history of a view is
//! regenerated first if the base or another view of it was written in place since.

use super::accumulate_grad::AccumulateGrad;
use super::as_strided::AsStrided;
use super::meta::{
    Variable, View, add_autograd_key, recorded_variable, requires_grad, variable, variable_or_init,
};
use super::view::check_creation;
use crate::graph::grad_accumulator_cache;
use crate::graph::hooks::NodeHooks;
use crate::graph::node::{Context, Edge, Edges, NodePtr};
use crate::graph::operator::GraphNode;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use smallvec::smallvec;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Variable {
    /// The accumulator of the leaf `tensor`, which is created if there was none. If the geometry of the leaf was changed, a new one
    /// with the same hooks.
    #[inline]
    pub(crate) fn accumulator(&self, tensor: &Tensor) -> NodePtr {
        let first = self.first_accumulator(tensor);
        if !tensor.impl_().was_resized() {
            return grad_accumulator_cache::take_or_clone(first);
        }
        let node: &dyn Any = &**first;
        match node.downcast_ref::<AccumulateGrad>() {
            Some(node) if node.fits(tensor) => first.clone(),
            _ => AccumulateGrad::sharing_hooks(tensor, first.header().hooks_or_init()),
        }
    }

    /// Where the gradient of `tensor` goes. The history of a view must be current.
    #[inline]
    fn edge(&self, tensor: &Tensor) -> Option<Edge> {
        if self.has_history() {
            let state = self.state.lock();
            return state.grad_fn.clone().map(|node| Edge { node, input_nr: state.output_nr });
        }
        self.requires_grad_flag().then(|| Edge { node: self.accumulator(tensor), input_nr: 0 })
    }

    #[inline]
    fn first_accumulator(&self, tensor: &Tensor) -> &NodePtr {
        self.accumulator.get_or_init(|| AccumulateGrad::of(tensor))
    }

    /// The hooks of the leaf `tensor`, which are created if there were none.
    pub(crate) fn leaf_hooks(&self, tensor: &Tensor) -> Arc<NodeHooks> {
        self.first_accumulator(tensor).header().hooks_or_init().clone()
    }
}

/// Sets the history of `tensor`: it is output `output_nr` of `node`'s operator.
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

/// Where the gradient of `tensor` goes: to the node that computed it, or to the accumulator of a leaf. `None` if it requires none.
///
/// # Errors
/// `Autograd` for a view whose base was modified although that was forbidden; see [`view`](super::view).
#[inline]
pub(crate) fn gradient_edge(tensor: &Tensor) -> Result<Option<Edge>> {
    let [edge] = gradient_edges([Some(tensor)])?;
    Ok(edge)
}

/// The edges of several tensors, some of which may be absent. The metadata of each tensor is looked up only once.
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
            refresh(tensor, variable, view)?;
        }
    }
    // Nothing fails from here on, so the compiler can return the edges in registers.
    Ok(variables.map(|variable| variable.and_then(|(variable, tensor)| variable.edge(tensor))))
}

/// Regenerates the history of a view if its base or another view of it was written in place since.
///
/// # Errors
/// `Autograd` where the [creation](super::meta::CreationMeta) of the view forbids such writes.
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

/// The edge to a new node for `view` as an `as_strided` of `base`.
fn as_strided_edge(base_edge: Option<Edge>, base: &Tensor, view: &Tensor) -> Edge {
    let backward = AsStrided {
        base: base.geometry().clone(),
        base_is_complex: base.is_complex(),
        view: view.geometry().clone(),
    };
    let edges: Edges = smallvec![base_edge];
    Edge { node: GraphNode::record(edges, view, backward), input_nr: 0 }
}

/// The edge that restores the history of a saved output: to the node that runs, or, where the output was written through a view of
/// the node's base, to an `as_strided` of the node.
pub(crate) fn output_edge(cx: &Context<'_>, output: &Tensor, output_nr: u32) -> Edge {
    let node = cx.node().clone();
    match cx.base() {
        None => Edge { node, input_nr: output_nr },
        Some((base, base_is_complex)) => {
            let backward = AsStrided { base: base.clone(), base_is_complex, view: output.geometry().clone() };
            let edges: Edges = smallvec![Some(Edge { node, input_nr: 0 })];
            Edge { node: GraphNode::record(edges, output, backward), input_nr: 0 }
        }
    }
}
