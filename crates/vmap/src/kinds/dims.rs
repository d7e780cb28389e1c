//! Operators with arguments that name dimensions: the batch becomes dimension 0 of every operand, and the numbers are increased by one.

use crate::batch::Batch;
use crate::kinds::loops;
use crate::kinds::pointwise::any_format;
use crate::plan::Role;
use flambeau_core::{Result, shape};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let ranks: Vec<usize> = batch.tensors().map(Tensor::dim).collect();
    let has_sizes = batch.plan.roles.contains(&Role::Sizes);
    if !has_sizes && !batch.plan.adds_dim && ranks.iter().all(|rank| *rank == 0) {
        return without_dimensions(batch);
    }
    let arguments = shifted(batch, |tensor| batch.full(tensor))?;
    batch.wrap_all(batch.call(&arguments)?)
}

/// Views of tensors without dimensions are few, and some are errors: the operator itself decides.
pub(crate) fn views(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let has_dimensions = batch.plan.adds_dim || batch.tensor(0)?.dim() > 0;
    if has_dimensions { call(batch) } else { loops::examples(batch) }
}

/// A tensor without dimensions counts as one with a dimension of size 1, which the results do not have.
fn without_dimensions(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let arguments = shifted(batch, |tensor| ops::unsqueeze(&batch.full(tensor)?, 1))?;
    let results = batch.call(&arguments)?;
    let squeezed = |tensor: &Tensor| match tensor.sizes() {
        [_, 1] => batch.wrap(&ops::squeeze_dim(tensor, 1)?, 0),
        _ => batch.wrap(tensor, 0),
    };
    results.iter().map(|value| crate::batch::mapped(value, &squeezed)).collect()
}

/// The arguments for tensors that have the batch as dimension 0.
pub(crate) fn shifted(batch: &Batch<'_>, operand: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
    let rank = rank(batch);
    let mut arguments = batch.with_tensors(operand)?;
    for (argument, role) in arguments.iter_mut().zip(&batch.plan.roles) {
        match role {
            Role::Dims => *argument = shifted_dims(argument, rank)?,
            Role::Sizes => {
                if let Value::Ints(sizes) = argument {
                    *sizes = batch.sizes(sizes);
                }
            }
            _ => any_format(argument),
        }
    }
    Ok(arguments)
}

/// How many dimensions one example has of the tensor whose dimensions are named.
fn rank(batch: &Batch<'_>) -> usize {
    let sizes = batch.plan.roles.iter().position(|role| *role == Role::Sizes);
    let own = match sizes.and_then(|at| batch.arguments.get(at)) {
        Some(Value::Ints(sizes)) => sizes.len(),
        _ => batch.tensors().map(Tensor::dim).next().unwrap_or(0),
    };
    own + usize::from(batch.plan.adds_dim)
}

fn shifted_dims(dims: &Value, rank: usize) -> Result<Value> {
    let shift = |dim: i64| shape::wrap_dim(dim, rank).map(|dim| dim as i64 + 1);
    Ok(match dims {
        Value::Int(dim) => Value::Int(shift(*dim)?),
        Value::Ints(dims) => Value::Ints(dims.iter().copied().map(shift).collect::<Result<_>>()?),
        other => other.clone(),
    })
}
