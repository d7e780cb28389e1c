//! Writes sums to the part of C that they belong to, each scaled and rounded once.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    GemmElement,
    element::{Pack, Scalar},
    lanes::{Body, Lanes},
};

/// `C = round(alpha * sums + beta * C)`, for some rows and columns.
///
/// # Safety, of `run`
/// - Each row has `columns` of sums, `pitch` apart, and of C, which are readable too unless `beta` is 0.
pub(super) struct Round<T, L: Lanes> {
    pub(super) c: *mut T,
    pub(super) strides: [isize; 2],
    pub(super) sums: *const L::Acc,
    pub(super) pitch: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) alpha: L::Acc,
    pub(super) beta: L::Acc,
}

impl<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = T::Scalar>> Body for Round<T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        for row in 0..self.rows {
            // SAFETY: the condition above. A stride of 1 is a constant, so that the loop becomes vector code.
            unsafe {
                match (self.strides[1], self.beta == L::Acc::ZERO) {
                    (1, true) => self.vectors(row),
                    (1, false) => self.elements::<true>(row, 0, 1),
                    (stride, true) => self.elements::<false>(row, 0, stride),
                    (stride, false) => self.elements::<true>(row, 0, stride),
                }
            }
        }
    }
}

impl<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = T::Scalar>> Round<T, L> {
    #[inline(always)]
    fn row(&self, row: usize) -> (*mut T, *const L::Acc) {
        (self.c.wrapping_offset(row as isize * self.strides[0]), self.sums.wrapping_add(row * self.pitch))
    }

    /// A row whose elements are adjacent, and not read.
    ///
    /// # Safety
    /// - As [`Round`].
    #[inline(always)]
    unsafe fn vectors(&self, row: usize) {
        let (c, sums) = self.row(row);
        let whole = self.columns / L::N * L::N;
        // SAFETY: whole vectors of the row, then the rest.
        unsafe {
            let alpha = L::splat(self.alpha);
            for j in (0..whole).step_by(L::N) {
                L::load(sums.add(j)).mul(alpha).round(c.add(j));
            }
            self.elements::<false>(row, whole, 1);
        }
    }

    /// A row from a column on.
    ///
    /// # Safety
    /// - As [`Round`]; C is read only if `OLD`.
    #[inline(always)]
    unsafe fn elements<const OLD: bool>(&self, row: usize, first: usize, stride: isize) {
        let (c, sums) = self.row(row);
        for j in first..self.columns {
            // SAFETY: elements of the row, of both.
            unsafe {
                let to = c.offset(j as isize * stride);
                let value = sums.add(j).read().mul(self.alpha);
                to.write(T::narrow(if OLD { to.read().widen().mul_add(self.beta, value) } else { value }));
            }
        }
    }
}
