//! Sparse gradients in steps of optimizers: the elements that a gradient has, and their values.

use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// The index of the elements that a sparse gradient has, each once, for tensors of the parameter's sizes.
pub(super) type Index = Vec<Option<Tensor>>;

/// The index and the values of a sparse gradient, negated to maximize; `None` for a strided one.
///
/// # Errors
/// `InvalidArgument` with weight decay, since that changes elements which the gradient does not have.
pub(super) fn rows_of(grad: &Tensor, maximize: bool, decay: f64) -> Result<Option<(Index, Tensor)>> {
    if !grad.layout().is_sparse() {
        return Ok(None);
    }
    ensure!(decay == 0.0, InvalidArgument, "weight_decay option is not compatible with sparse gradients");
    let grad = flambeau_sparse::coalesce(&flambeau_sparse::to_sparse_coo(grad, None)?)?;
    let rows = ops::unbind_int(&flambeau_sparse::indices(&grad)?, 0)?;
    let values = flambeau_sparse::values(&grad)?;
    let values = if maximize { ops::neg(&values)? } else { values };
    Ok(Some((rows.into_iter().map(Some).collect(), values)))
}
