//! Indices along one dimension, and searches in sorted sequences.

use crate::batch::{Batch, one, results};
use crate::kinds::loops;
use crate::kinds::reduction::flat;
use flambeau_core::{Result, Scalar, ensure, shape};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

const SELF: usize = 0;
const DIM: usize = 1;
const INDEX: usize = 2;
const SOURCE: usize = 3;

/// The call for one index of all examples: the other tensors have the batch in front.
fn with_one_index(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let dim = shape::wrap_dim(batch.int(DIM)?, batch.tensor(SELF)?.dim())?;
    let mut arguments = batch.arguments.to_vec();
    arguments[SELF] = Value::Tensor(batch.full(batch.tensor(SELF)?)?);
    arguments[DIM] = Value::Int(dim as i64 + 1);
    if let Some(source) = batch.optional(SOURCE) {
        arguments[SOURCE] = Value::Tensor(batch.full(source)?);
    }
    batch.wrap_all(batch.call(&arguments)?)
}

/// The index of each example along dimension `dim`, counted without the batch, repeated along the other dimensions of `sizes`.
fn along(batch: &Batch<'_>, sizes: &[i64], dim: usize) -> Result<Tensor> {
    let index = batch.tensor(INDEX)?;
    ensure!(
        index.dim() <= 1,
        Index(batch.operator.name(), "index"),
        "Index is supposed to be a vector, but got dim: {}",
        index.dim()
    );
    let mut own = vec![1; sizes.len() + 1];
    (own[0], own[dim + 1]) = (batch.size(), index.numel());
    let mut whole = batch.sizes(sizes);
    whole[dim + 1] = index.numel();
    ops::expand(&ops::reshape(&batch.full(index)?, &own)?, &whole, false)
}

/// Whether the index is the same for all examples, or the tensor has no dimensions to index, with the call in these cases.
fn simple(batch: &Batch<'_>) -> Option<Result<Vec<Value>>> {
    match (batch.tensor(SELF).map(Tensor::dim), batch.is_batched_argument(INDEX)) {
        (Ok(0), _) => Some(loops::examples(batch)),
        (Ok(_), false) => Some(with_one_index(batch)),
        (Err(error), _) => Some(Err(error)),
        _ => None,
    }
}

fn dim(batch: &Batch<'_>) -> Result<usize> {
    shape::wrap_dim(batch.int(DIM)?, batch.tensor(SELF)?.dim())
}

pub(super) fn index_select(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if let Some(done) = simple(batch) {
        return done;
    }
    let (tensor, dim) = (batch.tensor(SELF)?, dim(batch)?);
    let index = along(batch, tensor.sizes(), dim)?;
    let result = ops::gather(&batch.full(tensor)?, dim as i64 + 1, &index, false)?;
    Ok(one(batch.wrap(&result, 0)?))
}

/// The source of `index_add` and `index_copy`, if it has the dimensions of the tensor.
fn source<'b>(batch: &'b Batch<'_>) -> Option<&'b Tensor> {
    let tensor = batch.optional(SELF)?;
    let fits = |source: &&Tensor| {
        let dim = dim(batch).unwrap_or(0);
        let differ = |(at, (a, b)): (usize, (&i64, &i64))| at != dim && a != b;
        source.dim() == tensor.dim() && !source.sizes().iter().zip(tensor.sizes()).enumerate().any(differ)
    };
    batch.optional(SOURCE).filter(fits)
}

pub(super) fn index_add(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if let Some(done) = simple(batch) {
        return done;
    }
    let (tensor, dim) = (batch.tensor(SELF)?, dim(batch)?);
    let Some(source) = source(batch) else { return loops::examples(batch) };
    let index = along(batch, source.sizes(), dim)?;
    let scaled = ops::mul_scalar(&batch.full(source)?, batch.scalar(4)?)?;
    let scaled = ops::to_dtype(&scaled, tensor.dtype(), false, false, None)?;
    let result = ops::scatter_add(&batch.full(tensor)?, dim as i64 + 1, &index, &scaled)?;
    Ok(one(batch.wrap(&result, 0)?))
}

pub(super) fn index_copy(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if let Some(done) = simple(batch) {
        return done;
    }
    let (tensor, dim) = (batch.tensor(SELF)?, dim(batch)?);
    let Some(source) = source(batch) else { return loops::examples(batch) };
    let index = along(batch, source.sizes(), dim)?;
    let result = ops::scatter_src(&batch.full(tensor)?, dim as i64 + 1, &index, &batch.full(source)?)?;
    Ok(one(batch.wrap(&result, 0)?))
}

