//! Reductions over dimensions on both sides of a kept one: the outer ones first, row by row in the order of memory, into accumulators for
//! each element of the inner ones, which are combined then. Read output by output, the short inner rows would be gathered one by one.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::accumulator::{Accumulator, Words};
use super::any_fold::{AnyFold, fold_strip};
use super::fold::RowFold;
use super::inner;
use super::outer;
use super::source::Source;
use super::strips::{BlockShape, SHORT, Strip, StripResults};
use crate::scratch;
use crate::tensor_iterator::Reduction;
use flambeau_core::{Result, ScalarType};

/// Elements of the inner dimensions from which on gathering them as rows costs little.
const LONG: usize = 64;
/// How many elements of the outer dimensions pay for a second stage.
const MIN_OUTER: usize = 8;
/// The largest scratch memory of the accumulators, in bytes.
const MAX_BYTES: usize = 1 << 24;
/// How many accumulators are combined by one call.
const AT_ONCE: usize = 64;

/// The two stages of a reduction; `None` where one is faster.
pub(super) fn split(reduction: &Reduction, kernel: ScalarType) -> Option<[Reduction; 2]> {
    if reduction.count() <= SHORT {
        return None;
    }
    let splits = 1..reduction.reduced.len();
    let numel = |range: std::ops::Range<usize>| {
        reduction.reduced[range].iter().fold(1, |numel: usize, dim| numel.saturating_mul(dim.size as usize))
    };
    let count = reduction.reduced.len();
    let inner = splits.rev().find(|&inner| numel(0..inner) < LONG && numel(inner..count) >= MIN_OUTER)?;
    let stages = reduction.split(inner, kernel);
    let bytes = stages[0].outputs().saturating_mul(kernel.size());
    (bytes <= MAX_BYTES && outer::suits_fold(&stages[0])).then_some(stages)
}

/// Folds the first stage into scratch memory, and that into `to`.
///
/// # Errors
/// `NotImplemented` for a type without storage.
pub(super) fn fold(
    [first, second]: &[Reduction; 2],
    source: Source,
    to: *mut u8,
    kernel: ScalarType,
    fold: &dyn AnyFold,
) -> Result<()> {
    let words = (first.outputs() * kernel.size()).div_ceil(size_of::<Words>());
    let mut accumulators = scratch::filled([0u64; 2], words);
    let memory: *mut u8 = accumulators.as_mut_ptr().cast();
    outer::fold_outer(first, source, &[memory], &[&Unfinished { fold, size: kernel.size() }]);
    let source = Source::of_accumulators(memory, kernel)?;
    inner::fold_inner(second, source, [to], [kernel.size()], Combining { fold, size: kernel.size() });
    Ok(())
}

/// A fold that writes its accumulators, of `size` bytes, in place of results.
struct Unfinished<'f> {
    fold: &'f dyn AnyFold,
    size: usize,
}

impl AnyFold for Unfinished<'_> {
    fn identity(&self) -> Accumulator {
        self.fold.identity()
    }

    fn dtype(&self) -> ScalarType {
        self.fold.dtype()
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
        // SAFETY: this function's conditions.
        unsafe { self.fold.fold_rows(memory, from, n, row_stride, to, count) }
    }

    fn combine(&self, a: Accumulator, b: Accumulator) -> Accumulator {
        self.fold.combine(a, b)
    }

    unsafe fn accumulate_rows(&self, rows: &[*const u8], to: *mut u8, n: usize, accumulators: bool) {
        // SAFETY: this function's conditions.
        unsafe { self.fold.accumulate_rows(rows, to, n, accumulators) }
    }

    unsafe fn accumulate_blocks(
        &self,
        from: *const u8,
        shape: BlockShape,
        to: *mut u8,
        count: usize,
        steps: [isize; 2],
    ) {
        // SAFETY: this function's conditions.
        unsafe { self.fold.accumulate_blocks(from, shape, to, count, steps) }
    }

    unsafe fn write(&self, from: *const u8, n: usize, to: *mut u8, stride: isize) {
        for i in 0..n {
            // SAFETY: `from` holds `n` accumulators, and each address takes one; they may be the same.
            unsafe {
                let (from, to) = (from.add(i * self.size), to.wrapping_offset(i as isize * stride));
                from.copy_to(to, self.size);
            }
        }
    }
}

/// The rows of accumulators are combined, and their results written.
#[derive(Clone, Copy)]
struct Combining<'f> {
    fold: &'f dyn AnyFold,
    size: usize,
}

impl RowFold<1> for Combining<'_> {
    type State = Accumulator;

    fn empty(self) -> Accumulator {
        self.fold.identity()
    }

    unsafe fn block(self, from: *const u8, n: usize, _: usize) -> Accumulator {
        let mut state = self.fold.identity();
        let mut addresses = [from; AT_ONCE];
        for first in (0..n).step_by(AT_ONCE) {
            let count = AT_ONCE.min(n - first);
            for (i, address) in addresses[..count].iter_mut().enumerate() {
                *address = from.wrapping_add((first + i) * self.size);
            }
            // SAFETY: this function's condition: each address is that of one accumulator.
            unsafe { self.fold.accumulate_rows(&addresses[..count], state.as_mut_ptr(), 1, true) };
        }
        state
    }

    unsafe fn strip(self, strip: Strip, results: &StripResults<1>) {
        // SAFETY: this function's conditions.
        unsafe { fold_strip(self.fold, strip, results, self.size, true) }
    }

    fn combine(self, a: Accumulator, b: Accumulator) -> Accumulator {
        self.fold.combine(a, b)
    }

    unsafe fn write(self, state: Accumulator, to: [*mut u8; 1]) {
        // SAFETY: `to` takes one result.
        unsafe { self.fold.write(state.as_ptr(), 1, to[0], 0) }
    }
}
