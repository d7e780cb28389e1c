//! Workloads of whole models: training steps and inference.

use super::data::{Params, fill, indices};
use super::nn::{attend, cross_entropy};
use super::{Call, Workload};
use flambeau::nn::optim::{Adam, AdamOptions, AdamW, Optimizer, Sgd, SgdOptions};
use flambeau::options::{LayerNormOptions, LinearOptions};
use flambeau::{Autograd, Result, ScalarType, Tensor, inference_mode, ops};

pub(super) fn workloads() -> Vec<Workload> {
    vec![
        Workload::new("e2e.tiny_mlp", tiny_mlp),
        Workload::new("e2e.mlp_sgd", mlp),
        Workload::new("e2e.cnn_adam", cnn),
        Workload::new("e2e.gpt_adamw", gpt),
        Workload::new("e2e.resnet18.b1", || resnet18(1)),
        Workload::new("e2e.resnet18.b8", || resnet18(8)),
    ]
}

/// A step of training; its result is the loss.
fn step(mut optimizer: impl Optimizer + 'static, loss: impl Fn() -> Result<Tensor> + 'static) -> Call {
    Box::new(move || {
        optimizer.zero_grad()?;
        let loss = loss()?;
        loss.backward()?;
        optimizer.step()?;
        Ok(loss)
    })
}

fn sgd(params: Params) -> Result<Sgd> {
    Sgd::new(params.0, SgdOptions { lr: 0.01, ..Default::default() })
}

fn linear(x: &Tensor, (weight, bias): &(Tensor, Tensor)) -> Result<Tensor> {
    Tensor::linear_with(x, weight, LinearOptions::new().bias(bias))
}

fn tiny_mlp() -> Result<Call> {
    let mut p = Params::default();
    let (first, second) = (p.linear(8, 16)?, p.linear(16, 1)?);
    let (x, y) = (fill(&[4, 8], 1)?, fill(&[4, 1], 2)?);
    let loss = move || ops::mse_loss(&linear(&linear(&x, &first)?.tanh()?, &second)?, &y, 1);
    Ok(step(sgd(p)?, loss))
}

fn mlp() -> Result<Call> {
    let mut p = Params::default();
    let layers = [p.linear(784, 512)?, p.linear(512, 256)?, p.linear(256, 10)?];
    let (x, ids) = (fill(&[128, 784], 1)?, indices(&[128], 10, 2)?);
    let loss = move || {
        let h = linear(&x, &layers[0])?.relu()?;
        let h = linear(&h, &layers[1])?.relu()?;
        cross_entropy(&linear(&h, &layers[2])?, &ids)
    };
    Ok(step(sgd(p)?, loss))
}

fn cnn() -> Result<Call> {
    let mut p = Params::default();
    let first = (p.uniform(&[16, 1, 3, 3], 9f64.powf(-0.5))?, p.constant(&[16], 0.0)?);
    let second = (p.uniform(&[32, 16, 3, 3], 144f64.powf(-0.5))?, p.constant(&[32], 0.0)?);
    let last = p.linear(1568, 10)?;
    let (x, ids) = (fill(&[64, 1, 28, 28], 1)?, indices(&[64], 10, 2)?);
    let layer = |x: &Tensor, (weight, bias): &(Tensor, Tensor)| {
        let h = ops::conv2d(x, weight, Some(bias), &[1, 1], &[1, 1], &[1, 1], 1)?.relu()?;
        ops::max_pool2d(&h, &[2, 2], &[2, 2], &[0, 0], &[1, 1], false)
    };
    let loss = move || {
        let h = layer(&layer(&x, &first)?, &second)?;
        cross_entropy(&linear(&h.flatten(1, -1)?, &last)?, &ids)
    };
    Ok(step(Adam::new(p.0, AdamOptions { lr: 1e-3, ..Default::default() })?, loss))
}

const LAYERS: usize = 4;
const WIDTH: i64 = 256;
const HEADS: i64 = 4;
const CONTEXT: i64 = 128;
const BATCH: i64 = 16;
const VOCABULARY: i64 = 512;

/// One block of the transformer: two norms, the projections of attention, the two layers after it.
struct Block {
    norms: [(Tensor, Tensor); 2],
    attention: [(Tensor, Tensor); 2],
    mlp: [(Tensor, Tensor); 2],
}

impl Block {
    fn new(p: &mut Params) -> Result<Self> {
        let first = p.norm(WIDTH)?;
        let attention = [p.linear(WIDTH, 3 * WIDTH)?, p.linear(WIDTH, WIDTH)?];
        let second = p.norm(WIDTH)?;
        let mlp = [p.linear(WIDTH, 4 * WIDTH)?, p.linear(4 * WIDTH, WIDTH)?];
        Ok(Block { norms: [first, second], attention, mlp })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = linear(&norm(x, &self.norms[0])?, &self.attention[0])?;
        let heads = |x: &Tensor| x.view(&[BATCH, CONTEXT, HEADS, WIDTH / HEADS])?.transpose(1, 2);
        let parts = h.split(WIDTH, 2)?;
        let h = attend(&heads(&parts[0])?, &heads(&parts[1])?, &heads(&parts[2])?)?;
        let h = h.transpose(1, 2)?.reshape(&[BATCH, CONTEXT, WIDTH])?;
        let x = x.add(&linear(&h, &self.attention[1])?)?;
        let h = ops::gelu(&linear(&norm(&x, &self.norms[1])?, &self.mlp[0])?, "none")?;
        x.add(&linear(&h, &self.mlp[1])?)
    }
}

