//! Reductions whose kept dimension is dense: rows of accumulators stay in cache while the rows of the input pass by.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::blocks::{FoldRows, Folding};
use super::{LineFold, Source, Steps};
use crate::parallel::parallel_for;
use crate::tensor_iterator::{GRAIN, Reduction};
use crate::vectorized::{Convert, EveryIsa, dispatch};
use flambeau_core::Element;
use std::marker::PhantomData;

/// Columns of a task: a page of f32, so that a row of the input costs no more than one translation of an address.
const COLUMNS: usize = 1024;
/// Rows folded into the first row of accumulators before it goes into the second.
const LEVEL: usize = 64;
/// Rows of a task.
const ROWS: usize = 16 * LEVEL;
/// Rows converted at a time.
const TILE_ROWS: usize = 8;
/// Columns below which lines are gathered instead.
const LEAST: usize = 8;

/// Whether the kept dimension lies densely, within the reduced ones.
pub(super) fn suits(reduction: &Reduction) -> bool {
    match (reduction.kept.first(), reduction.reduced.first()) {
        (Some(kept), Some(reduced)) => {
            kept.input == reduction.input.size() as i64
                && kept.input < reduced.input
                && kept.size as usize >= LEAST
                && reduction.count() > 0
                && reduction.outputs() > 0
        }
        _ => false,
    }
}

/// An address that the guards of the calling thread protect, or of memory that its tasks share out.
#[derive(Clone, Copy)]
struct Shared(*mut u8);

// SAFETY: every task writes its own part.
unsafe impl Sync for Shared {}

/// The cutting of a reduction into tasks: columns, then rows, then whatever else is kept.
#[derive(Clone, Copy)]
struct Plan<'r> {
    reduction: &'r Reduction,
    source: Source,
    columns: usize,
    chunks: usize,
}

/// A task: the columns of one strip, the rows of one chunk.
struct Task {
    strip: usize,
    chunk: usize,
}

impl Plan<'_> {
    fn task(&self, index: usize) -> Task {
        Task { strip: index / self.chunks, chunk: index % self.chunks }
    }

    /// The offsets of a strip's first column, and how many there are.
    fn strip(&self, strip: usize) -> (isize, isize, usize) {
        let in_row = self.columns.div_ceil(COLUMNS);
        let first = strip % in_row * COLUMNS;
        let steps = Steps::new(&self.reduction.kept, strip / in_row * self.columns + first);
        (steps.input, steps.output, COLUMNS.min(self.columns - first))
    }
}

/// Folds rows into `to`.
pub(super) fn fold_columns<T, F>(reduction: &Reduction, source: Source, to: *mut u8, fold: Folding<T, F>)
where
    T: Element + Convert,
    F: Copy + Send + Sync,
    FoldRows<T, F>: EveryIsa,
    Folding<T, F>: LineFold<1, State = T>,
{
    let columns = reduction.kept.first().map_or(1, |dim| dim.size as usize);
    let strips = reduction.outputs() / columns * columns.div_ceil(COLUMNS);
    let chunks = reduction.count().div_ceil(ROWS);
    let plan = Plan { reduction, source, columns, chunks };
    let to = Shared(to);
    let per_task = columns.min(COLUMNS) * reduction.count().min(ROWS);
    let grain = (GRAIN / per_task).max(1);
    if chunks == 1 {
        parallel_for(0..strips, grain, |range| {
            let mut work = Work::new(plan, fold);
            range.for_each(|strip| {
                work.fold(&Task { strip, chunk: 0 });
                write(&plan, strip, &work.total, to, fold);
            });
        });
        return;
    }
    let mut partials = vec![fold.identity; strips * chunks * COLUMNS];
    let slots = Shared(partials.as_mut_ptr().cast());
    parallel_for(0..strips * chunks, grain, |range| {
        let (mut work, slots) = (Work::new(plan, fold), &slots);
        range.for_each(|index| {
            work.fold(&plan.task(index));
            // SAFETY: the slot of this task is written by nobody else.
            unsafe { slots.0.cast::<T>().add(index * COLUMNS).copy_from(work.total.as_ptr(), COLUMNS) };
        });
    });
    parallel_for(0..strips, (GRAIN / (chunks * COLUMNS)).max(1), |range| {
        let slots = &slots;
        range.for_each(|strip| {
            // SAFETY: the slots of this strip, which no other task touches now.
            let parts = unsafe {
                let first = slots.0.cast::<T>().add(strip * chunks * COLUMNS);
                std::slice::from_raw_parts_mut(first, chunks * COLUMNS)
            };
            write(&plan, strip, combine_rows(parts, fold), to, fold);
        });
    });
}

