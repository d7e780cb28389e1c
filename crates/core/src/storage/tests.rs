//! Tests of storages from every source: their contents, how they grow, and who frees them.

use super::*;
use crate::storage_guards::{ReadGuard, WriteGuard};
use crate::{DeviceType, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

fn bytes(storage: &Storage) -> Vec<u8> {
    let guard = ReadGuard::acquire(storage).unwrap();
    // SAFETY: guarded, and every caller has written all of it.
    unsafe { std::slice::from_raw_parts(guard.data_ptr(), storage.nbytes()) }.to_vec()
}

#[test]
fn is_one_word() {
    assert_eq!(size_of::<Option<Storage>>(), size_of::<usize>());
}

#[test]
fn a_vector_is_taken_over_without_a_copy() {
    let mut elements = Vec::with_capacity(10);
    elements.extend([1u16, 2, 3]);
    let at = elements.as_ptr().cast();
    let storage = Storage::from_vec(elements);
    assert_eq!((storage.nbytes(), storage.data_ptr().cast_const()), (6, at));
    assert_eq!(bytes(&storage), [1u16, 2, 3].map(u16::to_ne_bytes).concat());
    assert_eq!(Storage::from_vec(Vec::<f64>::new()).nbytes(), 0);
    assert_eq!(Storage::from_vec(vec![(); 5]).nbytes(), 0);
}

#[test]
fn growing_keeps_what_was_there() {
    let storage = Storage::from_vec(vec![7u8; 100]);
    storage.grow(3).unwrap();
    assert_eq!((storage.nbytes(), bytes(&storage)), (100, vec![7; 100]));
    storage.grow(50_000).unwrap();
    assert_eq!(storage.nbytes(), 50_000);
    let guard = WriteGuard::acquire(&storage).unwrap();
    // SAFETY: guarded, and 50,000 bytes long.
    unsafe { guard.data_ptr().add(100).write_bytes(9, 49_900) };
    drop(guard);
    assert_eq!(bytes(&storage)[98..102], [7, 7, 9, 9]);
    assert_eq!(storage.version(), 2);
}

#[test]
fn growth_that_fails_changes_nothing() {
    let storage = Storage::from_vec(vec![5u8; 10]);
    let at = storage.data_ptr();
    assert_eq!(storage.grow(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!((storage.nbytes(), storage.data_ptr(), bytes(&storage)), (10, at, vec![5; 10]));
    assert_eq!(storage.version(), 0);
    let reader = ReadGuard::acquire(&storage).unwrap();
    assert_eq!(storage.grow(20).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(storage.nbytes(), 10);
    drop(reader);
}

#[test]
fn the_meta_device_has_sizes_and_no_bytes() {
    let storage = Storage::zeroed(usize::MAX, Device::META).unwrap();
    assert_eq!((storage.nbytes(), storage.data_ptr()), (usize::MAX, std::ptr::null_mut()));
    storage.grow(12).unwrap();
    assert_eq!((storage.nbytes(), storage.is_resizable()), (usize::MAX, true));
}

#[test]
fn a_device_without_an_allocator_is_an_error() {
    let device = Device::new(DeviceType::PrivateUse2, None);
    assert_eq!(Storage::new(1, device).unwrap_err().kind(), ErrorKind::Device);
}

#[test]
fn zeroed_bytes_are_zero() {
    assert_eq!(bytes(&Storage::zeroed(1000, Device::CPU).unwrap()), [0; 1000]);
}

#[test]
fn foreign_memory_is_not_resized_and_is_given_back_once() {
    for read_only in [false, true] {
        let freed = Arc::new(AtomicUsize::new(0));
        let (count, mut memory) = (Arc::clone(&freed), vec![1u8, 2, 3]);
        let at = memory.as_mut_ptr();
        let deleter = Box::new(move || {
            count.fetch_add(memory.len(), Relaxed);
        });
        // SAFETY: the closure owns the vector.
        let storage = unsafe {
            if read_only {
                Storage::from_foreign_read_only(at, 3, Device::CPU, deleter)
            } else {
                Storage::from_foreign(at, 3, Device::CPU, deleter)
            }
        };
        assert_eq!(bytes(&storage), [1, 2, 3]);
        assert_eq!(storage.grow(4).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let written = WriteGuard::acquire(&storage).map(drop).map_err(|error| error.kind());
        assert_eq!(written, if read_only { Err(ErrorKind::Aliasing) } else { Ok(()) });
        assert_eq!(storage.version(), u32::from(!read_only));
        let other = storage.clone();
        assert_eq!((storage.use_count(), freed.load(Relaxed)), (2, 0));
        drop((storage, other));
        assert_eq!(freed.load(Relaxed), 3);
    }
}

/// Gives fewer bytes than requested.
struct Stingy;

impl Allocator for Stingy {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        CpuAllocator.allocate(bytes.saturating_sub(1))
    }
    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        self.allocate(bytes)
    }
    unsafe fn copy(&self, _: *const u8, _: *mut u8, _: usize) -> Result<()> {
        Ok(())
    }
    fn memory_stats(&self) -> crate::allocator::MemoryStats {
        Default::default()
    }
    fn reset_peak(&self) {}
    fn empty_cache(&self) {}
}

#[test]
fn an_allocator_that_gives_too_little_is_found_out() {
    let storage = Storage::with_allocator(8, Device::CPU, &Stingy);
    assert_eq!(storage.unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn growing_and_reading_threads_never_see_half_a_change() {
    let storage = Storage::from_vec(vec![1u8; 64]);
    let rounds = if cfg!(miri) { 5 } else { 500 };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..rounds).for_each(|i| storage.grow(64 + i).unwrap()));
        for _ in 0..rounds {
            let guard = ReadGuard::acquire(&storage).unwrap();
            // SAFETY: guarded; the first 64 bytes are never lost.
            let first = unsafe { std::slice::from_raw_parts(guard.data_ptr(), 64) };
            assert!(first.iter().all(|&b| b == 1));
        }
    });
}
