//! Second derivatives of tiled attention, and the derivative by its bias: in operators on all scores at once, which the engine
//! then differentiates.

use crate::handle::zeros;
use flambeau_core::{Result, Scalar};
use flambeau_ops::native::attention::attention_weights;
use flambeau_ops::{Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

/// The gradients of `grad_output`, `query`, `key`, `value` and `attn_bias`.
type FiveGradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>);

fn turned(x: &Tensor) -> Result<Tensor> {
    ops::transpose_int(x, -2, -1)
}

/// `a b + c d`.
fn two_products(a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor) -> Result<Tensor> {
    ops::add_tensor(&ops::matmul(a, b)?, &ops::matmul(c, d)?, ONE)
}

/// Scores as far as their derivatives: the weights, a symmetric Jacobian in each row.
struct Softmax {
    weights: Tensor,
}

impl Softmax {
    /// `x` averaged by the weights.
    fn mean(&self, x: &Tensor) -> Result<Tensor> {
        ops::sum_dim_intlist(&ops::mul_tensor(&self.weights, x)?, Some(&[-1]), true, None)
    }

    /// The gradient of the scores from that of the weights.
    fn backward(&self, x: &Tensor) -> Result<Tensor> {
        ops::mul_tensor(&self.weights, &ops::sub_tensor(x, &self.mean(x)?, ONE)?)
    }

    /// The gradient of the weights from that of the result of `backward(x)`.
    fn of_backward(&self, grad: &Tensor, x: &Tensor) -> Result<Tensor> {
        let own = ops::mul_tensor(grad, &ops::sub_tensor(x, &self.mean(x)?, ONE)?)?;
        ops::sub_tensor(&own, &ops::mul_tensor(x, &self.mean(grad)?)?, ONE)
    }
}

/// Of tiled attention, by what is added to its scores.
pub fn tiled_attention_bias_backward(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<Tensor> {
    let softmax = Softmax { weights: attention_weights(query, key, attn_bias, is_causal, scale)? };
    softmax.backward(&ops::matmul(grad, &turned(value)?)?)
}

/// Of the derivative of tiled attention, which is, with `s` for the backward pass of the softmax: `s(grad value^T) key` for the
/// query, `s(grad value^T)^T query` for the key, both times `scale`, and `weights^T grad` for the value.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn tiled_attention_double_backward(
    grad_query: Option<&Tensor>,
    grad_key: Option<&Tensor>,
    grad_value: Option<&Tensor>,
    grad_output: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<FiveGradients> {
    let given =
        |grad: Option<&Tensor>, of: &Tensor| grad.map_or_else(|| zeros(of.sizes(), of), |g| Ok(g.clone()));
    let scaled = |x: &Tensor| ops::mul_scalar(x, Scalar::Float(scale));
    let (for_query, for_key) = (scaled(&given(grad_query, query)?)?, scaled(&given(grad_key, key)?)?);
    let for_value = given(grad_value, value)?;
    let softmax = Softmax { weights: attention_weights(query, key, attn_bias, is_causal, scale)? };

    let slopes = ops::matmul(grad_output, &turned(value)?)?;
    let of_scores = softmax.backward(&slopes)?;
    let twice = two_products(&for_query, &turned(key)?, query, &turned(&for_key)?)?;
    let of_slopes = softmax.backward(&twice)?;
    let of_weights = ops::matmul(grad_output, &turned(&for_value)?)?;
    let of_weights = ops::add_tensor(&of_weights, &softmax.of_backward(&twice, &slopes)?, ONE)?;
    let again = softmax.backward(&of_weights)?;

    let by_output = two_products(&softmax.weights, &for_value, &of_slopes, value)?;
    let by_query = two_products(&of_scores, &for_key, &scaled(&again)?, key)?;
    let by_key = two_products(&turned(&of_scores)?, &for_query, &turned(&scaled(&again)?)?, query)?;
    let by_value = ops::matmul(&turned(&of_slopes)?, grad_output)?;
    Ok((Some(by_output), Some(by_query), Some(by_key), Some(by_value), attn_bias.map(|_| again)))
}
