//! Outer reductions, whose kept dimension is dense: the rows of the input are folded into rows of accumulators that stay in L1.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::accumulator::Words;
use super::any_fold::AnyFold;
use super::dim_counter::DimCounter;
use super::source::Source;
use super::strips::{BlockShape, SHORT, STRIP, Shared};
use crate::parallel::parallel_for;
use crate::scratch;
use crate::tensor_iterator::{GRAIN, Reduction};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Columns of a task: a page of f32, so that a row of the input needs one or two entries of the TLB.
const COLUMNS: usize = 1024;
/// Rows folded into the row of accumulators of the first level before that is combined with the second level.
const LEVEL: usize = 64;
/// Rows that are folded into results in one pass, without rows of accumulators: the hardware prefetcher follows as many.
const FEW_ROWS: usize = 8;
/// Rows of a task, where those that are packed count as one.
const ROWS: usize = 16 * LEVEL;
/// Rows converted at a time.
const TILE_ROWS: usize = 8;
/// Bytes of a tile of few rows, which stays in L1 beside their results.
const FEW_ROWS_BYTES: usize = 16 << 10;
/// Columns below which the inner reduction, which gathers rows, is faster than one row at a time.
const MIN_COLUMNS: usize = 8;
/// Elements of adjacent short rows that are folded as one row.
const PACKED: usize = 64;
/// The same where there are so many rows that levels are full: addresses are found for few rows, and vectors of accumulators are many.
const MOST_PACKED: usize = 512;

/// Whether the kept dimension is dense, nearer in memory than the reduced ones, and has enough columns.
pub(super) fn suits(reduction: &Reduction) -> bool {
    is_outer(reduction) && columns(reduction) >= MIN_COLUMNS
}

/// The same for a fold, whose rows may be packed.
pub(super) fn suits_fold(reduction: &Reduction) -> bool {
    is_outer(reduction) && columns(reduction) * rows_packed(reduction) >= MIN_COLUMNS
}

/// Whether columns are evenly spaced, nearer in memory than the reduced dimensions, and many, of a short row each: then rows of columns are
/// gathered, which takes less than short rows column by column.
pub(super) fn suits_spaced(reduction: &Reduction) -> bool {
    match (reduction.kept.first(), reduction.reduced.first()) {
        (Some(kept), Some(reduced)) => {
            kept.input > reduction.input.size() as i64
                && kept.input < reduced.input
                && kept.size >= STRIP as i64
                && (1..=SHORT).contains(&reduction.count())
                && reduction.outputs() > 0
        }
        _ => false,
    }
}

fn is_outer(reduction: &Reduction) -> bool {
    match (reduction.kept.first(), reduction.reduced.first()) {
        (Some(kept), Some(reduced)) => {
            kept.input == reduction.input.size() as i64
                && kept.input < reduced.input
                && reduction.count() > 0
                && reduction.outputs() > 0
        }
        _ => false,
    }
}

fn columns(reduction: &Reduction) -> usize {
    reduction.kept.first().map_or(1, |dim| dim.size as usize)
}

/// How many rows are folded as one: a power of two where rows are short and one follows another in memory.
fn rows_packed(reduction: &Reduction) -> usize {
    let columns = columns(reduction);
    match &reduction.reduced[..] {
        _ if !is_outer(reduction) => 1,
        [dim] if 2 * columns <= PACKED && dim.input == (columns * reduction.input.size()) as i64 => {
            let fills_levels = (MOST_PACKED / columns).min(dim.size as usize / LEVEL);
            1 << fills_levels.max(PACKED / columns).ilog2()
        }
        _ => 1,
    }
}

/// How a reduction is split into tasks: columns, then rows, then the other kept dimensions.
#[derive(Clone, Copy)]
pub(super) struct Plan<'r> {
    reduction: &'r Reduction,
    source: Source,
    /// Folds of the same elements, each into results of its own.
    folds: &'r [&'r dyn AnyFold],
    columns: usize,
    /// Rows that are folded as one.
    packed: usize,
}

