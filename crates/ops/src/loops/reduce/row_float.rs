//! Folds of a whole dense row of f32 or f64, with partial results in f64.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::blocks::{fold_dense, fold_dense_floats, fold_dense_ordered};
use super::fold::{BLOCK, FloatFold, NumberFold};
use super::folds::{Maximum, Sum};
use crate::loops::prefetch::Prefetch;
use flambeau_core::Element;

/// Bytes of a row that L1 holds beside the next one. Later passes over it read L1, and the last of them, which computes little,
/// prefetches the next row. Prefetches during the first pass, the fold, would only delay its own loads.
pub(crate) const SHORT_ROW: usize = 16 << 10;

/// How to prefetch in the fold of a row of `n` elements that later passes read again.
pub(super) fn prefetch_for_row<T>(n: usize) -> Prefetch {
    if n * size_of::<T>() <= SHORT_ROW { Prefetch::HARDWARE } else { Prefetch::for_first_pass() }
}

/// f32 and f64: folds of whole rows.
pub(crate) trait RowFloat: Sized + Copy {
    /// The fold of a row by `fold`, which is a sum: of blocks in the element type, of these in f64.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn row_fold<F: NumberFold>(from: *const Self, n: usize, fold: F) -> f64;
    /// [`row_fold`](Self::row_fold) for a sum of floating point formulas.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn row_float_fold<F: FloatFold>(from: *const Self, n: usize, fold: F) -> f64;
    /// The maximum.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn row_max(from: *const Self, n: usize) -> f64;
    /// The sum.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn row_sum(from: *const Self, n: usize) -> f64 {
        // SAFETY: this function's condition.
        unsafe { Self::row_fold(from, n, Sum) }
    }
}

macro_rules! row_floats {
    ($($float:ident)*) => {$(
        impl RowFloat for $float {
            #[inline]
            unsafe fn row_fold<F: NumberFold>(from: *const Self, n: usize, fold: F) -> f64 {
                let prefetch = prefetch_for_row::<Self>(n);
                // SAFETY: blocks lie within the row.
                let block = |at: usize| f64::from(unsafe { fold_dense(from.add(at), BLOCK.min(n - at), prefetch, fold) });
                (0..n).step_by(BLOCK).map(block).reduce(|a, b| a + b).unwrap_or(fold.identity().to_f64())
            }
            #[inline]
            unsafe fn row_float_fold<F: FloatFold>(from: *const Self, n: usize, fold: F) -> f64 {
                let prefetch = prefetch_for_row::<Self>(n);
                // SAFETY: blocks lie within the row.
                let block = |at: usize| f64::from(unsafe { fold_dense_floats(from.add(at), BLOCK.min(n - at), prefetch, fold) });
                (0..n).step_by(BLOCK).map(block).sum()
            }
            #[inline]
            unsafe fn row_max(from: *const Self, n: usize) -> f64 {
                let (prefetch, fold) = (prefetch_for_row::<Self>(n), Maximum::of(Self::SCALAR_TYPE));
                // SAFETY: blocks lie within the row.
                let block = |at: usize| f64::from(unsafe { fold_dense_ordered(from.add(at), BLOCK.min(n - at), prefetch, fold) });
                (0..n).step_by(BLOCK).map(block).reduce(f64::max).unwrap_or(f64::NEG_INFINITY)
            }
        }
    )*};
}

row_floats!(f32 f64);
