//! Inverses of square matrices.

use super::lu::{factor, inverse_of_factors};
use crate::native::linalg::matrices::{Problem, ensure_float, ensure_solved, square_size};
use crate::{Tensor, ops};
use flambeau_core::Result;

/// The inverse, and LAPACK's `info`.
pub fn linalg_inv_ex(a: &Tensor, check_errors: bool) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "linalg.inv_ex";
    square_size("linalg.inv", "A", a)?;
    ensure_float("linalg.inv", "A", a)?;
    let (factors, pivots, info) = factor(NAME, a, true)?;
    if check_errors {
        ensure_solved(NAME, &info, Problem::Inverse)?;
    }
    Ok((inverse_of_factors(NAME, &factors, &pivots)?, info))
}

/// [`linalg_inv_ex`] that fails for a singular matrix.
pub fn linalg_inv(a: &Tensor) -> Result<Tensor> {
    let (inverse, info) = ops::linalg_inv_ex(a, false)?;
    ensure_solved("linalg.inv", &info, Problem::Inverse)?;
    Ok(inverse)
}

/// As [`linalg_inv`].
pub fn inverse(self_: &Tensor) -> Result<Tensor> {
    ops::linalg_inv(self_)
}
