//! The devices: a context, streams, memory and compiled kernels for each, made by the first use.
#![expect(unsafe_code, reason = "calls the driver")]

use crate::blas::Blas;
use crate::driver::{
    CUcontext, CUdevice_attribute, CUstream, CUstream_flags, DevicePtr, Driver, cuCtxSetCurrent, cuDeviceGet,
    cuDeviceGetAttribute, cuDeviceGetCount, cuDeviceGetName, cuDevicePrimaryCtxRetain, cuMemAlloc_v2,
    cuMemFree_v2, cuMemGetInfo_v2, cuMemcpyDtoDAsync_v2, cuMemcpyPeerAsync, cuMemsetD8Async, cuStreamCreate,
    cuStreamSynchronize, driver,
};
use crate::fault::FaultWord;
use crate::graph;
use crate::memory::Memory;
use crate::programs::Programs;
use crate::staging::Staging;
use crate::streams::Streams;
use flambeau_core::{Error, ErrorKind, Result, ensure, error};
use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The oldest compute capability, which is the oldest that NVRTC 13 compiles for.
const OLDEST: (i32, i32) = (7, 5);
/// No order with the legacy stream of other libraries.
pub(crate) const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
/// The two numbers of the compute capability.
const CAPABILITY: [CUdevice_attribute; 2] = [
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
];

/// All devices of the process.
pub(crate) struct Devices {
    gpus: Vec<OnceLock<Result<Gpu, (ErrorKind, String)>>>,
    /// The process that started them: a forked child cannot use its parent's contexts.
    process: u32,
}

/// One device.
pub(crate) struct Gpu {
    pub(crate) index: usize,
    pub(crate) name: String,
    /// As `(9, 0)`.
    pub(crate) capability: (i32, i32),
    pub(crate) driver: Driver,
    context: CUcontext,
    /// The stream of work for which no other is current, in the order of the calls.
    pub(crate) default_stream: CUstream,
    pub(crate) streams: Streams,
    pub(crate) memory: Memory,
    pub(crate) programs: Programs,
    pub(crate) staging: Staging,
    pub(crate) faults: FaultWord,
    pub(crate) blas: Blas,
}

// SAFETY: the driver's handles may be used by any thread, once it has made the context current.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

static WAITS: AtomicU64 = AtomicU64::new(0);

/// Notes that the host waits for a device.
pub(crate) fn count_wait() {
    WAITS.fetch_add(1, Ordering::Relaxed);
}

/// How often this process has waited for the work of a device: for copies to the host, numbers of results, and where it was told to.
pub fn waits() -> u64 {
    WAITS.load(Ordering::Relaxed)
}

thread_local! {
    /// The device that is used where none is named.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// The device whose context the driver has for this thread.
    static ACTIVE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The devices, found by the first call.
///
/// # Errors
/// `Device` where there is no driver or no device, the same each time, and in a forked child.
pub(crate) fn devices() -> Result<&'static Devices> {
    static DEVICES: OnceLock<Result<Devices, (ErrorKind, String)>> = OnceLock::new();
    let found = DEVICES.get_or_init(|| Devices::find().map_err(|error| (error.kind(), error.to_string())));
    let devices = found.as_ref().map_err(|(kind, message)| Error::new(*kind, message.clone()))?;
    ensure!(
        devices.process == std::process::id(),
        Device,
        "cuda: expected the process that uses the devices but got a child that was forked from it; start it anew instead"
    );
    Ok(devices)
}

impl Devices {
    fn find() -> Result<Self> {
        let driver = driver()?;
        let mut count = 0;
        // SAFETY: the function writes one integer.
        driver.check(unsafe { cuDeviceGetCount(&raw mut count) }, "cuDeviceGetCount")?;
        ensure!(
            count > 0,
            Device,
            "expected a CUDA device but the driver sees none; CUDA_VISIBLE_DEVICES hides devices"
        );
        let gpus = (0..count.min(128)).map(|_| OnceLock::new()).collect();
        Ok(Devices { gpus, process: std::process::id() })
    }

    pub(crate) fn count(&self) -> usize {
        self.gpus.len()
    }

    /// A device, started by the first call.
    ///
    /// # Errors
    /// `Device` where there is none of that number, or it cannot be used.
    pub(crate) fn gpu(&self, index: usize) -> Result<&Gpu> {
        let slot = self.gpus.get(index).ok_or_else(|| {
            error!(Device, "cuda: expected one of {} devices but got {index}", self.count())
        })?;
        let gpu = slot.get_or_init(|| Gpu::start(index).map_err(|error| (error.kind(), error.to_string())));
        gpu.as_ref().map_err(|(kind, message)| Error::new(*kind, message.clone()))
    }

    /// The device that is current for this thread.
    pub(crate) fn current(&self) -> Result<&Gpu> {
        self.gpu(current_index())
    }

    /// The devices in use.
    pub(crate) fn started(&self) -> Vec<&Gpu> {
        self.gpus.iter().filter_map(|slot| slot.get().and_then(|gpu| gpu.as_ref().ok())).collect()
    }
}

pub(crate) fn current_index() -> usize {
    CURRENT.with(Cell::get)
}

pub(crate) fn set_current_index(index: usize) -> Result<()> {
    let count = devices()?.count();
    ensure!(index < count, Device, "cuda: expected one of {count} devices but got {index}");
    CURRENT.with(|current| current.set(index));
    Ok(())
}

