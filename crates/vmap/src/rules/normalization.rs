//! Normalizations: statistics are those of the operators themselves; scale and shift are applied after, where they differ by example.

use super::convolution::{channels, of_channels};
use crate::batch::{Batch, results};
use crate::kinds::fold::{folded, unfolded};
use crate::kinds::loops;
use crate::kinds::pointwise::with_rank;
use flambeau_core::{Result, Scalar, bail};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// `x * weight + bias`.
fn affine(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let scaled = weight.map_or_else(|| Ok(x.clone()), |weight| ops::mul_tensor(x, weight))?;
    bias.map_or_else(|| Ok(scaled.clone()), |bias| ops::add_tensor(&scaled, bias, Scalar::Int(1)))
}

/// A normalization of the last dimensions, with its weight, and its bias if it has one, in the given arguments.
fn last_dims(batch: &Batch<'_>, weight: usize, bias: Option<usize>) -> Result<Vec<Value>> {
    let input = batch.tensor(0)?;
    let affine_arguments = [Some(weight), bias];
    let differs = affine_arguments.iter().flatten().any(|index| batch.is_batched_argument(*index));
    let mut arguments = batch.arguments.to_vec();
    arguments[0] = Value::Tensor(batch.full(input)?);
    if !differs {
        return batch.wrap_all(batch.call(&arguments)?);
    }
    affine_arguments.iter().flatten().for_each(|index| arguments[*index] = Value::None);
    let mut made = batch.call(&arguments)?;
    let aligned = |index: Option<usize>| {
        index
            .and_then(|index| batch.optional(index))
            .map(|own| with_rank(batch, own, input.dim()))
            .transpose()
    };
    if let Some(Value::Tensor(output)) = made.first_mut() {
        *output = affine(output, aligned(Some(weight))?.as_ref(), aligned(bias)?.as_ref())?;
    }
    batch.wrap_all(made)
}

pub(super) fn layer_norm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    last_dims(batch, 2, Some(3))
}

pub(super) fn rms_norm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    last_dims(batch, 2, None)
}

/// Sums over the dimensions between the batch and the last `kept`.
fn over_leading(tensor: &Tensor, kept: usize) -> Result<Tensor> {
    let dims: Vec<i64> = (1..(tensor.dim() - kept) as i64).collect();
    match dims.is_empty() {
        true => Ok(tensor.clone()),
        false => ops::sum_dim_intlist(tensor, Some(&dims), false, None),
    }
}

/// What the gradients of a normalization of the last dimensions are computed from: the arguments, the gradient of the result, and the
/// result before scale and shift.
struct Backward<'b> {
    arguments: Vec<Value>,
    grad: Tensor,
    normalized: Tensor,
    mask: &'b [bool],
    kept: usize,
}

/// `statistics` are the arguments with the mean, if any, and the inverse deviation.
fn backward_of<'b>(
    batch: &'b Batch<'_>,
    (mean, deviation): (Option<usize>, usize),
    (weight, mask): (usize, usize),
) -> Result<Option<Backward<'b>>> {
    let (input, kept) = (batch.tensor(1)?, batch.ints(2)?.len());
    let Some(Value::Bools(mask)) = batch.arguments.get(mask) else { return Ok(None) };
    let statistics = [mean, Some(deviation)];
    if statistics.iter().flatten().any(|at| batch.optional(*at).is_none_or(|own| own.dim() != input.dim())) {
        return Ok(None);
    }
    let (grad, x) = (batch.full(batch.tensor(0)?)?, batch.full(input)?);
    let mut arguments = batch.arguments.to_vec();
    arguments[1] = Value::Tensor(x.clone());
    let mut normalized = x;
    if let Some(at) = mean {
        let mean = batch.full(batch.tensor(at)?)?;
        normalized = ops::sub_tensor(&normalized, &mean, Scalar::Int(1))?;
        arguments[at] = Value::Tensor(mean);
    }
    let deviation_value = batch.full(batch.tensor(deviation)?)?;
    normalized = ops::mul_tensor(&normalized, &deviation_value)?;
    arguments[deviation] = Value::Tensor(deviation_value);
    let scaled = match batch.optional(weight) {
        Some(weight) => ops::mul_tensor(&grad, &with_rank(batch, weight, input.dim())?)?,
        None => grad.clone(),
    };
    arguments[0] = Value::Tensor(scaled);
    arguments[weight] = Value::None;
    Ok(Some(Backward { arguments, grad, normalized, mask, kept }))
}

