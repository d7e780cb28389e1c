//! Indexing of one dimension by a tensor of indices, which `gather`, `scatter`, `index_select` and the rest share: [`DimIndex`] says
//! where elements are, [`DimIndex::gather`] reads them, [`DimIndex::scatter`] writes, adds or compares.

mod adjacent;
mod geometry;
mod row_prefetch;
mod scatter;
mod upcast;

pub(in crate::native) use geometry::DimIndex;
pub(in crate::native) use scatter::Combine;
pub(in crate::native) use upcast::{upcast_if, with_upcast};

use crate::loops::{copy_elements, streaming};
use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::factory::copy;
use crate::native::guarded_slices::{Slices, fill, with_slices};
use crate::native::strided_iter::StridedIter;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types};
use adjacent::adjacent_runs;
use flambeau_core::{DimVec, Result, ScalarType, bail, ensure, shape};
use row_prefetch::{BATCH, RowPrefetch, RowPrefetcher};

/// `index` as i64, refused unless it is an integer of 32 or 64 bits.
pub(crate) fn long_index(name: &str, index: &Tensor) -> Result<Tensor> {
    match index.dtype() {
        ScalarType::I64 => Ok(index.clone()),
        ScalarType::I32 => copy::to_copy(index, Some(ScalarType::I64), None, None, None, false, None),
        other => bail!(Dtype(name, "index"), "Expected dtype int32/int64 for index but got {other}"),
    }
}

/// Sizes and strides; those of a tensor without dimensions are of one dimension of size 1.
pub(crate) fn at_least_1d(tensor: &Tensor) -> (DimVec, DimVec) {
    let (mut sizes, mut strides) = (DimVec::from_slice(tensor.sizes()), DimVec::from_slice(tensor.strides()));
    if sizes.is_empty() {
        sizes.push(1);
        strides.push(1);
    }
    (sizes, strides)
}

/// `to[j] = from[index[j] * stride]`, issuing the prefetches meanwhile.
fn gather_row<B: RawBits>(to: &mut [B], from: &[B], index: &[i64], stride: i64, mut prefetch: RowPrefetch) {
    for (to, index) in to.chunks_mut(BATCH).zip(index.chunks(BATCH)) {
        prefetch.advance();
        for (to, i) in to.iter_mut().zip(index) {
            *to = from[(i * stride) as usize].normalized();
        }
    }
}

/// Elements of a row that is copied, to be addressed by the last bits of an index.
const TABLE: usize = 64;

/// `to[j] = table[index[j]]`, for indices below [`TABLE`], which are not checked again.
fn gather_from_table<B: RawBits>(to: &mut [B], table: &[B; TABLE], index: &[i64]) {
    for (to, i) in to.iter_mut().zip(index) {
        *to = table[(i & (TABLE as i64 - 1)) as usize];
    }
}

/// `to[j] = from[j * step]`.
fn copy_every<B: RawBits>(to: &mut [B], from: &[B], step: usize) {
    match step {
        2 => copy_every_nth::<B, 2>(to, from),
        3 => copy_every_nth::<B, 3>(to, from),
        4 => copy_every_nth::<B, 4>(to, from),
        _ => to.iter_mut().zip(from.iter().step_by(step.max(1))).for_each(|(to, from)| *to = *from),
    }
}

/// `to[j] = from[j * N]`: groups of `N` elements are loaded as vectors.
fn copy_every_nth<B: RawBits, const N: usize>(to: &mut [B], from: &[B]) {
    let (groups, rest) = from.as_chunks::<N>();
    with_processor_vectors(
        #[inline(always)]
        || to.iter_mut().zip(groups).for_each(|(to, group)| *to = group[0]),
    );
    if let (Some(to), Some(from)) = (to.get_mut(groups.len()), rest.first()) {
        *to = *from;
    }
}

/// Copies adjacent elements; one of them without a call.
#[inline]
fn copy_run<B: RawBits>(to: &mut [B], from: &[B]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        (to, from) => copy_elements(from, to),
    }
}

