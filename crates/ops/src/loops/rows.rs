//! The innermost loop of elementwise operators: rows of elements of one type, each argument dense or one value repeated, results dense.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::formulas::{
    Comparison, ComplexComparison, ComplexFormula, ComplexToReal, FloatComparison, FloatFormula,
    IntegerFormula, NumberFormula, OrderedComparison, OrderedFormula,
};
use crate::vectorized::{
    CodegenAnchor, ComplexLanes, EveryIsa, FloatLanes, IntegerLanes, Isa, Kernel, Lanes, Mask, Number,
    OrderedLanes, Vector, dispatch,
};
use flambeau_core::ScalarType;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a cache line.
pub(super) const CACHE_LINE: usize = 64;
const HALF_CACHE_LINE: usize = CACHE_LINE / 2;

/// `rows` rows of `n` results, and the arguments they are computed from. The result's address grows by `to_row` bytes from one row to
/// the next, an argument's by `from_row`; within a row an argument is dense, or one value for all (`repeated`).
#[derive(Clone, Copy)]
pub(super) struct Rows<const N: usize> {
    pub(super) to: *mut u8,
    pub(super) to_row: i64,
    pub(super) from: [*const u8; N],
    pub(super) from_row: [i64; N],
    pub(super) repeated: [bool; N],
    pub(super) n: usize,
    pub(super) rows: usize,
    /// Results are written by non-temporal stores: `to` and all rows begin at a cache line. Only for formulas that have such
    /// [stores](LaneFormula::STREAMS).
    pub(super) streams: bool,
    /// The prefetch distance of each argument in bytes; 0 for one that is in L1 anyway, and for all where none is prefetched. Where
    /// results are written to L1, arguments are prefetched into L2.
    pub(super) prefetch: [usize; N],
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
            prefetch: [0; N],
        }
    }

    /// These rows, written by non-temporal stores, if all of them begin at a cache line.
    pub(super) fn with_nt_stores(&self) -> Option<Self> {
        let begin = self.to.addr().is_multiple_of(CACHE_LINE)
            && (self.rows == 1 || self.to_row % CACHE_LINE as i64 == 0);
        begin.then_some(Rows { streams: true, ..*self })
    }

    /// Row `r` by itself.
    pub(super) fn row(&self, r: usize) -> Self {
        let mut row = Rows { rows: 1, ..*self };
        row.to = self.to.wrapping_offset((r as i64 * self.to_row) as isize);
        for i in 0..N {
            row.from[i] = self.from[i].wrapping_offset((r as i64 * self.from_row[i]) as isize);
        }
        row
    }

    /// Elements `range` of a single row, for elements of these sizes.
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

/// A formula as the loop calls it: it takes vectors and writes results.
pub(super) trait LaneFormula<I: Isa, T: Lanes<I>, const N: usize>: Copy + CodegenAnchor {
    /// Bytes of one result.
    const OUTPUT_SIZE: usize;
    /// Whether the loop has non-temporal stores: vectors of results fill a cache line or half of one.
    const STREAMS: bool = false;

    /// The formula with its numbers as elements of the vectors, see [`Argument`](super::Argument).
    #[inline(always)]
    fn prepared(self) -> Self {
        self
    }

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

/// [`LaneFormula::STREAMS`] of a formula of `N` arguments whose results are of their type.
pub(super) const fn streams_lanes<I: Isa, T: Lanes<I>, const N: usize>() -> bool {
    I::HAS_NON_TEMPORAL_STORES
        && matches!(T::Vector::LANES * size_of::<T>(), HALF_CACHE_LINE | CACHE_LINE)
        && N <= MAX_STREAMING_INPUTS
}

/// [`LaneFormula::copy`] of results of type `T`. For so few elements a call of `memcpy` would cost more than the copy.
///
/// # Safety
/// - As [`LaneFormula::copy`].
#[inline(always)]
pub(super) unsafe fn store_first<I: Isa, T: Lanes<I>>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: this function's condition.
    unsafe { T::store_partial(T::load(from.cast()), to.cast(), count) }
}

macro_rules! prepared {
    ($with_arguments_as:ident) => {
        #[inline(always)]
        fn prepared(self) -> Self {
            Self(self.0.$with_arguments_as::<<T::Vector as Vector>::Element>())
        }
    };
}

