//! Measures the cost of memory operations: `cargo test -p flambeau-core --release --test memory_times -- --ignored --nocapture
//! --test-threads 1`.
#![expect(unsafe_code, reason = "touches the memory it times")]
#![cfg(not(loom))]

use flambeau_core::allocator::{Allocator, CpuAllocator, allocator_for};
use flambeau_core::intrusive_ptr::{IntrusivePtr, IntrusiveTarget};
use flambeau_core::storage::Storage;
use flambeau_core::storage_guards::{ReadGuard, StorageGuards};
use flambeau_core::storage_lock::{Access, StorageLock};
use flambeau_core::{Device, DeviceType};
use std::hint::black_box;
use std::time::Instant;

/// The minimum time of a call over several runs, each of `calls`.
fn time<R>(what: &str, calls: u32, mut call: impl FnMut() -> R) {
    let run = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    };
    let mut all = || (0..calls).for_each(|_| drop(black_box(call())));
    let best = (0..20).map(|_| run(&mut all)).fold(f64::INFINITY, f64::min);
    println!("{what:<58} {best:>12.2} ns");
}

struct Node(#[expect(dead_code, reason = "there to take room")] [u64; 12]);
impl IntrusiveTarget for Node {}

#[test]
#[ignore = "a measurement"]
fn small_things() {
    const CALLS: u32 = 200_000;
    time("Box new + drop, 104 bytes", CALLS, || Box::new(Node([1; 12])));
    time("IntrusivePtr new + drop, 104 bytes", CALLS, || IntrusivePtr::new(Node([1; 12])));
    let node = IntrusivePtr::new(Node([1; 12]));
    time("IntrusivePtr clone + drop", CALLS, || node.clone());
    for bytes in [4, 64, 1000, 4096, 16384] {
        time(&format!("allocate + free {bytes} bytes"), CALLS, || {
            CpuAllocator.allocate(bytes).map(drop).is_ok()
        });
    }
    time("allocate + free 64 KiB (shared cache)", CALLS, || CpuAllocator.allocate(65536).map(drop).is_ok());
    time("allocator_for", CALLS, || allocator_for(black_box(DeviceType::Cpu)).is_ok());
    time("Storage new + drop, 64 bytes", CALLS, || {
        Storage::new(64, black_box(Device::CPU)).map(drop).is_ok()
    });
}

#[test]
#[ignore = "a measurement"]
fn guards() {
    const CALLS: u32 = 200_000;
    let word = std::sync::atomic::AtomicU32::new(0);
    time("the floor: two atomic updates", CALLS, || {
        word.fetch_add(1, std::sync::atomic::Ordering::Acquire);
        word.fetch_sub(1, std::sync::atomic::Ordering::Release)
    });
    let lock = StorageLock::new();
    for access in [Access::Read, Access::Write] {
        time(&format!("lock + unlock {access:?}"), CALLS, || {
            assert!(lock.lock(black_box(access), None));
            lock.unlock(access);
        });
    }
    let all = [(); 3].map(|()| Storage::new(64, Device::CPU).unwrap());
    let [a, b, c] = &all;
    for (what, operands) in [
        ("1 read", vec![(a, Access::Read)]),
        ("2 reads", vec![(a, Access::Read), (b, Access::Read)]),
        ("2 reads, 1 write", vec![(a, Access::Read), (b, Access::Read), (c, Access::Write)]),
    ] {
        let operands = black_box(operands);
        time(&format!("guards: {what}"), CALLS, || drop(StorageGuards::acquire(&operands)));
    }
    time("ReadGuard", CALLS, || ReadGuard::acquire(a).map(drop).is_ok());
}

#[test]
#[ignore = "a measurement"]
fn large_blocks() {
    const BYTES: usize = 40_000_000;
    let touch = |zeroed: bool| {
        let data = if zeroed { CpuAllocator.allocate_zeroed(BYTES) } else { CpuAllocator.allocate(BYTES) };
        let data = data.unwrap();
        for at in (0..BYTES).step_by(4096) {
            // SAFETY: inside the allocation.
            unsafe { data.as_ptr().add(at).write_volatile(1) };
        }
    };
    time("40 MB, a page touched at a time, from the cache", 20, || touch(false));
    time("40 MB, zeroed, from the cache", 5, || touch(true));
    CpuAllocator::set_cache_limit(0);
    time("40 MB, a page touched at a time, fresh", 5, || touch(false));
    time("40 MB, zeroed, fresh", 5, || touch(true));
    CpuAllocator::set_cache_limit(1 << 30);
}
