//! Losses of elements: they are computed without reduction, and then reduced for each example.

use crate::batch::{Batch, one, results};
use crate::kinds::pointwise::{aligned, with_rank};
use crate::kinds::{loops, reduction};
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// The values of the argument `reduction`.
pub(super) const NONE: i64 = 0;
pub(super) const MEAN: i64 = 1;

pub(super) fn loss(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let Some(at) = batch.plan.reduction else { return loops::call(batch) };
    let mut arguments = aligned(batch)?;
    arguments[at] = Value::Int(NONE);
    let losses = batch.call(&arguments)?;
    let reduction = batch.int(at)?;
    if reduction == NONE {
        return batch.wrap_all(losses);
    }
    let reduced = |losses: &Tensor| {
        let reduced = reduction::reduced(losses, reduction == MEAN)?;
        batch.wrap(&reduced, 0).map(Value::Tensor)
    };
    results(&losses).iter().map(reduced).collect()
}

/// The gradient of a loss of two tensors, or three with a weight, all of the sizes of the first.
pub(super) fn backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (grad, own, target) = (batch.tensor(0)?, batch.tensor(1)?, batch.tensor(2)?);
    let Some(at) = batch.plan.reduction.filter(|_| own.sizes() == target.sizes()) else {
        return loops::call(batch);
    };
    let reduction = batch.int(at)?;
    let mut arguments = batch.arguments.to_vec();
    arguments[0] = Value::Tensor(match reduction {
        NONE => batch.full(grad)?,
        _ => spread(batch, grad, own.sizes(), reduction == MEAN)?,
    });
    for (index, argument) in arguments.iter_mut().enumerate().take(at).skip(1) {
        if let Some(tensor) = batch.optional(index) {
            let full = crate::kinds::pointwise::with_rank(batch, tensor, own.dim())?;
            *argument = Value::Tensor(ops::expand(&full, &batch.sizes(own.sizes()), false)?);
        }
    }
    arguments[at] = Value::Int(NONE);
    batch.wrap_all(batch.call(&arguments)?)
}

/// The gradient of a sum or mean of elements of `sizes`, for each of them. It may have dimensions that broadcast.
pub(super) fn spread(batch: &Batch<'_>, grad: &Tensor, sizes: &[i64], is_mean: bool) -> Result<Tensor> {
    let grad = with_rank(batch, grad, sizes.len())?;
    let grad = match is_mean {
        true => ops::mul_scalar(&grad, reduction::share(sizes.iter().product()))?,
        false => grad,
    };
    ops::expand(&grad, &batch.sizes(sizes), false)
}

/// One tensor, batched.
pub(super) fn wrapped(batch: &Batch<'_>, tensor: &Tensor) -> Result<Vec<Value>> {
    Ok(one(batch.wrap(tensor, 0)?))
}
