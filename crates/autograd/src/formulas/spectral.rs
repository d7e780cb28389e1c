//! Derivatives of eigenvalues and singular values, and of what is computed from them; and of products of reflectors.

use super::complex::conjugate;
use super::linear_algebra::{column, mh, product, row, sizes};
use crate::factory::zeros;
use flambeau_core::{Result, Scalar, ensure};
use flambeau_ops::{Tensor, ops};

/// How large the forbidden part of a gradient may be beside the gradient: far above rounding errors, in f32 too.
const LARGEST_PHASE: f64 = 1e-2;

/// Refuses the gradient of vectors that are determined up to a factor of magnitude 1, if it has a component along that factor: the
/// imaginary part of `diagonal`, beside the gradient `of`.
fn ensure_phases_do_not_count(diagonal: &Tensor, of: &Tensor, message: &str) -> Result<()> {
    if !diagonal.is_complex() || diagonal.numel() == 0 || !diagonal.device().is_cpu() {
        return Ok(());
    }
    let largest = |x: &Tensor| -> Result<f64> {
        let size = ops::max(&ops::abs(&ops::detach(x)?)?)?;
        Ok(ops::_local_scalar_dense(&size)?.to_f64())
    };
    let phase = largest(&ops::imag(diagonal)?)?;
    // NaN passes: equal eigenvalues give NaN and no error.
    let counts = phase > LARGEST_PHASE * largest(of)?;
    ensure!(!counts, Autograd, "{message}");
    Ok(())
}

/// What PyTorch says of eigenvectors.
fn phases_of_eigenvectors(name: &str) -> String {
    format!(
        "{name}: The eigenvectors in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss function \
         depends on this quantity, so it is ill-defined."
    )
}

/// The gradient of eigenvalues and eigenvectors of any matrices: Boeddeker et al., "On the computation of complex-valued gradients with
/// application to statistically optimum beamforming" (2017). The tangents of vectors keep their norm.
pub fn eig_backward(
    grad_values: Option<&Tensor>,
    grad_vectors: Option<&Tensor>,
    a: &Tensor,
    values: &Tensor,
    vectors: &Tensor,
    compute_v: bool,
) -> Result<Option<Tensor>> {
    let vectors = if compute_v { vectors.clone() } else { ops::linalg_eig(a)?.1 };
    let adjoint = mh(&vectors)?;
    let of_vectors = match grad_vectors.filter(|g| g.dim() >= 2) {
        Some(grad) => Some(eigenvector_coefficients(grad, values, &vectors)?),
        None => None,
    };
    let of_values = grad_values.map(|g| ops::diag_embed(g, 0, -2, -1)).transpose()?;
    let inner = match (of_vectors, of_values) {
        (Some(of_vectors), Some(of_values)) => (of_vectors + of_values)?,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Ok(None),
    };
    ops::linalg_solve(&adjoint, &product(&inner, &adjoint)?, true).map(Some)
}

/// The gradient of eigenvectors as a combination of them, without a diagonal.
fn eigenvector_coefficients(grad: &Tensor, values: &Tensor, vectors: &Tensor) -> Result<Tensor> {
    let adjoint = mh(vectors)?;
    let inner = product(&adjoint, grad)?;
    let diagonal = ops::diagonal(&inner, 0, -2, -1)?;
    ensure_phases_do_not_count(&diagonal, &inner, &phases_of_eigenvectors("linalg_eig_backward"))?;
    let along = ops::mul_tensor(&product(&adjoint, vectors)?, &row(&ops::real(&diagonal)?)?)?;
    let differences = conjugate(&(row(values)? - column(values)?)?)?;
    without_diagonal(&ops::div_tensor(&(inner - along)?, &ones_on_diagonal(&differences)?)?)
}

