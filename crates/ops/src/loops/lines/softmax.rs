//! Softmax of a line and its derivative: the greatest element is taken out first, so that nothing overflows.
#![expect(unsafe_code, reason = "reads the dense lines that the driver gives")]

use super::drive::{map_lines, streams_to};
use super::row::{next_line, row, write_row};
use crate::gemm::Scratch;
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::{BLOCK, Exponentials, LineFloat, computing_type};
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

/// The softmax, or its logarithm, of every line along `mask`.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn softmax_lines(input: &Tensor, out: &Tensor, mask: DimMask, log: bool) -> Result<()> {
    let kernel = computing_type(out.dtype());
    let streams = streams_to(out, mask, kernel, 1);
    dispatch_all_types!(wide_floats, kernel, "softmax", T => {
        map_lines([input], out, mask, kernel, |_, [from], to, n| {
            let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
            // SAFETY: a line of `n` elements, and room for as many.
            unsafe {
                let greatest = T::line_greatest(from, n);
                if log {
                    let sum = T::line_float_fold(from, n, Exponentials(greatest));
                    let rows = Rows { ahead: [next_line::<T>(n)], ..row([from], to, n) };
                    write_row::<T, _, 1>(rows, Shifted(greatest, sum.ln()), streams);
                } else {
                    // What is read again does not go past the caches.
                    let mut room = Scratch::new::<T>(if streams { n } else { 0 });
                    let powers = if streams { room.as_mut_ptr() } else { to };
                    let sum = exponentials::<T>(from, powers, n, greatest);
                    let next = match next_line::<T>(n) {
                        0 => 0,
                        bytes => from.addr().wrapping_add(bytes).wrapping_sub(powers.addr()),
                    };
                    let rows = Rows { ahead: [next], ..row([powers.cast_const()], to, n) };
                    write_row::<T, _, 1>(rows, Quotient(sum), streams);
                }
            }
        })
    })
}

/// Writes `e^(x - a)` for every element, and adds them up: block by block, so that the sum finds them in the nearest cache.
///
/// # Safety
/// - `from` is valid for reading and `to` for writing `n` elements.
#[inline(always)]
unsafe fn exponentials<T: LineFloat>(from: *const T, to: *mut T, n: usize, a: f64) -> f64
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
            sum += T::line_sum(to, count);
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

/// The derivative of [`softmax_lines`], given the gradient of its result and the result.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn softmax_backward_lines(
    grad: &Tensor,
    output: &Tensor,
    to: &Tensor,
    mask: DimMask,
    log: bool,
) -> Result<()> {
    let kernel = computing_type(output.dtype());
    dispatch_all_types!(wide_floats, kernel, "softmax_backward", T => {
        map_lines([grad, output], to, mask, kernel, |_, from, to, n| {
            let (from, to): ([*const T; 2], *mut T) = (from.map(|p| p.cast()), to.cast());
            // SAFETY: lines of `n` elements, and room for as many.
            unsafe {
                if log {
                    let sum = T::line_sum(from[0], n);
                    dispatch_rows_of::<T, _, 2>(row(from, to, n), LogSoftmaxGradient(sum));
                } else {
                    dispatch_rows_of::<T, _, 2>(row(from, to, n), Product);
                    let sum = T::line_sum(to, n);
                    dispatch_rows_of::<T, _, 2>(row(from, to, n), SoftmaxGradient(sum));
                }
            }
        })
    })
}

/// `e^(x - a - b) * c`.
#[derive(Clone, Copy)]
struct Share(f64, f64, f64);

impl FloatFormula<1> for Share {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        (x - V::constant(self.0) - V::constant(self.1)).exp() * V::constant(self.2)
    }
}

/// What a line of [`share_lines`] is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareOf {
    /// The logarithm of the sum of the exponentials, in two parts.
    pub(crate) logarithm: [f64; 2],
    /// What is shared out, and the element from which it is taken.
    pub(crate) amount: f64,
    pub(crate) place: usize,
}

/// `amount * softmax` of every line of a matrix of two dimensions, less `amount` at one place; nothing where that is 0.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn share_lines(input: &Tensor, out: &Tensor, lines: &[ShareOf]) -> Result<()> {
    let kernel = computing_type(out.dtype());
    let mask = DimMask::new(Some(&[1]), 2)?;
    let streams = streams_to(out, mask, kernel, 1);
    dispatch_all_types!(wide_floats, kernel, "softmax", T => {
        map_lines([input], out, mask, kernel, |line, [from], to, n| {
            let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
            let ShareOf { logarithm: [a, b], amount, place } = lines[line];
            // SAFETY: a line of `n` elements, and room for as many.
            unsafe {
                if amount == 0.0 {
                    return to.write_bytes(0, n);
                }
                write_row::<T, _, 1>(row([from], to, n), Share(a, b, amount), streams);
                if place < n {
                    let x = load_one(from.add(place)).to_scalar().to_f64();
                    let share = ((x - a - b).exp() - 1.0) * amount;
                    to.add(place).write(T::from_scalar(Scalar::Float(share)));
                }
            }
        })
    })
}
