//! The inner loop: rows of elements of one type, each argument dense or one value repeated, results dense.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::formulas::{
    Comparison, FloatComparison, FloatFormula, IntegerFormula, NumberFormula, OrderedComparison,
    OrderedFormula,
};
use crate::vectorized::{
    EveryIsa, FloatLanes, IntegerLanes, Isa, Kernel, Lanes, Mask, Number, OrderedLanes, Placed, Vector,
    dispatch,
};
use flambeau_core::ScalarType;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Rows of `n` results and the arguments they are computed from. Addresses step by `row` bytes from one row to the next;
/// within a row an argument is dense, or repeated.
#[derive(Clone, Copy)]
pub(super) struct Rows<const N: usize> {
    pub(super) to: *mut u8,
    pub(super) to_row: i64,
    pub(super) from: [*const u8; N],
    pub(super) from_row: [i64; N],
    pub(super) repeated: [bool; N],
    pub(super) n: usize,
    pub(super) rows: usize,
    /// Past the caches: `to` and all rows begin where a line does. Only for formulas that [stream](LaneFormula::STREAMS).
    pub(super) streams: bool,
    /// How many bytes ahead arguments are asked for, if any is; 0 for those that are near. Where results do not stream, they want the
    /// nearest cache for themselves, and arguments are asked for into the second.
    pub(super) ahead: [usize; N],
}

impl<const N: usize> Rows<N> {
    /// One row of `n`, without addresses.
    #[inline]
    pub(super) fn empty(n: usize) -> Self {
        let from = [std::ptr::null(); N];
        Rows {
            to: std::ptr::null_mut(),
            to_row: 0,
            from,
            from_row: [0; N],
            repeated: [false; N],
            n,
            rows: 1,
            streams: false,
            ahead: [0; N],
        }
    }

    /// The same rows, written past the caches, if they begin where lines do.
    pub(super) fn streamed(&self) -> Option<Self> {
        let begin = self.to.addr().is_multiple_of(LINE) && (self.rows == 1 || self.to_row % LINE as i64 == 0);
        begin.then_some(Rows { streams: true, ..*self })
    }

    /// Row number `r` by itself.
    pub(super) fn row(&self, r: usize) -> Self {
        let mut row = Rows { rows: 1, ..*self };
        row.to = self.to.wrapping_offset((r as i64 * self.to_row) as isize);
        for i in 0..N {
            row.from[i] = self.from[i].wrapping_offset((r as i64 * self.from_row[i]) as isize);
        }
        row
    }

    /// A stretch of a single row, for elements of these sizes.
    #[inline]
    pub(super) fn part(&self, range: Range<usize>, inputs: [usize; N], output: usize) -> Self {
        let mut part = *self;
        part.n = range.len();
        part.to = self.to.wrapping_add(range.start * output);
        for (i, input) in inputs.into_iter().enumerate() {
            let step = if self.repeated[i] { 0 } else { input };
            part.from[i] = self.from[i].wrapping_add(range.start * step);
        }
        part
    }
}

// SAFETY: the addresses are used under guards that the thread which made the rows holds until all threads are done.
unsafe impl<const N: usize> Sync for Rows<N> {}

/// A formula as the loop needs it: lanes in, results written.
pub(super) trait LaneFormula<I: Isa, T: Lanes<I>, const N: usize>: Copy + Placed {
    /// Bytes of one result.
    const OUTPUT_SIZE: usize;
    /// Whether the loop can write past the caches: vectors of results are lines or halves of them.
    const STREAMS: bool = false;

    /// Evaluates all lanes, of which the first `count` matter, and writes their results.
    ///
    /// # Safety
    /// - `to` is valid for writing a result for each lane, and `count` is at most their number.
    unsafe fn apply(self, args: [T::Vector; N], to: *mut u8, count: usize);

    /// Copies the first `count` of a vector's results.
    ///
    /// # Safety
    /// - `from` holds a result for each lane, and `to` takes `count`, at most as many.
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize);
}

macro_rules! store_lanes {
    ($wrapper:ident, $formula:ident, $lanes:ident; $($call_to_half:ident)?) => {
        #[derive(Clone, Copy)]
        pub(super) struct $wrapper<F>(pub(super) F);

        impl<F> Placed for $wrapper<F> {
            type Home = F;
        }

        impl<I: Isa, T: $lanes<I>, F: $formula<N>, const N: usize> LaneFormula<I, T, N> for $wrapper<F> {
            const OUTPUT_SIZE: usize = size_of::<T>();
            const STREAMS: bool =
                I::STREAMS_LINES && T::Vector::LANES * size_of::<T>() >= LINE / 2 && N <= STREAMED;

            #[inline(always)]
            unsafe fn apply(self, args: [T::Vector; N], to: *mut u8, _: usize) {
                $(if size_of::<T>() < size_of::<<T::Vector as Vector>::Element>() {
                    let (results, are_normal) = self.0.$call_to_half(args);
                    // SAFETY: `to` takes a result for each lane.
                    return unsafe {
                        if are_normal { T::store_normal(results, to.cast()) } else { T::store(results, to.cast()) }
                    };
                })?
                // SAFETY: as above.
                unsafe { T::store(self.0.call(args), to.cast()) }
            }

            #[inline(always)]
            unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
                // SAFETY: this function's condition. A call of few elements has no time for one of `memcpy`.
                unsafe { T::store_partial(T::load(from.cast()), to.cast(), count) }
            }
        }
    };
}

