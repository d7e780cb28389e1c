//! `sort`, `argsort`, `msort` and `topk`: stable, with NaN as the maximum.
//!
//! Elements are sorted as integers that hold the sort key of the element in the upper bits and its index in the lower ones. So equal
//! elements keep their order whatever the algorithm is, and results do not depend on the number of threads.

mod first_k;
mod item;
mod short_rows;

use crate::native::element_bits::{ElementBits, Sortable};
use crate::native::factory::copy;
use crate::native::factory::empty_full::dense_strides;
use crate::native::guarded_slices::with_slices;
use crate::native::index::gather_scatter::into_dense;
use crate::native::index::signed_order;
use crate::native::shape::view;
use crate::native::short_rows::MAX_SHORT_LEN;
use crate::parallel::{for_each_task, num_threads, parallel_for};
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use first_k::{Candidates, FindBefore, select_first_k};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, ensure, shape};
use item::{Item, RADIX};
use short_rows::order_short_rows;
use std::sync::Mutex;

/// Rows of at least as many elements are sorted by radix sort.
const RADIX_MIN_LEN: usize = 700;

/// Rows of at least as many elements are sorted by several threads.
const PARALLEL_MIN_LEN: usize = 1 << 17;
/// With so few threads one thread sorts a row: radix sort is several times as fast as distributing the row to buckets.
const SEQUENTIAL_MAX_THREADS: usize = 4;

/// Sorts items that are in the order of their indices.
fn sort_items<I: Item>(items: &mut Vec<I>) {
    let sequential = items.len() < PARALLEL_MIN_LEN || num_threads() <= SEQUENTIAL_MAX_THREADS;
    if sequential { radix_sort(items) } else { sample_sort(items) }
}

/// Sample sort: items are distributed to buckets, whose bounds are quantiles of a sample of the items, and threads sort the buckets.
/// The sample is taken at fixed intervals, so the buckets do not depend on the number of threads.
fn sample_sort<I: Item>(items: &mut Vec<I>) {
    let step = items.len() / (BUCKETS * OVERSAMPLING);
    let mut sample = scratch::collect(items.iter().step_by(step).copied());
    sample.sort_unstable();
    let bounds = scratch::collect(sample.iter().skip(OVERSAMPLING).step_by(OVERSAMPLING).copied());
    let mut buckets = scratch::filled(Vec::new(), bounds.len() + 1);
    for item in items.iter() {
        scratch::push(&mut buckets[bounds.partition_point(|bound| bound <= item)], *item);
    }
    for_each_task(scratch::collect(buckets.iter_mut()), radix_sort);
    items.clear();
    buckets.iter().for_each(|bucket| items.extend_from_slice(bucket));
}

/// Buckets of a sample sort, and items in the sample for each of them.
const BUCKETS: usize = 64;
const OVERSAMPLING: usize = 16;

/// Sorts items that are in the order of their indices, long rows by radix sort.
fn radix_sort<I: Item>(items: &mut Vec<I>) {
    if items.len() < RADIX_MIN_LEN {
        return items.sort_unstable();
    }
    // Least significant digit first (Knuth, The Art of Computer Programming 3, 5.2.5): each pass keeps the order of the one before.
    let mut other = scratch::to_vec(items);
    for number in 0..I::DIGITS {
        let mut starts = [0u32; RADIX]; // No row has more items.
        items.iter().for_each(|item| starts[item.digit(number)] += 1);
        if starts.contains(&(items.len() as u32)) {
            continue;
        }
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        for item in items.iter() {
            let slot = &mut starts[item.digit(number)];
            other[*slot as usize] = *item;
            *slot += 1;
        }
        std::mem::swap(items, &mut other);
    }
}

/// Moves the first `k` items to the front, in order.
fn select_items<I: Item>(items: &mut Vec<I>, k: usize) {
    if k >= items.len() / 2 {
        return sort_items(items);
    }
    items.select_nth_unstable(k - 1);
    items[..k].sort_unstable();
}

/// For each row of `n` values the first `k` in sorted order, and their indices.
fn order_rows<T: ElementBits<Number: Sortable>, I: Item>(
    values: &[T::Number],
    (sorted, indices): (&mut [T::Number], &mut [i64]),
    (n, k): (usize, usize),
    descending: bool,
) where
    FindBefore<T>: EveryIsa<Candidates>,
{
    if n <= MAX_SHORT_LEN {
        return order_short_rows(values, (sorted, indices), (n, k), descending);
    }
    let rows = indices.len() / k;
    // Threads take rows dynamically: a lock gives access to each row of the results, without contention.
    let targets = scratch::collect(sorted.chunks_mut(k).zip(indices.chunks_mut(k)).map(Mutex::new));
    parallel_for(0..rows, (GRAIN / 8 / n).max(1), |part| {
        let mut items: Vec<I> = scratch::with_capacity(n);
        for row in part {
            items.clear();
            let values = &values[row * n..(row + 1) * n];
            if k <= n / 8 {
                select_first_k::<T, I>(&mut items, values, k, descending);
            } else {
                let item = |(index, value): (u32, &T::Number)| I::new(value.sort_key(), descending, index);
                items.extend((0..).zip(values).map(item));
                if k == n { sort_items(&mut items) } else { select_items(&mut items, k) }
            }
            let mut target = targets[row].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (sorted, indices) = &mut *target;
            for ((value, index), item) in sorted.iter_mut().zip(indices.iter_mut()).zip(&items) {
                *value = values[item.index() as usize];
                *index = i64::from(item.index());
            }
        }
    });
}

