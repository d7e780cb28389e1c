//! The derivative of normalized lines with respect to their elements, weights and offsets.
#![expect(
    unsafe_code,
    reason = "reads the dense lines that the driver gives, and rows under the guards taken here"
)]

use super::drive::{map_lines, streams_to};
use super::norm::{Shared, parameter, with_parameters};
use super::row::{next_line, row, write_row};
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::{BLOCK, computing_type, four, total};
use crate::loops::rows::Rows;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{DimMask, GRAIN};
use crate::vectorized::{
    EveryIsa, Float, FloatLanes, Isa, Kernel, Mask, Number, Placed, Vector, dispatch, load_one,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar};

/// `rstd * (g - a - (x - mean) * rstd * b)`, in this order: mean, rstd, a, b.
#[derive(Clone, Copy)]
struct NormGradient(f64, f64, f64, f64);

impl FloatFormula<3> for NormGradient {
    #[inline(always)]
    fn call<V: Float>(self, [grad, x, weight]: [V; 3]) -> V {
        let NormGradient(mean, rstd, a, b) = self;
        let normal = (x - V::constant(mean)) * V::constant(rstd);
        (grad * weight - V::constant(a) - normal * V::constant(b)) * V::constant(rstd)
    }
}

/// An argument of a line: elements side by side, or one for all.
type Argument<T> = (*const T, bool);

/// The elements of a vector from number `at` on.
///
/// # Safety
/// - The argument has `count` elements from there, at most as many as a vector has lanes, or one for all.
#[inline(always)]
unsafe fn load<I: Isa, T: FloatLanes<I>>(
    (from, repeated): Argument<T>,
    at: usize,
    count: usize,
) -> T::Vector {
    // SAFETY: this function's condition.
    unsafe {
        if repeated {
            T::Vector::splat(T::load_one(from).widen())
        } else {
            T::load_up_to(from.add(at), count)
        }
    }
}

/// With `g = grad * weight`: the sums over a line of `g`, and of `g * (x - mean) * rstd`.
struct Sums<T> {
    grad: Argument<T>,
    x: *const T,
    weight: Argument<T>,
    n: usize,
    mean: f64,
    rstd: f64,
}

impl<T> Placed for Sums<T> {
    type Home = Self;
}

/// Vectors whose sums are kept apart, so that none waits for the one before.
const TOGETHER: usize = 4;

impl<I: Isa, T: FloatLanes<I>> Kernel<I, [f64; 2]> for Sums<T> {
    #[inline(always)]
    unsafe fn run(self) -> [f64; 2] {
        let (mean, rstd) = (T::Vector::constant(self.mean), T::Vector::constant(self.rstd));
        let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
        let mut sums = [0.0; 2];
        for start in (0..self.n).step_by(BLOCK) {
            let end = self.n.min(start + BLOCK);
            let (mut plain, mut normal) = ([zero; TOGETHER], [zero; TOGETHER]);
            for first in (start..end).step_by(TOGETHER * lanes) {
                for i in 0..TOGETHER {
                    let at = end.min(first + i * lanes);
                    let count = lanes.min(end - at);
                    // SAFETY: `count` elements from `at` on are in the line. Lanes past them hold zeros in `x`.
                    let (grad, x, weight) = unsafe {
                        let grad = load::<I, T>(self.grad, at, count);
                        (grad, T::load_up_to(self.x.add(at), count), load::<I, T>(self.weight, at, count))
                    };
                    let mut g = grad * weight;
                    if count < lanes {
                        // One element may stand for all, but not for lanes past the end.
                        g = T::Vector::select(<T::Vector as Vector>::Mask::first(count), g, zero);
                    }
                    plain[i] = plain[i] + g;
                    normal[i] = g.mul_add((x - mean) * rstd, normal[i]);
                }
            }
            sums[0] += total(four(plain));
            sums[1] += total(four(normal));
        }
        sums
    }
}

