//! Transformers: Vaswani et al., "Attention is all you need", 2017.

use super::{Dropout, LayerNorm, Linear, Masks, MultiheadAttention, MultiheadAttentionOptions, NormOptions};
use crate::functional::{self, Approximate};
use crate::{Forward, Module};
use flambeau_core::Result;
use flambeau_ops::Tensor;

/// What stands between the two linear layers of a transformer layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedForwardActivation {
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// `x Φ(x)`.
    Gelu,
}

options! {
    /// Options of transformer layers.
    TransformerOptions {
        /// The width between the two linear layers.
        dim_feedforward: i64 = 2048,
        /// The probability of dropout.
        dropout: f64 = 0.1,
        /// What stands between the two linear layers.
        activation: FeedForwardActivation = FeedForwardActivation::Relu,
        /// Added to variances of the norms.
        layer_norm_eps: f64 = 1e-5,
        /// Whether a norm stands before each part, and not after its sum.
        norm_first: bool = false,
        /// Whether linear layers and norms add a bias.
        bias: bool = true,
    }
}

impl TransformerOptions {
    fn attention(&self, width: i64, heads: i64) -> Result<MultiheadAttention> {
        let options = MultiheadAttentionOptions::default().dropout(self.dropout).bias(self.bias);
        MultiheadAttention::with_options(width, heads, options)
    }

    fn norm(&self, width: i64) -> Result<LayerNorm> {
        let options = NormOptions::default().eps(self.layer_norm_eps).bias(self.bias);
        LayerNorm::with_options(&[width], options)
    }

    fn activate(&self, x: &Tensor) -> Result<Tensor> {
        match self.activation {
            FeedForwardActivation::Relu => functional::relu(x),
            FeedForwardActivation::Gelu => functional::gelu(x, Approximate::None),
        }
    }

    /// The residual connection around a part, with the norm before the part or after the sum.
    fn around(
        &self,
        norm: &LayerNorm,
        x: &Tensor,
        part: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self.norm_first {
            true => x + part(&norm.forward(x)?)?,
            false => norm.forward(&(x + part(x)?)?),
        }
    }
}

/// Attention of a sequence to itself, then a small network: `[batch, length, width]` to the same.
///
/// ```
/// use flambeau_nn::{Forward, Module, TransformerEncoderLayer};
/// use flambeau_ops::Tensor;
/// let layer = TransformerEncoderLayer::new(8, 2)?;
/// layer.requires_grad_(false)?;
/// assert_eq!(layer.forward(&Tensor::ones(&[3, 5, 8], ())?)?.sizes(), &[3, 5, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}

impl TransformerEncoderLayer {
    /// So many heads, each of `width / heads`.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is a head and `heads` divides `width`.
    pub fn new(width: i64, heads: i64) -> Result<Self> {
        Self::with_options(width, heads, TransformerOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and `InvalidArgument` for options out of range.
    pub fn with_options(width: i64, heads: i64, options: TransformerOptions) -> Result<Self> {
        let (inner, bias) = (options.dim_feedforward, options.bias);
        Ok(TransformerEncoderLayer {
            self_attn: options.attention(width, heads)?,
            linear1: Linear::with_bias(width, inner, bias)?,
            dropout: Dropout::new(options.dropout)?,
            linear2: Linear::with_bias(inner, width, bias)?,
            norm1: options.norm(width)?,
            norm2: options.norm(width)?,
            dropout1: Dropout::new(options.dropout)?,
            dropout2: Dropout::new(options.dropout)?,
            options,
        })
    }

    /// The same for an input of which some positions are left out.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn forward_masked(&self, input: &Tensor, masks: &Masks) -> Result<Tensor> {
        let attend = |x: &Tensor| self.dropout1.forward(&self.self_attn.attend(x, x, x, masks)?);
        let x = self.options.around(&self.norm1, input, attend)?;
        self.options.around(&self.norm2, &x, |x| self.feed_forward(x))
    }

    fn feed_forward(&self, x: &Tensor) -> Result<Tensor> {
        let inner = self.dropout.forward(&self.options.activate(&self.linear1.forward(x)?)?)?;
        self.dropout2.forward(&self.linear2.forward(&inner)?)
    }
}

impl Forward for TransformerEncoderLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, &Masks::default())
    }
}

