//! `cross` and `vecdot`, products of vectors along a dimension.

use crate::{Tensor, ops};
use flambeau_core::{Result, bail, ensure};

/// The cross product along `dim`.
pub fn linalg_cross(self_: &Tensor, other: &Tensor, dim: i64) -> Result<Tensor> {
    const NAME: &str = "linalg.cross";
    ensure!(
        self_.dim() == other.dim(),
        Shape(NAME, "other"),
        "inputs must have the same number of dimensions."
    );
    let sizes = |t: &Tensor| t.size(dim).map_err(|e| e.in_operator(NAME));
    let (a, b) = (sizes(self_)?, sizes(other)?);
    ensure!(
        a == 3 && b == 3,
        Shape(NAME, "other"),
        "inputs dimension {dim} must have length 3. Got {a} and {b}"
    );
    let rolled = |t: &Tensor, by: i64| t.roll(-by, dim);
    let positive = rolled(self_, 1)?.mul(&rolled(other, 2)?)?;
    positive.sub(&rolled(self_, 2)?.mul(&rolled(other, 1)?)?)
}

/// The same along `dim` or the first dimension of size 3.
pub fn cross(self_: &Tensor, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let first = || self_.sizes().iter().position(|size| *size == 3).map(|d| d as i64);
    match dim.or_else(first) {
        Some(dim) => ops::linalg_cross(self_, other, dim),
        None => bail!(Shape("cross", "self"), "no dimension of size 3 in input"),
    }
}

/// The dot product of vectors along `dim`, with the conjugate of the first.
pub fn linalg_vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(
        x.dtype() == y.dtype() && (x.dtype().is_floating_point() || x.is_complex()),
        Dtype("linalg.vecdot", "y"),
        "Expected floating point or complex tensors of the same dtype but got {} and {}",
        x.dtype(),
        y.dtype()
    );
    ops::conj(x)?.mul(y)?.sum_dim(dim)
}
