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

/// Bytes of blocks that stay in L1 while several folds read them.
const IN_L1: usize = 16 << 10;

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

    /// Folds all blocks by each of `folds` into the results at one of `to`.
    pub(super) fn fold(self, reduction: &Reduction, source: Source, to: &[Shared], folds: &[&dyn AnyFold]) {
        let others: &[Dim] = &reduction.kept[1..];
        let elements = self.rows * self.columns;
        let grain = (GRAIN / elements.max(1)).max(1);
        let direct = reduction.kept.first().is_some_and(|columns| source.is_direct(columns.input));
        let at_once = match folds {
            [_] => usize::MAX,
            _ => (IN_L1 / (elements * source.memory_size()).max(1)).max(1),
        };
        parallel_for(0..reduction.outputs() / self.columns, grain, |range| {
            let (mut counter, mut left) = (DimCounter::new(others, range.start), range.len());
            let steps = others.first().map_or([0, 0], |dim| [dim.input as isize, dim.output as isize]);
            while left > 0 {
                let count = counter.left_in_row().min(left).min(at_once);
                let (from, offset) = (source.at(counter.input), counter.output);
                // SAFETY: these blocks are in the input, and their results are this task's to write.
                unsafe {
                    if direct {
                        self.accumulate(from, to, offset, count, steps, folds);
                    } else {
                        self.convert_and_accumulate(&source, from, to, offset, count, steps[1], folds);
                    }
                    for (&fold, to) in folds.iter().zip(to) {
                        let to = to.0.wrapping_offset(offset);
                        self.finish(to, count, steps[1], source.size(), fold);
                    }
                }
                counter.advance(count);
                left -= count;
            }
        });
    }

    /// Folds the rows of each of `count` blocks by each fold into rows of accumulators, the first at `offset` of one of `to`. Blocks and rows
    /// of accumulators begin `steps` bytes apart.
    ///
    /// # Safety
    /// - The blocks are readable, and `to` is valid for writing the accumulators.
    unsafe fn accumulate(
        self,
        from: *const u8,
        to: &[Shared],
        offset: isize,
        count: usize,
        steps: [isize; 2],
        folds: &[&dyn AnyFold],
    ) {
        for (fold, to) in folds.iter().zip(to) {
            // SAFETY: this function's condition.
            unsafe { fold.accumulate_blocks(from, self, to.0.wrapping_offset(offset), count, steps) }
        }
    }

    /// [`accumulate`](Self::accumulate) of blocks that follow one another in memory, converted in a tile. Rows of accumulators begin `step`
    /// bytes apart.
    ///
    /// # Safety
    /// - As for [`accumulate`](Self::accumulate).
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "blocks in two memories")]
    unsafe fn convert_and_accumulate(
        self,
        source: &Source,
        from: *const u8,
        to: &[Shared],
        offset: isize,
        count: usize,
        step: isize,
        folds: &[&dyn AnyFold],
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
            // SAFETY: this function's condition; the tile takes these blocks.
            unsafe {
                source.convert(from, tile, blocks * elements);
                in_tile.accumulate(tile, to, offset + first as isize * step, blocks, steps, folds);
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
