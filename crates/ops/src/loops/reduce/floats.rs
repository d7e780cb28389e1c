//! Folds of a whole dense line of f32 or f64, with partial results in f64.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::{BLOCK, FloatFold, NumberFold, Sum, fold_dense, fold_dense_floats};
use crate::loops::ahead::Asking;

/// Bytes of a line that the nearest cache holds beside the next: it is met again by later passes, and the last of them, which
/// computes least, asks for the next line. To ask while it is folded would only make the fold wait.
pub(crate) const SHORT_LINE: usize = 16 << 10;

/// How the fold of a line of `n` elements, which is met again, asks for more.
pub(super) fn asking_of_line<T>(n: usize) -> Asking {
    if n * size_of::<T>() <= SHORT_LINE { Asking::NONE } else { Asking::of_first_pass() }
}

/// f32 and f64, of which whole lines are folded.
pub(crate) trait LineFloat: Sized + Copy {
    /// Blocks folded by `fold` and joined by `join`, whose identity is the fold's.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn line_fold<F: NumberFold>(
        from: *const Self,
        n: usize,
        fold: F,
        join: fn(f64, f64) -> f64,
    ) -> f64;
    /// Blocks folded by `fold` and added up.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn line_float_fold<F: FloatFold>(from: *const Self, n: usize, fold: F) -> f64;
    /// The sum.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn line_sum(from: *const Self, n: usize) -> f64 {
        // SAFETY: this function's condition.
        unsafe { Self::line_fold(from, n, Sum, |a, b| a + b) }
    }
}

macro_rules! line_floats {
    ($($float:ident)*) => {$(
        impl LineFloat for $float {
            #[inline]
            unsafe fn line_fold<F: NumberFold>(
                from: *const Self,
                n: usize,
                fold: F,
                join: fn(f64, f64) -> f64,
            ) -> f64 {
                let asking = asking_of_line::<Self>(n);
                // SAFETY: blocks lie within the line.
                let block = |at: usize| f64::from(unsafe { fold_dense(from.add(at), BLOCK.min(n - at), asking, fold) });
                (0..n).step_by(BLOCK).map(block).reduce(join).unwrap_or(fold.identity().to_f64())
            }
            #[inline]
            unsafe fn line_float_fold<F: FloatFold>(from: *const Self, n: usize, fold: F) -> f64 {
                let asking = asking_of_line::<Self>(n);
                // SAFETY: blocks lie within the line.
                let block = |at: usize| f64::from(unsafe { fold_dense_floats(from.add(at), BLOCK.min(n - at), asking, fold) });
                (0..n).step_by(BLOCK).map(block).sum()
            }
        }
    )*};
}

line_floats!(f32 f64);
