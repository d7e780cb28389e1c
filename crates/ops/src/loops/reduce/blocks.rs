//! The vector kernels of a fold: dense rows into one accumulator each, and rows into a row of accumulators.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::accumulator::Accumulator;
use super::any_fold::AnyFold;
use super::fold::{BLOCK, CHUNK, Epilogue, FloatFold, NumberFold, OrderedFold};
use super::strips::{BlockShape, MAX_PACKED, STRIP};
use crate::loops::prefetch::Prefetch;
use crate::loops::rows::touch_second_half;
use crate::loops::transposed::few_columns;
use crate::vectorized::{
    CodegenAnchor, Convert, EveryIsa, FloatLanes, Isa, Kernel, Lanes, Mask, Number, OrderedLanes, Vector,
    dispatch, load_one, with_processor_vectors,
};
use flambeau_core::{Element, Scalar, ScalarType};
use half::{bf16, f16};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A fold on vectors of an instruction set.
pub(crate) trait LaneFold<I: Isa, T: Lanes<I>>: Copy + CodegenAnchor {
    fn identity(self) -> T::Vector;
    fn step(self, acc: T::Vector, x: T::Vector) -> T::Vector;
    fn combine(self, a: T::Vector, b: T::Vector) -> T::Vector;
}

macro_rules! lane_fold {
    ($wrapper:ident, $fold:ident, $lanes:ident) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $wrapper<F>(pub(crate) F);

        impl<F> CodegenAnchor for $wrapper<F> {
            type Anchor = F;
        }

        impl<I: Isa, T: $lanes<I>, F: $fold> LaneFold<I, T> for $wrapper<F> {
            #[inline(always)]
            fn identity(self) -> T::Vector {
                T::Vector::scalar(self.0.identity())
            }
            #[inline(always)]
            fn step(self, acc: T::Vector, x: T::Vector) -> T::Vector {
                self.0.step(acc, x)
            }
            #[inline(always)]
            fn combine(self, a: T::Vector, b: T::Vector) -> T::Vector {
                self.0.combine(a, b)
            }
        }
    };
}

lane_fold!(Numbers, NumberFold, Lanes);
lane_fold!(OrderedNumbers, OrderedFold, OrderedLanes);
lane_fold!(Floats, FloatFold, FloatLanes);

/// A fold of elements of `T` with its epilogue.
#[derive(Clone, Copy)]
pub(crate) struct Folding<T, F> {
    lanes: F,
    epilogue: Epilogue,
    identity: T,
    prefetch: Prefetch,
}

impl<T: Element, F> Folding<T, F> {
    pub(super) fn new(lanes: F, epilogue: Epilogue, identity: Scalar, prefetch: Prefetch) -> Self {
        Folding { lanes, epilogue, identity: T::from_scalar(identity), prefetch }
    }
}

impl<T, F: Copy> Folding<T, F> {
    /// The kernel for a single row of `n` elements of `S`, in memory or as accumulators.
    fn one_row<S>(&self, from: *const u8, n: usize, to: *mut u8) -> FoldEachRow<S, F> {
        FoldEachRow {
            from: from.cast(),
            n,
            row_stride: 0,
            to,
            count: 1,
            pairs: false,
            prefetch: self.prefetch,
            lanes: self.lanes,
        }
    }
}

/// Replaces each of `n` dense elements by a function of it in f64. The results go where the elements were, so that the compiler sees that
/// none is read later, and makes the loop one of vectors.
///
/// # Safety
/// - They are this thread's to write.
#[inline]
unsafe fn map_in_place<T: Element + Convert>(elements: *mut T, n: usize, f: impl Fn(f64) -> f64) {
    with_processor_vectors(
        #[inline(always)]
        move || {
            for i in 0..n {
                // SAFETY: this function's condition.
                unsafe {
                    let at = elements.add(i);
                    let result = f(load_one(at).to_scalar().to_f64());
                    at.write_unaligned(T::from_scalar(Scalar::Float(result)));
                }
            }
        },
    );
}

