//! Writes sums to their part of C, each scaled and rounded once.
#![expect(unsafe_code, reason = "raw operands")]

use super::{GemmElement, element::Scalar, lanes::Body};

/// `C = round(alpha * sums + beta * C)`, for some rows and columns.
///
/// # Safety, of `run`
/// - Each row has `columns` of sums, `pitch` apart, and of C, which are readable too unless `beta` is 0.
pub(super) struct Round<T: GemmElement> {
    pub(super) c: *mut T,
    pub(super) strides: [isize; 2],
    pub(super) sums: *const T::Scalar,
    pub(super) pitch: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) alpha: T::Scalar,
    pub(super) beta: T::Scalar,
}

impl<T: GemmElement> Body for Round<T> {
    #[inline(always)]
    unsafe fn run(self) {
        for row in 0..self.rows {
            // SAFETY: the condition above. Common strides and widths are constants, so that the compiler vectorises the loop.
            unsafe {
                match (self.strides[1], self.columns, self.beta == T::Scalar::ZERO) {
                    (1, 32, true) => self.row::<false>(row, 32, 1),
                    (1, columns, true) => self.row::<false>(row, columns, 1),
                    (1, columns, false) => self.row::<true>(row, columns, 1),
                    (stride, columns, true) => self.row::<false>(row, columns, stride),
                    (stride, columns, false) => self.row::<true>(row, columns, stride),
                }
            }
        }
    }
}

impl<T: GemmElement> Round<T> {
    /// # Safety
    /// - As [`Round`]; C is read only if `OLD`.
    #[inline(always)]
    unsafe fn row<const OLD: bool>(&self, row: usize, columns: usize, stride: isize) {
        // SAFETY: the row exists, and elements of it, of both.
        unsafe {
            let (c, sums) = (self.c.offset(row as isize * self.strides[0]), self.sums.add(row * self.pitch));
            for j in 0..columns {
                let to = c.offset(j as isize * stride);
                let value = sums.add(j).read().mul(self.alpha);
                to.write(T::narrow(if OLD { to.read().widen().mul_add(self.beta, value) } else { value }));
            }
        }
    }
}
