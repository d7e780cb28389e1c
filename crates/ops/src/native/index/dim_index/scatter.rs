//! Writes to elements at given indices: assignment, sum, product, maximum or minimum.
//!
//! Threads split a dimension that is not indexed. So they write disjoint elements, and each element is combined in the order of the
//! indices: results do not depend on the number of threads.
#![expect(unsafe_code, reason = "threads write disjoint elements of one slice")]

use super::adjacent::{AdjacentRun, adjacent_runs};
use super::geometry::DimIndex;
use super::row_prefetch::{BATCH, RowPrefetch, RowPrefetcher};
use crate::loops::streaming::prefetch_bytes;
use crate::native::element_bits::{ElementBits, Numeric, RawBits, Sortable};
use crate::native::guarded_slices::{Slices, non_aliasing, with_slices};
use crate::native::strided_iter::StridedIter;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, bail};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The elements of the output. Threads share it, and write disjoint elements: see [`DimIndex::parallel_dim`].
struct Output<'g, N> {
    first: *mut N,
    len: usize,
    elements: PhantomData<&'g mut [N]>,
}

// SAFETY: threads access disjoint elements.
unsafe impl<N: Send> Sync for Output<'_, N> {}

/// The elements that a run may write: at offsets `at + j * step + i * stride`, for `j` below `n` and indices `i` below `size`.
struct OutputRun {
    at: i64,
    step: i64,
    n: usize,
    stride: i64,
    size: i64,
}

impl OutputRun {
    fn is_valid_index(&self, i: i64) -> bool {
        (i as u64) < self.size as u64
    }

    /// Whether all elements of the run, at whatever valid index, are inside a slice of `len` elements.
    fn is_inside(&self, len: usize) -> bool {
        let ends = [self.step * (self.n as i64 - 1), self.stride * (self.size - 1)];
        let min: i64 = ends.iter().map(|end| end.min(&0)).sum();
        let max: i64 = ends.iter().map(|end| end.max(&0)).sum();
        self.size > 0 && self.at + min >= 0 && self.at + max < len as i64
    }
}

/// The indices and the source elements of a run, and their strides.
struct SourceRun<'a, N> {
    index: &'a [i64],
    index_step: i64,
    from: &'a [N],
    from_step: i64,
}

impl<'g, N: Numeric> Output<'g, N> {
    fn new(elements: &'g mut [N]) -> Self {
        Output { first: elements.as_mut_ptr(), len: elements.len(), elements: PhantomData }
    }

    /// Combines source elements with those of the output; false where an index, or the run itself, is out of range.
    ///
    /// # Safety
    /// - (own) No other thread accesses the elements of the output that the run and its indices select.
    #[inline(always)]
    unsafe fn scatter_run(
        &self,
        run: &OutputRun,
        source: &SourceRun<'_, N>,
        prefetcher: &mut RowPrefetcher,
        combine: impl Fn(N, N) -> N,
    ) -> bool {
        if !run.is_inside(self.len) {
            return false;
        }
        let first = self.first.wrapping_offset(run.at as isize);
        // SAFETY: (own); the run is inside the elements.
        unsafe {
            match [run.step, source.index_step, source.from_step] {
                [1, 0, 1] => scatter_slice(first, run, source, combine),
                [_, 0, _] => scatter_column(first, run, source, combine),
                [0, 1, 1] if run.stride == 1 && run.n >= MIN_ROW => {
                    let prefetch = prefetcher.start_row(self.first, run.at, run.size as usize, run.n);
                    scatter_in_row(first, run, source, prefetch, combine)
                }
                _ => scatter_strided(first, run, source, combine),
            }
        }
    }
}

impl<N: Numeric> Output<'_, N> {
    /// As [`scatter_run`](Output::scatter_run), of indices of which many are adjacent.
    ///
    /// # Safety
    /// - (own) As there.
    #[inline(always)]
    unsafe fn scatter_adjacent(
        &self,
        run: &OutputRun,
        runs: &[AdjacentRun],
        from: &[N],
        combine: impl Fn(N, N) -> N,
    ) -> bool {
        if !run.is_inside(self.len) {
            return false;
        }
        for &AdjacentRun { at, first, count } in runs {
            let is_valid = run.is_valid_index(first) && count as i64 <= run.size - first;
            if !is_valid {
                return false;
            }
            let to = self.first.wrapping_offset((run.at + first) as isize);
            // SAFETY: (own); the indices are valid, and elements at them are inside and dense.
            let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
            to.iter_mut().zip(&from[at..]).for_each(|(to, from)| *to = combine(*to, *from));
        }
        true
    }
}