/// Divides each of `n` dense numbers. This is [`map_in_place`] by the quotient in f64, which has more than twice as many bits: rounded twice
/// a quotient of f32 is the same (Figueroa, *When is double rounding innocuous?*, 1995).
///
/// # Safety
/// - They are this thread's to write.
unsafe fn divide_in_place(numbers: *mut f32, n: usize, by: f32) {
    with_processor_vectors(
        #[inline(always)]
        move || {
            for i in 0..n {
                // SAFETY: this function's condition.
                unsafe {
                    let at = numbers.add(i);
                    at.write_unaligned(load_one(at) / by);
                }
            }
        },
    );
}

impl<T: Element + Convert, F> Folding<T, F> {
    /// Applies the epilogue to `n` dense accumulators, in place.
    ///
    /// # Safety
    /// - They are this thread's to write.
    unsafe fn finish(&self, accumulators: *mut T, n: usize) {
        // SAFETY: this function's condition.
        unsafe {
            match self.epilogue {
                Epilogue::Identity => {}
                Epilogue::Divide(by) if T::SCALAR_TYPE == ScalarType::F32 && f64::from(by as f32) == by => {
                    divide_in_place(accumulators.cast(), n, by as f32);
                }
                Epilogue::Divide(by) => map_in_place(
                    accumulators,
                    n,
                    #[inline(always)]
                    move |x| x / by,
                ),
                Epilogue::Power(p) => map_in_place(
                    accumulators,
                    n,
                    #[inline(always)]
                    move |x| x.powf(p),
                ),
                Epilogue::Sqrt => map_in_place(accumulators, n, f64::sqrt),
            }
        }
    }
}

impl<T, F> AnyFold for Folding<T, F>
where
    T: Element + Convert,
    F: Copy + Send + Sync,
    FoldEachRow<T, F>: EveryIsa,
    FoldEachRow<f16, F>: EveryIsa,
    FoldEachRow<bf16, F>: EveryIsa,
    AccumulateRows<T, F>: EveryIsa,
    AccumulateBlocks<T, F>: EveryIsa,
{
    fn identity(&self) -> Accumulator {
        Accumulator::of(self.identity)
    }

    fn dtype(&self) -> ScalarType {
        T::SCALAR_TYPE
    }

    unsafe fn fold_rows(
        &self,
        memory: ScalarType,
        from: *const u8,
        n: usize,
        row_stride: isize,
        to: *mut u8,
        count: usize,
    ) {
        // SAFETY: the rows hold `n` elements each of the type in memory, and `to` takes an accumulator for each.
        unsafe {
            match memory {
                ScalarType::F16 => {
                    dispatch(FoldEachRow { row_stride, count, ..self.one_row::<f16>(from, n, to) });
                }
                ScalarType::BF16 => {
                    dispatch(FoldEachRow { row_stride, count, ..self.one_row::<bf16>(from, n, to) });
                }
                _ => dispatch(FoldEachRow { row_stride, count, ..self.one_row::<T>(from, n, to) }),
            }
        }
    }

    fn combine(&self, a: Accumulator, b: Accumulator) -> Accumulator {
        // SAFETY: accumulators of this fold hold elements of `T`.
        unsafe {
            let pair = [a, b].map(|acc| load_one(acc.as_ptr().cast::<T>()));
            let (from, mut result) = (pair.as_ptr().cast(), self.identity);
            let to = (&raw mut result).cast();
            dispatch(FoldEachRow { pairs: true, ..self.one_row::<T>(from, 2, to) });
            Accumulator::of(result)
        }
    }

    unsafe fn accumulate_rows(&self, rows: &[*const u8], to: *mut u8, n: usize, accumulators: bool) {
        let (rows, count, to) = (rows.as_ptr(), rows.len(), to.cast::<T>());
        // SAFETY: the rows and `to` hold `n` elements.
        unsafe {
            dispatch(AccumulateRows {
                rows,
                count,
                to,
                n,
                accumulators,
                lanes: self.lanes,
                element: PhantomData,
            })
        }
    }

    unsafe fn accumulate_blocks(
        &self,
        from: *const u8,
        shape: BlockShape,
        to: *mut u8,
        count: usize,
        steps: [isize; 2],
    ) {
        let lanes = self.lanes;
        // SAFETY: the blocks and `to` hold the shape's elements.
        unsafe {
            dispatch(AccumulateBlocks::<T, F> {
                from: from.cast(),
                shape,
                to: to.cast(),
                count,
                steps,
                lanes,
            })
        }
    }

    unsafe fn write(&self, from: *const u8, n: usize, to: *mut u8, stride: isize) {
        // SAFETY: `from` holds `n` accumulators, and each address takes a result.
        unsafe {
            if stride == size_of::<T>() as isize {
                if from != to.cast_const() {
                    from.copy_to(to, n * size_of::<T>());
                }
                return self.finish(to.cast(), n);
            }
            for i in 0..n {
                let value = load_one(from.cast::<T>().add(i));
                to.offset(i as isize * stride).cast::<T>().write_unaligned(self.epilogue.apply(value));
            }
        }
    }
}

