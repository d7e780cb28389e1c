//! Outer reductions, whose kept dimension is dense: the rows of the input are folded into rows of accumulators that stay in L1.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::accumulator::Words;
use super::any_fold::AnyFold;
use super::dim_counter::DimCounter;
use super::source::Source;
use crate::parallel::parallel_for;
use crate::scratch;
use crate::tensor_iterator::{GRAIN, Reduction};
use smallvec::SmallVec;

/// Columns of a task: a page of f32, so that a row of the input needs one or two entries of the TLB.
const COLUMNS: usize = 1024;
/// Rows folded into the row of accumulators of the first level before that is combined with the second level.
const LEVEL: usize = 64;
/// Rows of a task.
const ROWS: usize = 16 * LEVEL;
/// Rows converted at a time.
const TILE_ROWS: usize = 8;
/// Columns below which the inner reduction, which gathers rows, is faster.
const MIN_COLUMNS: usize = 8;

/// Whether the kept dimension is dense, and nearer in memory than the reduced ones.
pub(super) fn suits(reduction: &Reduction) -> bool {
    match (reduction.kept.first(), reduction.reduced.first()) {
        (Some(kept), Some(reduced)) => {
            kept.input == reduction.input.size() as i64
                && kept.input < reduced.input
                && kept.size as usize >= MIN_COLUMNS
                && reduction.count() > 0
                && reduction.outputs() > 0
        }
        _ => false,
    }
}

/// An address that the guards of the calling thread protect, or of memory that is split among its tasks.
#[derive(Clone, Copy)]
struct Shared(*mut u8);

// SAFETY: every task writes its own part.
unsafe impl Sync for Shared {}

/// How a reduction is split into tasks: columns, then rows, then the other kept dimensions.
#[derive(Clone, Copy)]
struct Plan<'r> {
    reduction: &'r Reduction,
    source: Source,
    fold: &'r dyn AnyFold,
    /// Words filled with the identity.
    identity: Words,
    columns: usize,
    chunks: usize,
}

/// A task: the columns of one strip, the rows of one chunk.
struct Task {
    strip: usize,
    chunk: usize,
}

impl Plan<'_> {
    /// Columns of the widest strip.
    fn width(&self) -> usize {
        COLUMNS.min(self.columns)
    }

    /// How many words hold a row of accumulators.
    fn words(&self) -> usize {
        (self.width() * self.source.size()).div_ceil(size_of::<Words>())
    }

    fn task(&self, index: usize) -> Task {
        Task { strip: index / self.chunks, chunk: index % self.chunks }
    }

    /// The offsets of a strip's first column, and how many there are.
    fn strip(&self, strip: usize) -> (isize, isize, usize) {
        let strips = self.columns.div_ceil(COLUMNS);
        let first = strip % strips * COLUMNS;
        let counter = DimCounter::new(&self.reduction.kept, strip / strips * self.columns + first);
        (counter.input, counter.output, COLUMNS.min(self.columns - first))
    }
}

/// Folds rows into `to`.
pub(super) fn fold_outer(reduction: &Reduction, source: Source, to: *mut u8, fold: &dyn AnyFold) {
    let columns = reduction.kept.first().map_or(1, |dim| dim.size as usize);
    let strips = reduction.outputs() / columns * columns.div_ceil(COLUMNS);
    let chunks = reduction.count().div_ceil(ROWS);
    // SAFETY: a fold's accumulators are of the type of its elements.
    let identity = unsafe { fold.identity().repeated(source.size()) };
    let plan = Plan { reduction, source, fold, identity, columns, chunks };
    let to = Shared(to);
    let per_task = columns.min(COLUMNS) * reduction.count().min(ROWS);
    let grain = (GRAIN / per_task).max(1);
    if chunks == 1 {
        parallel_for(0..strips, grain, |range| {
            let mut work = Work::new(plan);
            range.for_each(|strip| {
                work.fold(&Task { strip, chunk: 0 });
                write(&plan, strip, &work.total, to);
            });
        });
        return;
    }
    let words = plan.words();
    let mut partials = scratch::filled(identity, strips * chunks * words);
    let slots = Shared(partials.as_mut_ptr().cast());
    parallel_for(0..strips * chunks, grain, |range| {
        let (mut work, slots) = (Work::new(plan), &slots);
        range.for_each(|index| {
            work.fold(&plan.task(index));
            // SAFETY: the slot of this task is written by nobody else.
            unsafe { slots.0.cast::<Words>().add(index * words).copy_from(work.total.as_ptr(), words) };
        });
    });
    parallel_for(0..strips, (GRAIN / (chunks * COLUMNS)).max(1), |range| {
        let slots = &slots;
        range.for_each(|strip| {
            // SAFETY: the slots of this strip, which no other task touches now.
            let parts = unsafe {
                let first = slots.0.cast::<Words>().add(strip * chunks * words);
                std::slice::from_raw_parts_mut(first, chunks * words)
            };
            write(&plan, strip, combine_rows(&plan, parts), to);
        });
    });
}

