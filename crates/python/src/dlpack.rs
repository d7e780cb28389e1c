//! DLPack 1.x: tensors from and to any library that supports it, without a copy, in versioned and unversioned capsules.
//!
//! The structs are those of `dlpack.h`. A capsule can be consumed once: the consumer renames it, and calls the deleter when it
//! needs the elements no more, on any thread. A capsule that nobody consumed calls the deleter in its destructor.

#![expect(unsafe_code, reason = "reads and makes the C structs of DLPack")]

use crate::call::{call, call_named};
use crate::errors::raise;
use crate::foreign::{
    Foreign, call_release, ensure_strided, pinned_data_ptr, snapshot_geometry, view_of_storage,
};
use crate::tensor::{PyTensor, wrap};
use flambeau_autograd::Autograd;
use flambeau_capi::dlpack::{self, CPU, DLTensor, MAJOR, MINOR, READ_ONLY};
use flambeau_core::{Device, DeviceType, DimVec, Geometry, ScalarType, shape};
use flambeau_ops::{Tensor, ops};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, c_void};
use std::{ptr, slice};

type Object<'py> = Bound<'py, PyAny>;

/// `DLManagedTensor`, the struct before DLPack 1.0, which has no version field.
#[repr(C)]
struct Unversioned {
    tensor: DLTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DLTensor,
}

/// The flag of elements that were copied for the consumer.
const COPIED: u64 = 2;
/// The number of NVIDIA's devices.
const CUDA: i32 = 2;
/// The stream that work without a stream is in, of which DLPack and the driver have the same number.
const LEGACY_STREAM: i64 = 1;

/// One of the two structs: its capsule names, and access to the fields that both have.
trait Managed: Sized + 'static {
    const NAME: &'static CStr;
    const USED: &'static CStr;

    fn tensor(&self) -> &DLTensor;
    fn manager(&self) -> *mut c_void;
    fn is_read_only(&self) -> bool;
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
    fn made(tensor: DLTensor, flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self;
}

impl Managed for Unversioned {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    fn tensor(&self) -> &DLTensor {
        &self.tensor
    }

    fn manager(&self) -> *mut c_void {
        self.manager
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn made(tensor: DLTensor, _: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Unversioned { tensor, manager: manager(), deleter: Some(deleter) }
    }
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    fn tensor(&self) -> &DLTensor {
        &self.tensor
    }

    fn manager(&self) -> *mut c_void {
        self.manager
    }

    fn is_read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn made(tensor: DLTensor, flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Versioned { major: MAJOR, minor: MINOR, manager: manager(), deleter: Some(deleter), flags, tensor }
    }
}

/// The `manager_ctx` of structs that this module exports, by which it recognises its own tensors when they are imported again.
fn manager() -> *mut c_void {
    static MARK: u8 = 0;
    ptr::from_ref(&MARK).cast_mut().cast()
}

/// What an exported capsule owns; the struct is the first field, so that its address is that of the block.
#[repr(C)]
struct Block<M> {
    managed: M,
    shape: DimVec,
    strides: DimVec,
    tensor: Tensor,
}

/// # Safety
/// - The struct is the first of a block that [`export`] made, and this is called once.
unsafe extern "C" fn delete_block<M>(managed: *mut M) {
    // SAFETY: as above.
    unsafe { drop(Box::from_raw(managed.cast::<Block<M>>())) }
}

/// # Safety
/// - The interpreter calls it with a capsule of [`export`].
unsafe extern "C" fn drop_capsule<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: as above; a capsule that still has its first name was not consumed, so the struct is alive.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast::<M>();
            call_release(|| delete_block(managed));
        }
    }
}