/// Folds `n` dense elements with a [`NumberFold`].
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn fold_dense<T: Element + Convert, F: NumberFold>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    fold: F,
) -> T
where
    FoldKernel<T, Numbers<F>>: EveryIsa<T>,
{
    // SAFETY: this function's condition.
    unsafe { dispatch(FoldKernel { from, n, prefetch, lanes: Numbers(fold) }) }
}

/// Folds `n` dense elements with an [`OrderedFold`].
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn fold_dense_ordered<T: Element + Convert, F: OrderedFold>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    fold: F,
) -> T
where
    FoldKernel<T, OrderedNumbers<F>>: EveryIsa<T>,
{
    // SAFETY: this function's condition.
    unsafe { dispatch(FoldKernel { from, n, prefetch, lanes: OrderedNumbers(fold) }) }
}

/// Folds `n` dense elements with a [`FloatFold`].
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn fold_dense_floats<T: Element + Convert, F: FloatFold>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    fold: F,
) -> T
where
    FoldKernel<T, Floats<F>>: EveryIsa<T>,
{
    // SAFETY: this function's condition.
    unsafe { dispatch(FoldKernel { from, n, prefetch, lanes: Floats(fold) }) }
}

/// Folds `n` elements.
pub(crate) struct FoldKernel<T, F> {
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    lanes: F,
}

impl<T, F: CodegenAnchor> CodegenAnchor for FoldKernel<T, F> {
    type Anchor = F::Anchor;
}

impl<I: Isa, T: Lanes<I>, F: LaneFold<I, T>> Kernel<I, T> for FoldKernel<T, F> {
    #[inline(always)]
    unsafe fn run(self) -> T {
        // SAFETY: `from` holds `n` elements.
        first_lane::<I, T>(unsafe { fold_lanes::<I, T, F>(self.from, self.n, self.prefetch, self.lanes) })
    }
}

/// Folds each of `count` rows of `n` elements, `row_stride` bytes from one to the next, into adjacent accumulators, which are elements of
/// the vectors of `T`; or, with `pairs`, combines two accumulators.
///
/// All rows are folded by one call, so that the processor loads the next row while it combines the lanes of this one.
pub(crate) struct FoldEachRow<T, F> {
    from: *const T,
    n: usize,
    row_stride: isize,
    to: *mut u8,
    count: usize,
    pairs: bool,
    prefetch: Prefetch,
    lanes: F,
}

impl<T, F: CodegenAnchor> CodegenAnchor for FoldEachRow<T, F> {
    type Anchor = F::Anchor;
}

/// An accumulator of a fold of elements of `T`.
type LaneOf<I, T> = <<T as Lanes<I>>::Vector as Vector>::Element;

impl<I: Isa, T: Lanes<I>, F: LaneFold<I, T>> Kernel<I> for FoldEachRow<T, F> {
    #[inline(always)]
    unsafe fn run(self) {
        let is_adjacent = self.row_stride == (self.n * size_of::<T>()) as isize;
        let is_packed = !self.pairs && self.count > 1 && is_adjacent && (2..=MAX_PACKED).contains(&self.n);
        // SAFETY: this kernel's conditions.
        unsafe {
            if !(is_packed && fold_packed::<I, T, F>(&self)) {
                fold_each::<I, T, F>(&self);
            }
        }
    }
}

