//! Operators that compute each element of their result from elements at the same index: the dimensions of the operands are aligned.

use crate::batch::Batch;
use crate::kinds::loops;
use flambeau_core::{MemoryFormat, Result, ScalarType};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// Operators with results that depend on some of the operands only, so that each has to have the batch.
const SAME_SIZES: &[&str] = &["_prelu_kernel_backward", "rrelu_with_noise_backward"];

pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    if SAME_SIZES.contains(&batch.operator.name()) {
        let rank = batch.tensors().map(Tensor::dim).max().unwrap_or(0);
        return batch.wrap_all(batch.call(&batch.with_tensors(|tensor| full_rank(batch, tensor, rank))?)?);
    }
    if batch.operator.name() == "log_sigmoid_backward" {
        // Its buffer may have no elements.
        return loops::call(batch);
    }
    let mut arguments = aligned(batch)?;
    if batch.operator.name() == "copy" {
        // Its result has the sizes of the first operand.
        arguments[0] = Value::Tensor(batch.full(batch.tensor(0)?)?);
    }
    batch.wrap_all(batch.call(&arguments)?)
}

/// The arguments with tensors of all examples: the batch is dimension 0, and sizes of 1 follow where an operand has fewer dimensions than
/// another one, so that they broadcast as those of one example do.
pub(crate) fn aligned(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let rank = batch.tensors().map(Tensor::dim).max().unwrap_or(0);
    let promoted = if rank > 0 { type_of_dimensioned(batch) } else { None };
    let mut arguments = batch.with_tensors(|tensor| operand(batch, tensor, rank, promoted))?;
    arguments.iter_mut().for_each(any_format);
    Ok(arguments)
}

/// A format of four or five dimensions does not fit a tensor that has the batch as well.
pub(crate) fn any_format(value: &mut Value) {
    if let Value::MemoryFormat(MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d) = value {
        *value = Value::MemoryFormat(MemoryFormat::Preserve);
    }
}

/// A tensor of all examples with `rank` dimensions besides the batch.
pub(crate) fn with_rank(batch: &Batch<'_>, tensor: &Tensor, rank: usize) -> Result<Tensor> {
    match batch.front(tensor)? {
        (value, true) if tensor.dim() < rank => {
            let mut sizes = batch.sizes(&vec![1; rank - tensor.dim()]);
            sizes.extend(&value.sizes()[1..]);
            ops::view(&value, &sizes)
        }
        (value, _) => Ok(value),
    }
}

/// The same, expanded where it is not batched.
fn full_rank(batch: &Batch<'_>, tensor: &Tensor, rank: usize) -> Result<Tensor> {
    let mut sizes = batch.sizes(&vec![1; rank.saturating_sub(tensor.dim())]);
    sizes.extend(tensor.sizes());
    ops::reshape(&batch.full(tensor)?, &sizes)
}

fn operand(batch: &Batch<'_>, tensor: &Tensor, rank: usize, promoted: Option<ScalarType>) -> Result<Tensor> {
    let is_batched = batch.is_batched(tensor);
    let value = with_rank(batch, tensor, rank)?;
    if rank == 0 && !is_batched && !tensor.is_wrapped_number() {
        // It would rank below the others, which have a dimension now.
        return ops::unsqueeze(&value, 0);
    }
    match promoted {
        // It ranked below tensors with dimensions of the same category, and would not any more.
        Some(dtype) if is_batched && tensor.dim() == 0 && ranks_below(tensor.dtype(), dtype) => {
            ops::to_dtype(&value, dtype, false, false, None)
        }
        _ => Ok(value),
    }
}

/// Whether a tensor without dimensions is converted to `dtype`, that of tensors with dimensions.
fn ranks_below(own: ScalarType, dtype: ScalarType) -> bool {
    own != dtype && category(own) == category(dtype)
}

fn category(dtype: ScalarType) -> u8 {
    match dtype {
        _ if dtype.is_complex() => 3,
        _ if dtype.is_floating_point() => 2,
        ScalarType::Bool => 0,
        _ => 1,
    }
}

/// The type to which the tensors with dimensions promote.
fn type_of_dimensioned(batch: &Batch<'_>) -> Option<ScalarType> {
    let mut types = batch.tensors().filter(|tensor| tensor.dim() > 0).map(Tensor::dtype);
    let first = types.next()?;
    types.try_fold(first, ScalarType::promote)
}