/// The derivative of normalized lines (or, without `mean`, of those of [`super::rms_norm_lines`]) with respect to their elements.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn layer_norm_backward_lines(
    [grad, input]: [&Tensor; 2],
    mean: Option<&Tensor>,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    to: &Tensor,
    mask: DimMask,
) -> Result<()> {
    let kernel = computing_type(input.dtype());
    let repeated = grad.dtype() == kernel && is_one_element(grad);
    with_parameters("layer_norm_backward", &[weight, mean, Some(rstd), Some(grad)], &[], |guarded| {
        let shared = |tensor| Shared::of(guarded, tensor);
        let (weight, means, rstds) = (weight.map(shared), mean.map(shared), shared(rstd));
        let (first, streams) = (shared(grad), streams_to(to, mask, kernel, 2));
        dispatch_all_types!(wide_floats, kernel, "layer_norm_backward", T => {
            let one = T::from_scalar(Scalar::Int(1));
            let body = |line: usize, grad: Argument<T>, x: *const T, to: *mut T, n: usize| {
                // SAFETY: lines of `n` elements, room for as many, and a statistic of each kind for this line.
                unsafe {
                    let statistic = |shared: &Shared| load_one(shared.get().cast::<T>().add(line)).to_scalar().to_f64();
                    let (mean, rstd) = (means.as_ref().map_or(0.0, statistic), statistic(&rstds));
                    let weight = parameter(weight, &one);
                    let [plain, normal] = dispatch(Sums { grad, x, weight, n, mean, rstd });
                    let a = if means.is_some() { plain / n as f64 } else { 0.0 };
                    let next = next_line::<T>(n);
                    let rows = Rows {
                        repeated: [grad.1, false, weight.1],
                        ahead: [if grad.1 { 0 } else { next }, next, 0],
                        ..row([grad.0, x, weight.0], to, n)
                    };
                    write_row::<T, _, 3>(rows, NormGradient(mean, rstd, a, normal / n as f64), streams);
                }
            };
            if repeated {
                let grad = &first;
                map_lines([input], to, mask, kernel, |line, [x], to, n| {
                    body(line, (grad.get().cast_const().cast(), true), x.cast(), to.cast(), n)
                })
            } else {
                map_lines([grad, input], to, mask, kernel, |line, [grad, x], to, n| {
                    body(line, (grad.cast(), false), x.cast(), to.cast(), n)
                })
            }
        })
    })
}

/// Whether one element in memory stands for all.
pub(crate) fn is_one_element(tensor: &Tensor) -> bool {
    tensor.sizes().iter().zip(tensor.strides()).all(|(&size, &stride)| size == 1 || stride == 0)
}

/// Lines whose gradients are added up one by one; parts of as many are added up afterwards, so that sums are the same for any
/// number of threads.
pub(crate) const PART: usize = 64;

/// Lines of `n` elements, `row` elements apart, or one element for all.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a> {
    /// The first element.
    pub(crate) tensor: &'a Tensor,
    /// Elements from one line to the next.
    pub(crate) row: usize,
    /// The first element stands for all of a line.
    pub(crate) repeated: bool,
}

/// Some lines: `weight += grad * (x - mean) * rstd` and `bias += grad`, each from 0 on.
struct AddUp<T> {
    grad: (*const T, usize, bool),
    x: (*const T, usize),
    mean: Option<*const T>,
    rstd: *const T,
    lines: usize,
    n: usize,
    weight: *mut T,
    bias: *mut T,
}

