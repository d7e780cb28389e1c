//! Softmax along a dimension that is not the last, and its derivative: the maximum, the sum and the result of several rows at a time, one
//! row in each lane.
#![expect(unsafe_code, reason = "reads the strips that `map_columns` gives")]

use super::columns::map_columns;
use super::map_rows::Strip;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Number, Ordered, Vector, dispatch};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::Result;
use std::marker::PhantomData;

/// Vectors of a group, whose sums are in registers.
const GROUP: usize = 4;
/// Elements that are added up before their sum is added to the total, so that the error grows slowly.
const LEVEL: usize = 64;

/// [`softmax_rows`](super::softmax_rows) by columns; `false` if the geometry does not suit, and then nothing is written.
///
/// # Errors
/// As [`map_columns`].
pub(super) fn softmax_columns(input: &Tensor, out: &Tensor, mask: DimMask, log: bool) -> Result<bool> {
    dispatch_all_types!(floats, out.dtype(), "softmax", T => {
        map_columns([input], out, mask, |_, [from], to, n, rows| {
            // SAFETY: the strips have these elements.
            unsafe { dispatch(Columns::<T, Softmax, 1> { from: [from], to, n, rows, pass: Softmax { log }, element: PhantomData }) }
        })
    })
}

/// [`softmax_backward_rows`](super::softmax_backward_rows) by columns, likewise.
///
/// # Errors
/// As [`map_columns`].
pub(super) fn softmax_backward_columns(
    grad: &Tensor,
    output: &Tensor,
    to: &Tensor,
    mask: DimMask,
    log: bool,
) -> Result<bool> {
    dispatch_all_types!(floats, output.dtype(), "softmax_backward", T => {
        map_columns([grad, output], to, mask, |_, from, to, n, rows| {
            // SAFETY: the strips have these elements.
            unsafe { dispatch(Columns::<T, Backward, 2> { from, to, n, rows, pass: Backward { log }, element: PhantomData }) }
        })
    })
}

/// The formulas of both passes: a sum over each row, and a result by that sum. `start` is the maximum of the first argument if
/// `SUBTRACTS_MAX`.
trait Passes<const N: usize>: Copy {
    const SUBTRACTS_MAX: bool;
    fn term<V: Float>(self, args: [V; N], start: V) -> V;
    /// What [`result`](Self::result) uses of a sum.
    fn summary<V: Float>(self, sum: V) -> V;
    fn result<V: Float>(self, args: [V; N], start: V, summary: V) -> V;
}

#[derive(Clone, Copy)]
struct Softmax {
    log: bool,
}

impl Passes<1> for Softmax {
    const SUBTRACTS_MAX: bool = true;

    #[inline(always)]
    fn term<V: Float>(self, [x]: [V; 1], max: V) -> V {
        (x - max).exp()
    }

    #[inline(always)]
    fn summary<V: Float>(self, sum: V) -> V {
        if self.log { sum.log() } else { sum }
    }

    #[inline(always)]
    fn result<V: Float>(self, [x]: [V; 1], max: V, summary: V) -> V {
        if self.log { x - max - summary } else { (x - max).exp() / summary }
    }
}

#[derive(Clone, Copy)]
struct Backward {
    log: bool,
}

impl Passes<2> for Backward {
    const SUBTRACTS_MAX: bool = false;

    #[inline(always)]
    fn term<V: Float>(self, [g, y]: [V; 2], _: V) -> V {
        if self.log { g } else { g * y }
    }

    #[inline(always)]
    fn summary<V: Float>(self, sum: V) -> V {
        sum
    }

    #[inline(always)]
    fn result<V: Float>(self, [g, y]: [V; 2], _: V, sum: V) -> V {
        if self.log { y.exp().neg_mul_add(sum, g) } else { (g - sum) * y }
    }
}

/// Both passes over a strip of rows.
struct Columns<T, P, const N: usize> {
    from: [Strip; N],
    to: Strip,
    /// Elements of a row.
    n: usize,
    rows: usize,
    pass: P,
    element: PhantomData<T>,
}

impl<T, P, const N: usize> CodegenAnchor for Columns<T, P, N> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>, P: Passes<N>, const N: usize> Kernel<I> for Columns<T, P, N> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = T::Vector::LANES;
        let mut first = 0;
        while first < self.rows {
            let left = self.rows - first;
            // SAFETY: rows of the strip.
            unsafe {
                if left >= GROUP * lanes {
                    self.group::<I, GROUP>(first, lanes);
                    first += GROUP * lanes;
                } else {
                    self.group::<I, 1>(first, lanes.min(left));
                    first += lanes;
                }
            }
        }
    }
}

impl<T, P: Passes<N>, const N: usize> Columns<T, P, N> {
    /// The rows from `first` on: `G` vectors of `count` lanes each.
    ///
    /// # Safety
    /// - The strip has these rows.
    #[inline(always)]
    unsafe fn group<I: Isa, const G: usize>(&self, first: usize, count: usize)
    where
        T: FloatLanes<I>,
    {
        // SAFETY: by this function's condition.
        unsafe {
            let start =
                if P::SUBTRACTS_MAX { self.max::<I, G>(first, count) } else { [T::Vector::zero(); G] };
            let mut total = [T::Vector::zero(); G];
            for from in (0..self.n).step_by(LEVEL) {
                let mut sum = [T::Vector::zero(); G];
                for i in from..self.n.min(from + LEVEL) {
                    for g in 0..G {
                        sum[g] =
                            sum[g] + self.pass.term(self.load::<I>(i, first + g * count, count), start[g]);
                    }
                }
                for g in 0..G {
                    total[g] = total[g] + sum[g];
                }
            }
            let summary = total.map(
                #[inline(always)]
                |sum| self.pass.summary(sum),
            );
            for i in 0..self.n {
                let to = self.to.at.offset(i as isize * self.to.step).cast::<T>();
                for g in 0..G {
                    let args = self.load::<I>(i, first + g * count, count);
                    let result = self.pass.result(args, start[g], summary[g]);
                    T::store_up_to(result, to.add(first + g * count), count);
                }
            }
        }
    }

    /// The maxima of the first argument.
    ///
    /// # Safety
    /// - As [`group`](Self::group).
    #[inline(always)]
    unsafe fn max<I: Isa, const G: usize>(&self, first: usize, count: usize) -> [T::Vector; G]
    where
        T: FloatLanes<I>,
    {
        let mut max = [T::Vector::constant(f64::NEG_INFINITY); G];
        for i in 0..self.n {
            for (g, max) in max.iter_mut().enumerate() {
                // SAFETY: by this function's condition.
                *max = unsafe { self.load::<I>(i, first + g * count, count) }[0].max(*max);
            }
        }
        max
    }

    /// Element `i` of the `count` rows from `row` on, of each argument.
    ///
    /// # Safety
    /// - As [`group`](Self::group).
    #[inline(always)]
    unsafe fn load<I: Isa>(&self, i: usize, row: usize, count: usize) -> [T::Vector; N]
    where
        T: FloatLanes<I>,
    {
        self.from.map(
            #[inline(always)]
            // SAFETY: by this function's condition.
            |strip| unsafe {
                T::load_up_to(strip.at.offset(i as isize * strip.step).cast::<T>().add(row), count)
            },
        )
    }
}