macro_rules! store_lanes {
    ($wrapper:ident, $formula:ident, $lanes:ident; $($call_to_half:ident)?; $($with_arguments_as:ident)?) => {
        #[derive(Clone, Copy)]
        pub(super) struct $wrapper<F>(pub(super) F);

        impl<F> CodegenAnchor for $wrapper<F> {
            type Anchor = F;
        }

        impl<I: Isa, T: $lanes<I>, F: $formula<N>, const N: usize> LaneFormula<I, T, N> for $wrapper<F> {
            const OUTPUT_SIZE: usize = size_of::<T>();
            const STREAMS: bool = streams_lanes::<I, T, N>();

            $(prepared!($with_arguments_as);)?

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
                // SAFETY: this function's condition.
                unsafe { store_first::<I, T>(from, to, count) }
            }
        }
    };
}

store_lanes!(Floats, FloatFormula, FloatLanes; call_to_half; with_arguments_as);
store_lanes!(Numbers, NumberFormula, Lanes;; with_arguments_as);
store_lanes!(OrderedNumbers, OrderedFormula, OrderedLanes;; with_arguments_as);
store_lanes!(Integers, IntegerFormula, IntegerLanes;; with_arguments_as);
store_lanes!(Complexes, ComplexFormula, ComplexLanes;;);

/// A formula of complex numbers whose results are real: vectors of parts.
#[derive(Clone, Copy)]
pub(super) struct Magnitudes<F>(pub(super) F);

impl<F> CodegenAnchor for Magnitudes<F> {
    type Anchor = F;
}

impl<I: Isa, T: ComplexLanes<I>, F: ComplexToReal<N>, const N: usize> LaneFormula<I, T, N> for Magnitudes<F> {
    const OUTPUT_SIZE: usize = size_of::<<T::Part as Vector>::Element>();

    #[inline(always)]
    unsafe fn apply(self, args: [T::Vector; N], to: *mut u8, _: usize) {
        // SAFETY: `to` takes a result for each lane.
        unsafe { self.0.call(args).store(to.cast()) }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition.
        unsafe { T::Part::load(from.cast()).store_partial(to.cast(), count) }
    }
}

/// How many arguments a kernel with non-temporal stores has at most.
pub(super) const MAX_STREAMING_INPUTS: usize = 3;

/// Whether loops over these types have [non-temporal stores](LaneFormula::STREAMS) where the processor has them: the bools that are
/// computed from a vector of wider numbers do not fill half a cache line, and a vector of complex numbers fills two.
pub(super) fn supports_nt_stores(from: ScalarType, to: ScalarType) -> bool {
    from == to && !to.is_complex()
}

/// A formula of two integers, and a flag that is set where a divisor is 0.
#[derive(Clone, Copy)]
pub(super) struct Divides<'a, F>(pub(super) F, pub(super) &'a AtomicBool);

impl<F> CodegenAnchor for Divides<'_, F> {
    type Anchor = F;
}

