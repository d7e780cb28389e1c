//! A small GPT and a narrow ResNet-18, trained on the host and on the device from the same weights.

use super::{DEVICE, is_quick};
use flambeau::core::Generator;
use flambeau::nn::functional::{self, Approximate, ConvOptions, CrossEntropy, MaxPoolOptions};
use flambeau::nn::optim::{AdamOptions, AdamW, ClipGradNorm, Sgd, SgdOptions, clip_grad_norm_};
use flambeau::nn::{BatchNorm2d, Conv2d, Embedding, LayerNorm, Linear, MultiheadAttention};
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

/// Prints how often the host has waited for the device since `before`, within a step.
fn print_waits(before: u64) {
    println!("{} waits within a step", flambeau_cuda::waits() - before);
}

/// Two hundred steps of a small model: each has as much memory in use as the one before.
pub(super) fn steady() -> Result<usize> {
    flambeau::manual_seed(5);
    let mut model = Linear::new(8, 8)?;
    model.to_device(DEVICE)?;
    let mut optimizer = AdamW::new(model.parameters(), AdamOptions::default())?;
    let x = Tensor::ones(&[4, 8], DEVICE)?;
    let mut live = Vec::new();
    for _ in 0..200 {
        let waits = flambeau_cuda::waits();
        let loss = model.forward(&x)?.tanh()?.mul(&x)?.sum()?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        print_waits(waits);
        drop(loss);
        live.push(flambeau_cuda::memory_stats(0)?.live_bytes);
    }
    let grows = live[2..].iter().any(|bytes| *bytes != live[2]);
    if grows {
        println!("  FAULT memory changes from step to step: {live:?}");
    }
    println!("200 steps with {} bytes in use", live[2]);
    Ok(usize::from(grows))
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
        let waits = flambeau_cuda::waits();
        let loss = model.loss(&input.to(device)?, &next.to(device)?, &positions)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        clip_grad_norm_(&model.parameters(), 1.0, ClipGradNorm::default())?;
        optimizer.step()?;
        print_waits(waits);
        losses.push(f64::from(loss.item::<f32>()?));
        if step == 0 {
            start = Instant::now();
        }
    }
    Ok((losses, start.elapsed().as_secs_f64() / (size.steps - 1) as f64))
}

/// Which devices train which model, and what is said of it.
struct Comparison {
    name: &'static str,
    here: Vec<f64>,
    there: Vec<f64>,
    again: Vec<f64>,
    /// By how much the loss falls at least.
    fall: f64,
}

impl Comparison {
    /// Prints the losses, and counts what is wrong with them.
    fn faults(&self) -> usize {
        let Comparison { name, here, there, again, fall } = self;
        let differences = here.iter().zip(there).map(|(a, b)| (a - b).abs());
        let most = differences.fold(0.0, f64::max);
        let bits = there.iter().fold(0u64, |all, loss| all.rotate_left(7) ^ loss.to_bits());
        println!("digest of {} losses of {name}: {bits:016x}", there.len());
        println!("the losses differ by at most {most:.2e}");
        let mut faults = 0;
        if again != there {
            println!("  FAULT the losses of a second run have other bits");
            faults += 1;
        }
        // Rounding errors of the two differ, and grow with the steps.
        if most.is_nan() || most >= 1e-5 {
            println!("  FAULT the losses differ: {here:?} on the host, {there:?} on the device");
            faults += 1;
        }
        let falls = there[there.len() - 1] < there[0] - fall;
        if !falls {
            println!("  FAULT the loss does not fall: {there:?}");
            faults += 1;
        }
        faults
    }
}

/// The losses of both, and those of the device again.
pub(super) fn small_gpt() -> Result<usize> {
    let size = if is_quick() { QUICK } else { FULL };
    let (there, seconds) = train(DEVICE, size)?;
    println!("a step of the GPT on the device takes {:.2} ms", seconds * 1e3);
    let (again, _) = train(DEVICE, size)?;
    let (here, seconds) = train(Device::CPU, size)?;
    println!("a step on the host takes {:.2} ms", seconds * 1e3);
    Ok(Comparison { name: "the GPT", here, there, again, fall: 0.5 }.faults())
}

