//! Where threads sleep that wait for a storage lock: a few beds, chosen by the lock's address.

#[cfg(not(loom))]
use crate::fork::{Hooks, Kept};
use std::time::Instant;

#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};

/// Locks that share a bed wake each other's sleepers for nothing, and are otherwise as good.
const BEDS: usize = if cfg!(loom) { 1 } else { 64 };

struct Bed {
    mutex: Mutex<()>,
    condvar: Condvar,
}

#[cfg(not(loom))]
static ALL: [Bed; BEDS] = [const { Bed { mutex: Mutex::new(()), condvar: Condvar::new() } }; BEDS];

#[cfg(loom)]
loom::lazy_static! {
    static ref ALL: [Bed; BEDS] = [Bed { mutex: Mutex::new(()), condvar: Condvar::new() }];
}

/// A bed whose mutex is held.
pub(super) struct Locked {
    bed: &'static Bed,
    guard: MutexGuard<'static, ()>,
}

/// Takes the mutex of the bed for a lock at `address`.
pub(super) fn lock(address: usize) -> Locked {
    #[cfg(not(loom))]
    AT_FORK.register();
    // Storages are 64-byte aligned; the product spreads their low bits to the top (Fibonacci hashing).
    let hash = (address / 64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let bed = &ALL[(hash >> (usize::BITS - 8)) % BEDS];
    Locked { bed, guard: imp::lock(&bed.mutex) }
}

impl Locked {
    /// Sleeps, the mutex released meanwhile, until woken or, now and then, for no reason. `None` after the deadline.
    pub(super) fn wait(self, deadline: Option<Instant>) -> Option<Self> {
        let guard = imp::wait(&self.bed.condvar, self.guard, deadline)?;
        Some(Locked { bed: self.bed, guard })
    }

    /// Wakes all who sleep here.
    pub(super) fn wake_all(self) {
        self.bed.condvar.notify_all();
    }
}

/// Every bed's mutex, held across a fork, so that the child finds them free.
#[cfg(not(loom))]
static AT_FORK: Hooks = Hooks::new(
    |forking| HELD.put(forking, std::array::from_fn(|i| imp::lock(&ALL[i].mutex))),
    |forking| drop(HELD.take(forking)),
    |forking| drop(HELD.take(forking)),
);

#[cfg(not(loom))]
static HELD: Kept<[MutexGuard<'static, ()>; BEDS]> = Kept::new();

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
