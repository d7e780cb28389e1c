//! Functions of matrices whose derivatives divide by sums of eigenvalues, so that equal eigenvalues do no harm: square roots of Hermitian
//! matrices and polar decompositions.

use super::matrices::{ensure_float, matrix_sizes, mh, square_size};
use super::pinv::epsilon;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ensure};

/// `a diag(values) b`.
fn scaled_product(a: &Tensor, values: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::matmul(&ops::mul_tensor(a, &ops::unsqueeze(values, -2)?)?, b)
}

/// The principal square root of Hermitian matrices without negative eigenvalues. The lower triangle is read. Eigenvalues that are
/// negative by rounding errors count as 0; where one is below that, the result is NaN.
pub fn linalg_matrix_sqrth(self_: &Tensor) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_sqrth";
    let n = square_size(NAME, "A", self_)?;
    ensure_float(NAME, "A", self_)?;
    let (values, vectors) = ops::linalg_eigh(self_, "L")?;
    if values.numel() == 0 {
        return Ok(vectors);
    }
    let largest = ops::amax(&ops::abs(&values)?, &[-1], true)?;
    let bound = ops::mul_scalar(&largest, Scalar::Float(-epsilon(self_.dtype()) * n as f64))?;
    let is_zero =
        ops::logical_and(&ops::lt_scalar(&values, Scalar::Int(0))?, &ops::ge_tensor(&values, &bound)?)?;
    let values = ops::masked_fill_scalar(&values, &is_zero, Scalar::Int(0))?;
    scaled_product(&vectors, &ops::sqrt(&values)?, &mh(&vectors)?)
}

/// The solution `X` of `A X + X A = C`, for a Hermitian `A` of which no two eigenvalues add up to 0.
pub fn _linalg_sylvester(a: &Tensor, c: &Tensor) -> Result<Tensor> {
    const NAME: &str = "_linalg_sylvester";
    square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let (values, vectors) = ops::linalg_eigh(a, "L")?;
    let adjoint = mh(&vectors)?;
    let inner = ops::matmul(&ops::matmul(&adjoint, c)?, &vectors)?;
    let (row, column) = (ops::unsqueeze(&values, -2)?, ops::unsqueeze(&values, -1)?);
    let quotient = ops::div_tensor(&inner, &ops::add_tensor(&row, &column, Scalar::Int(1))?)?;
    ops::matmul(&ops::matmul(&vectors, &quotient)?, &adjoint)
}

/// `A = U H`: orthonormal columns, and a Hermitian matrix without negative eigenvalues.
pub fn linalg_polar(a: &Tensor) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "linalg.polar";
    let [rows, columns] = matrix_sizes(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    ensure!(
        rows >= columns,
        Shape(NAME, "A"),
        "input must have at least as many rows as columns, but got {rows} by {columns} matrices"
    );
    let (u, values, vh) = ops::linalg_svd(a, false, None)?;
    Ok((ops::matmul(&u, &vh)?, scaled_product(&mh(&vh)?, &values, &vh)?))
}
