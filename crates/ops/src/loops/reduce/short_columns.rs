//! Outer reductions of blocks of few short rows: block after block by one vector kernel, since planning each takes longer than its fold.
//! Elements of another type are converted in tiles of many blocks.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::accumulator::Words;
use super::any_fold::AnyFold;
use super::dim_counter::DimCounter;
use super::source::Source;
use super::strips::{BlockShape, Shared};
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Dim, GRAIN, Reduction};
use std::mem::MaybeUninit;

/// The largest number of rows: as many as [`outer`](super::outer) folds before it combines accumulators.
const MAX_ROWS: usize = 64;
/// The largest number of elements of a block.
const MAX_ELEMENTS: usize = 2048;

/// Blocks of elements of up to sixteen bytes.
type Tile = [MaybeUninit<Words>; MAX_ELEMENTS];

impl BlockShape {
    /// Those of an outer reduction whose results can be accessed in memory, and whose inputs can be, or are blocks in dense memory one after
    /// another; `None` where blocks are large.
    pub(super) fn of(reduction: &Reduction, source: &Source) -> Option<Self> {
        let ([columns, blocks, ..], [rows]) = (&reduction.kept[..], &reduction.reduced[..]) else {
            return None;
        };
        let is_contiguous = columns.input == source.memory_size() as i64
            && rows.input == columns.size * columns.input
            && blocks.input == rows.size * rows.input;
        let is_dense =
            (source.is_direct(columns.input) || is_contiguous) && columns.output == source.size() as i64;
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
        let direct = reduction.kept.first().is_some_and(|columns| source.is_direct(columns.input));
        let to = Shared(to);
        parallel_for(0..reduction.outputs() / self.columns, grain, |range| {
            let (to, mut counter, mut left) = (&to, DimCounter::new(others, range.start), range.len());
            let steps = others.first().map_or([0, 0], |dim| [dim.input as isize, dim.output as isize]);
            while left > 0 {
                let count = counter.left_in_row().min(left);
                let (from, to) = (source.at(counter.input), to.0.wrapping_offset(counter.output));
                // SAFETY: these blocks are in the input, and their results are this task's to write.
                unsafe {
                    if direct {
                        fold.accumulate_blocks(from, self, to, count, steps);
                    } else {
                        self.convert_and_accumulate(&source, from, to, count, steps[1], fold);
                    }
                    self.finish(to, count, steps[1], source.size(), fold);
                }
                counter.advance(count);
                left -= count;
            }
        });
    }

    /// Folds the rows of each of `count` blocks, which follow one another in memory, into rows of accumulators that begin `step` bytes apart.
    ///
    /// # Safety
    /// - The blocks are in the input, and `to` is valid for writing the accumulators.
    #[inline(never)]
    unsafe fn convert_and_accumulate(
        self,
        source: &Source,
        from: *const u8,
        to: *mut u8,
        count: usize,
        step: isize,
        fold: &dyn AnyFold,
    ) {
        let mut tile: Tile = [MaybeUninit::uninit(); MAX_ELEMENTS];
        let tile: *mut u8 = tile.as_mut_ptr().cast();
        let elements = self.rows * self.columns;
        let in_tile = BlockShape { row_stride: (self.columns * source.size()) as isize, ..self };
        let steps = [(elements * source.size()) as isize, step];
        let at_once = MAX_ELEMENTS / elements;
        for first in (0..count).step_by(at_once) {
            let blocks = at_once.min(count - first);
            let from = from.wrapping_add(first * elements * source.memory_size());
            let to = to.wrapping_offset(first as isize * step);
            // SAFETY: this function's condition; the tile takes these blocks.
            unsafe {
                source.convert(from, tile, blocks * elements);
                fold.accumulate_blocks(tile, in_tile, to, blocks, steps);
            }
        }
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
