//! The lock on a storage's elements: many readers or one writer, in one word.
//!
//! A waiting writer never holds readers up, so that a thread may read what it already reads; a stream of readers can
//! therefore delay a writer for as long as it lasts. Waiters spin, then yield, then sleep.

use crate::sync::{AtomicU32, Ordering};
use std::time::Instant;

mod parking;

#[cfg(all(unix, not(loom), not(miri)))]
pub(crate) use parking::LocksOfSleepers;

/// What a guard allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading, along with any number of other readers.
    Read,
    /// Reading and writing, alone.
    Write,
}

/// Somebody writes.
const WRITER: u32 = 1 << 31;
/// Somebody may be asleep until the lock is released.
const SLEEPER: u32 = 1 << 30;
/// The number of readers; 2^30 guards at once do not fit into memory.
const READERS: u32 = SLEEPER - 1;

/// How often a waiter looks again before it lets other threads run, and then before it sleeps.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 8 };

/// A lock for many readers or one writer. The guards in [`storage_guards`](crate::storage_guards) are how it is used.
pub struct StorageLock(AtomicU32);

impl StorageLock {
    /// A free lock.
    #[inline]
    pub fn new() -> Self {
        StorageLock(AtomicU32::new(0))
    }

    /// Takes the lock if that takes no waiting.
    #[inline(always)]
    pub fn try_lock(&self, access: Access) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        match taken(seen, access) {
            Some(next) => {
                self.0.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
                    || self.try_again(access)
            }
            None => false,
        }
    }

    /// Tries until another thread really stands in the way, not just another reader's counting.
    #[cold]
    fn try_again(&self, access: Access) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while let Some(next) = taken(seen, access) {
            match self.0.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes the lock, waiting for others until `deadline`, or for ever. False if the time has run out.
    pub fn lock(&self, access: Access, deadline: Option<Instant>) -> bool {
        self.try_lock(access) || self.spin(access) || self.sleep(access, deadline)
    }

    /// Releases what [`lock`](Self::lock) or [`try_lock`](Self::try_lock) took with the same access.
    #[inline(always)]
    pub fn unlock(&self, access: Access) {
        // Release: what the guard allowed happens before the next conflicting guard.
        let before = match access {
            Access::Read => self.0.fetch_sub(1, Ordering::Release),
            Access::Write => self.0.fetch_sub(WRITER, Ordering::Release),
        };
        // A sleeper can go on once nobody writes and, if it wants to write, nobody reads.
        if before & SLEEPER != 0 && before & READERS <= 1 {
            self.wake();
        }
    }

    /// Releases the lock in whichever way the caller holds it: while it is held for writing, nobody else holds it.
    #[inline(always)]
    pub fn unlock_held(&self) {
        let written = self.0.load(Ordering::Relaxed) & WRITER != 0;
        self.unlock(if written { Access::Write } else { Access::Read });
    }

    #[cold]
    fn spin(&self, access: Access) -> bool {
        for turn in 0..SPINS + YIELDS {
            if turn < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            if self.try_lock(access) {
                return true;
            }
        }
        false
    }

    /// Sleeps until the lock is taken. A sleeper says so in the lock's word, and falls asleep, under the mutex of
    /// `parking`; a waker clears that, and wakes, under the same mutex. So whoever releases the lock either sees that
    /// somebody sleeps, or is seen by the sleeper's last look at the word.
    #[cold]
    fn sleep(&self, access: Access, deadline: Option<Instant>) -> bool {
        let mut bed = parking::lock(self.address());
        loop {
            let seen = self.0.fetch_or(SLEEPER, Ordering::Relaxed);
            if taken(seen, access).is_some() {
                if self.try_again(access) {
                    return true;
                }
                continue;
            }
            match bed.wait(deadline) {
                Some(again) => bed = again,
                None => return false,
            }
        }
    }

    #[cold]
    fn wake(&self) {
        let bed = parking::lock(self.address());
        self.0.fetch_and(!SLEEPER, Ordering::Relaxed);
        bed.wake_all();
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Default for StorageLock {
    fn default() -> Self {
        Self::new()
    }
}

/// The word after taking a lock whose word is `seen`, if it can be taken.
#[inline(always)]
const fn taken(seen: u32, access: Access) -> Option<u32> {
    match access {
        Access::Read if seen & WRITER == 0 => Some(seen + 1),
        Access::Write if seen & (WRITER | READERS) == 0 => Some(seen | WRITER),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