/// A task: the columns of one strip, the rows of one chunk.
pub(super) struct Task {
    pub(super) strip: usize,
    chunk: usize,
}

impl<'r> Plan<'r> {
    /// The plan of a reduction that [`suits`] one or more folds, row by row.
    pub(super) fn new(reduction: &'r Reduction, source: Source, folds: &'r [&'r dyn AnyFold]) -> Self {
        Plan { reduction, source, folds, columns: columns(reduction), packed: 1 }
    }

    /// Words filled with the identity of a fold.
    pub(super) fn identity(&self, fold: &dyn AnyFold) -> Words {
        // SAFETY: a fold's accumulators are of the type of its elements.
        unsafe { fold.identity().repeated(self.source.size()) }
    }

    /// Bytes of an element of the kernel's type.
    pub(super) fn element_size(&self) -> usize {
        self.source.size()
    }

    /// Bytes between the outputs of neighbouring columns.
    pub(super) fn output_stride(&self) -> isize {
        self.reduction.kept.first().map_or(0, |dim| dim.output as isize)
    }

    /// Strips of columns, of all rows of strips.
    pub(super) fn strips(&self) -> usize {
        self.reduction.outputs() / self.columns * self.columns.div_ceil(COLUMNS)
    }

    /// Rows of a task: of about as many elements however many are folded as one.
    fn rows(&self) -> usize {
        match self.packed {
            1 => ROWS,
            packed => packed * (ROWS * PACKED / (self.columns * packed)),
        }
    }

    /// Chunks of rows of each strip.
    pub(super) fn chunks(&self) -> usize {
        self.reduction.count().div_ceil(self.rows())
    }

    /// The smallest number of tasks of a thread.
    pub(super) fn grain(&self) -> usize {
        (GRAIN / (COLUMNS.min(self.columns) * self.reduction.count().min(self.rows()))).max(1)
    }

    /// Elements of the widest row that is folded.
    pub(super) fn width(&self) -> usize {
        COLUMNS.min(self.columns * self.packed)
    }

    /// How many words hold a row of accumulators.
    pub(super) fn words(&self) -> usize {
        (self.width() * self.source.size()).div_ceil(size_of::<Words>())
    }

    pub(super) fn task(&self, index: usize) -> Task {
        Task { strip: index / self.chunks(), chunk: index % self.chunks() }
    }

    /// The number of a task's first row.
    pub(super) fn first_row(&self, task: &Task) -> usize {
        task.chunk * self.rows()
    }

    /// The offsets of a strip's first column, and how many there are.
    pub(super) fn strip(&self, strip: usize) -> (isize, isize, usize) {
        let strips = self.columns.div_ceil(COLUMNS);
        let first = strip % strips * COLUMNS;
        let counter = DimCounter::new(&self.reduction.kept, strip / strips * self.columns + first);
        (counter.input, counter.output, COLUMNS.min(self.columns - first))
    }

    /// Bytes from one row to the next, where there are few of one distance, and results are dense.
    fn few_rows(&self) -> Option<isize> {
        let [rows] = &self.reduction.reduced[..] else { return None };
        let is_dense = self.output_stride() == self.source.size() as isize;
        (is_dense && self.packed == 1 && rows.size as usize <= FEW_ROWS).then_some(rows.input as isize)
    }

    /// Bytes between the inputs of neighbouring columns.
    fn kept_stride(&self) -> i64 {
        self.reduction.kept.first().map_or(0, |dim| dim.input)
    }
}

/// Folds rows by each of `folds` into the results at one of `targets`, which are of one geometry.
pub(super) fn fold_outer(reduction: &Reduction, source: Source, targets: &[*mut u8], folds: &[&dyn AnyFold]) {
    let to: SmallVec<[Shared; 2]> = targets.iter().map(|target| Shared(*target)).collect();
    let to = &to[..];
    if let Some(shape) = BlockShape::of(reduction, &source) {
        return shape.fold(reduction, source, to, folds);
    }
    let plan = Plan { packed: rows_packed(reduction), ..Plan::new(reduction, source, folds) };
    let (strips, chunks, grain) = (plan.strips(), plan.chunks(), plan.grain());
    if let Some(row_stride) = plan.few_rows() {
        return parallel_for(0..strips, grain, |range| {
            range.for_each(|strip| fold_few(&plan, row_stride, strip, to));
        });
    }
    if chunks == 1 {
        parallel_for(0..strips, grain, |range| {
            let mut work = Work::new(plan);
            range.for_each(|strip| {
                work.fold(&Task { strip, chunk: 0 });
                for (side, to) in work.sides.iter().zip(to) {
                    write(&plan, side.fold, strip, &side.total, *to);
                }
            });
        });
        return;
    }
    fold_chunks(&plan, to);
}

/// Folds each chunk of rows into accumulators of its own, and combines these.
fn fold_chunks(plan: &Plan<'_>, to: &[Shared]) {
    let (strips, chunks, words) = (plan.strips(), plan.chunks(), plan.words());
    let tasks = strips * chunks;
    let mut partials = scratch::filled(Words::default(), plan.folds.len() * tasks * words);
    let slots = Shared(partials.as_mut_ptr().cast());
    parallel_for(0..tasks, plan.grain(), |range| {
        let (mut work, slots) = (Work::new(*plan), &slots);
        range.for_each(|index| {
            work.fold(&plan.task(index));
            for (number, side) in work.sides.iter().enumerate() {
                // SAFETY: the slots of this task are written by nobody else.
                unsafe {
                    let slot = slots.0.cast::<Words>().add((number * tasks + index) * words);
                    slot.copy_from(side.total.as_ptr(), words);
                }
            }
        });
    });
    parallel_for(0..strips, (GRAIN / (chunks * COLUMNS)).max(1), |range| {
        let slots = &slots;
        range.for_each(|strip| {
            for (number, (&fold, to)) in plan.folds.iter().zip(to).enumerate() {
                // SAFETY: the slots of this strip, which no other task touches now.
                let parts = unsafe {
                    let first = slots.0.cast::<Words>().add((number * tasks + strip * chunks) * words);
                    std::slice::from_raw_parts_mut(first, chunks * words)
                };
                write(plan, fold, strip, combine_rows(plan, fold, parts), *to);
            }
        });
    });
}

/// Folds the few rows of a strip in its results: rows in memory, or in a tile where they are gathered or converted.
fn fold_few(plan: &Plan<'_>, row_stride: isize, strip: usize, to: &[Shared]) {
    let (from, to_offset, columns) = plan.strip(strip);
    let (source, rows, size, stride) =
        (plan.source, plan.reduction.count(), plan.source.size(), plan.kept_stride());
    if source.is_direct(stride) {
        let shape = BlockShape { rows, row_stride, columns };
        // SAFETY: the rows are in the input, and the results of these columns are dense and this task's to write.
        return unsafe { fold_columns(plan, source.at(from), shape, to, to_offset) };
    }
    let mut tile = [const { MaybeUninit::<Words>::uninit() }; FEW_ROWS_BYTES / size_of::<Words>()];
    let tile: *mut u8 = tile.as_mut_ptr().cast();
    let at_once = FEW_ROWS_BYTES / (rows * size);
    for first in (0..columns).step_by(at_once) {
        let columns = at_once.min(columns - first);
        let from = from + first as isize * stride as isize;
        let shape = BlockShape { rows, row_stride: (columns * size) as isize, columns };
        // SAFETY: as above; the tile takes these columns of the rows.
        unsafe {
            for row in 0..rows {
                let (offset, to) = (from + row as isize * row_stride, tile.add(row * columns * size));
                source.copy(offset, stride, to, size as i64, columns);
            }
            fold_columns(plan, tile, shape, to, to_offset + (first * size) as isize);
        }
    }
}

/// Folds the columns of a block into dense results at `offset` of each of `to`.
///
/// # Safety
/// - The block is readable, and the results are this thread's to write.
unsafe fn fold_columns(plan: &Plan<'_>, from: *const u8, shape: BlockShape, to: &[Shared], offset: isize) {
    for (fold, to) in plan.folds.iter().zip(to) {
        let to = to.0.wrapping_offset(offset);
        // SAFETY: this function's condition.
        unsafe {
            fold.accumulate_blocks(from, shape, to, 1, [0; 2]);
            fold.write(to, shape.columns, to, plan.source.size() as isize);
        }
    }
}

/// Combines rows of accumulators as a tree, and returns the first, which then has all of them.
fn combine_rows<'p>(plan: &Plan<'_>, fold: &dyn AnyFold, parts: &'p mut [Words]) -> &'p [Words] {
    let words = plan.words();
    let rows = parts.len() / words;
    let mut step = 1;
    while step < rows {
        for row in (0..rows - step).step_by(2 * step) {
            let (before, after) = parts.split_at_mut((row + step) * words);
            let to = &mut before[row * words..][..words];
            combine(plan, fold, to, &after[..words], COLUMNS.min(plan.columns));
        }
        step *= 2;
    }
    &parts[..words]
}

/// Combines `n` accumulators with those of later elements.
fn combine(plan: &Plan<'_>, fold: &dyn AnyFold, to: &mut [Words], from: &[Words], n: usize) {
    debug_assert!(n <= plan.width() && to.len() == plan.words() && from.len() == plan.words());
    // SAFETY: both are rows of as many accumulators as the widest strip has columns.
    unsafe { fold.accumulate_rows(&[from.as_ptr().cast()], to.as_mut_ptr().cast(), n, true) };
}

/// Writes the results of a strip's accumulators.
fn write(plan: &Plan<'_>, fold: &dyn AnyFold, strip: usize, row: &[Words], to: Shared) {
    let (_, offset, n) = plan.strip(strip);
    debug_assert!(n <= plan.width() && row.len() == plan.words());
    // SAFETY: the addresses of the output elements of this strip.
    unsafe { fold.write(row.as_ptr().cast(), n, to.0.wrapping_offset(offset), plan.output_stride()) };
}

/// Rows of accumulators; those of few columns need no allocation.
type Accumulators = SmallVec<[Words; 16]>;

/// The rows of the input, in memory or converted in tiles.
pub(super) struct Rows<'r> {
    plan: Plan<'r>,
    tile: Accumulators,
    direct: bool,
}

