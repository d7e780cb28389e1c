//! Dropout: elements set to zero at random, and the rest scaled up.

use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

fn check(name: &str, p: f64) -> Result<()> {
    ensure!(
        (0.0..=1.0).contains(&p),
        InvalidArgument,
        "{name}: dropout probability has to be between 0 and 1, but got {p}"
    );
    Ok(())
}

/// What the elements that stay are multiplied with, so that the mean stays; 0 where none does.
fn scale(p: f64) -> f64 {
    if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) }
}

/// `input` with each element zero with probability `p` and scaled otherwise, and the mask of those that stayed. Without
/// training, a copy and a mask of ones.
pub fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    check("native_dropout", p)?;
    let mask = ops::empty_like(input, Some(ScalarType::Bool), None, None, None, None)?;
    if input.numel() == 0 || !train.unwrap_or(true) {
        ops::fill__scalar(&mask, Scalar::Int(1))?;
        return Ok((ops::clone(input, None)?, mask));
    }
    ops::bernoulli__float(&mask, 1.0 - p, None)?;
    let output = ops::mul_tensor(input, &mask)?;
    ops::mul__scalar(&output, Scalar::Float(scale(p)))?;
    Ok((output, mask))
}

/// The gradient of [`native_dropout`].
pub fn native_dropout_backward(grad_output: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    ops::mul_scalar(&ops::mul_tensor(grad_output, mask)?, Scalar::Float(scale))
}

/// `input` itself without training, else what [`native_dropout`] makes of it.
pub fn dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    check("dropout", p)?;
    if p == 0.0 || !train || input.numel() == 0 {
        return Ok(input.clone());
    }
    Ok(ops::native_dropout(input, p, Some(true))?.0)
}

/// Dropout in place.
pub fn dropout_(self_: &Tensor, p: f64, train: bool) -> Result<()> {
    check("dropout_", p)?;
    if p == 0.0 || !train || self_.numel() == 0 {
        return Ok(());
    }
    let noise = ops::empty_like(self_, None, None, None, None, None)?;
    ops::bernoulli__float(&noise, 1.0 - p, None)?;
    ops::mul__scalar(&noise, Scalar::Float(scale(p)))?;
    ops::mul__tensor(self_, &noise)
}
