//! Reductions of few elements to each output: strips of rows are gathered so that each row is in a lane of its own, whatever the layout and
//! the type. A kernel for each row would take longer to start than to run.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::dim_counter::DimCounter;
use super::fold::RowFold;
use super::source::Source;
use super::strips::{SHORT, STRIP, Strip, StripResults};
use crate::loops::transposed::transpose;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Dim, GRAIN, Reduction};
use std::ops::Range;

/// Rows from which on they are transposed in registers.
const MIN_TRANSPOSED: usize = 8;

/// Memory for a strip of elements of up to eight bytes.
type Tile = [u64; SHORT * STRIP];

/// A reduction of short rows.
pub(super) struct ShortRows<'r, F, const M: usize> {
    reduction: &'r Reduction,
    source: Source,
    targets: [*mut u8; M],
    sizes: [usize; M],
    fold: F,
    /// The byte offset of each element of a row.
    offsets: [isize; SHORT],
    n: usize,
}

// SAFETY: every task writes the results of its own rows, while the guards are held.
unsafe impl<F: Sync, const M: usize> Sync for ShortRows<'_, F, M> {}

impl<'r, F: RowFold<M>, const M: usize> ShortRows<'r, F, M> {
    /// The rows of a reduction into the `M` targets, whose elements have these sizes; `None` where they are long.
    pub(super) fn of(
        reduction: &'r Reduction,
        source: Source,
        targets: [*mut u8; M],
        sizes: [usize; M],
        fold: F,
    ) -> Option<Self> {
        let n = reduction.count();
        if !(1..=SHORT).contains(&n) || reduction.outputs() == 0 || source.size() > size_of::<u64>() {
            return None;
        }
        let (mut offsets, mut counter) = ([0; SHORT], DimCounter::new(&reduction.reduced, 0));
        for offset in &mut offsets[..n] {
            *offset = counter.input;
            counter.advance(1);
        }
        Some(ShortRows { reduction, source, targets, sizes, fold, offsets, n })
    }

    /// Folds all rows.
    pub(super) fn fold(&self) {
        let (rows, grain) = (self.reduction.outputs(), (GRAIN / (self.n * STRIP)).max(1));
        parallel_for(0..rows.div_ceil(STRIP), grain, |strips| self.fold_strips(strips, rows));
    }

    fn fold_strips(&self, strips: Range<usize>, rows: usize) {
        let mut tile: Tile = [0; _];
        let mut counter = DimCounter::new(&self.reduction.kept, strips.start * STRIP);
        let mut results = StripResults { to: self.targets, sizes: self.sizes, indices: [0; STRIP], count: 0 };
        for strip in strips {
            results.count = STRIP.min(rows - strip * STRIP);
            // SAFETY: the tile takes a strip of these rows.
            unsafe { self.gather(&mut counter, &mut results, tile.as_mut_ptr().cast()) };
            let strip = Strip { elements: tile.as_ptr().cast(), n: self.n, count: results.count };
            // SAFETY: the strip has been gathered, and the results of its rows are this task's to write.
            unsafe { self.fold.strip(strip, &results) };
        }
    }

    /// Copies the next rows to the tile, and notes where their results are.
    ///
    /// # Safety
    /// - The tile takes a strip.
    unsafe fn gather(&self, counter: &mut DimCounter<'_>, results: &mut StripResults<M>, tile: *mut u8) {
        let (size, step) = (self.source.size(), STRIP * self.source.size());
        let across = self.reduction.kept.first().copied().unwrap_or(Dim { size: 1, input: 0, output: 0 });
        let mut done = 0;
        while done < results.count {
            let count = counter.left_in_row().min(results.count - done);
            let to = tile.wrapping_add(done * size);
            // SAFETY: these rows are in the input, and the tile takes them.
            unsafe {
                if self.are_dense() && count >= MIN_TRANSPOSED {
                    let from = self.source.at(counter.input);
                    transpose(from, across.input as isize, [count, self.n], size, to, step);
                } else if self.source.is_move() {
                    let from = self.source.at(counter.input);
                    let offsets = &self.offsets[..self.n];
                    match size {
                        1 => gather::<u8>(from, across.input, offsets, to, count),
                        2 => gather::<u16>(from, across.input, offsets, to, count),
                        4 => gather::<u32>(from, across.input, offsets, to, count),
                        _ => gather::<u64>(from, across.input, offsets, to, count),
                    }
                } else {
                    for (i, offset) in self.offsets[..self.n].iter().enumerate() {
                        let from = counter.input + offset;
                        self.source.copy(from, across.input, to.add(i * step), size as i64, count);
                    }
                }
            }
            let first = counter.output as i64;
            for (row, index) in results.indices[done..done + count].iter_mut().enumerate() {
                *index = ((first + row as i64 * across.output) / self.sizes[0] as i64) as isize;
            }
            counter.advance(count);
            done += count;
        }
    }

    /// Whether rows are dense in memory, and of the fold's type.
    fn are_dense(&self) -> bool {
        matches!(&self.reduction.reduced[..], [dim] if self.source.is_direct(dim.input))
    }
}

/// Copies elements at `offsets` of `count` rows, `across` bytes apart, to rows of a tile.
///
/// # Safety
/// - The elements are readable, and the tile takes them.
unsafe fn gather<Bits: Copy>(from: *const u8, across: i64, offsets: &[isize], to: *mut u8, count: usize) {
    for (i, offset) in offsets.iter().enumerate() {
        let (from, to) = (from.wrapping_offset(*offset), to.cast::<Bits>().wrapping_add(i * STRIP));
        for row in 0..count {
            let from = from.wrapping_offset((row as i64 * across) as isize);
            // SAFETY: this function's condition.
            unsafe { to.wrapping_add(row).write_unaligned(from.cast::<Bits>().read_unaligned()) };
        }
    }
}