/// Copies rows of up to eight elements, each at the same indices, of which none is worth a call or a loop; else does nothing and
/// returns `false`. `strides` are those of rows and of elements.
fn gather_short_rows<B: RawBits>(to: &mut [B], from: &[B], index: &[i64], strides: [i64; 2]) -> bool {
    match index.len() {
        2 => gather_rows::<B, 2>(to, from, index, strides),
        3 => gather_rows::<B, 3>(to, from, index, strides),
        4 => gather_rows::<B, 4>(to, from, index, strides),
        5 => gather_rows::<B, 5>(to, from, index, strides),
        6 => gather_rows::<B, 6>(to, from, index, strides),
        7 => gather_rows::<B, 7>(to, from, index, strides),
        8 => gather_rows::<B, 8>(to, from, index, strides),
        _ => return false,
    }
    true
}

/// Copies rows of `N` elements, each at the same indices.
fn gather_rows<B: RawBits, const N: usize>(
    to: &mut [B],
    from: &[B],
    index: &[i64],
    [along, stride]: [i64; 2],
) {
    let offsets: [usize; N] = std::array::from_fn(|j| (index[j] * stride) as usize);
    let span = offsets.iter().max().map_or(0, |last| last + 1);
    fill(to, N, |range, part| {
        let rows = range.start / N..range.end / N;
        for (to, r) in part.as_chunks_mut::<N>().0.iter_mut().zip(rows) {
            let row = &from[r * along as usize..][..span];
            *to = std::array::from_fn(|j| row[offsets[j]]);
            B::normalize_all(to);
        }
    });
}

/// Copies rows of up to eight elements, which are not worth the preparations for a row; else does nothing and returns `false`.
/// `stride` is that of the indexed dimension, and the other strides are those of `iter`.
fn gather_in_short_rows<B: RawBits>(
    to: &mut [B],
    from: &[B],
    index: &[i64],
    iter: &StridedIter<2>,
    stride: i64,
) -> bool {
    match iter.row_length() {
        Some(2) => gather_in_rows::<B, 2>(to, from, index, iter, stride),
        Some(3) => gather_in_rows::<B, 3>(to, from, index, iter, stride),
        Some(4) => gather_in_rows::<B, 4>(to, from, index, iter, stride),
        Some(5) => gather_in_rows::<B, 5>(to, from, index, iter, stride),
        Some(6) => gather_in_rows::<B, 6>(to, from, index, iter, stride),
        Some(7) => gather_in_rows::<B, 7>(to, from, index, iter, stride),
        Some(8) => gather_in_rows::<B, 8>(to, from, index, iter, stride),
        _ => return false,
    }
    true
}

/// Copies rows of `N` elements.
fn gather_in_rows<B: RawBits, const N: usize>(
    to: &mut [B],
    from: &[B],
    index: &[i64],
    iter: &StridedIter<2>,
    stride: i64,
) {
    let [step, index_step] = iter.steps();
    let index_span = (N as i64 - 1) * index_step + 1;
    fill(to, N, |range, part| {
        let mut rows = part.as_chunks_mut::<N>().0.iter_mut();
        iter.for_each_row(range.start / N..range.end / N, |[at, index_at]| {
            let Some(to) = rows.next() else { return };
            let index = &index[index_at as usize..][..index_span as usize];
            *to = std::array::from_fn(|j| {
                let offset = at + j as i64 * step + index[j * index_step as usize] * stride;
                from[offset as usize].normalized()
            });
        });
    });
}

