//! The kernels that fold rows into a row of accumulators, a column in each lane.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::blocks::LaneFold;
use super::strips::BlockShape;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, Lanes, Vector};
use std::marker::PhantomData;

/// Folds rows into a row of accumulators; or combines one row of accumulators with another.
pub(crate) struct AccumulateRows<T, F> {
    pub(super) rows: *const *const u8,
    pub(super) count: usize,
    pub(super) to: *mut T,
    pub(super) n: usize,
    pub(super) accumulators: bool,
    pub(super) lanes: F,
    pub(super) element: PhantomData<T>,
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
    pub(super) from: *const T,
    pub(super) shape: BlockShape,
    pub(super) to: *mut T,
    pub(super) count: usize,
    /// Bytes from one block to the next, and from one row of accumulators.
    pub(super) steps: [isize; 2],
    pub(super) lanes: F,
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
pub(super) unsafe fn step_rows<I: Isa, T: Lanes<I>, F: LaneFold<I, T>, const ROWS: usize>(
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
