//! `tril_indices` and `triu_indices`.

use crate::{Tensor, ops};
use flambeau_core::{Device, Layout, Result, ScalarType, ensure, error};
use std::ops::Range;

/// A part of a matrix: in row `r` the columns below `r + shift` if `lower`, and all others if not.
struct Triangle {
    rows: i64,
    columns: i64,
    shift: i64,
    lower: bool,
}

impl Triangle {
    fn columns(&self, row: i64) -> Range<i64> {
        let border = row.saturating_add(self.shift).clamp(0, self.columns);
        if self.lower { 0..border } else { border..self.columns }
    }

    /// The rows that have columns here, if any row has.
    fn rows(&self) -> Range<i64> {
        if self.lower {
            1i64.saturating_sub(self.shift).max(0)..self.rows
        } else {
            0..self.columns.saturating_sub(self.shift).min(self.rows)
        }
    }

    fn numel(&self) -> u128 {
        let (rows, columns) = (self.rows as u128, self.columns as u128);
        // The sum of `min(k, columns)` for k from 0 to `end - 1`.
        let sum = |end: i128| match end.max(0) as u128 {
            end if end <= columns => end * end.saturating_sub(1) / 2,
            end => columns * columns.saturating_sub(1) / 2 + (end - columns) * columns,
        };
        let below = sum(i128::from(self.rows) + i128::from(self.shift)) - sum(i128::from(self.shift));
        if self.lower { below } else { rows * columns - below }
    }

    /// The indices of its rows, then those of its columns.
    fn indices(
        &self,
        name: &str,
        (dtype, layout, device): (Option<ScalarType>, Option<Layout>, Option<Device>),
    ) -> Result<Tensor> {
        ensure!(self.rows >= 0, InvalidArgument(name, "row"), "row must be non-negative, got {}", self.rows);
        ensure!(
            self.columns >= 0,
            InvalidArgument(name, "col"),
            "col must be non-negative, got {}",
            self.columns
        );
        let count =
            i64::try_from(self.numel()).map_err(|_| error!(OutOfMemory(name), "{} indices", self.numel()))?;
        let made = ops::empty_memory_format(&[2, count], Some(ScalarType::I64), layout, device, None, None)?;
        if !made.device().is_meta() && count > 0 {
            let mut indices = Vec::new();
            let room = indices.try_reserve_exact(2 * count as usize);
            ensure!(room.is_ok(), OutOfMemory(name), "{count} indices");
            indices.extend(self.rows().flat_map(|row| self.columns(row).map(move |_| row)));
            indices.extend(self.rows().flat_map(|row| self.columns(row)));
            ops::copy_(&made, &Tensor::from_vec(indices, &[2, count])?, false)?;
        }
        made.to(dtype.unwrap_or(ScalarType::I64))
    }
}

/// The indices of the elements on and below a diagonal of a matrix.
pub fn tril_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let triangle = Triangle { rows: row, columns: col, shift: offset.saturating_add(1), lower: true };
    triangle.indices("tril_indices", (dtype, layout, device))
}

/// The indices of the elements on and above a diagonal of a matrix.
pub fn triu_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let triangle = Triangle { rows: row, columns: col, shift: offset, lower: false };
    triangle.indices("triu_indices", (dtype, layout, device))
}
