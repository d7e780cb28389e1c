//! The extreme of each column and its first row, where the kept dimension is dense: rows are folded into the extremes of a level, and the
//! columns whose extreme improves search the rows of that level.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::accumulator::Words;
use super::any_fold::AnyFold;
use super::outer::{Plan, Rows, Task};
use super::source::Source;
use super::strips::Shared;
use crate::parallel::parallel_for;
use crate::scratch;
use crate::tensor_iterator::{GRAIN, Reduction};
use crate::vectorized::{CodegenAnchor, Isa, Kernel, Mask, Ordered, OrderedLanes, Vector};

/// The best elements so far of `n` columns, dense, and their rows.
#[derive(Clone, Copy)]
pub(super) struct Best {
    pub(super) values: *mut u8,
    pub(super) indices: *mut i64,
    pub(super) n: usize,
}

/// Some rows, the first of which has number `first`.
pub(super) struct Level<'a> {
    pub(super) rows: &'a [*const u8],
    /// The extreme of each column of the rows.
    pub(super) extremes: *const u8,
    pub(super) first: usize,
    /// Whether there are no rows before.
    pub(super) is_first: bool,
}

/// A comparison of extremes without the type of their elements, so that the loops over dimensions are compiled once.
pub(super) trait AnyExtreme: Sync {
    /// Replaces those of `best` that the level improves.
    ///
    /// # Safety
    /// - The rows and the extremes are valid for reading `best.n` elements, and `best` for writing them.
    unsafe fn improve(&self, level: &Level<'_>, best: Best);

    /// Replaces those of `best` that `later`, from rows after its own, improves.
    ///
    /// # Safety
    /// - Both are valid for `best.n` elements.
    unsafe fn merge(&self, best: Best, later: Best);
}

/// The columns of a level whose extreme is better than the one before it, and the first row that has it.
pub(super) struct ImproveColumns<T> {
    pub(super) rows: *const *const u8,
    pub(super) count: usize,
    pub(super) extremes: *const T,
    pub(super) values: *mut T,
    pub(super) indices: *mut i64,
    pub(super) n: usize,
    pub(super) first: usize,
    pub(super) is_first: bool,
    pub(super) largest: bool,
}

impl<T> CodegenAnchor for ImproveColumns<T> {
    type Anchor = Self;
}

/// Lanes of the largest vector.
const MOST_LANES: usize = 64;

impl<I: Isa, T: OrderedLanes<I>> Kernel<I> for ImproveColumns<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = T::Vector::LANES;
        for at in (0..self.n).step_by(lanes) {
            let left = lanes.min(self.n - at);
            // SAFETY: `left` columns from `at` on are inside the rows and what is kept of them.
            unsafe {
                let extreme = T::load_up_to(self.extremes.add(at), left);
                let mut improved = <T::Vector as Vector>::Mask::first(left);
                if self.is_first {
                    T::store_up_to(extreme, self.values.add(at), left);
                } else {
                    let best = T::load_up_to(self.values.add(at), left);
                    let wins = if self.largest { best.lt(extreme) } else { extreme.lt(best) };
                    improved = improved & !best.ne(best) & (wins | extreme.ne(extreme));
                    if improved.any() {
                        T::store_up_to(T::Vector::select(improved, extreme, best), self.values.add(at), left);
                    }
                }
                find::<I, T>(&self, at, left, extreme, improved);
            }
        }
    }
}

/// Writes the first row that has `extreme`, for the columns `searched` of the `left` from `at` on.
///
/// # Safety
/// - These columns are inside the rows and the indices.
#[inline(always)]
unsafe fn find<I: Isa, T: OrderedLanes<I>>(
    work: &ImproveColumns<T>,
    at: usize,
    left: usize,
    extreme: T::Vector,
    mut searched: <T::Vector as Vector>::Mask,
) {
    const { assert!(T::Vector::LANES <= MOST_LANES) };
    let is_nan = extreme.ne(extreme);
    let mut found = [false; MOST_LANES];
    for row in 0..work.count {
        if !searched.any() {
            return;
        }
        // SAFETY: this function's condition; `found` has an element for each lane.
        unsafe {
            let x = T::load_up_to((*work.rows.add(row)).cast::<T>().add(at), left);
            let here = searched & (x.eq(extreme) | (x.ne(x) & is_nan));
            if here.any() {
                here.store_bool(found.as_mut_ptr(), left);
                let index = (work.first + row) as i64;
                for (lane, _) in found[..left].iter().enumerate().filter(|(_, found)| **found) {
                    work.indices.add(at + lane).write_unaligned(index);
                }
                searched = searched & !here;
            }
        }
    }
}

