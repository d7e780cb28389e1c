//! Sparse tensors in autograd: their values require the gradient and carry the history, so what is said of the tensor is said of them.

use flambeau_core::{Result, bail, ensure};
use flambeau_ops::Tensor;

/// The values of a sparse tensor.
#[inline]
pub(crate) fn values(tensor: &Tensor) -> Option<Tensor> {
    tensor.sparse_parts().map(|parts| parts.values().clone())
}

/// The tensor that receives the gradient of `tensor`: its values, or itself.
pub(crate) fn receiver(tensor: &Tensor) -> Tensor {
    values(tensor).unwrap_or_else(|| tensor.clone())
}

/// The gradient of a tensor for the gradient of its values: a tensor of the same pattern.
///
/// # Errors
/// Those of making a tensor.
pub(crate) fn whole(tensor: &Tensor, grad: Tensor) -> Result<Tensor> {
    match tensor.sparse_parts() {
        Some(parts) => Tensor::from_sparse_parts(tensor.layout(), tensor.sizes(), parts.with_values(grad)),
        None => Ok(grad),
    }
}

/// The gradient of the values of a sparse tensor for its gradient, which must have the same pattern.
///
/// # Errors
/// `Autograd` for a gradient of another layout, other sizes or other indices.
pub(crate) fn part(tensor: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let Some(parts) = tensor.sparse_parts() else { return Ok(grad.clone()) };
    ensure!(
        grad.layout() == tensor.layout() && grad.sizes() == tensor.sizes(),
        Autograd,
        "expected a gradient of layout {} and sizes {:?} but got {} and {:?}",
        tensor.layout(),
        tensor.sizes(),
        grad.layout(),
        grad.sizes()
    );
    let Some(given) = grad.sparse_parts() else { bail!(Internal, "a sparse tensor has no parts") };
    ensure!(
        given.has_pattern_of(&parts)?,
        Autograd,
        "expected a gradient with the indices of the tensor, in the same order, but it has other ones"
    );
    Ok(given.values().clone())
}
