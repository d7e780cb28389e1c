//! Inner reductions: each row of reduced elements is read in blocks, in memory or through a tile; long rows are split among threads.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::accumulator::Words;
use super::cascade::Cascade;
use super::dim_counter::DimCounter;
use super::fold::{BLOCK, CHUNK, DenseRows, RowFold};
use super::short_rows::ShortRows;
use super::source::Source;
use crate::parallel::parallel_for;
use crate::scratch;
use crate::tensor_iterator::{Dim, GRAIN, Reduction};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ops::Range;

/// How many rows are gathered together where neighbours in memory belong to different rows: the elements of a cache line of f32.
const WIDTH: usize = 16;
/// How many elements of each of them a tile has.
const GATHERED: usize = BLOCK / WIDTH;
/// Elements from one row of a tile to the next, no power of two, so that rows are in different sets of the cache.
const PITCH: usize = GATHERED + 16;

/// Gathered elements, each of up to sixteen bytes: of one row, or of up to [`WIDTH`] neighbouring ones.
type Tile = [MaybeUninit<Words>; WIDTH * PITCH];

const _: () = assert!(BLOCK <= WIDTH * PITCH);

/// Output addresses that the guards of the calling thread protect.
#[derive(Clone, Copy)]
struct Targets<const M: usize> {
    base: [*mut u8; M],
    size: [usize; M],
}

// SAFETY: every thread writes the results of its own rows, while the guards are held.
unsafe impl<const M: usize> Sync for Targets<M> {}

impl<const M: usize> Targets<M> {
    /// The addresses of the results at byte offset `offset` of target 0, for which the geometry was made; the others have the same order.
    fn at(&self, offset: isize) -> [*mut u8; M] {
        let element = offset / self.size[0] as isize;
        std::array::from_fn(|m| self.base[m].wrapping_offset(element * self.size[m] as isize))
    }
}

/// Slots for partial results, each written by one thread.
struct Slots<S>(*mut MaybeUninit<S>);

// SAFETY: each slot is written by one thread, and read when all are done.
unsafe impl<S: Send> Sync for Slots<S> {}

/// An inner reduction of groups of up to `width` neighbouring rows.
struct InnerReduction<'r, F, const M: usize> {
    reduction: &'r Reduction,
    source: Source,
    targets: Targets<M>,
    fold: F,
    width: usize,
}

/// Folds every row into the `M` targets, contiguous in one order, whose elements have these sizes.
pub(super) fn fold_inner<F: RowFold<M>, const M: usize>(
    reduction: &Reduction,
    source: Source,
    targets: [*mut u8; M],
    sizes: [usize; M],
    fold: F,
) {
    let outputs = Targets { base: targets, size: sizes };
    let inner = InnerReduction { reduction, source, targets: outputs, fold, width: width(reduction) };
    if !inner.folds_packed()
        && let Some(rows) = ShortRows::of(reduction, source, targets, sizes, fold)
    {
        return rows.fold();
    }
    let (count, groups) = (reduction.count(), inner.groups());
    if count <= CHUNK {
        let grain = (GRAIN / (count * inner.width).max(1)).max(1);
        parallel_for(0..groups, grain, |range| inner.fold_groups(range));
    } else {
        inner.fold_long(groups, count.div_ceil(CHUNK));
    }
}

/// How many rows to gather at once: several where a kept dimension is nearer in memory than the reduced one.
fn width(reduction: &Reduction) -> usize {
    match (reduction.kept.first(), reduction.reduced.first()) {
        (Some(kept), Some(reduced)) if kept.input < reduced.input => WIDTH,
        _ => 1,
    }
}

