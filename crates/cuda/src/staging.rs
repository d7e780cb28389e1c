//! Copies between the host and a device, through pinned memory, which the device reads and writes by itself.
#![expect(unsafe_code, reason = "copies bytes between the host and a device")]

use crate::driver::{
    CUevent, CUevent_flags, CUresult, DevicePtr, cuEventCreate, cuEventRecord, cuEventSynchronize,
    cuMemHostAlloc, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuStreamSynchronize,
};
use crate::gpu::{Gpu, count_wait};
use flambeau_core::Result;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Bytes of one buffer. There are two, so that the host fills one while the device reads the other.
const BYTES: usize = 4 << 20;

/// Events of this kind are cheaper.
const NO_TIMES: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;

/// The pinned buffers of a device, made by the first copy.
#[derive(Default)]
pub(crate) struct Staging {
    buffers: Mutex<Vec<Buffer>>,
}

#[derive(Clone, Copy)]
struct Buffer {
    data: *mut u8,
    /// Passed when the device no longer uses the buffer.
    done: CUevent,
}

// SAFETY: pinned memory and events belong to no thread.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new(gpu: &Gpu) -> Result<Self> {
        let (mut data, mut done): (*mut c_void, CUevent) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the functions write an address and a handle.
        unsafe {
            gpu.driver.check(cuEventCreate(&raw mut done, NO_TIMES), "cuEventCreate")?;
            let allocated = gpu.driver.check(cuMemHostAlloc(&raw mut data, BYTES, 0), "cuMemHostAlloc");
            if allocated.is_err() {
                gpu.destroy_event(done);
            }
            allocated?;
        }
        Ok(Buffer { data: data.cast(), done })
    }
}

impl Gpu {
    /// Runs `body` with the buffers, alone.
    fn with_buffers(&self, body: impl FnOnce([Buffer; 2]) -> Result<()>) -> Result<()> {
        self.activate()?;
        let mut buffers = self.staging.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        while buffers.len() < 2 {
            buffers.push(Buffer::new(self)?);
        }
        let done = body([buffers[0], buffers[1]]);
        // After a failure, copies that were queued before it still use the buffers, and no event says until when.
        // SAFETY: the stream exists.
        if done.is_err() && unsafe { cuStreamSynchronize(self.stream()) } != CUresult::CUDA_SUCCESS {
            buffers.clear();
        }
        done
    }

    /// Copies bytes of the host to the device. On return the host's are read; the device has them before what comes after.
    ///
    /// # Safety
    /// - (valid) Both ranges are inside live allocations, of the host and of the device.
    pub(crate) unsafe fn copy_from_host(&self, from: *const u8, to: DevicePtr, bytes: usize) -> Result<()> {
        self.with_buffers(|buffers| {
            for (start, buffer) in (0..bytes).step_by(BYTES).zip(buffers.iter().cycle()) {
                let count = BYTES.min(bytes - start);
                // SAFETY: (valid), and the device has read the buffer once its event has passed.
                unsafe {
                    self.driver.check(cuEventSynchronize(buffer.done), "cuEventSynchronize")?;
                    ptr::copy_nonoverlapping(from.add(start), buffer.data, count);
                    let target = to + start as u64;
                    let status = cuMemcpyHtoDAsync_v2(target, buffer.data.cast(), count, self.stream());
                    self.driver.check(status, "cuMemcpyHtoDAsync")?;
                    self.driver.check(cuEventRecord(buffer.done, self.stream()), "cuEventRecord")?;
                }
            }
            Ok(())
        })
    }

    /// Copies bytes of the device to the host, after all work before. Complete on return.
    ///
    /// # Safety
    /// - (valid) As for [`copy_from_host`](Self::copy_from_host).
    pub(crate) unsafe fn copy_to_host(&self, from: DevicePtr, to: *mut u8, bytes: usize) -> Result<()> {
        self.with_buffers(|buffers| {
            count_wait();
            let starts: Vec<usize> = (0..bytes).step_by(BYTES).collect();
            // The device fills one buffer while the host empties the other.
            for i in 0..=starts.len() {
                // SAFETY: (valid), and each buffer is read when the event after its copy has passed.
                unsafe {
                    if let Some(&start) = starts.get(i) {
                        let buffer = buffers[i % 2];
                        let (count, source) = (BYTES.min(bytes - start), from + start as u64);
                        let status = cuMemcpyDtoHAsync_v2(buffer.data.cast(), source, count, self.stream());
                        self.driver.check(status, "cuMemcpyDtoHAsync")?;
                        if i + 1 == starts.len() {
                            self.faults.request(self)?;
                        }
                        self.driver.check(cuEventRecord(buffer.done, self.stream()), "cuEventRecord")?;
                    }
                    if let Some(before) = i.checked_sub(1) {
                        let (buffer, start) = (buffers[before % 2], starts[before]);
                        self.driver.check(cuEventSynchronize(buffer.done), "cuEventSynchronize")?;
                        ptr::copy_nonoverlapping(buffer.data, to.add(start), BYTES.min(bytes - start));
                    }
                }
            }
            self.faults.take(self)
        })
    }
}
