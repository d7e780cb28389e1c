//! A small GPT and a narrow ResNet-18, trained on the host and on the device from the same weights.

use super::{DEVICE, is_quick};
use flambeau::MemoryFormat;
use flambeau::core::Generator;
use flambeau::nn::functional::{self, Approximate, ConvOptions, CrossEntropy, MaxPoolOptions};
use flambeau::nn::optim::{AdamOptions, AdamW, ClipGradNorm, Sgd, SgdOptions, clip_grad_norm_};
use flambeau::nn::{BatchNorm2d, Conv2d, Embedding, LayerNorm, Linear, MultiheadAttention};
use flambeau::prelude::*;
use std::ops::Range;
use std::time::Instant;

const ALPHABET: i64 = 65;
const HEADS: i64 = 4;

/// Whether only the digest of the losses matters, which has to be the same in every order of work.
fn is_digest_enough() -> bool {
    std::env::var("FLAMBEAU_CHECK_DIGESTS").is_ok_and(|value| value == "1")
}

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
const QUICK: Size = Size { width: 32, blocks: 2, context: 16, batch: 4, steps: 30, learning_rate: 1e-2 };

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

/// How often the host has waited for the device within steps, which is to be never.
#[derive(Default)]
struct Waits {
    steps: usize,
    count: u64,
}

impl Waits {
    /// Runs a step, and counts its waits.
    fn within<R>(&mut self, step: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = flambeau_cuda::waits();
        let result = step();
        self.steps += 1;
        self.count += flambeau_cuda::waits() - before;
        result
    }

    /// Prints them; returns whether there are any.
    fn faults(&self) -> usize {
        let word = if self.count == 0 { "" } else { "  FAULT " };
        println!("{word}{} waits within {} steps", self.count, self.steps);
        usize::from(self.count > 0)
    }
}

/// Two hundred steps of a small model: each has as much memory in use as the one before.
pub(super) fn steady() -> Result<usize> {
    flambeau::manual_seed(5);
    let mut model = Linear::new(8, 8)?;
    model.to_device(DEVICE)?;
    let mut optimizer = AdamW::new(model.parameters(), AdamOptions::default())?;
    let x = Tensor::ones(&[4, 8], DEVICE)?;
    let (mut live, mut waits) = (Vec::new(), Waits::default());
    for _ in 0..200 {
        waits.within(|| {
            let loss = model.forward(&x)?.tanh()?.mul(&x)?.sum()?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()
        })?;
        live.push(flambeau_cuda::memory_stats(0)?.live_bytes);
    }
    let grows = live[2..].iter().any(|bytes| *bytes != live[2]);
    if grows {
        println!("  FAULT memory changes from step to step: {live:?}");
    }
    println!("200 steps with {} bytes in use", live[2]);
    Ok(usize::from(grows) + waits.faults())
}

/// A training: the loss of each step, the seconds of a step after the first, and waits within steps.
struct Trained {
    losses: Vec<f64>,
    seconds: f64,
    waits: Waits,
}

/// A GPT in training on a device.
struct Training {
    device: Device,
    size: Size,
    model: Gpt,
    optimizer: AdamW,
    positions: Tensor,
}

impl Training {
    fn new(device: Device, size: Size) -> Result<Self> {
        flambeau::manual_seed(3);
        let mut model = Gpt::new(size)?;
        model.to_device(device)?;
        let options = AdamOptions::default().lr(size.learning_rate).weight_decay(0.1);
        let optimizer = AdamW::new(model.parameters(), options)?;
        let positions =
            Tensor::from_vec((0..size.context).collect::<Vec<i64>>(), &[size.context])?.to(device)?;
        Ok(Training { device, size, model, optimizer, positions })
    }

    /// One step; the loss stays on the device.
    fn step(&mut self, input: &Tensor, next: &Tensor) -> Result<Tensor> {
        let loss = self.model.loss(&input.to(self.device)?, &next.to(self.device)?, &self.positions)?;
        self.optimizer.zero_grad()?;
        loss.backward()?;
        clip_grad_norm_(&self.model.parameters(), 1.0, ClipGradNorm::default())?;
        self.optimizer.step()?;
        Ok(loss)
    }

    /// The losses of some of the steps.
    fn losses(&mut self, steps: Range<u64>, waits: &mut Waits) -> Result<Vec<f64>> {
        let mut losses = Vec::new();
        for step in steps {
            let (input, next) = text(step, self.size)?;
            let loss = waits.within(|| self.step(&input, &next))?;
            losses.push(f64::from(loss.item::<f32>()?));
        }
        Ok(losses)
    }

    /// Another training that goes on from the state of this one.
    fn resumed(&self) -> Result<Self> {
        let mut other = Training::new(self.device, self.size)?;
        other.model.load_state_dict(&self.model.state_dict()?)?;
        other.optimizer.load_state_dict(&self.optimizer.state_dict()?)?;
        Ok(other)
    }
}

fn train(device: Device, size: Size) -> Result<Trained> {
    let (mut training, mut waits) = (Training::new(device, size)?, Waits::default());
    let mut losses = training.losses(0..1, &mut waits)?;
    let start = Instant::now();
    losses.extend(training.losses(1..size.steps, &mut waits)?);
    Ok(Trained { losses, seconds: start.elapsed().as_secs_f64() / (size.steps - 1) as f64, waits })
}

