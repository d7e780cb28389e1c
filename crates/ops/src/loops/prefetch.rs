//! How folds prefetch what they read once (Note: prefetching, in [`loops`](crate::loops)).

use super::machine::{FOLD_PREFETCH_DISTANCE, PREFETCH_DISTANCE, PREFETCHES_BY_HALVES};
use super::streaming;
use crate::Tensor;

/// How a fold prefetches its input.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    /// The distance in bytes; 0 for no prefetch instructions.
    pub(super) distance: usize,
    /// Each cache line is loaded a second time, at its middle, which the hardware prefetcher follows further, and prefetches go into
    /// L2.
    pub(super) by_halves: bool,
}

impl Prefetch {
    /// Left to the hardware prefetcher, with the second load of each cache line that it follows further.
    pub(crate) const HARDWARE: Self = Prefetch { distance: 0, by_halves: true };

    /// None: the input is in a cache.
    const NONE: Self = Prefetch { distance: 0, by_halves: false };

    /// Into L1, so many bytes ahead.
    pub(crate) fn into_l1(distance: usize) -> Self {
        Prefetch { distance, by_halves: false }
    }

    /// For the first of several passes over a row. On Zen 4 prefetches besides the second loads measured slower.
    pub(crate) fn for_first_pass() -> Self {
        if *PREFETCHES_BY_HALVES { Prefetch::HARDWARE } else { Prefetch::into_l1(PREFETCH_DISTANCE) }
    }

    /// For a fold that reads all of `input` once.
    ///
    /// Where most of the input is in a cache, loads need neither prefetches nor second loads, which measured slower there.
    pub(crate) fn for_fold(input: &Tensor) -> Self {
        match streaming::exceeds_llc(input.numel() as usize * input.dtype().size()) {
            false => Prefetch::NONE,
            true if *PREFETCHES_BY_HALVES => Prefetch { distance: FOLD_PREFETCH_DISTANCE, by_halves: true },
            true => Prefetch::into_l1(PREFETCH_DISTANCE),
        }
    }

    /// For two folds of each block of `bytes`, one after the other: memory would be idle while the second one reads what the first has
    /// loaded to L1, so that prefetches the next block.
    pub(crate) fn for_two_folds(input: &Tensor, bytes: usize) -> [Self; 2] {
        match streaming::exceeds_llc(input.numel() as usize * input.dtype().size()) {
            false => [Prefetch::NONE; 2],
            true => [Prefetch::for_first_pass(), Prefetch::into_l1(bytes)],
        }
    }
}
