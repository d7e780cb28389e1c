//! A small GPT, trained on the host and on the device from the same weights.

use super::{DEVICE, is_quick};
use flambeau::core::Generator;
use flambeau::nn::functional::{self, Approximate, CrossEntropy};
use flambeau::nn::optim::{AdamOptions, AdamW, ClipGradNorm, clip_grad_norm_};
use flambeau::nn::{Embedding, LayerNorm, Linear, MultiheadAttention};
use flambeau::prelude::*;
use std::time::Instant;

const ALPHABET: i64 = 65;
const HEADS: i64 = 4;

/// How large the model and a step are.
#[derive(Clone, Copy)]
struct Size {
    width: i64,
    blocks: usize,
    context: i64,
    batch: i64,
    steps: u64,
    learning_rate: f64,
}

const FULL: Size = Size { width: 128, blocks: 4, context: 64, batch: 16, steps: 30, learning_rate: 1e-3 };
const QUICK: Size = Size { width: 32, blocks: 2, context: 16, batch: 4, steps: 10, learning_rate: 1e-2 };

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attention: MultiheadAttention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(width: i64) -> Result<Self> {
        Ok(Block {
            norm1: LayerNorm::new(&[width])?,
            attention: MultiheadAttention::new(width, HEADS)?.causal(true),
            norm2: LayerNorm::new(&[width])?,
            up: Linear::new(width, 4 * width)?,
            down: Linear::new(4 * width, width)?,
        })
    }
}

impl Forward for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.add(&self.attention.forward(&self.norm1.forward(x)?)?)?;
        let hidden = functional::gelu(&self.up.forward(&self.norm2.forward(&x)?)?, Approximate::None)?;
        x.add(&self.down.forward(&hidden)?)
    }
}

#[derive(Module)]
struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(size: Size) -> Result<Self> {
        let width = size.width;
        Ok(Gpt {
            tokens: Embedding::new(ALPHABET, width)?,
            positions: Embedding::new(size.context, width)?,
            blocks: (0..size.blocks).map(|_| Block::new(width)).collect::<Result<_>>()?,
            norm: LayerNorm::new(&[width])?,
            head: Linear::without_bias(width, ALPHABET)?,
        })
    }

    fn loss(&self, text: &Tensor, next: &Tensor, positions: &Tensor) -> Result<Tensor> {
        let mut x = self.tokens.forward(text)?.add(&self.positions.forward(positions)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let logits = self.head.forward(&self.norm.forward(&x)?)?;
        functional::cross_entropy(
            &logits.reshape(&[-1, ALPHABET])?,
            &next.reshape(&[-1])?,
            CrossEntropy::default(),
        )
    }
}

/// Text with a rule: each character follows from the one before, with some noise.
fn text(step: u64, size: Size) -> Result<(Tensor, Tensor)> {
    let (batch, context) = (size.batch, size.context);
    let words = Generator::new(100 + step).reserve_words(batch * (context + 1), 1)?;
    let mut all = Vec::new();
    for row in 0..batch {
        let mut character = i64::from(words.word(row as u64) % 65);
        for i in 0..=context {
            all.push(character);
            let word = words.word((row * (context + 1) + i) as u64);
            character = if word.is_multiple_of(10) {
                i64::from(word / 16 % 65)
            } else {
                (character * 7 + 3) % ALPHABET
            };
        }
    }
    let both = Tensor::from_vec(all, &[batch, context + 1])?;
    let part = |from, to| both.slice(1, from, to)?.contiguous();
    Ok((part(0, context)?, part(1, context + 1)?))
}

/// The losses of the steps, and the seconds of the steps after the first.
fn train(device: Device, size: Size) -> Result<(Vec<f64>, f64)> {
    flambeau::manual_seed(3);
    let mut model = Gpt::new(size)?;
    model.to_device(device)?;
    let options = AdamOptions::default().lr(size.learning_rate).weight_decay(0.1);
    let mut optimizer = AdamW::new(model.parameters(), options)?;
    let positions = Tensor::from_vec((0..size.context).collect::<Vec<i64>>(), &[size.context])?.to(device)?;
    let mut losses = Vec::new();
    let mut start = Instant::now();
    for step in 0..size.steps {
        let (input, next) = text(step, size)?;
        let loss = model.loss(&input.to(device)?, &next.to(device)?, &positions)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        clip_grad_norm_(&model.parameters(), 1.0, ClipGradNorm::default())?;
        optimizer.step()?;
        losses.push(f64::from(loss.item::<f32>()?));
        if step == 0 {
            start = Instant::now();
        }
    }
    Ok((losses, start.elapsed().as_secs_f64() / (size.steps - 1) as f64))
}

/// The losses of both, and those of the device again.
pub(super) fn small_gpt() -> Result<usize> {
    let size = if is_quick() { QUICK } else { FULL };
    let (there, seconds) = train(DEVICE, size)?;
    println!(
        "a step on the device takes {:.2} ms; losses {:.4} .. {:.4}",
        seconds * 1e3,
        there[0],
        there[there.len() - 1]
    );
    let (again, _) = train(DEVICE, size)?;
    let (here, seconds) = train(Device::CPU, size)?;
    println!(
        "a step on the host takes {:.2} ms; losses {:.4} .. {:.4}",
        seconds * 1e3,
        here[0],
        here[here.len() - 1]
    );
    let differences: Vec<f64> = here.iter().zip(&there).map(|(a, b)| (a - b).abs()).collect();
    let bits = there.iter().fold(0u64, |all, loss| all.rotate_left(7) ^ loss.to_bits());
    println!("digest of {} losses: {bits:016x}", there.len());
    println!("the losses differ by at most {:.2e}", differences.iter().copied().fold(0.0, f64::max));
    let mut faults = 0;
    if again != there {
        println!("  FAULT the losses of a second run have other bits");
        faults += 1;
    }
    // Rounding errors of the two differ, and grow with the steps.
    if !differences.iter().all(|difference| *difference < 1e-5) {
        println!("  FAULT the losses differ: {here:?} on the host, {there:?} on the device");
        faults += 1;
    }
    let falls = there[there.len() - 1] < there[0] - 0.5;
    if !falls {
        println!("  FAULT the loss does not fall: {there:?}");
        faults += 1;
    }
    Ok(faults)
}
