//! Attention: every position of a sequence attends to those of another, or of its own.

use super::{Linear, parameter_if};
use crate::functional::{self, Attention, Mode};
use crate::{Forward, Module, Training, init};
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`MultiheadAttention`].
    MultiheadAttentionOptions {
        /// The probability with which weights are dropped in training.
        dropout: f64 = 0.0,
        /// Whether projections add a bias.
        bias: bool = true,
        /// The width of keys; that of queries where none is given.
        kdim: Option<i64> = None,
        /// The width of values; that of queries where none is given.
        vdim: Option<i64> = None,
    }
}

options! {
    /// Which positions [`MultiheadAttention::attend`] leaves out.
    Masks [
        /// `[length, source]`, or `[batch · heads, length, source]`: added to scores, or of bool, true where nothing may be attended to.
        attention,
        /// `[batch, source]`: the same for keys, whatever the query.
        key_padding
    ] {
        /// Whether each position attends only to itself and those before it.
        causal: bool = false,
    }
}

/// Attention with several heads, `[batch, length, width]`: Vaswani et al., "Attention is all you need", 2017. Names and values to
/// begin with are those of PyTorch's `MultiheadAttention` with `batch_first`.
///
/// As a [`Forward`] it attends to its own input:
///
/// ```
/// use flambeau_nn::{Forward, Masks, Module, MultiheadAttention};
/// use flambeau_ops::Tensor;
/// let attention = MultiheadAttention::new(8, 2)?.causal(true);
/// attention.requires_grad_(false)?;
/// let x = Tensor::ones(&[3, 5, 8], ())?;
/// assert_eq!(attention.forward(&x)?.sizes(), &[3, 5, 8]);
/// let memory = Tensor::ones(&[3, 7, 8], ())?;
/// assert_eq!(attention.attend(&x, &memory, &memory, &Masks::default())?.sizes(), &[3, 5, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct MultiheadAttention {
    /// `[3 width, width]`: the projection to queries, keys and values, if these have one width.
    pub in_proj_weight: Option<Tensor>,
    /// `[width, width]`: that to queries, if widths differ.
    pub q_proj_weight: Option<Tensor>,
    /// `[width, kdim]`: that to keys.
    pub k_proj_weight: Option<Tensor>,
    /// `[width, vdim]`: that to values.
    pub v_proj_weight: Option<Tensor>,
    /// `[3 width]`.
    pub in_proj_bias: Option<Tensor>,
    /// From the heads' answers to the output.
    pub out_proj: Linear,
    #[module(skip)]
    width: i64,
    #[module(skip)]
    heads: i64,
    #[module(skip)]
    dropout: f64,
    #[module(skip)]
    causal: bool,
    training: Training,
}

impl MultiheadAttention {
    /// So many heads, each of `width / heads`.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is a head and `heads` divides `width`.
    pub fn new(width: i64, heads: i64) -> Result<Self> {
        Self::with_options(width, heads, MultiheadAttentionOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and `InvalidArgument` for widths below 1 or a dropout outside 0 to 1.
    pub fn with_options(width: i64, heads: i64, options: MultiheadAttentionOptions) -> Result<Self> {
        let MultiheadAttentionOptions { dropout, bias, kdim, vdim } = options;
        let (kdim, vdim) = (kdim.unwrap_or(width), vdim.unwrap_or(width));
        ensure!(
            heads > 0 && width > 0 && width % heads == 0 && kdim > 0 && vdim > 0,
            InvalidArgument,
            "MultiheadAttention: expected a width that the number of heads divides but got {width} and {heads}"
        );
        functional::check_probability("MultiheadAttention", dropout)?;
        let one = kdim == width && vdim == width;
        let made = MultiheadAttention {
            in_proj_weight: weight_if(one, &[3 * width, width])?,
            q_proj_weight: weight_if(!one, &[width, width])?,
            k_proj_weight: weight_if(!one, &[width, kdim])?,
            v_proj_weight: weight_if(!one, &[width, vdim])?,
            in_proj_bias: parameter_if(bias, &[3 * width])?,
            out_proj: Linear::with_bias(width, width, bias)?,
            width,
            heads,
            dropout,
            causal: false,
            training: Training::new(),
        };
        [&made.in_proj_bias, &made.out_proj.bias].into_iter().flatten().try_for_each(init::zeros_)?;
        Ok(made)
    }

    /// Whether, as a [`Forward`], each position attends only to itself and those before it (causal mask).
    #[must_use]
    pub fn causal(self, causal: bool) -> Self {
        MultiheadAttention { causal, ..self }
    }

    /// What each query finds: `[batch, length, width]`, of keys `[batch, source, kdim]` and values `[batch, source, vdim]`.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &Masks) -> Result<Tensor> {
        let [q, k, v] = self.projected(query, key, value)?;
        let options = self.options(&q, key.size(1)?, masks)?;
        let answers = functional::scaled_dot_product_attention(&q, &k, &v, options)?;
        self.out_proj.forward(&ops::reshape(&ops::transpose_int(&answers, 1, 2)?, query.sizes())?)
    }

    /// [`attend`](Self::attend), and how much each query attends to each key, `[batch, heads, length, source]`.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn attend_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: &Masks,
    ) -> Result<(Tensor, Tensor)> {
        let [q, k, v] = self.projected(query, key, value)?;
        let (length, source) = (query.size(1)?, key.size(1)?);
        let options = self.options(&q, source, masks)?;
        let scale = 1.0 / ((self.width / self.heads) as f64).sqrt();
        let mut scores = ops::matmul(&(q * scale)?, &ops::transpose_int(&k, -2, -1)?)?;
        if options.is_causal {
            let later = ops::triu(&Tensor::full(&[length, source], f64::NEG_INFINITY, query.dtype())?, 1)?;
            scores = (scores + later)?;
        }
        let weights = match &options.mask {
            None => functional::softmax(&scores, -1)?,
            // A query that may attend to no position has weights 0, as in the fused operator.
            Some(mask) => {
                let none = ops::all_dim(&ops::eq_scalar(mask, f64::NEG_INFINITY.into())?, -1, true)?;
                let open = ops::masked_fill_scalar(mask, &none, 0.into())?;
                let weights = functional::softmax(&(scores + open)?, -1)?;
                ops::masked_fill_scalar(&weights, &none, 0.into())?
            }
        };
        let weights = functional::dropout(&weights, options.dropout_p, Mode::Training)?;
        let answers = ops::transpose_int(&ops::matmul(&weights, &v)?, 1, 2)?;
        Ok((self.out_proj.forward(&ops::reshape(&answers, query.sizes())?)?, weights))
    }

