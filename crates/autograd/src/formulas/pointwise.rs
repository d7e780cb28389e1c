//! Long derivative formulas of pointwise operators.

use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

/// The gradient of `clamp` between numbers: 0 at the limits too, as in PyTorch.
pub fn clamp_backward(
    grad: &Tensor,
    self_: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<Tensor> {
    let above = min.map(|min| ops::gt_scalar(self_, min)).transpose()?;
    let below = max.map(|max| ops::lt_scalar(self_, max)).transpose()?;
    let inside = match (above, below) {
        (Some(above), Some(below)) => ops::logical_and(&above, &below)?,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Ok(grad.clone()),
    };
    ops::where_scalarother(&inside, grad, ZERO)
}

/// The gradient of `log(x / (1 - x))`: 0 where x was clamped by `eps`, and NaN outside the domain without `eps`.
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

/// The derivative of the backward pass of `prelu`: the gradients of `grad_output`, `self` and `weight`.
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

/// Below this the derivative of `sinc` is computed by a series: near 0 the difference that is divided by `x` cancels.
const NEAR: f64 = 0.25;
/// `2 k / (2 k + 1)!` with the sign of `(-1)^k`, from the last `k` of the series to the first.
const SINC_SLOPES: [f64; 8] = [
    4.498_331_606_952_833e-14,
    -1.070_602_922_454_774_3e-11,
    1.927_085_260_418_593_7e-9,
    -2.505_210_838_544_172e-7,
    2.204_585_537_918_871_4e-5,
    -1.190_476_190_476_190_6e-3,
    3.333_333_333_333_333e-2,
    -3.333_333_333_333_333e-1,
];

/// The derivative of `sin(pi x) / (pi x)`, computed by operators that can be differentiated again, at 0 too.
pub fn sinc_slope(self_: &Tensor) -> Result<Tensor> {
    let pi = Scalar::Float(std::f64::consts::PI);
    let near = ops::lt_scalar(&ops::abs(self_)?, Scalar::Float(NEAR))?;
    // Each branch is evaluated only with arguments in its range, so that the backward pass gets no NaN from the branch not taken.
    let (inner, outer) =
        (ops::where_scalarother(&near, self_, ZERO)?, ops::where_scalarself(&near, ONE, self_)?);
    let angle = ops::mul_scalar(&inner, pi)?;
    let square = ops::mul_tensor(&angle, &angle)?;
    let [last, others @ ..] = SINC_SLOPES;
    let mut series = ops::full_like(&inner, Scalar::Float(last), None, None, None, None, None)?;
    for slope in others {
        series = ops::add_scalar(&ops::mul_tensor(&series, &square)?, Scalar::Float(slope), ONE)?;
    }
    let series = ops::mul_scalar(&ops::mul_tensor(&series, &angle)?, pi)?;
    let cosine = ops::cos(&ops::mul_scalar(&outer, pi)?)?;
    let quotient = ops::div_tensor(&ops::sub_tensor(&cosine, &ops::sinc(&outer)?, ONE)?, &outer)?;
    ops::where_self(&near, &series, &quotient)
}
