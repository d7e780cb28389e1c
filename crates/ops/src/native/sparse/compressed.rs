//! Matrices in compressed rows with their values: the transpose, selected rows, and the sum of two. Each is one pass over pattern and
//! values, since memory is what takes the time.

use super::arguments::{
    Csr, IndexElement, Pointers, SumElement, check_bounds, check_size, contiguous, copy_parts,
    dispatch_indices, indices, indices_of_either_type, parts, ranges, sum_type,
};
use super::pointers::selected_pointers;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::masked_select::refuse_meta;
use crate::parallel::for_each_task;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::{prefetch_cache_line, with_processor_vectors};
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{Result, ScalarType, bail, ensure, fallible};
use std::hint::select_unpredictable;
use std::ops::Range;

/// Elements whose positions in a transpose are computed, and prefetched, before they are written there.
const BATCH: usize = 64;
/// How many selected rows ahead elements are prefetched.
const AHEAD: usize = 8;

/// `$body` with `$T` a type of the size of the elements of `$dtype`, for kernels that only move elements.
macro_rules! dispatch_sizes {
    ($dtype:expr, $name:expr, $T:ident => $body:expr) => {
        dispatch_sizes!(@match $dtype, $name, $T, $body, 1 u8, 2 u16, 4 u32, 8 u64, 16 [u64; 2])
    };
    (@match $dtype:expr, $name:expr, $T:ident, $body:expr, $($size:literal $bits:ty),*) => {
        match $dtype.size() {
            $($size => {
                type $T = $bits;
                $body
            })*
            size => bail!(Internal($name), "there are no elements of {size} bytes"),
        }
    };
}

/// Requires an element of `values` for each column, and pointers.
fn check_values(name: &str, crow: &Tensor, col: &Tensor, values: &Tensor) -> Result<()> {
    ensure!(
        values.sizes().first() == Some(&col.numel()) && crow.numel() > 0,
        Shape(name, "values"),
        "expected pointers, and a value for each of {} columns, but got {} and {}",
        col.numel(),
        crow.signature(),
        values.signature()
    );
    Ok(())
}

/// Whether an int32 can count the rows and the elements of a matrix.
fn is_counted_by_int32(crow: &Tensor, col: &Tensor) -> bool {
    crow.numel().max(col.numel()) <= i32::MAX.into()
}

/// The transpose of a matrix with `columns` columns. Indices keep their type, if it can count rows and elements.
pub fn csr_transposed(crow: &Tensor, col: &Tensor, values: &Tensor, columns: i64) -> Result<Csr> {
    const NAME: &str = "_csr_transposed";
    check_size(NAME, "columns", columns)?;
    let (crow, col) = (indices(NAME, "crow", crow)?, indices_of_either_type(NAME, "col", col)?);
    check_values(NAME, &crow, &col, values)?;
    if values.dim() > 1 || !is_counted_by_int32(&crow, &col) {
        return csr_transposed_by_order(&crow, &col, values, columns);
    }
    let made = |sizes: &[i64]| TensorSpec::like(&crow, sizes).allocate(NAME);
    let (pointers, rows) = (made(&[columns + 1])?, TensorSpec::like(&col, col.sizes()).allocate(NAME)?);
    let out = TensorSpec::like(values, values.sizes()).allocate(NAME)?;
    if out.device().is_meta() {
        return Ok((contiguous(&pointers, col.dtype())?, rows, out));
    }
    let from = contiguous(values, values.dtype())?;
    dispatch_sizes!(values.dtype(), NAME, T => dispatch_indices!(col, I => {
        let entries = made(&[col.numel(), (size_of::<<T as Packed>::Entry>() / 8) as i64])?;
        with_slices(NAME, &[&crow, &col, &from], &[&pointers, &rows, &out, &entries], |s| {
            let (col, values) = (s.read::<I>(1)?, s.read::<T>(2)?);
            let matrix = (Pointers::new(NAME, "crow", s.read(0)?, col.len())?, col, values);
            let entries = bytemuck::cast_slice_mut(s.write::<i64>(3)?);
            let is_done = transpose::<T, I>(&matrix, entries, (s.write(0)?, s.write(1)?, s.write(2)?));
            // Columns are checked where they are counted, and here only to say which one is wrong.
            is_done.map_or_else(|| check_bounds(NAME, "col", col, columns), Ok)
        })?;
    }));
    Ok((contiguous(&pointers, col.dtype())?, rows, out))
}