store_lanes!(Floats, FloatFormula, FloatLanes; call_to_half);
store_lanes!(Numbers, NumberFormula, Lanes;);
store_lanes!(OrderedNumbers, OrderedFormula, OrderedLanes;);
store_lanes!(Integers, IntegerFormula, IntegerLanes;);

/// Arguments of kernels whose results may go past the caches.
pub(super) const STREAMED: usize = 3;

/// Whether loops over these types [stream](LaneFormula::STREAMS) where there are such stores: truth values of wider numbers do not
/// fill half a line.
pub(super) fn streams(from: ScalarType, to: ScalarType) -> bool {
    from == to
}

/// A formula of two integers, and a note of whether some second one was 0.
#[derive(Clone, Copy)]
pub(super) struct Divides<'a, F>(pub(super) F, pub(super) &'a AtomicBool);

impl<F> Placed for Divides<'_, F> {
    type Home = F;
}

impl<I: Isa, T: IntegerLanes<I>, F: IntegerFormula<2>> LaneFormula<I, T, 2> for Divides<'_, F> {
    const OUTPUT_SIZE: usize = size_of::<T>();
    const STREAMS: bool = <Integers<F> as LaneFormula<I, T, 2>>::STREAMS;

    #[inline(always)]
    unsafe fn apply(self, args: [T::Vector; 2], to: *mut u8, count: usize) {
        let Divides(formula, by_zero) = self;
        // Lanes past `count` hold zeros.
        let here = <<T::Vector as Vector>::Mask as Mask>::first(count);
        if (args[1].eq(T::Vector::zero()) & here).any() {
            by_zero.store(true, Ordering::Relaxed);
        }
        // SAFETY: this function's condition.
        unsafe { LaneFormula::<I, T, 2>::apply(Integers(formula), args, to, count) }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition.
        unsafe { <Integers<F> as LaneFormula<I, T, 2>>::copy(from, to, count) }
    }
}

macro_rules! store_masks {
    ($wrapper:ident, $formula:ident, $lanes:ident) => {
        #[derive(Clone, Copy)]
        pub(super) struct $wrapper<F>(pub(super) F);

        impl<F> Placed for $wrapper<F> {
            type Home = F;
        }

        impl<I: Isa, T: $lanes<I>, F: $formula<N>, const N: usize> LaneFormula<I, T, N> for $wrapper<F> {
            const OUTPUT_SIZE: usize = size_of::<bool>();
            const STREAMS: bool = I::STREAMS_LINES && T::Vector::LANES >= LINE / 2 && N <= STREAMED;

            #[inline(always)]
            unsafe fn apply(self, args: [T::Vector; N], to: *mut u8, _: usize) {
                // SAFETY: `to` takes a result for each lane.
                unsafe { self.0.call(args).store_bool(to.cast(), T::Vector::LANES) }
            }

            #[inline(always)]
            unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
                // SAFETY: this function's condition.
                unsafe { to.copy_from_nonoverlapping(from, count) }
            }
        }
    };
}

store_masks!(Compares, Comparison, Lanes);
store_masks!(OrderedCompares, OrderedComparison, OrderedLanes);
store_masks!(FloatCompares, FloatComparison, FloatLanes);

/// The loop over [`Rows`], for every instruction set.
pub(super) struct RowKernel<'r, T, F, const N: usize> {
    rows: &'r Rows<N>,
    formula: F,
    element: PhantomData<T>,
}

/// Runs `formula` over rows of `T`.
#[inline]
pub(super) fn dispatch_rows<T, F, const N: usize>(rows: &Rows<N>, formula: F)
where
    for<'r> RowKernel<'r, T, F, N>: EveryIsa,
{
    // SAFETY: `for_each_rows` makes only rows whose elements lie inside their operands, of the types announced to it.
    unsafe { dispatch(RowKernel { rows, formula, element: PhantomData::<T> }) }
}

impl<T, F: Placed, const N: usize> Placed for RowKernel<'_, T, F, N> {
    type Home = F::Home;
}

impl<I: Isa, T: Lanes<I>, F: LaneFormula<I, T, N>, const N: usize> Kernel<I> for RowKernel<'_, T, F, N> {
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "closures are not inlined into the shim reliably; plain loops are"
    )]
    unsafe fn run(self) {
        let RowKernel { rows, formula, .. } = self;
        for r in 0..rows.rows as i64 {
            let to = rows.to.wrapping_offset((r * rows.to_row) as isize);
            let mut from = rows.from;
            for i in 0..N {
                from[i] = from[i].wrapping_offset((r * rows.from_row[i]) as isize);
            }
            // SAFETY: as the caller says of every row.
            unsafe { row::<I, T, F, N>(rows, to, from, formula) };
        }
    }
}

