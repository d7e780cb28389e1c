//! Operators that compute the indices of the first dimension independently: the batch is folded into that dimension.

use crate::batch::{Batch, mapped};
use crate::kinds::loops;
use crate::plan::Role;
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let first = batch.tensors().next().map_or(0, |tensor| tensor.sizes().first().copied().unwrap_or(0));
    if first == 0 || batch.size() == 0 {
        return loops::examples(batch);
    }
    let mut arguments = batch.with_tensors(|tensor| folded(batch, tensor))?;
    for (argument, role) in arguments.iter_mut().zip(&batch.plan.roles) {
        if let (Value::Ints(sizes), Role::Sizes) = (argument, role)
            && let Some(size) = sizes.first_mut()
        {
            *size *= batch.size();
        }
    }
    let unfold = |tensor: &Tensor| batch.wrap(&unfolded(tensor, 0, batch.size())?, 0);
    batch.call(&arguments)?.iter().map(|value| mapped(value, &unfold)).collect()
}

/// The tensor with the batch folded into its first dimension.
pub(crate) fn folded(batch: &Batch<'_>, tensor: &Tensor) -> Result<Tensor> {
    merged(&batch.full(tensor)?, 0)
}

/// Dimensions `dim` and `dim + 1` as one.
pub(crate) fn merged(tensor: &Tensor, dim: usize) -> Result<Tensor> {
    let mut sizes = tensor.sizes().to_vec();
    if dim + 1 >= sizes.len() {
        return Ok(tensor.clone());
    }
    let size = sizes.remove(dim);
    sizes[dim] *= size;
    ops::reshape(tensor, &sizes)
}

/// Dimension `dim` as two, of which the first has `size` indices.
pub(crate) fn unfolded(tensor: &Tensor, dim: usize, size: i64) -> Result<Tensor> {
    let mut sizes = tensor.sizes().to_vec();
    match sizes.get_mut(dim) {
        Some(both) if size > 0 => *both /= size,
        _ => return Ok(tensor.clone()),
    }
    sizes.insert(dim, size);
    ops::reshape(tensor, &sizes)
}
