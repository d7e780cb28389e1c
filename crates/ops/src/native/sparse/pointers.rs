//! Rows and pointers: conversions of the indices of coordinates and of compressed rows, the pattern of a transpose and of selected rows.

use super::arguments::{Pattern, Pointers, check_bounds, check_size, indices, parts};
use super::radix;
use crate::native::factory::copy;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::masked_select::refuse_meta;
use crate::parallel::for_each_task;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, scratch};
use flambeau_core::{Result, ScalarType, bail, ensure, fallible};

/// As int32 if `out_int32`.
fn of_width(indices: Tensor, out_int32: bool) -> Result<Tensor> {
    match out_int32 {
        true => copy::to_copy(&indices, Some(ScalarType::I32), None, None, None, false, None),
        false => Ok(indices),
    }
}

/// For rows in ascending order, where each of `size` rows starts, and where the last one ends.
pub fn convert_indices_from_coo_to_csr(self_: &Tensor, size: i64, out_int32: bool) -> Result<Tensor> {
    const NAME: &str = "_convert_indices_from_coo_to_csr";
    check_size(NAME, "size", size)?;
    let rows = indices(NAME, "self", self_)?;
    let out = TensorSpec::like(&rows, &[size + 1]).allocate(NAME)?;
    if !out.device().is_meta() {
        with_slices(NAME, &[&rows], &[&out], |s| {
            let (rows, out) = (s.read::<i64>(0)?, s.write::<i64>(0)?);
            check_bounds(NAME, "self", rows, size)?;
            ensure!(rows.is_sorted(), InvalidArgument(NAME, "self"), "expected rows in ascending order");
            let mut next = 0;
            for (position, row) in rows.iter().enumerate() {
                let row = *row as usize;
                if row >= next {
                    out[next..=row].fill(position as i64);
                    next = row + 1;
                }
            }
            out[next..].fill(rows.len() as i64);
            Ok(())
        })?;
    }
    of_width(out, out_int32)
}

/// The indices of rows and columns of a matrix in compressed rows, `[2, nnz]`; if `transpose`, those of columns first.
pub fn convert_indices_from_csr_to_coo(
    crow_indices: &Tensor,
    col_indices: &Tensor,
    out_int32: bool,
    transpose: bool,
) -> Result<Tensor> {
    const NAME: &str = "_convert_indices_from_csr_to_coo";
    let crow = indices(NAME, "crow_indices", crow_indices)?;
    let col = indices(NAME, "col_indices", col_indices)?;
    let pair = TensorSpec::like(&col, &[2, col.numel()]).allocate(NAME)?;
    if !pair.device().is_meta() {
        with_slices(NAME, &[&crow, &col], &[&pair], |s| {
            let col = s.read::<i64>(1)?;
            let pointers = Pointers::new(NAME, "crow_indices", s.read(0)?, col.len())?;
            let (first, second) = s.write::<i64>(0)?.split_at_mut(col.len());
            let (rows, columns) = if transpose { (second, first) } else { (first, second) };
            write_rows(&pointers, rows);
            fill(columns, 1, |range, columns| columns.copy_from_slice(&col[range]));
            Ok(())
        })?;
    }
    of_width(pair, out_int32)
}

/// The transpose of a pattern of compressed rows with `columns` columns: its pointers, its columns, and for each of its positions the
/// position in the pattern before.
pub fn csr_transpose(crow: &Tensor, col: &Tensor, columns: i64) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "_csr_transpose";
    check_size(NAME, "columns", columns)?;
    let (crow, col) = (indices(NAME, "crow", crow)?, indices(NAME, "col", col)?);
    let made = |sizes: &[i64]| TensorSpec::like(&col, sizes).allocate(NAME);
    let (pointers, rows, order) = (made(&[columns + 1])?, made(col.sizes())?, made(col.sizes())?);
    if !order.device().is_meta() {
        with_slices(NAME, &[&crow, &col], &[&pointers, &rows, &order], |s| {
            let pattern = Pattern::new(NAME, s.read(0)?, s.read(1)?, columns)?;
            transpose(&pattern, s.write(0)?, s.write(1)?, s.write(2)?)
        })?;
    }
    Ok((pointers, rows, order))
}

