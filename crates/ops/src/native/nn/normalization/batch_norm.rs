//! Batch normalization: each channel by its own mean and variance, over all other dimensions.

use super::scale_shift::{
    by_sets, contiguous, inverse_root, no_gradient, parameter, scale_and_shift, statistics_dtype,
};
use crate::loops::reduce::{computing_type, moments};
use crate::loops::row_ops::{Affine, ChannelSets, batch_norm_channels};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::{TensorSpec, ensure_takes};
use crate::tensor_iterator::DimMask;
use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, bail, ensure, shape};

const ONE: Scalar = Scalar::Int(1);

/// A vector with an element for each channel, viewed so that it broadcasts against `input`.
fn across(channels: &Tensor, input: &Tensor) -> Result<Tensor> {
    let mut sizes = vec![1; input.dim()];
    sizes[1] = channels.numel();
    ops::view(channels, &sizes)
}

/// All dimensions but that of the channels.
fn batch_dims(input: &Tensor) -> Vec<i64> {
    (0..input.dim() as i64).filter(|d| *d != 1).collect()
}

fn check(input: &Tensor, parameters: [Option<&Tensor>; 4]) -> Result<()> {
    ensure!(
        input.dim() >= 2,
        Shape("batch_norm", "input"),
        "expected an input of at least 2 dimensions but got {}",
        input.signature()
    );
    ensure!(
        input.is_floating_point(),
        NotImplemented,
        operator = "batch_norm",
        argument = "input",
        "\"batch_norm\" not implemented for '{}'",
        input.dtype()
    );
    let names = ["weight", "bias", "running_mean", "running_var"];
    for (name, parameter) in names.iter().zip(parameters) {
        let Some(parameter) = parameter else { continue };
        ensure!(
            parameter.sizes() == &input.sizes()[1..2],
            Shape,
            operator = "batch_norm",
            argument = name,
            "{name} should contain {} elements not {}",
            input.sizes()[1],
            parameter.numel()
        );
    }
    Ok(())
}

/// Refuses running statistics that training could not update, before either of them is written.
fn ensure_updatable(input: &Tensor, running: [Option<&Tensor>; 2], training: bool) -> Result<()> {
    for (name, statistics) in ["running_mean", "running_var"].into_iter().zip(running) {
        if let (true, Some(statistics)) = (training, statistics) {
            ensure_takes(statistics, statistics.sizes(), input.device())
                .map_err(|e| e.in_operator("batch_norm").with_argument(name))?;
        }
    }
    Ok(())
}

/// Batch normalization.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    // The node for the backward pass saves the running statistics, which it uses in evaluation mode only. In training they are
    // updated, and a second update would invalidate what the first node has saved: so it is given copies, which are not written
    // again.
    let saved = |statistics: Option<&Tensor>| match statistics {
        Some(statistics) if training => ops::detach(statistics).and_then(|s| ops::clone(&s, None)).map(Some),
        other => Ok(other.cloned()),
    };
    ensure_updatable(input, [running_mean, running_var], training)?;
    let (mean, var) = (saved(running_mean)?, saved(running_var)?);
    let out =
        ops::native_batch_norm(input, weight, bias, mean.as_ref(), var.as_ref(), training, momentum, eps)?.0;
    for (statistics, updated) in [(running_mean, mean), (running_var, var)] {
        if let (true, Some(statistics), Some(updated)) = (training, statistics, updated) {
            ops::copy_(&ops::detach(statistics)?, &updated, false)?;
        }
    }
    Ok(out)
}