/// [`csr_transposed`] by the operators that other devices have.
pub fn csr_transposed_by_order(crow: &Tensor, col: &Tensor, values: &Tensor, columns: i64) -> Result<Csr> {
    check_values("_csr_transposed", crow, col, values)?;
    let (pointers, rows, order) = ops::_csr_transpose(crow, col, columns)?;
    let dtype = if is_counted_by_int32(crow, col) { col.dtype() } else { ScalarType::I64 };
    Ok((contiguous(&pointers, dtype)?, contiguous(&rows, dtype)?, ops::index_select(values, 0, &order)?))
}

/// A value and its row next to each other, so that they are moved to a position in memory together.
trait Packed: Pod + Send + Sync {
    /// Some words.
    type Entry: Pod + Send + Sync;

    fn pack(self, row: u32) -> Self::Entry;

    fn unpack(entry: Self::Entry) -> (u32, Self);
}

macro_rules! packed_in_a_word {
    ($($bits:ty),*) => {$(
        impl Packed for $bits {
            type Entry = u64;

            #[inline(always)]
            fn pack(self, row: u32) -> u64 {
                u64::from(row) << 32 | u64::from(self)
            }

            #[inline(always)]
            fn unpack(entry: u64) -> (u32, Self) {
                ((entry >> 32) as u32, entry as Self)
            }
        }
    )*};
}

packed_in_a_word!(u8, u16, u32);

impl Packed for u64 {
    type Entry = [u64; 2];

    #[inline(always)]
    fn pack(self, row: u32) -> [u64; 2] {
        [row.into(), self]
    }

    #[inline(always)]
    fn unpack([row, value]: [u64; 2]) -> (u32, Self) {
        (row as u32, value)
    }
}

impl Packed for [u64; 2] {
    type Entry = [u64; 3];

    #[inline(always)]
    fn pack(self, row: u32) -> [u64; 3] {
        [row.into(), self[0], self[1]]
    }

    #[inline(always)]
    fn unpack([row, first, second]: [u64; 3]) -> (u32, Self) {
        (row as u32, [first, second])
    }
}

