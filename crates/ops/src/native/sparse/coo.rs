//! Coordinates: their order, and sums of the values of equal ones.

use super::arguments::{Pointers, SumElement, check_bounds, contiguous, indices, sum_type};
use super::radix;
use super::segments::{Terms, sum_segments};
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::masked_select::refuse_meta;
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, Result, ScalarType, ensure, fallible, shape};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let keys = linear_indices(NAME, &indices, size)?;
    let starts = with_slices(NAME, &[&keys], &[&order, &groups], |s| {
        let (order, groups) = (s.write::<i64>(0)?, s.write::<i64>(1)?);
        grouped(s.read(0)?, order, groups)
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

/// Distinct coordinates in a tensor of `size`, in ascending order, and the sum of the values of each.
pub fn coo_coalesced(indices: &Tensor, values: &Tensor, size: &[i64]) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "_coo_coalesced";
    refuse_meta(NAME, indices)?;
    check_coordinates(NAME, indices, size)?;
    let count = indices.sizes()[1];
    ensure!(
        values.sizes().first() == Some(&count),
        Shape(NAME, "values"),
        "expected a row of values for each of {count} coordinates but got {}",
        values.signature()
    );
    let indices = contiguous(indices, ScalarType::I64)?;
    let made = |sizes: &[i64]| TensorSpec::like(&indices, sizes).allocate(NAME);
    let keys = linear_indices(NAME, &indices, size)?;
    let (order, starts, distinct) = (made(&[count])?, made(&[count + 1])?, made(&[count])?);
    let groups = with_slices(NAME, &[&keys], &[&order, &starts, &distinct], |s| {
        distinct_keys(s.read(0)?, s.write(0)?, s.write(1)?, s.write(2)?)
    })?;
    let starts = starts.alias_as(&[groups + 1], &[1], 0)?;
    let sums = segment_sums(NAME, values, Some(&order), &starts)?;
    let coordinates = made(&[size.len() as i64, groups])?;
    with_slices(NAME, &[&distinct], &[&coordinates], |s| {
        write_coordinates(&s.read::<i64>(0)?[..groups as usize], size, s.write(0)?);
        Ok(())
    })?;
    Ok((coordinates, sums))
}

/// [`coo_coalesced`] by the operators that other devices have.
pub fn coo_coalesced_by_order(indices: &Tensor, values: &Tensor, size: &[i64]) -> Result<(Tensor, Tensor)> {
    let (order, starts, groups) = ops::_coo_order(indices, size)?;
    let sums = ops::_segment_sum(values, Some(&order), &starts, &groups)?;
    let first = ops::index_select(&order, 0, &ops::slice_tensor(&starts, 0, None, Some(-1), 1)?)?;
    Ok((ops::index_select(indices, 1, &first)?, sums))
}

/// Writes the order of keys, the starts of groups of equal ones with the end of the last, and the key of each group; returns how many groups
/// there are.
fn distinct_keys(keys: &[i64], order: &mut [i64], starts: &mut [i64], distinct: &mut [i64]) -> Result<i64> {
    let (mut groups, mut last) = (0, -1);
    radix::for_each_sorted(keys, |at, key, position| {
        if key != last {
            (starts[groups], distinct[groups]) = (at as i64, key);
            (groups, last) = (groups + 1, key);
        }
        order[at] = position as i64;
        Ok(())
    })?;
    starts[groups] = keys.len() as i64;
    Ok(groups as i64)
}

/// Writes the coordinates that belong to ascending keys, a row of `out` for each dimension.
fn write_coordinates(keys: &[i64], size: &[i64], out: &mut [i64]) {
    if keys.is_empty() {
        return;
    }
    let mut stride = 1;
    for (row, size) in out.chunks_exact_mut(keys.len()).zip(size).rev() {
        fill(row, 1, |range, row| {
            let (mut outer, mut inner) = (Division::by(stride), Division::by(*size));
            for (to, key) in row.iter_mut().zip(&keys[range]) {
                *to = inner.of(outer.of(*key).0).1;
            }
        });
        stride *= size;
    }
}

/// Divisions of numbers that mostly have the same quotient as the one before: then they are a subtraction.
struct Division {
    by: i64,
    quotient: i64,
    product: i64,
}

impl Division {
    fn by(by: i64) -> Self {
        Division { by, quotient: 0, product: 0 }
    }

    /// The quotient and the remainder of a number that is not negative.
    #[inline(always)]
    fn of(&mut self, number: i64) -> (i64, i64) {
        if self.by == 1 {
            return (number, 0);
        }
        let mut rest = number - self.product;
        if rest as u64 >= self.by as u64 {
            self.quotient = number / self.by;
            self.product = self.quotient * self.by;
            rest = number - self.product;
        }
        (self.quotient, rest)
    }
}

/// The row-major index of each coordinate. It fits in 63 bits, as the number of elements does.
fn linear_indices(name: &str, indices: &Tensor, size: &[i64]) -> Result<Tensor> {
    let count = indices.sizes()[1] as usize;
    let keys = TensorSpec::like(indices, &indices.sizes()[1..]).allocate(name)?;
    with_slices(name, &[indices], &[&keys], |s| {
        write_linear_indices(name, s.read(0)?, size, count, s.write(0)?)
    })?;
    Ok(keys)
}

fn write_linear_indices(
    name: &str,
    indices: &[i64],
    size: &[i64],
    count: usize,
    keys: &mut [i64],
) -> Result<()> {
    let is_outside = AtomicBool::new(false);
    fill(keys, 1, |range, keys| {
        keys.fill(0);
        let rows = size.iter().enumerate().map(|(d, size)| (&indices[d * count..][range.clone()], *size));
        let any = rows.fold(false, |any, (row, size)| any | add_dimension(keys, row, size));
        if any {
            is_outside.store(true, Ordering::Relaxed);
        }
    });
    if is_outside.into_inner() {
        for (d, size) in size.iter().enumerate() {
            check_bounds(name, "indices", &indices[d * count..(d + 1) * count], *size)
                .map_err(|e| e.context(format!("dimension {d}")))?;
        }
    }
    Ok(())
}

/// Replaces keys by those with one dimension more; returns whether any index is out of bounds.
fn add_dimension(keys: &mut [i64], row: &[i64], size: i64) -> bool {
    with_processor_vectors(
        #[inline(always)]
        || {
            keys.iter_mut().zip(row).fold(false, |any, (key, index)| {
                // It overflows only where a later size is 0, and then every index of that dimension is refused.
                *key = key.wrapping_mul(size).wrapping_add(*index);
                any | (*index as u64 >= size as u64)
            })
        },
    )
}

/// Writes the order of keys and the group of each, and returns the starts of groups, with the end of the last.
fn grouped(keys: &[i64], order: &mut [i64], groups: &mut [i64]) -> Result<Vec<i64>> {
    let mut starts = Vec::new();
    let mut last = -1;
    radix::for_each_sorted(keys, |at, key, position| {
        if key != last {
            fallible::push(&mut starts, at as i64)?;
            last = key;
        }
        order[at] = position as i64;
        groups[position] = starts.len() as i64 - 1;
        Ok(())
    })?;
    fallible::push(&mut starts, keys.len() as i64)?;
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
    segment_sums(NAME, values, order, &starts)
}

/// [`segment_sum`] for the kernel `name`.
pub(super) fn segment_sums(
    name: &str,
    values: &Tensor,
    order: Option<&Tensor>,
    starts: &Tensor,
) -> Result<Tensor> {
    let rows = values.sizes()[0];
    let mut sizes = DimVec::from_slice(values.sizes());
    sizes[0] = starts.numel() - 1;
    if values.device().is_meta() {
        return TensorSpec::like(values, &sizes).allocate(name);
    }
    let sums = sum_type(name, values.dtype())?;
    let from = contiguous(values, sums)?;
    let out = TensorSpec::like(&from, &sizes).allocate(name)?;
    let listed = order.map(|order| indices(name, "order", order)).transpose()?;
    let width = shape::numel(&sizes[1..])? as usize;
    dispatch_all_types!(accumulators, sums, name, T => {
        with_slices(name, &[&from, starts, listed.as_ref().unwrap_or(starts)], &[&out], |s| {
            let order = listed.is_some().then(|| s.read::<i64>(2)).transpose()?;
            let count = order.map_or(rows as usize, <[i64]>::len);
            let segments = Pointers::new(name, "starts", s.read(1)?, count)?;
            let values = s.read::<T>(0)?;
            let is_done = match width {
                0 => None,
                _ => sum_segments(&segments, &Rows { values, order, width }, s.write::<T>(0)?),
            };
            // The order is checked where it is read, and here only to say which index is wrong.
            match (is_done, order) {
                (None, Some(order)) => check_bounds(name, "order", order, rows),
                _ => Ok(()),
            }
        })
    })?;
    contiguous(&out, values.dtype())
}

/// Rows of values in an order.
struct Rows<'a, T> {
    values: &'a [T],
    order: Option<&'a [i64]>,
    width: usize,
}

impl<T: SumElement> Terms<T> for Rows<'_, T> {
    #[inline(always)]
    fn matrix(&self) -> &[T] {
        self.values
    }

    #[inline(always)]
    fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    fn row(&self, position: usize) -> Option<usize> {
        match self.order {
            Some(order) => order.get(position).map(|row| *row as usize),
            None => Some(position),
        }
    }

    #[inline(always)]
    fn weighted_rows(&self, positions: Range<usize>) -> impl Iterator<Item = (usize, Option<T>)> {
        positions.map(move |position| (self.row(position).unwrap_or(usize::MAX), None))
    }
}
