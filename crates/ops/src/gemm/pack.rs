//! Copies a panel of an operand so that the micro-kernel reads it from the first unit to the last.
#![expect(unsafe_code, reason = "raw operands")]

use std::marker::PhantomData;

use super::{element::Pack, lanes::Body};

/// A panel: `width` rows of A or columns of B (`lane` is the stride between them), over `k` elements of stride
/// `along`. It becomes `k / DEPTH` groups of `padded` units; those past `width`, and the second half of an odd last
/// pair, are zero.
pub(super) struct PackPanel<T, U> {
    pub(super) from: *const T,
    pub(super) lane: isize,
    pub(super) along: isize,
    pub(super) width: usize,
    pub(super) k: usize,
    pub(super) to: *mut U,
    pub(super) padded: usize,
    pub(super) units: PhantomData<U>,
}

/// # Safety
/// - `width` x `k` elements are readable through the strides.
/// - `padded * k.div_ceil(DEPTH)` units are writable, and `padded >= width`.
impl<T: Pack<U>, U: Copy + Default> Body for PackPanel<T, U> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the conditions above.
        unsafe {
            if self.lane == 1 && self.width == self.padded {
                match self.width {
                    // The common widths as constants: their copies are a few registers each.
                    32 => self.rows(32),
                    16 => self.rows(16),
                    12 => self.rows(12),
                    width => self.rows(width),
                }
            } else if self.lane == 1 {
                self.rows(self.width);
            } else {
                self.transpose();
            }
        }
    }
}

impl<T: Pack<U>, U: Copy + Default> PackPanel<T, U> {
    /// Element `(lane, p)`, or the one before it for the missing half of a last pair, to be ignored.
    #[inline(always)]
    unsafe fn unit(&self, lane: usize, group: usize) -> U {
        let p = group * T::DEPTH;
        // SAFETY: `lane < width` and `p < k`; the second element is read only where there is one.
        unsafe {
            let first = self.from.offset(lane as isize * self.lane + p as isize * self.along);
            let second = if T::DEPTH == 2 { first.offset(self.along) } else { first };
            T::unit(first.read_unaligned(), second.read_unaligned())
        }
    }

    /// Lanes are adjacent in memory: one run of them after another.
    #[inline(always)]
    unsafe fn rows(&self, width: usize) {
        let groups = self.k / T::DEPTH;
        // SAFETY: the conditions of `run`.
        unsafe {
            for group in 0..groups {
                let to = self.to.add(group * self.padded);
                let first = self.from.offset((group * T::DEPTH) as isize * self.along);
                let second = if T::DEPTH == 2 { first.offset(self.along) } else { first };
                for lane in 0..width {
                    let unit = T::unit(first.add(lane).read_unaligned(), second.add(lane).read_unaligned());
                    to.add(lane).write(unit);
                }
                for lane in width..self.padded {
                    to.add(lane).write(U::default());
                }
            }
            self.odd_end();
        }
    }

    /// Lanes lie apart: a few of them at a time, so that what is written stays near.
    #[inline(always)]
    unsafe fn transpose(&self) {
        let groups = self.k / T::DEPTH;
        // SAFETY: the conditions of `run`.
        unsafe {
            for group in 0..groups {
                let to = self.to.add(group * self.padded);
                for lane in 0..self.width {
                    to.add(lane).write(self.unit(lane, group));
                }
                for lane in self.width..self.padded {
                    to.add(lane).write(U::default());
                }
            }
            self.odd_end();
        }
    }

    /// The last element of an odd `k` where units are pairs.
    #[inline(always)]
    unsafe fn odd_end(&self) {
        if self.k.is_multiple_of(T::DEPTH) {
            return;
        }
        let group = self.k / T::DEPTH;
        // SAFETY: the conditions of `run`.
        unsafe {
            let to = self.to.add(group * self.padded);
            for lane in 0..self.padded {
                let unit = if lane < self.width { self.half_unit(lane) } else { U::default() };
                to.add(lane).write(unit);
            }
        }
    }

    #[inline(always)]
    unsafe fn half_unit(&self, lane: usize) -> U {
        // SAFETY: `lane < width`, and the last element exists.
        unsafe {
            let last = self.from.offset(lane as isize * self.lane + (self.k as isize - 1) * self.along);
            T::unit(last.read_unaligned(), T::NOTHING)
        }
    }
}
