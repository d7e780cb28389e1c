//! Attention: every position of a sequence attends to the others.

use super::{Linear, parameter};
use crate::{Module, fields, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// Self-attention with several heads, `[batch, length, width]` to the same: Vaswani et al., "Attention is all you need", 2017.
/// Names and values to begin with are those of PyTorch's `MultiheadAttention` with `batch_first`.
///
/// ```
/// use flambeau_nn::{Module, MultiHeadAttention};
/// use flambeau_ops::Tensor;
/// let attention = MultiHeadAttention::new(8, 2)?.causal(true);
/// attention.requires_grad_(false)?;
/// assert_eq!(attention.forward(&Tensor::ones(&[3, 5, 8], ())?)?.sizes(), &[3, 5, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiHeadAttention {
    /// `[3 width, width]`: the projection to queries, keys and values.
    pub in_proj_weight: Tensor,
    /// `[3 width]`.
    pub in_proj_bias: Tensor,
    /// From the heads' answers to the output.
    pub out_proj: Linear,
    heads: i64,
    causal: bool,
}

impl MultiHeadAttention {
    /// So many heads, each of `width / heads`.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is a head and `heads` divides `width`.
    pub fn new(width: i64, heads: i64) -> Result<Self> {
        ensure!(
            heads > 0 && width > 0 && width % heads == 0,
            InvalidArgument,
            "MultiHeadAttention: expected a width that the number of heads divides but got {width} and {heads}"
        );
        let (in_proj_weight, in_proj_bias) = (parameter(&[3 * width, width])?, parameter(&[3 * width])?);
        init::xavier_uniform_(&in_proj_weight, 1.0, None)?;
        init::zeros_(&in_proj_bias)?;
        let out_proj = Linear::new(width, width)?;
        out_proj.bias.as_ref().map_or(Ok(()), init::zeros_)?;
        Ok(MultiHeadAttention { in_proj_weight, in_proj_bias, out_proj, heads, causal: false })
    }

    /// Whether each position attends only to itself and those before it (causal mask).
    pub fn causal(self, causal: bool) -> Self {
        MultiHeadAttention { causal, ..self }
    }

    /// `[batch, length, width]` as `[batch, heads, length, width / heads]`.
    fn by_head(&self, tensor: &Tensor) -> Result<Tensor> {
        let &[batch, length, width] = tensor.sizes() else {
            flambeau_core::bail!(Internal, "expected 3 dimensions but got {:?}", tensor.sizes());
        };
        ops::transpose_int(&ops::view(tensor, &[batch, length, self.heads, width / self.heads])?, 1, 2)
    }
}

impl Module for MultiHeadAttention {
    fields!(in_proj_weight, in_proj_bias, out_proj);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let width = self.in_proj_weight.size(1)?;
        ensure!(
            input.dim() == 3 && input.size(2)? == width,
            Shape,
            "MultiHeadAttention: expected an input of sizes [batch, length, {width}] but got {:?}",
            input.sizes()
        );
        let projected = ops::linear(input, &self.in_proj_weight, Some(&self.in_proj_bias))?;
        // One operator for all three has one backward node, which writes the gradient as one tensor.
        let parts = ops::chunk(&projected, 3, 2)?;
        let parts = parts.iter().map(|part| self.by_head(part)).collect::<Result<Vec<Tensor>>>()?;
        let [query, key, value] = &parts[..] else {
            flambeau_core::bail!(Internal, "expected 3 parts but got {}", parts.len());
        };
        let answers =
            ops::scaled_dot_product_attention(query, key, value, None, 0.0, self.causal, None, false)?;
        self.out_proj.forward(&ops::reshape(&ops::transpose_int(&answers, 1, 2)?, input.sizes())?)
    }
}