/// Writes each element to its position among those of its column; `None` if a column is out of bounds.
fn transpose<T: Packed, I: IndexElement>(
    (pattern, col, values): &(Pointers<'_>, &[I], &[T]),
    entries: &mut [T::Entry],
    (pointers, rows, out): (&mut [i64], &mut [I], &mut [T]),
) -> Option<()> {
    // Offsets of four bytes: those of many columns stay in a cache.
    let mut next = scratch::filled(0u32, pointers.len() - 1);
    for column in *col {
        *next.get_mut(column.position())? += 1;
    }
    let (first, ends) = pointers.split_first_mut()?;
    let mut before = 0;
    *first = 0;
    for (next, end) in next.iter_mut().zip(ends) {
        (*next, before) = (before, before + *next);
        *end = before.into();
    }
    let (mut row, mut offsets) = (0, [0; BATCH]);
    for (columns, start) in col.chunks(BATCH).zip((0..).step_by(BATCH)) {
        for (offset, column) in offsets.iter_mut().zip(columns) {
            let next = next.get_mut(column.position())?;
            *offset = *next as usize;
            *next += 1;
            prefetch_cache_line(entries.as_ptr().wrapping_add(*offset).cast());
        }
        for (offset, position) in offsets[..columns.len()].iter().zip(start..) {
            while pattern.segment(row).end <= position {
                row += 1;
            }
            entries[*offset] = values[position].pack(row as u32);
        }
    }
    let entries = &*entries;
    fill(rows, 1, |range, rows| {
        rows.iter_mut().zip(&entries[range]).for_each(|(row, entry)| *row = I::from_row(T::unpack(*entry).0));
    });
    fill(out, 1, |range, out| {
        out.iter_mut().zip(&entries[range]).for_each(|(value, entry)| *value = T::unpack(*entry).1);
    });
    Some(())
}

/// The rows of a matrix that `index` names.
pub fn csr_select(crow: &Tensor, col: &Tensor, values: &Tensor, index: &Tensor) -> Result<Csr> {
    const NAME: &str = "_csr_select";
    refuse_meta(NAME, crow)?;
    let (crow, col) = (indices(NAME, "crow", crow)?, indices(NAME, "col", col)?);
    let index = indices(NAME, "index", index)?;
    check_values(NAME, &crow, &col, values)?;
    if values.dim() > 1 {
        return csr_select_by_position(&crow, &col, values, &index);
    }
    let pointers = TensorSpec::like(&index, &[index.numel() + 1]).allocate(NAME)?;
    let (firsts, total) = with_slices(NAME, &[&crow, &index], &[&pointers], |s| {
        selected_pointers(NAME, s.read(0)?, s.read(1)?, col.numel(), s.write(0)?)
    })?;
    let from = contiguous(values, values.dtype())?;
    let columns = TensorSpec::like(&col, &[total]).allocate(NAME)?;
    let selected = TensorSpec::like(values, &[total]).allocate(NAME)?;
    dispatch_sizes!(values.dtype(), NAME, T => {
        with_slices(NAME, &[&pointers, &col, &from], &[&columns, &selected], |s| {
            let pointers = Pointers::new(NAME, "index", s.read(0)?, total as usize)?;
            let from = Elements { firsts: &firsts, col: s.read(1)?, values: s.read::<T>(2)? };
            let elements = |rows: &Range<usize>| {
                pointers.segment(rows.end - 1).end - pointers.segment(rows.start).start
            };
            let tasks = pointers.ranges(GRAIN);
            let columns = parts(s.write(0)?, tasks.clone(), elements);
            let values = parts(s.write::<T>(1)?, tasks, elements);
            for_each_task(scratch::collect(columns.into_iter().zip(values)), |((rows, columns), (_, values))| {
                from.copy_rows(&pointers, rows, columns, values);
            });
            Ok(())
        })?;
    });
    Ok((pointers, columns, selected))
}

/// [`csr_select`] by the operators that other devices have.
pub fn csr_select_by_position(crow: &Tensor, col: &Tensor, values: &Tensor, index: &Tensor) -> Result<Csr> {
    check_values("_csr_select", crow, col, values)?;
    let (pointers, positions) = ops::_csr_select_rows(crow, index, col.numel())?;
    let (columns, selected) =
        (ops::index_select(col, 0, &positions)?, ops::index_select(values, 0, &positions)?);
    Ok((pointers, columns, selected))
}

/// What rows are copied from: the first position of each selected row, and all elements.
struct Elements<'a, T> {
    firsts: &'a [i64],
    col: &'a [i64],
    values: &'a [T],
}

impl<T: Pod> Elements<'_, T> {
    fn copy_rows(
        &self,
        pointers: &Pointers<'_>,
        rows: Range<usize>,
        mut col: &mut [i64],
        mut values: &mut [T],
    ) {
        for row in rows {
            if let Some(later) = self.firsts.get(row + AHEAD) {
                prefetch_cache_line(self.col.as_ptr().wrapping_add(*later as usize).cast());
                prefetch_cache_line(self.col.as_ptr().wrapping_add(*later as usize + 8).cast());
                prefetch_cache_line(self.values.as_ptr().wrapping_add(*later as usize).cast());
            }
            let (first, count) = (self.firsts[row] as usize, pointers.segment(row).len());
            let ((own_col, col_rest), (own_values, values_rest)) = (
                std::mem::take(&mut col).split_at_mut(count),
                std::mem::take(&mut values).split_at_mut(count),
            );
            let from = self.col[first..first + count].iter().zip(&self.values[first..first + count]);
            // One loop for both: most rows are too short for two calls of a copy.
            for ((column, value), from) in own_col.iter_mut().zip(own_values).zip(from) {
                (*column, *value) = (*from.0, *from.1);
            }
            (col, values) = (col_rest, values_rest);
        }
    }
}