impl<'r> Rows<'r> {
    pub(super) fn new(plan: Plan<'r>) -> Self {
        let direct = plan.source.is_direct(plan.kept_stride());
        let rows = if direct { 0 } else { TILE_ROWS };
        Rows { plan, tile: SmallVec::from_elem(Words::default(), rows * plan.words()), direct }
    }

    pub(super) fn plan(&self) -> &Plan<'r> {
        &self.plan
    }

    /// Calls `each` with the addresses of up to [`LEVEL`] rows of a task at a time, their number of elements, and the number of the first;
    /// rows that are converted come in groups of [`TILE_ROWS`].
    pub(super) fn each_group(&mut self, task: &Task, each: &mut dyn FnMut(&[*const u8], usize, usize)) {
        let (offset, _, n) = self.plan.strip(task.strip);
        let (reduction, packed) = (self.plan.reduction, self.plan.packed);
        let start = self.plan.first_row(task);
        let end = reduction.count().min(start + self.plan.rows());
        let mut counter = DimCounter::new(&reduction.reduced, start);
        let mut addresses = [std::ptr::null(); LEVEL];
        let at_once = if self.direct { LEVEL } else { TILE_ROWS };
        // As many rows packed as there are; of those that are left half as many, and so on.
        let (mut first, mut step) = (start, packed);
        while first < end {
            let count = at_once.min((end - first) / step);
            if count == 0 {
                step /= 2;
                continue;
            }
            for (i, address) in addresses[..count].iter_mut().enumerate() {
                *address = self.row(offset + counter.input, n * step, i);
                counter.advance(step);
            }
            each(&addresses[..count], n * step, first);
            first += count * step;
        }
    }

    /// The address of a row of the input in memory, or of row `index` of the tile, to which it is converted.
    fn row(&mut self, offset: isize, n: usize, index: usize) -> *const u8 {
        if self.direct {
            return self.plan.source.at(offset);
        }
        let to: *mut u8 = self.tile[index * self.plan.words()..].as_mut_ptr().cast();
        let stride = self.plan.kept_stride();
        // SAFETY: there are `n` elements so far apart, and a row of the tile takes the widest.
        unsafe { self.plan.source.copy(offset, stride, to, self.plan.source.size() as i64, n) };
        to
    }
}

