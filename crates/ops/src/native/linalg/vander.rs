//! Vandermonde matrices.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, ScalarType, ensure};

/// The Vandermonde matrix, with the columns `x^0, x^1, ...`, or in reverse order unless `increasing`.
pub fn vander(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure!(x.dim() == 1, Shape("vander", "x"), "x must be a one-dimensional tensor.");
    let columns = n.unwrap_or(x.sizes()[0]);
    ensure!(columns >= 0, InvalidArgument("vander", "N"), "N must be non-negative.");
    let powers = powers(x, columns)?;
    if increasing { Ok(powers) } else { powers.flip(&[1]) }
}

/// The same in increasing order, for every vector of a batch.
pub fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    // A scalar is a vector of one element.
    let x = &if x.dim() == 0 { x.reshape(&[1])? } else { x.clone() };
    let columns = n.unwrap_or(x.size(-1)?);
    ensure!(columns > 1, InvalidArgument("linalg.vander", "N"), "N must be greater than 1.");
    powers(x, columns)
}

fn powers(x: &Tensor, columns: i64) -> Result<Tensor> {
    let integral = x.dtype().is_integral(true);
    let x = if integral { x.to(ScalarType::I64)? } else { x.clone() };
    let sizes = |last: i64| -> DimVec { x.sizes().iter().copied().chain([last]).collect() };
    if columns == 0 {
        return x.new_empty(&sizes(0), ());
    }
    let ones = x.new_ones(&sizes(1), ())?;
    if columns == 1 {
        return Ok(ones);
    }
    let higher = x.unsqueeze(-1)?.expand(&sizes(columns - 1))?.cumprod(-1)?;
    ops::cat(&[ones, higher], -1)
}
