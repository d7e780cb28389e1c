//! Embeddings: rows of a weight by index, and the sums of gradients of these rows.

use crate::batch::{Batch, one};
use crate::kinds::loops;
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// The number of the example of each index, to index the batch by.
fn examples(batch: &Batch<'_>, indices: &Tensor) -> Result<Tensor> {
    let device = Some(indices.device());
    let numbers = ops::arange(Scalar::Int(batch.size()), Some(ScalarType::I64), None, device, None)?;
    ops::view(&numbers, &batch.sizes(&vec![1; indices.dim()]))
}

pub(super) fn embedding(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (weight, indices) = (batch.tensor(0)?, batch.tensor(1)?);
    if !batch.is_batched(weight) {
        let mut arguments = batch.arguments.to_vec();
        arguments[1] = Value::Tensor(batch.full(indices)?);
        return batch.wrap_all(batch.call(&arguments)?);
    }
    // Both change the gradient of the weight, which is that of an index here.
    if batch.int(2)? >= 0 || batch.flag(3)? || weight.dim() != 2 {
        return loops::call(batch);
    }
    let list = [Some(examples(batch, indices)?), Some(batch.full(indices)?)];
    let rows = ops::index_tensor(&batch.full(weight)?, &list)?;
    Ok(one(batch.wrap(&rows, 0)?))
}

pub(super) fn dense_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (grad, indices) = (batch.tensor(0)?, batch.tensor(1)?);
    let width = grad.sizes().last().copied().unwrap_or(1);
    if batch.int(3)? >= 0 || batch.flag(4)? {
        return loops::call(batch);
    }
    let list = [Some(examples(batch, indices)?), Some(batch.full(indices)?)];
    let grads = batch.full(grad)?;
    let zeros = ops::new_zeros(&grads, &batch.sizes(&[batch.int(2)?, width]), None, None, None, None)?;
    let summed = ops::index_put(&zeros, &list, &grads, true)?;
    Ok(one(batch.wrap(&summed, 0)?))
}
