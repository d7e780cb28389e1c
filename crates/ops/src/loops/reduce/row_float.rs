//! Folds of a whole dense line of f32 or f64, with partial results in f64.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::blocks::{fold_dense, fold_dense_floats, fold_dense_ordered};
use super::fold::{BLOCK, FloatFold, NumberFold};
use super::folds::{Maximum, Sum};
use crate::loops::prefetch::Prefetch;
use flambeau_core::Element;

/// Bytes of a line that the nearest cache holds beside the next: it is met again by later passes, and the last of them, which
/// computes least, asks for the next line. To ask while it is folded would only make the fold wait.
pub(crate) const SHORT_ROW: usize = 16 << 10;

/// How the fold of a line of `n` elements, which is met again, asks for more.
pub(super) fn prefetch_for_row<T>(n: usize) -> Prefetch {
    if n * size_of::<T>() <= SHORT_ROW { Prefetch::HARDWARE } else { Prefetch::for_first_pass() }
}

/// f32 and f64, of which whole lines are folded.
pub(crate) trait RowFloat: Sized + Copy {
    /// Blocks folded by `fold`, which is a sum, and added up.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn row_fold<F: NumberFold>(from: *const Self, n: usize, fold: F) -> f64;
    /// The same.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn row_float_fold<F: FloatFold>(from: *const Self, n: usize, fold: F) -> f64;
    /// The greatest, of blocks too.
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
                // SAFETY: blocks lie within the line.
                let block = |at: usize| f64::from(unsafe { fold_dense(from.add(at), BLOCK.min(n - at), prefetch, fold) });
                (0..n).step_by(BLOCK).map(block).reduce(|a, b| a + b).unwrap_or(fold.identity().to_f64())
            }
            #[inline]
            unsafe fn row_float_fold<F: FloatFold>(from: *const Self, n: usize, fold: F) -> f64 {
                let prefetch = prefetch_for_row::<Self>(n);
                // SAFETY: blocks lie within the line.
                let block = |at: usize| f64::from(unsafe { fold_dense_floats(from.add(at), BLOCK.min(n - at), prefetch, fold) });
                (0..n).step_by(BLOCK).map(block).sum()
            }
            #[inline]
            unsafe fn row_max(from: *const Self, n: usize) -> f64 {
                let (prefetch, fold) = (prefetch_for_row::<Self>(n), Maximum::of(Self::SCALAR_TYPE));
                // SAFETY: blocks lie within the line.
                let block = |at: usize| f64::from(unsafe { fold_dense_ordered(from.add(at), BLOCK.min(n - at), prefetch, fold) });
                (0..n).step_by(BLOCK).map(block).reduce(f64::max).unwrap_or(f64::NEG_INFINITY)
            }
        }
    )*};
}

row_floats!(f32 f64);
