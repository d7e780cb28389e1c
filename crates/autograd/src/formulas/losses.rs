//! Derivatives of losses.

use flambeau_core::{DimVec, Result, Scalar, shape};
use flambeau_ops::{Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

/// The gradient of each loss of broadcast arguments of sizes `a` and `b`, from that of their mean (reduction 1), of their sum or of the
/// unreduced losses. If there are no losses, it is not divided by their number: the second derivative would be NaN.
pub fn reduced_grad(grad: &Tensor, reduction: i64, a: &[i64], b: &[i64]) -> Result<Tensor> {
    if reduction != 1 {
        return Ok(grad.clone());
    }
    let count = shape::numel(&shape::broadcast(a, b)?)?;
    ops::div_scalar(grad, Scalar::Int(count.max(1)))
}

/// The gradient of the input of a Kullback-Leibler divergence, which is broadcast with its target.
pub fn kl_div_backward(
    grad: &Tensor,
    input: &Tensor,
    target: &Tensor,
    reduction: i64,
    log_target: bool,
) -> Result<Tensor> {
    let each = reduced_grad(grad, reduction, input.sizes(), target.sizes())?;
    let density = if log_target { ops::exp(target)? } else { target.clone() };
    let sizes = shape::broadcast(input.sizes(), target.sizes())?;
    let gradient = ops::neg(&ops::_chain(&each, &density)?)?;
    if shape::same(gradient.sizes(), &sizes) { Ok(gradient) } else { gradient.expand(&sizes) }
}

/// The same for any number of arguments, times the derivative `slope` with respect to one of them.
fn reduced(grad: &Tensor, reduction: i64, of: &[Option<&Tensor>], slope: &Tensor) -> Result<Tensor> {
    let mut sizes = DimVec::new();
    for argument in of.iter().flatten() {
        sizes = shape::broadcast(&sizes, argument.sizes())?;
    }
    ops::_chain(&reduced_grad(grad, reduction, &sizes, &[])?, slope)
}

/// `tensor * weight`.
fn weighted(tensor: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    weight.map_or_else(|| Ok(tensor.clone()), |weight| ops::mul_tensor(&tensor, weight))
}

/// `1 - x`.
fn rest(x: &Tensor) -> Result<Tensor> {
    ops::rsub_scalar(x, ONE, ONE)
}

/// The derivative with respect to `x` is `weight * ((1 - t) * sigmoid(x) - pos_weight * t * sigmoid(-x))`, without cancellation.
pub fn binary_cross_entropy_with_logits_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let above = ops::mul_tensor(&rest(target)?, &ops::sigmoid(x)?)?;
    let below = weighted(ops::mul_tensor(target, &ops::sigmoid(&ops::neg(x)?)?)?, pos_weight)?;
    let slope = weighted(ops::sub_tensor(&above, &below, ONE)?, weight)?;
    reduced(grad, reduction, &[Some(x), Some(target), weight, pos_weight], &slope)
}

/// The derivative with respect to the target is `weight * (log(sigmoid(-x)) - pos_weight * log(sigmoid(x)))`, where the factor of
/// `weight` is `-x` without `pos_weight`.
pub fn binary_cross_entropy_with_logits_target_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let negative = ops::neg(x)?;
    let slope = match pos_weight {
        Some(pos_weight) => {
            let positive = ops::mul_tensor(&ops::log_sigmoid(x)?, pos_weight)?;
            ops::sub_tensor(&ops::log_sigmoid(&negative)?, &positive, ONE)?
        }
        None => negative,
    };
    reduced(grad, reduction, &[Some(x), Some(target), weight, pos_weight], &weighted(slope, weight)?)
}

/// The derivative with respect to the target is `weight * (log(1 - x) - log(x))`, with logarithms of at least -100 as in the loss.
pub fn binary_cross_entropy_target_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let clamped = |logarithm: Tensor| ops::clamp_min(&logarithm, Scalar::Int(-100));
    let (no, yes) = (clamped(ops::log1p(&ops::neg(x)?)?)?, clamped(ops::log(x)?)?);
    let slope = weighted(ops::sub_tensor(&no, &yes, ONE)?, weight)?;
    reduced(grad, reduction, &[Some(x), Some(target), weight], &slope)
}

/// `1 / (x * (1 - x))`, with a divisor of at least 1e-12 as in `binary_cross_entropy_backward`.
fn steepness(x: &Tensor) -> Result<Tensor> {
    let product = ops::mul_tensor(x, &rest(x)?)?;
    ops::reciprocal(&ops::clamp_min(&product, Scalar::Float(1e-12))?)
}

/// The gradient of the gradients of margin losses, in which the derivative is linear.
pub fn multi_margin_losses_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    let ones = ops::ones_like(grad_output, None, None, None, None, None)?;
    let slopes = ops::_multi_margin_losses_backward(&ones, x, target, p, margin, weight)?;
    ops::sum_dim_intlist(&ops::_chain(grad, &slopes)?, Some(&[1]), false, None)
}

/// The second derivative of margin losses times `grad`. That of squares is twice the derivative of what is squared, once for the class and
/// once, negated, for the target; without squares there is none.
pub fn multi_margin_losses_curvature(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    if p.to_f64() == 1.0 {
        return ops::zeros_like(x, None, None, None, None, None);
    }
    let slopes = ops::_multi_margin_losses_backward(grad_output, x, target, ONE, margin, weight)?;
    let indices = ops::unsqueeze(target, 1)?;
    let ahead = ops::sub_tensor(grad, &ops::gather(grad, 1, &indices, false)?, ONE)?;
    let each = ops::mul_scalar(&ops::_chain(&slopes, &ahead)?, Scalar::Int(2))?;
    let total = ops::sum_dim_intlist(&each, Some(&[1]), true, None)?;
    ops::scatter_add(&each, 1, &indices, &ops::neg(&total)?)
}

/// The gradient of the gradient of a multilabel margin loss, which is linear in it.
pub fn multilabel_margin_loss_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    is_target: &Tensor,
) -> Result<Tensor> {
    let ones = ops::ones_like(grad_output, None, None, None, None, None)?;
    let slopes = ops::multilabel_margin_loss_backward(&ones, x, target, reduction, is_target)?;
    let products = ops::mul_tensor(grad, &slopes)?;
    // Unreduced losses of a batch are the only ones that are not a number without dimensions.
    let dims: &[i64] = if grad_output.dim() == 1 && x.dim() == 2 { &[1] } else { &[] };
    let sum = ops::sum_dim_intlist(&products, Some(dims), false, None)?;
    ops::reshape(&sum, grad_output.sizes())
}

/// The derivative with respect to `x` of `(x - t) / (x * (1 - x))`, which is `(x^2 - 2 x t + t) / (x * (1 - x))^2`.
pub fn binary_cross_entropy_double_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let twice = ops::sub_tensor(x, target, Scalar::Int(2))?;
    let curve = ops::add_tensor(&ops::mul_tensor(x, &twice)?, target, ONE)?;
    let slope = weighted(ops::mul_tensor(&curve, &ops::square(&steepness(x)?)?)?, weight)?;
    reduced(grad, reduction, &[Some(x), Some(target), weight], &slope)
}

/// The derivative of the same with respect to the target.
pub fn binary_cross_entropy_double_backward_target(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = ops::neg(&weighted(steepness(x)?, weight)?)?;
    reduced(grad, reduction, &[Some(x), Some(target), weight], &slope)
}