/// Combines rows of accumulators as a tree, and returns the first, which then has all of them.
fn combine_rows<'p>(plan: &Plan<'_>, parts: &'p mut [Words]) -> &'p [Words] {
    let words = plan.words();
    let rows = parts.len() / words;
    let mut step = 1;
    while step < rows {
        for row in (0..rows - step).step_by(2 * step) {
            let (before, after) = parts.split_at_mut((row + step) * words);
            combine(plan, &mut before[row * words..][..words], &after[..words], plan.width());
        }
        step *= 2;
    }
    &parts[..words]
}

/// Combines `n` accumulators with those of later elements.
fn combine(plan: &Plan<'_>, to: &mut [Words], from: &[Words], n: usize) {
    debug_assert!(n <= plan.width() && to.len() == plan.words() && from.len() == plan.words());
    // SAFETY: both are rows of as many accumulators as the widest strip has columns.
    unsafe { plan.fold.accumulate_rows(&[from.as_ptr().cast()], to.as_mut_ptr().cast(), n, true) };
}

/// Writes the results of a strip's accumulators.
fn write(plan: &Plan<'_>, strip: usize, row: &[Words], to: Shared) {
    let (_, offset, n) = plan.strip(strip);
    let stride = plan.reduction.kept.first().map_or(0, |dim| dim.output);
    debug_assert!(n <= plan.width() && row.len() == plan.words());
    // SAFETY: the addresses of the output elements of this strip.
    unsafe { plan.fold.write(row.as_ptr().cast(), n, to.0.wrapping_offset(offset), stride as isize) };
}

/// Rows of accumulators; those of few columns need no allocation.
type Accumulators = SmallVec<[Words; 16]>;

/// The buffers of a thread.
struct Work<'r> {
    plan: Plan<'r>,
    level: Accumulators,
    total: Accumulators,
    tile: Accumulators,
    direct: bool,
}

impl<'r> Work<'r> {
    fn new(plan: Plan<'r>) -> Self {
        let direct = plan.source.is_direct(plan.reduction.kept.first().map_or(0, |dim| dim.input));
        let rows = |count: usize| SmallVec::from_elem(plan.identity, count * plan.words());
        Work { plan, level: rows(1), total: rows(1), tile: rows(if direct { 0 } else { TILE_ROWS }), direct }
    }

    fn fold(&mut self, task: &Task) {
        let (offset, _, n) = self.plan.strip(task.strip);
        let start = task.chunk * ROWS;
        let end = self.plan.reduction.count().min(start + ROWS);
        self.total.fill(self.plan.identity);
        let mut counter = DimCounter::new(&self.plan.reduction.reduced, start);
        for first in (start..end).step_by(LEVEL) {
            self.level.fill(self.plan.identity);
            self.fold_level(offset, n, LEVEL.min(end - first), &mut counter);
            combine(&self.plan, &mut self.total, &self.level, n);
        }
    }

    fn fold_level(&mut self, offset: isize, n: usize, rows: usize, counter: &mut DimCounter<'_>) {
        let mut addresses = [std::ptr::null(); LEVEL];
        let group = if self.direct { LEVEL } else { TILE_ROWS };
        for first in (0..rows).step_by(group) {
            let count = group.min(rows - first);
            for (i, address) in addresses[..count].iter_mut().enumerate() {
                *address = self.row(offset + counter.input, n, i);
                counter.advance(1);
            }
            let level = self.level.as_mut_ptr().cast();
            // SAFETY: the rows have `n` elements, and a level takes as many.
            unsafe { self.plan.fold.accumulate_rows(&addresses[..count], level, n, false) };
        }
    }

    /// The address of a row of the input in memory, or of row `index` of the tile, to which it is converted.
    fn row(&mut self, offset: isize, n: usize, index: usize) -> *const u8 {
        if self.direct {
            return self.plan.source.at(offset);
        }
        let to: *mut u8 = self.tile[index * self.plan.words()..].as_mut_ptr().cast();
        let stride = self.plan.reduction.input.size() as i64;
        // SAFETY: the strip has `n` columns, and a row of the tile takes `COLUMNS`.
        unsafe { self.plan.source.copy(offset, stride, to, self.plan.source.size() as i64, n) };
        to
    }
}
