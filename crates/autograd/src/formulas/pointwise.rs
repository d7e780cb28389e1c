//! Derivatives of pointwise operators that are more than a line.

use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

/// The gradient of `log(x / (1 - x))`: 0 where `eps` has moved x, and not a number where it has none.
pub fn logit_backward(grad: &Tensor, self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let eps = eps.filter(|eps| *eps >= 0.0);
    let low = eps.unwrap_or(0.0);
    let outside = ops::logical_or(
        &ops::lt_scalar(self_, Scalar::Float(low))?,
        &ops::gt_scalar(self_, Scalar::Float(1.0 - low))?,
    )?;
    let slope = ops::mul_tensor(self_, &ops::rsub_scalar(self_, ONE, ONE)?)?;
    let other = Scalar::Float(if eps.is_some() { 0.0 } else { f64::NAN });
    ops::masked_fill_scalar(&ops::_chain_div(grad, &slope)?, &outside, other)
}

/// The gradients of those of `prelu`, by what they were computed from.
pub fn prelu_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_output: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let above = ops::gt_scalar(self_, ZERO)?;
    let below = |grad: Option<&Tensor>, factor: &Tensor| -> Result<Option<Tensor>> {
        let Some(grad) = grad else { return Ok(None) };
        Ok(Some(ops::masked_fill_scalar(&ops::_chain(grad, factor)?, &above, ZERO)?))
    };
    let by_input = match grad_input {
        Some(grad) => Some(ops::where_self(&above, grad, &ops::_chain(grad, weight)?)?),
        None => None,
    };
    let by_output = match (by_input, below(grad_weight, self_)?) {
        (Some(a), Some(b)) => Some(ops::add_tensor(&a, &b, ONE)?),
        (a, b) => a.or(b),
    };
    Ok((by_output, below(grad_weight, grad_output)?, below(grad_input, grad_output)?))
}
