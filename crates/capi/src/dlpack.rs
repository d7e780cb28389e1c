//! Tensors as DLPack's versioned struct, and back, without a copy.

use crate::entry::{fallible, infallible, write};
use crate::handles::{borrow, give};
use flambeau_autograd::Autograd;
use flambeau_core::{
    Device, DimVec, Geometry, Layout, Result, ScalarType, Storage, TensorImpl, bail, ensure, shape,
};
use flambeau_ops::Tensor;
use flambeau_plugin::abi::{DLManagedTensorVersioned, FbError, FbTensor};
use std::ffi::c_void;
use std::{ptr, slice};

/// `DLTensor` of `dlpack.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    /// The elements, before the offset.
    pub data: *mut c_void,
    /// The kind of device, of which [`CPU`] is one.
    pub device_type: i32,
    /// The index of the device.
    pub device_id: i32,
    /// How many dimensions.
    pub ndim: i32,
    /// The code of the type.
    pub code: u8,
    /// Bits of a number of the type.
    pub bits: u8,
    /// Numbers in an element.
    pub lanes: u16,
    /// The sizes.
    pub shape: *mut i64,
    /// In elements; null for row-major ones.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensorVersioned` of `dlpack.h`.
#[repr(C)]
struct Managed {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DLTensor,
}

/// The major version of DLPack, of which structs are made.
pub const MAJOR: u32 = 1;
/// The minor version.
pub const MINOR: u32 = 1;
/// The flag of elements that must not be written.
pub const READ_ONLY: u64 = 1;
/// The device type of the host.
pub const CPU: i32 = 1;

/// DLPack's codes of types; how many bits one has follows from the type.
const CODES: [(ScalarType, u8); 19] = [
    (ScalarType::I8, 0),
    (ScalarType::I16, 0),
    (ScalarType::I32, 0),
    (ScalarType::I64, 0),
    (ScalarType::U8, 1),
    (ScalarType::U16, 1),
    (ScalarType::U32, 1),
    (ScalarType::U64, 1),
    (ScalarType::F16, 2),
    (ScalarType::F32, 2),
    (ScalarType::F64, 2),
    (ScalarType::BF16, 4),
    (ScalarType::Complex32, 5),
    (ScalarType::Complex64, 5),
    (ScalarType::Complex128, 5),
    (ScalarType::Bool, 6),
    (ScalarType::F8E4M3FN, 10),
    (ScalarType::F8E5M2, 12),
    (ScalarType::F8E8M0FNU, 14),
];

/// DLPack's code of a type, if it has one.
pub fn code_of(dtype: ScalarType) -> Option<u8> {
    CODES.iter().find(|(known, _)| *known == dtype).map(|(_, code)| *code)
}

/// The type of the elements of a struct, if there is one.
pub fn dtype_of(dl: &DLTensor) -> Option<ScalarType> {
    let is = |(dtype, code): &&(ScalarType, u8)| {
        *code == dl.code && 8 * dtype.size() == usize::from(dl.bits) && dl.lanes == 1
    };
    CODES.iter().find(is).map(|(dtype, _)| *dtype)
}

/// What an exported struct owns. It is the first field, so that its address is that of the block.
#[repr(C)]
struct Block {
    managed: Managed,
    sizes: DimVec,
    strides: DimVec,
    _tensor: Tensor,
}

/// # Safety
/// - The struct is the first of a block that [`export`] made, and this is called once.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: as above.
    infallible((), || drop(unsafe { Box::from_raw(managed.cast::<Block>()) }));
}

