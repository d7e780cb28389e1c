//! The two counts of an intrusive pointer, in one word.
//!
//! The low half counts strong owners and the high half weak ones; all strong owners together count as one weak owner.

use crate::sync::{AtomicU64, Ordering};

const STRONG: u64 = 1;
const WEAK: u64 = 1 << 32;
/// One owner, and it is strong.
const UNIQUE: u64 = STRONG | WEAK;
const STRONG_HALF: u64 = WEAK - 1;

/// A count that reaches this (2^31) is never lowered again: the value leaks, which is safe, where wrapping is not.
const FULL: u32 = 1 << 31;
/// The value to which a full count is reset: so far from both ends that the threads that are between reading a count and changing it
/// are too few to move it past either.
const PINNED: u32 = FULL + FULL / 2;

const fn strong_of(counts: u64) -> u32 {
    counts as u32
}

const fn weak_of(counts: u64) -> u32 {
    (counts >> 32) as u32
}

pub(super) struct Counts(AtomicU64);

impl Counts {
    /// The counts of a value with one owner, a strong one.
    #[inline]
    pub(super) fn unique() -> Self {
        Counts(AtomicU64::new(UNIQUE))
    }

    /// Whether the caller, a strong owner, is the only owner of either kind: then nobody can change that but the
    /// caller, and all that former owners did happened before.
    #[inline]
    pub(super) fn is_unique(&self) -> bool {
        self.0.load(Ordering::Acquire) == UNIQUE
    }

    pub(super) fn strong(&self) -> usize {
        strong_of(self.0.load(Ordering::Acquire)) as usize
    }

    /// Weak owners, the one that stands for the strong owners included.
    pub(super) fn weak(&self) -> usize {
        weak_of(self.0.load(Ordering::Acquire)) as usize
    }

    /// Counts another strong owner; the caller is one.
    #[inline]
    pub(super) fn retain_strong(&self) {
        // Relaxed: the caller's own count keeps the value, and counting publishes nothing.
        if strong_of(self.0.fetch_add(STRONG, Ordering::Relaxed)) >= FULL {
            self.update(|counts| (counts & !STRONG_HALF) | u64::from(PINNED));
        }
    }

    /// Counts another weak owner; the caller is an owner of either kind.
    #[inline]
    pub(super) fn retain_weak(&self) {
        if weak_of(self.0.fetch_add(WEAK, Ordering::Relaxed)) >= FULL {
            self.update(|counts| (counts & STRONG_HALF) | (u64::from(PINNED) << 32));
        }
    }

    /// Counts another strong owner if there is one; the caller is a weak owner.
    #[inline]
    pub(super) fn upgrade(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let raised = match strong_of(seen) {
                0 => return false,
                FULL.. => seen,
                _ => seen + STRONG,
            };
            // Acquire: changes that its only owner has made to the value happened before.
            match self.0.compare_exchange_weak(seen, raised, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Uncounts the caller, a strong owner. True for the last one, which must drop the value and then release the
    /// weak count that the strong owners shared.
    #[inline]
    pub(super) fn release_strong(&self) -> bool {
        if strong_of(self.0.load(Ordering::Relaxed)) >= FULL {
            return false;
        }
        // Release: the caller's uses happen before the drop of the value, which acquires.
        strong_of(self.0.fetch_sub(STRONG, Ordering::AcqRel)) == 1
    }

    /// Uncounts the caller, a weak owner. True for the last owner of either kind, which must free the block.
    #[inline]
    pub(super) fn release_weak(&self) -> bool {
        let seen = self.0.load(Ordering::Acquire);
        if seen == WEAK {
            return true; // Alone, as in `is_unique`.
        }
        weak_of(seen) < FULL && self.0.fetch_sub(WEAK, Ordering::AcqRel) == WEAK
    }

    #[cold]
    fn update(&self, change: impl Fn(u64) -> u64) {
        let mut seen = self.0.load(Ordering::Relaxed);
        while let Err(now) =
            self.0.compare_exchange_weak(seen, change(seen), Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }

    /// Makes loom check that every access to the counts happened before this one.
    #[cfg(loom)]
    pub(super) fn check_quiet(&mut self) {
        self.0.with_mut(|_| ());
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn with(strong: u32, weak: u32) -> Counts {
        Counts(AtomicU64::new(u64::from(strong) | u64::from(weak) << 32))
    }

    #[test]
    fn a_full_strong_count_is_never_lowered() {
        let counts = with(FULL - 1, 3);
        counts.retain_strong();
        assert_eq!((counts.strong(), counts.weak()), (FULL as usize, 3));
        counts.retain_strong();
        assert_eq!((counts.strong(), counts.weak()), (PINNED as usize, 3));
        assert!(!counts.release_strong());
        assert!(counts.upgrade());
        assert_eq!((counts.strong(), counts.weak()), (PINNED as usize, 3));
    }

    #[test]
    fn a_full_weak_count_is_never_lowered() {
        let counts = with(1, FULL);
        counts.retain_weak();
        assert_eq!((counts.strong(), counts.weak()), (1, PINNED as usize));
        assert!(counts.release_strong());
        assert!(!counts.release_weak());
        assert_eq!((counts.strong(), counts.weak()), (0, PINNED as usize));
        assert!(!counts.upgrade());
    }

    #[test]
    fn the_last_of_each_kind_is_told() {
        let counts = Counts::unique();
        assert!(counts.is_unique());
        counts.retain_weak();
        counts.retain_strong();
        assert!(!counts.is_unique());
        assert!(!counts.release_strong());
        assert!(counts.release_strong());
        assert!(!counts.release_weak());
        assert!(counts.release_weak());
    }
}
