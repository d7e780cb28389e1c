//! The gradients that a node has received so far, summed as they arrive. PyTorch's `InputBuffer`.

use crate::alias;
use crate::graph::gradients::Gradients;
use flambeau_core::{Result, Scalar, shape};
use flambeau_ops::batched::is_batched;
use flambeau_ops::native::pointwise::accumulate::accumulate_;
use flambeau_ops::{Tensor, ops};

/// Extends the list to `count` gradients; those that did not arrive are `None`.
#[inline]
pub(super) fn pad(grads: &mut Gradients, count: usize) {
    while grads.len() < count {
        grads.push(None);
    }
}

/// Adds `grad` to what has arrived for input `input_nr`.
///
/// The sum is computed in place only where nobody else owns the tensor that is written, and never where the pass is recorded.
#[inline]
pub(super) fn add(buffer: &mut Gradients, input_nr: u32, grad: Tensor, create_graph: bool) -> Result<()> {
    let at = input_nr as usize;
    if at == buffer.len() {
        buffer.push(Some(grad));
        return Ok(());
    }
    pad(buffer, at + 1);
    let Some(slot) = buffer.get_mut(at) else { return Ok(()) };
    *slot = Some(match slot.take() {
        None => grad,
        Some(sum) => sum_of(sum, grad, create_graph)?,
    });
    Ok(())
}

fn sum_of(sum: Tensor, grad: Tensor, create_graph: bool) -> Result<Tensor> {
    // What is written has to be alone, and what is added has to have elements of its own.
    if create_graph || alias::refuses_kernels(&sum, &grad) || is_batched(&sum) || is_batched(&grad) {
        return ops::add_tensor(&sum, &grad, Scalar::Int(1));
    }
    if can_write(&sum) {
        match accumulate_(&sum, &grad) {
            Ok(()) => return Ok(sum),
            Err(_) if sum.layout() != grad.layout() => {}
            Err(error) => return Err(error),
        }
    }
    if can_write(&grad) {
        match accumulate_(&grad, &sum) {
            Ok(()) => return Ok(grad),
            Err(_) if sum.layout() != grad.layout() => {}
            Err(error) => return Err(error),
        }
    }
    ops::add_tensor(&sum, &grad, Scalar::Int(1))
}

/// Whether nobody else owns the tensor, and no two of its elements share memory.
fn can_write(tensor: &Tensor) -> bool {
    tensor.is_sole_owner()
        && tensor.owns_sparse_values()
        && (tensor.is_contiguous() || shape::is_non_overlapping_and_dense(tensor.sizes(), tensor.strides()))
}
