//! Softmax of a row and its derivative: the maximum is subtracted first, so that no exponential overflows.
#![expect(unsafe_code, reason = "reads the dense rows that `map_rows` gives")]

use super::map_rows::{map_rows, should_stream_to};
use super::row::{next_row_distance, row, write_row};
use super::softmax_columns::{softmax_backward_columns, softmax_columns};
use crate::gemm::Scratch;
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::{BLOCK, RowFloat, SumOfExponentials, computing_type};
use crate::loops::rows::Rows;
use crate::loops::rows::{Floats, RowKernel, dispatch_rows_of};
use crate::tensor_iterator::DimMask;
use crate::vectorized::{EveryIsa, Float, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar};

/// `x - a - b`.
#[derive(Clone, Copy)]
struct Shifted(f64, f64);

impl FloatFormula<1> for Shifted {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        x - V::constant(self.0) - V::constant(self.1)
    }
}

/// `e^(x - a)`.
#[derive(Clone, Copy)]
struct Exponential(f64);

impl FloatFormula<1> for Exponential {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        (x - V::constant(self.0)).exp()
    }
}

/// `x / a`.
#[derive(Clone, Copy)]
struct Quotient(f64);

impl FloatFormula<1> for Quotient {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        x / V::constant(self.0)
    }
}

/// The softmax, or its logarithm, of every row of the dimensions `mask`.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn softmax_rows(input: &Tensor, out: &Tensor, mask: DimMask, log: bool) -> Result<()> {
    if softmax_columns(input, out, mask, log)? {
        return Ok(());
    }
    let kernel = computing_type(out.dtype());
    let streams = should_stream_to(out, mask, kernel, 1);
    dispatch_all_types!(wide_floats, kernel, "softmax", T => {
        map_rows([input], out, mask, kernel, |_, [from], to, n| {
            let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
            // SAFETY: a row of `n` elements, and memory for as many.
            unsafe {
                let max = T::row_max(from, n);
                if log {
                    let sum = T::row_float_fold(from, n, SumOfExponentials(max));
                    let rows = Rows { prefetch: [next_row_distance::<T>(n)], ..row([from], to, n) };
                    write_row::<T, _, 1>(rows, Shifted(max, sum.ln()), streams);
                } else {
                    // The exponentials are read again. Where the result is written by non-temporal stores, they go to scratch memory.
                    let mut scratch = Scratch::new::<T>(if streams { n } else { 0 });
                    let powers = if streams { scratch.as_mut_ptr() } else { to };
                    let sum = exponentials::<T>(from, powers, n, max);
                    let distance = match next_row_distance::<T>(n) {
                        0 => 0,
                        bytes => from.addr().wrapping_add(bytes).wrapping_sub(powers.addr()),
                    };
                    let rows = Rows { prefetch: [distance], ..row([powers.cast_const()], to, n) };
                    write_row::<T, _, 1>(rows, Quotient(sum), streams);
                }
            }
        })
    })
}

/// Writes `e^(x - a)` for every element and returns their sum: block by block, so that the sum finds them in L1.
///
/// # Safety
/// - `from` is valid for reading and `to` for writing `n` elements.
#[inline(always)]
unsafe fn exponentials<T: RowFloat>(from: *const T, to: *mut T, n: usize, a: f64) -> f64
where
    for<'r> RowKernel<'r, T, Floats<Exponential>, 1>: EveryIsa,
{
    let mut sum = 0.0;
    for at in (0..n).step_by(BLOCK) {
        let count = BLOCK.min(n - at);
        // SAFETY: a block of both.
        unsafe {
            let to = to.add(at);
            dispatch_rows_of::<T, _, 1>(row([from.add(at)], to, count), Exponential(a));
            sum += T::row_sum(to, count);
        }
    }
    sum
}

/// `grad * output`.
#[derive(Clone, Copy)]
struct Product;

