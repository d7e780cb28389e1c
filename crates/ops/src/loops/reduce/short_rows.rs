//! Reductions of few elements to each output: strips of rows are gathered so that each row is in a lane of its own, whatever the layout and
//! the type. A kernel for each row would take longer to start than to run.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::dim_counter::DimCounter;
use super::fold::RowFold;
use super::source::Source;
use super::strips::{SHORT, STRIP, Strip, StripResults};
use crate::loops::row_offsets::RowOffsets;
use crate::loops::strided::copy_strided;
use crate::loops::transposed::{few_columns, transpose};
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Dim, GRAIN, Reduction};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Memory for a strip of elements of up to eight bytes, and for one of elements that are converted to these, of up to sixteen; from the
/// beginning of a cache line on, as in [`PackedTile`](super::strips::PackedTile).
#[repr(align(64))]
struct Tiles {
    elements: [MaybeUninit<u64>; SHORT * STRIP],
    moved: [MaybeUninit<[u64; 2]>; SHORT * STRIP],
}

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
    /// Whether the elements of a row are adjacent.
    is_dense: bool,
}

/// Where the rows of a strip are, in bytes from the first of all.
struct Rows {
    /// Each row; the first one alone where there is a distance.
    at: [isize; STRIP],
    /// Bytes from each row to the next, where that is known to be the same for all.
    distance: Option<isize>,
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
        let is_dense = match &reduction.reduced[..] {
            [] => true,
            [dim] => dim.input == source.memory_size() as i64,
            _ => false,
        };
        Some(ShortRows { reduction, source, targets, sizes, fold, offsets, n, is_dense })
    }

    /// Folds all rows.
    pub(super) fn fold(&self) {
        let (rows, grain) = (self.reduction.outputs(), (GRAIN / (self.n * STRIP)).max(1));
        parallel_for(0..rows.div_ceil(STRIP), grain, |strips| self.fold_strips(strips, rows));
    }

    fn fold_strips(&self, strips: Range<usize>, rows: usize) {
        let mut tiles = Tiles { elements: [MaybeUninit::uninit(); _], moved: [MaybeUninit::uninit(); _] };
        // Elements of rows that do not exist have any value.
        tiles.elements[..self.n * STRIP].fill(MaybeUninit::new(0));
        let mut counter = DimCounter::new(&self.reduction.kept, strips.start * STRIP);
        let mut results = StripResults {
            to: self.targets,
            sizes: self.sizes,
            indices: [0; STRIP],
            are_adjacent: false,
            count: 0,
        };
        for strip in strips {
            results.count = STRIP.min(rows - strip * STRIP);
            let rows = self.locate(&mut counter, &mut results);
            // SAFETY: the tiles take a strip of these rows.
            unsafe { self.gather(&rows, results.count, &mut tiles) };
            let strip = Strip { elements: tiles.elements.as_ptr().cast(), n: self.n, count: results.count };
            // SAFETY: the strip has been gathered, and the results of its rows are this task's to write.
            unsafe { self.fold.strip(strip, &results) };
        }
    }

    /// Where the next rows are; notes where their results are.
    fn locate(&self, counter: &mut DimCounter<'_>, results: &mut StripResults<M>) -> Rows {
        let across = self.reduction.kept.first().copied().unwrap_or(Dim { size: 1, input: 0, output: 0 });
        let (size, distance) = (self.sizes[0] as isize, across.input as isize);
        let step = across.output as isize / size;
        results.are_adjacent = step == 1 && counter.left_in_row() >= results.count;
        if results.are_adjacent {
            let at = [counter.input; STRIP];
            results.indices[0] = counter.output / size;
            counter.advance(results.count);
            return Rows { at, distance: Some(distance) };
        }
        let (mut at, mut done) = ([0; STRIP], 0);
        while done < results.count {
            let count = counter.left_in_row().min(results.count - done);
            let first = counter.output / size;
            for row in 0..count {
                at[done + row] = counter.input + row as isize * distance;
                results.indices[done + row] = first + row as isize * step;
            }
            counter.advance(count);
            done += count;
        }
        Rows { at, distance: None }
    }

    /// Copies `count` rows to the tile, in the fold's type.
    ///
    /// # Safety
    /// - They are in the input, and at most a strip.
    unsafe fn gather(&self, rows: &Rows, count: usize, tiles: &mut Tiles) {
        let (source, size) = (&self.source, self.source.memory_size());
        let (elements, moved): (*mut u8, *mut u8) =
            (tiles.elements.as_mut_ptr().cast(), tiles.moved.as_mut_ptr().cast());
        let to = if source.is_move() { elements } else { moved };
        // SAFETY: this function's condition; each tile takes a strip of its elements.
        unsafe {
            if let Some(distance) = rows.distance {
                self.gather_even(rows.at[0], distance, count, to);
            } else {
                let (rows, elements) = (&rows.at[..count], &self.offsets[..self.n]);
                RowOffsets { rows, elements, size }.gather(source.at(0), to);
            }
            if source.is_move() {
                return;
            }
            for first in (0..self.n).map(|i| i * STRIP) {
                let (from, to) = (moved.add(first * size), elements.add(first * source.size()));
                source.convert(from, to, count);
            }
        }
    }

    /// Moves `count` rows, which begin `distance` bytes apart, to a tile.
    ///
    /// # Safety
    /// - As for [`gather`](Self::gather).
    unsafe fn gather_even(&self, first: isize, distance: isize, count: usize, to: *mut u8) {
        let (n, size) = (self.n, self.source.memory_size());
        let (from, pitch) = (self.source.at(first), STRIP * size);
        // SAFETY: this function's condition; a row of the tile takes an element of each of them.
        unsafe {
            if self.is_dense {
                let is_packed = distance == (n * size) as isize;
                if !(is_packed && few_columns(from, [count, n], size, to)) {
                    transpose(from, distance, [count, n], size, to, pitch);
                }
                return;
            }
            for (i, offset) in self.offsets[..n].iter().enumerate() {
                let from = from.wrapping_offset(*offset);
                copy_strided(from, distance as i64, to.add(i * pitch), size as i64, count, size);
            }
        }
    }
}
