//! Derivative formulas of Fourier transforms to and from real numbers: adjoints for the inner product Re(conj(a) b).

use flambeau_core::{DimVec, Result, Scalar, bail, shape};
use flambeau_ops::{Tensor, ops};

/// The dimension of which a transform has one half.
fn half_dim(grad: &Tensor, dim: &[i64]) -> Result<usize> {
    match dim.last() {
        Some(dim) => shape::wrap_dim(*dim, grad.dim()),
        None => bail!(Internal, "a transform without dimensions"),
    }
}

/// The gradient of a transform of real numbers of `sizes`: the real part of the transform back. Elements that were not computed have the
/// gradient 0.
pub fn fft_r2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    onesided: bool,
    sizes: &[i64],
) -> Result<Tensor> {
    let mut grad = grad.clone();
    if onesided {
        let half = half_dim(&grad, dim)?;
        let mut padding = DimVec::from_elem(0, 2 * (grad.dim() - half));
        if let Some(behind) = padding.last_mut() {
            *behind = sizes[half] - grad.sizes()[half];
        }
        grad = ops::constant_pad_nd(&grad, &padding, Scalar::Int(0))?;
    }
    ops::real(&ops::_fft_c2c(&grad, dim, normalization, false)?)
}

/// The gradient of a transform to real numbers: the transform back, whose inner elements count twice, since each stands for its conjugate too.
pub fn fft_c2r_backward(grad: &Tensor, dim: &[i64], normalization: i64) -> Result<Tensor> {
    let half = half_dim(grad, dim)?;
    let back = ops::_fft_r2c(grad, dim, normalization, true)?;
    let (count, inner) = (back.sizes()[half], grad.sizes()[half] - back.sizes()[half]);
    let dtype = Some(grad.dtype());
    let ones = |count: i64| ops::ones(&[count], dtype, None, Some(grad.device()), None);
    let twice = ops::mul_scalar(&ones(inner)?, Scalar::Int(2))?;
    let weights = ops::cat(&[ones(1)?, twice, ones(count - 1 - inner)?], 0)?;
    let mut along = DimVec::from_elem(1, back.dim() - half);
    along[0] = count;
    ops::mul_tensor(&back, &ops::view(&weights, &along)?)
}
