//! A fold as the walks know it: without its formula and without the type of its elements, so that they are compiled once for
//! all folds and types.
#![expect(unsafe_code, reason = "declares what a fold promises")]

use super::accumulator::Accumulator;
use super::fold::{DenseRows, RowFold};

/// A fold with its kernels. Accumulators and elements are of one type, which only the fold knows.
pub(super) trait AnyFold: Sync {
    /// What changes nothing.
    fn identity(&self) -> Accumulator;

    /// Folds `count` lines of `n` dense elements, at most a [`CHUNK`](super::fold::CHUNK), into adjacent accumulators at `to`; lines begin
    /// `apart` bytes from each other.
    ///
    /// # Safety
    /// - The lines are valid for reading, and `to` for writing.
    unsafe fn lines(&self, from: *const u8, n: usize, apart: isize, to: *mut u8, count: usize);

    /// The fold of `n` dense elements, at most a [`CHUNK`](super::fold::CHUNK).
    ///
    /// # Safety
    /// - `from` is valid for reading them.
    #[inline]
    unsafe fn block(&self, from: *const u8, n: usize) -> Accumulator {
        let mut state = self.identity();
        // SAFETY: this function's condition; an accumulator takes any element.
        unsafe { self.lines(from, n, 0, state.as_mut_ptr(), 1) };
        state
    }

    /// Of two accumulators, the first for earlier elements.
    fn combine(&self, a: Accumulator, b: Accumulator) -> Accumulator;

    /// Folds `n` columns of `rows` into the accumulators at `to`; `accumulators` tells that the rows are such too.
    ///
    /// # Safety
    /// - The rows are valid for reading `n` elements, and `to` for writing them.
    unsafe fn rows(&self, rows: &[*const u8], to: *mut u8, n: usize, accumulators: bool);

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
        unsafe { AnyFold::block(self, from, n) }
    }

    unsafe fn run(self, from: *const u8, n: usize, _: usize, _: usize) -> Accumulator {
        // SAFETY: this function's condition: the kernel takes any number of blocks.
        unsafe { AnyFold::block(self, from, n) }
    }

    unsafe fn lines(self, lines: DenseRows<1>) {
        let DenseRows { from, n, size, apart, to: [to], strides: [stride], count } = lines;
        // SAFETY: this function's conditions.
        unsafe {
            if stride != size as isize {
                return lines.each(self);
            }
            AnyFold::lines(self, from, n, apart, to, count);
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