/// The sum of two matrices with `columns` columns, in which columns ascend in each row. An element that one of them has is one of the sum.
pub fn csr_add(
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    columns: i64,
) -> Result<Csr> {
    const NAME: &str = "_csr_add";
    refuse_meta(NAME, crow1)?;
    check_addends(NAME, [crow1, col1, values1], [crow2, col2, values2], columns)?;
    let list = |list: &Tensor| indices(NAME, "indices", list);
    let (crow1, col1, crow2, col2) = (list(crow1)?, list(col1)?, list(crow2)?, list(col2)?);
    let dtype = values1.dtype();
    let sums = sum_type(NAME, dtype)?;
    let (a, b) = (contiguous(values1, sums)?, contiguous(values2, sums)?);
    let pointers = TensorSpec::like(&crow1, crow1.sizes()).allocate(NAME)?;
    let made = |count: i64| -> Result<(Tensor, Tensor)> {
        Ok((
            TensorSpec::like(&col1, &[count]).allocate(NAME)?,
            TensorSpec::like(&a, &[count]).allocate(NAME)?,
        ))
    };
    // As if no column were in both; the lists are shortened if one is.
    let (col, values) = made(col1.numel() + col2.numel())?;
    let lists = [&crow1, &col1, &a, &crow2, &col2, &b];
    let (col, values) = dispatch_all_types!(accumulators, sums, NAME, T => {
        let used = with_slices(NAME, &lists, &[&pointers, &col, &values], |s| {
            let first = Addend::new(NAME, s.read(0)?, s.read(1)?, s.read::<T>(2)?)?;
            let second = Addend::new(NAME, s.read(3)?, s.read(4)?, s.read::<T>(5)?)?;
            merged(NAME, &[first, second], columns, (s.write(0)?, s.write(1)?, s.write::<T>(2)?))
        })?;
        let total = used.iter().map(|part| part.len() as i64).sum();
        if total == col.numel() {
            Ok((col, values))
        } else {
            let (shorter_col, shorter_values) = made(total)?;
            with_slices(NAME, &[&col, &values], &[&shorter_col, &shorter_values], |s| {
                copy_parts(&used, s.read::<i64>(0)?, s.write(0)?);
                copy_parts(&used, s.read::<T>(1)?, s.write(1)?);
                Ok(())
            })?;
            Ok((shorter_col, shorter_values))
        }
    })?;
    Ok((pointers, col, contiguous(&values, dtype)?))
}

/// Requires two matrices with as many rows, of one type.
fn check_addends(name: &str, first: [&Tensor; 3], second: [&Tensor; 3], columns: i64) -> Result<()> {
    check_size(name, "columns", columns)?;
    for [crow, col, values] in [first, second] {
        check_values(name, crow, col, values)?;
    }
    ensure!(
        first[0].numel() == second[0].numel()
            && first[2].dtype() == second[2].dtype()
            && [first, second].iter().all(|[.., values]| values.dim() == 1),
        Shape(name, "values2"),
        "expected two matrices of as many rows and of one type but got pointers of {:?} and {:?}, and values of {} and {}",
        first[0].sizes(),
        second[0].sizes(),
        first[2].signature(),
        second[2].signature()
    );
    Ok(())
}

/// [`csr_add`] by the operators that other devices have.
pub fn csr_add_by_order(
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    columns: i64,
) -> Result<Csr> {
    check_addends("_csr_add", [crow1, col1, values1], [crow2, col2, values2], columns)?;
    let count = crow1.numel() - 1;
    let pair = |crow: &Tensor, col: &Tensor| ops::_convert_indices_from_csr_to_coo(crow, col, false, false);
    let all = ops::cat(&[pair(crow1, col1)?, pair(crow2, col2)?], 1)?;
    let (order, starts, groups) = ops::_coo_order(&all, &[count, columns])?;
    let values = ops::_segment_sum(
        &ops::cat(&[values1.clone(), values2.clone()], 0)?,
        Some(&order),
        &starts,
        &groups,
    )?;
    let first = ops::index_select(&order, 0, &ops::slice_tensor(&starts, 0, None, Some(-1), 1)?)?;
    let indices = ops::index_select(&all, 1, &first)?;
    let pointers = ops::_convert_indices_from_coo_to_csr(&ops::select_int(&indices, 0, 0)?, count, false)?;
    Ok((pointers, ops::select_int(&indices, 0, 1)?, values))
}

/// A matrix of a sum. Its columns are checked where they are merged.
struct Addend<'a, T> {
    rows: Pointers<'a>,
    col: &'a [i64],
    values: &'a [T],
}

