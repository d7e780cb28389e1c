//! Functions of tensors that touch no element.

use crate::entry::{fallible, infallible, list, write};
use crate::handles::{borrow, device, give, release, scalar_type, to_device, type_number};
use crate::kernels::Context;
use flambeau_autograd::Autograd;
use flambeau_core::Layout;
use flambeau_ops::{Tensor, ops};
use flambeau_plugin::abi::{FbDevice, FbDrop, FbError, FbTensor};
use std::ffi::{c_int, c_void};
use std::ptr;

pub(crate) unsafe extern "C" fn tensor_empty(
    sizes: *const i64,
    dims: usize,
    dtype: i32,
    on: FbDevice,
    out: *mut *mut FbTensor,
) -> *mut FbError {
    // SAFETY: what `flambeau.h` demands; so in the functions below.
    fallible("tensor_empty", || unsafe {
        write(out, || {
            let (sizes, dtype) = (list(sizes, dims, "sizes")?, scalar_type(i64::from(dtype))?);
            let on = device(on)?;
            ops::empty_memory_format(sizes, Some(dtype), None, Some(on), None, None).map(|made| give(&made))
        })
    })
}

pub(crate) unsafe extern "C" fn tensor_from_blob(
    data: *mut c_void,
    sizes: *const i64,
    strides: *const i64,
    dims: usize,
    dtype: i32,
    on: FbDevice,
    drop: Option<FbDrop>,
    context: *mut c_void,
    out: *mut *mut FbTensor,
) -> *mut FbError {
    fallible("tensor_from_blob", || {
        let context = Context::new(context, drop);
        // SAFETY: as above.
        unsafe {
            write(out, || {
                let (sizes, dtype) = (list(sizes, dims, "sizes")?, scalar_type(i64::from(dtype))?);
                let strides = if strides.is_null() { None } else { Some(list(strides, dims, "strides")?) };
                let deleter = Box::new(move || std::mem::drop(context));
                let made = Tensor::from_blob(data.cast(), sizes, strides, dtype, device(on)?, deleter)?;
                Ok(give(&made))
            })
        }
    })
}

pub(crate) unsafe extern "C" fn tensor_retain(tensor: *const FbTensor) -> *mut FbTensor {
    // SAFETY: as above.
    unsafe { borrow(tensor, "tensor") }.map_or(ptr::null_mut(), |tensor| give(&tensor))
}

pub(crate) unsafe extern "C" fn tensor_release(tensor: *mut FbTensor) {
    if !tensor.is_null() {
        // SAFETY: as above.
        infallible((), || unsafe { release(tensor) });
    }
}

/// What a tensor says of itself, or `otherwise` for NULL.
///
/// # Safety
/// - `tensor` is null or a handle.
unsafe fn said<T>(tensor: *const FbTensor, otherwise: T, of: impl FnOnce(&Tensor) -> T) -> T {
    // SAFETY: as above.
    match unsafe { borrow(tensor, "tensor") } {
        Ok(tensor) => of(&tensor),
        Err(_) => otherwise,
    }
}

pub(crate) unsafe extern "C" fn tensor_dim(tensor: *const FbTensor) -> usize {
    // SAFETY: as above.
    unsafe { said(tensor, 0, Tensor::dim) }
}

pub(crate) unsafe extern "C" fn tensor_sizes(tensor: *const FbTensor) -> *const i64 {
    // SAFETY: as above. Geometries live as long as their tensor.
    unsafe { said(tensor, ptr::null(), |tensor| tensor.sizes().as_ptr()) }
}

pub(crate) unsafe extern "C" fn tensor_strides(tensor: *const FbTensor) -> *const i64 {
    // SAFETY: as above.
    unsafe { said(tensor, ptr::null(), |tensor| tensor.strides().as_ptr()) }
}

pub(crate) unsafe extern "C" fn tensor_geometry(
    tensor: *const FbTensor,
    sizes: *mut *const i64,
    strides: *mut *const i64,
) -> usize {
    let lists = |tensor: &Tensor| {
        // Another thread may replace the geometry between two reads of it.
        let geometry = tensor.geometry();
        (geometry.dim(), geometry.sizes().as_ptr(), geometry.strides().as_ptr())
    };
    // SAFETY: as above. Geometries live as long as their tensor.
    let (dim, of_sizes, of_strides) = unsafe { said(tensor, (0, ptr::null(), ptr::null()), lists) };
    for (out, list) in [(sizes, of_sizes), (strides, of_strides)] {
        if !out.is_null() {
            // SAFETY: as above.
            unsafe { out.write(list) };
        }
    }
    dim
}

pub(crate) unsafe extern "C" fn tensor_numel(tensor: *const FbTensor) -> i64 {
    // SAFETY: as above.
    unsafe { said(tensor, 0, Tensor::numel) }
}

pub(crate) unsafe extern "C" fn tensor_dtype(tensor: *const FbTensor) -> i32 {
    // SAFETY: as above.
    unsafe { said(tensor, -1, |tensor| type_number(tensor.dtype())) }
}

pub(crate) unsafe extern "C" fn tensor_device(tensor: *const FbTensor) -> FbDevice {
    // SAFETY: as above.
    unsafe { said(tensor, FbDevice { kind: -1, index: -1 }, |tensor| to_device(tensor.device())) }
}

pub(crate) unsafe extern "C" fn tensor_layout(tensor: *const FbTensor) -> i32 {
    // SAFETY: as above.
    unsafe { said(tensor, 0, |tensor| i32::from(tensor.layout() != Layout::Strided)) }
}

pub(crate) unsafe extern "C" fn tensor_is_contiguous(tensor: *const FbTensor) -> c_int {
    // SAFETY: as above.
    c_int::from(unsafe { said(tensor, false, Tensor::is_contiguous) })
}

pub(crate) unsafe extern "C" fn tensor_requires_grad(tensor: *const FbTensor) -> c_int {
    // SAFETY: as above.
    c_int::from(unsafe { said(tensor, false, |tensor| tensor.requires_grad()) })
}

pub(crate) unsafe extern "C" fn tensor_grad(
    tensor: *const FbTensor,
    out: *mut *mut FbTensor,
) -> *mut FbError {
    // SAFETY: as above.
    fallible("tensor_grad", || unsafe {
        write(out, || {
            let grad = borrow(tensor, "tensor")?.grad();
            Ok(grad.as_ref().map_or(ptr::null_mut(), give))
        })
    })
}

pub(crate) unsafe extern "C" fn tensor_set_requires_grad(
    tensor: *mut FbTensor,
    requires_grad: c_int,
) -> *mut FbError {
    fallible("tensor_set_requires_grad", || {
        // SAFETY: as above.
        let tensor = unsafe { borrow(tensor, "tensor") }?;
        tensor.requires_grad_(requires_grad != 0).map(|_| ())
    })
}
