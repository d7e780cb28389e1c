//! The logarithm of a sum of exponentials, without overflow: the greatest element is taken out of every block.
#![expect(unsafe_code, reason = "reads dense elements that the driver has guards for")]

use super::{Exponentials, Greatest, LineFold, fold_dense, fold_dense_floats, line_fold};
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

#[derive(Clone, Copy)]
struct LogSumExp<T>(PhantomData<fn() -> T>);

macro_rules! log_sum_exp {
    ($($float:ident $dtype:ident)*) => {$(
        impl LineFold<1> for LogSumExp<$float> {
            type State = Peak;

            fn empty(self) -> Peak {
                Peak { greatest: f64::NEG_INFINITY, sum: 0.0 }
            }
            #[inline]
            unsafe fn block(self, from: *const u8, n: usize, _: usize) -> Peak {
                let from: *const $float = from.cast();
                // SAFETY: `from` is valid for `n` elements.
                unsafe {
                    let greatest = f64::from(fold_dense(from, n, Greatest::of(ScalarType::$dtype)));
                    let sum = f64::from(fold_dense_floats(from, n, Exponentials(Peak::shift(greatest))));
                    Peak { greatest, sum }
                }
            }
            fn combine(self, a: Peak, b: Peak) -> Peak {
                let greatest = if a.greatest.is_nan() || a.greatest > b.greatest { a.greatest } else { b.greatest };
                let shift = Peak::shift(greatest);
                Peak { greatest, sum: a.shifted(shift) + b.shifted(shift) }
            }
            unsafe fn write(self, state: Peak, to: [*mut u8; 1]) {
                let value = state.sum.ln() + Peak::shift(state.greatest);
                // SAFETY: it takes one element.
                unsafe { to[0].cast::<$float>().write_unaligned($float::from_scalar(Scalar::Float(value))) }
            }
        }
    )*};
}

log_sum_exp!(f32 F32 f64 F64);

/// `log(sum(e^x))` of floating point numbers.
///
/// # Errors
/// As [`line_fold`].
pub(crate) fn log_sum_exp(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<()> {
    let kernel = super::computing_type(input.dtype());
    dispatch_all_types!(wide_floats, kernel, "logsumexp", T => {
        line_fold(input, [out], mask, kernel, [kernel], LogSumExp::<T>(PhantomData))
    })
}
