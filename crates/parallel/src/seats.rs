//! Who is at a job, in one word, so that all see who takes a seat and who closes it in one order, and one line of cache passes between
//! two cores.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Seats that nobody has taken yet.
const SEAT: u64 = 1;
/// Helpers that have one.
const ACTIVE: u64 = 1 << 16;
/// The caller sleeps until nobody has a seat.
const CALLER_SLEEPS: u64 = 1 << 32;
/// How many of one kind there can be.
const MOST: u64 = ACTIVE - 1;

fn count(word: u64, kind: u64) -> usize {
    ((word / kind) & MOST) as usize
}

/// The seats of the one job that may be open.
#[derive(Default)]
pub(super) struct Seats(AtomicU64);

impl Seats {
    /// Opens so many for helpers. None are open or taken, so nobody else changes them, and a store will do, which the caller need not
    /// wait for. What it has written is seen by those that take one.
    pub(super) fn open(&self, wanted: usize) {
        self.0.store((wanted as u64).min(MOST) * SEAT, Ordering::Release);
    }

    /// Closes those that nobody has taken.
    pub(super) fn close(&self) {
        // Mostly all are, and the line stays where it is.
        if self.are_open() {
            self.0.fetch_and(!(MOST * SEAT), Ordering::Relaxed);
        }
    }

    /// Whether a helper would find one.
    pub(super) fn are_open(&self) -> bool {
        count(self.0.load(Ordering::Relaxed), SEAT) > 0
    }

    /// The number of a seat, from 1 on; none where all are taken. Until the helper [leaves](Self::leave), the job stays.
    pub(super) fn take(&self) -> Option<usize> {
        let taken = |word: u64| (count(word, SEAT) > 0).then(|| word - SEAT + ACTIVE);
        let before = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken).ok()?;
        Some(count(before, SEAT))
    }

    /// Gives a seat back; whether the caller sleeps and nobody else has one. What the helper has written is seen by who
    /// [finds](Self::are_taken) none taken.
    pub(super) fn leave(&self) -> bool {
        let before = self.0.fetch_sub(ACTIVE, Ordering::Release);
        count(before, ACTIVE) == 1 && before & CALLER_SLEEPS != 0
    }

    /// Whether a helper may be looking at the job.
    pub(super) fn are_taken(&self) -> bool {
        count(self.0.load(Ordering::Acquire), ACTIVE) > 0
    }

    /// The caller will sleep, if this says that seats are taken; the last helper is told of it.
    pub(super) fn caller_sleeps(&self) -> bool {
        count(self.0.fetch_or(CALLER_SLEEPS, Ordering::Acquire), ACTIVE) > 0
    }

    pub(super) fn caller_wakes(&self) {
        self.0.fetch_and(!CALLER_SLEEPS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