/// The gradient of eigenvalues and eigenvectors of symmetric matrices: Magnus, "On differentiating eigenvalues and eigenvectors" (1985).
/// Equal eigenvalues give NaN where eigenvectors have a gradient; eigenvalues alone divide by no difference.
pub fn eigh_backward(
    grad_values: Option<&Tensor>,
    grad_vectors: Option<&Tensor>,
    a: &Tensor,
    values: &Tensor,
    vectors: &Tensor,
    uplo: &str,
    compute_v: bool,
) -> Result<Option<Tensor>> {
    let vectors = if compute_v { vectors.clone() } else { ops::linalg_eigh(a, uplo)?.1 };
    let transposed = mh(&vectors)?;
    let Some(grad_vectors) = grad_vectors.filter(|g| g.dim() >= 2) else {
        let Some(grad_values) = grad_values else { return Ok(None) };
        return product(&ops::mul_tensor(&vectors, &row(grad_values)?)?, &transposed).map(Some);
    };
    let differences = (row(values)? - column(values)?)?;
    let inner = product(&transposed, grad_vectors)?;
    let diagonal = ops::diagonal(&inner, 0, -2, -1)?;
    ensure_phases_do_not_count(&diagonal, &inner, &phases_of_eigenvectors("linalg_eigh_backward"))?;
    // Vectors move within the unitary matrices, so that only the skew part counts, and the gradient is Hermitian.
    let skew = ops::mul_scalar(&(&inner - &mh(&inner)?)?, Scalar::Float(0.5))?;
    let inner = ops::div_tensor(&skew, &ones_on_diagonal(&differences)?)?;
    let inner = without_diagonal(&inner)?;
    let inner = match grad_values {
        Some(grad_values) => (inner + ops::diag_embed(grad_values, 0, -2, -1)?)?,
        None => inner,
    };
    product(&product(&vectors, &inner)?, &transposed).map(Some)
}

/// With ones on the diagonals, so that they can divide.
fn ones_on_diagonal(x: &Tensor) -> Result<Tensor> {
    let one = ops::eye(x.size(-1)?, Some(x.dtype()), None, Some(x.device()), None)?;
    x + one
}

/// With zeros on the diagonals.
fn without_diagonal(x: &Tensor) -> Result<Tensor> {
    ops::tril(x, -1)? + ops::triu(x, 1)?
}

/// The gradient of a singular value decomposition: Townsend, "Differentiating the singular value decomposition" (2016). Equal singular
/// values give NaN where vectors have a gradient.
#[expect(clippy::too_many_arguments, reason = "the results and their gradients")]
pub fn svd_backward(
    grad_u: Option<&Tensor>,
    grad_s: Option<&Tensor>,
    grad_vh: Option<&Tensor>,
    a: &Tensor,
    u: &Tensor,
    s: &Tensor,
    vh: &Tensor,
    compute_uv: bool,
) -> Result<Option<Tensor>> {
    let (u, vh) = if compute_uv {
        (u.clone(), vh.clone())
    } else {
        let (u, _, vh) = ops::linalg_svd(a, false, None)?;
        (u, vh)
    };
    let k = s.size(-1)?;
    let narrow = |x: &Tensor, dim: i64| ops::narrow(x, dim, 0, k);
    let (u, vh) = (narrow(&u, -1)?, narrow(&vh, -2)?);
    let grad_u = grad_u.filter(|g| g.dim() >= 2).map(|g| first_vectors(g, -1, k)).transpose()?;
    let grad_vh = grad_vh.filter(|g| g.dim() >= 2).map(|g| first_vectors(g, -2, k)).transpose()?;
    if grad_u.is_none() && grad_vh.is_none() {
        let Some(grad_s) = grad_s else { return Ok(None) };
        return product(&ops::mul_tensor(&u, &row(grad_s)?)?, &vh).map(Some);
    }
    let [m, n] = sizes(a)?;
    let gaps = ones_on_diagonal(&gaps(s)?)?;
    let skew = |x: &Tensor| -> Result<Tensor> { without_diagonal(&ops::div_tensor(&(x - &mh(x)?)?, &gaps)?) };
    let of_u = grad_u.as_ref().map(|g| product(&mh(&u)?, g)).transpose()?;
    let of_v = grad_vh.as_ref().map(|g| product(&vh, &mh(g)?)).transpose()?;
    let mut inner = match grad_s {
        Some(grad_s) => ops::diag_embed(grad_s, 0, -2, -1)?,
        None => zeros(gaps.sizes(), &gaps)?,
    };
    if let Some(of_u) = &of_u {
        inner = (inner + ops::mul_tensor(&skew(of_u)?, &row(s)?)?)?;
    }
    if let Some(of_v) = &of_v {
        inner = (inner + ops::mul_tensor(&column(s)?, &skew(of_v)?)?)?;
    }
    if let Some(phases) = phases_of_singular_vectors(of_u.as_ref(), of_v.as_ref(), s)? {
        inner = (inner + phases)?;
    }
    let mut total = product(&product(&u, &inner)?, &vh)?;
    if let Some(g) = grad_u.filter(|_| m > k) {
        let outside = ops::div_tensor(&(&g - &product(&u, &product(&mh(&u)?, &g)?)?)?, &row(s)?)?;
        total = (total + product(&outside, &vh)?)?;
    }
    if let Some(g) = grad_vh.filter(|_| n > k) {
        let outside = (&g - &product(&product(&g, &mh(&vh)?)?, &vh)?)?;
        total = (total + product(&u, &ops::div_tensor(&outside, &column(s)?)?)?)?;
    }
    Ok(Some(total))
}

