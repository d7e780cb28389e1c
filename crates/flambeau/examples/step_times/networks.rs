//! The networks of the models.

use flambeau::nn::functional::{
    Approximate, Attention, ConvOptions, ConvTransposeOptions, MaxPoolOptions, gelu, max_pool2d,
    scaled_dot_product_attention,
};
use flambeau::nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, ConvTranspose2d, Embedding, Flatten, Forward, GroupNorm,
    LayerNorm, Linear, Lstm, MaxPool2d, Module, RecurrentOptions, Relu, Sequential, Silu,
};
use flambeau::{Autograd, Result, ScalarType, Tensor};

/// Two convolutions and a shortcut.
#[derive(Module)]
struct Residual {
    first: Conv2d,
    norm1: BatchNorm2d,
    second: Conv2d,
    norm2: BatchNorm2d,
    shortcut: Option<Sequential>,
}

fn convolution(inputs: i64, outputs: i64, kernel: i64, stride: i64) -> Result<Conv2d> {
    Conv2d::without_bias(inputs, outputs, kernel, ConvOptions::default().stride(stride).padding(kernel / 2))
}

impl Residual {
    fn new(inputs: i64, outputs: i64, stride: i64) -> Result<Self> {
        let changes = stride != 1 || inputs != outputs;
        let shortcut = || -> Result<Sequential> {
            Ok(Sequential::new()
                .then(convolution(inputs, outputs, 1, stride)?)
                .then(BatchNorm2d::new(outputs)?))
        };
        Ok(Residual {
            first: convolution(inputs, outputs, 3, stride)?,
            norm1: BatchNorm2d::new(outputs)?,
            second: convolution(outputs, outputs, 3, 1)?,
            norm2: BatchNorm2d::new(outputs)?,
            shortcut: if changes { Some(shortcut()?) } else { None },
        })
    }
}

impl Forward for Residual {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.norm1.forward(&self.first.forward(x)?)?.relu()?;
        let y = self.norm2.forward(&self.second.forward(&y)?)?;
        let x = self.shortcut.as_ref().map_or_else(|| Ok(x.clone()), |shortcut| shortcut.forward(x))?;
        y.add(&x)?.relu()
    }
}

/// ResNet-18.
pub(crate) fn resnet18() -> Result<Sequential> {
    let mut layers = Sequential::new()
        .then(convolution(3, 64, 7, 2)?)
        .then(BatchNorm2d::new(64)?)
        .then(Relu)
        .then(MaxPool2d::with_options(3, MaxPoolOptions::default().stride(2).padding(1))?);
    let mut inputs = 64;
    for (outputs, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        layers.push(Residual::new(inputs, outputs, stride)?);
        layers.push(Residual::new(outputs, outputs, 1)?);
        inputs = outputs;
    }
    Ok(layers.then(AdaptiveAvgPool2d::new(1)).then(Flatten::default()).then(Linear::new(512, 10)?))
}

/// A block of a transformer, with attention to earlier positions only if it is causal.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    widen: Linear,
    narrow: Linear,
    #[module(skip)]
    heads: i64,
    #[module(skip)]
    causal: bool,
}

impl Block {
    fn new(width: i64, heads: i64, causal: bool) -> Result<Self> {
        Ok(Block {
            norm1: LayerNorm::new(&[width])?,
            qkv: Linear::new(width, 3 * width)?,
            out: Linear::new(width, width)?,
            norm2: LayerNorm::new(&[width])?,
            widen: Linear::new(width, 4 * width)?,
            narrow: Linear::new(4 * width, width)?,
            heads,
            causal,
        })
    }
}

impl Forward for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, length, width] = [x.size(0)?, x.size(1)?, x.size(2)?];
        let qkv = self.qkv.forward(&self.norm1.forward(x)?)?;
        let qkv = qkv.view(&[batch, length, 3, self.heads, width / self.heads])?.permute(&[2, 0, 3, 1, 4])?;
        let [q, k, v] = [qkv.select(0, 0)?, qkv.select(0, 1)?, qkv.select(0, 2)?];
        let y = scaled_dot_product_attention(&q, &k, &v, Attention::default().is_causal(self.causal))?;
        let y = y.transpose(1, 2)?.reshape(&[batch, length, width])?;
        let x = x.add(&self.out.forward(&y)?)?;
        let wide = gelu(&self.widen.forward(&self.norm2.forward(&x)?)?, Approximate::None)?;
        x.add(&self.narrow.forward(&wide)?)
    }
}

fn blocks(count: usize, width: i64, heads: i64, causal: bool) -> Result<Vec<Block>> {
    (0..count).map(|_| Block::new(width, heads, causal)).collect()
}

fn through(blocks: &[Block], x: Tensor) -> Result<Tensor> {
    blocks.iter().try_fold(x, |x, block| block.forward(&x))
}

/// Patches of 8 by 8, six blocks of width 192.
#[derive(Module)]
pub(crate) struct VisionTransformer {
    patches: Conv2d,
    positions: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl VisionTransformer {
    pub(crate) fn new() -> Result<Self> {
        let positions = Tensor::zeros(&[1, 64, 192], ScalarType::F32)?;
        positions.requires_grad_(true)?;
        Ok(VisionTransformer {
            patches: Conv2d::with_options(3, 192, 8, ConvOptions::default().stride(8))?,
            positions,
            blocks: blocks(6, 192, 3, false)?,
            norm: LayerNorm::new(&[192])?,
            head: Linear::new(192, 10)?,
        })
    }
}

impl Forward for VisionTransformer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let patches = self.patches.forward(x)?;
        let x = patches.reshape(&[x.size(0)?, 192, -1])?.transpose(1, 2)?.add(&self.positions)?;
        let x = through(&self.blocks, x)?.mean_dim(1)?;
        self.head.forward(&self.norm.forward(&x)?)
    }
}