impl<'a, T> Addend<'a, T> {
    fn new(name: &str, crow: &'a [i64], col: &'a [i64], values: &'a [T]) -> Result<Self> {
        Ok(Addend { rows: Pointers::new(name, "crow", crow, col.len())?, col, values })
    }

    fn row(&self, row: usize) -> (&'a [i64], &'a [T]) {
        let positions = self.rows.segment(row);
        (&self.col[positions.clone()], &self.values[positions])
    }
}

/// Writes the sum: its pointers, and the columns and values of each task from where they would be if no column were in both. Returns
/// where these are.
fn merged<T: SumElement>(
    name: &str,
    addends: &[Addend<'_, T>; 2],
    columns: i64,
    (pointers, col, values): (&mut [i64], &mut [i64], &mut [T]),
) -> Result<Vec<Range<usize>>> {
    let [first, second] = addends;
    let before = |row: usize| first.rows.start(row) + second.rows.start(row);
    let tasks = ranges(first.rows.len(), GRAIN, |row| before(row) + row);
    let mut used = scratch::filled(Some(0), tasks.len());
    let (start, counts) = pointers.split_at_mut(1);
    let elements = |rows: &Range<usize>| before(rows.end) - before(rows.start);
    let outputs = parts(col, tasks.clone(), elements).into_iter().zip(parts(values, tasks.clone(), elements));
    let outputs = outputs.zip(parts(counts, tasks.clone(), Range::len)).zip(&mut used);
    for_each_task(scratch::collect(outputs), |((((rows, col), (_, values)), (_, counts)), used)| {
        *used = with_processor_vectors(
            #[inline(always)]
            || merge_rows(addends, rows, columns, (counts, col, values)),
        );
    });
    if used.contains(&None) {
        addends.iter().try_for_each(|addend| check_bounds(name, "col", addend.col, columns))?;
        bail!(InvalidArgument(name, "col"), "expected columns that ascend in each row")
    }
    start.fill(0);
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
    let starts = tasks.iter().map(|rows| before(rows.start));
    fallible::collect(starts.zip(used).map(|(start, length)| start..start + length.unwrap_or_default()))
}

/// The sums of some rows, one after the other, and how many elements each has; how many all have, or `None` where columns do not ascend or
/// are out of bounds.
#[inline(always)]
fn merge_rows<T: SumElement>(
    [first, second]: &[Addend<'_, T>; 2],
    rows: Range<usize>,
    columns: i64,
    (counts, col, values): (&mut [i64], &mut [i64], &mut [T]),
) -> Option<usize> {
    let mut used = 0;
    for (row, count) in rows.zip(counts) {
        let length =
            merge_row(first.row(row), second.row(row), columns, (&mut col[used..], &mut values[used..]))?;
        *count = length as i64;
        used += length;
    }
    Some(used)
}

/// The sum of two rows. There are no branches by columns: which row has the next one is what a processor cannot foresee.
#[inline(always)]
fn merge_row<T: SumElement>(
    first: (&[i64], &[T]),
    second: (&[i64], &[T]),
    columns: i64,
    (col, values): (&mut [i64], &mut [T]),
) -> Option<usize> {
    let (room, ends) = (first.0.len() + second.0.len(), (first.0.len(), second.0.len()));
    let (col, values) = (col.get_mut(..room)?, values.get_mut(..room)?);
    let (mut i, mut j, mut at, mut last, mut ascends) = (0, 0, 0, -1, true);
    while i < ends.0 && j < ends.1 {
        let ((x, y), (a, b)) = ((first.0[i], second.0[j]), (first.1[i], second.1[j]));
        let (has_first, has_second, column) = (x <= y, y <= x, x.min(y));
        let only = select_unpredictable(has_first, a, b);
        values[at] = select_unpredictable(has_first && has_second, a.plus(b), only);
        col[at] = column;
        ascends &= column > last;
        (i, j, at, last) = (i + usize::from(has_first), j + usize::from(has_second), at + 1, column);
    }
    let rest = first.0[i..].iter().zip(&first.1[i..]).chain(second.0[j..].iter().zip(&second.1[j..]));
    for (column, value) in rest {
        (col[at], values[at]) = (*column, *value);
        ascends &= *column > last;
        (at, last) = (at + 1, *column);
    }
    (ascends && last < columns).then_some(at)
}