/// The imaginary diagonal of the gradient, for complex vectors. Only the common phase of a pair of vectors is free: that of one against
/// the other is determined by the matrix.
fn phases_of_singular_vectors(
    of_u: Option<&Tensor>,
    of_v: Option<&Tensor>,
    s: &Tensor,
) -> Result<Option<Tensor>> {
    let total = match (of_u, of_v) {
        (Some(of_u), Some(of_v)) => (of_u + of_v)?,
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => return Ok(None),
    };
    if !total.is_complex() {
        return Ok(None);
    }
    const MESSAGE: &str = "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The \
         specified loss function depends on this phase term, making it ill-defined.";
    ensure_phases_do_not_count(&ops::diagonal(&total, 0, -2, -1)?, &total, MESSAGE)?;
    let Some(of_u) = of_u.filter(|_| of_v.is_some()) else { return Ok(None) };
    let phases = ops::div_tensor(&ops::imag(&ops::diagonal(of_u, 0, -2, -1)?)?, s)?;
    let phases = ops::mul_scalar(&phases, Scalar::Complex(0.0, 1.0))?;
    ops::diag_embed(&phases, 0, -2, -1).map(Some)
}

/// `s_j^2 - s_i^2`, as a product that does not cancel.
fn gaps(s: &Tensor) -> Result<Tensor> {
    ops::mul_tensor(&(row(s)? - column(s)?)?, &(row(s)? + column(s)?)?)
}

/// The gradient of the vectors that have a singular value. Those of the others are any orthonormal basis, of which no function has a
/// gradient; one that is not 0 is refused.
fn first_vectors(grad: &Tensor, dim: i64, count: i64) -> Result<Tensor> {
    let extra = grad.size(dim)? - count;
    if extra > 0 {
        let rest = ops::detach(&ops::narrow(grad, dim, count, extra)?)?;
        let used = ops::_local_scalar_dense(&ops::any(&ops::ne_scalar(&rest, Scalar::Int(0))?)?)?.to_bool();
        ensure!(
            !used,
            Autograd("linalg.svd", "full_matrices"),
            "the vectors without a singular value are not unique, so that a loss that depends on them has no gradient. \
             Use full_matrices=False."
        );
    }
    ops::narrow(grad, dim, 0, count)
}

/// The gradient of a pseudoinverse of constant rank: Golub and Pereyra, "The differentiation of pseudo-inverses and
/// nonlinear least squares problems whose variables separate" (1973).
pub fn pinv_backward(grad: &Tensor, pinv: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (p, g) = (pinv, mh(grad)?);
    let transposed = mh(p)?;
    // `dP = -P dA P + P P' dA' (1 - A P) + (1 - P A) dA' P' P`
    let first = ops::neg(&triple_product(&transposed, grad, &transposed)?)?;
    let outside_rows = (&g - &triple_product(a, p, &g)?)?;
    let second = triple_product(&outside_rows, p, &transposed)?;
    let outside_columns = (&g - &triple_product(&g, p, a)?)?;
    let third = triple_product(&transposed, p, &outside_columns)?;
    first + second + third
}

