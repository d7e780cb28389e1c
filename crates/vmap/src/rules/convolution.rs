//! Convolutions: a batch of inputs is folded into their first dimension, and a batch of weights becomes groups of channels.

use crate::batch::{Batch, one, results};
use crate::kinds::fold::{folded, merged, unfolded};
use crate::kinds::loops;
use flambeau_core::{Result, Scalar};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

const INPUT: usize = 0;
const WEIGHT: usize = 1;
const BIAS: usize = 2;
const TRANSPOSED: usize = 6;
const GROUPS: usize = 8;

pub(super) fn convolution(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if batch.size() == 0 {
        return loops::examples(batch);
    }
    let bias = batch.optional(BIAS);
    let is_apart = bias.is_some_and(|bias| batch.is_batched(bias));
    let mut arguments = batch.arguments.to_vec();
    if is_apart || batch.is_batched_argument(WEIGHT) {
        arguments[BIAS] = Value::None;
    }
    let result = match (batch.is_batched_argument(INPUT), batch.is_batched_argument(WEIGHT)) {
        (true, false) => over_inputs(batch, arguments)?,
        (false, true) if batch.int(GROUPS)? == 1 => over_weights(batch, arguments)?,
        (_, true) => over_groups(batch, arguments)?,
        (false, false) => {
            let result = first(batch.call(&arguments)?);
            return add_bias(batch, result, bias);
        }
    };
    let bias = bias.filter(|_| is_apart || batch.is_batched_argument(WEIGHT));
    add_bias(batch, Some(batch.wrap(&result, 0)?), bias)
}

fn first(values: Vec<Value>) -> Option<Tensor> {
    results(&values).into_iter().next()
}

/// The results of examples with a bias, which may differ between them.
fn add_bias(batch: &Batch<'_>, result: Option<Tensor>, bias: Option<&Tensor>) -> Result<Vec<Value>> {
    let Some(result) = result else { return Ok(vec![]) };
    let Some(bias) = bias else { return Ok(one(result)) };
    let spatial = result.dim().saturating_sub(2);
    let x = batch.full(&result)?;
    let mut sizes = vec![batch.size(), 1, bias.numel()];
    sizes.extend(vec![1; spatial]);
    let bias = ops::reshape(&batch.full(bias)?, &sizes)?;
    Ok(one(batch.wrap(&ops::add_tensor(&x, &bias, Scalar::Int(1))?, 0)?))
}

/// One weight for all examples.
fn over_inputs(batch: &Batch<'_>, mut arguments: Vec<Value>) -> Result<Tensor> {
    arguments[INPUT] = Value::Tensor(folded(batch, batch.tensor(INPUT)?)?);
    unfold_first(batch, batch.call(&arguments)?, 0)
}

fn unfold_first(batch: &Batch<'_>, values: Vec<Value>, dim: usize) -> Result<Tensor> {
    match first(values) {
        Some(result) => ops::movedim_int(&unfolded(&result, dim, batch.size())?, dim as i64, 0),
        None => flambeau_core::bail!(Internal(batch.operator.name()), "the convolution has no result"),
    }
}

/// One input for all weights: the output channels of all examples are those of one weight.
fn over_weights(batch: &Batch<'_>, mut arguments: Vec<Value>) -> Result<Tensor> {
    let dim = usize::from(batch.flag(TRANSPOSED)?);
    let (weight, _) = batch.at(batch.tensor(WEIGHT)?, dim as i64)?;
    arguments[WEIGHT] = Value::Tensor(merged(&weight, dim)?);
    unfold_first(batch, batch.call(&arguments)?, 1)
}

/// An input and a weight for each example, each a group of channels.
fn over_groups(batch: &Batch<'_>, mut arguments: Vec<Value>) -> Result<Tensor> {
    arguments[INPUT] = Value::Tensor(channels(batch, batch.tensor(INPUT)?)?);
    arguments[WEIGHT] = Value::Tensor(folded(batch, batch.tensor(WEIGHT)?)?);
    arguments[GROUPS] = Value::Int(batch.int(GROUPS)? * batch.size());
    unfold_first(batch, batch.call(&arguments)?, 1)
}

/// The tensor with the batch folded into its channels, dimension 1.
pub(super) fn channels(batch: &Batch<'_>, tensor: &Tensor) -> Result<Tensor> {
    merged(&ops::movedim_int(&batch.full(tensor)?, 0, 1)?, 1)
}

/// A tensor whose channels are those of all examples, as a batched one.
pub(super) fn of_channels(batch: &Batch<'_>, tensor: &Tensor) -> Result<Tensor> {
    batch.wrap(&unfolded(tensor, 1, batch.size())?, 1)
}

/// The gradients of a convolution: all operands have a value for each example, which are groups of channels.
pub(super) fn backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    const GRAD: usize = 0;
    const INPUT: usize = 1;
    const WEIGHT: usize = 2;
    const BIAS_SIZES: usize = 3;
    const GROUPS: usize = 9;
    const MASK: usize = 10;
    if batch.size() == 0 {
        return loops::examples(batch);
    }
    let mut arguments = batch.arguments.to_vec();
    arguments[GRAD] = Value::Tensor(channels(batch, batch.tensor(GRAD)?)?);
    arguments[INPUT] = Value::Tensor(channels(batch, batch.tensor(INPUT)?)?);
    arguments[WEIGHT] = Value::Tensor(folded(batch, batch.tensor(WEIGHT)?)?);
    arguments[GROUPS] = Value::Int(batch.int(GROUPS)? * batch.size());
    if let Value::Ints(sizes) = &mut arguments[BIAS_SIZES]
        && let Some(size) = sizes.first_mut()
    {
        *size *= batch.size();
    }
    let Some(Value::Bools(mask)) = batch.arguments.get(MASK) else { return loops::examples(batch) };
    let made = results(&batch.call(&arguments)?);
    let wrapped = |(index, grad): (usize, &Tensor)| match (mask.get(index), index) {
        (Some(true), 0) => of_channels(batch, grad).map(Value::Tensor),
        (Some(true), _) => batch.wrap(&unfolded(grad, 0, batch.size())?, 0).map(Value::Tensor),
        _ => Ok(Value::Tensor(grad.clone())),
    };
    made.iter().enumerate().map(wrapped).collect()
}