/// Four causal blocks of width 128.
#[derive(Module)]
pub(crate) struct Language {
    words: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Language {
    pub(crate) fn new() -> Result<Self> {
        Ok(Language {
            words: Embedding::new(96, 128)?,
            positions: Embedding::new(128, 128)?,
            blocks: blocks(4, 128, 4, true)?,
            norm: LayerNorm::new(&[128])?,
            head: Linear::without_bias(128, 96)?,
        })
    }
}

impl Forward for Language {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let positions = Tensor::arange(x.size(1)?, ScalarType::I64)?;
        let x = self.words.forward(x)?.add(&self.positions.forward(&positions)?)?;
        self.head.forward(&self.norm.forward(&through(&self.blocks, x)?)?)
    }
}

/// Two layers of LSTM, of which the last output is classified.
#[derive(Module)]
pub(crate) struct Series {
    lstm: Lstm,
    head: Linear,
}

impl Series {
    pub(crate) fn new() -> Result<Self> {
        let lstm = Lstm::with_options(32, 128, RecurrentOptions::default().num_layers(2))?;
        Ok(Series { lstm, head: Linear::new(128, 10)? })
    }
}

impl Forward for Series {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.lstm.forward(x)?.0.select(1, -1)?)
    }
}

/// Two convolutions with group norms.
fn convolved(inputs: i64, outputs: i64) -> Result<Sequential> {
    let mut parts = Sequential::new();
    for count in [inputs, outputs] {
        parts.push(Conv2d::with_options(count, outputs, 3, ConvOptions::default().padding(1))?);
        parts.push(GroupNorm::new(4, outputs)?);
        parts.push(Silu);
    }
    Ok(parts)
}

/// Three levels, joined by concatenations.
#[derive(Module)]
pub(crate) struct UNet {
    down: Vec<Sequential>,
    up: Vec<ConvTranspose2d>,
    joined: Vec<Sequential>,
    head: Conv2d,
}

impl UNet {
    pub(crate) fn new() -> Result<Self> {
        let up = |inputs, outputs| {
            ConvTranspose2d::with_options(inputs, outputs, 2, ConvTransposeOptions::default().stride(2))
        };
        Ok(UNet {
            down: vec![convolved(3, 16)?, convolved(16, 32)?, convolved(32, 64)?],
            up: vec![up(64, 32)?, up(32, 16)?],
            joined: vec![convolved(64, 32)?, convolved(32, 16)?],
            head: Conv2d::new(16, 2, 1)?,
        })
    }
}

impl Forward for UNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let half = |x: &Tensor| max_pool2d(x, 2, MaxPoolOptions::default());
        let a = self.down[0].forward(x)?;
        let b = self.down[1].forward(&half(&a)?)?;
        let x = self.down[2].forward(&half(&b)?)?;
        let x = self.joined[0].forward(&Tensor::cat(&[self.up[0].forward(&x)?, b], 1)?)?;
        self.head.forward(&self.joined[1].forward(&Tensor::cat(&[self.up[1].forward(&x)?, a], 1)?)?)
    }
}

/// A variational autoencoder of images of 28 by 28.
#[derive(Module)]
pub(crate) struct Autoencoder {
    encoder: Linear,
    mean: Linear,
    log_variance: Linear,
    decoder: Linear,
    images: Linear,
}

impl Autoencoder {
    pub(crate) fn new() -> Result<Self> {
        Ok(Autoencoder {
            encoder: Linear::new(784, 400)?,
            mean: Linear::new(400, 20)?,
            log_variance: Linear::new(400, 20)?,
            decoder: Linear::new(20, 400)?,
            images: Linear::new(400, 784)?,
        })
    }

    /// The decoded image, and the means and the logarithms of the variances of its code.
    pub(crate) fn decoded(&self, x: &Tensor) -> Result<[Tensor; 3]> {
        let hidden = self.encoder.forward(x)?.relu()?;
        let (mean, log_variance) = (self.mean.forward(&hidden)?, self.log_variance.forward(&hidden)?);
        let noise = Tensor::randn(mean.sizes(), ScalarType::F32)?;
        let code = mean.add(&noise.mul(&log_variance.mul_scalar(0.5)?.exp()?)?)?;
        Ok([self.images.forward(&self.decoder.forward(&code)?.relu()?)?, mean, log_variance])
    }
}

/// Two graph convolutions: sums over neighbours, scaled by their degrees.
#[derive(Module)]
pub(crate) struct GraphConvolutions {
    first: Linear,
    second: Linear,
}

impl GraphConvolutions {
    pub(crate) fn new() -> Result<Self> {
        Ok(GraphConvolutions { first: Linear::new(64, 64)?, second: Linear::new(64, 7)? })
    }

    /// The scores of the nodes, from their features, the two ends of each edge, and the weights of edges.
    pub(crate) fn scores(&self, x: &Tensor, [from, to]: [&Tensor; 2], weights: &Tensor) -> Result<Tensor> {
        let gathered = |x: Tensor| {
            let sums = Tensor::zeros(x.sizes(), ScalarType::F32)?;
            sums.index_add(0, to, &x.index_select(0, from)?.mul(weights)?)
        };
        let x = gathered(self.first.forward(x)?)?.relu()?;
        gathered(self.second.forward(&x)?)
    }
}