/// Attention of a sequence to itself, then to another one, then a small network.
///
/// ```
/// use flambeau_nn::{Masks, Module, TransformerDecoderLayer};
/// use flambeau_ops::Tensor;
/// let layer = TransformerDecoderLayer::new(8, 2)?;
/// layer.requires_grad_(false)?;
/// let (x, memory) = (Tensor::ones(&[3, 5, 8], ())?, Tensor::ones(&[3, 7, 8], ())?);
/// let y = layer.forward(&x, &memory, &Masks::default().causal(true), &Masks::default())?;
/// assert_eq!(y.sizes(), &[3, 5, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}

impl TransformerDecoderLayer {
    /// So many heads, each of `width / heads`.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is a head and `heads` divides `width`.
    pub fn new(width: i64, heads: i64) -> Result<Self> {
        Self::with_options(width, heads, TransformerOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and `InvalidArgument` for options out of range.
    pub fn with_options(width: i64, heads: i64, options: TransformerOptions) -> Result<Self> {
        let (inner, bias) = (options.dim_feedforward, options.bias);
        Ok(TransformerDecoderLayer {
            self_attn: options.attention(width, heads)?,
            multihead_attn: options.attention(width, heads)?,
            linear1: Linear::with_bias(width, inner, bias)?,
            dropout: Dropout::new(options.dropout)?,
            linear2: Linear::with_bias(inner, width, bias)?,
            norm1: options.norm(width)?,
            norm2: options.norm(width)?,
            norm3: options.norm(width)?,
            dropout1: Dropout::new(options.dropout)?,
            dropout2: Dropout::new(options.dropout)?,
            dropout3: Dropout::new(options.dropout)?,
            options,
        })
    }

    /// `[batch, length, width]` that attends to `memory`, `[batch, source, width]`.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn forward(&self, input: &Tensor, memory: &Tensor, own: &Masks, of_memory: &Masks) -> Result<Tensor> {
        let to_itself = |x: &Tensor| self.dropout1.forward(&self.self_attn.attend(x, x, x, own)?);
        let to_memory = |x: &Tensor| {
            let found = self.multihead_attn.attend(x, memory, memory, of_memory)?;
            self.dropout2.forward(&found)
        };
        let x = self.options.around(&self.norm1, input, to_itself)?;
        let x = self.options.around(&self.norm2, &x, to_memory)?;
        self.options.around(&self.norm3, &x, |x| self.feed_forward(x))
    }

    fn feed_forward(&self, x: &Tensor) -> Result<Tensor> {
        let inner = self.dropout.forward(&self.options.activate(&self.linear1.forward(x)?)?)?;
        self.dropout3.forward(&self.linear2.forward(&inner)?)
    }
}

/// Encoder layers, one after another, and a norm at the end if there is one.
#[derive(Debug, Module)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// What comes after them.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `[batch, length, width]` to the same, of which some positions are left out.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn forward_masked(&self, input: &Tensor, masks: &Masks) -> Result<Tensor> {
        let x = self.layers.iter().try_fold(input.clone(), |x, layer| layer.forward_masked(&x, masks))?;
        self.norm.as_ref().map_or_else(|| Ok(x.clone()), |norm| norm.forward(&x))
    }
}

impl Forward for TransformerEncoder {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, &Masks::default())
    }
}

/// Decoder layers, one after another, and a norm at the end if there is one.
#[derive(Debug, Module)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// What comes after them.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `[batch, length, width]` that attends to `memory`, `[batch, source, width]`.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn forward(&self, input: &Tensor, memory: &Tensor, own: &Masks, of_memory: &Masks) -> Result<Tensor> {
        let step = |x: Tensor, layer: &TransformerDecoderLayer| layer.forward(&x, memory, own, of_memory);
        let x = self.layers.iter().try_fold(input.clone(), step)?;
        self.norm.as_ref().map_or_else(|| Ok(x.clone()), |norm| norm.forward(&x))
    }
}