/// One index for the whole run: dense elements are combined with dense elements.
///
/// # Safety
/// - As [`scatter_strided`].
#[inline(always)]
unsafe fn scatter_slice<N: Numeric>(
    first: *mut N,
    run: &OutputRun,
    source: &SourceRun<'_, N>,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let i = source.index[0];
    if !run.is_valid_index(i) {
        return false;
    }
    // SAFETY: the elements at that index are inside, and dense.
    let to = unsafe { std::slice::from_raw_parts_mut(first.offset((i * run.stride) as isize), run.n) };
    to.iter_mut().zip(source.from).for_each(|(to, from)| *to = combine(*to, *from));
    true
}

/// One index for the whole run, and elements that are not dense.
///
/// # Safety
/// - As [`scatter_strided`].
#[inline(always)]
unsafe fn scatter_column<N: Numeric>(
    first: *mut N,
    run: &OutputRun,
    source: &SourceRun<'_, N>,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let SourceRun { index, from, from_step, .. } = *source;
    let (i, step) = (index[0], run.step as isize);
    if !run.is_valid_index(i) {
        return false;
    }
    let first = first.wrapping_offset((i * run.stride) as isize);
    for j in 0..run.n {
        let new = from[j * from_step as usize];
        // SAFETY: (inside): the elements of the run at that index.
        unsafe {
            let to = first.offset(j as isize * step);
            *to = combine(*to, new);
        }
    }
    true
}

/// Indices and source elements that are loaded before the first of them is combined, so that these loads do not depend on the stores.
const GROUP: usize = 4;
/// The prefetch distance of source elements, in bytes; that of indices is twice as long.
const PREFETCH_DISTANCE: usize = 1024;

/// Dense indices into one dense row of the output, issuing the prefetches meanwhile. A function of its own, whose values stay in
/// registers: inlined, the compiler would load them again after each store.
///
/// # Safety
/// - As [`scatter_strided`].
#[inline(never)]
unsafe fn scatter_in_row<N: Numeric>(
    first: *mut N,
    run: &OutputRun,
    source: &SourceRun<'_, N>,
    mut prefetch: RowPrefetch,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let (size, n) = (run.size as u64, run.n);
    let (index, from) = (&source.index[..n], &source.from[..n]);
    // SAFETY: `i` is below `size`, so the element is inside the row.
    let put = |i: i64, new: N| unsafe {
        let to = first.add(i as usize);
        *to = combine(*to, new);
    };
    let ((index_batches, index), (from_batches, from)) =
        (index.as_chunks::<BATCH>(), from.as_chunks::<BATCH>());
    for (index, from) in index_batches.iter().zip(from_batches) {
        prefetch.advance();
        prefetch_bytes(index.as_ptr().cast::<u8>().wrapping_add(2 * PREFETCH_DISTANCE), size_of_val(index));
        prefetch_bytes(from.as_ptr().cast::<u8>().wrapping_add(PREFETCH_DISTANCE), size_of_val(from));
        for (index, new) in index.as_chunks::<GROUP>().0.iter().zip(from.as_chunks::<GROUP>().0) {
            let ([a, b, c, d], [new_a, new_b, new_c, new_d]) = (*index, *new);
            if [a, b, c, d].iter().any(|&i| i as u64 >= size) {
                return false;
            }
            put(a, new_a);
            put(b, new_b);
            put(c, new_c);
            put(d, new_d);
        }
    }
    for (&i, &new) in index.iter().zip(from) {
        if i as u64 >= size {
            return false;
        }
        put(i, new);
    }
    true
}

/// Any strides.
///
/// # Safety
/// - (inside) The elements of the run at valid indices, counted from `first`, are valid, and no other thread accesses them.
#[inline(always)]
unsafe fn scatter_strided<N: Numeric>(
    first: *mut N,
    run: &OutputRun,
    source: &SourceRun<'_, N>,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let (step, stride) = (run.step, run.stride);
    let SourceRun { index, index_step, from, from_step } = *source;
    for j in 0..run.n as i64 {
        let i = index[(j * index_step) as usize];
        if !run.is_valid_index(i) {
            return false;
        }
        // SAFETY: (inside).
        unsafe {
            let to = first.offset((j * step + i * stride) as isize);
            *to = combine(*to, from[(j * from_step) as usize]);
        }
    }
    true
}

/// Adjacent elements that a thread takes at least, where threads split a dense dimension inside the indexed one: otherwise two threads
/// would write the same cache lines (false sharing).
const MIN_ADJACENT: usize = 128;

/// The most indices of a row for runs of one index and many rows.
const MAX_COLUMNS: i64 = 16;
/// Indices of a row that are worth a call.
const MIN_ROW: usize = 8;
/// Source elements of a block of rows, whose columns are read one after the other.
const BLOCK_BYTES: usize = 4096;
/// Rows of a block that are worth the preparations for a run.
const MIN_ROWS: usize = 8;

