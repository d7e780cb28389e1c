//! Dropout: random elements, or whole channels, are set to 0 and the others scaled.

use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// A probability is a number from 0 to 1.
pub(crate) fn check_probability(name: &str, p: f64) -> Result<()> {
    ensure!((0.0..=1.0).contains(&p), InvalidArgument, "{name}: expected p from 0 to 1 but got {p}");
    Ok(())
}

/// Whether layers behave as in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Values are dropped, and statistics are those of the batch.
    Training,
    /// Nothing is dropped, and statistics are the running ones.
    Evaluation,
}

impl From<&crate::Training> for Mode {
    fn from(training: &crate::Training) -> Self {
        if training.is_training() { Mode::Training } else { Mode::Evaluation }
    }
}

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident = $operator:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `InvalidArgument` unless `p` is from 0 to 1.
        pub fn $name(input: &Tensor, p: f64, mode: Mode) -> Result<Tensor> {
            check_probability(stringify!($name), p)?;
            ops::$operator(input, p, mode == Mode::Training)
        }
    )*};
}

dropouts! {
    /// In training, elements become 0 with probability `p`, and the others are divided by `1 - p`.
    dropout = dropout;
    /// [`dropout`] of whole channels of `[n, c, ..]`: PyTorch's `dropout1d`, `dropout2d` and `dropout3d`.
    feature_dropout = feature_dropout;
    /// [`dropout`] for what `selu` follows: mean 0 and variance 1 stay.
    alpha_dropout = alpha_dropout;
    /// [`alpha_dropout`] of whole channels.
    feature_alpha_dropout = feature_alpha_dropout;
}
