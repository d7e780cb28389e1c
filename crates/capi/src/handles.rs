//! Tensors and operators as pointers, devices and types of elements as numbers.

use flambeau_core::{Device, DeviceType, IntrusivePtr, Result, ScalarType, TensorImpl, ensure, error};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::OperatorInfo;
use flambeau_plugin::abi::{FbDevice, FbOperator, FbTensor};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A tensor that C owns.
pub(crate) struct Borrowed(ManuallyDrop<Tensor>);

impl Deref for Borrowed {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// The tensor of a handle.
///
/// # Safety
/// - (handle) It is null, or a handle that outlives the result.
pub(crate) unsafe fn borrow(handle: *const FbTensor, name: &str) -> Result<Borrowed> {
    ensure!(!handle.is_null(), InvalidArgument, "expected a tensor for `{name}` but got NULL");
    // SAFETY: (handle); it is not dropped, so that the count stays.
    let tensor = unsafe { IntrusivePtr::from_raw(handle.cast::<TensorImpl>()) };
    Ok(Borrowed(ManuallyDrop::new(Tensor::from_impl(tensor))))
}

/// A handle that its receiver releases.
pub(crate) fn give(tensor: &Tensor) -> *mut FbTensor {
    IntrusivePtr::into_raw(tensor.impl_().clone()).cast_mut().cast()
}

/// A handle that lives as long as the tensor.
pub(crate) fn as_handle(tensor: &Tensor) -> *mut FbTensor {
    IntrusivePtr::as_ptr(tensor.impl_()).cast_mut().cast()
}

/// Releases a handle.
///
/// # Safety
/// - (handle) [`give`] made it, and it is not used after.
pub(crate) unsafe fn release(handle: *mut FbTensor) {
    // SAFETY: (handle).
    drop(unsafe { IntrusivePtr::from_raw(handle.cast_const().cast::<TensorImpl>()) });
}

/// An operator, and its texts as C reads them.
pub(crate) struct OperatorHandle {
    pub(crate) operator: &'static dyn OperatorInfo,
    pub(crate) name: CString,
    pub(crate) schema: CString,
}

/// One handle for each operator that C has seen, by the operator's address. They stay for as long as operators do.
static OPERATORS: Mutex<Option<HashMap<usize, &'static OperatorHandle>>> = Mutex::new(None);

/// The handle of an operator.
pub(crate) fn of_operator(operator: &'static dyn OperatorInfo) -> *mut FbOperator {
    let make = || {
        let (name, schema) = (operator.name(), operator.schema());
        let (name, schema) = (super::entry::c_string(name), super::entry::c_string(schema));
        &*Box::leak(Box::new(OperatorHandle { operator, name, schema }))
    };
    let mut handles = OPERATORS.lock();
    let handles = handles.get_or_insert_default();
    let handle = *handles.entry(std::ptr::from_ref(operator).addr()).or_insert_with(make);
    std::ptr::from_ref(handle).cast_mut().cast()
}

/// The operator of a handle.
///
/// # Safety
/// - (handle) It is null, or [`of_operator`] made it.
pub(crate) unsafe fn operator(handle: *const FbOperator) -> Result<&'static OperatorHandle> {
    // SAFETY: (handle); handles are never freed.
    unsafe { handle.cast::<OperatorHandle>().as_ref() }
        .ok_or_else(|| error!(InvalidArgument, "expected an operator but got NULL"))
}

/// PyTorch's numbers.
const TYPES: [(ScalarType, i32); 19] = [
    (ScalarType::U8, 0),
    (ScalarType::I8, 1),
    (ScalarType::I16, 2),
    (ScalarType::I32, 3),
    (ScalarType::I64, 4),
    (ScalarType::F16, 5),
    (ScalarType::F32, 6),
    (ScalarType::F64, 7),
    (ScalarType::Complex32, 8),
    (ScalarType::Complex64, 9),
    (ScalarType::Complex128, 10),
    (ScalarType::Bool, 11),
    (ScalarType::BF16, 15),
    (ScalarType::F8E5M2, 23),
    (ScalarType::F8E4M3FN, 24),
    (ScalarType::U16, 27),
    (ScalarType::U32, 28),
    (ScalarType::U64, 29),
    (ScalarType::F8E8M0FNU, 44),
];

/// The number of a type; -1 for those that C has no name for.
pub(crate) fn type_number(dtype: ScalarType) -> i32 {
    TYPES.iter().find(|(known, _)| *known == dtype).map_or(-1, |(_, number)| *number)
}

pub(crate) fn scalar_type(number: i64) -> Result<ScalarType> {
    let found = TYPES.iter().find(|(_, known)| i64::from(*known) == number);
    found.map(|(dtype, _)| *dtype).ok_or_else(|| {
        error!(InvalidArgument, "expected a type of elements such as FB_FLOAT32 but got the number {number}")
    })
}

pub(crate) fn to_device(device: Device) -> FbDevice {
    let index = device.index().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
    FbDevice { kind: device.device_type() as i32, index }
}

pub(crate) fn device(of: FbDevice) -> Result<Device> {
    let kind = DeviceType::ALL.into_iter().find(|kind| *kind as i32 == of.kind);
    let Some(kind) = kind else {
        return Err(error!(
            Device,
            "expected a kind of devices such as FB_CPU but got the number {}", of.kind
        ));
    };
    let index = if of.index == -1 { None } else { u8::try_from(of.index).ok().filter(|index| *index < 128) };
    ensure!(
        of.index == -1 || index.is_some(),
        Device,
        "expected the number of a device, from 0 to 127, or -1 but got {}",
        of.index
    );
    Ok(Device::new(kind, index))
}
