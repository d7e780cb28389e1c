//! The functions of NVIDIA's driver that the crate calls, and their errors. All are in every driver since CUDA 12.0.
#![expect(unsafe_code, reason = "calls the driver")]

use crate::library::{Library, api};
use flambeau_core::{Error, ErrorKind, Result, error};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// An address in a device's memory.
pub(crate) type DevicePtr = u64;

/// A context, stream, event, module or function of the driver.
pub(crate) type Handle = *mut c_void;

api! {
    /// The driver's functions, named as there.
    Driver {
        init = c"cuInit" (flags: u32);
        driver_get_version = c"cuDriverGetVersion" (version: *mut i32);
        get_error_name = c"cuGetErrorName" (status: i32, name: *mut *const c_char);
        device_get_count = c"cuDeviceGetCount" (count: *mut i32);
        device_get = c"cuDeviceGet" (device: *mut i32, ordinal: i32);
        device_get_name = c"cuDeviceGetName" (name: *mut c_char, length: i32, device: i32);
        device_get_attribute = c"cuDeviceGetAttribute" (value: *mut i32, attribute: i32, device: i32);
        primary_ctx_retain = c"cuDevicePrimaryCtxRetain" (context: *mut Handle, device: i32);
        ctx_set_current = c"cuCtxSetCurrent" (context: Handle);
        stream_create = c"cuStreamCreate" (stream: *mut Handle, flags: u32);
        stream_synchronize = c"cuStreamSynchronize" (stream: Handle);
        event_create = c"cuEventCreate" (event: *mut Handle, flags: u32);
        event_record = c"cuEventRecord" (event: Handle, stream: Handle);
        event_synchronize = c"cuEventSynchronize" (event: Handle);
        mem_alloc = c"cuMemAlloc_v2" (address: *mut DevicePtr, bytes: usize);
        mem_free = c"cuMemFree_v2" (address: DevicePtr);
        mem_get_info = c"cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
        mem_host_alloc = c"cuMemHostAlloc" (address: *mut *mut c_void, bytes: usize, flags: u32);
        memcpy_htod_async = c"cuMemcpyHtoDAsync_v2" (to: DevicePtr, from: *const c_void, bytes: usize, stream: Handle);
        memcpy_dtoh_async = c"cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: DevicePtr, bytes: usize, stream: Handle);
        memcpy_dtod_async = c"cuMemcpyDtoDAsync_v2" (to: DevicePtr, from: DevicePtr, bytes: usize, stream: Handle);
        memcpy_peer_async = c"cuMemcpyPeerAsync" (
            to: DevicePtr, to_context: Handle, from: DevicePtr, from_context: Handle, bytes: usize, stream: Handle,
        );
        memset_d8_async = c"cuMemsetD8Async" (to: DevicePtr, value: u8, bytes: usize, stream: Handle);
        module_load_data = c"cuModuleLoadData" (module: *mut Handle, image: *const c_void);
        module_get_function = c"cuModuleGetFunction" (function: *mut Handle, module: Handle, name: *const c_char);
        launch_kernel = c"cuLaunchKernel" (
            function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
            shared_bytes: u32, stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
        );
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: i32 = 100;

/// The driver, opened and initialized by the first call.
///
/// # Errors
/// `Device` where there is no driver, or no device that it can use: the same each time.
pub(crate) fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Result<Driver, (ErrorKind, String)>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| open().map_err(|error| (error.kind(), error.to_string())));
    found.as_ref().map_err(|(kind, message)| Error::new(*kind, message.clone()))
}

fn open() -> Result<Driver> {
    let name = std::env::var("FLAMBEAU_CUDA_DRIVER").unwrap_or_default();
    let names = if name.is_empty() { vec!["libcuda.so.1", "libcuda.so"] } else { vec![name.as_str()] };
    let library = names.iter().find_map(|name| Library::open(name)).ok_or_else(|| {
        error!(
            Device,
            "expected a CUDA device but no driver is installed ({} was not found); NVIDIA's driver for Linux has it",
            names.join(" and ")
        )
    })?;
    let driver = Driver::load(&library)?;
    // SAFETY: the function has no conditions.
    match unsafe { (driver.init)(0) } {
        0 => Ok(driver),
        NO_DEVICE => Err(error!(
            Device,
            "expected a CUDA device but the driver sees none; CUDA_VISIBLE_DEVICES hides devices"
        )),
        status => Err(driver.error(status, "cuInit")),
    }
}

impl Driver {
    /// An error, unless a status says that all is well.
    ///
    /// # Errors
    /// `OutOfMemory` or `Device`, naming the function and what the driver reports.
    pub(crate) fn check(&self, status: i32, function: &str) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(status, function)) }
    }

    #[cold]
    fn error(&self, status: i32, function: &str) -> Error {
        let mut name = std::ptr::null();
        // SAFETY: the function writes the address of a static text, or null.
        let known = unsafe { (self.get_error_name)(status, &raw mut name) } == 0 && !name.is_null();
        // SAFETY: as above.
        let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "unknown".into() };
        let kind = if status == OUT_OF_MEMORY { ErrorKind::OutOfMemory } else { ErrorKind::Device };
        Error::new(kind, format!("cuda: {function} failed with {name} ({status})"))
    }

    /// The version of CUDA that the driver supports: 13000 is 13.0.
    pub(crate) fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the function writes one integer.
        let status = unsafe { (self.driver_get_version)(&raw mut version) };
        self.check(status, "cuDriverGetVersion").map(|()| version)
    }
}
