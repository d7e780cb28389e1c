//! Copies a panel of an operand so that the micro-kernel reads it from the first unit to the last.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    element::Pack,
    lanes::{Body, Lanes, WIDEST},
};

/// A panel: `width` rows of A or columns of B (`lane` is the stride between them), over `k` elements of stride
/// `along`. It becomes `k / DEPTH` groups of `padded` units; those past `width`, and the second half of an odd last
/// pair, are zero.
pub(super) struct PackPanel<T, L: Lanes> {
    pub(super) from: *const T,
    pub(super) lane: isize,
    pub(super) along: isize,
    pub(super) width: usize,
    pub(super) k: usize,
    pub(super) to: *mut L::Unit,
    pub(super) padded: usize,
}

/// # Safety
/// - `width` x `k` elements are readable through the strides.
/// - `padded * k.div_ceil(DEPTH)` units are writable, and `padded >= width`.
impl<T: Pack<L::Unit>, L: Lanes> Body for PackPanel<T, L> {
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

impl<T: Pack<L::Unit>, L: Lanes> PackPanel<T, L> {
    /// Lanes are adjacent in memory: one run of them after another.
    #[inline(always)]
    unsafe fn rows(&self, width: usize) {
        for group in 0..self.k.div_ceil(T::DEPTH) {
            // SAFETY: the conditions of `run`.
            unsafe {
                let to = self.to.add(group * self.padded);
                let first = self.from.offset((group * T::DEPTH) as isize * self.along);
                let odd = T::DEPTH == 2 && 2 * group + 1 == self.k;
                let second = if T::DEPTH == 1 || odd { first } else { first.offset(self.along) };
                if odd {
                    for lane in 0..width {
                        to.add(lane).write(T::unit(first.add(lane).read(), T::NOTHING));
                    }
                } else {
                    for lane in 0..width {
                        to.add(lane).write(T::unit(first.add(lane).read(), second.add(lane).read()));
                    }
                }
                for lane in width..self.padded {
                    to.add(lane).write(L::Unit::default());
                }
            }
        }
    }

    /// Lanes lie apart: square blocks of them are turned in registers.
    #[inline(always)]
    unsafe fn transpose(&self) {
        let groups = self.k.div_ceil(T::DEPTH);
        for first in (0..groups).step_by(L::N) {
            for lane in (0..self.padded).step_by(L::N) {
                let mut block = [[L::Unit::default(); WIDEST]; WIDEST];
                let (groups, lanes) = (L::N.min(groups - first), L::N.min(self.padded - lane));
                // SAFETY: the conditions of `run`.
                unsafe {
                    for (i, row) in
                        block.iter_mut().enumerate().take(self.width.saturating_sub(lane).min(L::N))
                    {
                        self.gather(lane + i, first, &mut row[..groups]);
                    }
                    let to = self.to.add(first * self.padded + lane);
                    L::transpose(&block, to, self.padded, groups, lanes);
                }
            }
        }
    }

    /// Some units of one lane, from group `first` on.
    #[inline(always)]
    unsafe fn gather(&self, lane: usize, first: usize, row: &mut [L::Unit]) {
        // SAFETY: the lane and the groups exist.
        unsafe {
            let from = self.from.offset(lane as isize * self.lane + (first * T::DEPTH) as isize * self.along);
            let left = self.k - first * T::DEPTH;
            match (self.along == 1, row.len() == L::N && left >= L::N * T::DEPTH) {
                // Constants for the common case, a register of units.
                (true, true) if T::RAW => {
                    // As bytes: two elements need not be aligned as a unit is.
                    let bytes = L::N * size_of::<L::Unit>();
                    from.cast::<u8>().copy_to_nonoverlapping(row.as_mut_ptr().cast(), bytes);
                }
                (true, true) => gather::<T, L::Unit>(from, 1, usize::MAX, &mut row[..L::N]),
                _ => gather::<T, L::Unit>(from, self.along, left, row),
            }
        }
    }
}

/// # Safety
/// - `row.len() * DEPTH` elements, or `left` if that is less, are readable at `from`, `along` apart.
#[inline(always)]
unsafe fn gather<T: Pack<U>, U>(from: *const T, along: isize, left: usize, row: &mut [U]) {
    for (group, unit) in row.iter_mut().enumerate() {
        let p = group * T::DEPTH;
        // SAFETY: the condition above; the second half of a pair is read where there is one.
        unsafe {
            let first = from.offset(p as isize * along);
            let whole = T::DEPTH == 2 && p + 1 < left;
            *unit = T::unit(first.read(), if whole { first.offset(along).read() } else { T::NOTHING });
        }
    }
}
