//! `diff`: differences of consecutive elements.

use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, ensure, shape};

/// All elements along a dimension but the last, and all but the first.
pub(super) fn neighbours(tensor: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    Ok((tensor.slice(dim, 0, -1)?, tensor.slice(dim, 1, None)?))
}

/// Differences of consecutive elements along a dimension, `n` times; of bool, whether they differ.
pub fn diff(
    self_: &Tensor,
    n: i64,
    dim: i64,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Shape("diff", "self"), "expects input to be at least one-dimensional");
    ensure!(n >= 0, InvalidArgument("diff", "n"), "order must be non-negative but got {n}");
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("diff"))?;
    for other in prepend.iter().chain(&append) {
        ensure!(
            other.dim() == self_.dim(),
            Shape("diff"),
            "expects prepend or append to be the same dimension as input"
        );
        let fits = (0..self_.dim()).all(|at| at == d || other.sizes()[at] == self_.sizes()[at]);
        ensure!(
            fits,
            Shape("diff"),
            "expects the shape of tensor to prepend or append to match that of input except along the differencing \
             dimension; input.size() = {:?} but got {:?}",
            self_.sizes(),
            other.sizes()
        );
    }
    let parts: Vec<Tensor> = [prepend, Some(self_), append].into_iter().flatten().cloned().collect();
    let mut made = if parts.len() > 1 && n > 0 { ops::cat(&parts, dim)? } else { self_.clone() };
    if n == 0 {
        return ops::clone(&made, None);
    }
    for _ in 0..n.min(made.sizes()[d]) {
        let (before, behind) = neighbours(&made, dim)?;
        made = if made.dtype() == ScalarType::Bool {
            behind.logical_xor(&before)?
        } else {
            behind.sub(&before)?
        };
    }
    Ok(made)
}
