//! Outer reductions of blocks of few short rows: block after block by one vector kernel, since planning each takes longer than its fold.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::any_fold::AnyFold;
use super::dim_counter::DimCounter;
use super::source::Source;
use super::strips::{BlockShape, Shared};
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Dim, GRAIN, Reduction};

/// The largest number of rows: as many as [`outer`](super::outer) folds before it combines accumulators.
const MAX_ROWS: usize = 64;
/// The largest number of elements of a block.
const MAX_ELEMENTS: usize = 2048;

impl BlockShape {
    /// Those of an outer reduction whose inputs and results can be accessed in memory; `None` where blocks are large.
    pub(super) fn of(reduction: &Reduction, source: &Source) -> Option<Self> {
        let ([columns, _, ..], [rows]) = (&reduction.kept[..], &reduction.reduced[..]) else { return None };
        let is_dense = source.is_direct(columns.input) && columns.output == source.size() as i64;
        let shape = BlockShape {
            rows: rows.size as usize,
            row_stride: rows.input as isize,
            columns: columns.size as usize,
        };
        let is_small = shape.rows <= MAX_ROWS && shape.rows * shape.columns <= MAX_ELEMENTS;
        (is_dense && is_small).then_some(shape)
    }

    /// Folds all blocks into `to`.
    pub(super) fn fold(self, reduction: &Reduction, source: Source, to: *mut u8, fold: &dyn AnyFold) {
        let others: &[Dim] = &reduction.kept[1..];
        let grain = (GRAIN / (self.rows * self.columns).max(1)).max(1);
        let to = Shared(to);
        parallel_for(0..reduction.outputs() / self.columns, grain, |range| {
            let (to, mut counter, mut left) = (&to, DimCounter::new(others, range.start), range.len());
            let steps = others.first().map_or([0, 0], |dim| [dim.input as isize, dim.output as isize]);
            while left > 0 {
                let count = counter.left_in_row().min(left);
                let (from, to) = (source.at(counter.input), to.0.wrapping_offset(counter.output));
                // SAFETY: these blocks are in the input, and their results are this task's to write.
                unsafe {
                    fold.accumulate_blocks(from, self, to, count, steps);
                    self.finish(to, count, steps[1], source.size(), fold);
                }
                counter.advance(count);
                left -= count;
            }
        });
    }

    /// Writes the results of the accumulators of `count` blocks over them.
    ///
    /// # Safety
    /// - `to` holds the accumulators of these blocks, `step` bytes apart.
    unsafe fn finish(self, to: *mut u8, count: usize, step: isize, size: usize, fold: &dyn AnyFold) {
        // SAFETY: this function's condition.
        unsafe {
            if step == (self.columns * size) as isize {
                return fold.write(to, count * self.columns, to, size as isize);
            }
            for block in 0..count as isize {
                let to = to.wrapping_offset(block * step);
                fold.write(to, self.columns, to, size as isize);
            }
        }
    }
}
