//! The lock on a storage's elements: many readers or one writer.
//!
//! It is biased towards the thread that made the storage, which takes it without atomic read-modify-writes until another thread needs it
//! (`bias`); from then on all threads use one atomic word. A bit of the same word says that the host may not access the bytes at all,
//! so that this check costs nothing where the host may.
//!
//! A waiting writer does not block readers, so that a thread can acquire a read guard while it holds another one; readers that never
//! cease can therefore delay a writer without bound. Waiters spin, then yield, then sleep.

use crate::blocking;
use crate::sync::{AtomicU32, Ordering};
use bias::{Attempt, Bias};
use std::time::Instant;

mod bias;
mod parking;

/// What a guard allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading, along with any number of other readers.
    Read,
    /// Reading and writing, alone.
    Write,
}

/// The lock is held for writing.
const WRITER: u32 = 1 << 31;
/// A thread may be asleep until the lock is released.
const SLEEPER: u32 = 1 << 30;
/// The host may not access the bytes: set as long as the lock lives, and a conflict for every access by the host.
const NOT_HOST: u32 = 1 << 29;
/// The number of readers; 2^29 guards at once do not fit into memory.
const READERS: u32 = NOT_HOST - 1;

/// For `BARRED`: no bit beside those of guards excludes a device's kernels.
const NOTHING: u32 = 0;

/// How often a waiter tries again before it lets other threads run, and then before it sleeps.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 8 };

/// A lock for many readers or one writer. The guards in [`storage_guards`](crate::storage_guards) are how it is used.
///
/// The thread that takes the lock must be the one that releases it.
pub struct StorageLock {
    bias: Bias,
    word: AtomicU32,
}

impl StorageLock {
    /// A free lock, biased towards the calling thread.
    #[inline(always)]
    pub fn new() -> Self {
        StorageLock { bias: Bias::new(), word: AtomicU32::new(0) }
    }

    /// A free lock on bytes that the host may not access, or that do not exist: only [`lock_for_device`] takes it. It is not biased, so
    /// that every attempt by the host finds the bit that refuses it.
    ///
    /// [`lock_for_device`]: Self::lock_for_device
    pub fn not_host() -> Self {
        StorageLock { bias: Bias::revoked(), word: AtomicU32::new(NOT_HOST) }
    }

    /// Whether the host may access the bytes.
    pub fn is_host(&self) -> bool {
        self.word.load(Ordering::Relaxed) & NOT_HOST == 0
    }

    /// Takes the lock if that is possible without waiting.
    #[inline(always)]
    pub fn try_lock(&self, access: Access) -> bool {
        if self.bias.is_ours() {
            match self.bias.take(access) {
                Attempt::Taken => return true,
                Attempt::Conflict => return false,
                Attempt::Revoked => self.wake_sleepers(),
            }
        }
        self.try_shared::<NOT_HOST>(access)
    }

    /// The same by the word that all threads use, unless it has a bit of `BARRED`.
    #[inline]
    fn try_shared<const BARRED: u32>(&self, access: Access) -> bool {
        if !self.bias.revoke() || !self.take_word::<BARRED>(access) {
            return false;
        }
        let allowed = self.bias.allows(access);
        if !allowed {
            self.give_word_back(access);
        }
        allowed
    }

