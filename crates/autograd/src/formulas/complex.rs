//! Derivative formulas of complex numbers. Gradients are dL/dRe + i dL/dIm, and an adjoint is one for the inner product Re(conj(a) b).

use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);
const I: Scalar = Scalar::Complex(0.0, 1.0);

/// The conjugate, or the tensor itself if it is real.
#[inline]
pub fn conjugate(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_complex() { ops::conj(tensor) } else { Ok(tensor.clone()) }
}

/// The gradient of a product with a number.
pub fn mul_conj(grad: &Tensor, factor: Scalar) -> Result<Tensor> {
    ops::mul_scalar(grad, factor.conj())
}

/// The gradient of a quotient by a number.
pub fn div_conj(grad: &Tensor, divisor: Scalar) -> Result<Tensor> {
    ops::div_scalar(grad, divisor.conj())
}

/// The derivative of `acosh`. The square of a complex number forgets in which half of the plane it is, so there are two roots.
pub fn acosh_slope(self_: &Tensor) -> Result<Tensor> {
    if self_.is_complex() {
        let root = |term: i64| ops::rsqrt(&ops::add_scalar(self_, Scalar::Int(term), ONE)?);
        return ops::mul_tensor(&root(-1)?, &root(1)?);
    }
    ops::rsqrt(&ops::sub_scalar(&ops::mul_tensor(self_, self_)?, ONE, ONE)?)
}

/// The gradient of `angle`: `i grad / conj(self)`, and 0 at 0. Real numbers have none, since their angle is constant.
pub fn angle_backward(grad: &Tensor, self_: &Tensor) -> Result<Tensor> {
    if !self_.is_complex() {
        return ops::zeros_like(grad, None, None, None, None, None);
    }
    let rotated = ops::mul_scalar(&ops::_chain_div(grad, self_)?, I)?;
    ops::masked_fill_scalar(&rotated, &ops::eq_scalar(self_, ZERO)?, ZERO)
}

/// The tangent of `angle`: the imaginary part of `tangent / self`, and 0 at 0.
pub fn angle_tangent(tangent: &Tensor, self_: &Tensor) -> Result<Tensor> {
    if !self_.is_complex() {
        return ops::zeros_like(tangent, None, None, None, None, None);
    }
    let part = ops::imag(&ops::div_tensor(tangent, self_)?)?;
    ops::masked_fill_scalar(&part, &ops::eq_scalar(self_, ZERO)?, ZERO)
}

/// The gradient of `sgn`, and its tangent, since the derivative is its own adjoint: the part of `grad` across the direction `result`,
/// divided by the absolute value; 0 at 0.
pub fn sgn_backward(grad: &Tensor, self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    if !self_.is_complex() {
        return ops::zeros_like(grad, None, None, None, None, None);
    }
    let along = ops::real(&ops::mul_tensor(&conjugate(grad)?, result)?)?;
    let across = ops::sub_tensor(grad, &ops::mul_tensor(result, &along)?, ONE)?;
    let is_zero = ops::eq_scalar(self_, ZERO)?;
    let size = ops::masked_fill_scalar(&ops::abs(self_)?, &is_zero, ONE)?;
    ops::masked_fill_scalar(&ops::div_tensor(&across, &size)?, &is_zero, ZERO)
}

/// The gradients of `polar`: the components of `grad` along the direction, and across it, multiplied by the absolute value.
pub fn polar_backward(
    grad: &Tensor,
    abs: &Tensor,
    angle: &Tensor,
    mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let direction = ops::polar(&ops::ones_like(angle, None, None, None, None, None)?, angle)?;
    let rotated = ops::mul_tensor(&conjugate(grad)?, &direction)?;
    let along = || ops::real(&rotated);
    let across = || ops::mul_tensor(abs, &ops::neg(&ops::imag(&rotated)?)?);
    Ok((mask[0].then(along).transpose()?, mask[1].then(across).transpose()?))
}