    /// Queries, keys and values by head; one product where all come from one tensor.
    fn projected(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<[Tensor; 3]> {
        self.check("a query", query, self.width)?;
        if let (Some(weight), true) = (&self.in_proj_weight, query.is_same(key) && key.is_same(value)) {
            let projected = ops::linear(query, weight, self.in_proj_bias.as_ref())?;
            // One operator for all three has one backward node, which writes the gradient as one tensor.
            let parts = three(ops::chunk(&projected, 3, 2)?)?;
            return three(parts.iter().map(|part| self.by_head(part)).collect::<Result<Vec<Tensor>>>()?);
        }
        let weights =
            match (&self.in_proj_weight, &self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight) {
                (Some(weight), ..) => three(ops::chunk(weight, 3, 0)?)?,
                (None, Some(q), Some(k), Some(v)) => [q.clone(), k.clone(), v.clone()],
                _ => bail!(Internal, "MultiheadAttention: expected projections"),
            };
        let biases = match &self.in_proj_bias {
            Some(bias) => three(ops::chunk(bias, 3, 0)?)?.map(Some),
            None => [None, None, None],
        };
        let mut parts = Vec::new();
        for ((input, weight), bias) in [query, key, value].into_iter().zip(&weights).zip(&biases) {
            self.check("keys and values", input, weight.size(1)?)?;
            parts.push(self.by_head(&ops::linear(input, weight, bias.as_ref())?)?);
        }
        three(parts)
    }

    fn check(&self, what: &str, tensor: &Tensor, width: i64) -> Result<()> {
        ensure!(
            tensor.dim() == 3 && tensor.size(2)? == width,
            Shape,
            "MultiheadAttention: expected {what} of sizes [batch, length, {width}] but got {:?}",
            tensor.sizes()
        );
        Ok(())
    }

    /// `[batch, length, width]` as `[batch, heads, length, width / heads]`.
    fn by_head(&self, tensor: &Tensor) -> Result<Tensor> {
        let sizes = [tensor.size(0)?, tensor.size(1)?, self.heads, self.width / self.heads];
        ops::transpose_int(&ops::view(tensor, &sizes)?, 1, 2)
    }

    fn options(&self, q: &Tensor, source: i64, masks: &Masks) -> Result<Attention> {
        let dropout = if self.training.is_training() { self.dropout } else { 0.0 };
        let (batch, heads, length) = (q.size(0)?, self.heads, q.size(2)?);
        let mut mask: Option<Tensor> = None;
        if let Some(given) = &masks.attention {
            let sizes =
                if given.dim() == 3 { [batch, heads, length, source] } else { [1, 1, length, source] };
            mask = Some(ops::reshape(&additive(given, q)?, &sizes)?);
        }
        if let Some(given) = &masks.key_padding {
            let padding = ops::reshape(&additive(given, q)?, &[batch, 1, 1, source])?;
            mask = Some(if let Some(mask) = mask { (mask + padding)? } else { padding });
        }
        if let (Some(given), true) = (&mask, masks.causal) {
            let later = Tensor::full(&[length, source], f64::NEG_INFINITY, q.dtype())?;
            mask = Some((given + ops::triu(&later, 1)?)?);
        }
        let is_causal = masks.causal && mask.is_none();
        Ok(Attention { mask, dropout_p: dropout, is_causal, ..Attention::default() })
    }
}

impl Forward for MultiheadAttention {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.attend(input, input, input, &Masks::default().causal(self.causal))
    }
}

/// The weight of a projection, if there is to be one.
fn weight_if(present: bool, sizes: &[i64]) -> Result<Option<Tensor>> {
    let weight = parameter_if(present, sizes)?;
    weight.as_ref().map_or(Ok(()), |weight| init::xavier_uniform_(weight, 1.0))?;
    Ok(weight)
}

/// A mask to add to scores: minus infinity where one of bool is true.
fn additive(mask: &Tensor, scores: &Tensor) -> Result<Tensor> {
    if mask.dtype() != flambeau_core::ScalarType::Bool {
        return Ok(mask.clone());
    }
    let zeros = Tensor::zeros(mask.sizes(), (scores.dtype(), scores.device()))?;
    ops::masked_fill_scalar(&zeros, mask, f64::NEG_INFINITY.into())
}

fn three(parts: Vec<Tensor>) -> Result<[Tensor; 3]> {
    let count = parts.len();
    let Ok(parts) = parts.try_into() else { bail!(Internal, "expected 3 parts but got {count}") };
    Ok(parts)
}
