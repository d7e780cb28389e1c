//! Threads that wait for a storage lock sleep in one of a few parking buckets, chosen by the lock's address.

#[cfg(not(loom))]
use crate::fork::{ForkSlot, Hooks};
use std::time::Instant;

#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};

/// Locks that share a bucket wake each other's sleepers spuriously, which is harmless.
const BUCKETS: usize = if cfg!(loom) { 1 } else { 64 };

struct Bucket {
    mutex: Mutex<()>,
    condvar: Condvar,
}

#[cfg(not(loom))]
static ALL_BUCKETS: [Bucket; BUCKETS] =
    [const { Bucket { mutex: Mutex::new(()), condvar: Condvar::new() } }; BUCKETS];

#[cfg(loom)]
loom::lazy_static! {
    static ref ALL_BUCKETS: [Bucket; BUCKETS] = [Bucket { mutex: Mutex::new(()), condvar: Condvar::new() }];
}

/// A bucket whose mutex is held.
pub(super) struct Locked {
    bucket: &'static Bucket,
    guard: MutexGuard<'static, ()>,
}

/// Takes the mutex of the bucket for a lock at `address`.
pub(super) fn lock(address: usize) -> Locked {
    #[cfg(not(loom))]
    AT_FORK.register();
    // Storages are 64-byte aligned; the product spreads their low bits to the top (Fibonacci hashing).
    let hash = (address / 64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let bucket = &ALL_BUCKETS[(hash >> (usize::BITS - 8)) % BUCKETS];
    Locked { bucket, guard: imp::lock(&bucket.mutex) }
}

impl Locked {
    /// Releases the mutex and sleeps until woken, sometimes spuriously. `None` after the deadline.
    pub(super) fn wait(self, deadline: Option<Instant>) -> Option<Self> {
        let guard = imp::wait(&self.bucket.condvar, self.guard, deadline)?;
        Some(Locked { bucket: self.bucket, guard })
    }

    /// Wakes all threads that sleep here.
    pub(super) fn wake_all(self) {
        self.bucket.condvar.notify_all();
    }
}

/// Holds every bucket's mutex across a fork, so that the child finds them free.
#[cfg(not(loom))]
static AT_FORK: Hooks = Hooks::new(
    |forking| HELD.put(forking, std::array::from_fn(|i| imp::lock(&ALL_BUCKETS[i].mutex))),
    |forking| drop(HELD.take(forking)),
    |forking| drop(HELD.take(forking)),
);

#[cfg(not(loom))]
static HELD: ForkSlot<[MutexGuard<'static, ()>; BUCKETS]> = ForkSlot::new();

#[cfg(not(loom))]
mod imp {
    use super::*;
    use std::sync::PoisonError;

    pub(super) fn lock(mutex: &'static Mutex<()>) -> MutexGuard<'static, ()> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(
        condvar: &Condvar,
        guard: MutexGuard<'a, ()>,
        deadline: Option<Instant>,
    ) -> Option<MutexGuard<'a, ()>> {
        let Some(at) = deadline else {
            return Some(condvar.wait(guard).unwrap_or_else(PoisonError::into_inner));
        };
        let left = at.saturating_duration_since(Instant::now());
        let (guard, result) = condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        (!result.timed_out()).then_some(guard)
    }
}

#[cfg(loom)]
mod imp {
    use super::*;
    use std::sync::PoisonError;

    pub(super) fn lock(mutex: &'static Mutex<()>) -> MutexGuard<'static, ()> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// loom has no time: a deadline is never reached.
    pub(super) fn wait<'a>(
        condvar: &Condvar,
        guard: MutexGuard<'a, ()>,
        _: Option<Instant>,
    ) -> Option<MutexGuard<'a, ()>> {
        Some(condvar.wait(guard).unwrap_or_else(PoisonError::into_inner))
    }
}
