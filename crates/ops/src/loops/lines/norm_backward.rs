//! The derivative of normalized lines with respect to their elements, weights and offsets.
#![expect(
    unsafe_code,
    reason = "reads the dense lines that the driver gives, and rows under the guards taken here"
)]

use super::norm::{Shared, parameter, storages};
use super::{map_lines, row, streams_to, write_row};
use crate::loops::FloatFormula;
use crate::loops::reduce::{BLOCK, computing_type};
use crate::loops::rows::Rows;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{DimMask, GRAIN};
use crate::vectorized::{EveryIsa, Float, FloatLanes, Isa, Kernel, Number, Placed, Vector, dispatch};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar, StorageGuards};

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

/// With `g = grad * weight`: the sums over a line of `g`, and of `g * (x - mean) * rstd`.
struct Sums<T> {
    grad: *const T,
    x: *const T,
    weight: (*const T, bool),
    n: usize,
    mean: f64,
    rstd: f64,
}

impl<T> Placed for Sums<T> {
    type Home = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I, [f64; 2]> for Sums<T> {
    #[inline(always)]
    unsafe fn run(self) -> [f64; 2] {
        let (mean, rstd) = (T::Vector::constant(self.mean), T::Vector::constant(self.rstd));
        let lanes = T::Vector::LANES;
        let mut sums = [0.0; 2];
        for start in (0..self.n).step_by(BLOCK) {
            let end = self.n.min(start + BLOCK);
            let (mut plain, mut normal) = (T::Vector::zero(), T::Vector::zero());
            for at in (start..end).step_by(lanes) {
                let count = lanes.min(end - at);
                let weight_at = if self.weight.1 { 0 } else { at };
                // SAFETY: `count` elements from `at` on are in the line; a repeated weight is one element. Lanes past `count`
                // hold zeros and add nothing.
                let (grad, x, weight) = unsafe {
                    let weight = if self.weight.1 {
                        T::Vector::splat(self.weight.0.read().widen())
                    } else {
                        T::load_up_to(self.weight.0.add(weight_at), count)
                    };
                    (T::load_up_to(self.grad.add(at), count), T::load_up_to(self.x.add(at), count), weight)
                };
                let g = grad * weight;
                plain = plain + g;
                normal = g.mul_add((x - mean) * rstd, normal);
            }
            sums[0] += total(plain);
            sums[1] += total(normal);
        }
        sums
    }
}

/// The sum of all lanes.
#[inline(always)]
fn total<V: Float>(v: V) -> f64 {
    let mut lanes = [V::Element::from_scalar(Scalar::Int(0)); 16];
    v.spill(&mut lanes);
    let mut sum = 0.0;
    for lane in &lanes[..V::LANES] {
        sum += lane.to_scalar().to_f64();
    }
    sum
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
    let wanted = storages(&[weight, mean, Some(rstd)], &[]);
    let _guards = StorageGuards::acquire(&wanted)?;
    let (weight, means, rstds) = (weight.map(Shared::of), mean.map(Shared::of), Shared::of(rstd));
    let streams = streams_to(to, mask, kernel);
    dispatch_all_types!(wide_floats, kernel, "layer_norm_backward", T => {
        let one = T::from_scalar(Scalar::Int(1));
        map_lines([grad, input], to, mask, kernel, |line, [grad, from], to, n| {
            let (grad, x, to): (*const T, *const T, *mut T) = (grad.cast(), from.cast(), to.cast());
            // SAFETY: lines of `n` elements, room for as many, and a statistic of each kind for this line.
            unsafe {
                let statistic = |shared: &Shared| shared.get().cast::<T>().add(line).read().to_scalar().to_f64();
                let (mean, rstd) = (means.as_ref().map_or(0.0, statistic), statistic(&rstds));
                let weight = parameter(weight, &one);
                let [plain, normal] = dispatch(Sums { grad, x, weight, n, mean, rstd });
                let a = if means.is_some() { plain / n as f64 } else { 0.0 };
                let rows = Rows { repeated: [false, false, weight.1], ..row([grad, x, weight.0], to, n) };
                write_row::<T, _, 3>(rows, NormGradient(mean, rstd, a, normal / n as f64), streams);
            }
        })
    })
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
        let lanes = T::Vector::LANES;
        for line in 0..self.lines {
            // SAFETY: a statistic of each kind for every line.
            let (mean, rstd) = unsafe {
                let mean = self
                    .mean
                    .map_or(T::Vector::zero(), |mean| T::Vector::splat(mean.add(line).read().widen()));
                (mean, T::Vector::splat(self.rstd.add(line).read().widen()))
            };
            for at in (0..self.n).step_by(lanes) {
                let count = lanes.min(self.n - at);
                // SAFETY: `count` elements from `at` on are in the line, and in both sums.
                unsafe {
                    let grad = if self.grad.2 {
                        T::Vector::splat(self.grad.0.add(line * self.grad.1).read().widen())
                    } else {
                        T::load_up_to(self.grad.0.add(line * self.grad.1 + at), count)
                    };
                    let x = T::load_up_to(self.x.0.add(line * self.x.1 + at), count);
                    let (mut weight, mut bias) = (T::Vector::zero(), T::Vector::zero());
                    if line > 0 {
                        weight = T::load_up_to(self.weight.add(at).cast_const(), count);
                        bias = T::load_up_to(self.bias.add(at).cast_const(), count);
                    }
                    T::store_up_to(grad.mul_add((x - mean) * rstd, weight), self.weight.add(at), count);
                    T::store_up_to(bias + grad, self.bias.add(at), count);
                }
            }
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
    let wanted = storages(&[Some(grad.tensor), Some(x), mean, Some(rstd)], &[to]);
    let _guards = StorageGuards::acquire(&wanted)?;
    let (first, xs, means) = (Shared::of(grad.tensor), Shared::of(x), mean.map(Shared::of));
    let (rstds, sums) = (Shared::of(rstd), Shared::of(to));
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