/// Rows of accumulators, joined as a tree; the first of them in the end.
fn combine_rows<T: Element, F: Copy>(parts: &mut [T], fold: Folding<T, F>) -> &[T]
where
    FoldRows<T, F>: EveryIsa,
{
    let rows = parts.len() / COLUMNS;
    let mut step = 1;
    while step < rows {
        for row in (0..rows - step).step_by(2 * step) {
            let (before, after) = parts.split_at_mut((row + step) * COLUMNS);
            combine(&mut before[row * COLUMNS..][..COLUMNS], &after[..COLUMNS], fold);
        }
        step *= 2;
    }
    &parts[..COLUMNS]
}

fn combine<T: Element, F: Copy>(to: &mut [T], from: &[T], fold: Folding<T, F>)
where
    FoldRows<T, F>: EveryIsa,
{
    let rows = [from.as_ptr().cast::<u8>()];
    fold_rows(&rows, to, to.len().min(from.len()), true, fold);
}

/// Folds `n` columns of `rows` into `to`.
fn fold_rows<T: Element, F: Copy>(
    rows: &[*const u8],
    to: &mut [T],
    n: usize,
    accumulators: bool,
    fold: Folding<T, F>,
) where
    FoldRows<T, F>: EveryIsa,
{
    let (rows, count, to) = (rows.as_ptr(), rows.len(), to.as_mut_ptr());
    // SAFETY: every caller's rows hold `n` elements, and `to` does.
    unsafe {
        dispatch(FoldRows { rows, count, to, n, accumulators, lanes: fold.lanes, element: PhantomData })
    }
}

fn write<T, F>(plan: &Plan<'_>, strip: usize, row: &[T], to: Shared, fold: Folding<T, F>)
where
    T: Element + Copy,
    Folding<T, F>: LineFold<1, State = T>,
{
    let (_, offset, n) = plan.strip(strip);
    let stride = plan.reduction.kept.first().map_or(0, |dim| dim.output);
    for (i, &value) in row.iter().take(n).enumerate() {
        let to = to.0.wrapping_offset(offset + (i as i64 * stride) as isize);
        // SAFETY: the address of an output element of this strip.
        unsafe { fold.write(value, [to]) };
    }
}

/// What a thread needs for its tasks.
struct Work<'r, T, F> {
    plan: Plan<'r>,
    fold: Folding<T, F>,
    level: Vec<T>,
    total: Vec<T>,
    tile: Vec<T>,
    direct: bool,
}

impl<'r, T, F> Work<'r, T, F>
where
    T: Element + Convert,
    F: Copy + Send + Sync,
    FoldRows<T, F>: EveryIsa,
{
    fn new(plan: Plan<'r>, fold: Folding<T, F>) -> Self {
        let direct = plan.source.is_direct(plan.reduction.kept.first().map_or(0, |dim| dim.input));
        let row = || vec![fold.identity; COLUMNS];
        let tile = if direct { vec![] } else { vec![fold.identity; TILE_ROWS * COLUMNS] };
        Work { plan, fold, level: row(), total: row(), tile, direct }
    }

    fn fold(&mut self, task: &Task) {
        let (offset, _, n) = self.plan.strip(task.strip);
        let start = task.chunk * ROWS;
        let end = self.plan.reduction.count().min(start + ROWS);
        self.total.fill(self.fold.identity);
        let mut steps = Steps::new(&self.plan.reduction.reduced, start);
        for first in (start..end).step_by(LEVEL) {
            self.level.fill(self.fold.identity);
            self.fold_level(offset, n, LEVEL.min(end - first), &mut steps);
            combine(&mut self.total[..n], &self.level[..n], self.fold);
        }
    }

    fn fold_level(&mut self, offset: isize, n: usize, rows: usize, steps: &mut Steps<'_>) {
        let mut addresses = [std::ptr::null(); LEVEL];
        let group = if self.direct { LEVEL } else { TILE_ROWS };
        for first in (0..rows).step_by(group) {
            let count = group.min(rows - first);
            for (i, address) in addresses[..count].iter_mut().enumerate() {
                *address = self.row(offset + steps.input, n, i);
                steps.advance(1);
            }
            fold_rows(&addresses[..count], &mut self.level, n, false, self.fold);
        }
    }

    /// A row of the input where it is, or converted into row `place` of the tile.
    fn row(&mut self, offset: isize, n: usize, place: usize) -> *const u8 {
        if self.direct {
            return self.plan.source.at(offset);
        }
        let to: *mut u8 = self.tile[place * COLUMNS..].as_mut_ptr().cast();
        let stride = self.plan.reduction.input.size() as i64;
        // SAFETY: the strip has `n` columns, and a row of the tile takes `COLUMNS`.
        unsafe { self.plan.source.copy(offset, stride, to, size_of::<T>() as i64, n) };
        to
    }
}