fn norm(x: &Tensor, (weight, bias): &(Tensor, Tensor)) -> Result<Tensor> {
    Tensor::layer_norm_with(x, &[WIDTH], LayerNormOptions::new().weight(weight).bias(bias))
}

fn gpt() -> Result<Call> {
    let mut p = Params::default();
    let tokens = p.uniform(&[VOCABULARY, WIDTH], 0.02)?;
    let positions = p.uniform(&[CONTEXT, WIDTH], 0.02)?;
    let blocks = (0..LAYERS).map(|_| Block::new(&mut p)).collect::<Result<Vec<_>>>()?;
    let last = p.norm(WIDTH)?;
    let head = p.uniform(&[VOCABULARY, WIDTH], (WIDTH as f64).powf(-0.5))?;
    let ids = indices(&[BATCH, CONTEXT], VOCABULARY as u32, 1)?;
    let targets = indices(&[BATCH * CONTEXT], VOCABULARY as u32, 2)?;
    let loss = move || {
        let mut x = Tensor::embedding(&tokens, &ids)?.add(&positions)?;
        for block in &blocks {
            x = block.forward(&x)?;
        }
        let logits = Tensor::linear(&norm(&x, &last)?, &head)?;
        cross_entropy(&logits.view(&[BATCH * CONTEXT, VOCABULARY])?, &targets)
    };
    let options = AdamOptions { lr: 3e-4, weight_decay: 0.1, ..Default::default() };
    Ok(step(AdamW::new(p.0, options)?, loss))
}

/// A convolution and the norm after it, as in inference.
struct ConvNorm {
    weight: Tensor,
    norm: (Tensor, Tensor),
    mean: Tensor,
    var: Tensor,
    stride: i64,
}

impl ConvNorm {
    fn new(p: &mut Params, inputs: i64, outputs: i64, kernel: i64, stride: i64) -> Result<Self> {
        let scale = (6.0 / (inputs * kernel * kernel) as f64).sqrt();
        let weight = p.uniform(&[outputs, inputs, kernel, kernel], scale)?;
        let norm = p.norm(outputs)?;
        let (mean, var) =
            (Tensor::zeros(&[outputs], ScalarType::F32)?, Tensor::ones(&[outputs], ScalarType::F32)?);
        Ok(ConvNorm { weight, norm, mean, var, stride })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let padding = self.weight.sizes()[2] / 2;
        let x = ops::conv2d(x, &self.weight, None, &[self.stride; 2], &[padding; 2], &[1, 1], 1)?;
        let (scale, shift) = (Some(&self.norm.0), Some(&self.norm.1));
        ops::batch_norm(&x, scale, shift, Some(&self.mean), Some(&self.var), false, 0.1, 1e-5, true)
    }
}

/// Two convolutions, and the shortcut around them.
struct Residual {
    first: ConvNorm,
    second: ConvNorm,
    skip: Option<ConvNorm>,
}

impl Residual {
    fn new(p: &mut Params, inputs: i64, outputs: i64, stride: i64) -> Result<Self> {
        let first = ConvNorm::new(p, inputs, outputs, 3, stride)?;
        let second = ConvNorm::new(p, outputs, outputs, 3, 1)?;
        let skip = if stride == 2 { Some(ConvNorm::new(p, inputs, outputs, 1, stride)?) } else { None };
        Ok(Residual { first, second, skip })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.second.forward(&self.first.forward(x)?.relu()?)?;
        let around = self.skip.as_ref().map_or_else(|| Ok(x.clone()), |skip| skip.forward(x))?;
        h.add(&around)?.relu()
    }
}

fn resnet18(batch: i64) -> Result<Call> {
    let mut p = Params::default();
    let stem = ConvNorm::new(&mut p, 3, 64, 7, 2)?;
    let widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)];
    let more = [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)];
    let blocks = widths.into_iter().chain(more);
    let blocks = blocks
        .map(|(inputs, outputs, stride)| Residual::new(&mut p, inputs, outputs, stride))
        .collect::<Result<Vec<_>>>()?;
    let last = p.linear(512, 1000)?;
    let x = fill(&[batch, 3, 224, 224], 1)?;
    Ok(Box::new(move || {
        let _inference = inference_mode();
        let h = stem.forward(&x)?.relu()?;
        let mut h = ops::max_pool2d(&h, &[3, 3], &[2, 2], &[1, 1], &[1, 1], false)?;
        for block in &blocks {
            h = block.forward(&h)?;
        }
        linear(&h.mean_dim([2, 3])?, &last)
    }))
}
