//! The slots of a job, in one atomic word. All threads see in the same order which helper takes a slot and when the free slots are
//! closed, and only one cache line passes between two cores.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts slots that no helper has taken yet.
const SLOT: u64 = 1;
/// Counts helpers that have a slot.
const ACTIVE: u64 = 1 << 16;
/// Set while the caller sleeps until no helper has a slot.
const CALLER_SLEEPS: u64 = 1 << 32;
/// The largest count of slots, and of helpers, that the word has bits for.
const MAX_COUNT: u64 = ACTIVE - 1;

fn count(word: u64, kind: u64) -> usize {
    ((word / kind) & MAX_COUNT) as usize
}

/// The slots of a job that helpers take part in. There is one job at a time.
#[derive(Default)]
pub(super) struct JobSlots(AtomicU64);

impl JobSlots {
    /// Opens `slots` for helpers. None are free or taken at that time, so no other thread changes the word, and a store suffices,
    /// which the caller need not wait for. A helper that takes a slot sees what the caller wrote before.
    pub(super) fn open(&self, slots: usize) {
        self.0.store((slots as u64).min(MAX_COUNT) * SLOT, Ordering::Release);
    }

    /// Closes the slots that no helper has taken.
    pub(super) fn close(&self) {
        // Mostly all are taken: then nothing is written, and the cache line stays in its core.
        if self.has_free() {
            self.0.fetch_and(!(MAX_COUNT * SLOT), Ordering::Relaxed);
        }
    }

    /// Whether a helper would find a free slot.
    pub(super) fn has_free(&self) -> bool {
        count(self.0.load(Ordering::Relaxed), SLOT) > 0
    }

    /// Takes a slot and returns its number, from 1 on; `None` if all are taken. The job lives at least until the helper calls
    /// [`leave`](Self::leave).
    pub(super) fn take(&self) -> Option<usize> {
        let taken = |word: u64| (count(word, SLOT) > 0).then(|| word - SLOT + ACTIVE);
        let before = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken).ok()?;
        Some(count(before, SLOT))
    }

    /// Gives a slot back. Returns whether the caller sleeps and no other helper has a slot, so that it must be woken. What the helper
    /// wrote is seen by a thread to which [`has_taken`](Self::has_taken) returns false.
    pub(super) fn leave(&self) -> bool {
        let before = self.0.fetch_sub(ACTIVE, Ordering::Release);
        count(before, ACTIVE) == 1 && before & CALLER_SLEEPS != 0
    }

    /// Whether a helper may be using the job.
    pub(super) fn has_taken(&self) -> bool {
        count(self.0.load(Ordering::Acquire), ACTIVE) > 0
    }

    /// Announces that the caller will sleep, if this returns that slots are taken; the last helper then sees it in `leave`.
    pub(super) fn caller_sleeps(&self) -> bool {
        count(self.0.fetch_or(CALLER_SLEEPS, Ordering::Acquire), ACTIVE) > 0
    }

    pub(super) fn caller_wakes(&self) {
        self.0.fetch_and(!CALLER_SLEEPS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
