//! A small GPT, trained on the host and on the device from the same weights.

use super::DEVICE;
use flambeau::core::Generator;
use flambeau::nn::functional::{self, Approximate, CrossEntropy};
use flambeau::nn::optim::{AdamOptions, AdamW, ClipGradNorm, clip_grad_norm_};
use flambeau::nn::{Embedding, LayerNorm, Linear, MultiheadAttention};
use flambeau::prelude::*;
use std::time::Instant;

const WIDTH: i64 = 128;
const HEADS: i64 = 4;
const CONTEXT: i64 = 64;
const ALPHABET: i64 = 65;
const BATCH: i64 = 16;
const STEPS: u64 = 30;

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attention: MultiheadAttention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new() -> Result<Self> {
        Ok(Block {
            norm1: LayerNorm::new(&[WIDTH])?,
            attention: MultiheadAttention::new(WIDTH, HEADS)?.causal(true),
            norm2: LayerNorm::new(&[WIDTH])?,
            up: Linear::new(WIDTH, 4 * WIDTH)?,
            down: Linear::new(4 * WIDTH, WIDTH)?,
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
    fn new() -> Result<Self> {
        Ok(Gpt {
            tokens: Embedding::new(ALPHABET, WIDTH)?,
            positions: Embedding::new(CONTEXT, WIDTH)?,
            blocks: (0..4).map(|_| Block::new()).collect::<Result<_>>()?,
            norm: LayerNorm::new(&[WIDTH])?,
            head: Linear::without_bias(WIDTH, ALPHABET)?,
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
fn text(step: u64) -> Result<(Tensor, Tensor)> {
    let words = Generator::new(100 + step).reserve_words(BATCH * (CONTEXT + 1), 1)?;
    let mut all = Vec::new();
    for row in 0..BATCH {
        let mut character = i64::from(words.word(row as u64) % 65);
        for i in 0..=CONTEXT {
            all.push(character);
            let word = words.word((row * (CONTEXT + 1) + i) as u64);
            character = if word.is_multiple_of(10) {
                i64::from(word / 16 % 65)
            } else {
                (character * 7 + 3) % ALPHABET
            };
        }
    }
    let both = Tensor::from_vec(all, &[BATCH, CONTEXT + 1])?;
    let part = |from, to| both.slice(1, from, to)?.contiguous();
    Ok((part(0, CONTEXT)?, part(1, CONTEXT + 1)?))
}

/// The losses of the steps, and the seconds of the steps after the first.
fn train(device: Device) -> Result<(Vec<f64>, f64)> {
    flambeau::manual_seed(3);
    let mut model = Gpt::new()?;
    model.to_device(device)?;
    let options = AdamOptions::default().lr(1e-3).weight_decay(0.1);
    let mut optimizer = AdamW::new(model.parameters(), options)?;
    let positions = Tensor::from_vec((0..CONTEXT).collect::<Vec<i64>>(), &[CONTEXT])?.to(device)?;
    let mut losses = Vec::new();
    let mut start = Instant::now();
    for step in 0..STEPS {
        let (input, next) = text(step)?;
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
    Ok((losses, start.elapsed().as_secs_f64() / (STEPS - 1) as f64))
}

/// The losses of both, and those of the device again.
pub(super) fn small_gpt() -> Result<usize> {
    let (there, seconds) = train(DEVICE)?;
    println!(
        "a step on the device takes {:.2} ms; losses {:.4} .. {:.4}",
        seconds * 1e3,
        there[0],
        there[there.len() - 1]
    );
    let (again, _) = train(DEVICE)?;
    let (here, seconds) = train(Device::CPU)?;
    println!(
        "a step on the host takes {:.2} ms; losses {:.4} .. {:.4}",
        seconds * 1e3,
        here[0],
        here[here.len() - 1]
    );
    let differences: Vec<f64> = here.iter().zip(&there).map(|(a, b)| (a - b).abs()).collect();
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