fn export<M: Managed>(py: Python<'_>, tensor: Tensor, flags: u64) -> PyResult<Object<'_>> {
    ensure_strided(&tensor)?;
    let tensor = snapshot_geometry(&tensor);
    let described = described(&tensor)?;
    // The stride of a dimension of one element is arbitrary; libraries that test for contiguity expect 1.
    let stride = |(size, stride): (&i64, &i64)| if *size < 2 { 1 } else { *stride };
    let block = Block {
        managed: M::made(described, flags, delete_block::<M>),
        shape: DimVec::from_slice(tensor.sizes()),
        strides: tensor.sizes().iter().zip(tensor.strides()).map(stride).collect(),
        tensor,
    };
    let block = Box::into_raw(Box::new(block));
    // SAFETY: the block is ours until the capsule has it. Both structs are plain, and hold the addresses of the lists beside.
    unsafe {
        let tensor = ptr::from_ref((*block).managed.tensor()).cast_mut();
        (*tensor).shape = (*block).shape.as_mut_ptr();
        (*tensor).strides = (*block).strides.as_mut_ptr();
        let capsule = ffi::PyCapsule_New(block.cast(), M::NAME.as_ptr(), Some(drop_capsule::<M>));
        if capsule.is_null() {
            drop(Box::from_raw(block));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

fn described(tensor: &Tensor) -> PyResult<DLTensor> {
    let dtype = tensor.dtype();
    let Some(code) = dlpack::code_of(dtype) else {
        return Err(PyBufferError::new_err(format!("{dtype} types are not supported by dlpack")));
    };
    let data = pinned_data_ptr(tensor)?;
    let (device_type, device_id) = number_of(tensor.device())?;
    Ok(DLTensor {
        data: if tensor.numel() == 0 { ptr::null_mut() } else { data.cast() },
        device_type,
        device_id,
        ndim: tensor.dim() as i32,
        code,
        bits: 8 * dtype.size() as u8,
        lanes: 1,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    })
}

/// The kind and number of a device, as DLPack counts them.
fn number_of(device: Device) -> PyResult<(i32, i32)> {
    match device.device_type() {
        DeviceType::Cpu => Ok((CPU, 0)),
        DeviceType::Cuda => Ok((CUDA, device.index().unwrap_or(0) as i32)),
        _ => Err(PyBufferError::new_err(format!("Unknown device type {device} for Dlpack"))),
    }
}

/// The device of a kind and number of DLPack.
fn device_of(kind: i32, number: i32) -> PyResult<Device> {
    match (kind, u8::try_from(number)) {
        (CPU, _) => Ok(Device::CPU),
        (CUDA, Ok(number)) => Ok(Device::cuda(number)),
        _ => Err(PyBufferError::new_err(format!(
            "tensors of DLPack's device ({kind}, {number}) are not implemented"
        ))),
    }
}

#[pymethods]
impl PyTensor {
    /// A capsule for another library's `from_dlpack`; of version 1 where `max_version` says that it is understood.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Object<'py>> {
        ensure_exportable(self.tensor(), stream, dl_device)?;
        if self.tensor().device().device_type() == DeviceType::Cuda {
            // -1 says that the consumer waits by itself.
            let stream = Some(stream.unwrap_or(LEGACY_STREAM)).filter(|stream| *stream != -1);
            flambeau_cuda::hand_over(self.tensor(), stream.map(|stream| stream as usize)).map_err(raise)?;
        }
        let read_only = self.tensor().impl_().storage().is_read_only();
        let copied = copy == Some(true);
        let tensor =
            if copied { ops::clone(self.tensor(), None).map_err(raise)? } else { self.tensor().clone() };
        if max_version.is_some_and(|(major, _)| major >= MAJOR) {
            let flags = if copied { COPIED } else { u64::from(read_only) * READ_ONLY };
            return export::<Versioned>(py, tensor, flags);
        }
        if read_only && !copied {
            return Err(PyBufferError::new_err(
                "a read-only tensor needs DLPack 1.0 or a copy: an older capsule cannot say that it is read-only",
            ));
        }
        export::<Unversioned>(py, tensor, 0)
    }

    /// The kind and number of the device, as DLPack counts them.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        number_of(self.tensor().device())
    }
}

fn ensure_exportable(tensor: &Tensor, stream: Option<i64>, device: Option<(i32, i32)>) -> PyResult<()> {
    let problem = match () {
        () if tensor.requires_grad() => {
            "Can't export tensors that require gradient, use tensor.detach()".to_owned()
        }
        () if tensor.device().is_cpu() && !tensor.storage().is_host() => {
            "a tensor without elements of its own cannot be exported".to_owned()
        }
        () if tensor.device().is_cpu() && stream.is_some_and(|stream| stream != -1) => {
            "expected `stream` to be None or -1 for a tensor on the CPU".to_owned()
        }
        () if stream.is_some_and(|stream| stream == 0 || stream < -1) => {
            "expected `stream` to be a stream of CUDA, 1, 2 or -1, since 0 may be the first or the second"
                .to_owned()
        }
        () if device.is_some_and(|device| !number_of(tensor.device()).is_ok_and(|own| own == device)) => {
            format!("cannot export a tensor on {} to another device", tensor.device())
        }
        () => return Ok(()),
    };
    Err(PyBufferError::new_err(problem))
}

/// A tensor that shares the elements of an object of another library, or of a capsule, which is consumed.
#[pyfunction]
#[pyo3(signature = (ext_tensor, *, device = None, copy = None))]
fn from_dlpack<'py>(
    ext_tensor: &Object<'py>,
    device: Option<&Object<'py>>,
    copy: Option<bool>,
) -> PyResult<Object<'py>> {
    let py = ext_tensor.py();
    let device = device.map(crate::arguments::device_of).transpose()?;
    let tensor = if is_capsule(ext_tensor) {
        import(ext_tensor)?
    } else {
        if !ext_tensor.hasattr("__dlpack__")? {
            let class = crate::arguments::type_name(ext_tensor);
            return Err(PyTypeError::new_err(format!("expected an object with __dlpack__ but got {class}")));
        }
        import(&capsule_of(ext_tensor, copy)?)?
    };
    if let Some(device) = device.filter(|device| device.device_type() != tensor.device().device_type()) {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack from {} to {device} is not implemented; use `to` afterwards",
            tensor.device()
        )));
    }
    wrap(py, tensor)
}