impl Gpu {
    fn start(index: usize) -> Result<Self> {
        let driver = driver()?;
        let mut device = 0;
        let mut name = [0u8; 128];
        let mut capability = [0; 2];
        let (mut context, mut stream) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the functions write what is passed by address, the name with its terminating zero inside its length.
        unsafe {
            driver.check(cuDeviceGet(&raw mut device, index as i32), "cuDeviceGet")?;
            driver.check(cuDeviceGetName(name.as_mut_ptr().cast(), 127, device), "cuDeviceGetName")?;
            for (value, attribute) in capability.iter_mut().zip(CAPABILITY) {
                driver.check(cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute")?;
            }
        }
        let name: String = name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
        let capability = (capability[0], capability[1]);
        ensure!(
            capability >= OLDEST,
            Device,
            "cuda:{index} is a {name} of compute capability {}.{}; expected at least {}.{}",
            capability.0,
            capability.1,
            OLDEST.0,
            OLDEST.1
        );
        // SAFETY: as above.
        unsafe {
            driver.check(cuDevicePrimaryCtxRetain(&raw mut context, device), "cuDevicePrimaryCtxRetain")?;
            driver.check(cuCtxSetCurrent(context), "cuCtxSetCurrent")?;
            driver.check(cuStreamCreate(&raw mut stream, NON_BLOCKING), "cuStreamCreate")?;
        }
        ACTIVE.with(|active| active.set(index));
        let faults = FaultWord::new(driver, stream)?;
        Ok(Gpu {
            index,
            name,
            capability,
            driver,
            context,
            default_stream: stream,
            streams: Streams::default(),
            memory: Memory::default(),
            programs: Programs::default(),
            staging: Staging::default(),
            faults,
            blas: Blas::default(),
        })
    }

    /// Makes the context of the device this thread's, if it is not.
    pub(crate) fn activate(&self) -> Result<()> {
        if ACTIVE.with(Cell::get) != self.index {
            // SAFETY: the context is there as long as the process.
            self.driver.check(unsafe { cuCtxSetCurrent(self.context) }, "cuCtxSetCurrent")?;
            ACTIVE.with(|active| active.set(self.index));
        }
        Ok(())
    }

    /// Waits until the work of this thread's stream is done, and reports an index that a kernel found out of range.
    ///
    /// # Errors
    /// What the driver reports of that work, and `Index`.
    pub(crate) fn wait(&self) -> Result<()> {
        graph::refuse(self.index, "a wait for the device")?;
        self.activate()?;
        count_wait();
        self.faults.request(self)?;
        // SAFETY: the stream exists.
        self.driver.check(unsafe { cuStreamSynchronize(self.stream()) }, "cuStreamSynchronize")?;
        self.faults.take(self)
    }

    pub(crate) fn allocate_segment(&self, bytes: usize) -> Result<DevicePtr> {
        self.activate()?;
        let mut address = 0;
        // SAFETY: the function writes an address.
        self.driver.check(unsafe { cuMemAlloc_v2(&raw mut address, bytes) }, "cuMemAlloc")?;
        Ok(address)
    }

    /// Takes a segment back. A device that refuses it has failed, which its next use reports.
    pub(crate) fn free_segment(&self, address: DevicePtr) {
        if self.activate().is_ok() {
            // SAFETY: the segment came from `allocate_segment`. The driver waits for work that uses it.
            let _ = unsafe { cuMemFree_v2(address) };
        }
    }

    pub(crate) fn free_bytes(&self) -> Result<usize> {
        self.memory_info().map(|(free, _)| free)
    }

    /// Bytes that nobody uses, and all bytes.
    pub(crate) fn memory_info(&self) -> Result<(usize, usize)> {
        self.activate()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the function writes two integers.
        self.driver.check(unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) }, "cuMemGetInfo")?;
        Ok((free, total))
    }

    /// How many multiprocessors the device has.
    pub(crate) fn multiprocessors(&self) -> Result<usize> {
        const COUNT: CUdevice_attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let (mut device, mut count) = (0, 0);
        // SAFETY: the functions write integers.
        unsafe {
            self.driver.check(cuDeviceGet(&raw mut device, self.index as i32), "cuDeviceGet")?;
            self.driver.check(cuDeviceGetAttribute(&raw mut count, COUNT, device), "cuDeviceGetAttribute")?;
        }
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(crate) fn fill_zero(&self, address: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.activate()?;
        // SAFETY: the caller allocated so many bytes there.
        let status = unsafe { cuMemsetD8Async(address, 0, bytes, self.stream()) };
        self.driver.check(status, "cuMemsetD8Async")
    }

    /// Copies bytes inside the device, after the work before and before the work after.
    pub(crate) fn copy_within(&self, from: DevicePtr, to: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.activate()?;
        // SAFETY: the caller's ranges are inside allocations of the device.
        let status = unsafe { cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream()) };
        self.driver.check(status, "cuMemcpyDtoDAsync")
    }

    /// Copies bytes to another device; complete on return.
    pub(crate) fn copy_to_peer(
        &self,
        from: DevicePtr,
        other: &Gpu,
        to: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        other.wait()?;
        self.activate()?;
        // SAFETY: as above, in the contexts of two devices.
        let status =
            unsafe { cuMemcpyPeerAsync(to, other.context, from, self.context, bytes, self.stream()) };
        self.driver.check(status, "cuMemcpyPeerAsync")?;
        self.wait()
    }
}