impl DimIndex<'_> {
    /// Combines the elements of `to` at `index` with those of `from`, in row-major order of `sizes`: the last of equal indices wins,
    /// and sums are reproducible. If `to` is `fresh`, nobody sees it after a failure: indices are then checked during the writes
    /// only, and not before the first.
    pub(in crate::native) fn scatter(
        &self,
        to: &Tensor,
        index: &Tensor,
        (from, from_strides): (&Tensor, &[i64]),
        how: Combine,
        fresh: bool,
    ) -> Result<()> {
        let (index, from) = (non_aliasing(index, to)?, non_aliasing(from, to)?);
        self.check_unless_fresh(&index, fresh)?;
        let under_guards = |scatter: &dyn Fn(&Slices<'_>) -> Result<bool>| {
            with_slices(self.name, &[&from, &index], &[to], |s| {
                if !fresh {
                    self.check(s.read::<i64>(1)?)?;
                }
                if !scatter(s)? {
                    self.check(s.read::<i64>(1)?)?;
                    bail!(Internal(self.name), "an offset is outside of the tensor");
                }
                Ok(())
            })
        };
        if matches!(how, Combine::Maximum | Combine::Minimum) {
            return dispatch_all_types!(ordered, to.dtype(), self.name, T => {
                type N = <T as ElementBits>::Number;
                under_guards(&|s| match how {
                    Combine::Maximum => self.scatter_numbers::<N>(s, from_strides, |a, b| maximum(a, b).normalized()),
                    _ => self.scatter_numbers::<N>(s, from_strides, |a, b| minimum(a, b).normalized()),
                })
            });
        }
        if how == Combine::Assign {
            return dispatch_all_types!(moved, to.dtype(), self.name, T => {
                type N = <T as ElementBits>::Number;
                under_guards(&|s| self.scatter_numbers::<N>(s, from_strides, |_, new| new.normalized()))
            });
        }
        dispatch_all_types!(wrapping, to.dtype(), self.name, T => {
            type N = <T as ElementBits>::Number;
            under_guards(&|s| match how {
                Combine::Multiply => self.scatter_numbers::<N>(s, from_strides, N::times),
                _ => self.scatter_numbers::<N>(s, from_strides, N::plus),
            })
        })
    }

    /// False if an index is out of range; then only a part of the elements is written.
    fn scatter_numbers<N: Numeric>(
        &self,
        s: &Slices<'_>,
        from_strides: &[i64],
        combine: impl Fn(N, N) -> N + Sync,
    ) -> Result<bool> {
        let (from, index, to) = (s.read::<N>(0)?, s.read::<i64>(1)?, Output::new(s.write::<N>(0)?));
        let outside = AtomicBool::new(false);
        let (dim, grain) = self.parallel_dim();
        let count = dim.map_or(1, |d| self.sizes[d] as usize);
        let block = dim.and_then(|d| self.block_of_columns(d, size_of::<N>()));
        let runs = if block.is_some() { None } else { self.shared_runs(index, from_strides)? };
        let order = self.order(block.is_some());
        let strides = [self.strides, self.index_strides, from_strides];
        let scatter = |part: Range<usize>| {
            let (iter, first) = self.part(strides, dim, part, &order);
            let ([step, index_step, from_step], mut prefetcher) = (iter.steps(), RowPrefetcher::default());
            let n = iter.dims().last().map_or(1, |(width, _)| *width);
            iter.for_each_row(0..iter.numel() / n.max(1), |[at, index_at, from_at]| {
                if outside.load(Ordering::Relaxed) {
                    return;
                }
                let run = OutputRun { at: first[0] + at, step, n, stride: self.stride, size: self.size };
                let (index, from) =
                    (&index[(first[1] + index_at) as usize..], &from[(first[2] + from_at) as usize..]);
                let source = SourceRun { index, index_step, from, from_step };
                // SAFETY: (own): parts have disjoint indices along `dim`.
                let is_inside = unsafe {
                    match &runs {
                        Some(runs) => to.scatter_adjacent(&run, runs, from, &combine),
                        None => to.scatter_run(&run, &source, &mut prefetcher, &combine),
                    }
                };
                if !is_inside {
                    outside.store(true, Ordering::Relaxed);
                }
            });
        };
        let block = block.unwrap_or(count).max(1);
        parallel_for(0..count, grain, |part| {
            part.clone().step_by(block).for_each(|start| scatter(start..part.end.min(start + block)));
        });
        Ok(!outside.into_inner())
    }

    /// If all rows have the same few indices: how many elements along `dim`, inside of which there are other rows, are a block whose
    /// columns are worth a run each. The elements at one index have no order, so runs may be of one index and many rows.
    fn block_of_columns(&self, dim: usize, size: usize) -> Option<usize> {
        let mut dims = (0..self.sizes.len()).filter(|d| self.sizes[*d] > 1);
        let last = dims.next_back()?;
        let is_short =
            self.index_strides[last] != 0 && self.strides[last] == 0 && self.sizes[last] <= MAX_COLUMNS;
        let is_shared = dims.all(|d| self.index_strides[d] == 0 && self.strides[d] != 0);
        let each = self.sizes.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, n)| *n as usize);
        let block = BLOCK_BYTES / each.product::<usize>().saturating_mul(size).max(1);
        (is_short && is_shared && block >= MIN_ROWS && self.sizes[dim] as usize >= MIN_ROWS).then_some(block)
    }

    /// The dimensions, outermost first, of which the last is outermost if runs are `columns`.
    fn order(&self, columns: bool) -> SmallVec<[usize; 6]> {
        let rank = self.sizes.len();
        let last = (0..rank).rfind(|d| self.sizes[*d] > 1).filter(|_| columns);
        last.into_iter().chain((0..rank).filter(|d| Some(*d) != last)).collect()
    }

    /// The runs of adjacent indices, if all rows have the same indices of a dense dimension, and many of these are adjacent.
    fn shared_runs(&self, index: &[i64], from_strides: &[i64]) -> Result<Option<Vec<AdjacentRun>>> {
        let (Some((&count, _)), Some((&1, outer)), Some(1)) =
            (self.sizes.split_last(), self.index_strides.split_last(), from_strides.last())
        else {
            return Ok(None);
        };
        let is_shared = outer.iter().all(|stride| *stride == 0);
        let is_of_indices_alone = self.strides.last() == Some(&0) && self.stride == 1;
        if !is_shared || !is_of_indices_alone {
            return Ok(None);
        }
        adjacent_runs(&index[..count as usize])
    }

    /// The dimension that threads split, and the grain size: the largest of those along which the elements of `to` are distinct
    /// whatever the indices are.
    fn parallel_dim(&self) -> (Option<usize>, usize) {
        let distinct = (0..self.sizes.len()).filter(|&d| self.strides[d] != 0 && self.sizes[d] > 1);
        let Some(dim) = distinct.rev().max_by_key(|&d| self.sizes[d]) else { return (None, 1) };
        let each: usize =
            self.sizes.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, n)| *n as usize).product();
        let is_inside_indexed = self.index_strides[..dim].iter().any(|stride| *stride != 0);
        let min_grain = if is_inside_indexed && self.strides[dim] == 1 { MIN_ADJACENT } else { 1 };
        (Some(dim), (GRAIN / each.max(1)).max(min_grain))
    }

    /// The iteration over a part of dimension `dim`, in an order of dimensions, and the offsets of its first elements.
    fn part(
        &self,
        strides: [&[i64]; 3],
        dim: Option<usize>,
        part: Range<usize>,
        order: &[usize],
    ) -> (StridedIter<3>, [i64; 3]) {
        let mut sizes = DimVec::from_slice(self.sizes);
        let first = dim.map_or([0; 3], |d| {
            sizes[d] = part.len() as i64;
            strides.map(|strides| strides[d] * part.start as i64)
        });
        let ordered = |of: &[i64]| order.iter().map(|d| of[*d]).collect::<DimVec>();
        let strides = strides.map(ordered);
        (StridedIter::new(&ordered(&sizes), strides.each_ref().map(DimVec::as_slice)), first)
    }
}

/// How a source element is combined with an element of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) enum Combine {
    Assign,
    Add,
    Multiply,
    Maximum,
    Minimum,
}

impl Combine {
    /// Whether to accumulate in f32: sums and products of half precision.
    pub(in crate::native) fn needs_upcast(self, dtype: ScalarType) -> bool {
        matches!(self, Combine::Add | Combine::Multiply) && dtype.is_reduced_floating_point()
    }
}

/// NaN if either is.
fn maximum<N: Sortable>(a: N, b: N) -> N {
    if b.sort_key() > a.sort_key() { b } else { a }
}

/// NaN if either is.
fn minimum<N: Sortable>(a: N, b: N) -> N {
    let nan = N::of(Scalar::Float(f64::NAN)).sort_key();
    let is_nan = |x: N| N::HAS_NAN && x.sort_key() == nan;
    if !is_nan(a) && (is_nan(b) || b.sort_key() < a.sort_key()) { b } else { a }
}