/// A tensor that shares the elements of another library's tensor; `None` for what exports none.
pub(crate) fn exported(value: &Object<'_>) -> PyResult<Option<Tensor>> {
    if crate::numpy::is_builtin(value) || !value.get_type().hasattr("__dlpack__")? {
        return Ok(None);
    }
    import(&capsule_of(value, None)?).map(Some)
}

fn is_capsule(value: &Object<'_>) -> bool {
    value.is_instance_of::<pyo3::types::PyCapsule>()
}

/// The driver's handle of the stream in which this thread is going to use the elements of an object; `None` on the host.
fn stream_for(object: &Object<'_>) -> PyResult<Option<usize>> {
    if !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (kind, number): (i32, i32) = call(&object.getattr("__dlpack_device__")?, ())?.extract()?;
    stream_of(kind, number)
}

/// The driver's handle of this thread's stream of a device; `None` for the host.
fn stream_of(kind: i32, number: i32) -> PyResult<Option<usize>> {
    let unusable =
        |e| PyBufferError::new_err(format!("DLPack's device ({kind}, {number}) cannot be used: {e}"));
    match device_of(kind, number)?.index().filter(|_| kind == CUDA) {
        Some(index) => flambeau_cuda::Stream::current(index).address().map(Some).map_err(unusable),
        None => Ok(None),
    }
}

/// Requests a versioned capsule, and an unversioned one where the library has no other.
fn capsule_of<'py>(object: &Object<'py>, copy: Option<bool>) -> PyResult<Object<'py>> {
    let py = object.py();
    let keywords = PyDict::new(py);
    keywords.set_item("max_version", PyTuple::new(py, [MAJOR, MINOR])?)?;
    let stream = stream_for(object)?;
    if let Some(stream) = stream {
        keywords.set_item("stream", stream)?;
    }
    if let Some(copy) = copy {
        keywords.set_item("copy", copy)?;
    }
    let export = object.getattr("__dlpack__")?;
    match call_named(&export, (), Some(&keywords)) {
        Err(error) if copy.is_none() && error.is_instance_of::<PyTypeError>(py) => {
            keywords.del_item("max_version")?;
            call_named(&export, (), Some(&keywords))
        }
        made => made,
    }
}

fn import(capsule: &Object<'_>) -> PyResult<Tensor> {
    // SAFETY: `PyCapsule_IsValid` takes any object.
    let is = |name: &CStr| unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1 };
    if is(Versioned::NAME) {
        // SAFETY: a capsule of that name holds such a struct, and of every version these two numbers come first.
        let (major, minor) = unsafe {
            let managed = pointer::<Versioned>(capsule)?;
            ((*managed).major, (*managed).minor)
        };
        if major != MAJOR {
            let message = format!("expected DLPack of version {MAJOR} but got {major}.{minor}");
            return Err(PyBufferError::new_err(message));
        }
        return take::<Versioned>(capsule);
    }
    if is(Unversioned::NAME) {
        return take::<Unversioned>(capsule);
    }
    Err(PyRuntimeError::new_err(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have \
         already constructed a tensor from it once.",
    ))
}