/// The buffers of a thread.
struct Work<'r> {
    rows: Rows<'r>,
    sides: SmallVec<[Side<'r>; 1]>,
}

/// A fold and its rows of accumulators.
struct Side<'r> {
    fold: &'r dyn AnyFold,
    identity: Words,
    level: Accumulators,
    total: Accumulators,
}

impl<'r> Side<'r> {
    fn new(plan: &Plan<'r>, fold: &'r dyn AnyFold) -> Self {
        let identity = plan.identity(fold);
        let row = || SmallVec::from_elem(identity, plan.words());
        Side { fold, identity, level: row(), total: row() }
    }

    /// Combines the accumulators of a level with those of the levels before.
    fn combine_level(&mut self, plan: &Plan<'_>) {
        combine(plan, self.fold, &mut self.total, &self.level, plan.width());
        self.level.fill(self.identity);
    }
}

impl<'r> Work<'r> {
    fn new(plan: Plan<'r>) -> Self {
        let sides = plan.folds.iter().map(|&fold| Side::new(&plan, fold)).collect();
        Work { rows: Rows::new(plan), sides }
    }

    /// Folds the rows of a task: those of a level first, then levels, then the rows that were packed.
    fn fold(&mut self, task: &Task) {
        let Work { rows, sides } = self;
        let plan = rows.plan;
        for side in sides.iter_mut() {
            side.total.fill(side.identity);
            side.level.fill(side.identity);
        }
        let mut folded = 0;
        rows.each_group(task, &mut |addresses, n, _| {
            folded += addresses.len();
            for side in sides.iter_mut() {
                // SAFETY: the rows have `n` elements, and a level takes as many.
                unsafe { side.fold.accumulate_rows(addresses, side.level.as_mut_ptr().cast(), n, false) };
                if folded >= LEVEL {
                    side.combine_level(&plan);
                }
            }
            if folded >= LEVEL {
                folded = 0;
            }
        });
        for side in sides.iter_mut() {
            if folded > 0 {
                side.combine_level(&plan);
            }
            unpack(&plan, side.fold, &mut side.total);
        }
    }
}

/// Combines the accumulators of the rows that were folded as one into the first columns of `total`: the upper half of those that are left
/// with the lower one.
fn unpack(plan: &Plan<'_>, fold: &dyn AnyFold, total: &mut [Words]) {
    let to: *mut u8 = total.as_mut_ptr().cast();
    let mut packed = plan.packed;
    while packed > 1 {
        packed /= 2;
        let n = packed * plan.columns;
        let upper = to.wrapping_add(n * plan.source.size()).cast_const();
        // SAFETY: there are twice as many accumulators in `total`, of which the upper half is read.
        unsafe { fold.accumulate_rows(&[upper], to, n, true) };
    }
}