impl FloatFormula<2> for Product {
    #[inline(always)]
    fn call<V: Float>(self, [g, y]: [V; 2]) -> V {
        g * y
    }
}

/// `(grad - a) * output`.
#[derive(Clone, Copy)]
struct SoftmaxGradient(f64);

impl FloatFormula<2> for SoftmaxGradient {
    #[inline(always)]
    fn call<V: Float>(self, [g, y]: [V; 2]) -> V {
        (g - V::constant(self.0)) * y
    }
}

/// `grad - e^output * a`.
#[derive(Clone, Copy)]
struct LogSoftmaxGradient(f64);

impl FloatFormula<2> for LogSoftmaxGradient {
    #[inline(always)]
    fn call<V: Float>(self, [g, y]: [V; 2]) -> V {
        y.exp().neg_mul_add(V::constant(self.0), g)
    }
}

/// The derivative of [`softmax_rows`], given the gradient of its result and the result.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn softmax_backward_rows(
    grad: &Tensor,
    output: &Tensor,
    to: &Tensor,
    mask: DimMask,
    log: bool,
) -> Result<()> {
    if softmax_backward_columns(grad, output, to, mask, log)? {
        return Ok(());
    }
    let kernel = computing_type(output.dtype());
    dispatch_all_types!(wide_floats, kernel, "softmax_backward", T => {
        map_rows([grad, output], to, mask, kernel, |_, from, to, n| {
            let (from, to): ([*const T; 2], *mut T) = (from.map(|p| p.cast()), to.cast());
            // SAFETY: rows of `n` elements, and memory for as many.
            unsafe {
                if log {
                    let sum = T::row_sum(from[0], n);
                    dispatch_rows_of::<T, _, 2>(row(from, to, n), LogSoftmaxGradient(sum));
                } else {
                    dispatch_rows_of::<T, _, 2>(row(from, to, n), Product);
                    let sum = T::row_sum(to, n);
                    dispatch_rows_of::<T, _, 2>(row(from, to, n), SoftmaxGradient(sum));
                }
            }
        })
    })
}

/// `e^(x - a - b) * c`.
#[derive(Clone, Copy)]
struct ScaledExponential(f64, f64, f64);

impl FloatFormula<1> for ScaledExponential {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        (x - V::constant(self.0) - V::constant(self.1)).exp() * V::constant(self.2)
    }
}

/// The parameters of a row of [`scaled_softmax_rows`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaledSoftmax {
    /// The logarithm of the sum of the exponentials, in two parts.
    pub(crate) logarithm: [f64; 2],
    /// The factor of the softmax.
    pub(crate) scale: f64,
    /// The element from which `scale` is subtracted.
    pub(crate) target: usize,
}

/// `scale * softmax` of every row of a matrix, less `scale` at the target: the gradient of cross entropy. Zeros where `scale` is 0.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn scaled_softmax_rows(input: &Tensor, out: &Tensor, rows: &[ScaledSoftmax]) -> Result<()> {
    let kernel = computing_type(out.dtype());
    let mask = DimMask::new(Some(&[1]), 2)?;
    let streams = should_stream_to(out, mask, kernel, 1);
    dispatch_all_types!(wide_floats, kernel, "softmax", T => {
        map_rows([input], out, mask, kernel, |row_index, [from], to, n| {
            let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
            let ScaledSoftmax { logarithm: [a, b], scale, target } = rows[row_index];
            // SAFETY: a row of `n` elements, and memory for as many.
            unsafe {
                if scale == 0.0 {
                    return to.write_bytes(0, n);
                }
                write_row::<T, _, 1>(row([from], to, n), ScaledExponential(a, b, scale), streams);
                if target < n {
                    let x = load_one(from.add(target)).to_scalar().to_f64();
                    let gradient = ((x - a - b).exp() - 1.0) * scale;
                    to.add(target).write(T::from_scalar(Scalar::Float(gradient)));
                }
            }
        })
    })
}
