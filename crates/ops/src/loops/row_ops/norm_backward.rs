//! The derivative of normalized rows with respect to their elements, weights and biases.
#![expect(
    unsafe_code,
    reason = "reads the dense rows that `map_rows` gives, and rows under the guards taken here"
)]

use super::map_rows::{map_rows, should_stream_to};
use super::norm::{parameter, with_parameters};
use super::norm_columns::{RowParameters, norm_backward_columns};
use super::row::{Shared, next_row_distance, row, write_row};
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::{BLOCK, computing_type, four, total};
use crate::loops::rows::Rows;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{DimMask, GRAIN};
use crate::vectorized::{
    CodegenAnchor, EveryIsa, Float, FloatLanes, Isa, Kernel, Mask, Number, Vector, dispatch, load_one,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar};

/// `rstd * (g - a - (x - mean) * rstd * b)`, in this order: mean, rstd, a, b.
#[derive(Clone, Copy)]
pub(super) struct NormGradient(pub(super) f64, pub(super) f64, pub(super) f64, pub(super) f64);

impl FloatFormula<3> for NormGradient {
    #[inline(always)]
    fn call<V: Float>(self, [grad, x, weight]: [V; 3]) -> V {
        let NormGradient(mean, rstd, a, b) = self;
        let normal = (x - V::constant(mean)) * V::constant(rstd);
        (grad * weight - V::constant(a) - normal * V::constant(b)) * V::constant(rstd)
    }
}

/// An argument of a row: the address of dense elements, or of one for all (`true`).
pub(super) type Argument<T> = (*const T, bool);

/// A vector of the elements from index `at` on.
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

/// With `g = grad * weight`: the sums over a row of `g`, and of `g * (x - mean) * rstd`.
pub(super) struct Sums<T> {
    pub(super) grad: Argument<T>,
    pub(super) x: *const T,
    pub(super) weight: Argument<T>,
    pub(super) n: usize,
    pub(super) mean: f64,
    pub(super) rstd: f64,
}

impl<T> CodegenAnchor for Sums<T> {
    type Anchor = Self;
}

/// How many vectors have partial sums of their own, so that no addition waits for the one before.
const UNROLL: usize = 4;

impl<I: Isa, T: FloatLanes<I>> Kernel<I, [f64; 2]> for Sums<T> {
    #[inline(always)]
    unsafe fn run(self) -> [f64; 2] {
        let (mean, rstd) = (T::Vector::constant(self.mean), T::Vector::constant(self.rstd));
        let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
        let mut sums = [0.0; 2];
        for start in (0..self.n).step_by(BLOCK) {
            let end = self.n.min(start + BLOCK);
            let (mut grad_sums, mut normal_sums) = ([zero; UNROLL], [zero; UNROLL]);
            for first in (start..end).step_by(UNROLL * lanes) {
                for i in 0..UNROLL {
                    let at = end.min(first + i * lanes);
                    let count = lanes.min(end - at);
                    // SAFETY: `count` elements from `at` on are in the row. Lanes past them hold zeros in `x`.
                    let (grad, x, weight) = unsafe {
                        let grad = load::<I, T>(self.grad, at, count);
                        (grad, T::load_up_to(self.x.add(at), count), load::<I, T>(self.weight, at, count))
                    };
                    let mut g = grad * weight;
                    if count < lanes {
                        // A repeated element fills the lanes past the end too, which are set to 0.
                        g = T::Vector::select(<T::Vector as Vector>::Mask::first(count), g, zero);
                    }
                    grad_sums[i] = grad_sums[i] + g;
                    normal_sums[i] = g.mul_add((x - mean) * rstd, normal_sums[i]);
                }
            }
            sums[0] += total(four(grad_sums));
            sums[1] += total(four(normal_sums));
        }
        sums
    }
}

/// The derivative of normalized rows (or, without `mean`, of those of [`super::rms_norm_rows`]) with respect to their elements.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn layer_norm_backward_rows(
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
        let parameters =
            RowParameters { weight: weight.as_ref(), bias: None, mean: means.as_ref(), rstd: &rstds };
        if norm_backward_columns([grad, input], to, mask, parameters)? {
            return Ok(());
        }
        let (first, streams) = (shared(grad), should_stream_to(to, mask, kernel, 2));
        dispatch_all_types!(wide_floats, kernel, "layer_norm_backward", T => {
            let one = T::from_scalar(Scalar::Int(1));
            let body = |row_index: usize, grad: Argument<T>, x: *const T, to: *mut T, n: usize| {
                // SAFETY: rows of `n` elements, memory for as many, and one element of each statistic for this row.
                unsafe {
                    let statistic = |shared: &Shared| load_one(shared.get().cast::<T>().add(row_index)).to_scalar().to_f64();
                    let (mean, rstd) = (means.as_ref().map_or(0.0, statistic), statistic(&rstds));
                    let weight = parameter(weight, &one);
                    let [grad_sum, normal_sum] = dispatch(Sums { grad, x, weight, n, mean, rstd });
                    let a = if means.is_some() { grad_sum / n as f64 } else { 0.0 };
                    let distance = next_row_distance::<T>(n);
                    let rows = Rows {
                        repeated: [grad.1, false, weight.1],
                        prefetch: [if grad.1 { 0 } else { distance }, distance, 0],
                        ..row([grad.0, x, weight.0], to, n)
                    };
                    write_row::<T, _, 3>(rows, NormGradient(mean, rstd, a, normal_sum / n as f64), streams);
                }
            };
            if repeated {
                let grad = &first;
                map_rows([input], to, mask, kernel, |row_index, [x], to, n| {
                    body(row_index, (grad.get().cast_const().cast(), true), x.cast(), to.cast(), n)
                })
            } else {
                map_rows([grad, input], to, mask, kernel, |row_index, [grad, x], to, n| {
                    body(row_index, (grad.cast(), false), x.cast(), to.cast(), n)
                })
            }
        })
    })
}