/// Sorts positions by their columns, which keeps the order of rows.
fn transpose(pattern: &Pattern<'_>, pointers: &mut [i64], rows: &mut [i64], order: &mut [i64]) -> Result<()> {
    let mut next = 0;
    let sorted = radix::for_each_sorted(&pattern.col, |at, column, position| {
        order[at] = position as i64;
        let column = column as usize;
        if column >= next {
            pointers[next..=column].fill(at as i64);
            next = column + 1;
        }
        Ok(())
    });
    // Columns of a pattern are in bounds.
    sorted.unwrap_or(Ok(()))?;
    pointers[next..].fill(order.len() as i64);
    let mut row_of = scratch::filled(0i64, order.len());
    write_rows(&pattern.rows, &mut row_of);
    fill(rows, 1, |range, rows| {
        rows.iter_mut().zip(&order[range]).for_each(|(row, position)| *row = row_of[*position as usize]);
    });
    Ok(())
}

/// The row of each position.
fn write_rows(pointers: &Pointers<'_>, rows: &mut [i64]) {
    fill(rows, 1, |range, rows| {
        let (mut row, mut at) = (pointers.segment_of(range.start), range.start);
        while at < range.end {
            let end = pointers.segment(row).end.min(range.end);
            rows[at - range.start..end - range.start].fill(row as i64);
            (row, at) = (row + 1, end);
        }
    });
}

/// The pointers of selected rows of a pattern with `count` positions, and the positions of their elements.
pub fn csr_select_rows(crow: &Tensor, index: &Tensor, count: i64) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "_csr_select_rows";
    refuse_meta(NAME, crow)?;
    let (crow, index) = (indices(NAME, "crow", crow)?, indices(NAME, "index", index)?);
    let pointers = TensorSpec::like(&index, &[index.numel() + 1]).allocate(NAME)?;
    let (firsts, total) = with_slices(NAME, &[&crow, &index], &[&pointers], |s| {
        selected_pointers(NAME, s.read(0)?, s.read(1)?, count, s.write(0)?)
    })?;
    let positions = TensorSpec::like(&index, &[total]).allocate(NAME)?;
    with_slices(NAME, &[&pointers], &[&positions], |s| {
        let pointers = Pointers::new(NAME, "index", s.read(0)?, total as usize)?;
        let tasks = parts(s.write::<i64>(0)?, pointers.ranges(GRAIN), |selected| {
            pointers.segment(selected.end - 1).end - pointers.segment(selected.start).start
        });
        for_each_task(tasks, |(selected, mut out): (_, &mut [i64])| {
            for (at, first) in selected.clone().zip(&firsts[selected]) {
                let (own, rest) = std::mem::take(&mut out).split_at_mut(pointers.segment(at).len());
                own.iter_mut().zip(*first..).for_each(|(position, of)| *position = of);
                out = rest;
            }
        });
        Ok(())
    })?;
    Ok((pointers, positions))
}

/// Writes where the elements of each selected row begin in the result; returns where they begin in the pattern, which has `count`
/// elements, and how many there are. Only pointers of selected rows are read, so that the work is that of these rows.
pub(super) fn selected_pointers(
    name: &str,
    rows: &[i64],
    index: &[i64],
    count: i64,
    out: &mut [i64],
) -> Result<(Vec<i64>, i64)> {
    check_bounds(name, "index", index, rows.len() as i64 - 1)?;
    let (mut firsts, mut total) = (fallible::with_capacity(index.len())?, 0i64);
    let (starts, end) = out.split_at_mut(index.len());
    for (to, row) in starts.iter_mut().zip(index) {
        let (start, next) = (rows[*row as usize], rows[*row as usize + 1]);
        ensure!(
            0 <= start && start <= next && next <= count,
            InvalidArgument(name, "crow"),
            "expected pointers that ascend from 0 to {count}, the number of indices"
        );
        *to = total;
        let Some(sum) = total.checked_add(next - start) else {
            bail!(Overflow(name, "index"), "the selected rows have more than 2^63 elements")
        };
        total = sum;
        firsts.push(start);
    }
    end.fill(total);
    Ok((firsts, total))
}