impl DimIndex<'_> {
    /// Copies the elements of `from` at `index` to `out`, which is dense over `sizes`. If `out` is `fresh`, nobody sees it after a failure.
    pub(crate) fn gather(&self, from: &Tensor, index: &Tensor, out: &Tensor, fresh: bool) -> Result<()> {
        self.check_unless_fresh(index, fresh)?;
        dispatch_all_types!(moved, from.dtype(), self.name, T => {
            with_slices(self.name, &[from, index], &[out], |s| {
                self.check(s.read::<i64>(1)?)?;
                self.gather_bits::<<T as ElementBits>::Bits>(s)
            })
        })
    }

    /// Checks the index before a guard for writing increments the version of a tensor that somebody sees after a failure. It is checked
    /// again under the guard, since another thread may write it meanwhile.
    fn check_unless_fresh(&self, index: &Tensor, fresh: bool) -> Result<()> {
        if fresh {
            return Ok(());
        }
        with_slices(self.name, &[index], &[], |s| self.check(s.read::<i64>(0)?))
    }

    fn gather_bits<B: RawBits>(&self, s: &Slices<'_>) -> Result<()> {
        let (from, index, out) = (s.read::<B>(0)?, s.read::<i64>(1)?, s.write::<B>(0)?);
        let iter = StridedIter::new(self.sizes, [self.strides, self.index_strides]);
        let ([step, index_step], stride) = (iter.steps(), self.stride);
        if let (Some((width, [0, along])), [1, 0]) = (iter.as_matrix(), [step, index_step]) {
            // An index selects a whole row: copies of rows, with non-temporal stores for large results.
            let source = |r: usize| &from[(index[r * along as usize] * stride) as usize..][..width];
            let streams = streaming::should_stream(size_of_val(out), || 1);
            fill(out, width, |range, part| {
                let first = range.start / width;
                streaming::copy_rows(part, width, streams, |r| source(first + r));
                B::normalize_all(part);
            });
            return Ok(());
        }
        if let (Some((width, [along, 0])), [0, 1]) = (iter.as_matrix(), [step, index_step])
            && gather_short_rows(out, from, &index[..width], [along, stride])
        {
            return Ok(());
        }
        if let (Some((width, [along, 0])), [0, 1], 1) = (iter.as_matrix(), [step, index_step], stride)
            && let Some(runs) = adjacent_runs(&index[..width])?
        {
            // Every row at the same indices, of which many are adjacent.
            fill(out, width, |range, part| {
                for (row, r) in part.chunks_exact_mut(width).zip(range.start / width..) {
                    let source = &from[r * along as usize..][..self.size as usize];
                    for run in &runs {
                        copy_run(&mut row[run.at..][..run.count], &source[run.first as usize..][..run.count]);
                    }
                }
                B::normalize_all(part);
            });
            return Ok(());
        }
        if gather_in_short_rows(out, from, index, &iter, stride) {
            return Ok(());
        }
        fill(out, 1, |range, mut part| {
            let mut prefetcher = RowPrefetcher::default();
            iter.for_each_run(range, |[at, index_at], n| {
                let (row, rest) = std::mem::take(&mut part).split_at_mut(n);
                part = rest;
                if index_step == 0 && step == 1 {
                    let start = (at + index[index_at as usize] * stride) as usize;
                    copy_elements(&from[start..start + n], row);
                    return B::normalize_all(row);
                }
                if index_step == 0 && step > 1 {
                    let start = (at + index[index_at as usize] * stride) as usize;
                    copy_every(row, &from[start..][..(n - 1) * step as usize + 1], step as usize);
                    return B::normalize_all(row);
                }
                if index_step == 1 && step == 0 && self.size <= TABLE as i64 && n > 2 * TABLE {
                    // Indices were checked, so those that are written meanwhile read any element of the table.
                    let mut table = [B::zeroed(); TABLE];
                    for (to, i) in table.iter_mut().zip(0..self.size) {
                        *to = from[(at + i * stride) as usize];
                    }
                    gather_from_table(row, &table, &index[index_at as usize..][..n]);
                    return B::normalize_all(row);
                }
                if index_step == 1 && step == 0 {
                    let (source, index) = (&from[at as usize..], &index[index_at as usize..][..n]);
                    let prefetch = match stride {
                        1 => prefetcher.start_row(from.as_ptr(), at, self.size as usize, n),
                        _ => RowPrefetch::NONE,
                    };
                    return gather_row(row, source, index, stride, prefetch);
                }
                for (to, j) in row.iter_mut().zip(0i64..) {
                    let offset = at + j * step + index[(index_at + j * index_step) as usize] * stride;
                    *to = from[offset as usize].normalized();
                }
            });
        });
        Ok(())
    }
}

/// Refuses to write into a tensor in which several indices refer to one memory location, as after `expand`.
pub(crate) fn ensure_written_once(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        !shape::has_internal_overlap(self_.sizes(), self_.strides()),
        Aliasing(name, "self"),
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation."
    );
    Ok(())
}
