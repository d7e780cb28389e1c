//! The model: a GPT-2 in small, pre-norm, with learned positions and an untied head.

use super::args::Args;
use flambeau::nn::functional::{self, Approximate, CrossEntropy};
use flambeau::nn::{Dropout, Embedding, Forward, LayerNorm, Linear, Module, MultiheadAttention, init};
use flambeau::{Result, Tensor, no_grad};

/// One transformer block.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attention: MultiheadAttention,
    norm2: LayerNorm,
    widen: Linear,
    narrow: Linear,
    dropout: Dropout,
}

impl Block {
    fn new(args: &Args) -> Result<Self> {
        let width = args.width as i64;
        Ok(Block {
            norm1: LayerNorm::new(&[width])?,
            attention: MultiheadAttention::new(width, args.heads as i64)?.causal(true),
            norm2: LayerNorm::new(&[width])?,
            widen: Linear::new(width, 4 * width)?,
            narrow: Linear::new(4 * width, width)?,
            dropout: Dropout::new(args.dropout)?,
        })
    }
}

impl Forward for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let looked = self.attention.forward(&self.norm1.forward(x)?)?;
        let x = x.add(&self.dropout.forward(&looked)?)?;
        let wide = functional::gelu(&self.widen.forward(&self.norm2.forward(&x)?)?, Approximate::None)?;
        let thought = self.narrow.forward(&wide)?;
        x.add(&self.dropout.forward(&thought)?)
    }
}

/// Characters in, the likelihood of the next character out.
#[derive(Module)]
pub(crate) struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    dropout: Dropout,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    #[module(skip)]
    context: i64,
}

impl Gpt {
    /// A model for an alphabet of so many characters.
    ///
    /// # Errors
    /// `InvalidArgument` for sizes that do not fit together.
    pub(crate) fn new(args: &Args, alphabet: usize) -> Result<Self> {
        let width = args.width as i64;
        Ok(Gpt {
            tokens: table(alphabet as i64, width)?,
            positions: table(args.context as i64, width)?,
            dropout: Dropout::new(args.dropout)?,
            blocks: (0..args.layers).map(|_| Block::new(args)).collect::<Result<_>>()?,
            norm: LayerNorm::new(&[width])?,
            head: Linear::without_bias(width, alphabet as i64)?,
            context: args.context as i64,
        })
    }

    /// The mean negative log likelihood of `next` after `text`, both `[batch, length]`, in nats a character.
    ///
    /// # Errors
    /// Those of the operators.
    pub(crate) fn loss(&self, text: &Tensor, next: &Tensor) -> Result<Tensor> {
        let logits = self.forward(text)?;
        let flat = logits.reshape(&[-1, logits.size(-1)?])?;
        functional::cross_entropy(&flat, &next.reshape(&[-1])?, CrossEntropy::default())
    }

    /// The likelihoods of the character after `text`.
    ///
    /// # Errors
    /// Those of the operators.
    pub(crate) fn next(&self, text: &[i64]) -> Result<Tensor> {
        let _unrecorded = no_grad();
        let seen = &text[text.len().saturating_sub(self.context as usize)..];
        let input = Tensor::from_vec(seen.to_vec(), &[1, seen.len() as i64])?;
        let logits = self.forward(&input)?.i((0, -1))?;
        functional::softmax(&logits, -1)
    }
}

/// The standard deviation that vectors begin with, as in GPT-2.
const FIRST_STD: f64 = 0.02;

fn table(count: i64, width: i64) -> Result<Embedding> {
    let table = Embedding::new(count, width)?;
    init::normal_(&table.weight, 0.0, FIRST_STD)?;
    Ok(table)
}

impl Forward for Gpt {
    /// `[batch, length]` of character numbers to `[batch, length, alphabet]` of logits.
    fn forward(&self, text: &Tensor) -> Result<Tensor> {
        let length = text.size(-1)?;
        let indices = Tensor::from_vec((0..length).collect::<Vec<i64>>(), &[length])?;
        let embedded = self.tokens.forward(text)?.add(&self.positions.forward(&indices)?)?;
        let mut x = self.dropout.forward(&embedded)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}
