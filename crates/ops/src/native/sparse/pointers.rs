//! Rows and pointers: conversions of the indices of coordinates and of compressed rows, and the pattern of a transpose.

use super::arguments::{Pattern, Pointers, check_bounds, indices};
use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::structured::TensorSpec;
use crate::{Tensor, ops, scratch};
use flambeau_core::{Result, ScalarType, ensure};

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
    ensure!(
        (0..i64::MAX).contains(&size),
        InvalidArgument(NAME, "size"),
        "expected a number of rows but got {size}"
    );
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
    let rows = TensorSpec::like(&col, col.sizes()).allocate(NAME)?;
    if !rows.device().is_meta() {
        with_slices(NAME, &[&crow, &col], &[&rows], |s| {
            let pointers = Pointers::new(NAME, "crow_indices", s.read(0)?, s.read::<i64>(1)?.len())?;
            let rows = s.write::<i64>(0)?;
            (0..pointers.len()).for_each(|row| rows[pointers.segment(row)].fill(row as i64));
            Ok(())
        })?;
    }
    let pair = if transpose { [col, rows] } else { [rows, col] };
    of_width(ops::stack(&pair, 0)?, out_int32)
}

/// The transpose of a pattern of compressed rows with `columns` columns: its pointers, its columns, and for each of its positions the
/// position in the pattern before.
pub fn csr_transpose(crow: &Tensor, col: &Tensor, columns: i64) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "_csr_transpose";
    ensure!(
        (0..i64::MAX).contains(&columns),
        InvalidArgument(NAME, "columns"),
        "expected a number of columns but got {columns}"
    );
    let (crow, col) = (indices(NAME, "crow", crow)?, indices(NAME, "col", col)?);
    let made = |sizes: &[i64]| TensorSpec::like(&col, sizes).allocate(NAME);
    let (pointers, rows, order) = (made(&[columns + 1])?, made(col.sizes())?, made(col.sizes())?);
    if !order.device().is_meta() {
        with_slices(NAME, &[&crow, &col], &[&pointers, &rows, &order], |s| {
            let pattern = Pattern::new(NAME, s.read(0)?, s.read(1)?, columns)?;
            transpose(&pattern, s.write(0)?, s.write(1)?, s.write(2)?);
            Ok(())
        })?;
    }
    Ok((pointers, rows, order))
}

/// A counting sort by columns, which keeps the order of rows.
fn transpose(pattern: &Pattern<'_>, pointers: &mut [i64], rows: &mut [i64], order: &mut [i64]) {
    pointers.fill(0);
    for column in pattern.col {
        pointers[*column as usize + 1] += 1;
    }
    for at in 1..pointers.len() {
        pointers[at] += pointers[at - 1];
    }
    let mut next = scratch::to_vec(pointers);
    for row in 0..pattern.rows.len() {
        for position in pattern.rows.segment(row) {
            let next = &mut next[pattern.col[position] as usize];
            rows[*next as usize] = row as i64;
            order[*next as usize] = position as i64;
            *next += 1;
        }
    }
}
