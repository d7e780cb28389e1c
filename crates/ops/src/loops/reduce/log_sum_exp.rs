//! The logarithm of a sum of exponentials, without overflow: the maximum of each block is subtracted first.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::blocks::{fold_dense_floats, fold_dense_ordered};
use super::fold::{RowFold, computing_type};
use super::folds::{Maximum, SumOfExponentials};
use super::strips::{STRIP, Strip, StripResults};
use super::targets::row_fold;
use crate::loops::prefetch::Prefetch;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Ordered, Vector, dispatch};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar, ScalarType};
use std::marker::PhantomData;

/// The maximum of a run of elements, and the sum of `e^(x - shift)`.
#[derive(Clone, Copy)]
struct ShiftedSum {
    max: f64,
    sum: f64,
}

impl ShiftedSum {
    /// What is subtracted for this maximum: 0 where it is infinite.
    fn shift(max: f64) -> f64 {
        if max.is_infinite() { 0.0 } else { max }
    }

    /// The sum for another shift.
    fn shifted(self, shift: f64) -> f64 {
        if self.sum == 0.0 { 0.0 } else { self.sum * (Self::shift(self.max) - shift).exp() }
    }
}

/// Writes the logarithm as one result; or as two, whose sum it is: the shift, and the logarithm of the shifted sum.
#[derive(Clone, Copy)]
struct LogSumExp<T>(PhantomData<fn() -> T>);

/// The one or two results of [`LogSumExp`].
trait Results {
    fn of(state: ShiftedSum) -> Self;
}

impl Results for [f64; 1] {
    fn of(state: ShiftedSum) -> Self {
        [state.sum.ln() + ShiftedSum::shift(state.max)]
    }
}

impl Results for [f64; 2] {
    fn of(state: ShiftedSum) -> Self {
        [ShiftedSum::shift(state.max), state.sum.ln()]
    }
}

macro_rules! log_sum_exp {
    ($($float:ident $dtype:ident)*) => {$(
        impl<const M: usize> RowFold<M> for LogSumExp<$float>
        where
            [f64; M]: Results,
        {
            type State = ShiftedSum;

            fn empty(self) -> ShiftedSum {
                ShiftedSum { max: f64::NEG_INFINITY, sum: 0.0 }
            }
            #[inline]
            unsafe fn block(self, from: *const u8, n: usize, _: usize) -> ShiftedSum {
                let from: *const $float = from.cast();
                // Memory is idle while exponentials are computed, so that pass prefetches the next block.
                let distance = n * size_of::<$float>();
                // SAFETY: `from` is valid for `n` elements.
                unsafe {
                    let max = f64::from(fold_dense_ordered(from, n, Prefetch::HARDWARE, Maximum::of(ScalarType::$dtype)));
                    let sum = f64::from(fold_dense_floats(from, n, Prefetch::into_l1(distance), SumOfExponentials(ShiftedSum::shift(max))));
                    ShiftedSum { max, sum }
                }
            }
            unsafe fn strip(self, strip: Strip, results: &StripResults<M>) {
                // SAFETY: this function's conditions.
                unsafe {
                    let parts = dispatch(PartsOfStrip::<$float>(strip, PhantomData));
                    match M {
                        1 => results.write(0, &dispatch(SumOfParts(parts))),
                        _ => (0..M).for_each(|m| results.write(m, &parts[m])),
                    }
                }
            }
            fn combine(self, a: ShiftedSum, b: ShiftedSum) -> ShiftedSum {
                let max = if a.max.is_nan() || a.max > b.max { a.max } else { b.max };
                let shift = ShiftedSum::shift(max);
                ShiftedSum { max, sum: a.shifted(shift) + b.shifted(shift) }
            }
            unsafe fn write(self, state: ShiftedSum, to: [*mut u8; M]) {
                for (to, value) in to.into_iter().zip(<[f64; M]>::of(state)) {
                    // SAFETY: it takes one element.
                    unsafe { to.cast::<$float>().write_unaligned($float::from_scalar(Scalar::Float(value))) }
                }
            }
        }
    )*};
}

log_sum_exp!(f32 F32 f64 F64);

/// The two results for each row of a strip.
struct PartsOfStrip<T>(Strip, PhantomData<T>);

impl<T> CodegenAnchor for PartsOfStrip<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I> + Default> Kernel<I, [[T; STRIP]; 2]> for PartsOfStrip<T> {
    #[inline(always)]
    unsafe fn run(self) -> [[T; STRIP]; 2] {
        let (elements, n) = (self.0.elements.cast::<T>(), self.0.n);
        let mut parts = [[T::default(); STRIP]; 2];
        let (lowest, highest) = (T::Vector::constant(f64::NEG_INFINITY), T::Vector::constant(f64::INFINITY));
        let zero = T::Vector::constant(0.0);
        for first in (0..STRIP).step_by(T::Vector::LANES) {
            // SAFETY: whole vectors of the strip, which is a multiple of any number of lanes long.
            unsafe {
                let (mut max, mut sum) = (lowest, zero);
                for i in 0..n {
                    max = max.maximum(T::load(elements.add(i * STRIP + first)));
                }
                let is_infinite = max.eq(lowest) | max.eq(highest);
                let shift = T::Vector::select(is_infinite, zero, max);
                for i in 0..n {
                    sum = sum + (T::load(elements.add(i * STRIP + first)) - shift).exp();
                }
                T::store(shift, parts[0].as_mut_ptr().add(first));
                T::store(sum.log(), parts[1].as_mut_ptr().add(first));
            }
        }
        parts
    }
}

/// The sum of both results.
struct SumOfParts<T>([[T; STRIP]; 2]);

impl<T> CodegenAnchor for SumOfParts<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I> + Default> Kernel<I, [T; STRIP]> for SumOfParts<T> {
    #[inline(always)]
    unsafe fn run(self) -> [T; STRIP] {
        let mut sums = [T::default(); STRIP];
        for first in (0..STRIP).step_by(T::Vector::LANES) {
            // SAFETY: whole vectors of the arrays.
            unsafe {
                let shift = T::load(self.0[0].as_ptr().add(first));
                let logarithm = T::load(self.0[1].as_ptr().add(first));
                T::store(logarithm + shift, sums.as_mut_ptr().add(first));
            }
        }
        sums
    }
}

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

/// [`log_sum_exp`] in two parts: the maximum, and the logarithm of `sum(e^(x - maximum))`.
///
/// # Errors
/// As [`row_fold`].
pub(crate) fn log_sum_exp_parts(input: &Tensor, parts: [&Tensor; 2], mask: DimMask) -> Result<()> {
    let kernel = computing_type(input.dtype());
    dispatch_all_types!(wide_floats, kernel, "logsumexp", T => {
        row_fold(input, parts, mask, kernel, [kernel; 2], LogSumExp::<T>(PhantomData))
    })
}
