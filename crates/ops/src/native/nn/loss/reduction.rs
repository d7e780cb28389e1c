//! The reduction of the losses of all elements.

use flambeau_core::{Result, bail};

/// Nothing, the mean or the sum. PyTorch's `Reduction::Reduction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    pub(super) fn of(number: i64) -> Result<Self> {
        match number {
            0 => Ok(Reduction::None),
            1 => Ok(Reduction::Mean),
            2 => Ok(Reduction::Sum),
            other => bail!(
                InvalidArgument,
                "expected a reduction of 0 (none), 1 (mean) or 2 (sum) but got {other}"
            ),
        }
    }

    /// The derivative of the reduced loss with respect to each of `count` losses.
    pub(super) fn share(self, count: i64) -> f64 {
        if self == Reduction::Mean { 1.0 / count as f64 } else { 1.0 }
    }
}
