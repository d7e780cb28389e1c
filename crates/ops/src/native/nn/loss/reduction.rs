//! The reduction of the losses of all elements.

use crate::Tensor;
pub(super) use crate::enums::Reduction;
use flambeau_core::{Result, bail};

/// The reduction of a number.
pub(super) fn reduction_of(number: i64) -> Result<Reduction> {
    match Reduction::from_int(number) {
        Some(reduction) => Ok(reduction),
        None => {
            bail!(InvalidArgument, "expected a reduction of 0 (none), 1 (mean) or 2 (sum) but got {number}")
        }
    }
}

/// The derivative of the reduced loss with respect to each of `count` losses.
pub(super) fn share(reduction: Reduction, count: i64) -> f64 {
    if reduction == Reduction::Mean { 1.0 / count as f64 } else { 1.0 }
}

/// Reduces the losses of all elements or samples.
pub(super) fn reduced_losses(losses: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction_of(reduction)? {
        Reduction::None => Ok(losses.clone()),
        Reduction::Mean => losses.mean(),
        Reduction::Sum => losses.sum(),
    }
}