/// Folds row after row.
///
/// # Safety
/// - Each row holds `n` elements, and `to` takes an accumulator for each.
#[inline(always)]
unsafe fn fold_each<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(work: &FoldEachRow<T, F>) {
    for row in 0..work.count {
        let from = work.from.wrapping_byte_offset(row as isize * work.row_stride);
        // SAFETY: this function's condition.
        unsafe {
            let acc = if work.pairs {
                let [a, b] = [0, 1].map(|i| T::Vector::splat(T::load_one(from.add(i)).widen()));
                work.lanes.combine(a, b)
            } else {
                fold_lanes::<I, T, F>(from, work.n, work.prefetch, work.lanes)
            };
            let result = lanes_of(acc)[0].assume_init();
            work.to.cast::<LaneOf<I, T>>().add(row).write_unaligned(result);
        }
    }
}

/// Folds rows of few elements that follow one another in memory, each in a lane of its own; `false` where their elements cannot be
/// transposed.
///
/// # Safety
/// - As for [`fold_each`].
#[inline(always)]
unsafe fn fold_packed<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(work: &FoldEachRow<T, F>) -> bool {
    let (n, lanes) = (work.n, T::Vector::LANES);
    let mut tile = [const { MaybeUninit::<u64>::uninit() }; MAX_PACKED * STRIP];
    let tile = tile.as_mut_ptr().cast::<T>();
    for first in (0..work.count).step_by(STRIP) {
        let count = STRIP.min(work.count - first);
        let from = work.from.wrapping_add(first * n).cast();
        // SAFETY: this function's condition; the tile's columns hold whole vectors of elements, or zeros.
        unsafe {
            if !few_columns(from, [count, n], size_of::<T>(), tile.cast()) {
                return false;
            }
            let whole = count.next_multiple_of(lanes);
            let to = work.to.cast::<LaneOf<I, T>>().add(first);
            if count < whole {
                for i in 0..n {
                    tile.add(i * STRIP + count).write_bytes(0, whole - count);
                }
            }
            let full = count / lanes * lanes;
            for row in (0..full).step_by(lanes) {
                fold_columns::<I, T, F>(work.lanes, tile.add(row), n).store(to.add(row));
            }
            // Not in the loop, for which the compiler would have the accumulators of integers in memory.
            if full < count {
                let last = fold_columns::<I, T, F>(work.lanes, tile.add(full), n);
                last.store_partial(to.add(full), count - full);
            }
        }
    }
    true
}

/// The folds of a vector of columns of `n` elements, which are [`STRIP`] elements from each other.
///
/// # Safety
/// - They are readable.
#[inline(always)]
unsafe fn fold_columns<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(f: F, from: *const T, n: usize) -> T::Vector {
    let mut acc = f.identity();
    for i in 0..n {
        // SAFETY: this function's condition.
        acc = f.step(acc, unsafe { T::load(from.add(i * STRIP)) });
    }
    acc
}

/// Levels of the tree of blocks in one call: a [`CHUNK`] holds 16 blocks.
const LEVELS: usize = 5;

/// The fold of `n` elements, at most a [`CHUNK`], in lane 0.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline(always)]
pub(super) unsafe fn fold_lanes<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    f: F,
) -> T::Vector {
    debug_assert!(n <= CHUNK);
    // SAFETY: each block lies within the `n` elements.
    unsafe {
        let mut all = fold_block::<I, T, F>(from, n.min(BLOCK), prefetch, f);
        if n > BLOCK {
            // Whole vectors are combined as the carries of a binary counter: `partials[level]` of 2^level blocks.
            let mut partials = [all; LEVELS];
            let blocks = n.div_ceil(BLOCK);
            for number in 1..blocks {
                let start = number * BLOCK;
                let mut part = fold_block::<I, T, F>(from.add(start), BLOCK.min(n - start), prefetch, f);
                let mut level = 0;
                while number >> level & 1 == 1 {
                    part = f.combine(partials[level], part);
                    level += 1;
                }
                partials[level.min(LEVELS - 1)] = part;
            }
            let last = (blocks.trailing_zeros() as usize).min(LEVELS - 1);
            all = partials[last];
            for (level, partial) in partials.iter().enumerate().skip(last + 1) {
                if blocks >> level & 1 == 1 {
                    all = f.combine(*partial, all);
                }
            }
        }
        let mut width = T::Vector::LANES;
        while width > 1 {
            width /= 2;
            all = f.combine(all, upper(all, width));
        }
        all
    }
}