/// The first elements along `dim` in sorted order, as many as `values` has, and their indices.
fn sort_into(
    name: &str,
    self_: &Tensor,
    dim: i64,
    descending: bool,
    (values, indices): (&Tensor, &Tensor),
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    if self_.dtype().is_barebones_unsigned() {
        let signed = signed_order::to_signed(self_)?;
        let sorted = ops::empty_like(values, Some(ScalarType::I64), None, None, None, None)?;
        sort_into(name, &signed, dim, descending, (&sorted, indices))?;
        return ops::copy_(values, &signed_order::from_signed(&sorted, self_.dtype())?, false);
    }
    let last = |t: &Tensor| view::transpose(t, dim, -1);
    let (rows, values, indices) = (last(self_)?, last(values)?, last(indices)?);
    let (n, k) = (row_of(&rows), row_of(&values));
    ensure!(
        n <= u32::MAX as usize,
        NotImplemented(name, "self"),
        "rows of more than {} elements are not implemented",
        u32::MAX
    );
    // `bool` is copied since the copy has no bytes other than 0 and 1, and the result is taken from it.
    let is_usable = rows.is_contiguous() && rows.dtype() != ScalarType::Bool;
    let rows = if is_usable { rows } else { copy::clone(&rows, Some(MemoryFormat::Contiguous))? };
    into_dense(&values, |values| {
        into_dense(&indices, |indices| {
            dispatch_all_types!(ordered, self_.dtype(), name, T => {
                type N = <T as ElementBits>::Number;
                with_slices(name, &[&rows], &[values, indices], |s| {
                    let (from, to) = (s.read::<N>(0)?, (s.write::<N>(0)?, s.write::<i64>(1)?));
                    if size_of::<N>() <= 4 {
                        order_rows::<T, u64>(from, to, (n, k), descending);
                    } else {
                        order_rows::<T, u128>(from, to, (n, k), descending);
                    }
                    Ok(())
                })
            })
        })
    })
}

/// The number of elements of a row.
fn row_of(rows: &Tensor) -> usize {
    rows.sizes().last().map_or(1, |&size| size as usize)
}

/// Shapes and types of [`sort`].
pub fn sort_meta(
    self_: &Tensor,
    _stable: Option<bool>,
    dim: i64,
    _descending: bool,
) -> Result<(TensorSpec, TensorSpec)> {
    shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("sort"))?;
    let values = TensorSpec::like(self_, self_.sizes()).with_strides(dense_strides(self_)?);
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

/// The elements along `dim` in sorted order, and their indices; equal ones keep their order.
pub fn sort(
    self_: &Tensor,
    _stable: Option<bool>,
    dim: i64,
    descending: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<()> {
    sort_into("sort", self_, dim, descending, (values, indices))
}

/// [`sort`] into new tensors. It is always stable.
pub fn sort_default(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    let (values, indices) = sort_meta(self_, None, dim, descending)?;
    let (values, indices) = (values.allocate("sort")?, indices.allocate("sort")?);
    if !self_.device().is_meta() {
        sort(self_, None, dim, descending, &values, &indices)?;
    }
    Ok((values, indices))
}

/// The indices of [`sort`].
pub fn argsort(self_: &Tensor, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(ops::sort(self_, dim, descending)?.1)
}

/// [`argsort`], which is always stable.
pub fn argsort_stable(self_: &Tensor, stable: bool, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(ops::sort_stable(self_, Some(stable), dim, descending)?.1)
}

/// The elements along the first dimension in sorted order.
pub fn msort(self_: &Tensor) -> Result<Tensor> {
    Ok(ops::sort(self_, 0, false)?.0)
}

/// Shapes and types of [`topk`].
pub fn topk_meta(
    self_: &Tensor,
    k: i64,
    dim: i64,
    _largest: bool,
    _sorted: bool,
) -> Result<(TensorSpec, TensorSpec)> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("topk"))?;
    let mut sizes = DimVec::from_slice(self_.sizes());
    let size = sizes.get(d).copied().unwrap_or(1);
    ensure!(
        (0..=size).contains(&k),
        InvalidArgument("topk", "k"),
        "selected index k out of range: expected 0 to {size} for dimension {dim} but got {k}"
    );
    if let Some(size) = sizes.get_mut(d) {
        *size = k;
    }
    let values = TensorSpec::like(self_, &sizes);
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

/// The `k` largest or smallest elements along `dim`, in sorted order, and their indices; of equal ones the first.
pub fn topk(
    self_: &Tensor,
    _k: i64,
    dim: i64,
    largest: bool,
    _sorted: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<()> {
    sort_into("topk", self_, dim, largest, (values, indices))
}
