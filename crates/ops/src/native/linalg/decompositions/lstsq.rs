//! Least squares.

use super::solve::is_vector;
use crate::native::linalg::matrices::{
    batch_sizes, broadcast_batches, ensure_alike, ensure_float, matrix_sizes, mh, new, with_sizes,
};
use crate::native::linalg::pinv::epsilon;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

/// The names of LAPACK's drivers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// By a QR factorization, for matrices of full rank.
    Gels,
    /// By a QR factorization where the rank is full, else by singular values, which are not returned.
    Gelsy,
    /// By singular values.
    Gelsd,
}

/// The solution `X` of smallest norm among those that minimize the norm of `self_ X - b`, the squares of that norm for each column, the
/// rank, and the singular values. What a driver does not compute has no elements.
pub fn linalg_lstsq(
    self_: &Tensor,
    b: &Tensor,
    rcond: Option<f64>,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.lstsq";
    let [rows, columns] = matrix_sizes(NAME, "input", self_)?;
    ensure_float(NAME, "input", self_)?;
    ensure_alike(NAME, self_, "other", b)?;
    let driver = match driver {
        Some("gels") => Driver::Gels,
        None | Some("gelsy") => Driver::Gelsy,
        Some("gelsd" | "gelss") => Driver::Gelsd,
        Some(other) => bail!(
            InvalidArgument(NAME, "driver"),
            "parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but got {other}"
        ),
    };
    let vector = is_vector(self_, b);
    let right = if vector { ops::unsqueeze(b, -1)? } else { b.clone() };
    let height = matrix_sizes(NAME, "other", &right)?[0];
    ensure!(
        height == rows,
        Shape(NAME, "other"),
        expected = rows,
        got = height,
        "input.size(-2) should match other.size({}), but got {expected} and {got}",
        if vector { -1 } else { -2 }
    );
    let [a, right] = broadcast_batches(NAME, self_, &right)?;
    let rcond = match rcond {
        None => epsilon(a.dtype()) * rows.max(columns) as f64,
        // LAPACK's drivers by singular values take a negative bound for the precision of the type.
        Some(rcond) if driver == Driver::Gelsd && rcond < 0.0 => epsilon(a.dtype()),
        Some(rcond) => rcond,
    };
    let Solution { x, rank, values } = match driver {
        Driver::Gels => by_qr(&a, &right, rcond)?.0,
        Driver::Gelsy if !a.device().is_meta() && a.numel() > 0 => match by_qr(&a, &right, rcond)? {
            (solution, true) => solution,
            _ => by_svd(&a, &right, rcond)?,
        },
        Driver::Gelsy | Driver::Gelsd => by_svd(&a, &right, rcond)?,
    };
    let rank = if driver == Driver::Gels { empty(&a, ScalarType::I64)? } else { rank };
    let full_rank = driver == Driver::Gels || is_full(&rank, columns)?;
    let has_residuals = rows > columns && full_rank && driver != Driver::Gelsy;
    let residuals = if has_residuals { squares(&a, &x, &right)? } else { empty(&a, a.dtype().to_real())? };
    let x = if vector { ops::squeeze_dim(&x, -1)? } else { x };
    // Row-major also where a dimension has one element: the strides depend on sizes alone.
    let x = ops::clone(&x, Some(MemoryFormat::Contiguous))?;
    let values = if driver == Driver::Gelsd { values } else { empty(&a, a.dtype().to_real())? };
    Ok((x, residuals, rank, values))
}

struct Solution {
    x: Tensor,
    rank: Tensor,
    values: Tensor,
}

fn empty(like: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    new("linalg.lstsq", like, &[0], dtype)
}