    /// Tries again while only the number of readers changes, and fails if another thread's guard conflicts.
    #[inline]
    fn take_word<const BARRED: u32>(&self, access: Access) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        while let Some(next) = taken::<BARRED>(seen, access) {
            match self.word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes the lock, waiting for others until `deadline`, or for ever. False after the deadline, or if the bytes are not the
    /// [host's](Self::is_host).
    pub fn lock(&self, access: Access, deadline: Option<Instant>) -> bool {
        self.is_host() && (self.try_lock(access) || self.wait::<NOT_HOST>(access, deadline))
    }

    /// The same for a kernel that runs on the device whose bytes these are, or that accesses none.
    pub fn lock_for_device(&self, access: Access, deadline: Option<Instant>) -> bool {
        if self.is_host() {
            return self.lock(access, deadline);
        }
        self.try_shared::<NOTHING>(access) || self.wait::<NOTHING>(access, deadline)
    }

    #[cold]
    fn wait<const BARRED: u32>(&self, access: Access, deadline: Option<Instant>) -> bool {
        let sleep = || self.sleep::<BARRED>(access, deadline);
        self.bias.revoke() && (self.spin::<BARRED>(access) || blocking::waiting(sleep) == Some(true))
    }

    /// Releases what [`lock`](Self::lock) or [`try_lock`](Self::try_lock) took with the same access.
    #[inline(always)]
    pub fn unlock(&self, access: Access) {
        // If a thread holds the lock both by the bias and by the word, since the bias was revoked in between, both are for reading, and
        // it does not matter which is released first.
        if !self.bias.is_ours() && self.bias.held_by_us() == 0 {
            self.give_word_back(access);
        } else if !self.bias.give_back(access) {
            self.wake_sleepers();
        }
    }

    /// Releases the lock with the access by which the caller holds it: if the word says writing, the caller is the only holder.
    #[inline(always)]
    pub fn unlock_held(&self) {
        let held = match self.bias.held_by_us() {
            0 => self.word.load(Ordering::Relaxed),
            held => held,
        };
        self.unlock(if held & WRITER != 0 { Access::Write } else { Access::Read });
    }

    #[inline]
    fn give_word_back(&self, access: Access) {
        // Release: what the guard allowed happens before the next conflicting guard.
        let before = match access {
            Access::Read => self.word.fetch_sub(1, Ordering::Release),
            Access::Write => self.word.fetch_sub(WRITER, Ordering::Release),
        };
        // A sleeper may continue when there is no writer and, if it needs to write, no reader.
        if before & SLEEPER != 0 && before & READERS <= 1 {
            self.wake();
        }
    }

    #[cold]
    fn spin<const BARRED: u32>(&self, access: Access) -> bool {
        for attempt in 0..SPINS + YIELDS {
            if attempt < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            if self.try_shared::<BARRED>(access) {
                return true;
            }
        }
        false
    }

    /// Sleeps until the lock is taken. A sleeper sets [`SLEEPER`] in the lock's word and falls asleep under the mutex of its parking
    /// bucket; a waker clears the bit, and wakes, under the same mutex. So a thread that releases the lock either sees that another one
    /// sleeps, or the sleeper sees the release when it reads the word for the last time.
    #[cold]
    fn sleep<const BARRED: u32>(&self, access: Access, deadline: Option<Instant>) -> bool {
        loop {
            let bucket = parking::lock(self.address());
            let seen = self.word.fetch_or(SLEEPER, Ordering::Relaxed);
            if taken::<BARRED>(seen, access).is_none() || !self.bias.allows_or_will_wake(access) {
                if bucket.wait(deadline).is_none() {
                    return false;
                }
                continue;
            }
            // The mutex is released first: if the attempt fails, what it has taken is released, which may wake sleepers and lock the
            // mutex.
            drop(bucket);
            if self.try_shared::<BARRED>(access) {
                return true;
            }
        }
    }

    #[cold]
    fn wake(&self) {
        let bucket = parking::lock(self.address());
        self.word.fetch_and(!SLEEPER, Ordering::Relaxed);
        bucket.wake_all();
    }

    /// Wakes sleepers, if there are any, after the owner of the bias has released what it held.
    #[cold]
    fn wake_sleepers(&self) {
        if self.word.load(Ordering::Relaxed) & SLEEPER != 0 {
            self.wake();
        }
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

/// The word after taking a lock whose word is `seen`, if it can be taken and no bit of `BARRED` is there.
#[inline(always)]
const fn taken<const BARRED: u32>(seen: u32, access: Access) -> Option<u32> {
    match access {
        Access::Read if seen & (WRITER | BARRED) == 0 => Some(seen + 1),
        Access::Write if seen & (WRITER | READERS | BARRED) == 0 => Some(seen | WRITER),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
