//! `diag` and `diagflat`.

use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, bail};

/// The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.
pub fn diag(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    match self_.dim() {
        1 => ops::diag_embed(self_, diagonal, -2, -1),
        2 => ops::clone(&ops::diagonal(self_, diagonal, 0, 1)?, Some(MemoryFormat::Contiguous)),
        other => {
            bail!(Shape("diag", "self"), "Supports 1D or 2D tensors. Got {other}D")
        }
    }
}

/// The matrix with all elements of a tensor on a diagonal.
pub fn diagflat(self_: &Tensor, offset: i64) -> Result<Tensor> {
    ops::diag(&ops::reshape(self_, &[-1])?, offset)
}
