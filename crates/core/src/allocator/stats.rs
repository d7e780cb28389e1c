//! How much memory is in use: each thread counts for itself, and [`memory_stats`] sums.

use super::shared_cache;
use super::thread_cache::Threads;
use crate::data_ptr::MemoryStats;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A thread publishes its counts when they have changed by this many bytes.
const WINDOW: i64 = 64 << 10;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);

/// What one thread has counted since it last published. Only that thread writes it, except for `reset_peak`.
pub(super) struct Counters {
    live: AtomicI64,
    high: AtomicI64,
    allocations: AtomicU64,
    frees: AtomicU64,
    /// `live` is published when it differs from 0 by more than this; negative while the thread is not registered, so that every count is
    /// published.
    window: AtomicI64,
}

impl Counters {
    pub(super) const fn new() -> Self {
        Counters {
            live: AtomicI64::new(0),
            high: AtomicI64::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            window: AtomicI64::new(-1),
        }
    }

    /// Counts; true when it is time to publish.
    #[inline(always)]
    pub(super) fn allocated(&self, bytes: usize) -> bool {
        let live = self.live.load(Relaxed) + bytes as i64;
        self.live.store(live, Relaxed);
        self.allocations.store(self.allocations.load(Relaxed) + 1, Relaxed);
        if live > self.high.load(Relaxed) {
            self.high.store(live, Relaxed);
        }
        live > self.window.load(Relaxed)
    }

    /// Counts; true when it is time to publish.
    #[inline(always)]
    pub(super) fn freed(&self, bytes: usize) -> bool {
        let live = self.live.load(Relaxed) - bytes as i64;
        self.live.store(live, Relaxed);
        self.frees.store(self.frees.load(Relaxed) + 1, Relaxed);
        live < -self.window.load(Relaxed)
    }

    pub(super) fn open(&self) {
        self.window.store(WINDOW, Relaxed);
    }

    pub(super) fn close(&self) {
        self.publish();
        self.window.store(-1, Relaxed);
    }

    /// Adds the counts to those of all threads.
    pub(super) fn publish(&self) {
        let (live, high) = (self.live.load(Relaxed), self.high.load(Relaxed));
        let before = LIVE.fetch_add(live, Relaxed);
        PEAK.fetch_max(before + high, Relaxed);
        ALLOCATIONS.fetch_add(self.allocations.load(Relaxed), Relaxed);
        FREES.fetch_add(self.frees.load(Relaxed), Relaxed);
        self.live.store(0, Relaxed);
        self.high.store(0, Relaxed);
        self.allocations.store(0, Relaxed);
        self.frees.store(0, Relaxed);
    }
}

/// The sum over all threads.
pub(super) fn memory_stats() -> MemoryStats {
    let threads = Threads::lock();
    let sum = |count: fn(&Counters) -> &AtomicU64| -> u64 {
        threads.iter().map(|thread| count(&thread.counters).load(Relaxed)).sum()
    };
    let live = total_live(&threads);
    let thread_peak = |c: &Counters| live - c.live.load(Relaxed) + c.high.load(Relaxed);
    let peak = threads.iter().map(|thread| thread_peak(&thread.counters)).fold(PEAK.load(Relaxed), i64::max);
    let in_threads: usize = threads.iter().map(|thread| thread.cached_bytes()).sum();
    MemoryStats {
        live_bytes: live.max(0) as usize,
        peak_bytes: peak.max(live).max(0) as usize,
        cached_bytes: in_threads + shared_cache::cached_bytes(),
        allocations: ALLOCATIONS.load(Relaxed) + sum(|c| &c.allocations),
        frees: FREES.load(Relaxed) + sum(|c| &c.frees),
    }
}

/// Resets the peak to the bytes that are live now.
pub(super) fn reset_peak() {
    let threads = Threads::lock();
    PEAK.store(total_live(&threads), Relaxed);
    for thread in threads.iter() {
        thread.counters.high.store(thread.counters.live.load(Relaxed), Relaxed);
    }
}

fn total_live(threads: &Threads) -> i64 {
    LIVE.load(Relaxed) + threads.iter().map(|thread| thread.counters.live.load(Relaxed)).sum::<i64>()
}