/// The fold of a block, as a vector whose lanes are to be combined.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline(always)]
pub(super) unsafe fn fold_block<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    f: F,
) -> T::Vector {
    let lanes = T::Vector::LANES;
    let identity = f.identity();
    let mut acc = [identity; 4];
    let mut at = 0;
    // SAFETY: whole vectors end at or before `n`, and the last one is read only up to it.
    unsafe {
        while at + 4 * lanes <= n {
            for (i, acc) in acc.iter_mut().enumerate() {
                let from = from.add(at + i * lanes);
                let later = from.cast::<u8>().wrapping_add(prefetch.distance);
                if prefetch.by_halves {
                    if prefetch.distance != 0 {
                        I::prefetch_l2(later);
                    }
                    touch_second_half::<I, T>(from.cast());
                } else if prefetch.distance != 0 {
                    I::prefetch(later);
                }
                *acc = f.step(*acc, T::load(from));
            }
            at += 4 * lanes;
        }
        let mut next = 0;
        while at + lanes <= n {
            acc[next] = f.step(acc[next], T::load(from.add(at)));
            next += 1;
            at += lanes;
        }
        if at < n {
            let x = T::load_partial(from.add(at), n - at);
            let inside = <T::Vector as Vector>::Mask::first(n - at);
            acc[3] = T::Vector::select(inside, f.step(acc[3], x), acc[3]);
        }
    }
    f.combine(f.combine(acc[0], acc[1]), f.combine(acc[2], acc[3]))
}

/// Lanes of the largest vector.
const MOST_LANES: usize = 64;

/// The lanes of a vector, in the first elements of an array. Read one by one they compile to shuffles, where a masked load of what was
/// just stored would stall (Note: store forwarding, in `flambeau_core`).
#[inline(always)]
fn lanes_of<V: Number>(vector: V) -> [MaybeUninit<V::Element>; MOST_LANES] {
    const { assert!(V::LANES <= MOST_LANES) };
    let mut lanes = [const { MaybeUninit::uninit() }; MOST_LANES];
    // SAFETY: the array takes a vector.
    unsafe { vector.store(lanes.as_mut_ptr().cast()) };
    lanes
}

/// Lanes `width..2 * width` moved to the front, the others zero.
#[inline(always)]
fn upper<V: Number>(vector: V, width: usize) -> V {
    let (lanes, mut moved) = (lanes_of(vector), lanes_of(V::zero()));
    moved[..width].copy_from_slice(&lanes[width..2 * width]);
    // SAFETY: they hold a vector.
    unsafe { V::load(moved.as_ptr().cast()) }
}

/// Lane 0 as an element.
#[inline(always)]
pub(super) fn first_lane<I: Isa, T: Lanes<I>>(vector: T::Vector) -> T {
    // SAFETY: a vector has at least one lane.
    T::narrow(unsafe { lanes_of(vector)[0].assume_init() })
}

/// Folds rows into a row of accumulators; or combines one row of accumulators with another.
pub(crate) struct AccumulateRows<T, F> {
    rows: *const *const u8,
    count: usize,
    to: *mut T,
    n: usize,
    accumulators: bool,
    lanes: F,
    element: PhantomData<T>,
}

impl<T, F: CodegenAnchor> CodegenAnchor for AccumulateRows<T, F> {
    type Anchor = F::Anchor;
}

/// How many rows are accumulated in one pass: the hardware prefetcher follows no more sequences of reads at a time.
const ROWS_PER_PASS: usize = 8;

