//! Derivatives of operators that join, split, pad and index tensors.

use crate::factory::zeros;
use flambeau_core::{DimVec, Error, ErrorKind, Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// The gradient of each of the tensors of `sizes` that `cat` has concatenated.
pub fn cat_backward(grad: &Tensor, sizes: &[DimVec], dim: i64) -> Result<Vec<Tensor>> {
    let mut start = 0;
    let mut part = |sizes: &DimVec| {
        // `cat` skips empty vectors, whatever the rank of the other tensors.
        if sizes.as_slice() == [0] {
            return zeros(sizes, grad);
        }
        let d = flambeau_core::shape::wrap_dim(dim, sizes.len())?;
        let from = start;
        start += sizes[d];
        ops::slice_tensor(grad, dim, Some(from), Some(start), 1)
    };
    sizes.iter().map(&mut part).collect()
}

/// Concatenates gradients of pieces of the given lengths; zeros stand for those that were not computed.
fn joined(grads: &[Option<Tensor>], lengths: &[i64], dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let like = grads.iter().flatten().next();
    let like = like.ok_or_else(|| Error::new(ErrorKind::Internal, "expected a gradient of some piece"))?;
    let d = flambeau_core::shape::wrap_dim(dim, sizes.len())?;
    let piece = |(grad, length): (&Option<Tensor>, &i64)| match grad {
        Some(grad) => Ok(grad.clone()),
        None => {
            let mut sizes = DimVec::from_slice(sizes);
            sizes[d] = *length;
            zeros(&sizes, like)
        }
    };
    let pieces: Result<Vec<Tensor>> = grads.iter().zip(lengths).map(piece).collect();
    ops::cat(&pieces?, dim)
}

/// The gradient of `split`.
pub fn split_backward(grads: &[Option<Tensor>], split_size: i64, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = flambeau_core::shape::wrap_dim(dim, sizes.len())?;
    let length = |n: i64| split_size.min(sizes[d] - n * split_size);
    let lengths: Vec<i64> = (0..grads.len() as i64).map(length).collect();
    joined(grads, &lengths, dim, sizes)
}

/// The gradient of `split_with_sizes`.
pub fn split_with_sizes_backward(
    grads: &[Option<Tensor>],
    split_sizes: &[i64],
    dim: i64,
    sizes: &[i64],
) -> Result<Tensor> {
    joined(grads, split_sizes, dim, sizes)
}

/// The gradient of `unbind`.
pub fn unbind_backward(grads: &[Option<Tensor>], dim: i64) -> Result<Tensor> {
    let like = grads.iter().flatten().next();
    let like = like.ok_or_else(|| Error::new(ErrorKind::Internal, "expected a gradient of some slice"))?;
    let slice = |grad: &Option<Tensor>| match grad {
        Some(grad) => Ok(grad.clone()),
        None => zeros(like.sizes(), like),
    };
    let slices: Result<Vec<Tensor>> = grads.iter().map(slice).collect();
    ops::stack(&slices?, dim)
}

/// The gradient of `repeat`: the sum over the copies of a tensor of `sizes`.
pub fn repeat_backward(grad: &Tensor, repeats: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let missing = repeats.len().saturating_sub(sizes.len());
    let (mut apart, mut copies) = (DimVec::new(), DimVec::new());
    for (d, times) in repeats.iter().enumerate() {
        copies.push(apart.len() as i64);
        apart.extend([*times, if d < missing { 1 } else { sizes[d - missing] }]);
    }
    if copies.is_empty() {
        return Ok(grad.clone());
    }
    if repeats.contains(&0) {
        return zeros(sizes, grad);
    }
    ops::reshape(&ops::sum_dim_intlist(&ops::reshape(grad, &apart)?, Some(&copies), false, None)?, sizes)
}

/// The gradient of `roll`: the opposite shifts.
pub fn roll_backward(grad: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    let back: DimVec = shifts.iter().map(|shift| shift.saturating_neg()).collect();
    ops::roll(grad, &back, dims)
}

/// The gradient of `constant_pad_nd`: elements that were added are cut off, and those that were cut off have the gradient zero.
pub fn constant_pad_backward(grad: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let back: DimVec = pad.iter().map(|n| n.saturating_neg()).collect();
    ops::constant_pad_nd(grad, &back, Scalar::Int(0))
}

/// The gradient of `index`: summed at the indices that were read.
pub fn index_backward(grad: &Tensor, sizes: &[i64], indices: &[Option<Tensor>]) -> Result<Tensor> {
    ops::index_put(&zeros(sizes, grad)?, indices, grad, true)
}

/// The gradient of `take`.
pub fn take_backward(grad: &Tensor, sizes: &[i64], index: &Tensor) -> Result<Tensor> {
    ops::put(&zeros(sizes, grad)?, index, grad, true)
}

/// The gradient of `masked_select`, of an input of `sizes`.
pub fn masked_select_backward(grad: &Tensor, sizes: &[i64], mask: &Tensor) -> Result<Tensor> {
    let whole = flambeau_core::shape::broadcast(sizes, mask.sizes())?;
    ops::masked_scatter(&zeros(&whole, grad)?, mask, grad)
}

/// The gradient of `embedding_dense_backward`: the rows with the given indices, zeros for `padding_idx`.
pub fn embedding_double_backward(
    grad: &Tensor,
    indices: &Tensor,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    let rows = ops::embedding(grad, indices, -1, false, false)?;
    let rows = if scale_grad_by_freq { ops::div_tensor(&rows, &frequencies(grad, indices)?)? } else { rows };
    if padding_idx < 0 {
        return Ok(rows);
    }
    let padding = ops::unsqueeze(&ops::eq_scalar(indices, Scalar::Int(padding_idx))?, -1)?;
    ops::masked_fill_scalar(&rows, &padding, Scalar::Int(0))
}

/// For each element of `indices`, how often its value occurs there, with the dtype of `weight`.
fn frequencies(weight: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let flat = ops::reshape(indices, &[-1])?;
    let one = ops::ones(flat.sizes(), Some(weight.dtype()), None, Some(weight.device()), None)?;
    let counts = ops::index_add(&zeros(&weight.sizes()[..1], weight)?, 0, &flat, &one, Scalar::Int(1))?;
    let each = ops::reshape(&ops::index_select(&counts, 0, &flat)?, indices.sizes())?;
    ops::unsqueeze(&each, -1)
}