impl<T> Placed for AddUp<T> {
    type Home = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for AddUp<T> {
    #[inline(always)]
    unsafe fn run(self) {
        for first in (0..self.lines).step_by(TOGETHER) {
            // SAFETY: what it asks for holds of these lines.
            unsafe {
                if first + TOGETHER <= self.lines {
                    add_lines::<I, T, TOGETHER>(&self, first);
                } else {
                    for line in first..self.lines {
                        add_lines::<I, T, 1>(&self, line);
                    }
                }
            }
        }
    }
}

/// Adds `COUNT` lines, from number `first` on, to the sums, one after the other; line 0 begins them.
///
/// # Safety
/// - There are these lines, a statistic of each kind for every one, and room for two lines of sums.
#[inline(always)]
unsafe fn add_lines<I: Isa, T: FloatLanes<I>, const COUNT: usize>(work: &AddUp<T>, first: usize) {
    let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
    let (mut mean, mut rstd) = ([zero; COUNT], [zero; COUNT]);
    // SAFETY: by this function's condition; `count` elements from `at` on are in every line.
    unsafe {
        for i in 0..COUNT {
            if let Some(means) = work.mean {
                mean[i] = T::Vector::splat(T::load_one(means.add(first + i)).widen());
            }
            rstd[i] = T::Vector::splat(T::load_one(work.rstd.add(first + i)).widen());
        }
        for at in (0..work.n).step_by(lanes) {
            let count = lanes.min(work.n - at);
            let (mut weight, mut bias) = (zero, zero);
            if first > 0 {
                weight = T::load_up_to(work.weight.add(at).cast_const(), count);
                bias = T::load_up_to(work.bias.add(at).cast_const(), count);
            }
            for i in 0..COUNT {
                let line = first + i;
                let grad = load::<I, T>((work.grad.0.add(line * work.grad.1), work.grad.2), at, count);
                let x = T::load_up_to(work.x.0.add(line * work.x.1 + at), count);
                weight = grad.mul_add((x - mean[i]) * rstd[i], weight);
                bias = bias + grad;
            }
            T::store_up_to(weight, work.weight.add(at), count);
            T::store_up_to(bias, work.bias.add(at), count);
        }
    }
}

/// Adds up the gradients of weights and offsets by parts of [`PART`] lines, into a contiguous tensor of as many times two lines.
/// All tensors are of the computing type, `x` of `lines` dense lines, `mean` and `rstd` contiguous, the result of its own memory.
///
/// # Errors
/// `Busy` where memory may not be touched.
pub(crate) fn add_up_parameters(
    grad: Lines<'_>,
    x: &Tensor,
    mean: Option<&Tensor>,
    rstd: &Tensor,
    [lines, n]: [usize; 2],
    to: &Tensor,
) -> Result<()> {
    with_parameters(
        "layer_norm_backward",
        &[Some(grad.tensor), Some(x), mean, Some(rstd)],
        &[to],
        |guarded| {
            let shared = |tensor| Shared::of(guarded, tensor);
            let (first, xs, means) = (shared(grad.tensor), shared(x), mean.map(shared));
            let (rstds, sums) = (shared(rstd), shared(to));
            let grain = (GRAIN / (n * PART).max(1)).max(1);
            dispatch_all_types!(wide_floats, to.dtype(), "layer_norm_backward", T => {
                parallel_for(0..lines.div_ceil(PART), grain, |parts| {
                    for part in parts {
                        let start = part * PART;
                        let at = |shared: &Shared, by: usize| shared.get().cast::<T>().wrapping_add(by);
                        let sums = at(&sums, part * 2 * n);
                        let kernel = AddUp {
                            grad: (at(&first, start * grad.row).cast_const(), grad.row, grad.repeated),
                            x: (at(&xs, start * n).cast_const(), n),
                            mean: means.as_ref().map(|means| at(means, start).cast_const()),
                            rstd: at(&rstds, start).cast_const(),
                            lines: PART.min(lines - start),
                            n,
                            weight: sums,
                            bias: sums.wrapping_add(n),
                        };
                        // SAFETY: the lines of this part, their statistics, and two lines of the result that nobody else writes.
                        unsafe { add_up(kernel) }
                    }
                });
                Ok(())
            })
        },
    )
}

/// # Safety
/// - What [`AddUp`] asks for.
unsafe fn add_up<T>(kernel: AddUp<T>)
where
    AddUp<T>: EveryIsa,
{
    // SAFETY: by this function's condition.
    unsafe { dispatch(kernel) }
}
