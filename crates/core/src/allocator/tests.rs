//! Tests of allocators: their guarantees, their registry, and foreign memory. Exact statistics are in `tests/memory_stats.rs`,
//! which has a process to itself.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

#[test]
fn memory_is_aligned_writable_and_distinct() {
    let sizes = [0, 1, 63, 64, 65, 1000, 1024, 1025, 16384, 16385, 100_000, 5_000_000];
    for &bytes in if cfg!(miri) { &sizes[..10] } else { &sizes[..] } {
        for _ in 0..2 {
            let (a, b) = (CpuAllocator.allocate(bytes).unwrap(), CpuAllocator.allocate(bytes).unwrap());
            assert_eq!((a.bytes(), a.as_ptr().align_offset(ALIGNMENT)), (bytes, 0));
            assert!(!a.as_ptr().is_null());
            // SAFETY: both are that long.
            unsafe {
                a.as_ptr().write_bytes(1, bytes);
                b.as_ptr().write_bytes(2, bytes);
                assert!(std::slice::from_raw_parts(a.as_ptr(), bytes) == vec![1; bytes]);
            }
        }
    }
}

#[test]
fn zeroed_memory_is_zero_even_when_it_was_used_before() {
    for bytes in [1, 64, 700, 16384, 16385, if cfg!(miri) { 20_000 } else { 9_000_001 }] {
        for _ in 0..3 {
            let data = CpuAllocator.allocate_zeroed(bytes).unwrap();
            // SAFETY: it is that long and initialised.
            unsafe {
                assert!(std::slice::from_raw_parts(data.as_ptr(), bytes) == vec![0; bytes]);
                data.as_ptr().write_bytes(0x5A, bytes);
            }
        }
    }
}

#[test]
fn too_much_is_an_error() {
    let mut sizes =
        vec![usize::MAX, isize::MAX as usize, isize::MAX as usize + 1, isize::MAX as usize / 2 + 1];
    if !cfg!(miri) {
        sizes.push(1 << 60);
    }
    for bytes in sizes {
        assert_eq!(CpuAllocator.allocate(bytes).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert_eq!(CpuAllocator.allocate_zeroed(bytes).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
}

#[test]
fn a_freed_block_is_used_again() {
    for bytes in [100, 3000] {
        let first = CpuAllocator.allocate(bytes).unwrap();
        let address = first.as_ptr();
        drop(first);
        assert_eq!(CpuAllocator.allocate(bytes).unwrap().as_ptr(), address);
    }
}

#[test]
fn foreign_memory_goes_back_to_its_owner_once() {
    let freed = Arc::new(AtomicUsize::new(0));
    let mut bytes = vec![3u8; 10];
    let (at, count) = (bytes.as_mut_ptr(), Arc::clone(&freed));
    let deleter = Box::new(move || {
        count.fetch_add(bytes.len(), Ordering::Relaxed);
    });
    // SAFETY: the closure owns the vector.
    let data = unsafe { DataPtr::with_closure(at, 10, deleter) };
    assert_eq!(format!("{data:?}"), format!("10 bytes at {at:p}"));
    assert_eq!(freed.load(Ordering::Relaxed), 0);
    std::thread::spawn(move || drop(data)).join().unwrap();
    assert_eq!(freed.load(Ordering::Relaxed), 10);
}

/// Hands out the host's memory, and counts.
struct Counting(AtomicUsize);

impl Allocator for Counting {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        self.0.fetch_add(1, Ordering::Relaxed);
        CpuAllocator.allocate(bytes)
    }
    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        CpuAllocator.allocate_zeroed(bytes)
    }
    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's conditions.
        unsafe { CpuAllocator.copy(from, to, bytes) }
    }
    fn memory_stats(&self) -> MemoryStats {
        MemoryStats::default()
    }
    fn reset_peak(&self) {}
    fn empty_cache(&self) {}
}

#[test]
fn allocators_are_found_by_device_and_replaced_at_run_time() {
    static FIRST: Counting = Counting(AtomicUsize::new(0));
    static SECOND: Counting = Counting(AtomicUsize::new(0));
    assert!(allocator_for(DeviceType::Cpu).is_ok());
    for none in [DeviceType::Meta, DeviceType::Cuda] {
        assert_eq!(allocator_for(none).map(drop).unwrap_err().kind(), ErrorKind::Device);
    }
    let other = DeviceType::PrivateUse3;
    for allocator in [&FIRST, &SECOND] {
        set_allocator(other, allocator);
        allocator_for(other).unwrap().allocate(1).unwrap();
    }
    assert_eq!((FIRST.0.load(Ordering::Relaxed), SECOND.0.load(Ordering::Relaxed)), (1, 1));
}
