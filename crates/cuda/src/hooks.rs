//! What the library requires of a kind of device, and the functions of this crate for programs.
#![expect(unsafe_code, reason = "copies bytes between the host and devices")]

use crate::gpu::{Devices, current_index, devices, set_current_index};
use crate::graph;
use crate::memory::CudaAllocator;
use flambeau_core::allocator::MemoryStats;
use flambeau_core::backend::{Backend, DeviceHooks};
use flambeau_core::{Access, Allocator, Device, DeviceType, Result, error};
use std::sync::OnceLock;

inventory::submit!(Backend::new(DeviceType::Cuda, "cuda", start));

struct Hooks(&'static Devices);

fn start() -> Result<&'static dyn DeviceHooks> {
    static HOOKS: OnceLock<Hooks> = OnceLock::new();
    let devices = devices()?;
    Ok(HOOKS.get_or_init(|| Hooks(devices)))
}

impl DeviceHooks for Hooks {
    fn device_count(&self) -> usize {
        self.0.count()
    }

    fn current_device(&self) -> usize {
        current_index()
    }

    fn set_current_device(&self, index: usize) -> Result<()> {
        set_current_index(index)
    }

    fn allocator(&self) -> &'static dyn Allocator {
        &CudaAllocator
    }

    unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
        let index = |device: Device| {
            device
                .index()
                .ok_or_else(|| error!(Device, "cuda: expected a device with a number but got {device}"))
        };
        if bytes == 0 {
            return Ok(());
        }
        if from.0.is_cpu() || to.0.is_cpu() {
            let (device, what) = match from.0.is_cpu() {
                true => (to.0, "a copy from the host"),
                false => (from.0, "a copy to the host"),
            };
            graph::refuse(index(device)?, what)?;
        }
        let (source, target) = (from.1.addr() as u64, to.1.addr() as u64);
        let ordered = |device: Device, address: u64, access| match device.is_cpu() {
            true => Ok(()),
            false => self.0.gpu(index(device)?)?.order(address, bytes, access),
        };
        ordered(from.0, source, Access::Read)?;
        ordered(to.0, target, Access::Write)?;
        match (from.0.is_cpu(), to.0.is_cpu()) {
            // SAFETY: (valid).
            (true, _) => unsafe {
                let gpu = self.0.gpu(index(to.0)?)?;
                match gpu.copy_from_pinned(from.1, target, bytes)? {
                    true => Ok(()),
                    false => gpu.copy_from_host(from.1, target, bytes),
                }
            },
            // SAFETY: (valid).
            (_, true) => unsafe { self.0.gpu(index(from.0)?)?.copy_to_host(source, to.1, bytes) },
            _ if index(from.0)? == index(to.0)? => {
                self.0.gpu(index(to.0)?)?.copy_within(source, target, bytes)
            }
            _ => self.0.gpu(index(from.0)?)?.copy_to_peer(source, self.0.gpu(index(to.0)?)?, target, bytes),
        }
    }

    fn synchronize(&self, index: usize) -> Result<()> {
        self.0.gpu(index)?.wait_for_all()
    }
}

/// Whether there is a driver and a device that can be used.
pub fn is_available() -> bool {
    device_count().is_ok_and(|count| count > 0)
}

/// How many devices there are.
///
/// # Errors
/// `Device` where there is no driver or no device.
pub fn device_count() -> Result<usize> {
    devices().map(Devices::count)
}

/// Waits until all work on a device is done.
///
/// # Errors
/// What the device reports of that work, and `Index` where a kernel found an index out of range.
pub fn synchronize(index: usize) -> Result<()> {
    devices()?.gpu(index)?.wait_for_all()
}

/// The device that this thread uses where none is named.
///
/// # Errors
/// `Device` where there is no driver or no device.
pub fn current_device() -> Result<usize> {
    devices().map(|_| current_index())
}

/// Sets the device that this thread uses where none is named.
///
/// # Errors
/// `Device` where there is none of that number.
pub fn set_current_device(index: usize) -> Result<()> {
    set_current_index(index)
}

/// The memory of a device in numbers.
///
/// # Errors
/// `Device` where there is none of that number.
pub fn memory_stats(index: usize) -> Result<MemoryStats> {
    devices()?.gpu(index).map(|gpu| gpu.memory_stats())
}

/// Has the peak of a device's memory begin at what is in use now.
///
/// # Errors
/// `Device` where there is none of that number.
pub fn reset_peak_memory_stats(index: usize) -> Result<()> {
    devices()?.gpu(index).map(|gpu| gpu.reset_peak())
}

/// Returns cached memory to the devices, and that of pinned tensors to the host.
pub fn empty_cache() {
    CudaAllocator.empty_cache();
    crate::pinned::empty_cache();
}

/// What is known of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// The name of its model.
    pub name: String,
    /// Its compute capability, as `(9, 0)`.
    pub capability: (i32, i32),
    /// Bytes that nobody uses.
    pub free_bytes: usize,
    /// All bytes of its memory.
    pub total_bytes: usize,
    /// How many multiprocessors it has.
    pub multiprocessors: usize,
    /// The version of CUDA that the driver supports: 13000 is 13.0.
    pub driver_version: i32,
}

/// The properties of a device.
///
/// # Errors
/// `Device` where there is none.
pub fn properties(index: usize) -> Result<DeviceProperties> {
    let gpu = devices()?.gpu(index)?;
    let (free_bytes, total_bytes) = gpu.memory_info()?;
    Ok(DeviceProperties {
        name: gpu.name.clone(),
        capability: gpu.capability,
        free_bytes,
        total_bytes,
        multiprocessors: gpu.multiprocessors()?,
        driver_version: gpu.driver.version()?,
    })
}
