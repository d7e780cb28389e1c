//! The node of an operator: a struct of saved values that knows the operator's derivative.
#![expect(unsafe_code, reason = "nodes are made in the place where they stay")]

use super::gradients::Gradients;
use super::node::{Context, IntoEdges, Node, NodeHeader, NodePtr, Owned};
use super::saved::Saved;
use flambeau_core::{Result, ThinPtr, bail};
use flambeau_ops::Tensor;

/// The derivative of an operator: a struct of saved values that knows the formula. Generated.
pub trait Backward: Send + Sync + 'static {
    /// `MulBackward0`.
    const NAME: &'static str;

    /// Whether there are saved tensors, which are freed after a backward pass that does not retain the graph.
    const SAVES: bool;

    /// The gradients of the inputs, one for each edge; those that [`Context::needs`] denies may be `None`. At least one
    /// of `grads` is there.
    ///
    /// # Errors
    /// Those of unpacking saved tensors and of the operators it calls.
    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients>;

    /// Shows the saved tensors.
    fn owns(&self, _visit: &mut dyn FnMut(Owned<'_>)) {}
}

/// The node of an operator.
#[repr(C)]
pub struct GraphNode<B> {
    header: NodeHeader,
    saved: Saved<B>,
}

impl<B: Backward> GraphNode<B> {
    /// A node for the operator call that `backward` is the derivative of, with this one output.
    #[inline(always)]
    pub fn record(edges: impl IntoEdges, output: &Tensor, backward: B) -> NodePtr {
        Self::record_all(edges, std::slice::from_ref(&output), backward)
    }

    /// The same for any number of outputs.
    ///
    /// The node is made where it stays, part by part: moved there, its parts would be read while they are still being
    /// written, which stops the processor for longer than the rest takes.
    #[inline(always)]
    pub fn record_all(edges: impl IntoEdges, outputs: &[&Tensor], backward: B) -> NodePtr {
        let make = |place: *mut Self| {
            // SAFETY: the place is ours, and all of it is written.
            unsafe {
                edges.write_to(&raw mut (*place).header.edges);
                NodeHeader::write_to(&raw mut (*place).header, outputs);
                (&raw mut (*place).saved).write(Saved::new(backward));
                // Does not compile unless all fields are here; below too.
                let GraphNode { header: _, saved: _ } = &*place;
            }
        };
        // SAFETY: `make` writes a node, and a node is known as itself.
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
            self.saved.lend(cx.keep_graph(), |saved| saved.backward(cx, &grads))
        } else {
            // SAFETY: (kept) `SAVES` is the same each time.
            unsafe { self.saved.kept() }.map(|saved| saved.backward(cx, &grads))
        };
        result.unwrap_or_else(|| bail!(Autograd, "{SECOND_TIME}"))
    }

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        if B::SAVES {
            let shown = self.saved.lend(true, |values| {
                values.owns(visit);
                Ok(())
            });
            // They may be gone.
            let _ = shown;
        }
    }
}

/// Said where saved values are gone.
pub(crate) const SECOND_TIME: &str = "Trying to backward through the graph a second time (or directly access saved tensors \
    after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or \
    autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to \
    access saved tensors after calling backward.";