/// The extremes of the columns, found in parallel; a slot for each task.
struct Slots {
    values: Shared,
    indices: Shared,
    /// Words and indices of a slot.
    words: usize,
    width: usize,
}

impl Slots {
    fn best(&self, task: usize, n: usize) -> Best {
        Best {
            values: self.values.0.wrapping_add(task * self.words * size_of::<Words>()),
            indices: self.indices.0.cast::<i64>().wrapping_add(task * self.width),
            n,
        }
    }
}

/// Where results go: contiguous outputs of one order.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    pub(super) values: Option<Shared>,
    pub(super) indices: Shared,
    /// Bytes of an element of the output for which the geometry was made.
    pub(super) size: usize,
}

/// Finds the extreme of each column, by the fold that computes it.
pub(super) fn arg_outer(
    reduction: &Reduction,
    source: Source,
    outputs: Outputs,
    fold: &dyn AnyFold,
    extreme: &dyn AnyExtreme,
) {
    let folds = [fold];
    let plan = Plan::new(reduction, source, &folds);
    let (tasks, words, width) = (plan.strips() * plan.chunks(), plan.words(), plan.width());
    let mut values = scratch::filled(plan.identity(fold), tasks * words);
    let mut indices = scratch::filled(0i64, tasks * width);
    let slots = Slots {
        values: Shared(values.as_mut_ptr().cast()),
        indices: Shared(indices.as_mut_ptr().cast()),
        words,
        width,
    };
    parallel_for(0..tasks, plan.grain(), |range| {
        let mut rows = Rows::new(plan);
        let mut level = scratch::filled(plan.identity(fold), words);
        for index in range {
            let task = plan.task(index);
            let best = slots.best(index, plan.strip(task.strip).2);
            find_task(&mut rows, &task, &mut level, best, fold, extreme);
        }
    });
    parallel_for(0..plan.strips(), (GRAIN / (plan.chunks() * width)).max(1), |range| {
        for strip in range {
            let (_, offset, n) = plan.strip(strip);
            let best = slots.best(strip * plan.chunks(), n);
            for chunk in 1..plan.chunks() {
                // SAFETY: the slots of this strip, which no other task uses now.
                unsafe { extreme.merge(best, slots.best(strip * plan.chunks() + chunk, n)) };
            }
            write(&plan, fold, outputs, offset, best);
        }
    });
}

/// The best elements of a task's rows and columns.
fn find_task(
    rows: &mut Rows<'_>,
    task: &Task,
    level: &mut [Words],
    best: Best,
    fold: &dyn AnyFold,
    extreme: &dyn AnyExtreme,
) {
    let plan = *rows.plan();
    let (start, identity) = (plan.first_row(task), plan.identity(fold));
    rows.each_group(task, &mut |addresses, n, first| {
        level.fill(identity);
        let extremes: *mut u8 = level.as_mut_ptr().cast();
        // SAFETY: the rows have `n` elements, as many as `best`, and a level and the slots of this task take as many.
        unsafe {
            fold.accumulate_rows(addresses, extremes, n, false);
            extreme.improve(&Level { rows: addresses, extremes, first, is_first: first == start }, best);
        }
    });
}

/// Writes the results of a strip at the byte offset of its first output.
fn write(plan: &Plan<'_>, fold: &dyn AnyFold, outputs: Outputs, offset: isize, best: Best) {
    let stride = plan.output_stride() / outputs.size as isize;
    let element = offset / outputs.size as isize;
    let size = plan.element_size() as isize;
    // SAFETY: the addresses of the output elements of this strip, and a slot of as many.
    unsafe {
        if let Some(values) = outputs.values {
            fold.write(best.values, best.n, values.0.wrapping_offset(element * size), stride * size);
        }
        let to = outputs.indices.0.cast::<i64>();
        for i in 0..best.n {
            let at = element + i as isize * stride;
            to.wrapping_offset(at).write_unaligned(*best.indices.add(i));
        }
    }
}