/// Two convolutions with batch normalization, and what is added to their result.
#[derive(Module)]
struct Residual {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    shortcut: Option<Conv2d>,
    shortcut_norm: Option<BatchNorm2d>,
}

impl Residual {
    fn new(inputs: i64, outputs: i64, stride: i64) -> Result<Self> {
        let conv = |from, kernel, stride, padding| {
            let options = ConvOptions::default().stride(stride).padding(padding);
            Conv2d::without_bias(from, outputs, kernel, options)
        };
        let is_other_size = inputs != outputs || stride != 1;
        Ok(Residual {
            conv1: conv(inputs, 3, stride, 1)?,
            norm1: BatchNorm2d::new(outputs)?,
            conv2: conv(outputs, 3, 1, 1)?,
            norm2: BatchNorm2d::new(outputs)?,
            shortcut: is_other_size.then(|| conv(inputs, 1, stride, 0)).transpose()?,
            shortcut_norm: is_other_size.then(|| BatchNorm2d::new(outputs)).transpose()?,
        })
    }
}

impl Forward for Residual {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.norm1.forward(&self.conv1.forward(x)?)?.relu()?;
        let y = self.norm2.forward(&self.conv2.forward(&hidden)?)?;
        let beside = match (&self.shortcut, &self.shortcut_norm) {
            (Some(conv), Some(norm)) => norm.forward(&conv.forward(x)?)?,
            _ => x.clone(),
        };
        y.add(&beside)?.relu()
    }
}

/// He et al., "Deep residual learning for image recognition" (2015), with 8 to 64 channels.
#[derive(Module)]
struct ResNet {
    conv: Conv2d,
    norm: BatchNorm2d,
    blocks: Vec<Residual>,
    head: Linear,
}

const CLASSES: i64 = 10;

impl ResNet {
    fn new() -> Result<Self> {
        let widths = [
            (8, 8, 1),
            (8, 8, 1),
            (8, 16, 2),
            (16, 16, 1),
            (16, 32, 2),
            (32, 32, 1),
            (32, 64, 2),
            (64, 64, 1),
        ];
        let options = ConvOptions::default().stride(2).padding(3);
        Ok(ResNet {
            conv: Conv2d::without_bias(3, 8, 7, options)?,
            norm: BatchNorm2d::new(8)?,
            blocks: widths
                .iter()
                .map(|(from, to, stride)| Residual::new(*from, *to, *stride))
                .collect::<Result<_>>()?,
            head: Linear::new(64, CLASSES)?,
        })
    }

    fn loss(&self, images: &Tensor, classes: &Tensor) -> Result<Tensor> {
        let x = self.norm.forward(&self.conv.forward(images)?)?.relu()?;
        let mut x = functional::max_pool2d(&x, 3, MaxPoolOptions::default().stride(2).padding(1))?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let pooled = functional::adaptive_avg_pool2d(&x, 1)?.flatten(1, -1)?;
        functional::cross_entropy(&self.head.forward(&pooled)?, classes, CrossEntropy::default())
    }
}

/// The losses of steps of the ResNet on the same images.
fn train_images(device: Device) -> Result<Vec<f64>> {
    let (side, batch, steps) = if is_quick() { (16, 2, 10) } else { (32, 8, 10) };
    flambeau::manual_seed(4);
    let mut model = ResNet::new()?;
    let images = Tensor::randn(&[batch, 3, side, side], ())?.to(device)?;
    let classes = Tensor::from_vec((0..batch).collect::<Vec<i64>>(), &[batch])?.to(device)?;
    model.to_device(device)?;
    let mut optimizer = Sgd::new(model.parameters(), SgdOptions::default().lr(0.01).momentum(0.9))?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        let waits = flambeau_cuda::waits();
        let loss = model.loss(&images, &classes)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        print_waits(waits);
        losses.push(f64::from(loss.item::<f32>()?));
    }
    Ok(losses)
}

/// The ResNet on the host, and twice on the device.
pub(super) fn resnet() -> Result<usize> {
    let start = Instant::now();
    let there = train_images(DEVICE)?;
    println!("{} steps of the ResNet on the device take {:.2} s", there.len(), start.elapsed().as_secs_f64());
    let again = train_images(DEVICE)?;
    let here = train_images(Device::CPU)?;
    Ok(Comparison { name: "the ResNet", here, there, again, fall: 0.0 }.faults())
}