impl<I: Isa, T: Lanes<I>, F: LaneFold<I, T>> Kernel<I> for AccumulateRows<T, F> {
    #[inline(always)]
    unsafe fn run(self) {
        let (f, accumulators) = (self.lanes, self.accumulators);
        // SAFETY: each of the `count` rows and `to` hold `n` elements.
        unsafe {
            passes::<I, T>(
                self.count,
                #[inline(always)]
                |row| (*self.rows.add(row)).cast(),
                self.to,
                self.n,
                #[inline(always)]
                |acc, x| if accumulators { f.combine(acc, x) } else { f.step(acc, x) },
            );
        }
    }
}

/// Accumulates `count` rows of `n` elements at the addresses of `row` into `to`: whole vectors by [`pass`]es, and then the elements that are
/// left.
///
/// # Safety
/// - Each of these rows and `to` hold `n` elements.
#[inline(always)]
unsafe fn passes<I: Isa, T: Lanes<I>>(
    count: usize,
    row: impl Fn(usize) -> *const T + Copy,
    to: *mut T,
    n: usize,
    step: impl Fn(T::Vector, T::Vector) -> T::Vector + Copy,
) {
    let whole = n - n % T::Vector::LANES;
    let mut first = 0;
    // SAFETY: this function's condition.
    unsafe {
        while whole > 0 && first < count {
            first += match count - first {
                ROWS_PER_PASS.. => pass::<I, T, ROWS_PER_PASS>(row, first, to, whole, step),
                4.. => pass::<I, T, 4>(row, first, to, whole, step),
                2.. => pass::<I, T, 2>(row, first, to, whole, step),
                _ => pass::<I, T, 1>(row, first, to, whole, step),
            };
        }
        let left = n - whole;
        if left > 0 {
            let to = to.add(whole);
            let mut acc = T::load_partial(to, left);
            for i in 0..count {
                acc = step(acc, T::load_partial(row(i).add(whole), left));
            }
            T::store_partial(acc, to, left);
        }
    }
}

/// Accumulates `ROWS` rows from `first` on, `n` elements in whole vectors, and returns how many rows. There is no loop over the rows, so
/// that integers stay in registers, for which the compiler makes vectors of arrays.
///
/// # Safety
/// - Each of these rows and `to` hold `n` elements.
#[inline(always)]
unsafe fn pass<I: Isa, T: Lanes<I>, const ROWS: usize>(
    row: impl Fn(usize) -> *const T,
    first: usize,
    to: *mut T,
    n: usize,
    step: impl Fn(T::Vector, T::Vector) -> T::Vector,
) -> usize {
    let rows: [*const T; ROWS] = std::array::from_fn(
        #[inline(always)]
        |i| row(first + i),
    );
    for at in (0..n).step_by(T::Vector::LANES) {
        // SAFETY: a vector of columns inside `to` and the rows.
        unsafe {
            let to = to.add(at);
            let mut acc = T::load(to);
            for row in rows {
                acc = step(acc, T::load(row.add(at)));
            }
            T::store(acc, to);
        }
    }
    ROWS
}

/// Folds the rows of each of `count` blocks into a row of accumulators.
pub(crate) struct AccumulateBlocks<T, F> {
    from: *const T,
    shape: BlockShape,
    to: *mut T,
    count: usize,
    /// Bytes from one block to the next, and from one row of accumulators.
    steps: [isize; 2],
    lanes: F,
}

impl<T, F: CodegenAnchor> CodegenAnchor for AccumulateBlocks<T, F> {
    type Anchor = F::Anchor;
}