/// `x y z`, with the smaller of the two possible products of two first.
fn triple_product(x: &Tensor, y: &Tensor, z: &Tensor) -> Result<Tensor> {
    let (of_first, of_last) =
        (x.size(-2)?.saturating_mul(y.size(-1)?), y.size(-2)?.saturating_mul(z.size(-1)?));
    if of_first <= of_last { product(&product(x, y)?, z) } else { product(x, &product(y, z)?) }
}

/// The gradients of the matrix and of the right side of a least squares problem, from those of the solution and of the residuals.
pub fn lstsq_backward(
    grad: Option<&Tensor>,
    grad_residuals: Option<&Tensor>,
    a: &Tensor,
    b: &Tensor,
    solution: &Tensor,
    mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let vector = solution.dim() < a.dim().max(b.dim()) || b.dim() == 1;
    let wide = |x: &Tensor| if vector { column(x) } else { Ok(x.clone()) };
    let (b, x) = (wide(b)?, wide(solution)?);
    let (mut grad_a, mut grad_b) = (None, None);
    if let Some(grad) = grad {
        let (grad, pinv) = (wide(grad)?, ops::linalg_pinv_atol_rtol_tensor(a, None, None, false)?);
        grad_b = Some(product(&mh(&pinv)?, &grad)?);
        grad_a = mask[0].then(|| pinv_backward(&product(&grad, &mh(&b)?)?, &pinv, a)).transpose()?;
    }
    if let Some(grad) = grad_residuals.filter(|g| g.numel() > 0) {
        // What is left is orthogonal to the columns of the matrix, so that the solution's own tangent adds nothing.
        let rest = ops::mul_tensor(&(product(a, &x)? - &b)?, &row(&(grad * 2i64)?)?)?;
        let of_a = product(&rest, &mh(&x)?)?;
        grad_a = Some(grad_a.map_or_else(|| Ok(of_a.clone()), |known| known + &of_a)?);
        grad_b = Some(grad_b.map_or_else(|| ops::neg(&rest), |known| known - &rest)?);
    }
    let narrow = |x: Tensor| if vector { ops::squeeze_dim(&x, -1) } else { Ok(x) };
    Ok((grad_a.filter(|_| mask[0]), grad_b.filter(|_| mask[1]).map(narrow).transpose()?))
}

/// The gradient of the exponential: its tangent map is the upper right block of the exponential of `[[A, dA], [0, A]]`, and the adjoint
/// that of the transposes: Mathias, "A chain rule for matrix functions and applications" (1996).
pub fn matrix_exp_backward(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (transposed, n) = (mh(a)?, a.size(-1)?);
    let above = ops::cat(&[transposed.clone(), grad.clone()], -1)?;
    let below = ops::cat(&[zeros(a.sizes(), a)?, transposed], -1)?;
    let exponential = ops::linalg_matrix_exp(&ops::cat(&[above, below], -2)?)?;
    ops::narrow(&ops::narrow(&exponential, -2, 0, n)?, -1, n, n)
}

/// The vectors of reflectors as columns, with ones on the diagonal and zeros above.
fn reflectors(input: &Tensor, count: i64) -> Result<Tensor> {
    let columns = ops::tril(&ops::narrow(input, -1, 0, count)?, -1)?;
    let one = ops::eye_m(input.size(-2)?, count, Some(input.dtype()), None, Some(input.device()), None)?;
    columns + one
}

