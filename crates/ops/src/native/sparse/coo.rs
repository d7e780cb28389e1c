//! Coordinates: their order, and sums of the values of equal ones.

use super::arguments::{Pointers, SumElement, check_bounds, contiguous, indices, sum_type};
use super::radix::{self, Item, Keys};
use super::segments::{Terms, sum_segments};
use super::terms::NumberTerms;
use crate::native::guarded_slices::with_slices;
use crate::native::index::masked_select::refuse_meta;
use crate::parallel::for_each_task;
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{DimVec, Result, ScalarType, bail, ensure, fallible, shape};
use std::ops::Range;

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
        grouped(NAME, &LinearIndices::new(s.read(0)?, size, count as usize)?, s.write(0)?, s.write(1)?)
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
    let is_narrow = radix::is_narrow(count as usize, key_bits(size)?);
    let items = made(&[if is_narrow { count } else { 2 * count }])?;
    match is_narrow {
        true => coalesced::<u64>(NAME, &indices, values, size, &items),
        false => coalesced::<u128>(NAME, &indices, values, size, &items),
    }
}

/// [`coo_coalesced`] with room for the sorted coordinates.
fn coalesced<I: Item>(
    name: &str,
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    items: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let bits = radix::position_bits(indices.sizes()[1] as usize);
    let parts = with_slices(name, &[indices], &[items], |s| {
        let keys = LinearIndices::new(s.read(0)?, size, indices.sizes()[1] as usize)?;
        // Memory is aligned to a cache line.
        let items = bytemuck::cast_slice_mut::<i64, I>(s.write(0)?);
        let Some(parts) = radix::sort(&keys, items) else { return keys.refuse(name) };
        let mut groups = scratch::filled(0, parts.len());
        for_each_task(scratch::collect(parts.iter().zip(&mut groups)), |(part, groups)| {
            *groups = distinct(&items[part.clone()], bits);
        });
        Ok(scratch::collect(parts.into_iter().zip(groups)))
    })?;
    let total = parts.iter().map(|(_, groups)| *groups).sum::<usize>() as i64;
    let coordinates = TensorSpec::like(indices, &[size.len() as i64, total]).allocate(name)?;
    let mut sizes = DimVec::from_slice(values.sizes());
    sizes[0] = total;
    let (sums, width) = (sum_type(name, values.dtype())?, shape::numel(&sizes[1..])? as usize);
    let from = contiguous(values, sums)?;
    let out = TensorSpec::like(&from, &sizes).allocate(name)?;
    dispatch_all_types!(accumulators, sums, name, T => {
        with_slices(name, &[items, &from], &[&coordinates, &out], |s| {
            let sorted = (bytemuck::cast_slice::<i64, I>(s.read(0)?), bits);
            let coordinates = scratch::collect(s.write::<i64>(0)?.chunks_exact_mut((total as usize).max(1)));
            sum_parts(name, &parts, sorted, size, (s.read::<T>(1)?, width), (coordinates, s.write::<T>(1)?))
        })
    })?;
    Ok((coordinates, contiguous(&out, values.dtype())?))
}

/// How many keys sorted items have.
fn distinct<I: Item>(items: &[I], bits: u32) -> usize {
    let changes = items.windows(2).filter(|pair| pair[0].key(bits) != pair[1].key(bits)).count();
    changes + usize::from(!items.is_empty())
}

/// Writes the coordinates of each key of parts of sorted items, a list for each dimension, and the sum of the rows of `values` that have it.
fn sum_parts<I: Item, T: SumElement>(
    name: &str,
    parts: &[(Range<usize>, usize)],
    (items, bits): (&[I], u32),
    size: &[i64],
    (values, width): (&[T], usize),
    (mut coordinates, mut sums): (Vec<&mut [i64]>, &mut [T]),
) -> Result<()> {
    let mut done = scratch::filled(None, parts.len());
    let tasks = parts.iter().zip(&mut done).map(|((part, groups), done)| {
        let own = scratch::collect(coordinates.iter_mut().map(|list| take(list, *groups)));
        (&items[part.clone()], own, take(&mut sums, *groups * width), done)
    });
    for_each_task(scratch::collect(tasks), |(items, coordinates, sums, done)| {
        *done = sum_groups(items, bits, (size, coordinates), (values, width), sums);
    });
    ensure!(!done.contains(&None), Internal(name), "expected positions below the number of values");
    Ok(())
}

/// The first elements of a list, which then begins after them.
fn take<'a, T>(list: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (own, rest) = std::mem::take(list).split_at_mut(count);
    *list = rest;
    own
}

