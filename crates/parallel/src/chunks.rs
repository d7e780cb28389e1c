//! Splits a range into chunks, by its length and the grain size alone.

use std::ops::Range;

/// A range and the grain it is cut by; two words more than the range, so it is passed by value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    start: usize,
    end: usize,
    grain: usize,
}

impl Chunks {
    #[inline]
    pub(super) fn new(range: Range<usize>, grain: usize) -> Self {
        Self { start: range.start, end: range.end.max(range.start), grain: grain.max(1) }
    }

    #[inline]
    pub(super) fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// Whether the range is shorter than one and a half grains. Every small call tests this, so there is no division.
    #[inline]
    pub(super) fn is_single(self) -> bool {
        let len = self.end - self.start;
        len <= self.grain || len - self.grain < self.grain.div_ceil(2)
    }

    /// The length in grains, rounded to nearest, so that a short remainder joins the chunk before it instead of waking a thread.
    pub(super) fn count(self) -> usize {
        if self.is_single() {
            return 1;
        }
        let len = self.end - self.start;
        len / self.grain + usize::from(len % self.grain >= self.grain.div_ceil(2))
    }

    pub(super) fn get(self, index: usize) -> Range<usize> {
        let first = self.start + index * self.grain;
        let last = if index + 1 == self.count() { self.end } else { first + self.grain };
        first..last
    }
}
