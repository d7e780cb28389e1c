//! Derivatives of factorizations and of what is solved with them. Each is the adjoint of the tangent map, in the notation of Giles, "An
//! extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation" (2008). Formulas call
//! operators, and so can be differentiated.

use super::complex::conjugate;
use crate::factory::zeros;
use crate::grad_mode::is_grad_enabled;
use crate::graph::dual_level::is_dual_level_open;
use flambeau_core::{Result, Scalar, ensure};
use flambeau_ops::{Tensor, ops};

/// The conjugate transpose of the last two dimensions.
pub(super) fn mh(x: &Tensor) -> Result<Tensor> {
    conjugate(&ops::transpose_int(x, -2, -1)?)
}

pub(super) fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::matmul(a, b)
}

/// Vectors as the diagonals of matrices, to be multiplied from the left.
pub(super) fn column(x: &Tensor) -> Result<Tensor> {
    ops::unsqueeze(x, -1)
}

/// Vectors as the diagonals of matrices, to be multiplied from the right.
pub(super) fn row(x: &Tensor) -> Result<Tensor> {
    ops::unsqueeze(x, -2)
}

pub(super) fn half(x: &Tensor) -> Result<Tensor> {
    ops::mul_scalar(x, Scalar::Float(0.5))
}

/// The sizes of the matrices.
pub(super) fn sizes(x: &Tensor) -> Result<[i64; 2]> {
    Ok([x.size(-2)?, x.size(-1)?])
}

/// Row or columns from `start` on.
fn rows(x: &Tensor, start: i64, count: i64) -> Result<Tensor> {
    ops::narrow(x, -2, start, count)
}

fn columns(x: &Tensor, start: i64, count: i64) -> Result<Tensor> {
    ops::narrow(x, -1, start, count)
}