/// The gradients of the vectors and of `tau` of reflectors, or of their adjoints, that were applied to `start` one after another, from
/// the number first in `order` on, and of `start`.
fn reflections_backward(
    grad: &Tensor,
    start: &Tensor,
    input: &Tensor,
    tau: &Tensor,
    order: &[i64],
    adjoint: bool,
) -> Result<[Tensor; 3]> {
    let of_adjoint = |tau: &Tensor| if adjoint { conjugate(tau) } else { Ok(tau.clone()) };
    let tau = &of_adjoint(tau)?;
    let vectors = reflectors(input, order.len() as i64)?;
    let part = |number: i64| -> Result<[Tensor; 2]> {
        Ok([ops::narrow(&vectors, -1, number, 1)?, column(&ops::narrow(tau, -1, number, 1)?)?])
    };
    // `H c = c - tau v (v' c)`
    let reflect = |c: &Tensor, [v, tau]: &[Tensor; 2]| -> Result<Tensor> {
        let inner = ops::mul_tensor(&product(&mh(v)?, c)?, tau)?;
        c - &product(v, &inner)?
    };
    let mut states = vec![start.clone()];
    for number in order {
        let next = reflect(&states[states.len() - 1], &part(*number)?)?;
        states.push(next);
    }
    let mut grad = grad.clone();
    let mut parts: Vec<(i64, Tensor, Tensor)> = Vec::new();
    for (number, state) in order.iter().zip(&states).rev() {
        let [v, tau] = part(*number)?;
        let (of_state, of_grad) = (product(&mh(&v)?, state)?, product(&mh(&v)?, &grad)?);
        let grad_tau = ops::neg(&product(&of_grad, &mh(&of_state)?)?)?;
        let conjugated = conjugate(&tau)?;
        let sum = (ops::mul_tensor(&product(&grad, &mh(&of_state)?)?, &conjugated)?
            + ops::mul_tensor(&product(state, &mh(&of_grad)?)?, &tau)?)?;
        parts.push((*number, ops::neg(&sum)?, grad_tau));
        grad = reflect(&grad, &[v, conjugated])?;
    }
    parts.sort_unstable_by_key(|(number, _, _)| *number);
    let grad_vectors: Vec<Tensor> = parts.iter().map(|(_, vector, _)| vector.clone()).collect();
    let grad_taus: Vec<Tensor> = parts.into_iter().map(|(_, _, tau)| tau).collect();
    let grad_tau = ops::squeeze_dim(&ops::cat(&grad_taus, -1)?, -2)?;
    Ok([ops::tril(&ops::cat(&grad_vectors, -1)?, -1)?, of_adjoint(&grad_tau)?, grad])
}

/// The gradient of `input` from that of the columns which hold reflectors.
fn with_other_columns(grad: Tensor, input: &Tensor) -> Result<Tensor> {
    let extra = input.size(-1)? - grad.size(-1)?;
    if extra == 0 {
        return Ok(grad);
    }
    let mut rest = input.sizes().to_vec();
    rest.pop();
    rest.push(extra);
    let beside = zeros(&rest, &grad)?;
    ops::cat(&[grad, beside], -1)
}

/// The gradients of `linalg_householder_product`.
pub fn householder_product_backward(grad: &Tensor, input: &Tensor, tau: &Tensor) -> Result<(Tensor, Tensor)> {
    let count = tau.size(-1)?;
    if count == 0 {
        return Ok((zeros(input.sizes(), input)?, zeros(tau.sizes(), tau)?));
    }
    let [m, n] = sizes(input)?;
    let start = ops::eye_m(m, n, Some(input.dtype()), None, Some(input.device()), None)?;
    let start = ops::expand(&start, input.sizes(), false)?;
    let order: Vec<i64> = (0..count).rev().collect();
    let [grad_input, grad_tau, _] = reflections_backward(grad, &start, input, tau, &order, false)?;
    Ok((with_other_columns(grad_input, input)?, grad_tau))
}

/// The gradients of `ormqr`.
pub fn ormqr_backward(
    grad: &Tensor,
    input: &Tensor,
    tau: &Tensor,
    other: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let count = tau.size(-1)?;
    if count == 0 {
        return Ok((zeros(input.sizes(), input)?, zeros(tau.sizes(), tau)?, grad.clone()));
    }
    // `c Q` is the adjoint of `Q' c'`.
    let transposed = |x: &Tensor| if left { Ok(x.clone()) } else { mh(x) };
    let forward: Vec<i64> = (0..count).collect();
    let order = if left == transpose { forward } else { forward.into_iter().rev().collect() };
    let [grad_input, grad_tau, grad_other] =
        reflections_backward(&transposed(grad)?, &transposed(other)?, input, tau, &order, left == transpose)?;
    Ok((with_other_columns(grad_input, input)?, grad_tau, transposed(&grad_other)?))
}