/// The losses of a training that is interrupted in its middle.
fn train_in_two_parts(device: Device, size: Size) -> Result<Vec<f64>> {
    let (mut first, mut waits) = (Training::new(device, size)?, Waits::default());
    let mut losses = first.losses(0..size.steps / 2, &mut waits)?;
    losses.extend(first.resumed()?.losses(size.steps / 2..size.steps, &mut waits)?);
    Ok(losses)
}

fn print_digest(name: &str, losses: &[f64]) {
    let bits = losses.iter().fold(0u64, |all, loss| all.rotate_left(7) ^ loss.to_bits());
    println!("digest of {} losses of {name}: {bits:016x}", losses.len());
}

/// The losses of a model on the host, on the device and there again, and what is said of it.
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
        print_digest(name, there);
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

/// The losses of both, and those of the device again, where the second half goes on from the state that the first half had.
pub(super) fn small_gpt() -> Result<usize> {
    let size = if is_quick() { QUICK } else { FULL };
    let Trained { losses: there, seconds, waits } = train(DEVICE, size)?;
    println!("a step of the GPT on the device takes {:.2} ms", seconds * 1e3);
    if is_digest_enough() {
        print_digest("the GPT", &there);
        return Ok(waits.faults());
    }
    let again = train_in_two_parts(DEVICE, size)?;
    let Trained { losses: here, seconds, .. } = train(Device::CPU, size)?;
    println!("a step on the host takes {:.2} ms", seconds * 1e3);
    Ok(waits.faults() + Comparison { name: "the GPT", here, there, again, fall: 0.5 }.faults())
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

/// The images and classes of a batch, drawn on the host.
fn batch(side: i64, count: i64, device: Device, dtype: ScalarType) -> Result<(Tensor, Tensor)> {
    let images = Tensor::randn(&[count, 3, side, side], dtype)?.to(device)?;
    let classes = Tensor::from_vec((0..count).collect::<Vec<i64>>(), &[count])?.to(device)?;
    Ok((images, classes))
}

/// The sides of the images that train the ResNet, the smallest whose last maps have 2 x 2 positions. With one position a batch
/// normalization of two images gives -1 and 1 whatever they are, which makes of rounding errors of f32 differences of more than 0.1 in the
/// losses.
const SIDE: i64 = 33;

/// The losses of steps of the ResNet on the same images.
fn train_images(device: Device) -> Result<(Vec<f64>, Waits)> {
    let (count, steps) = if is_quick() { (2, 10) } else { (8, 10) };
    flambeau::manual_seed(4);
    let mut model = ResNet::new()?;
    let (images, classes) = batch(SIDE, count, device, ScalarType::F32)?;
    model.to_device(device)?;
    let mut optimizer = Sgd::new(model.parameters(), SgdOptions::default().lr(0.01).momentum(0.9))?;
    let (mut losses, mut waits) = (Vec::new(), Waits::default());
    for _ in 0..steps {
        let loss = waits.within(|| {
            let loss = model.loss(&images, &classes)?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            Ok(loss)
        })?;
        losses.push(f64::from(loss.item::<f32>()?));
    }
    Ok((losses, waits))
}

/// The gradient of each parameter of the ResNet, in f64, on the host.
fn gradients(device: Device, format: MemoryFormat) -> Result<Vec<(String, Vec<f64>)>> {
    flambeau::manual_seed(4);
    let mut model = ResNet::new()?;
    model.to_dtype(ScalarType::F64)?;
    let (images, classes) = batch(32, 2, device, ScalarType::F64)?;
    model.to_device(device)?;
    model.loss(&ops::contiguous(&images, format)?, &classes)?.backward()?;
    let of = |(name, parameter): (String, Tensor)| {
        let gradient = parameter.grad().map(|grad| grad.to(Device::CPU)?.to_vec::<f64>()).transpose()?;
        Ok((name, gradient.unwrap_or_default()))
    };
    model.named_parameters().into_iter().map(of).collect()
}

/// The gradients of the device beside the host's, relative to the largest of each parameter.
fn compare_gradients(format: MemoryFormat) -> Result<usize> {
    let (here, there) = (gradients(Device::CPU, MemoryFormat::Contiguous)?, gradients(DEVICE, format)?);
    let (mut worst, mut faults) = (0.0f64, 0);
    for ((name, a), (_, b)) in here.iter().zip(&there) {
        let size = a.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs() / size);
        let most = differences.fold(0.0, |most: f64, x| if x.is_nan() { f64::INFINITY } else { most.max(x) });
        // Of two numbers a batch normalization amplifies rounding errors, here of f64.
        if a.is_empty() || a.len() != b.len() || most > 1e-9 {
            println!("  FAULT the gradient of {name} differs by {most:.2e}");
            faults += 1;
        }
        worst = worst.max(most);
    }
    println!("{} gradients of the ResNet, {format:?}, differ by at most {worst:.2e}", here.len());
    Ok(faults)
}

/// The ResNet on the host, and twice on the device.
pub(super) fn resnet() -> Result<usize> {
    let start = Instant::now();
    let (there, waits) = train_images(DEVICE)?;
    println!("{} steps of the ResNet on the device take {:.2} s", there.len(), start.elapsed().as_secs_f64());
    if is_digest_enough() {
        print_digest("the ResNet", &there);
        return Ok(waits.faults());
    }
    let gradients =
        compare_gradients(MemoryFormat::Contiguous)? + compare_gradients(MemoryFormat::ChannelsLast)?;
    let (again, _) = train_images(DEVICE)?;
    let (here, _) = train_images(Device::CPU)?;
    let losses = Comparison { name: "the ResNet", here, there, again, fall: 0.0 }.faults();
    Ok(gradients + waits.faults() + losses)
}
