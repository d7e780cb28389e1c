//! New handles: tensors of no values, of zeros or ones, in another type; and other handles on the elements of one that is there.

use flambeau_core::{Device, Geometry, Result, Scalar, ScalarType, Storage, TensorImpl};
use flambeau_ops::{Tensor, ops};

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
fn of_bytes(like: &Tensor, bytes: &[u8]) -> Result<Tensor> {
    let geometry = Geometry::contiguous(like.sizes())?;
    Ok(Tensor::from_impl(TensorImpl::new(Storage::from_bytes(bytes)?, geometry, like.dtype())?))
}

/// Another handle on the same elements, and so on the same version counter, but with no history, hooks or gradient.
#[inline]
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_impl(tensor.impl_().shallow_copy()))
}

/// A tensor of zeros, with the type and device of `like`.
pub(crate) fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    let made = empty(sizes, like.dtype(), like.device())?;
    ops::fill__scalar(&made, Scalar::Int(0))?;
    Ok(made)
}

/// A tensor of ones, shaped and laid out like `like`: the gradient a scalar begins with.
pub(crate) fn ones_like(like: &Tensor) -> Result<Tensor> {
    match like.dtype() {
        ScalarType::F32 if is_one_number(like) => return of_bytes(like, &1f32.to_ne_bytes()),
        ScalarType::F64 if is_one_number(like) => return of_bytes(like, &1f64.to_ne_bytes()),
        _ => {}
    }
    let made = empty(like.sizes(), like.dtype(), like.device())?;
    ops::fill__scalar(&made, Scalar::Int(1))?;
    Ok(made)
}

fn is_one_number(tensor: &Tensor) -> bool {
    tensor.numel() == 1 && tensor.device().is_cpu()
}

/// `tensor` as elements of `dtype`.
pub(crate) fn to_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    let made = empty(tensor.sizes(), dtype, tensor.device())?;
    ops::copy_(&made, tensor, false)?;
    Ok(made)
}

/// `tensor` on `device`: itself if it is there.
pub(crate) fn on_device(tensor: &Tensor, device: Device) -> Result<Tensor> {
    if tensor.device() == device {
        return Ok(tensor.clone());
    }
    ops::_to_copy(tensor, None, None, Some(device), None, false, None)
}
