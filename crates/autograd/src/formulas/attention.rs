//! Second derivatives of tiled attention, and the derivative with respect to its bias. They are computed by operators on the whole
//! matrix of scores, which the engine can differentiate again.

use crate::factory::zeros;
use flambeau_core::{Result, Scalar};
use flambeau_ops::native::nn::attention::attention_weights;
use flambeau_ops::{Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

/// The gradients of `grad_output`, `query`, `key`, `value` and `attn_bias`.
type FiveGradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>);

fn transposed(x: &Tensor) -> Result<Tensor> {
    ops::transpose_int(x, -2, -1)
}

/// `a b + c d`.
fn two_products(a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor) -> Result<Tensor> {
    ops::add_tensor(&ops::matmul(a, b)?, &ops::matmul(c, d)?, ONE)
}

/// Derivatives of the softmax, which the attention weights suffice for. Its Jacobian is symmetric in each row.
struct Softmax {
    weights: Tensor,
}

impl Softmax {
    /// The mean of each row of `x`, weighted by the attention weights.
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

/// The gradient of the bias, which tiled attention adds to the scores.
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
    softmax.backward(&ops::matmul(grad, &transposed(value)?)?)
}

/// The derivative of the backward pass of tiled attention. With `s` for the backward pass of the softmax, that pass computes
/// `s(grad value^T) key` for the query and `s(grad value^T)^T query` for the key, both times `scale`, and `weights^T grad` for the
/// value.
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

    let slopes = ops::matmul(grad_output, &transposed(value)?)?;
    let of_scores = softmax.backward(&slopes)?;
    let of_score_grads = two_products(&for_query, &transposed(key)?, query, &transposed(&for_key)?)?;
    let of_slopes = softmax.backward(&of_score_grads)?;
    let of_weights = ops::matmul(grad_output, &transposed(&for_value)?)?;
    let of_weights = ops::add_tensor(&of_weights, &softmax.of_backward(&of_score_grads, &slopes)?, ONE)?;
    let of_bias = softmax.backward(&of_weights)?;

    let by_output = two_products(&softmax.weights, &for_value, &of_slopes, value)?;
    let by_query = two_products(&of_scores, &for_key, &scaled(&of_bias)?, key)?;
    let by_key = two_products(&transposed(&of_scores)?, &for_query, &transposed(&scaled(&of_bias)?)?, query)?;
    let by_value = ops::matmul(&transposed(&of_slopes)?, grad_output)?;
    Ok((Some(by_output), Some(by_query), Some(by_key), Some(by_value), attn_bias.map(|_| of_bias)))
}