/// Room for one vector, in one line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Spread([MaybeUninit<u64>; 8]);

impl Spread {
    const EMPTY: Self = Self([const { MaybeUninit::uninit() }; 8]);
}

/// Reads from the middle of a vector that is a line: lines that are read in halves the processor fetches further ahead by itself.
///
/// # Safety
/// - `line` holds a vector.
#[inline(always)]
pub(super) unsafe fn touch_middle<I: Isa, T: Lanes<I>>(line: *const u8) {
    if T::Vector::LANES * size_of::<T>() == LINE {
        // SAFETY: inside the vector.
        unsafe { line.add(LINE / 2).read_volatile() };
    }
}

/// One of the rows, from `from` to `to`. The formula stands here once, for whole vectors and for the last elements: it is the larger part of the code of
/// most kernels, and there are thousands of them. So that its loop asks for no count, the last elements are moved to whole
/// vectors, and the loop is entered again; where it [streams](LaneFormula::STREAMS), a vector of results goes past the caches at
/// once, so that they are written while the next are computed.
///
/// # Safety
/// - Dense arguments are valid for reading `n` elements of `T`, repeated ones for one; `to` for writing `n` results. If it
///   `streams`, `to` begins where a line does.
#[inline(always)]
unsafe fn row<I, T, F, const N: usize>(rows: &Rows<N>, mut to: *mut u8, mut from: [*const u8; N], formula: F)
where
    I: Isa,
    T: Lanes<I>,
    F: LaneFormula<I, T, N>,
{
    const { assert!(T::Vector::LANES * size_of::<T>() <= size_of::<Spread>()) };
    const { assert!(T::Vector::LANES * F::OUTPUT_SIZE <= size_of::<Spread>()) };
    let Rows { repeated, n, streams, ahead, .. } = *rows;
    let lanes = T::Vector::LANES;
    let (mut streams, asks) = (streams && F::STREAMS, ahead != [0; N]);
    let mut spread = [Spread::EMPTY; N];
    let mut last = Spread::EMPTY;
    let mut step = [lanes * size_of::<T>(); N];
    let (mut whole, rest, mut count) = (n / lanes, n % lanes, lanes);
    let end = to.wrapping_add((n - rest) * F::OUTPUT_SIZE);
    // SAFETY: reads and writes stay below `n`, by the conditions above, or in vectors of the stack. A repeated argument is read
    // from a vector full of it, which the loop does not step past.
    unsafe {
        for i in 0..N {
            if repeated[i] {
                let full = (&raw mut spread[i]).cast::<T>();
                T::store(T::Vector::splat(T::load_one(from[i].cast()).widen()), full);
                (from[i], step[i]) = (full.cast_const().cast(), 0);
            }
        }
        loop {
            for _ in 0..whole {
                let mut args = [T::Vector::zero(); N];
                for i in 0..N {
                    // One choice inside the other: of two that stand apart the compiler makes a loop for each at small formulas only.
                    if streams {
                        I::prefetch(from[i].wrapping_add(ahead[i]));
                        touch_middle::<I, T>(from[i]);
                    } else if asks {
                        I::prefetch_second(from[i].wrapping_add(ahead[i]));
                        touch_middle::<I, T>(from[i]);
                    }
                    args[i] = T::load(from[i].cast());
                    from[i] = from[i].wrapping_add(step[i]);
                }
                let mut line = Spread::EMPTY;
                formula.apply(args, if streams { (&raw mut line).cast() } else { to }, count);
                if streams && lanes * F::OUTPUT_SIZE == LINE {
                    I::stream_line((&raw const line).cast(), to);
                } else if streams {
                    I::stream_half_line((&raw const line).cast(), to);
                }
                to = to.wrapping_add(lanes * F::OUTPUT_SIZE);
            }
            if rest == 0 {
                return;
            }
            if count == rest {
                return F::copy((&raw const last).cast(), end, rest);
            }
            for i in 0..N {
                if !repeated[i] {
                    let full = (&raw mut spread[i]).cast::<T>();
                    T::store(T::load_partial(from[i].cast(), rest), full);
                    from[i] = full.cast_const().cast();
                }
            }
            to = (&raw mut last).cast();
            (whole, count, streams) = (1, rest, false);
        }
    }
}

/// The same for a floating point formula.
///
/// # Safety
/// - The elements of the rows are valid, of type `T`.
#[inline]
pub(super) unsafe fn dispatch_rows_of<T, F: FloatFormula<N>, const N: usize>(rows: Rows<N>, formula: F)
where
    for<'r> RowKernel<'r, T, Floats<F>, N>: EveryIsa,
{
    dispatch_rows::<T, Floats<F>, N>(&rows, Floats(formula));
}
