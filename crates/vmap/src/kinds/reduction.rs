//! Reductions: of the dimensions that are named, or of all but the batch.

use crate::batch::{Batch, mapped, one};
use crate::kinds::{dims, loops};
use crate::plan::Role;
use flambeau_core::{Result, Scalar};
use flambeau_ops::dispatch::{Type, Value};
use flambeau_ops::{Tensor, ops};

pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let at = batch.plan.roles.iter().position(|role| *role == Role::Dims);
    match at.map(|at| (at, &batch.arguments[at])) {
        None => whole(batch),
        Some((at, Value::None)) if takes_list(batch, at)? => over_all(batch, at),
        Some((at, Value::Ints(dims))) if dims.is_empty() => over_all(batch, at),
        Some((at, Value::None)) => flattened(batch, at),
        Some(_) => dims::call(batch),
    }
}

fn takes_list(batch: &Batch<'_>, at: usize) -> Result<bool> {
    let arguments = batch.operator.arguments()?;
    Ok(arguments.get(at).is_some_and(|argument| matches!(argument.ty.without_optional(), Type::List(..))))
}

/// An operator with a list of dimensions, of which none are named.
fn over_all(batch: &Batch<'_>, at: usize) -> Result<Vec<Value>> {
    let tensor = batch.tensor(0)?;
    if tensor.dim() == 0 {
        return loops::examples(batch);
    }
    let mut arguments = batch.with_tensors(|tensor| batch.full(tensor))?;
    arguments[at] = Value::Ints((1..=tensor.dim() as i64).collect());
    batch.wrap_all(batch.call(&arguments)?)
}

/// An operator of one dimension, of which none is named: the elements of an example are those of one dimension.
fn flattened(batch: &Batch<'_>, at: usize) -> Result<Vec<Value>> {
    let rank = batch.tensor(0)?.dim();
    let mut arguments = batch.with_tensors(|tensor| flat(batch, tensor))?;
    arguments[at] = Value::Int(1);
    // With `keepdim` the results have all dimensions.
    let restored = |tensor: &Tensor| match tensor.dim() {
        1 => batch.wrap(tensor, 0),
        _ => batch.wrap(&ops::view(tensor, &batch.sizes(&vec![1; rank]))?, 0),
    };
    batch.call(&arguments)?.iter().map(|value| mapped(value, &restored)).collect()
}

/// The tensor with all elements of an example in dimension 1.
pub(crate) fn flat(batch: &Batch<'_>, tensor: &Tensor) -> Result<Tensor> {
    ops::reshape(&batch.full(tensor)?, &batch.sizes(&[tensor.numel()]))
}

/// An operator that reduces all elements and has no argument for dimensions: its sibling that has one.
fn whole(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let x = flat(batch, batch.tensor(0)?)?;
    let dtype = match batch.arguments.last() {
        Some(Value::ScalarType(dtype)) => Some(*dtype),
        _ => None,
    };
    let p = || match batch.arguments.get(1) {
        Some(Value::None) => Ok(None),
        _ => batch.scalar(1).map(Some),
    };
    let result = match batch.operator.name() {
        "sum" => ops::sum_dim_intlist(&x, Some(&[1]), false, dtype)?,
        "mean" => ops::mean_dim(&x, Some(&[1]), false, dtype)?,
        "prod" => ops::prod_dim_int(&x, 1, false, dtype)?,
        "any" => ops::any_dim(&x, 1, false)?,
        "all" => ops::all_dim(&x, 1, false)?,
        "max" => ops::amax(&x, &[1], false)?,
        "min" => ops::amin(&x, &[1], false)?,
        "norm.Scalar" => ops::norm_scalaropt_dim(&x, Some(batch.scalar(1)?), &[1], false)?,
        "norm.ScalarOpt_dtype" => match dtype {
            Some(dtype) => ops::norm_scalaropt_dim_dtype(&x, p()?, &[1], false, dtype)?,
            None => ops::norm_scalaropt_dim(&x, p()?, &[1], false)?,
        },
        _ => return loops::call(batch),
    };
    Ok(one(batch.wrap(&result, 0)?))
}

/// The sum of the elements of each example, or their mean, of a tensor with the batch in front.
pub(crate) fn reduced(x: &Tensor, is_mean: bool) -> Result<Tensor> {
    let count: i64 = x.sizes().iter().skip(1).product();
    let flat = ops::reshape(x, &[x.sizes().first().copied().unwrap_or(1), count])?;
    match is_mean {
        true => ops::mean_dim(&flat, Some(&[1]), false, None),
        false => ops::sum_dim_intlist(&flat, Some(&[1]), false, None),
    }
}

/// The medians of all elements.
pub(crate) fn median(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let x = flat(batch, batch.tensor(0)?)?;
    let (values, _) = match batch.operator.name() {
        "nanmedian" => ops::nanmedian_dim(&x, 1, false)?,
        _ => ops::median_dim(&x, 1, false)?,
    };
    Ok(one(batch.wrap(&values, 0)?))
}

/// `1 / count`, as a factor of gradients of means.
pub(crate) fn share(count: i64) -> Scalar {
    (1.0 / count as f64).into()
}