fn export(tensor: &Tensor) -> Result<*mut DLManagedTensorVersioned> {
    ensure!(
        tensor.device().is_cpu() && tensor.layout() == Layout::Strided,
        NotImplemented,
        "expected a strided tensor on the CPU but got one on {} of layout {}",
        tensor.device(),
        tensor.layout()
    );
    ensure!(
        !tensor.requires_grad(),
        Autograd,
        "expected a tensor that requires no gradient; detach it first"
    );
    let dtype = tensor.dtype();
    let Some(code) = code_of(dtype) else { bail!(Dtype, "DLPack has no name for {dtype}") };
    // An alias, whose geometry nobody changes.
    let tensor = Tensor::from_impl(tensor.impl_().shallow_copy());
    let view = tensor.strided_view();
    view.storage().pin()?;
    let data = match view.numel() {
        0 => ptr::null_mut(),
        _ => view.storage().data_ptr().wrapping_add(view.byte_offset()).cast(),
    };
    let described = DLTensor {
        data,
        device_type: CPU,
        device_id: 0,
        ndim: tensor.dim() as i32,
        code,
        bits: 8 * dtype.size() as u8,
        lanes: 1,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = Managed {
        major: MAJOR,
        minor: MINOR,
        manager: ptr::null_mut(),
        deleter: Some(delete),
        flags: u64::from(tensor.storage().is_read_only()) * READ_ONLY,
        tensor: described,
    };
    let (sizes, strides) = (DimVec::from_slice(tensor.sizes()), DimVec::from_slice(tensor.strides()));
    let mut block = Box::new(Block { managed, sizes, strides, _tensor: tensor });
    block.managed.tensor.shape = block.sizes.as_mut_ptr();
    block.managed.tensor.strides = block.strides.as_mut_ptr();
    Ok(Box::into_raw(block).cast())
}

/// Sizes, strides and the type of a struct, if a tensor can have them.
///
/// # Safety
/// - (struct) It is as `dlpack.h` has it.
unsafe fn described(dl: &DLTensor) -> Result<(Geometry, ScalarType)> {
    ensure!(
        dl.device_type == CPU,
        NotImplemented,
        "expected elements on the CPU but got device {}",
        dl.device_type
    );
    let Some(dtype) = dtype_of(dl) else {
        bail!(
            Dtype,
            "expected a type of elements but got code {}, {} bits, {} lanes",
            dl.code,
            dl.bits,
            dl.lanes
        )
    };
    // SAFETY: (struct).
    let listed = |first: *mut i64| match usize::try_from(dl.ndim) {
        Ok(0) => Ok(&[][..]),
        // SAFETY: (struct).
        Ok(count) if !first.is_null() => Ok(unsafe { slice::from_raw_parts(first.cast_const(), count) }),
        _ => bail!(InvalidArgument, "expected the sizes of {} dimensions but got none", dl.ndim),
    };
    let sizes = listed(dl.shape)?;
    shape::numel(sizes)?;
    let rows = shape::contiguous_strides(sizes);
    let given = if dl.strides.is_null() { &rows[..] } else { listed(dl.strides)? };
    // The stride of a dimension of one element is arbitrary.
    let stride = |((size, stride), row): ((&i64, &i64), &i64)| if *size > 1 { *stride } else { *row };
    let strides: DimVec = sizes.iter().zip(given).zip(rows.iter()).map(stride).collect();
    Ok((Geometry::strided(sizes, &strides, 0)?, dtype))
}

/// A struct that was taken over: its deleter is to be called once.
struct Taken(*mut Managed);

// SAFETY: DLPack lets the deleter be called on any thread.
unsafe impl Send for Taken {}

impl Taken {
    fn release(self) {
        // SAFETY: the struct lives until its deleter is called, which is here and once.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

/// # Safety
/// - (struct) It is as `dlpack.h` has it, and nobody else consumes it.
unsafe fn import(managed: *mut Managed) -> Result<Tensor> {
    // SAFETY: (struct).
    let Some(said) = (unsafe { managed.as_ref() }) else {
        bail!(InvalidArgument, "expected a struct but got NULL")
    };
    ensure!(
        said.major == MAJOR,
        NotImplemented,
        "expected DLPack 1 but got version {}.{}",
        said.major,
        said.minor
    );
    // SAFETY: (struct).
    let (geometry, dtype) = unsafe { described(&said.tensor) }?;
    let nbytes = geometry.nbytes(dtype)?;
    let data = said.tensor.data.cast::<u8>().wrapping_add(said.tensor.byte_offset as usize);
    ensure!(
        nbytes == 0 || (!data.is_null() && data.addr().is_multiple_of(dtype.to_real().size())),
        InvalidArgument,
        "expected memory that is aligned for elements of {dtype} but got the address {data:p}"
    );
    let read_only = said.flags & READ_ONLY != 0;
    let taken = Taken(managed);
    let release = Box::new(move || taken.release());
    // SAFETY: (struct): DLPack promises that the elements live until the deleter is called.
    let storage = unsafe {
        match read_only {
            true => Storage::from_foreign_read_only(data, nbytes, Device::CPU, release),
            false => Storage::from_foreign(data, nbytes, Device::CPU, release),
        }
    };
    TensorImpl::new(storage, geometry, dtype).map(Tensor::from_impl)
}

pub(crate) unsafe extern "C" fn dlpack_export(
    tensor: *const FbTensor,
    out: *mut *mut DLManagedTensorVersioned,
) -> *mut FbError {
    // SAFETY: what `flambeau.h` demands.
    fallible("dlpack_export", || unsafe { write(out, || export(&*borrow(tensor, "tensor")?)) })
}

pub(crate) unsafe extern "C" fn dlpack_import(
    managed: *mut DLManagedTensorVersioned,
    out: *mut *mut FbTensor,
) -> *mut FbError {
    // SAFETY: as above.
    fallible("dlpack_import", || unsafe { write(out, || import(managed.cast()).map(|tensor| give(&tensor))) })
}
