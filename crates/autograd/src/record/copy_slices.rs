//! The node of a base that an in-place operator wrote through a view: it applies the operator's own node to the gradients of the
//! elements of the view, and passes the gradients of the other elements on.
#![expect(unsafe_code, reason = "promises that its node begins with the header")]

use crate::batched;
use crate::factory;
use crate::graph::gradients::Gradients;
use crate::graph::node::{Context, Edges, Node, NodeHeader, NodePtr, Owned, new_node};
use crate::variable::as_strided::in_parts;
use flambeau_core::{Geometry, Result, ensure};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// PyTorch's `CopySlices`. Its edges are those of the operator's node, but the first goes to the base's former history.
#[repr(C)]
pub(crate) struct CopySlices {
    header: NodeHeader,
    base: Geometry,
    view: Geometry,
    view_is_complex: bool,
    inner: NodePtr,
}

impl CopySlices {
    /// For an operator with node `inner` that wrote `view`, a view of `base`.
    pub(crate) fn node(edges: Edges, base: &Tensor, view: &Tensor, inner: NodePtr) -> NodePtr {
        new_node(CopySlices {
            header: NodeHeader::new(edges, &[base]),
            base: base.geometry().clone(),
            view: view.geometry().clone(),
            view_is_complex: view.is_complex(),
            inner,
        })
    }

    /// A copy of the base's gradient, and the part of the copy that corresponds to the view.
    fn copy_and_slice(&self, grad: &Tensor) -> Result<(Tensor, Tensor)> {
        let base = &self.base;
        let copy = if is_batched(grad) {
            batched::copy_strided(grad, base.strides())?
        } else {
            let copy = factory::empty_strided(base.sizes(), base.strides(), grad.dtype(), grad.device())?;
            ops::copy_(&copy, grad, false)?;
            copy
        };
        // The view may count the parts of complex numbers, or the base may.
        let (memory, view, start) = match (grad.is_complex(), self.view_is_complex) {
            (true, false) => (ops::view_as_real(&copy)?, self.view.clone(), 2 * base.storage_offset()),
            (false, true) => (copy.clone(), in_parts(&self.view)?, base.storage_offset()),
            _ => (copy.clone(), self.view.clone(), base.storage_offset()),
        };
        let offset = view.storage_offset() - start;
        ensure!(
            offset >= 0,
            NotImplemented,
            "CopySlices: expected a view that begins inside its base but it begins {} elements before it",
            -offset
        );
        let slice = batched::as_strided(&memory, view.sizes(), view.strides(), offset)?;
        let slice =
            if self.view_is_complex && !grad.is_complex() { ops::view_as_complex(&slice)? } else { slice };
        Ok((copy, slice))
    }
}

// SAFETY: (header).
unsafe impl Node for CopySlices {
    fn name(&self) -> &str {
        "CopySlices"
    }

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        visit(Owned::Node(&self.inner));
    }

    fn apply(&self, cx: &Context<'_>, mut grads: Gradients) -> Result<Gradients> {
        let Some(grad) = grads.first_mut().and_then(Option::take) else { return Ok(Gradients::new()) };
        let (copy, slice) = self.copy_and_slice(&grad)?;
        let slice_grad = ops::clone(&slice, None)?;
        let mut grads =
            self.inner.apply(&cx.through_view(&self.base, grad.is_complex()), smallvec![Some(slice_grad)])?;
        if cx.needs(0) {
            match grads.first_mut().and_then(Option::take) {
                Some(grad) => ops::copy_(&slice, &grad, false)?,
                None => ops::fill__scalar(&slice, 0.into())?,
            }
            match grads.first_mut() {
                Some(first) => *first = Some(copy),
                None => grads.push(Some(copy)),
            }
        }
        Ok(grads)
    }
}