/// Batch normalization, with the means and inverse standard deviations of the batch in training.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn native_batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "batch_norm";
    check(input, [weight, bias, running_mean, running_var])?;
    ensure_updatable(input, [running_mean, running_var], training)?;
    let kernel = computing_type(input.dtype());
    let out = TensorSpec::like(input, input.sizes()).allocate(NAME)?;
    let spec = TensorSpec::like(input, &input.sizes()[1..2]).with_dtype(kernel);
    if input.device().is_meta() {
        let spec = if training { spec } else { TensorSpec::like(input, &[0]) };
        return Ok((out, spec.allocate(NAME)?, spec.allocate(NAME)?));
    }
    let given = [parameter(weight, kernel)?, parameter(bias, kernel)?];
    let given = Affine { weight: given[0].as_ref(), bias: given[1].as_ref() };
    let mut normalized = false;
    let (mean, invstd) = if training {
        let [mean, var, invstd] = [spec.allocate(NAME)?, spec.allocate(NAME)?, spec.allocate(NAME)?];
        normalized = batch_norm_channels(input, given, [&out, &mean, &var, &invstd], eps)?;
        if !normalized {
            moments(input, &var, &mean, DimMask::new(Some(&batch_dims(input)), input.dim())?, 0.0, false)?;
        }
        let count = input.numel() as f64 / input.sizes()[1] as f64;
        if count > 0.0 {
            let updated_mean = updated(running_mean, &mean, momentum, 1.0)?;
            let updated_var = updated(running_var, &var, momentum, count / (count - 1.0))?;
            for (running, updated) in [(running_mean, updated_mean), (running_var, updated_var)] {
                if let (Some(running), Some(updated)) = (running, updated) {
                    ops::copy_(running, &updated, false)?;
                }
            }
        }
        (mean, if normalized { invstd } else { inverse_root(NAME, &var, eps)? })
    } else {
        let (Some(mean), Some(var)) = (running_mean, running_var) else {
            bail!(
                InvalidArgument(NAME, "running_mean"),
                "expected `running_mean` and `running_var` to be defined in evaluation mode"
            );
        };
        (as_dtype(mean, kernel)?, inverse_root(NAME, &as_dtype(var, kernel)?, eps)?)
    };
    if !normalized {
        let (scale, shift) = affine([&mean, &invstd], given)?;
        if !scale_and_shift_short_rows(NAME, [input, &scale, &shift, &out])? {
            scale_and_shift(NAME, [input, &across(&scale, input)?, &across(&shift, input)?, &out])?;
        }
    }
    if !training {
        return Ok((out, no_gradient(input)?, no_gradient(input)?));
    }
    let saved = statistics_dtype(input, [weight, bias]);
    Ok((out, as_dtype(&mean, saved)?, as_dtype(&invstd, saved)?))
}

/// [`scale_and_shift`] of many images whose channels have few elements, or that are few channels, into contiguous memory: by rows of
/// several images, with parameters that are repeated for them. Else does nothing and returns `false`.
fn scale_and_shift_short_rows(name: &'static str, [input, scale, shift, out]: [&Tensor; 4]) -> Result<bool> {
    /// Rows that are shorter take longer to start than to compute.
    const SHORT: i64 = 16;
    /// Elements of a row of several images.
    const ROW: i64 = 512;
    let (images, channels) = (input.sizes()[0], input.sizes()[1]);
    let area = shape::product(&input.sizes()[2..]);
    let image = channels * area;
    let is_short = (if area > 1 { area } else { channels }) <= SHORT;
    if !is_short || image == 0 || images < 4 || !out.is_contiguous() {
        return Ok(false);
    }
    let input = &ops::contiguous(input, MemoryFormat::Contiguous)?;
    let group = (ROW / image).clamp(1, images / 2);
    let repeated = |parameter: &Tensor| {
        let each = ops::expand(&ops::view(parameter, &[1, channels, 1])?, &[group, channels, area], false)?;
        ops::contiguous(&each, MemoryFormat::Contiguous)?.view(&[group * image])
    };
    let (scale, shift) = (repeated(scale)?, repeated(shift)?);
    let whole = images / group * group;
    let rows = |t: &Tensor| t.narrow(0, 0, whole)?.view(&[whole / group, group * image]);
    scale_and_shift(name, [&rows(input)?, &scale, &shift, &rows(out)?])?;
    let left = (images - whole) * image;
    if left > 0 {
        let last = |t: &Tensor| t.narrow(0, whole, images - whole)?.view(&[left]);
        let first = |t: &Tensor| t.narrow(0, 0, left);
        scale_and_shift(name, [&last(input)?, &first(&scale)?, &first(&shift)?, &last(out)?])?;
    }
    Ok(true)
}

/// `(1 - momentum) * running + momentum * statistic * factor`.
fn updated(
    running: Option<&Tensor>,
    statistic: &Tensor,
    momentum: f64,
    factor: f64,
) -> Result<Option<Tensor>> {
    let Some(running) = running else { return Ok(None) };
    let old = ops::mul_scalar(running, Scalar::Float(1.0 - momentum))?;
    let new = ops::mul_scalar(statistic, Scalar::Float(momentum * factor))?;
    ops::add_tensor(&old, &new, ONE).map(Some)
}

