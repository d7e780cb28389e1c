//! Losses of classes: the batch is folded into the first dimension, they are computed without reduction, and reduced for each example.

use super::losses::{MEAN, NONE, spread, wrapped};
use crate::batch::{Batch, results};
use crate::kinds::fold::{folded, unfolded};
use crate::kinds::{loops, reduction};
use flambeau_core::{Result, Scalar};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

const WEIGHT: usize = 2;
const REDUCTION: usize = 3;
const IGNORED: usize = 4;

/// The tensor with the batch in its first dimension. Scores without a dimension of examples get one by the batch.
fn rows(batch: &Batch<'_>, tensor: &Tensor, is_single: bool) -> Result<Tensor> {
    if is_single { batch.full(tensor) } else { folded(batch, tensor) }
}

fn split(batch: &Batch<'_>, tensor: &Tensor, is_single: bool) -> Result<Tensor> {
    if is_single { Ok(tensor.clone()) } else { unfolded(tensor, 0, batch.size()) }
}

/// Whether a rule serves the call: not where the weights of the classes differ, or there is nothing to fold.
fn is_served(batch: &Batch<'_>, own: &Tensor, weight: usize) -> bool {
    !batch.is_batched_argument(weight) && batch.size() > 0 && own.dim() > 0 && own.numel() > 0
}

/// The results without reduction, the batch in front.
fn unreduced(batch: &Batch<'_>) -> Result<Vec<Tensor>> {
    let (own, target) = (batch.tensor(0)?, batch.tensor(1)?);
    let is_single = own.dim() == 1;
    let mut arguments = batch.arguments.to_vec();
    arguments[0] = Value::Tensor(rows(batch, own, is_single)?);
    arguments[1] = Value::Tensor(rows(batch, target, is_single)?);
    arguments[REDUCTION] = Value::Int(NONE);
    results(&batch.call(&arguments)?).iter().map(|made| split(batch, made, is_single)).collect()
}

/// The sum of the weights of the targets of each example.
fn total_weight(batch: &Batch<'_>, like: &Tensor) -> Result<Tensor> {
    let target = batch.full(batch.tensor(1)?)?;
    let counted = ops::ne_scalar(&target, Scalar::Int(batch.int(IGNORED)?))?;
    let weights = match batch.optional(WEIGHT) {
        None => ops::to_dtype(&counted, like.dtype(), false, false, None)?,
        Some(weight) => {
            let class = ops::mul_tensor(&target, &counted)?;
            ops::mul_tensor(&ops::take(weight, &class)?, &counted)?
        }
    };
    reduction::reduced(&weights, false)
}

/// The loss and the total weight of each example.
fn reduced(batch: &Batch<'_>, losses: &Tensor) -> Result<[Tensor; 2]> {
    let (total, sum) = (total_weight(batch, losses)?, reduction::reduced(losses, false)?);
    Ok(match batch.int(REDUCTION)? {
        MEAN => [ops::div_tensor(&sum, &total)?, total],
        _ => [sum, total],
    })
}

pub(super) fn forward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    class_loss(batch)
}

pub(super) fn cross_entropy(batch: &Batch<'_>) -> Result<Vec<Value>> {
    class_loss(batch)
}

/// The loss, the total weight, and what else the operator keeps for its derivative.
fn class_loss(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if !is_served(batch, batch.tensor(0)?, WEIGHT) {
        return loops::call(batch);
    }
    let made = unreduced(batch)?;
    let [losses, _, kept @ ..] = &made[..] else { return loops::call(batch) };
    let [output, total] = match batch.int(REDUCTION)? {
        // Nothing is divided by the total weight, which is 0 then.
        NONE => [losses.clone(), ops::new_zeros(losses, &[batch.size()], None, None, None, None)?],
        _ => reduced(batch, losses)?,
    };
    let mut values = wrapped(batch, &output)?;
    for result in [&total].into_iter().chain(kept) {
        values.extend(wrapped(batch, result)?);
    }
    Ok(values)
}

pub(super) fn backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    class_backward(batch)
}

pub(super) fn cross_entropy_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    class_backward(batch)
}

/// The gradient of the scores: the gradient of a mean is divided by the total weight of its example.
fn class_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    const WEIGHT: usize = 3;
    const REDUCTION: usize = 4;
    const TOTAL: usize = 6;
    let (grad, own, target) = (batch.tensor(0)?, batch.tensor(1)?, batch.tensor(2)?);
    if !is_served(batch, own, WEIGHT) {
        return loops::call(batch);
    }
    let is_single = own.dim() == 1;
    let reduction = batch.int(REDUCTION)?;
    let mut arguments = batch.arguments.to_vec();
    let total = batch.full(batch.tensor(TOTAL)?)?;
    let grads = match reduction {
        NONE => batch.full(grad)?,
        MEAN => {
            let grad = ops::div_tensor(&batch.full(grad)?, &total)?;
            spread_full(batch, &grad, target.sizes())?
        }
        _ => spread(batch, grad, target.sizes(), false)?,
    };
    arguments[0] = Value::Tensor(if is_single { grads } else { crate::kinds::fold::merged(&grads, 0)? });
    arguments[1] = Value::Tensor(rows(batch, own, is_single)?);
    arguments[2] = Value::Tensor(rows(batch, target, is_single)?);
    arguments[REDUCTION] = Value::Int(NONE);
    arguments[TOTAL] = Value::Tensor(ops::select_int(&total, 0, 0)?);
    for (index, argument) in arguments.iter_mut().enumerate().skip(TOTAL + 1) {
        if let Some(tensor) = batch.optional(index) {
            *argument = Value::Tensor(rows(batch, tensor, is_single)?);
        }
    }
    let made = results(&batch.call(&arguments)?);
    let restored = |made: &Tensor| batch.wrap(&split(batch, made, is_single)?, 0).map(Value::Tensor);
    made.iter().map(restored).collect()
}

/// One number for each example, repeated for `sizes`.
fn spread_full(batch: &Batch<'_>, numbers: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let numbers = ops::reshape(numbers, &batch.sizes(&vec![1; sizes.len()]))?;
    ops::expand(&numbers, &batch.sizes(sizes), false)
}
