//! Tests memory statistics, switches and reports, exactly to the byte. It is one test, since all of them belong to the process.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test, in parts")]
#![expect(unsafe_code, reason = "looks at what fresh memory was filled with")]

use flambeau_core::allocator::{Allocator, CpuAllocator, DataPtr, Fill, MemoryEvent};
use std::sync::{Arc, Barrier, Mutex};

const CPU: CpuAllocator = CpuAllocator;

fn get(bytes: usize) -> DataPtr {
    CPU.allocate(bytes).unwrap()
}

fn live_and_peak() -> (usize, usize) {
    let stats = CPU.memory_stats();
    (stats.live_bytes, stats.peak_bytes)
}

#[test]
fn statistics_switches_and_reports() {
    one_thread_is_counted_exactly();
    threads_are_summed();
    the_cache_is_counted_bounded_and_emptied();
    fills();
    reports();
    assert_eq!(live_and_peak().0, 0);
}

fn one_thread_is_counted_exactly() {
    let before = CPU.memory_stats();
    assert_eq!(before.live_bytes, 0);
    let a = get(100);
    let b = get(200_000);
    assert_eq!(live_and_peak(), (200_100, 200_100));
    drop(b);
    assert_eq!(live_and_peak(), (100, 200_100));
    CPU.reset_peak();
    assert_eq!(live_and_peak(), (100, 100));
    // Small ones, which are published only now and then.
    let many: Vec<DataPtr> = (0..50).map(|_| get(1000)).collect();
    drop(many);
    assert_eq!(live_and_peak(), (100, 50_100));
    assert_eq!(get(0).bytes(), 0);
    drop(a);
    let after = CPU.memory_stats();
    assert_eq!((after.allocations - before.allocations, after.frees - before.frees), (52, 52));
    CPU.reset_peak();
    assert_eq!(live_and_peak(), (0, 0));
}

fn threads_are_summed() {
    let meet = Barrier::new(4);
    let before = CPU.memory_stats();
    std::thread::scope(|scope| {
        let moved = [0, 1, 2].map(|i| {
            let meet = &meet;
            scope.spawn(move || {
                let kept = get(10 + i);
                meet.wait();
                meet.wait();
                kept
            })
        });
        meet.wait();
        assert_eq!(CPU.memory_stats().live_bytes, 33);
        meet.wait();
        let kept = moved.map(|thread| thread.join().unwrap());
        assert_eq!(CPU.memory_stats().live_bytes, 33); // Exited threads have published.
        drop(kept); // Freed by another thread than the one that allocated them.
    });
    let after = CPU.memory_stats();
    assert_eq!(after.live_bytes, 0);
    assert_eq!((after.allocations - before.allocations, after.frees - before.frees), (3, 3));
}

fn the_cache_is_counted_bounded_and_emptied() {
    let cached = || CPU.memory_stats().cached_bytes;
    CPU.empty_cache();
    assert_eq!(cached(), 0);
    drop(get(100));
    assert_eq!(cached(), 128);
    drop(get(5 << 15));
    assert_eq!(cached(), 128 + (5 << 15));
    drop(get(5 << 15));
    assert_eq!(cached(), 128 + (5 << 15));
    CpuAllocator::set_cache_limit(100_000);
    assert_eq!(cached(), 128);
    drop(get(5 << 15));
    assert_eq!(cached(), 128);
    CpuAllocator::set_cache_limit(1 << 30);
    CPU.empty_cache();
    assert_eq!(cached(), 0);
}

fn fills() {
    for bytes in [1, 1000, 100_000] {
        for (fill, byte) in [(Fill::Junk, 0xFF), (Fill::Zero, 0)] {
            CpuAllocator::set_fill(fill);
            let data = get(bytes);
            // SAFETY: that long, and filled.
            let seen = unsafe { std::slice::from_raw_parts(data.as_ptr(), bytes) };
            assert!(seen == vec![byte; bytes], "{fill:?}");
            let zeroed = CPU.allocate_zeroed(bytes).unwrap();
            // SAFETY: that long, and zero.
            assert!(unsafe { std::slice::from_raw_parts(zeroed.as_ptr(), bytes) } == vec![0; bytes]);
        }
    }
    CpuAllocator::set_fill(Fill::None);
}

fn reports() {
    let told: Arc<Mutex<Vec<MemoryEvent>>> = Arc::default();
    let list = Arc::clone(&told);
    CpuAllocator::set_reporter(Some(Arc::new(move |event: &MemoryEvent| {
        drop(get(1)); // Its own allocations are not reported, or this would never end.
        list.lock().unwrap().push(*event);
    })));
    let (a, b) = (get(10), CPU.allocate_zeroed(100_000).unwrap());
    drop(get(0));
    let addresses = [a.as_ptr().addr(), b.as_ptr().addr()];
    drop(a);
    drop(b);
    CpuAllocator::set_reporter(None);
    drop(get(20));
    let told: Vec<_> = told.lock().unwrap().iter().map(|e| (e.allocated, e.address, e.bytes)).collect();
    let [a, b] = addresses;
    assert_eq!(told, [(true, a, 10), (true, b, 100_000), (false, a, 10), (false, b, 100_000)]);
}