impl<F: RowFold<M>, const M: usize> InnerReduction<'_, F, M> {
    /// Whether rows are short, many follow one another in memory, and the fold takes them so.
    fn folds_packed(&self) -> bool {
        let (n, size) = (self.reduction.count(), self.source.memory_size());
        let are_adjacent = || match &self.reduction.kept[..] {
            [rows] => rows.input == (n * size) as i64 && rows.output == self.targets.size[0] as i64,
            _ => false,
        };
        self.fold.folds_packed(n) && are_adjacent() && self.width == 1 && self.is_dense()
    }

    /// How many rows the innermost kept dimension has.
    fn inner(&self) -> usize {
        self.reduction.kept.first().map_or(1, |dim| dim.size as usize)
    }

    /// How many groups of up to `width` rows there are, none of which reaches past the innermost kept dimension.
    fn groups(&self) -> usize {
        if self.reduction.outputs() == 0 {
            return 0;
        }
        self.reduction.outputs() / self.inner() * self.inner().div_ceil(self.width)
    }

    /// The first row of a group, and how many there are.
    fn rows_of(&self, group: usize) -> (usize, usize) {
        if self.width == 1 {
            return (group, 1);
        }
        let groups = self.inner().div_ceil(self.width);
        let first = group % groups * self.width;
        (group / groups * self.inner() + first, self.width.min(self.inner() - first))
    }

    fn fold_groups(&self, groups: Range<usize>) {
        let counter = DimCounter::new(&self.reduction.kept, self.rows_of(groups.start).0);
        if self.width == 1 && self.is_dense() {
            return self.fold_dense_rows(counter, groups.len());
        }
        self.fold_gathered(counter, groups);
    }

    #[inline(never)]
    fn fold_gathered(&self, mut counter: DimCounter<'_>, groups: Range<usize>) {
        let mut tile: Tile = [MaybeUninit::uninit(); WIDTH * PITCH];
        for group in groups {
            let (_, width) = self.rows_of(group);
            self.fold_part(&mut tile, counter.input, width, 0..self.reduction.count(), |state| {
                self.write(state, counter.output);
                counter.advance(1);
            });
        }
    }

    /// Rows of several chunks: every chunk is a task, and the partial results are combined in order.
    fn fold_long(&self, groups: usize, chunks: usize) {
        let count = self.reduction.count();
        let mut slots = scratch::filled(MaybeUninit::<F::State>::uninit(), groups * chunks * self.width);
        let shared = Slots(slots.as_mut_ptr());
        parallel_for(0..groups * chunks, 1, |tasks| {
            let shared = &shared;
            let mut tile: Tile = [MaybeUninit::uninit(); WIDTH * PITCH];
            for task in tasks {
                let (first, width) = self.rows_of(task / chunks);
                let start = task % chunks * CHUNK;
                let counter = DimCounter::new(&self.reduction.kept, first);
                let mut slot = task * self.width;
                self.fold_part(&mut tile, counter.input, width, start..count.min(start + CHUNK), |state| {
                    // SAFETY: the slots of this task, one for each of its rows, are written by nobody else.
                    unsafe { shared.0.add(slot).write(MaybeUninit::new(state)) };
                    slot += 1;
                });
            }
        });
        for group in 0..groups {
            let (first, width) = self.rows_of(group);
            let mut counter = DimCounter::new(&self.reduction.kept, first);
            for w in 0..width {
                let slot = |chunk| slots[(group * chunks + chunk) * self.width + w];
                // SAFETY: every task has written the slots of its `width` rows.
                let whole = self.fold.cascade((0..chunks).map(|chunk| unsafe { slot(chunk).assume_init() }));
                self.write(whole, counter.output);
                counter.advance(1);
            }
        }
    }

    fn write(&self, state: F::State, offset: isize) {
        // SAFETY: the address of a result of this thread.
        unsafe { self.fold.write(state, self.targets.at(offset)) }
    }

    /// Folds elements `part` of `width` neighbouring rows, the first of which begins at `offset`, and calls `each` with the state of every
    /// row, in order.
    #[inline]
    fn fold_part(
        &self,
        tile: &mut Tile,
        offset: isize,
        width: usize,
        part: Range<usize>,
        mut each: impl FnMut(F::State),
    ) {
        if part.is_empty() {
            (0..width).for_each(|_| each(self.fold.empty()));
        } else if self.width == 1 {
            each(self.fold_row(tile, offset, part));
        } else {
            self.fold_group(tile, offset, width, part, &mut each);
        }
    }

    /// Folds the next `left` rows, each of which is dense.
    fn fold_dense_rows(&self, mut counter: DimCounter<'_>, mut left: usize) {
        let (n, size) = (self.reduction.count(), self.source.memory_size());
        let [memory, _] = self.source.types();
        let [row_stride, stride] = self.reduction.kept.first().map_or([0, 0], |dim| [dim.input, dim.output]);
        let stride = stride as isize / self.targets.size[0] as isize;
        let strides = self.targets.size.map(|size| stride * size as isize);
        while left > 0 {
            let count = counter.left_in_row().min(left);
            let (from, to) = (self.source.at(counter.input), self.targets.at(counter.output));
            // SAFETY: these rows are in the input, and their results are this thread's to write.
            unsafe {
                self.fold.rows(DenseRows {
                    memory,
                    from,
                    n,
                    size,
                    row_stride: row_stride as isize,
                    to,
                    strides,
                    count,
                })
            };
            counter.advance(count);
            left -= count;
        }
    }

    /// Whether rows are not empty and can be read in memory, without a tile.
    fn is_dense(&self) -> bool {
        let (n, size) = (self.reduction.count(), self.source.memory_size() as i64);
        let [memory, kernel] = self.source.types();
        let stride = match self.reduction.reduced.as_slice() {
            [dim] if n > 1 => dim.input,
            [] | [_] => size,
            _ => return false,
        };
        n > 0 && stride == size && self.fold.reads(memory, kernel)
    }

    #[inline]
    fn fold_row(&self, tile: &mut Tile, offset: isize, part: Range<usize>) -> F::State {
        if self.is_dense() {
            let (size, [memory, _]) = (self.source.memory_size(), self.source.types());
            let from = self.source.at(offset).wrapping_add(part.start * size);
            // SAFETY: these elements of a row are dense in the input.
            return unsafe { self.fold.in_memory(memory, from, part.len(), part.start, size) };
        }
        self.fold_tiles(tile, offset, part)
    }

    #[inline(never)]
    fn fold_tiles(&self, tile: &mut Tile, offset: isize, part: Range<usize>) -> F::State {
        let start: *mut u8 = tile.as_mut_ptr().cast();
        let dims: &[Dim] = &self.reduction.reduced;
        self.fold.cascade(part.clone().step_by(BLOCK).map(|first| {
            let n = BLOCK.min(part.end - first);
            // SAFETY: the row has these elements, and the tile takes a block.
            unsafe {
                self.source.gather(offset, dims, first, n, start);
                self.fold.block(start, n, first)
            }
        }))
    }

    #[inline(never)]
    fn fold_group(
        &self,
        tile: &mut Tile,
        offset: isize,
        width: usize,
        part: Range<usize>,
        each: &mut dyn FnMut(F::State),
    ) {
        let start: *mut u8 = tile.as_mut_ptr().cast();
        let across = self.reduction.kept.first().map_or(0, |dim| dim.input);
        let pitch = PITCH * self.source.size();
        let mut cascades: SmallVec<[Cascade<F::State>; WIDTH]> = (0..width).map(|_| Cascade::new()).collect();
        for first in part.clone().step_by(GATHERED) {
            let n = GATHERED.min(part.end - first);
            let dims = &self.reduction.reduced;
            // SAFETY: each of the rows has these elements, and the tile takes `WIDTH` rows of `GATHERED`.
            unsafe { self.source.gather_across(offset, across, width, dims, first, n, start, pitch) };
            for (w, cascade) in cascades.iter_mut().enumerate() {
                // SAFETY: the tile holds `n` elements of row `w`.
                let state = unsafe { self.fold.block(start.add(w * pitch), n, first) };
                cascade.push(state, |a, b| self.fold.combine(a, b));
            }
        }
        for cascade in cascades {
            each(cascade.finish(|a, b| self.fold.combine(a, b)).unwrap_or_else(|| self.fold.empty()));
        }
    }
}
