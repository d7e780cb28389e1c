//! Rows of a table, by number.

use flambeau_core::{Result, bail};
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`embedding`].
    EmbeddingOptions {
        /// The row whose gradient is 0.
        padding_idx: Option<i64> = None,
        /// Whether gradients are divided by how often their row was looked up.
        scale_grad_by_freq: bool = false,
    }
}

/// The rows of `weight` that `indices` number: `[..]` of i64 and `[rows, width]` to `[.., width]`.
///
/// # Errors
/// `Index` for a row that is none, `InvalidArgument` for a `padding_idx` that is none.
pub fn embedding(weight: &Tensor, indices: &Tensor, options: EmbeddingOptions) -> Result<Tensor> {
    let padding = padding_row(weight.size(0)?, options.padding_idx)?;
    ops::embedding(weight, indices, padding, options.scale_grad_by_freq, false)
}

/// The row of the padding as operators know it: from the beginning, or -1 for none.
pub(crate) fn padding_row(rows: i64, padding: Option<i64>) -> Result<i64> {
    match padding {
        None => Ok(-1),
        Some(row) if (-rows..rows).contains(&row) => Ok(row.rem_euclid(rows)),
        Some(row) => bail!(InvalidArgument, "embedding: expected padding_idx of {rows} rows but got {row}"),
    }
}
