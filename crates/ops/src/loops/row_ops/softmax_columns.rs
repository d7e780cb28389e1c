//! Softmax along a dimension that is not the last, and its derivative: the maximum, the sum and the result of several rows at a time, one
//! row in each lane. Few long rows that fill dense memory together are [packed](Columns::packed): each is in several lanes.
#![expect(unsafe_code, reason = "reads the strips that `map_any_columns` gives")]

use super::columns::map_any_columns;
use super::map_rows::Strip;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{
    CodegenAnchor, Float, FloatElement, FloatLanes, Isa, Kernel, Mask, Number, Ordered, Vector, dispatch,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::Result;
use std::marker::PhantomData;
use std::ops::Range;

/// Vectors of a group, whose sums are in registers.
const GROUP: usize = 4;
/// Elements that are added up before their sum is added to the total, so that the error grows slowly.
const LEVEL: usize = 64;
/// Parts of a packed row that are folded side by side: a multiple of any number of lanes, so that bits do not depend on that.
const PARTS: usize = 16;
/// The largest number of rows that are packed.
const MAX_PACKED: usize = 15;
/// Elements of a row from which on it is packed.
const MIN_PACKED: usize = 8 * PARTS;

/// A period of packed rows: `PARTS` elements of each, and space for a vector after them.
type Period<E> = [E; (MAX_PACKED + 1) * PARTS];

/// [`softmax_rows`](super::softmax_rows) by columns; `false` if the geometry does not suit, and then nothing is written.
///
/// # Errors
/// As [`map_any_columns`].
pub(super) fn softmax_columns(input: &Tensor, out: &Tensor, mask: DimMask, log: bool) -> Result<bool> {
    dispatch_all_types!(floats, out.dtype(), "softmax", T => {
        map_any_columns([input], out, mask, |[from], to, n, rows| {
            // SAFETY: the strips have these elements.
            unsafe { dispatch(Columns::<T, Softmax, 1> { from: [from], to, n, rows, pass: Softmax { log }, element: PhantomData }) }
        })
    })
}

/// [`softmax_backward_rows`](super::softmax_backward_rows) by columns, likewise.
///
/// # Errors
/// As [`map_any_columns`].
pub(super) fn softmax_backward_columns(
    grad: &Tensor,
    output: &Tensor,
    to: &Tensor,
    mask: DimMask,
    log: bool,
) -> Result<bool> {
    dispatch_all_types!(floats, output.dtype(), "softmax_backward", T => {
        map_any_columns([grad, output], to, mask, |from, to, n, rows| {
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
        if self.is_packed() {
            // SAFETY: the strips have these rows.
            return unsafe { self.packed::<I>() };
        }
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
            // A loop: `map` of an array is a call of a function without this instruction set where the closure is long.
            let mut summary = total;
            for summary in &mut summary {
                *summary = self.pass.summary(*summary);
            }
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
        let mut args = [T::Vector::zero(); N];
        for (arg, strip) in args.iter_mut().zip(&self.from) {
            // SAFETY: by this function's condition.
            *arg = unsafe {
                T::load_up_to(strip.at.offset(i as isize * strip.step).cast::<T>().add(row), count)
            };
        }
        args
    }
}

impl<T, P: Passes<N>, const N: usize> Columns<T, P, N> {
    /// Whether the elements of few long rows follow one another in memory, so that vectors can be loaded across them.
    fn is_packed(&self) -> bool {
        let is_dense = |strip: &Strip| strip.step == (self.rows * size_of::<T>()) as isize;
        (2..=MAX_PACKED).contains(&self.rows)
            && self.n >= MIN_PACKED
            && self.from.iter().chain([&self.to]).all(is_dense)
    }

    /// Both passes over rows that are [packed](Self::is_packed): whole vectors, in whose lanes the rows alternate.
    ///
    /// # Safety
    /// - The strips have these rows.
    #[inline(always)]
    unsafe fn packed<I: Isa>(&self)
    where
        T: FloatLanes<I>,
    {
        let (lanes, elements) = (T::Vector::LANES, self.n * self.rows);
        // SAFETY: by this function's condition; vectors of a period are inside the arrays.
        unsafe {
            let start = self.packed_max::<I>();
            let mut summary = self.packed_sum::<I>(&start);
            for slot in (0..self.rows * PARTS).step_by(lanes) {
                let at = summary.as_mut_ptr().add(slot);
                self.pass.summary(T::Vector::load(at)).store(at);
            }
            let to = self.to.at.cast::<T>();
            self.each_vector(
                0..elements,
                lanes,
                #[inline(always)]
                |at, slot, count| {
                    let args = self.load_packed::<I>(at, count);
                    let start = T::Vector::load(start.as_ptr().add(slot));
                    let summary = T::Vector::load(summary.as_ptr().add(slot));
                    T::store_up_to(self.pass.result(args, start, summary), to.add(at), count);
                },
            );
        }
    }

    /// Calls `each` with the first element of every vector of a range, its slot in the period and its number of elements.
    #[inline(always)]
    fn each_vector(&self, range: Range<usize>, lanes: usize, mut each: impl FnMut(usize, usize, usize)) {
        let mut at = range.start;
        while at < range.end {
            let mut slot = 0;
            while slot < self.rows * PARTS && at < range.end {
                each(at, slot, lanes.min(range.end - at));
                (at, slot) = (at + lanes, slot + lanes);
            }
        }
    }

    /// The `count` elements from `at` on of each argument.
    ///
    /// # Safety
    /// - As [`packed`](Self::packed).
    #[inline(always)]
    unsafe fn load_packed<I: Isa>(&self, at: usize, count: usize) -> [T::Vector; N]
    where
        T: FloatLanes<I>,
    {
        let mut args = [T::Vector::zero(); N];
        for (arg, strip) in args.iter_mut().zip(&self.from) {
            // SAFETY: by this function's condition.
            *arg = unsafe { T::load_up_to(strip.at.cast::<T>().add(at), count) };
        }
        args
    }

    /// Folds the elements of a range, which begins with a period, into the slots of a period.
    ///
    /// # Safety
    /// - As [`packed`](Self::packed).
    #[inline(always)]
    unsafe fn fold_packed<I: Isa>(
        &self,
        range: Range<usize>,
        period: &mut Period<<T::Vector as Vector>::Element>,
        step: impl Fn(T::Vector, [T::Vector; N], usize) -> T::Vector,
    ) where
        T: FloatLanes<I>,
    {
        let lanes = T::Vector::LANES;
        self.each_vector(
            range,
            lanes,
            #[inline(always)]
            // SAFETY: by this function's condition; vectors of a period are inside the array.
            |at, slot, count| unsafe {
                let to = period.as_mut_ptr().add(slot);
                let before = T::Vector::load(to);
                let after = step(before, self.load_packed::<I>(at, count), slot);
                let inside = <T::Vector as Vector>::Mask::first(count);
                let after = if count == lanes { after } else { T::Vector::select(inside, after, before) };
                after.store(to);
            },
        );
    }

    /// The maxima of the first argument, in every slot of their rows.
    ///
    /// # Safety
    /// - As [`packed`](Self::packed).
    #[inline(always)]
    unsafe fn packed_max<I: Isa>(&self) -> Period<<T::Vector as Vector>::Element>
    where
        T: FloatLanes<I>,
    {
        if !P::SUBTRACTS_MAX {
            return [FloatElement::from_f64(0.0); _];
        }
        let mut max = [FloatElement::from_f64(f64::NEG_INFINITY); _];
        // SAFETY: by this function's condition.
        unsafe {
            self.fold_packed::<I>(
                0..self.n * self.rows,
                &mut max,
                #[inline(always)]
                |max, args, _| args[0].max(max),
            );
            combine_parts::<T::Vector>(
                &mut max,
                self.rows,
                #[inline(always)]
                |a, b| b.max(a),
            );
        }
        max
    }

    /// The sums, in every slot of their rows.
    ///
    /// # Safety
    /// - As [`packed`](Self::packed).
    #[inline(always)]
    unsafe fn packed_sum<I: Isa>(
        &self,
        start: &Period<<T::Vector as Vector>::Element>,
    ) -> Period<<T::Vector as Vector>::Element>
    where
        T: FloatLanes<I>,
    {
        let zeros = [FloatElement::from_f64(0.0); _];
        let (elements, width, mut total) = (self.n * self.rows, self.rows * PARTS, zeros);
        for first in (0..elements).step_by(LEVEL * width) {
            let mut sum = zeros;
            // SAFETY: by this function's condition; vectors of a period are inside the arrays.
            unsafe {
                self.fold_packed::<I>(
                    first..elements.min(first + LEVEL * width),
                    &mut sum,
                    #[inline(always)]
                    |sum, args, slot| sum + self.pass.term(args, T::Vector::load(start.as_ptr().add(slot))),
                );
                for slot in (0..width).step_by(T::Vector::LANES) {
                    let to = total.as_mut_ptr().add(slot);
                    (T::Vector::load(to) + T::Vector::load(sum.as_ptr().add(slot))).store(to);
                }
            }
        }
        // SAFETY: by this function's condition.
        unsafe {
            combine_parts::<T::Vector>(
                &mut total,
                self.rows,
                #[inline(always)]
                |a, b| a + b,
            );
        }
        total
    }
}

/// Combines the parts of each of `rows` rows as a tree, and repeats the results in all slots of the period.
///
/// # Safety
/// - There are at most [`MAX_PACKED`] rows.
#[inline(always)]
unsafe fn combine_parts<V: Float>(period: &mut Period<V::Element>, rows: usize, combine: impl Fn(V, V) -> V) {
    let at = period.as_mut_ptr();
    let mut half = rows * PARTS / 2;
    while half >= rows {
        for slot in (0..half).step_by(V::LANES) {
            // SAFETY: the last vector ends less than its length after `2 * half`, in the period. What it writes after `half` has been read before.
            unsafe {
                combine(V::load(at.add(slot)), V::load(at.add(half + slot))).store(at.add(slot));
            }
        }
        half /= 2;
    }
    for slot in rows..rows * PARTS {
        period[slot] = period[slot - rows];
    }
}
