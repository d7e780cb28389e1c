//! The node of an operator: a struct of saved values with the operator's derivative formula.
#![expect(unsafe_code, reason = "nodes are constructed in their final memory, field by field")]

use super::gradients::Gradients;
use super::node::{Context, IntoEdges, Node, NodeHeader, NodePtr, Owned};
use super::saved::Saved;
use flambeau_core::{Result, ThinPtr, bail};
use flambeau_ops::Tensor;

/// The derivative formula of an operator, a method of the struct of the values that it saves. Generated.
pub trait Backward: Send + Sync + 'static {
    /// `MulBackward0`.
    const NAME: &'static str;

    /// Whether there are saved tensors, which are freed after a backward pass that does not retain the graph.
    const SAVES: bool;

    /// The gradients of the inputs, one for each edge; those for which [`Context::needs`] is false may be `None`. At least one
    /// of `grads` is not `None`.
    ///
    /// # Errors
    /// Those of unpacking saved tensors and of the operators it calls.
    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients>;

    /// Visits the saved tensors.
    fn owns(&self, _visit: &mut dyn FnMut(Owned<'_>)) {}
}

/// The node of an operator.
#[repr(C)]
pub struct GraphNode<B> {
    header: NodeHeader,
    saved: Saved<B>,
}

impl<B: Backward> GraphNode<B> {
    /// A node for the operator call with the derivative `backward` and one output.
    #[inline(always)]
    pub fn record(edges: impl IntoEdges, output: &Tensor, backward: B) -> NodePtr {
        Self::record_all(edges, std::slice::from_ref(&output), backward)
    }

    /// The same for any number of outputs.
    ///
    /// The node is constructed in its final memory, field by field. Moving it there would load its fields with wide loads just after
    /// they were stored, which stalls: see `Note: store forwarding` in `flambeau_core`.
    #[inline(always)]
    pub fn record_all(edges: impl IntoEdges, outputs: &[&Tensor], backward: B) -> NodePtr {
        let make = |dst: *mut Self| {
            // SAFETY: `dst` is newly allocated, and all its fields are written.
            unsafe {
                edges.write_to(&raw mut (*dst).header.edges);
                NodeHeader::write_to(&raw mut (*dst).header, outputs);
                (&raw mut (*dst).saved).write(Saved::new(backward));
                // Does not compile if a field was added that is not written above; so does the pattern in `NodeHeader::write_to`.
                let GraphNode { header: _, saved: _ } = &*dst;
            }
        };
        // SAFETY: `make` writes a node, and the closure only coerces the reference to a trait object.
        unsafe { ThinPtr::new_in_place(make, |node: &mut Self| node) }
    }
}

// SAFETY: (header).
unsafe impl<B: Backward> Node for GraphNode<B> {
    fn name(&self) -> &str {
        B::NAME
    }

    fn apply(&self, cx: &Context<'_>, grads: Gradients) -> Result<Gradients> {
        if grads.iter().all(Option::is_none) {
            return Ok(Gradients::new());
        }
        let _untracked = cx.skip_view_tracking();
        let result = if B::SAVES {
            self.saved.with(cx.keep_graph(), |saved| saved.backward(cx, &grads))
        } else {
            // SAFETY: (never freed) `SAVES` is a constant, so `with` is never called.
            unsafe { self.saved.get() }.map(|saved| saved.backward(cx, &grads))
        };
        result.unwrap_or_else(|| bail!(Autograd, "{SECOND_TIME}"))
    }

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        if B::SAVES {
            let visited = self.saved.with(true, |values| {
                values.owns(visit);
                Ok(())
            });
            // `None` if the values were freed.
            let _ = visited;
        }
    }
}

/// The error where the saved values were freed. PyTorch's text.
pub(crate) const SECOND_TIME: &str = "Trying to backward through the graph a second time (or directly access saved tensors \
    after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or \
    autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to \
    access saved tensors after calling backward.";
