//! The rules: operators on tensors of the layout, computed on their blocks.

use crate::{BLOCK, blocks_of, image_sizes, pad_to, padded, wrap};
use flambeau::core::{Layout, ensure};
use flambeau::dispatch::{Arguments, BoxedKernel, Call, OperatorInfo, Value};
use flambeau::layouts::register_rule;
use flambeau::{Result, Scalar, Tensor, no_grad, ops};

type Rule = fn(&Call<'_>) -> Result<Vec<Value>>;

/// Registers every rule.
pub(crate) fn register(layout: Layout) -> Result<()> {
    let rules: [(&'static dyn OperatorInfo, Rule); 6] = [
        (&ops::RELU, relu),
        (&ops::ADD_TENSOR, add),
        (&ops::CONVOLUTION, convolution),
        (&ops::MAX_POOL2D_WITH_INDICES, max_pool2d_with_indices),
        (&ops::AVG_POOL2D, avg_pool2d),
        (&ops::NATIVE_BATCH_NORM, native_batch_norm),
    ];
    for (operator, rule) in rules {
        let rule: &'static dyn BoxedKernel = Box::leak(Box::new(rule));
        register_rule(layout, operator, rule)?;
    }
    Ok(())
}

fn arguments<'c>(call: &Call<'c>) -> Result<Arguments<'c>> {
    Arguments::new(call.operator.name(), call.arguments, call.arguments.len())
}

fn relu(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = arguments(call)?.tensor()?;
    Ok(vec![wrap(ops::relu(blocks_of(x)?)?, x.size(1)?)?.into()])
}

fn add(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut list = arguments(call)?;
    let (x, y, alpha) = (list.tensor()?, list.tensor()?, list.scalar()?);
    ensure!(
        x.sizes() == y.sizes(),
        NotImplemented("add.Tensor"),
        "blocked16: expected tensors of equal sizes but got {:?} and {:?}",
        x.sizes(),
        y.sizes()
    );
    let sum = ops::add_tensor(blocks_of(x)?, blocks_of(y)?, alpha)?;
    Ok(vec![wrap(sum, x.size(1)?)?.into()])
}

/// Each block of 16 channels as images of their own in the format `ChannelsLast`, without a copy: (N * C/16) x 16 x H x W.
fn images(x: &Tensor) -> Result<Tensor> {
    let blocks = blocks_of(x)?;
    let s = blocks.sizes();
    ops::permute(&ops::reshape(blocks, &[s[0] * s[1], s[2], s[3], BLOCK])?, &[0, 3, 1, 2])
}

/// The reverse of [`images`], for as many images and channels as `like` has.
fn from_images(made: &Tensor, like: &Tensor) -> Result<Tensor> {
    let [n, c, ..] = image_sizes(like)?;
    let (h, w) = (made.size(2)?, made.size(3)?);
    let last = ops::permute(made, &[0, 2, 3, 1])?.contiguous()?;
    wrap(ops::reshape(&last, &[n, padded(c) / BLOCK, h, w, BLOCK])?, c)
}

/// The sum over blocks of input channels of convolutions of 16 channels.
fn convolution(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut list = arguments(call)?;
    let (x, weight, bias) = (list.tensor()?, list.tensor()?, list.optional_tensor()?);
    let (stride, padding, dilation) = (list.ints()?, list.ints()?, list.ints()?);
    let (transposed, output_padding, groups) = (list.bool()?, list.ints()?, list.int()?);
    ensure!(
        !transposed && groups == 1 && weight.dim() == 4,
        NotImplemented("convolution"),
        "blocked16: expected a convolution of images in one group that is not transposed"
    );
    let ([n, c, ..], filters) = (image_sizes(x)?, weight.size(0)?);
    ensure!(
        weight.size(1)? == c,
        Shape("convolution"),
        "expected {c} channels of weight but got {}",
        weight.size(1)?
    );
    let blocks = blocks_of(x)?;
    let weight = pad_to(&pad_to(weight, 0, padded(filters))?, 1, padded(c))?;
    let mut bias = bias.map(|bias| pad_to(bias, 0, padded(filters))).transpose()?;
    let mut sum: Option<Tensor> = None;
    for block in 0..padded(c) / BLOCK {
        let image = ops::permute(&ops::select_int(blocks, 1, block)?, &[0, 3, 1, 2])?;
        let part = weight.narrow(1, block * BLOCK, BLOCK)?;
        let bias = bias.take();
        let made = ops::convolution(
            &image,
            &part,
            bias.as_ref(),
            stride,
            padding,
            dilation,
            false,
            output_padding,
            1,
        )?;
        sum = Some(match sum {
            Some(sum) => ops::add_tensor(&sum, &made, Scalar::Int(1))?,
            None => made,
        });
    }
    let Some(sum) = sum else { flambeau::core::bail!(Shape("convolution"), "expected at least one channel") };
    let (h, w) = (sum.size(2)?, sum.size(3)?);
    let made = ops::reshape(&sum, &[n, padded(filters) / BLOCK, BLOCK, h, w])?;
    Ok(vec![wrap(ops::permute(&made, &[0, 1, 3, 4, 2])?.contiguous()?, filters)?.into()])
}