/// The factor and the term of each channel: `x * scale + shift`.
fn affine([mean, invstd]: [&Tensor; 2], given: Affine<'_>) -> Result<(Tensor, Tensor)> {
    let scale = match given.weight {
        Some(weight) => ops::mul_tensor(invstd, weight)?,
        None => invstd.clone(),
    };
    let off = ops::mul_tensor(mean, &scale)?;
    let shift = match given.bias {
        Some(bias) => ops::sub_tensor(bias, &off, ONE)?,
        None => ops::neg(&off)?,
    };
    Ok((scale, shift))
}

/// The derivative of [`native_batch_norm`] with respect to input, weight and bias.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn native_batch_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "native_batch_norm_backward";
    check(input, [weight, None, running_mean, running_var])?;
    let kernel = computing_type(input.dtype());
    let (mean, invstd) = match (train, save_mean, save_invstd, running_mean, running_var) {
        (true, Some(mean), Some(invstd), ..) => (as_dtype(mean, kernel)?, as_dtype(invstd, kernel)?),
        (false, _, _, Some(mean), Some(var)) => {
            (as_dtype(mean, kernel)?, inverse_root(NAME, &as_dtype(var, kernel)?, eps)?)
        }
        _ => bail!(InvalidArgument(NAME, "save_mean"), "expected the statistics that the forward pass used"),
    };
    if train {
        let (images, channels) = (input.sizes()[0] as usize, input.sizes()[1] as usize);
        let area = shape::product(&input.sizes()[2..]) as usize;
        let sets = ChannelSets { images, channels, area, group: None };
        let statistics = [contiguous(&mean, kernel)?, contiguous(&invstd, kernel)?];
        if let Some(gradients) = by_sets(NAME, sets, [grad_out, input], &statistics, weight, output_mask)? {
            return Ok(gradients);
        }
    }
    let (grad, wide, dims) = (as_dtype(grad_out, kernel)?, as_dtype(input, kernel)?, batch_dims(input));
    let deviation = ops::sub_tensor(&wide, &across(&mean, input)?, ONE)?;
    let dot = ops::sum_dim_intlist(&ops::mul_tensor(&grad, &deviation)?, Some(&dims), false, None)?;
    let total = ops::sum_dim_intlist(&grad, Some(&dims), false, None)?;
    let scale = match parameter(weight, kernel)? {
        Some(weight) => ops::mul_tensor(&invstd, &weight)?,
        None => invstd.clone(),
    };
    let grad_input = if output_mask[0] {
        let centred = if train {
            let share = Scalar::Float(input.sizes()[1] as f64 / input.numel().max(1) as f64);
            let slope = ops::mul_tensor(&ops::mul_tensor(&invstd, &invstd)?, &ops::mul_scalar(&dot, share)?)?;
            let slope_term = ops::mul_tensor(&deviation, &across(&slope, input)?)?;
            let mean_term = across(&ops::mul_scalar(&total, share)?, input)?;
            ops::sub_tensor(&ops::sub_tensor(&grad, &mean_term, ONE)?, &slope_term, ONE)?
        } else {
            grad
        };
        as_dtype(&ops::mul_tensor(&centred, &across(&scale, input)?)?, input.dtype())?
    } else {
        no_gradient(input)?
    };
    let dtype = weight.map_or(input.dtype(), Tensor::dtype);
    let grad_weight =
        if output_mask[1] { as_dtype(&ops::mul_tensor(&dot, &invstd)?, dtype)? } else { no_gradient(input)? };
    let grad_bias = if output_mask[2] { as_dtype(&total, dtype)? } else { no_gradient(input)? };
    Ok((grad_input, grad_weight, grad_bias))
}

/// [`native_batch_norm`] with running statistics that are not optional.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn _native_batch_norm_legit(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (mean, var) = (Some(running_mean), Some(running_var));
    ops::native_batch_norm(input, weight, bias, mean, var, training, momentum, eps)
}

/// [`native_batch_norm`] without running statistics.
pub fn _native_batch_norm_legit_no_stats(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    ops::native_batch_norm(input, weight, bias, None, None, training, momentum, eps)
}

/// [`native_batch_norm`] with running statistics, in evaluation mode.
pub fn _native_batch_norm_legit_no_training(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    ops::native_batch_norm(input, weight, bias, Some(running_mean), Some(running_var), false, momentum, eps)
}