/// Indices of which negative ones count from the end of a dimension of `size`.
fn from_start(index: &Tensor, size: i64) -> Result<Tensor> {
    let is_negative = ops::lt_scalar(index, Scalar::Int(0))?;
    ops::where_self(&is_negative, &ops::add_scalar(index, Scalar::Int(size), Scalar::Int(1))?, index)
}

pub(super) fn index_fill(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if let Some(done) = simple(batch) {
        return done;
    }
    let (tensor, dim) = (batch.tensor(SELF)?, dim(batch)?);
    let index = from_start(&along(batch, tensor.sizes(), dim)?, tensor.sizes()[dim])?;
    let result = ops::scatter_value(&batch.full(tensor)?, dim as i64 + 1, &index, batch.scalar(SOURCE)?)?;
    Ok(one(batch.wrap(&result, 0)?))
}

pub(super) fn index_fill_tensor(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, value) = (batch.tensor(SELF)?, batch.tensor(SOURCE)?);
    ensure!(
        value.dim() == 0,
        Shape(batch.operator.name()),
        "index_fill only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    if tensor.dim() == 0 {
        return loops::examples(batch);
    }
    let dim = dim(batch)?;
    let index = from_start(&along(batch, tensor.sizes(), dim)?, tensor.sizes()[dim])?;
    let value = ops::reshape(&batch.full(value)?, &batch.sizes(&vec![1; tensor.dim()]))?;
    let value = ops::to_dtype(&value, tensor.dtype(), false, false, None)?;
    let source = ops::expand(&value, index.sizes(), false)?;
    let result = ops::scatter_src(&batch.full(tensor)?, dim as i64 + 1, &index, &source)?;
    Ok(one(batch.wrap(&result, 0)?))
}

/// Elements by their number among all.
pub(super) fn take(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, index) = (batch.tensor(0)?, batch.tensor(1)?);
    if !batch.is_batched(tensor) {
        let index = batch.full(index)?;
        return Ok(one(batch.wrap(&ops::take(tensor, &index)?, 0)?));
    }
    let positions = flat(batch, index)?;
    let is_negative = ops::lt_scalar(&positions, Scalar::Int(0))?;
    let from_end = ops::add_scalar(&positions, Scalar::Int(tensor.numel()), Scalar::Int(1))?;
    let positions = ops::where_self(&is_negative, &from_end, &positions)?;
    let taken = ops::gather(&flat(batch, tensor)?, 1, &positions, false)?;
    Ok(one(batch.wrap(&ops::reshape(&taken, &batch.sizes(index.sizes()))?, 0)?))
}

pub(super) fn searchsorted(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (sequence, values) = (batch.tensor(0)?, batch.tensor(1)?);
    let mut arguments = batch.arguments.to_vec();
    let is_one = !batch.is_batched(sequence) && !batch.is_batched_argument(5);
    if is_one && sequence.dim() == 1 {
        arguments[1] = Value::Tensor(batch.full(values)?);
        return batch.wrap_all(batch.call(&arguments)?);
    }
    if sequence.dim() != 1 && sequence.dim() != values.dim() {
        return loops::examples(batch);
    }
    arguments = batch.with_tensors(|tensor| batch.full(tensor))?;
    if sequence.dim() == 1 {
        arguments[1] = Value::Tensor(flat(batch, values)?);
    }
    let found = results(&batch.call(&arguments)?);
    let restored = |found: &Tensor| {
        batch.wrap(&ops::reshape(found, &batch.sizes(values.sizes()))?, 0).map(Value::Tensor)
    };
    found.iter().map(restored).collect()
}

pub(super) fn bucketize(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (values, boundaries) = (batch.tensor(0)?, batch.tensor(1)?);
    ensure!(
        boundaries.dim() == 1,
        Shape("bucketize", "boundaries"),
        "boundaries tensor must be 1 dimension, but got dim({})",
        boundaries.dim()
    );
    let sequence = if batch.is_batched(boundaries) { batch.full(boundaries)? } else { boundaries.clone() };
    let own = if batch.is_batched(boundaries) { flat(batch, values)? } else { batch.full(values)? };
    let found = ops::searchsorted_tensor(&sequence, &own, batch.flag(2)?, batch.flag(3)?, None, None)?;
    Ok(one(batch.wrap(&ops::reshape(&found, &batch.sizes(values.sizes()))?, 0)?))
}
