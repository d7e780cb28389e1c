//! Coordinates: their order, and sums of the values of equal ones.

use super::arguments::{Pointers, SumElement, check_bounds, contiguous, indices, sum_type};
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::masked_select::refuse_meta;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, scratch};
use flambeau_core::{DimVec, Result, ScalarType, bail, ensure, fallible, shape};

/// The ascending order of coordinates, the columns of `indices`, in a tensor of `size`; equal ones keep their order. Also the start of
/// each group of equal ones in that order, with the end of the last group, and the group of each column.
pub fn coo_order(indices: &Tensor, size: &[i64]) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "_coo_order";
    refuse_meta(NAME, indices)?;
    check_coordinates(NAME, indices, size)?;
    let count = indices.sizes()[1];
    let indices = contiguous(indices, ScalarType::I64)?;
    let made = || TensorSpec::like(&indices, &[count]).allocate(NAME);
    let (order, groups) = (made()?, made()?);
    let starts = with_slices(NAME, &[&indices], &[&order, &groups], |s| {
        let keys = linear_indices(NAME, s.read(0)?, size, count as usize)?;
        let (order, groups) = (s.write::<i64>(0)?, s.write::<i64>(1)?);
        sorted_order(&keys, order)?;
        group(&keys, order, groups)
    })?;
    let groups_count = starts.len() as i64;
    Ok((order, Tensor::from_vec(starts, &[groups_count])?, groups))
}

/// Checks the type and the sizes of coordinates in a tensor of `size`.
pub fn check_coordinates(name: &str, indices: &Tensor, size: &[i64]) -> Result<()> {
    ensure!(
        indices.dim() == 2 && indices.sizes()[0] == size.len() as i64 && indices.dtype() == ScalarType::I64,
        Shape(name, "indices"),
        "expected int64 indices with a row for each of {} dimensions but got {}",
        size.len(),
        indices.signature()
    );
    shape::numel(size).map(drop).map_err(|e| e.in_operator(name))
}

/// The row-major index of each coordinate. It fits in 63 bits, as the number of elements does.
fn linear_indices(name: &str, indices: &[i64], size: &[i64], count: usize) -> Result<Vec<i64>> {
    let mut keys = fallible::filled(0i64, count)?;
    for (d, size) in size.iter().enumerate() {
        for (key, index) in keys.iter_mut().zip(&indices[d * count..(d + 1) * count]) {
            if !(0..*size).contains(index) {
                bail!(
                    Index(name, "indices"),
                    "index {index} is out of bounds for dimension {d} with size {size}"
                );
            }
            // It overflows only where a later size is 0, and then every index of that dimension is refused.
            *key = key.wrapping_mul(*size).wrapping_add(*index);
        }
    }
    Ok(keys)
}

/// How many bits of a key each pass of the sort looks at.
const DIGIT: u32 = 11;

/// The stable ascending order of `keys`, which are not negative: a radix sort.
fn sorted_order(keys: &[i64], order: &mut [i64]) -> Result<()> {
    for (position, at) in order.iter_mut().zip(0..) {
        *position = at;
    }
    if keys.is_sorted() {
        return Ok(());
    }
    let bits = 64 - keys.iter().fold(0, |all, key| all | key).leading_zeros();
    let mut from = fallible::collect(keys.iter().zip(0..).map(|(key, at)| (*key, at)))?;
    let mut to = fallible::to_vec(&from)?;
    for shift in (0..bits).step_by(DIGIT as usize) {
        let digit = |key: i64| (key >> shift) as usize & ((1 << DIGIT) - 1);
        let mut next = [0usize; 1 << DIGIT];
        from.iter().for_each(|(key, _)| next[digit(*key)] += 1);
        let mut start = 0;
        for count in &mut next {
            start += std::mem::replace(count, start);
        }
        for item in &from {
            let next = &mut next[digit(item.0)];
            to[*next] = *item;
            *next += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    order.iter_mut().zip(&from).for_each(|(position, (_, at))| *position = *at);
    Ok(())
}

/// The starts of groups of equal keys in `order`, with the end of the last; sets the group of each key.
fn group(keys: &[i64], order: &[i64], groups: &mut [i64]) -> Result<Vec<i64>> {
    let mut starts = Vec::new();
    let mut last = -1;
    for (at, position) in order.iter().enumerate() {
        let key = keys[*position as usize];
        if key != last {
            fallible::push(&mut starts, at as i64)?;
            last = key;
        }
        groups[*position as usize] = starts.len() as i64 - 1;
    }
    fallible::push(&mut starts, order.len() as i64)?;
    Ok(starts)
}

/// For each segment of `starts` the sum of `values[order[i]]` over the positions `i` in it, or of `values[i]` without `order`. `groups`,
/// the segment of each row of `values`, is for the derivative.
pub fn segment_sum(
    values: &Tensor,
    order: Option<&Tensor>,
    starts: &Tensor,
    groups: &Tensor,
) -> Result<Tensor> {
    const NAME: &str = "_segment_sum";
    let rows = values.size(0).map_err(|e| e.in_operator(NAME))?;
    let starts = indices(NAME, "starts", starts)?;
    ensure!(
        starts.numel() > 0 && groups.sizes() == [rows],
        Shape(NAME, "groups"),
        "expected starts of segments, and a group for each of {rows} rows, but got sizes {:?} and {:?}",
        starts.sizes(),
        groups.sizes()
    );
    let mut sizes = DimVec::from_slice(values.sizes());
    sizes[0] = starts.numel() - 1;
    if values.device().is_meta() {
        return TensorSpec::like(values, &sizes).allocate(NAME);
    }
    let sums = sum_type(NAME, values.dtype())?;
    let from = contiguous(values, sums)?;
    let out = TensorSpec::like(&from, &sizes).allocate(NAME)?;
    let listed = order.map(|order| indices(NAME, "order", order)).transpose()?;
    let width = shape::numel(&sizes[1..])? as usize;
    dispatch_all_types!(accumulators, sums, NAME, T => {
        with_slices(NAME, &[&from, &starts, listed.as_ref().unwrap_or(&starts)], &[&out], |s| {
            let order = listed.is_some().then(|| s.read::<i64>(2)).transpose()?;
            let count = order.map_or(rows as usize, <[i64]>::len);
            let segments = Pointers::new(NAME, "starts", s.read(1)?, count)?;
            if let Some(order) = order {
                check_bounds(NAME, "order", order, rows)?;
            }
            sum_segments(s.read::<T>(0)?, order, &segments, width, s.write::<T>(0)?);
            Ok(())
        })
    })?;
    contiguous(&out, values.dtype())
}

fn sum_segments<T: SumElement>(
    values: &[T],
    order: Option<&[i64]>,
    segments: &Pointers<'_>,
    width: usize,
    out: &mut [T],
) {
    if width == 0 {
        return;
    }
    fill(out, width, |range, part| {
        let mut sums = scratch::filled(T::ZERO, width);
        for (to, segment) in part.chunks_exact_mut(width).zip(range.start / width..) {
            sums.fill(T::ZERO);
            for position in segments.segment(segment) {
                let row = order.map_or(position, |order| order[position] as usize);
                let row = &values[row * width..(row + 1) * width];
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum = sum.plus(*value));
            }
            to.copy_from_slice(&sums);
        }
    });
}