/// The gradient of the input by the operator without a weight, and those of weight and bias by sums.
fn gradients(batch: &Batch<'_>, call: Backward<'_>, mask_at: usize) -> Result<Vec<Value>> {
    let mut arguments = call.arguments;
    let first = call.mask.first().copied().unwrap_or(false);
    arguments[mask_at] = Value::Bools(call.mask.iter().enumerate().map(|(at, _)| at == 0 && first).collect());
    let mut made = results(&batch.call(&arguments)?);
    let weight = || over_leading(&ops::mul_tensor(&call.grad, &call.normalized)?, call.kept);
    for (index, grad) in made.iter_mut().enumerate().filter(|(index, _)| call.mask.get(*index) == Some(&true))
    {
        let value = match index {
            0 => grad.clone(),
            1 => weight()?,
            _ => over_leading(&call.grad, call.kept)?,
        };
        *grad = batch.wrap(&value, 0)?;
    }
    Ok(made.into_iter().map(Value::Tensor).collect())
}

pub(super) fn layer_norm_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    match backward_of(batch, (Some(3), 4), (5, 7))? {
        Some(mut call) => {
            call.arguments[6] = Value::None;
            gradients(batch, call, 7)
        }
        None => loops::call(batch),
    }
}

pub(super) fn rms_norm_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    match backward_of(batch, (None, 3), (4, 5))? {
        Some(call) => gradients(batch, call, 5),
        None => loops::call(batch),
    }
}

pub(super) fn group_norm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let input = batch.tensor(0)?;
    if batch.size() == 0 || input.numel() == 0 {
        return loops::examples(batch);
    }
    let differs = batch.is_batched_argument(1) || batch.is_batched_argument(2);
    let mut arguments = batch.arguments.to_vec();
    arguments[0] = Value::Tensor(folded(batch, input)?);
    arguments[3] = Value::Int(batch.int(3)? * batch.size());
    if differs {
        (arguments[1], arguments[2]) = (Value::None, Value::None);
    }
    let mut made = results(&batch.call(&arguments)?);
    for result in &mut made {
        *result = unfolded(result, 0, batch.size())?;
    }
    let aligned =
        |index: usize| batch.optional(index).map(|own| by_channel(batch, own, input.dim())).transpose();
    if let (true, Some(output)) = (differs, made.first_mut()) {
        *output = affine(output, aligned(1)?.as_ref(), aligned(2)?.as_ref())?;
    }
    batch.wrap_all(made.into_iter().map(Value::Tensor).collect())
}

/// One number for each channel, which is dimension 1 of `rank`.
fn by_channel(batch: &Batch<'_>, numbers: &Tensor, rank: usize) -> Result<Tensor> {
    let mut sizes = batch.sizes(&vec![1; rank]);
    if let Some(size) = sizes.get_mut(2) {
        *size = numbers.numel();
    }
    ops::reshape(&batch.full(numbers)?, &sizes)
}

/// The channels of all examples are those of one input.
pub(super) fn batch_norm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    const RUNNING: [usize; 2] = [3, 4];
    let (input, is_training) = (batch.tensor(0)?, batch.flag(5)?);
    if batch.size() == 0 || input.dim() < 2 {
        return loops::examples(batch);
    }
    let is_shared = |index: &usize| batch.optional(*index).is_some() && !batch.is_batched_argument(*index);
    if is_training && RUNNING.iter().any(is_shared) {
        bail!(
            InvalidArgument(batch.operator.name()),
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were \
             not batched. If you are using a module and do not need eval mode, please set `track_running_stats` to be False."
        );
    }
    let mut arguments = batch.with_tensors(|tensor| folded(batch, tensor))?;
    arguments[0] = Value::Tensor(channels(batch, input)?);
    let made = results(&batch.call(&arguments)?);
    for at in RUNNING.iter().filter(|_| is_training) {
        if let (Some(own), Value::Tensor(updated)) = (batch.optional(*at), &arguments[*at]) {
            ops::copy_(&batch.full(own)?, &unfolded(updated, 0, batch.size())?, false)?;
        }
    }
    by_channels(batch, &made, |_| true)
}

/// Results of channels: first a tensor of them, then numbers for each.
fn by_channels(batch: &Batch<'_>, made: &[Tensor], is_made: impl Fn(usize) -> bool) -> Result<Vec<Value>> {
    let wrapped = |(index, result): (usize, &Tensor)| match index {
        _ if !is_made(index) || result.numel() == 0 && index > 0 => Ok(Value::Tensor(result.clone())),
        0 => of_channels(batch, result).map(Value::Tensor),
        _ => batch.wrap(&unfolded(result, 0, batch.size())?, 0).map(Value::Tensor),
    };
    made.iter().enumerate().map(wrapped).collect()
}

pub(super) fn batch_norm_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    const MASK: usize = 9;
    let input = batch.tensor(1)?;
    let Some(Value::Bools(mask)) = batch.arguments.get(MASK) else { return loops::call(batch) };
    if batch.size() == 0 || input.dim() < 2 {
        return loops::examples(batch);
    }
    let mut arguments = batch.with_tensors(|tensor| folded(batch, tensor))?;
    arguments[0] = Value::Tensor(channels(batch, batch.tensor(0)?)?);
    arguments[1] = Value::Tensor(channels(batch, input)?);
    let made = results(&batch.call(&arguments)?);
    by_channels(batch, &made, |index| mask.get(index) == Some(&true))
}
