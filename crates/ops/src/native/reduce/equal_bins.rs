//! Intervals of equal width, and of widths that are almost equal.

use bytemuck::Pod;
use std::ops::{Div, Mul, Sub};

/// Elements in whose type bins are computed.
pub(super) trait BinFloat:
    Pod + PartialOrd + Send + Sync + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Into<f64>
{
    /// The nearest number, or infinity.
    fn of(value: f64) -> Self;
    /// The nearest number that is finite.
    fn finite(value: f64) -> Self;
    /// The integer towards zero, within the bounds of the type; 0 for NaN.
    fn truncated(self) -> i32;
}

impl BinFloat for f32 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as f32
    }
    fn finite(value: f64) -> Self {
        (value as f32).clamp(f32::MIN, f32::MAX)
    }
    #[inline(always)]
    fn truncated(self) -> i32 {
        self as i32
    }
}

impl BinFloat for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    fn finite(value: f64) -> Self {
        value.clamp(f64::MIN, f64::MAX)
    }
    #[inline(always)]
    fn truncated(self) -> i32 {
        self as i32
    }
}

/// Elements whose bins are computed at a time.
pub(super) const BLOCK: usize = 256;

/// Intervals of equal width from `low` to `high`, both included.
pub(super) struct EqualBins<F> {
    /// The bounds of elements: no infinite one is in a bin.
    low: F,
    high: F,
    /// Where the first interval begins.
    start: F,
    /// Of all intervals together.
    width: F,
    bins: usize,
    /// `bins` as a float.
    scale: F,
}

impl<F: BinFloat> EqualBins<F> {
    pub(super) fn new(low: f64, high: f64, bins: usize) -> Self {
        let (start, scale) = (F::of(low), F::of(bins as f64));
        EqualBins {
            low: F::finite(low),
            high: F::finite(high),
            start,
            width: F::of(high) - start,
            bins,
            scale,
        }
    }

    /// The bin of an element; the number of bins if it is in none.
    ///
    /// Computed in the elements' type, as PyTorch does: the rounding decides to which bin an element at an edge belongs.
    #[inline(always)]
    pub(super) fn bin(&self, x: F) -> usize {
        if x >= self.low && x <= self.high {
            let position: f64 = self.position(x).into();
            (position as usize).min(self.bins - 1)
        } else {
            self.bins
        }
    }

    #[inline(always)]
    fn position(&self, x: F) -> F {
        (x - self.start) * self.scale / self.width
    }

    /// Whether the bins are numbers of 32 bits, as [`write_bins`](Self::write_bins) requires.
    pub(super) fn are_narrow(&self) -> bool {
        self.bins < i32::MAX as usize
    }

    /// [`bin`](Self::bin) of each element.
    #[inline(always)]
    pub(super) fn write_bins(&self, x: &[F], to: &mut [i32]) {
        let outside = self.bins as i32;
        for (to, x) in to.iter_mut().zip(x) {
            let bin = self.position(*x).truncated().clamp(0, outside - 1);
            *to = if (*x >= self.low) & (*x <= self.high) { bin } else { outside };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_bins_of_single_elements() {
        let mut x: Vec<f32> = (0..200).map(|i| i as f32 * 0.37 - 30.0).collect();
        x.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.7, 3.0, f32::MAX, f32::MIN]);
        for (low, high, bins) in
            [(-3.0, 7.5, 10), (0.7, 3.0, 1), (-3e38, 3e38, 100), (0.0, 1e-40, 7), (0.0, 1e300, 9)]
        {
            let equal = EqualBins::<f32>::new(low, high, bins);
            let mut made = vec![0; x.len()];
            equal.write_bins(&x, &mut made);
            assert!(equal.are_narrow());
            for (x, bin) in x.iter().zip(made) {
                assert_eq!(bin as usize, equal.bin(*x), "{x} in {bins} bins from {low} to {high}");
                assert!(x.is_finite() || bin as usize == bins);
            }
        }
    }
}
