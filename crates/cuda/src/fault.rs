//! The fault word: a kernel that finds an index out of range skips the element, and writes there which operator it is, the index, and
//! the size. The next call that waits returns it as an `Index` error. The device stays usable.
#![expect(unsafe_code, reason = "calls the driver")]

use crate::driver::{
    CUstream, DevicePtr, Driver, cuMemAlloc_v2, cuMemHostAlloc, cuMemcpyDtoHAsync_v2, cuMemsetD8Async,
};
use crate::gpu::Gpu;
use flambeau_core::{Result, bail};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// What a kernel writes: the number of the operator, 0 for none; the index; the size.
type Words = [i64; 3];

const BYTES: usize = size_of::<Words>();

/// The word of a device, and its copy on the host.
pub(crate) struct FaultWord {
    /// On the device.
    pub(crate) address: DevicePtr,
    copy: *mut Words,
    operators: Mutex<Vec<&'static str>>,
}

impl FaultWord {
    /// A word without a fault. The device's context is current.
    pub(crate) fn new(driver: Driver, stream: CUstream) -> Result<Self> {
        let mut address = 0;
        let mut copy: *mut c_void = ptr::null_mut();
        // SAFETY: the functions write addresses, and the memory that is cleared has so many bytes.
        unsafe {
            driver.check(cuMemAlloc_v2(&raw mut address, BYTES), "cuMemAlloc")?;
            driver.check(cuMemHostAlloc(&raw mut copy, BYTES, 0), "cuMemHostAlloc")?;
            driver.check(cuMemsetD8Async(address, 0, BYTES, stream), "cuMemsetD8Async")?;
            ptr::write_bytes(copy.cast::<u8>(), 0, BYTES);
        }
        Ok(FaultWord { address, copy: copy.cast(), operators: Mutex::default() })
    }

    /// The number by which kernels name an operator; from 1 on.
    pub(crate) fn number_of(&self, operator: &'static str) -> i64 {
        let mut operators = self.operators.lock().unwrap_or_else(PoisonError::into_inner);
        let found = operators.iter().position(|known| *known == operator);
        let at = found.unwrap_or_else(|| {
            operators.push(operator);
            operators.len() - 1
        });
        at as i64 + 1
    }

    /// Has the word copied to the host, before the wait that comes next.
    pub(crate) fn request(&self, gpu: &Gpu) -> Result<()> {
        // SAFETY: both have so many bytes, and live as long as the device.
        let status = unsafe { cuMemcpyDtoHAsync_v2(self.copy.cast(), self.address, BYTES, gpu.stream()) };
        gpu.driver.check(status, "cuMemcpyDtoHAsync")
    }

    /// Reports the fault that was copied, once.
    ///
    /// # Errors
    /// `Index`, naming operator, index and size.
    pub(crate) fn take(&self, gpu: &Gpu) -> Result<()> {
        // SAFETY: the copy is complete, by the wait; another thread's copy writes whole words of the same memory.
        let [number, index, size] = unsafe { self.copy.read_volatile() };
        if number == 0 {
            return Ok(());
        }
        gpu.fill_zero(self.address, BYTES)?;
        // SAFETY: as above.
        unsafe { self.copy.write_volatile([0; 3]) };
        let operators = self.operators.lock().unwrap_or_else(PoisonError::into_inner);
        let name = operators.get((number - 1) as usize).copied().unwrap_or("a kernel");
        bail!(
            Index(name),
            "index {index} is out of bounds for dimension with size {size} on cuda:{}",
            gpu.index
        )
    }
}