impl<I: Isa, T: IntegerLanes<I>, F: IntegerFormula<2>> LaneFormula<I, T, 2> for Divides<'_, F> {
    const OUTPUT_SIZE: usize = size_of::<T>();
    const STREAMS: bool = <Integers<F> as LaneFormula<I, T, 2>>::STREAMS;

    #[inline(always)]
    unsafe fn apply(self, args: [T::Vector; 2], to: *mut u8, count: usize) {
        let Divides(formula, by_zero) = self;
        // Lanes past `count` hold zeros and are left out.
        let inside = <<T::Vector as Vector>::Mask as Mask>::first(count);
        if (args[1].eq(T::Vector::zero()) & inside).any() {
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
    ($wrapper:ident, $formula:ident, $lanes:ident; $($with_arguments_as:ident)?) => {
        #[derive(Clone, Copy)]
        pub(super) struct $wrapper<F>(pub(super) F);

        impl<F> CodegenAnchor for $wrapper<F> {
            type Anchor = F;
        }

        impl<I: Isa, T: $lanes<I>, F: $formula<N>, const N: usize> LaneFormula<I, T, N> for $wrapper<F> {
            const OUTPUT_SIZE: usize = size_of::<bool>();
            const STREAMS: bool =
                I::HAS_NON_TEMPORAL_STORES && T::Vector::LANES >= CACHE_LINE / 2 && N <= MAX_STREAMING_INPUTS;

            $(prepared!($with_arguments_as);)?

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

store_masks!(Compares, Comparison, Lanes; with_arguments_as);
store_masks!(OrderedCompares, OrderedComparison, OrderedLanes; with_arguments_as);
store_masks!(FloatCompares, FloatComparison, FloatLanes; with_arguments_as);
store_masks!(ComplexCompares, ComplexComparison, ComplexLanes;);

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

impl<T, F: CodegenAnchor, const N: usize> CodegenAnchor for RowKernel<'_, T, F, N> {
    type Anchor = F::Anchor;
}

impl<I: Isa, T: Lanes<I>, F: LaneFormula<I, T, N>, const N: usize> Kernel<I> for RowKernel<'_, T, F, N> {
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "closures are not inlined into the shim reliably; plain loops are"
    )]
    unsafe fn run(self) {
        let RowKernel { rows, formula, .. } = self;
        let formula = formula.prepared();
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

/// Memory for one vector, aligned to a cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct VectorBuf<V: Copy>(MaybeUninit<V>);

impl<V: Copy> VectorBuf<V> {
    pub(super) const EMPTY: Self = Self(MaybeUninit::uninit());
}

/// Loads a byte from the middle of a vector that fills a cache line: AMD's hardware prefetcher runs further ahead where two loads read
/// each cache line.
///
/// # Safety
/// - `vector` is valid for reading a vector.
#[inline(always)]
pub(super) unsafe fn touch_second_half<I: Isa, T: Lanes<I>>(vector: *const u8) {
    if T::Vector::LANES * size_of::<T>() == CACHE_LINE {
        // SAFETY: inside the vector.
        unsafe { vector.add(CACHE_LINE / 2).read_volatile() };
    }
}

/// One of the rows, from `from` to `to`.
///
/// The formula is inlined here once, for whole vectors and for the last elements: it is most of the machine code of a kernel, and
/// there are thousands of kernels. So the last elements are copied to whole vectors on the stack, and the loop runs once more for
/// them, so that it needs no count of lanes. With [non-temporal stores](LaneFormula::STREAMS) each vector of results is written by one
/// right away, so that memory is busy while the next vector is computed.
///
/// # Safety
/// - Dense arguments are valid for reading `n` elements of `T`, repeated ones for one; `to` for writing `n` results. If it
///   `streams`, `to` begins at a cache line.
#[inline(always)]
unsafe fn row<I, T, F, const N: usize>(rows: &Rows<N>, mut to: *mut u8, mut from: [*const u8; N], formula: F)
where
    I: Isa,
    T: Lanes<I>,
    F: LaneFormula<I, T, N>,
{
    const { assert!(T::Vector::LANES * size_of::<T>() <= size_of::<VectorBuf<T::Vector>>()) };
    const { assert!(T::Vector::LANES * F::OUTPUT_SIZE <= size_of::<VectorBuf<T::Vector>>()) };
    let Rows { repeated, n, streams, prefetch, .. } = *rows;
    let lanes = T::Vector::LANES;
    let (mut streams, prefetches) = (streams && F::STREAMS, prefetch != [0; N]);
    let mut full = [VectorBuf::<T::Vector>::EMPTY; N];
    let mut last = VectorBuf::<T::Vector>::EMPTY;
    let mut step = [lanes * size_of::<T>(); N];
    let (mut whole, rest, mut count) = (n / lanes, n % lanes, lanes);
    let end = to.wrapping_add((n - rest) * F::OUTPUT_SIZE);
    // SAFETY: reads and writes stay below `n`, by the conditions above, or in vectors of the stack. A repeated argument is read
    // from a vector full of it, which the loop does not step past.
    unsafe {
        for i in 0..N {
            if repeated[i] {
                let full = (&raw mut full[i]).cast::<T>();
                T::store(T::Vector::splat(T::load_one(from[i].cast()).widen()), full);
                (from[i], step[i]) = (full.cast_const().cast(), 0);
            }
        }
        loop {
            for _ in 0..whole {
                let mut args = [T::Vector::zero(); N];
                for i in 0..N {
                    // One branch inside the other: the compiler unswitches two separate ones, a loop for each, only for small formulas.
                    if streams {
                        I::prefetch(from[i].wrapping_add(prefetch[i]));
                        touch_second_half::<I, T>(from[i]);
                    } else if prefetches {
                        I::prefetch_l2(from[i].wrapping_add(prefetch[i]));
                        touch_second_half::<I, T>(from[i]);
                    }
                    args[i] = T::load(from[i].cast());
                    from[i] = from[i].wrapping_add(step[i]);
                }
                let mut results = VectorBuf::<T::Vector>::EMPTY;
                formula.apply(args, if streams { (&raw mut results).cast() } else { to }, count);
                if streams && lanes * F::OUTPUT_SIZE == CACHE_LINE {
                    I::stream_cache_line((&raw const results).cast(), to);
                } else if streams {
                    I::stream_half_cache_line((&raw const results).cast(), to);
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
                    let full = (&raw mut full[i]).cast::<T>();
                    T::store(T::load_partial(from[i].cast(), rest), full);
                    from[i] = full.cast_const().cast();
                }
            }
            to = (&raw mut last).cast();
            (whole, count, streams) = (1, rest, false);
        }
    }
}

/// [`dispatch_rows`] for a floating point formula.
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