/// The solution of `a' x = b`, or of `x a' = b`, for a triangular `a`, upper or lower.
fn solve_adjoint(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<Tensor> {
    ops::linalg_solve_triangular(&mh(a)?, b, !upper, left, unit)
}

/// The gradient of the triangles `L` and `U` of an LU factorization, with respect to the matrix whose rows are in order: de Hoog,
/// Anderssen, Lukas, "Differentiation of matrix functionals using triangular factorization" (2011).
fn triangles_backward(
    grad_l: Option<&Tensor>,
    grad_u: Option<&Tensor>,
    l: &Tensor,
    u: &Tensor,
) -> Result<Tensor> {
    let (m, n) = (l.size(-2)?, u.size(-1)?);
    let k = m.min(n);
    let grad_l = grad_l.map_or_else(|| zeros(l.sizes(), l), |g| Ok(g.clone()))?;
    let grad_u = grad_u.map_or_else(|| zeros(u.sizes(), u), |g| Ok(g.clone()))?;
    let (l1, u1) = (rows(l, 0, k)?, columns(u, 0, k)?);
    let (mut below, mut beside) = (None, None);
    let (mut grad_l1, mut grad_u1) = (rows(&grad_l, 0, k)?, columns(&grad_u, 0, k)?);
    if m > k {
        // `L2 = A2 U^-1`
        let grad_a2 = solve_adjoint(&u1, &rows(&grad_l, k, m - k)?, true, false, false)?;
        grad_u1 = (grad_u1 - product(&mh(&rows(l, k, m - k)?)?, &grad_a2)?)?;
        below = Some(grad_a2);
    }
    if n > k {
        // `U2 = L^-1 A2`
        let grad_a2 = solve_adjoint(&l1, &columns(&grad_u, k, n - k)?, false, true, true)?;
        grad_l1 = (grad_l1 - product(&grad_a2, &mh(&columns(u, k, n - k)?)?)?)?;
        beside = Some(grad_a2);
    }
    let in_l = ops::tril(&product(&mh(&l1)?, &grad_l1)?, -1)?;
    let in_u = ops::triu(&product(&grad_u1, &mh(&u1)?)?, 0)?;
    let inner = solve_adjoint(&l1, &(in_l + in_u)?, false, true, true)?;
    let square = solve_adjoint(&u1, &inner, true, false, false)?;
    match (below, beside) {
        (Some(below), _) => ops::cat(&[square, below], -2),
        (_, Some(beside)) => ops::cat(&[square, beside], -1),
        _ => Ok(square),
    }
}

/// The gradient of the packed factors of `linalg_lu_factor_ex`.
pub fn lu_factor_backward(grad: &Tensor, factors: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let (p, l, u) = ops::lu_unpack(factors, pivots, true, true)?;
    let k = l.size(-1)?;
    let grad_l = ops::tril(&columns(grad, 0, k)?, -1)?;
    let grad_u = ops::triu(&rows(grad, 0, k)?, 0)?;
    product(&p, &triangles_backward(Some(&grad_l), Some(&grad_u), &l, &u)?)
}

/// The gradient of the packed factors from those of `L` and `U`.
pub fn lu_unpack_backward(
    grad_l: Option<&Tensor>,
    grad_u: Option<&Tensor>,
    sizes: &[i64],
    like: &Tensor,
) -> Result<Tensor> {
    let [.., m, n] = *sizes else { return zeros(sizes, like) };
    let k = m.min(n);
    // Zeros to the right of `L` or below `U`.
    let padded = |g: &Tensor, dim: i64, size: i64| -> Result<Tensor> {
        let missing = size - g.size(dim)?;
        if missing == 0 {
            return Ok(g.clone());
        }
        let mut other = g.sizes().to_vec();
        let rank = other.len() as i64;
        if let Some(size) = other.get_mut((rank + dim) as usize) {
            *size = missing;
        }
        ops::cat(&[g.clone(), zeros(&other, g)?], dim)
    };
    let in_l = grad_l.filter(|g| g.dim() >= 2).map(|g| padded(&ops::tril(g, -1)?, -1, n)).transpose()?;
    let in_u = grad_u.filter(|g| g.dim() >= 2).map(|g| padded(&ops::triu(g, 0)?, -2, m)).transpose()?;
    debug_assert!(k >= 0);
    match (in_l, in_u) {
        (Some(l), Some(u)) => l + u,
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (None, None) => zeros(sizes, like),
    }
}

/// The gradient of the factors with which `linalg_lu_solve` solved: that of the matrix, and then by the product `P L U`.
pub fn lu_solve_backward(
    grad: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
    result: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    let grad_b = ops::linalg_lu_solve(factors, pivots, grad, left, !adjoint)?;
    let grad_a = match (left, adjoint) {
        (true, false) => product(&grad_b, &mh(result)?)?,
        (true, true) => product(result, &mh(&grad_b)?)?,
        (false, false) => product(&mh(result)?, &grad_b)?,
        (false, true) => product(&mh(&grad_b)?, result)?,
    };
    let (p, l, u) = ops::lu_unpack(factors, pivots, true, true)?;
    let ordered = ops::neg(&product(&mh(&p)?, &grad_a)?)?;
    let in_l = ops::tril(&product(&ordered, &mh(&u)?)?, -1)?;
    in_l + ops::triu(&product(&mh(&l)?, &ordered)?, 0)?
}

/// A triangle without its diagonal, and its conjugate transpose beside it, with the real parts of the diagonal of `of`: what is
/// orthogonal to skew-Hermitian matrices.
fn with_mirror_image(triangle: &Tensor, of: &Tensor) -> Result<Tensor> {
    let diagonal = half(&ops::diagonal(of, 0, -2, -1)?)?;
    let whole = (triangle + ops::diag_embed(&diagonal, 0, -2, -1)?)?;
    &whole + &mh(&whole)?
}

/// The gradient of a Cholesky factor, symmetric: Murray, "Differentiation of the Cholesky decomposition" (2016).
pub fn cholesky_backward(grad: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    let (l, grad) = if upper { (mh(factor)?, mh(grad)?) } else { (factor.clone(), grad.clone()) };
    let inner = product(&mh(&l)?, &grad)?;
    let symmetric = with_mirror_image(&ops::tril(&inner, -1)?, &inner)?;
    let outer = solve_adjoint(&l, &half(&symmetric)?, false, true, false)?;
    // `outer L^-1`
    ops::linalg_solve_triangular(&l, &outer, false, false, false)
}

/// The gradients of the matrix and of the right side of a triangular system.
pub fn solve_triangular_backward(
    grad: &Tensor,
    a: &Tensor,
    result: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let grad_b = solve_adjoint(a, grad, upper, left, unitriangular)?;
    let grad_a = mask[0].then(|| {
        let full = matrix_gradient(&grad_b, result, left)?;
        let diagonal = i64::from(unitriangular);
        if upper { ops::triu(&full, diagonal) } else { ops::tril(&full, -diagonal) }
    });
    Ok((grad_a.transpose()?, mask[1].then_some(grad_b)))
}

/// `-grad_b x'`, or `-x' grad_b` for a matrix on the right: the gradient of the matrix of a system.
fn matrix_gradient(grad_b: &Tensor, x: &Tensor, left: bool) -> Result<Tensor> {
    ops::neg(&if left { product(grad_b, &mh(x)?)? } else { product(&mh(x)?, grad_b)? })
}

/// Whether the backward pass is itself differentiated, in either mode. Then systems are solved anew: factors have neither a history nor
/// tangents.
fn is_differentiated() -> bool {
    is_grad_enabled() || is_dual_level_open()
}

/// The gradients of the matrix and of the right side of a system.
#[expect(clippy::too_many_arguments, reason = "what the system was solved with")]
pub fn solve_backward(
    grad: &Tensor,
    result: &Tensor,
    a: &Tensor,
    b_sizes: &[i64],
    factors: &Tensor,
    pivots: &Tensor,
    left: bool,
    mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let vector =
        b_sizes.len() == 1 || (a.dim() == b_sizes.len() + 1 && *b_sizes == a.sizes()[..b_sizes.len()]);
    let wide = |x: &Tensor| match vector {
        true => ops::unsqueeze(x, if left { -1 } else { -2 }),
        false => Ok(x.clone()),
    };
    let (grad, result) = (wide(grad)?, wide(result)?);
    let grad_b = if is_differentiated() {
        ops::linalg_solve(&mh(a)?, &grad, left)?
    } else {
        ops::linalg_lu_solve(factors, pivots, &grad, left, true)?
    };
    let grad_a = mask[0].then(|| matrix_gradient(&grad_b, &result, left)).transpose()?;
    let grad_b = match (mask[1], vector) {
        (false, _) => None,
        (true, true) => Some(ops::squeeze_dim(&grad_b, if left { -1 } else { -2 })?),
        (true, false) => Some(grad_b),
    };
    Ok((grad_a, grad_b))
}

/// The gradient of the right side of a system with a symmetric or Hermitian matrix: the solution with its adjoint, which is the matrix
/// itself or its conjugate.
pub fn ldl_solve_backward(
    grad: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
    hermitian: bool,
) -> Result<Tensor> {
    if hermitian || !factors.is_complex() {
        return ops::linalg_ldl_solve(factors, pivots, grad, hermitian);
    }
    conjugate(&ops::linalg_ldl_solve(factors, pivots, &conjugate(grad)?, hermitian)?)
}

/// `-X' grad X'`, for the inverse `X`.
pub fn inv_backward(grad: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    let transposed = mh(inverse)?;
    ops::neg(&product(&product(&transposed, grad)?, &transposed)?)
}

/// The gradient of the sign of a determinant and of the logarithm of its magnitude. The tangents are those of the logarithm, `tr(A^-1 dA)`:
/// its real part, and its imaginary part times `i sign`. The sign of a real determinant has none.
pub fn slogdet_backward(
    grad_sign: Option<&Tensor>,
    grad: Option<&Tensor>,
    a: &Tensor,
    sign: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
) -> Result<Option<Tensor>> {
    let of_sign = match grad_sign.filter(|_| a.is_complex()) {
        Some(grad) => {
            let imaginary = ops::imag(&ops::mul_tensor(&conjugate(grad)?, sign)?)?;
            Some(ops::mul_scalar(&imaginary, Scalar::Complex(0.0, -1.0))?)
        }
        None => None,
    };
    let grad = match (of_sign, grad) {
        (Some(of_sign), Some(grad)) => (of_sign + grad)?,
        (Some(of_sign), None) => of_sign,
        (None, Some(grad)) => grad.clone(),
        (None, None) => return Ok(None),
    };
    let scaled = diagonal_of(&column(&column(&grad)?)?, a)?;
    let solved = if is_differentiated() {
        ops::linalg_solve(&mh(a)?, &scaled, true)?
    } else {
        ops::linalg_lu_solve(factors, pivots, &scaled, true, true)?
    };
    Ok(Some(solved))
}

/// The identity times a number for each matrix.
fn diagonal_of(number: &Tensor, like: &Tensor) -> Result<Tensor> {
    let one = ops::eye(like.size(-1)?, Some(like.dtype()), None, Some(like.device()), None)?;
    ops::mul_tensor(number, &one)
}

/// The gradient of a determinant: the conjugates of the cofactors. They are the conjugate of the determinant times the adjoint of the
/// inverse; where there is none, or not to the last digit, they come from products of singular values without one, which are right at
/// every rank.
pub fn det_backward(
    grad: &Tensor,
    result: &Tensor,
    a: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
) -> Result<Tensor> {
    if a.numel() == 0 {
        return zeros(a.sizes(), a);
    }
    let grad = column(&column(grad)?)?;
    if is_nearly_singular(factors)? {
        return ops::mul_tensor(&grad, &cofactors(a)?);
    }
    let scaled = diagonal_of(&ops::mul_tensor(&grad, &conjugate(&column(&column(result)?)?)?)?, a)?;
    if is_differentiated() {
        return ops::linalg_solve(&mh(a)?, &scaled, true);
    }
    ops::linalg_lu_solve(factors, pivots, &scaled, true, true)
}

/// Whether a pivot of any matrix is small beside the others.
fn is_nearly_singular(factors: &Tensor) -> Result<bool> {
    let pivots = ops::abs(&ops::diagonal(&ops::detach(factors)?, 0, -2, -1)?)?;
    let bound = ops::mul_scalar(&ops::amax(&pivots, &[-1], false)?, Scalar::Float(1e-4))?;
    let small = ops::le_tensor(&ops::amin(&pivots, &[-1], false)?, &bound)?;
    Ok(ops::_local_scalar_dense(&ops::any(&small)?)?.to_bool())
}

fn cofactors(a: &Tensor) -> Result<Tensor> {
    let (u, s, vh) = ops::linalg_svd(a, false, None)?;
    let n = s.size(-1)?;
    // Products of the values before and after each, without a division.
    let one = ops::mul_scalar(&columns(&s, 0, 1)?, Scalar::Int(0))?;
    let one = ops::add_scalar(&one, Scalar::Int(1), Scalar::Int(1))?;
    let before = ops::cumprod(&ops::cat(&[one.clone(), columns(&s, 0, n - 1)?], -1)?, -1, None)?;
    let reversed = ops::flip(&s, &[-1])?;
    let after = ops::cumprod(&ops::cat(&[one, columns(&reversed, 0, n - 1)?], -1)?, -1, None)?;
    let without = ops::mul_tensor(&before, &ops::flip(&after, &[-1])?)?;
    let basis = product(&u, &vh)?;
    // The sign of the determinant of a real orthogonal matrix is a constant.
    let basis = if a.is_complex() { basis } else { ops::detach(&basis)? };
    let sign = ops::sgn(&ops::linalg_det(&basis)?)?;
    let values = ops::mul_tensor(&without, &column(&conjugate(&sign)?)?)?;
    product(&ops::mul_tensor(&u, &row(&values)?)?, &vh)
}

/// The gradient of Q and R: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
/// experimental design" (2010); Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms" (2020).
pub fn qr_backward(
    grad_q: Option<&Tensor>,
    grad_r: Option<&Tensor>,
    q: &Tensor,
    r: &Tensor,
    mode: &str,
) -> Result<Option<Tensor>> {
    if grad_q.is_none() && grad_r.is_none() {
        return Ok(None);
    }
    ensure!(
        mode != "r",
        Autograd("linalg.qr", "mode"),
        "The derivative of linalg_qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, \
         mode='reduced') if you are going to require gradients."
    );
    let ([m, height], n) = (sizes(q)?, r.size(-1)?);
    ensure!(
        mode != "complete" || m <= n,
        Autograd("linalg.qr", "mode"),
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
    );
    if n <= height {
        return tall_qr_backward(grad_q, grad_r, q, r).map(Some);
    }
    // `A = [X Y]`, `X = Q U`, `R = [U Q' Y]`
    let u = columns(r, 0, height)?;
    let Some(grad_r) = grad_r else {
        let square = tall_qr_backward(grad_q, None, q, &u)?;
        let mut rest = q.sizes().to_vec();
        rest.pop();
        rest.push(n - height);
        let beside = zeros(&rest, &square)?;
        return ops::cat(&[square, beside], -1).map(Some);
    };
    let (grad_u, grad_v) = (columns(grad_r, 0, height)?, columns(grad_r, height, n - height)?);
    let y = product(q, &columns(r, height, n - height)?)?;
    let through_q = product(&y, &mh(&grad_v)?)?;
    let grad_q = match grad_q {
        Some(grad_q) => (grad_q + through_q)?,
        None => through_q,
    };
    let square = tall_qr_backward(Some(&grad_q), Some(&grad_u), q, &u)?;
    ops::cat(&[square, product(q, &grad_v)?], -1).map(Some)
}

fn tall_qr_backward(
    grad_q: Option<&Tensor>,
    grad_r: Option<&Tensor>,
    q: &Tensor,
    r: &Tensor,
) -> Result<Tensor> {
    let of_r = grad_r.map(|g| product(g, &mh(r)?)).transpose()?;
    let of_q = grad_q.map(|g| product(&mh(q)?, g)).transpose()?;
    let inner = match (of_r, of_q) {
        (Some(of_r), Some(of_q)) => (of_r - of_q)?,
        (Some(of_r), None) => of_r,
        (None, Some(of_q)) => ops::neg(&of_q)?,
        (None, None) => return zeros(q.sizes(), q),
    };
    let symmetric = with_mirror_image(&ops::triu(&inner, 1)?, &inner)?;
    let through = product(q, &symmetric)?;
    let total = match grad_q {
        Some(grad_q) => (grad_q + through)?,
        None => through,
    };
    solve_adjoint(r, &total, true, false, false)
}
