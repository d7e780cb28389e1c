//! Pseudo-random numbers for checks with random cases.

use std::ops::RangeInclusive;

/// A generator of pseudo-random numbers (SplitMix64).
pub struct Draw(u64);

impl Draw {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    /// The next number, of all 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut h = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        h ^ (h >> 31)
    }

    /// A number in `range`.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + (self.bits() % (range.end() - range.start() + 1) as u64) as usize
    }

    /// One of a list that is not empty.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0..=all.len() - 1)]
    }
}
