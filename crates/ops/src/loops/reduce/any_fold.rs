//! A type-erased fold, without its formula and the type of its elements, so that the loops over dimensions are compiled once for all
//! folds and types.
#![expect(unsafe_code, reason = "declares folds of raw elements")]

use super::accumulator::Accumulator;
use super::fold::{DenseRows, RowFold, computing_type};
use super::strips::{BlockShape, MAX_PACKED, STRIP, Strip, StripResults};
use flambeau_core::ScalarType;

/// A fold with its kernels. Accumulators and elements are of one type, which only the fold knows.
pub(super) trait AnyFold: Sync {
    /// The identity element.
    fn identity(&self) -> Accumulator;

    /// The type of accumulators and elements.
    fn dtype(&self) -> ScalarType;

    /// Whether [`fold_rows`](Self::fold_rows) takes elements of type `memory`: those of another type are converted in registers.
    fn reads(&self, memory: ScalarType) -> bool {
        computing_type(memory) == self.dtype()
    }

    /// Folds each of `count` rows of `n` dense elements of type `memory`, at most a [`CHUNK`](super::fold::CHUNK), into adjacent accumulators
    /// at `to`; rows begin `row_stride` bytes from each other.
    ///
    /// # Safety
    /// - The rows are valid for reading, and `to` for writing. The fold [reads](Self::reads) the type.
    unsafe fn fold_rows(
        &self,
        memory: ScalarType,
        from: *const u8,
        n: usize,
        row_stride: isize,
        to: *mut u8,
        count: usize,
    );

    /// The fold of `n` dense elements of type `memory`, at most a [`CHUNK`](super::fold::CHUNK).
    ///
    /// # Safety
    /// - `from` is valid for reading them. The fold [reads](Self::reads) the type.
    #[inline]
    unsafe fn block(&self, memory: ScalarType, from: *const u8, n: usize) -> Accumulator {
        let mut state = self.identity();
        // SAFETY: this function's condition; an accumulator takes any element.
        unsafe { self.fold_rows(memory, from, n, 0, state.as_mut_ptr(), 1) };
        state
    }

    /// Two accumulators combined, the first for earlier elements.
    fn combine(&self, a: Accumulator, b: Accumulator) -> Accumulator;

    /// Folds each of `n` columns of `rows` into its accumulator at `to`; `accumulators` says that the rows are accumulators too.
    ///
    /// # Safety
    /// - The rows are valid for reading `n` elements, and `to` for writing them.
    unsafe fn accumulate_rows(&self, rows: &[*const u8], to: *mut u8, n: usize, accumulators: bool);

    /// Folds the rows of each of `count` blocks into a row of accumulators; blocks and rows of accumulators begin `steps` bytes apart.
    ///
    /// # Safety
    /// - The blocks are valid for reading, and `to` for writing.
    unsafe fn accumulate_blocks(
        &self,
        from: *const u8,
        shape: BlockShape,
        to: *mut u8,
        count: usize,
        steps: [isize; 2],
    );

    /// Writes the results of `n` dense accumulators `stride` bytes apart.
    ///
    /// # Safety
    /// - `from` is valid for reading them, and `to` for writing.
    unsafe fn write(&self, from: *const u8, n: usize, to: *mut u8, stride: isize);
}

impl RowFold<1> for &dyn AnyFold {
    type State = Accumulator;

    fn empty(self) -> Accumulator {
        self.identity()
    }

    unsafe fn block(self, from: *const u8, n: usize, _: usize) -> Accumulator {
        // SAFETY: this function's condition.
        unsafe { AnyFold::block(self, self.dtype(), from, n) }
    }

    unsafe fn run(self, from: *const u8, n: usize, _: usize, _: usize) -> Accumulator {
        // SAFETY: this function's condition: the kernel takes any number of blocks.
        unsafe { AnyFold::block(self, self.dtype(), from, n) }
    }

    fn reads(self, memory: ScalarType, _: ScalarType) -> bool {
        AnyFold::reads(self, memory)
    }

    fn folds_packed(self, n: usize) -> bool {
        (2..=MAX_PACKED).contains(&n)
    }

    unsafe fn in_memory(
        self,
        memory: ScalarType,
        from: *const u8,
        n: usize,
        _: usize,
        _: usize,
    ) -> Accumulator {
        // SAFETY: this function's conditions: the kernel takes any number of blocks.
        unsafe { AnyFold::block(self, memory, from, n) }
    }

    unsafe fn strip(self, strip: Strip, results: &StripResults<1>) {
        // SAFETY: this function's conditions.
        unsafe { fold_strip(self, strip, results, results.size(), false) }
    }

    unsafe fn rows(self, rows: DenseRows<1>) {
        let DenseRows { memory, from, n, row_stride, to: [to], strides: [stride], count, .. } = rows;
        // SAFETY: this function's conditions.
        unsafe {
            if stride != self.dtype().size() as isize {
                return rows.each(self);
            }
            AnyFold::fold_rows(self, memory, from, n, row_stride, to, count);
            AnyFold::write(self, to, count, to, stride);
        }
    }

    fn combine(self, a: Accumulator, b: Accumulator) -> Accumulator {
        AnyFold::combine(self, a, b)
    }

    unsafe fn write(self, state: Accumulator, to: [*mut u8; 1]) {
        // SAFETY: `to` takes one element, which is in the state.
        unsafe { AnyFold::write(self, state.as_ptr(), 1, to[0], 0) }
    }
}

/// Folds the rows of a strip of elements of `size` bytes, or combines those of accumulators, and writes the results.
///
/// # Safety
/// - As for [`RowFold::strip`].
pub(super) unsafe fn fold_strip(
    fold: &dyn AnyFold,
    strip: Strip,
    results: &StripResults<1>,
    size: usize,
    accumulators: bool,
) {
    const { assert!(STRIP.is_multiple_of(2)) };
    // SAFETY: accumulators are of this size, at most eight bytes, since they are elements of a strip.
    let mut row = [unsafe { fold.identity().repeated(size) }; STRIP / 2];
    let to: *mut u8 = row.as_mut_ptr().cast();
    let addresses = strip.addresses(size);
    // SAFETY: the row takes `count` accumulators, and the strip holds as many elements at each address.
    unsafe {
        fold.accumulate_rows(&addresses[..strip.n], to, strip.count, accumulators);
        if results.are_adjacent {
            let [first] = results.of_row(0);
            return fold.write(to, strip.count, first, size as isize);
        }
        for row in 0..strip.count {
            let [result] = results.of_row(row);
            fold.write(to.add(row * size), 1, result, 0);
        }
    }
}