/// A tall matrix: `R X = Q' b`. A wide one: its transpose is `Q R`, and `X = Q R'^-1 b`. And whether all matrices are known to be of full
/// rank.
fn by_qr(a: &Tensor, b: &Tensor, rcond: f64) -> Result<(Solution, bool)> {
    let &[.., rows, columns] = a.sizes() else {
        bail!(Internal("linalg.lstsq"), "a matrix without dimensions")
    };
    let is_tall = rows >= columns;
    let (q, r) = ops::linalg_qr(&if is_tall { a.clone() } else { mh(a)? }, "reduced")?;
    let x = if is_tall {
        ops::linalg_solve_triangular(&r, &ops::matmul(&mh(&q)?, b)?, true, true, false)?
    } else {
        ops::matmul(&q, &ops::linalg_solve_triangular(&mh(&r)?, b, false, true, false)?)?
    };
    let rank = Scalar::Int(rows.min(columns));
    let rank = ops::full(batch_sizes(a), rank, Some(ScalarType::I64), None, Some(a.device()), None)?;
    let is_regular = is_regular(&r, rcond)?;
    Ok((Solution { x, rank, values: empty(a, a.dtype().to_real())? }, is_regular))
}

/// Whether the smallest singular value of each triangular matrix is above `rcond` times the largest: they are bounded by the Frobenius norms
/// of the matrix and of its inverse.
fn is_regular(r: &Tensor, rcond: f64) -> Result<bool> {
    if r.device().is_meta() {
        return Ok(false);
    }
    let one = ops::eye(r.size(-1)?, Some(r.dtype()), None, Some(r.device()), None)?;
    let inverse = ops::linalg_solve_triangular(r, &one, true, true, false)?;
    let norm = |of: &Tensor| ops::linalg_vector_norm(of, Scalar::Int(2), Some(&[-2, -1]), false, None);
    let condition = ops::mul_tensor(&norm(r)?, &norm(&inverse)?)?;
    let all =
        ops::all(&ops::lt_scalar(&ops::mul_scalar(&condition, Scalar::Float(rcond))?, Scalar::Int(1))?)?;
    ops::_local_scalar_dense(&all).map(|all| all.to_bool())
}

fn by_svd(a: &Tensor, b: &Tensor, rcond: f64) -> Result<Solution> {
    let (u, values, vh) = ops::linalg_svd(a, false, None)?;
    if values.size(-1)? == 0 {
        let sizes: DimVec = with_sizes(batch_sizes(a), &[a.size(-1)?, b.size(-1)?]);
        let x = ops::zeros(&sizes, Some(a.dtype()), None, Some(a.device()), None)?;
        let rank = ops::zeros(batch_sizes(a), Some(ScalarType::I64), None, Some(a.device()), None)?;
        return Ok(Solution { x, rank, values });
    }
    let bound = ops::mul_scalar(&ops::narrow(&values, -1, 0, 1)?, Scalar::Float(rcond))?;
    let keeps = ops::gt_tensor(&values, &bound)?;
    let factors = ops::where_scalarother(&keeps, &ops::reciprocal(&values)?, Scalar::Int(0))?;
    let inside = ops::mul_tensor(&ops::matmul(&mh(&u)?, b)?, &ops::unsqueeze(&factors, -1)?)?;
    let rank = ops::sum_dim_intlist(&keeps, Some(&[-1]), false, None)?;
    Ok(Solution { x: ops::matmul(&mh(&vh)?, &inside)?, rank, values })
}

/// Whether all matrices have full rank; those without elements on the host are taken to.
fn is_full(rank: &Tensor, columns: i64) -> Result<bool> {
    if !rank.device().is_cpu() {
        return Ok(true);
    }
    ops::_local_scalar_dense(&ops::all(&ops::eq_scalar(rank, Scalar::Int(columns))?)?)
        .map(|all| all.to_bool())
}

/// The sums of squared magnitudes of the columns of `a x - b`.
fn squares(a: &Tensor, x: &Tensor, b: &Tensor) -> Result<Tensor> {
    let rest = (ops::matmul(a, x)? - b)?;
    let squares = ops::real(&ops::mul_tensor(&rest, &ops::conj(&rest)?)?)?;
    ops::sum_dim_intlist(&squares, Some(&[-2]), false, None)
}
