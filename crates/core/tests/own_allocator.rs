//! Tests that an allocator which is registered for the host is used from then on.
#![expect(unsafe_code, reason = "passes a call on")]

use flambeau_core::allocator::{CpuAllocator, MemoryStats, set_allocator};
use flambeau_core::{Allocator, DataPtr, Device, DeviceType, Result, Storage};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The usual allocator, with a count of its allocations.
struct Counting(AtomicUsize);

impl Allocator for Counting {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        self.0.fetch_add(1, Ordering::Relaxed);
        CpuAllocator.allocate(bytes)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        CpuAllocator.allocate_zeroed(bytes)
    }

    fn memory_stats(&self) -> MemoryStats {
        CpuAllocator.memory_stats()
    }

    fn reset_peak(&self) {
        CpuAllocator.reset_peak();
    }

    fn empty_cache(&self) {
        CpuAllocator.empty_cache();
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's condition is the same.
        unsafe { CpuAllocator.copy(from, to, bytes) }
    }
}

#[test]
fn storages_of_the_host_come_from_it() -> Result<()> {
    static COUNTING: Counting = Counting(AtomicUsize::new(0));
    let allocations = || COUNTING.0.load(Ordering::Relaxed);
    let before = Storage::new(100, Device::CPU)?;
    assert_eq!(allocations(), 0);
    set_allocator(DeviceType::Cpu, &COUNTING);
    let (small, large) = (Storage::new(100, Device::CPU)?, Storage::new(1 << 20, Device::CPU)?);
    assert_eq!(allocations(), 2);
    small.grow(200)?;
    assert_eq!(allocations(), 3);
    // Memory of the former allocator grows by that one.
    before.grow(200)?;
    assert_eq!(allocations(), 3);
    drop((before, small, large));
    Ok(())
}
