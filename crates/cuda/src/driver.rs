//! The functions of NVIDIA's driver that the crate calls, and their errors. All are in every driver since CUDA 12.0.
#![expect(unsafe_code, reason = "calls the driver")]

use crate::library::{Library, functions};
use flambeau_core::{Error, ErrorKind, Result, ensure, error};
use std::ffi::CStr;
use std::sync::OnceLock;

pub(crate) use cudarc::driver::sys::{
    CUcontext, CUdevice_attribute, CUdeviceptr as DevicePtr, CUevent, CUevent_flags, CUfunction, CUgraph,
    CUgraphExec, CUresult, CUstream, CUstream_flags, CUstreamCaptureMode,
};

functions! {
    cudarc::driver::sys {
        cuInit,
        cuDriverGetVersion,
        cuGetErrorName,
        cuDeviceGetCount,
        cuDeviceGet,
        cuDeviceGetName,
        cuDeviceGetAttribute,
        cuDevicePrimaryCtxRetain,
        cuCtxSetCurrent,
        cuStreamCreate,
        cuStreamSynchronize,
        cuStreamQuery,
        cuStreamWaitEvent,
        cuStreamDestroy_v2,
        cuStreamBeginCapture_v2,
        cuStreamEndCapture,
        cuGraphInstantiateWithFlags,
        cuGraphLaunch,
        cuGraphDestroy,
        cuGraphExecDestroy,
        cuEventCreate,
        cuEventDestroy_v2,
        cuEventRecord,
        cuEventQuery,
        cuEventSynchronize,
        cuMemAlloc_v2,
        cuMemFree_v2,
        cuMemGetInfo_v2,
        cuMemHostAlloc,
        cuMemFreeHost,
        cuMemcpyHtoDAsync_v2,
        cuMemcpyDtoHAsync_v2,
        cuMemcpyDtoDAsync_v2,
        cuMemcpyPeerAsync,
        cuMemsetD8Async,
        cuModuleLoadData,
        cuModuleGetFunction,
        cuLaunchKernel,
    }
}

/// The oldest version of CUDA whose drivers have all these functions.
const OLDEST: i32 = 12000;

/// The driver: whoever has one may call its functions.
#[derive(Clone, Copy)]
pub(crate) struct Driver(());

/// The driver, opened and initialized by the first call.
///
/// # Errors
/// `Device` where there is no driver, or no device that it can use: the same each time.
pub(crate) fn driver() -> Result<Driver> {
    static DRIVER: OnceLock<Result<Driver, (ErrorKind, String)>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| open().map_err(|error| (error.kind(), error.to_string())));
    found.as_ref().copied().map_err(|(kind, message)| Error::new(*kind, message.clone()))
}

fn open() -> Result<Driver> {
    let name = std::env::var("FLAMBEAU_CUDA_DRIVER").unwrap_or_default();
    let names = if name.is_empty() { vec!["libcuda.so", "libcuda.so.1"] } else { vec![name.as_str()] };
    let library = names.iter().find_map(|name| Library::open(name)).ok_or_else(|| {
        error!(
            Device,
            "expected a CUDA device but no driver is installed ({} was not found); NVIDIA's driver for Linux has it",
            names.join(" and ")
        )
    })?;
    library.check(&FUNCTIONS)?;
    let driver = Driver(());
    let version = driver.version()?;
    ensure!(
        version >= OLDEST,
        Device,
        "expected a driver for CUDA {} or later but the one that is installed is for CUDA {}",
        version_text(OLDEST),
        version_text(version)
    );
    // SAFETY: the function has no conditions.
    match unsafe { cuInit(0) } {
        CUresult::CUDA_SUCCESS => Ok(driver),
        CUresult::CUDA_ERROR_NO_DEVICE => Err(error!(
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
    pub(crate) fn check(&self, status: CUresult, function: &str) -> Result<()> {
        if status == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(self.error(status, function)) }
    }

    #[cold]
    fn error(&self, status: CUresult, function: &str) -> Error {
        let mut name = std::ptr::null();
        // SAFETY: the function writes the address of a static text, or null.
        let known =
            unsafe { cuGetErrorName(status, &raw mut name) } == CUresult::CUDA_SUCCESS && !name.is_null();
        // SAFETY: as above.
        let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "unknown".into() };
        let kind = if status == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            ErrorKind::OutOfMemory
        } else {
            ErrorKind::Device
        };
        Error::new(kind, format!("cuda: {function} failed with {name} ({})", status as u32))
    }

    /// The version of CUDA that the driver supports: 13000 is 13.0.
    pub(crate) fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the function writes one integer.
        let status = unsafe { cuDriverGetVersion(&raw mut version) };
        self.check(status, "cuDriverGetVersion").map(|()| version)
    }
}

/// The function that [`elapsed_milliseconds`] calls.
pub(crate) const ELAPSED_TIME: &str = "cuEventElapsedTime";

/// The milliseconds between two events. The function's name has a suffix from CUDA 12.8 on, but all drivers have the one without.
///
/// # Errors
/// What the driver reports.
pub(crate) fn elapsed_milliseconds(driver: Driver, from: CUevent, to: CUevent) -> Result<f32> {
    type Function = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
    // SAFETY: the library is present, and its function has this type.
    let function = unsafe { cudarc::driver::sys::culib().get::<Function>(b"cuEventElapsedTime\0") };
    let function = function.map_err(|_| error!(Device, "cuda: the driver has no function {ELAPSED_TIME}"))?;
    let mut milliseconds = 0.0;
    // SAFETY: both events exist, and the function writes one number.
    driver.check(unsafe { function(&raw mut milliseconds, from, to) }, ELAPSED_TIME)?;
    Ok(milliseconds)
}

/// `13.0` of 13000.
fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
