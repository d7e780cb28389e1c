//! New tensors without history: uninitialised, of zeros or ones, or a copy in another type or on another device.

use crate::alias;
use flambeau_core::{
    Device, DispatchKey, DispatchKeySet, Geometry, Result, Scalar, ScalarType, Storage, TensorImpl,
};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};

/// An uninitialised tensor, row-major.
pub(crate) fn empty(sizes: &[i64], dtype: ScalarType, device: Device) -> Result<Tensor> {
    with_geometry(Geometry::contiguous(sizes)?, dtype, device)
}

/// An uninitialised tensor with these strides, which must not overlap.
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

/// A row-major tensor on the CPU with these bytes as its elements, of the sizes and dtype of `like`.
fn from_bytes_like(like: &Tensor, bytes: &[u8]) -> Result<Tensor> {
    let geometry = Geometry::contiguous(like.sizes())?;
    Ok(Tensor::from_impl(TensorImpl::new(Storage::from_bytes(bytes)?, geometry, like.dtype())?))
}

/// A tensor of zeros, with the dtype and device of `like`; batched or a wrapper as `like` is, so that it can be written with its values.
pub(crate) fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    if is_batched(like) || alias::is_wrapper(like) {
        return ops::new_zeros(like, sizes, None, None, None, None);
    }
    let made = empty(sizes, like.dtype(), like.device())?;
    ops::fill__scalar(&made, Scalar::Int(0))?;
    Ok(made)
}

/// A tensor of ones with the sizes, dtype and device of `like`: the gradient with which a backward pass from a scalar starts.
pub(crate) fn ones_like(like: &Tensor) -> Result<Tensor> {
    match like.dtype() {
        ScalarType::F32 if has_one_element_on_cpu(like) => return from_bytes_like(like, &1f32.to_ne_bytes()),
        ScalarType::F64 if has_one_element_on_cpu(like) => return from_bytes_like(like, &1f64.to_ne_bytes()),
        _ if alias::is_wrapper(like) => return ops::ones_like(like, None, None, None, None, None),
        _ => {}
    }
    let made = empty(like.sizes(), like.dtype(), like.device())?;
    ops::fill__scalar(&made, Scalar::Int(1))?;
    Ok(made)
}

fn has_one_element_on_cpu(tensor: &Tensor) -> bool {
    const KEYS: DispatchKeySet = DispatchKeySet::BACKENDS.union(DispatchKeySet::of(DispatchKey::Python));
    tensor.numel() == 1 && tensor.key_set().and(KEYS) == DispatchKeySet::of(DispatchKey::Cpu)
}

/// A copy of `tensor` with elements of type `dtype`.
pub(crate) fn to_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if alias::is_wrapper(tensor) || is_batched(tensor) {
        return ops::_to_copy(tensor, Some(dtype), None, None, None, false, None);
    }
    let made = empty(tensor.sizes(), dtype, tensor.device())?;
    ops::copy_(&made, tensor, false)?;
    Ok(made)
}

/// `tensor` on `device`: the tensor itself if it is there already, else a copy.
pub(crate) fn on_device(tensor: &Tensor, device: Device) -> Result<Tensor> {
    if tensor.device() == device {
        return Ok(tensor.clone());
    }
    ops::_to_copy(tensor, None, None, Some(device), None, false, None)
}