/// [`sum_parts`] of one part; `None` if a position is not one of a value.
fn sum_groups<I: Item, T: SumElement>(
    items: &[I],
    bits: u32,
    (size, mut coordinates): (&[i64], Vec<&mut [i64]>),
    (values, width): (&[T], usize),
    sums: &mut [T],
) -> Option<()> {
    let (mut starts, mut order) = (scratch::with_capacity(items.len() + 1), scratch::filled(0, items.len()));
    let mut divisions = scratch::collect(size.iter().map(|size| Division::by(*size)));
    let mut last = -1;
    for ((at, item), position) in items.iter().enumerate().zip(&mut order) {
        let key = item.key(bits);
        if key != last {
            let mut rest = key;
            for (list, division) in coordinates.iter_mut().zip(&mut divisions).rev() {
                (rest, list[starts.len()]) = division.of(rest);
            }
            scratch::push(&mut starts, at as i64);
            last = key;
        }
        *position = radix::position(*item, bits) as i64;
    }
    scratch::push(&mut starts, items.len() as i64);
    if width == 0 {
        return Some(());
    }
    sum_segments(&Pointers::counted(&starts), &Rows { values, order: Some(&order), width }, sums)
}

/// [`coo_coalesced`] by the operators that other devices have.
pub fn coo_coalesced_by_order(indices: &Tensor, values: &Tensor, size: &[i64]) -> Result<(Tensor, Tensor)> {
    let (order, starts, groups) = ops::_coo_order(indices, size)?;
    let sums = ops::_segment_sum(values, Some(&order), &starts, &groups)?;
    let first = ops::index_select(&order, 0, &ops::slice_tensor(&starts, 0, None, Some(-1), 1)?)?;
    Ok((ops::index_select(indices, 1, &first)?, sums))
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

/// The row-major indices of coordinates in a tensor of `size`. They fit in 63 bits, as the number of elements does.
struct LinearIndices<'a> {
    indices: &'a [i64],
    size: &'a [i64],
    count: usize,
    bits: u32,
}

/// Bits of the row-major indices of a tensor.
fn key_bits(size: &[i64]) -> Result<u32> {
    Ok(64 - (shape::numel(size)? - 1).max(0).leading_zeros())
}

impl<'a> LinearIndices<'a> {
    /// Of `count` coordinates, a row of `indices` for each dimension.
    fn new(indices: &'a [i64], size: &'a [i64], count: usize) -> Result<Self> {
        Ok(LinearIndices { indices, size, count, bits: key_bits(size)? })
    }

    /// The indices of a dimension at some positions.
    fn row(&self, dim: usize, positions: &Range<usize>) -> &'a [i64] {
        &self.indices[dim * self.count..][positions.clone()]
    }

    /// The error for an index that is out of bounds.
    #[cold]
    fn refuse<R>(&self, name: &str) -> Result<R> {
        for (dim, size) in self.size.iter().enumerate() {
            check_bounds(name, "indices", self.row(dim, &(0..self.count)), *size)
                .map_err(|e| e.context(format!("dimension {dim}")))?;
        }
        bail!(Internal(name), "expected an index that is out of bounds")
    }
}

impl Keys for LinearIndices<'_> {
    fn len(&self) -> usize {
        self.count
    }

    fn bits(&self) -> u32 {
        self.bits
    }

    fn write(&self, positions: Range<usize>, keys: &mut [i64]) -> Option<()> {
        keys.fill(0);
        let sizes = self.size.iter().enumerate();
        let any =
            sizes.fold(false, |any, (dim, size)| any | add_dimension(keys, self.row(dim, &positions), *size));
        (!any).then_some(())
    }
}

/// Replaces keys by those with one dimension more; returns whether any index is out of bounds.
fn add_dimension(keys: &mut [i64], row: &[i64], size: i64) -> bool {
    with_processor_vectors(
        #[inline(always)]
        move || {
            keys.iter_mut().zip(row).fold(false, |any, (key, index)| {
                // It overflows only where a later size is 0, and then every index of that dimension is refused.
                *key = key.wrapping_mul(size).wrapping_add(*index);
                any | (*index as u64 >= size as u64)
            })
        },
    )
}

/// Writes the order of keys and the group of each, and returns the starts of groups, with the end of the last.
fn grouped(name: &str, keys: &LinearIndices<'_>, order: &mut [i64], groups: &mut [i64]) -> Result<Vec<i64>> {
    let mut starts = Vec::new();
    let mut last = -1;
    let sorted = radix::for_each_sorted(keys, |at, key, position| {
        if key != last {
            fallible::push(&mut starts, at as i64)?;
            last = key;
        }
        order[at] = position as i64;
        groups[position] = starts.len() as i64 - 1;
        Ok(())
    });
    sorted.unwrap_or_else(|| keys.refuse(name))?;
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
    type Index = i64;

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
    fn numbers(&self) -> NumberTerms<'_, T, i64> {
        NumberTerms { table: self.values, indices: self.order, weights: None }
    }

    #[inline(always)]
    fn weighted_rows(&self, positions: Range<usize>) -> impl Iterator<Item = (usize, Option<T>)> {
        positions.map(move |position| (self.row(position).unwrap_or(usize::MAX), None))
    }
}