fn max_pool2d_with_indices(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut list = arguments(call)?;
    let x = list.tensor()?;
    let (kernel, stride, padding, dilation, ceil) =
        (list.ints()?, list.ints()?, list.ints()?, list.ints()?, list.bool()?);
    let (values, indices) =
        ops::max_pool2d_with_indices(&images(x)?, kernel, stride, padding, dilation, ceil)?;
    Ok(vec![from_images(&values, x)?.into(), from_images(&indices, x)?.into()])
}

fn avg_pool2d(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut list = arguments(call)?;
    let x = list.tensor()?;
    let (kernel, stride, padding) = (list.ints()?, list.ints()?, list.ints()?);
    let (ceil, counts_padding, divisor) = (list.bool()?, list.bool()?, list.optional_int()?);
    let made = ops::avg_pool2d(&images(x)?, kernel, stride, padding, ceil, counts_padding, divisor)?;
    Ok(vec![from_images(&made, x)?.into()])
}

/// A value of each channel in blocks, 1 x C/16 x 1 x 1 x 16, which broadcasts over the pixels.
fn by_channel(values: &Tensor, channels: i64) -> Result<Tensor> {
    ops::reshape(&pad_to(values, 0, padded(channels))?, &[1, padded(channels) / BLOCK, 1, 1, BLOCK])
}

/// The mean of each channel in blocks, like [`by_channel`].
fn mean(blocks: &Tensor) -> Result<Tensor> {
    ops::mean_dim(blocks, Some(&[0, 2, 3]), true, None)
}

/// The values of the channels of blocks.
fn channels(blocks: &Tensor, count: i64) -> Result<Tensor> {
    ops::reshape(blocks, &[blocks.numel()])?.narrow(0, 0, count)
}

/// `running = (1 - momentum) * running + momentum * new`, unrecorded.
fn update(running: Option<&Tensor>, new: &Tensor, momentum: f64) -> Result<()> {
    let Some(running) = running else { return Ok(()) };
    let _unrecorded = no_grad();
    ops::mul__scalar(running, Scalar::Float(1.0 - momentum))?;
    ops::add__tensor(running, new, Scalar::Float(momentum))
}

fn native_batch_norm(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut list = arguments(call)?;
    let x = list.tensor()?;
    let (weight, bias) = (list.optional_tensor()?, list.optional_tensor()?);
    let (running_mean, running_var) = (list.optional_tensor()?, list.optional_tensor()?);
    let (training, momentum, eps) = (list.bool()?, list.float()?, list.float()?);
    let ([n, c, h, w], blocks) = (image_sizes(x)?, blocks_of(x)?);
    let (center, variance) = match (training, running_mean, running_var) {
        (false, Some(mean), Some(var)) => (by_channel(mean, c)?, by_channel(var, c)?),
        _ => {
            let center = mean(blocks)?;
            let variance = mean(&ops::square(&ops::sub_tensor(blocks, &center, Scalar::Int(1))?)?)?;
            (center, variance)
        }
    };
    if training {
        let count = (n * h * w) as f64;
        update(running_mean, &channels(&center, c)?, momentum)?;
        let unbiased = ops::mul_scalar(&channels(&variance, c)?, Scalar::Float(count / (count - 1.0)))?;
        update(running_var, &unbiased, momentum)?;
    }
    let inverse = ops::rsqrt(&ops::add_scalar(&variance, Scalar::Float(eps), Scalar::Int(1))?)?;
    let mut made = ops::mul_tensor(&ops::sub_tensor(blocks, &center, Scalar::Int(1))?, &inverse)?;
    if let Some(weight) = weight {
        made = ops::mul_tensor(&made, &by_channel(weight, c)?)?;
    }
    if let Some(bias) = bias {
        made = ops::add_tensor(&made, &by_channel(bias, c)?, Scalar::Int(1))?;
    }
    let saved = |blocks: &Tensor| channels(blocks, c);
    Ok(vec![wrap(made, c)?.into(), saved(&center)?.into(), saved(&inverse)?.into()])
}