/// Whether all elements are one element in memory.
pub(crate) fn is_one_element(tensor: &Tensor) -> bool {
    tensor.sizes().iter().zip(tensor.strides()).all(|(&size, &stride)| size == 1 || stride == 0)
}

/// How many rows are summed in order; the sums of such parts are summed afterwards, so that results are the same for any number of
/// threads.
pub(crate) const ROWS_PER_PART: usize = 64;

/// Rows of `n` elements of a gradient, which begin `row` elements apart, or of one element for all.
#[derive(Clone, Copy)]
pub(crate) struct GradRows<'a> {
    /// The first element.
    pub(crate) tensor: &'a Tensor,
    /// Elements from one row to the next.
    pub(crate) row: usize,
    /// All elements of a row are the first one.
    pub(crate) repeated: bool,
}

/// Over some rows, from 0 on: `weight += grad * (x - mean) * rstd` and `bias += grad`.
struct SumParameterGrads<T> {
    grad: (*const T, usize, bool),
    x: (*const T, usize),
    mean: Option<*const T>,
    rstd: *const T,
    rows: usize,
    n: usize,
    weight: *mut T,
    bias: *mut T,
}

impl<T> CodegenAnchor for SumParameterGrads<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for SumParameterGrads<T> {
    #[inline(always)]
    unsafe fn run(self) {
        for first in (0..self.rows).step_by(UNROLL) {
            // SAFETY: by the kernel's conditions, which hold for these rows.
            unsafe {
                if first + UNROLL <= self.rows {
                    add_rows::<I, T, UNROLL>(&self, first);
                } else {
                    for row in first..self.rows {
                        add_rows::<I, T, 1>(&self, row);
                    }
                }
            }
        }
    }
}

/// Adds rows `first..first + COUNT` to the sums, in order; row 0 starts them at 0.
///
/// # Safety
/// - There are these rows, one element of each statistic for every row, and memory for two rows of sums.
#[inline(always)]
unsafe fn add_rows<I: Isa, T: FloatLanes<I>, const COUNT: usize>(work: &SumParameterGrads<T>, first: usize) {
    let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
    let (mut mean, mut rstd) = ([zero; COUNT], [zero; COUNT]);
    // SAFETY: by this function's condition; `count` elements from `at` on are in every row.
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
                let row = first + i;
                let grad = load::<I, T>((work.grad.0.add(row * work.grad.1), work.grad.2), at, count);
                let x = T::load_up_to(work.x.0.add(row * work.x.1 + at), count);
                weight = grad.mul_add((x - mean[i]) * rstd[i], weight);
                bias = bias + grad;
            }
            T::store_up_to(weight, work.weight.add(at), count);
            T::store_up_to(bias, work.bias.add(at), count);
        }
    }
}

/// Sums the gradients of weights and biases over parts of [`ROWS_PER_PART`] rows, into a contiguous tensor of two rows for each part.
/// All tensors are of the computing type, `x` has `rows` dense rows, `mean` and `rstd` are contiguous, and the result shares no memory.
///
/// # Errors
/// `Busy` where memory may not be touched.
pub(crate) fn sum_parameter_grads(
    grad: GradRows<'_>,
    x: &Tensor,
    mean: Option<&Tensor>,
    rstd: &Tensor,
    [rows, n]: [usize; 2],
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
            let grain = (GRAIN / (n * ROWS_PER_PART).max(1)).max(1);
            dispatch_all_types!(wide_floats, to.dtype(), "layer_norm_backward", T => {
                parallel_for(0..rows.div_ceil(ROWS_PER_PART), grain, |parts| {
                    for part in parts {
                        let start = part * ROWS_PER_PART;
                        let at = |shared: &Shared, by: usize| shared.get().cast::<T>().wrapping_add(by);
                        let sums = at(&sums, part * 2 * n);
                        let kernel = SumParameterGrads {
                            grad: (at(&first, start * grad.row).cast_const(), grad.row, grad.repeated),
                            x: (at(&xs, start * n).cast_const(), n),
                            mean: means.as_ref().map(|means| at(means, start).cast_const()),
                            rstd: at(&rstds, start).cast_const(),
                            rows: ROWS_PER_PART.min(rows - start),
                            n,
                            weight: sums,
                            bias: sums.wrapping_add(n),
                        };
                        // SAFETY: the rows of this part, their statistics, and two rows of the result that nobody else writes.
                        unsafe { run_sum(kernel) }
                    }
                });
                Ok(())
            })
        },
    )
}

/// # Safety
/// - The conditions of [`SumParameterGrads`].
unsafe fn run_sum<T>(kernel: SumParameterGrads<T>)
where
    SumParameterGrads<T>: EveryIsa,
{
    // SAFETY: by this function's condition.
    unsafe { dispatch(kernel) }
}
