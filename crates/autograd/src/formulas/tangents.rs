//! Functions that only formulas of tangents call.

use crate::variable::tangents::strided_part;
use flambeau_core::{DimVec, Result};
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// The tangent of `as_strided` of `self_`.
///
/// # Errors
/// Those of `as_strided`.
pub fn as_strided_tangent(
    tangent: &Tensor,
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let offset = storage_offset.unwrap_or_else(|| self_.storage_offset());
    strided_part(tangent, self_, size, stride, offset)
}

/// A bias reshaped so that it broadcasts over the channels of a batch, which are its second dimension.
///
/// # Errors
/// Those of `reshape`.
pub fn along_channels(bias: &Tensor, result: &Tensor) -> Result<Tensor> {
    let mut sizes: DimVec = smallvec![-1];
    sizes.resize(result.sizes().len().max(2) - 1, 1);
    ops::reshape(bias, &sizes)
}

/// `tensor * weight`, if there is one.
///
/// # Errors
/// Those of `mul`.
pub fn scaled(tensor: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    weight.map_or_else(|| Ok(tensor.clone()), |weight| ops::mul_tensor(tensor, weight))
}

/// The same with a weight for each channel, which is the second dimension.
///
/// # Errors
/// Those of `mul`.
pub fn scaled_along_channels(tensor: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let weight = weight.map(|weight| along_channels(weight, tensor)).transpose()?;
    scaled(tensor, weight.as_ref())
}

/// The tangent of elements that were selected along a dimension, one each.
///
/// # Errors
/// Those of `gather`.
pub fn selected_tangent(tangent: &Tensor, dim: i64, indices: &Tensor, keepdim: bool) -> Result<Tensor> {
    if keepdim || tangent.dim() == 0 {
        return ops::gather(tangent, dim, indices, false);
    }
    ops::squeeze_dim(&ops::gather(tangent, dim, &ops::unsqueeze(indices, dim)?, false)?, dim)
}
