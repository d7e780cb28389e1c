//! Systems and inverses whose unknowns are tensors.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, ensure, shape};

/// The solution of `tensordot(self_, X, X.dim()) = other`, after `dims` of `self_` are moved to its end.
pub fn linalg_tensorsolve(self_: &Tensor, other: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    const NAME: &str = "linalg.tensorsolve";
    let a = match dims {
        Some(dims) => {
            let to: DimVec = (-(dims.len() as i64)..0).collect();
            ops::movedim_intlist(self_, dims, &to)?
        }
        None => self_.clone(),
    };
    ensure!(
        a.dim() >= other.dim(),
        Shape(NAME, "self"),
        "Expected self to have at least as many dimensions as other, but got {} and {}",
        a.dim(),
        other.dim()
    );
    let unknown = DimVec::from_slice(&a.sizes()[other.dim()..]);
    let (count, equations) = (shape::numel(&unknown)?, shape::numel(&a.sizes()[..other.dim()])?);
    ensure!(
        count == equations && equations == other.numel(),
        Shape(NAME, "self"),
        expected = count,
        got = equations,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got \
         {expected} != {got}"
    );
    let matrix = ops::reshape(&a, &[count, count])?;
    let x = ops::linalg_solve(&matrix, &ops::reshape(other, &[count])?, true)?;
    ops::reshape(&x, &unknown)
}

/// The inverse of `self_` as a map from its last dimensions to the first `ind` ones.
pub fn linalg_tensorinv(self_: &Tensor, ind: i64) -> Result<Tensor> {
    const NAME: &str = "linalg.tensorinv";
    ensure!(
        ind > 0,
        InvalidArgument(NAME, "ind"),
        "Expected a strictly positive integer for 'ind', but got {ind}"
    );
    let (first, last) = self_.sizes().split_at((ind as usize).min(self_.dim()));
    let (rows, columns) = (shape::numel(first)?, shape::numel(last)?);
    ensure!(
        rows == columns,
        Shape(NAME, "self"),
        expected = columns,
        got = rows,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {expected} \
         != {got}"
    );
    let sizes: DimVec = last.iter().chain(first).copied().collect();
    ops::reshape(&ops::linalg_inv(&ops::reshape(self_, &[rows, rows])?)?, &sizes)
}