fn pointer<M: Managed>(capsule: &Object<'_>) -> PyResult<*mut M> {
    // SAFETY: `PyCapsule_GetPointer` takes any object, and sets an exception for one that is no such capsule.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), M::NAME.as_ptr()) };
    if pointer.is_null() { Err(PyErr::fetch(capsule.py())) } else { Ok(pointer.cast()) }
}

/// A struct taken out of a capsule, which may be released on any thread.
struct Taken<M>(*mut M);

// SAFETY: DLPack has deleters that may be called on any thread.
unsafe impl<M> Send for Taken<M> {}

impl<M: Managed> Taken<M> {
    /// A tensor of the same storage, if the struct is one of ours.
    fn own(&self, foreign: &Foreign<'_>) -> Option<Tensor> {
        // SAFETY: the struct lives until its deleter is called; with this manager it is the first of a block.
        unsafe {
            if (*self.0).manager() != manager() {
                return None;
            }
            view_of_storage(foreign, (*self.0.cast::<Block<M>>()).tensor.impl_().storage())
        }
    }

    /// Calls the deleter.
    fn release(self) {
        // SAFETY: the struct lives until its deleter is called, which is here and once.
        unsafe {
            if let Some(deleter) = (*self.0).deleter() {
                call_release(|| deleter(self.0));
            }
        }
    }
}

/// The tensor of a capsule, which is consumed; not where this fails, so that the capsule's destructor frees its elements.
fn take<M: Managed>(capsule: &Object<'_>) -> PyResult<Tensor> {
    let managed = pointer::<M>(capsule)?;
    // SAFETY: a capsule of that name holds such a struct.
    let (dl, read_only) = unsafe { (*(*managed).tensor(), (*managed).is_read_only()) };
    let device = device_of(dl.device_type, dl.device_id)?;
    stream_of(dl.device_type, dl.device_id)?;
    let dtype = dtype_of(&dl)?;
    // SAFETY: a struct that a capsule holds is as `dlpack.h` has it.
    let sizes = unsafe { listed(dl.shape, dl.ndim) }?;
    let strides = if dl.strides.is_null() {
        Geometry::contiguous(sizes).map_err(raise)?.strides().into()
    } else {
        // SAFETY: as above.
        strides_of(sizes, unsafe { listed(dl.strides, dl.ndim) }?)?
    };
    let data = dl.data.cast::<u8>().wrapping_add(dl.byte_offset as usize);
    let foreign = Foreign { data, sizes, strides: &strides, dtype, read_only };
    let geometry = foreign.geometry()?;
    // SAFETY: the capsule has the other name, which is a static.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), M::USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    let taken = Taken(managed);
    if let Some(tensor) = taken.own(&foreign) {
        taken.release();
        return Ok(tensor);
    }
    // SAFETY: (valid) DLPack guarantees that elements live until the deleter is called; (shared) is the caller's responsibility.
    unsafe { foreign.into_tensor_on(device, geometry, Box::new(move || taken.release())) }
}

/// # Safety
/// - `count` numbers at `first`, or none and anything.
unsafe fn listed<'a>(first: *const i64, count: i32) -> PyResult<&'a [i64]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: as above.
        Ok(count) if !first.is_null() => Ok(unsafe { slice::from_raw_parts(first, count) }),
        _ => Err(PyBufferError::new_err(format!("expected the sizes of {count} dimensions but got none"))),
    }
}

/// Strides that a tensor can have: those of dimensions with one element, which are arbitrary, are replaced.
fn strides_of(sizes: &[i64], strides: &[i64]) -> PyResult<DimVec> {
    let negative = |(size, stride): (&i64, &i64)| *size > 1 && *stride < 0;
    if sizes.iter().zip(strides).any(negative) {
        return Err(PyBufferError::new_err(format!(
            "tensors with negative strides ({strides:?}) are not supported; copy the array first"
        )));
    }
    shape::numel(sizes).map_err(raise)?;
    let rows = shape::contiguous_strides(sizes);
    let stride = |((size, stride), row): ((&i64, &i64), &i64)| if *size > 1 { *stride } else { *row };
    Ok(sizes.iter().zip(strides).zip(rows.iter()).map(stride).collect())
}

fn dtype_of(dl: &DLTensor) -> PyResult<ScalarType> {
    dlpack::dtype_of(dl).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "tensors of DLPack's type (code {}, {} bits, {} lanes) are not implemented yet",
            dl.code, dl.bits, dl.lanes
        ))
    })
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
