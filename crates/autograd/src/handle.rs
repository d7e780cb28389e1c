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

/// Another handle on the same elements, and so on the same version counter, but with no history, hooks or gradient.
#[inline]
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_impl(tensor.impl_().shallow_copy()))
}
