//! The host's memory: 64-byte aligned, small blocks from the thread's own lists, large ones from the shared cache.

#![expect(unsafe_code, reason = "hands out raw memory and takes it back")]

use super::size_class::{REQUEST_MAX, SMALL_MAX, class_of};
use super::switches::{self, Fill, MemoryEvent, MemoryReporter};
use super::{Allocator, DataPtr, Deleter, MemoryStats, shared_cache, stats, thread_cache};
use crate::{Error, ErrorKind, Result};
use std::ptr::{self, NonNull};

/// The allocator of the host's memory. All values of this type share one cache and one set of statistics.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuAllocator;

impl CpuAllocator {
    /// Caches at most `bytes` bytes of freed blocks above 16 KiB; 1 GiB unless set. Huge pages of free blocks below 1 MiB are at most
    /// 32 MiB more.
    pub fn set_cache_limit(bytes: usize) {
        shared_cache::set_limit(bytes);
    }

    /// Fills memory that is allocated from now on.
    pub fn set_fill(fill: Fill) {
        switches::set_fill(fill);
    }

    /// Calls `reporter`, unless it is `None`, for each allocation and each freeing, on the thread where it happens and before the call
    /// returns. Allocations by the reporter itself are not reported.
    pub fn set_reporter(reporter: Option<MemoryReporter>) {
        switches::set_reporter(reporter);
    }
}

impl Allocator for CpuAllocator {
    #[inline]
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        let data = allocate_block(bytes, false)?;
        if switches::any_on() {
            inspect(&data);
        }
        Ok(data)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        let data = allocate_block(bytes, true)?;
        if switches::reporting_on() {
            report(true, data.as_ptr(), bytes);
        }
        Ok(data)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: (valid), (quiet).
        unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        stats::memory_stats()
    }

    fn reset_peak(&self) {
        stats::reset_peak();
    }

    /// Returns the memory that the shared cache and the calling thread cache; other threads still cache up to 8 MiB each.
    fn empty_cache(&self) {
        thread_cache::flush(); // First, so that the huge pages of its blocks become free.
        shared_cache::empty();
    }
}

#[inline(always)]
fn allocate_block(bytes: usize, zeroed: bool) -> Result<DataPtr> {
    if bytes == 0 {
        return Ok(DataPtr::empty());
    }
    let (block, deleter): (_, Deleter) = if bytes <= SMALL_MAX {
        (allocate_small(bytes, zeroed), free_small)
    } else {
        (allocate_large(bytes, zeroed), free_large)
    };
    let Some(block) = block else { return Err(out_of_memory(bytes)) };
    thread_cache::count_allocation(bytes);
    // SAFETY: the block is ours, has these bytes, and was made by the deleter's counterpart.
    Ok(unsafe { DataPtr::new(block.as_ptr(), bytes, ptr::null_mut(), Some(deleter)) })
}

#[inline(always)]
fn allocate_small(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    let block = thread_cache::allocate(class_of(bytes), thread_cache::Use::Elements)?;
    if zeroed {
        // SAFETY: the block is ours and has these bytes.
        unsafe { block.write_bytes(0, bytes) };
    }
    Some(block)
}

fn allocate_large(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    if bytes > REQUEST_MAX { None } else { shared_cache::allocate(bytes, zeroed) }
}

/// # Safety
/// - (owned) `data` came from [`allocate_block`] of `bytes` small bytes, and is not used any more.
#[inline]
unsafe fn free_small(data: *mut u8, bytes: usize, _: *mut ()) {
    count_free(data, bytes);
    // SAFETY: (owned).
    unsafe { thread_cache::free(NonNull::new_unchecked(data), class_of(bytes)) }
}

/// # Safety
/// - (owned) `data` came from [`allocate_block`] of `bytes` bytes, too many to be small, and is not used any more.
unsafe fn free_large(data: *mut u8, bytes: usize, _: *mut ()) {
    count_free(data, bytes);
    // SAFETY: (owned).
    unsafe { shared_cache::free(NonNull::new_unchecked(data), bytes) }
}

#[inline(always)]
fn count_free(data: *mut u8, bytes: usize) {
    thread_cache::count_free(bytes);
    if switches::reporting_on() {
        report(false, data, bytes);
    }
}

/// Fills and reports a fresh allocation, as the switches say.
#[cold]
fn inspect(data: &DataPtr) {
    let byte = match switches::fill() {
        Fill::None => None,
        Fill::Zero => Some(0),
        Fill::Junk => Some(0xFF),
    };
    if let Some(byte) = byte {
        // SAFETY: the allocation is fresh and has these bytes.
        unsafe { data.as_ptr().write_bytes(byte, data.bytes()) };
    }
    if switches::reporting_on() {
        report(true, data.as_ptr(), data.bytes());
    }
}

#[cold]
fn report(allocated: bool, data: *mut u8, bytes: usize) {
    if bytes > 0 {
        switches::report(&MemoryEvent { allocated, address: data.addr(), bytes });
    }
}

#[cold]
fn out_of_memory(bytes: usize) -> Error {
    let live = stats::memory_stats().live_bytes;
    let message = format!("the system has no {bytes} bytes to give; {live} are in use by tensors");
    Error::new(ErrorKind::OutOfMemory, message)
}
