//! The logarithm of a sum of exponentials, without overflow: the greatest element is taken out of every block.
#![expect(unsafe_code, reason = "reads dense elements that the driver has guards for")]

use super::blocks::{fold_dense_floats, fold_dense_ordered};
use super::fold::{RowFold, computing_type};
use super::folds::{SumOfExponentials, Maximum};
use super::targets::row_fold;
use crate::loops::prefetch::Prefetch;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar, ScalarType};
use std::marker::PhantomData;

/// The greatest of a run, and the sum of `e^(x - shift)`.
#[derive(Clone, Copy)]
struct Peak {
    greatest: f64,
    sum: f64,
}

impl Peak {
    /// The greatest, where it is a number that can be taken out.
    fn shift(greatest: f64) -> f64 {
        if greatest.is_infinite() { 0.0 } else { greatest }
    }

    /// The sum for another shift.
    fn shifted(self, shift: f64) -> f64 {
        if self.sum == 0.0 { 0.0 } else { self.sum * (Self::shift(self.greatest) - shift).exp() }
    }
}

/// Writes the logarithm; of two results, what was taken out and the logarithm of the rest, whose sum that is.
#[derive(Clone, Copy)]
struct LogSumExp<T>(PhantomData<fn() -> T>);

/// One or two results, as [`LogSumExp`] says.
trait Written {
    fn of(peak: Peak) -> Self;
}

impl Written for [f64; 1] {
    fn of(peak: Peak) -> Self {
        [peak.sum.ln() + Peak::shift(peak.greatest)]
    }
}

impl Written for [f64; 2] {
    fn of(peak: Peak) -> Self {
        [Peak::shift(peak.greatest), peak.sum.ln()]
    }
}

macro_rules! log_sum_exp {
    ($($float:ident $dtype:ident)*) => {$(
        impl<const M: usize> RowFold<M> for LogSumExp<$float>
        where
            [f64; M]: Written,
        {
            type State = Peak;

            fn empty(self) -> Peak {
                Peak { greatest: f64::NEG_INFINITY, sum: 0.0 }
            }
            #[inline]
            unsafe fn block(self, from: *const u8, n: usize, _: usize) -> Peak {
                let from: *const $float = from.cast();
                // Memory has nothing to do while exponentials are computed: they ask for the next block.
                let next = n * size_of::<$float>();
                // SAFETY: `from` is valid for `n` elements.
                unsafe {
                    let greatest = f64::from(fold_dense_ordered(from, n, Prefetch::HARDWARE, Maximum::of(ScalarType::$dtype)));
                    let sum = f64::from(fold_dense_floats(from, n, Prefetch::into_l1(next), SumOfExponentials(Peak::shift(greatest))));
                    Peak { greatest, sum }
                }
            }
            fn combine(self, a: Peak, b: Peak) -> Peak {
                let greatest = if a.greatest.is_nan() || a.greatest > b.greatest { a.greatest } else { b.greatest };
                let shift = Peak::shift(greatest);
                Peak { greatest, sum: a.shifted(shift) + b.shifted(shift) }
            }
            unsafe fn write(self, state: Peak, to: [*mut u8; M]) {
                for (to, value) in to.into_iter().zip(<[f64; M]>::of(state)) {
                    // SAFETY: it takes one element.
                    unsafe { to.cast::<$float>().write_unaligned($float::from_scalar(Scalar::Float(value))) }
                }
            }
        }
    )*};
}

log_sum_exp!(f32 F32 f64 F64);

/// `log(sum(e^x))` of floating point numbers.
///
/// # Errors
/// As [`row_fold`].
pub(crate) fn log_sum_exp(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<()> {
    let kernel = computing_type(input.dtype());
    dispatch_all_types!(wide_floats, kernel, "logsumexp", T => {
        row_fold(input, [out], mask, kernel, [kernel], LogSumExp::<T>(PhantomData))
    })
}

/// The same in two parts: the greatest element, and the logarithm of `sum(e^(x - greatest))`.
///
/// # Errors
/// As [`row_fold`].
pub(crate) fn log_sum_exp_parts(input: &Tensor, parts: [&Tensor; 2], mask: DimMask) -> Result<()> {
    let kernel = computing_type(input.dtype());
    dispatch_all_types!(wide_floats, kernel, "logsumexp", T => {
        row_fold(input, parts, mask, kernel, [kernel; 2], LogSumExp::<T>(PhantomData))
    })
}
