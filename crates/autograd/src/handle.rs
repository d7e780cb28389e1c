//! New handles: tensors without values, and other handles on the elements of one that is there. They have no history.

use flambeau_core::{Device, Geometry, Result, ScalarType, Storage, TensorImpl};
use flambeau_ops::Tensor;

/// A tensor without values, row-major.
pub(crate) fn empty(sizes: &[i64], dtype: ScalarType, device: Device) -> Result<Tensor> {
    with_geometry(Geometry::contiguous(sizes)?, dtype, device)
}

/// A tensor without values, with these strides, which must not overlap.
pub(crate) fn empty_strided(
    sizes: &[i64],
    strides: &[i64],
    dtype: ScalarType,
    device: Device,
) -> Result<Tensor> {
    with_geometry(Geometry::strided(sizes, strides, 0)?, dtype, device)
}

fn with_geometry(geometry: Geometry, dtype: ScalarType, device: Device) -> Result<Tensor> {
    let storage = Storage::new(geometry.nbytes(dtype)?, device)?;
    Ok(Tensor::from_impl(TensorImpl::new(storage, geometry, dtype)?))
}

/// A tensor of these bytes on the host, shaped like `like` and of its type; row-major.
pub(crate) fn of_bytes(like: &Tensor, bytes: &[u8]) -> Result<Tensor> {
    let geometry = Geometry::contiguous(like.sizes())?;
    Ok(Tensor::from_impl(TensorImpl::new(Storage::from_bytes(bytes)?, geometry, like.dtype())?))
}

/// Another handle on the same elements, and so on the same version counter, but with no history, hooks or gradient.
#[inline]
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_impl(tensor.impl_().shallow_copy()))
}
