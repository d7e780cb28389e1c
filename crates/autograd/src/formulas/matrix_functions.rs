//! Derivatives of square roots and polar decompositions of matrices: Higham, "Functions of matrices" (2008). They are solutions of
//! equations `A X + X A = C`, whose derivatives are such solutions again, so that all orders exist where eigenvalues are equal.

use super::linear_algebra::{half, mh, product};
use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

fn hermitian_part(x: &Tensor) -> Result<Tensor> {
    half(&(x + &mh(x)?)?)
}

/// The tangent `dX` of the root solves `X dX + dX X = dA`, and the map of Hermitian matrices is its own adjoint.
pub fn matrix_sqrth_backward(grad: &Tensor, root: &Tensor) -> Result<Tensor> {
    ops::_linalg_sylvester(root, &hermitian_part(grad)?)
}

/// The tangent of the solution solves the equation with `dC - dA X - X dA` on the right.
pub fn sylvester_backward(grad: &Tensor, a: &Tensor, result: &Tensor) -> Result<(Tensor, Tensor)> {
    let of_c = ops::_linalg_sylvester(a, grad)?;
    let adjoint = mh(result)?;
    let of_a = ops::neg(&(product(&of_c, &adjoint)? + product(&adjoint, &of_c)?)?)?;
    // The matrix is Hermitian, of which one triangle is read.
    Ok((hermitian_part(&of_a)?, of_c))
}

/// With `Z = U' dA` the tangents are `dH = Z - W H` and `dU = U W + (1 - U U') dA H^-1`, where `W H + H W = Z - Z'`.
pub fn polar_decomposition_backward(
    grad_u: Option<&Tensor>,
    grad_h: Option<&Tensor>,
    u: &Tensor,
    h: &Tensor,
) -> Result<Option<Tensor>> {
    let adjoint = mh(u)?;
    let of_h = grad_h.map(hermitian_part).transpose()?;
    let of_u = grad_u.map(|g| product(&adjoint, g)).transpose()?;
    let of_h_times_h = of_h.as_ref().map(|g| product(g, h)).transpose()?;
    let of_w = match (&of_u, of_h_times_h) {
        (Some(of_u), Some(of_h)) => (of_u - &of_h)?,
        (Some(of_u), None) => of_u.clone(),
        (None, Some(of_h)) => ops::neg(&of_h)?,
        (None, None) => return Ok(None),
    };
    let solution = ops::_linalg_sylvester(h, &of_w)?;
    let skew = (&solution - &mh(&solution)?)?;
    let inner = match of_h {
        Some(of_h) => (of_h + skew)?,
        None => skew,
    };
    let mut total = product(u, &inner)?;
    if let (Some(grad), Some(of_u)) = (grad_u, of_u)
        && u.size(-2)? > u.size(-1)?
    {
        let outside = (grad - &product(u, &of_u)?)?;
        total = (total + ops::linalg_solve(h, &outside, false)?)?;
    }
    Ok(Some(total))
}