impl<I: Isa, T: Lanes<I>, F: LaneFold<I, T>> Kernel<I> for AccumulateBlocks<T, F> {
    #[inline(always)]
    unsafe fn run(self) {
        let (lanes, BlockShape { rows, columns, .. }) = (T::Vector::LANES, self.shape);
        let [is_dense, is_result_dense] = self.are_dense();
        for block in 0..self.count {
            let from = self.from.wrapping_byte_offset(block as isize * self.steps[0]);
            let to = self.to.wrapping_byte_offset(block as isize * self.steps[1]);
            // Elements from the last row of this block on, and results from those of this block on, as far as they are dense: whole vectors
            // reach into the next rows, and into results that are written later.
            let elements = if is_dense { ((self.count - block - 1) * rows + 1) * columns } else { columns };
            let results = if is_result_dense { (self.count - block) * columns } else { columns };
            let padded = columns.next_multiple_of(lanes);
            let whole = if padded <= elements { padded } else { columns - columns % lanes };
            // SAFETY: these columns are inside the rows, or in dense memory, and inside the row of accumulators.
            unsafe {
                for at in (0..whole).step_by(lanes) {
                    let acc = self.column::<I>(from.add(at));
                    if at + lanes <= results {
                        T::store(acc, to.add(at));
                    } else {
                        T::store_partial(acc, to.add(at), columns - at);
                    }
                }
                if whole < columns {
                    let left = columns - whole;
                    T::store_partial(self.partial_column::<I>(from.add(whole), left), to.add(whole), left);
                }
            }
        }
    }
}

impl<T, F> AccumulateBlocks<T, F> {
    /// Whether rows and blocks follow one another in memory, and whether rows of accumulators do.
    fn are_dense(&self) -> [bool; 2] {
        let BlockShape { rows, row_stride, columns } = self.shape;
        let row = (columns * size_of::<T>()) as isize;
        [row_stride == row && self.steps[0] == rows as isize * row, self.steps[1] == row]
    }

    /// The fold of a vector of columns of a block, the first of which begins at `from`. Between groups of rows accumulators of integers are
    /// in memory, since the compiler makes vectors of arrays only where there is no loop.
    ///
    /// # Safety
    /// - In each row a vector is readable.
    #[inline(always)]
    unsafe fn column<I: Isa>(&self, from: *const T) -> T::Vector
    where
        T: Lanes<I>,
        F: LaneFold<I, T>,
    {
        let (rows, stride, lanes) = (self.shape.rows, self.shape.row_stride, self.lanes);
        let (mut acc, mut from) = (lanes.identity(), from);
        // SAFETY: by this function's condition.
        unsafe {
            for _ in 0..rows / 4 {
                acc = step_rows::<I, T, F, 4>(acc, from, stride, lanes);
                from = from.wrapping_byte_offset(4 * stride);
            }
            if rows & 2 != 0 {
                acc = step_rows::<I, T, F, 2>(acc, from, stride, lanes);
                from = from.wrapping_byte_offset(2 * stride);
            }
            if rows & 1 != 0 {
                acc = step_rows::<I, T, F, 1>(acc, from, stride, lanes);
            }
        }
        acc
    }

    /// The fold of `count` columns, fewer than a vector.
    ///
    /// # Safety
    /// - In each row as many elements are readable.
    #[inline(always)]
    unsafe fn partial_column<I: Isa>(&self, from: *const T, count: usize) -> T::Vector
    where
        T: Lanes<I>,
        F: LaneFold<I, T>,
    {
        let mut acc = self.lanes.identity();
        for row in 0..self.shape.rows as isize {
            let from = from.wrapping_byte_offset(row * self.shape.row_stride);
            // SAFETY: by this function's condition.
            acc = self.lanes.step(acc, unsafe { T::load_partial(from, count) });
        }
        acc
    }
}

/// Folds a vector of columns of `ROWS` rows, `stride` bytes apart.
///
/// # Safety
/// - In each row a vector is readable.
#[inline(always)]
unsafe fn step_rows<I: Isa, T: Lanes<I>, F: LaneFold<I, T>, const ROWS: usize>(
    mut acc: T::Vector,
    from: *const T,
    stride: isize,
    lanes: F,
) -> T::Vector {
    let rows: [*const T; ROWS] = std::array::from_fn(
        #[inline(always)]
        |row| from.wrapping_byte_offset(row as isize * stride),
    );
    for row in rows {
        // SAFETY: this function's condition.
        acc = lanes.step(acc, unsafe { T::load(row) });
    }
    acc
}
