//! `tril_indices` and `triu_indices`.

use crate::{Tensor, ops};
use flambeau_core::{Device, Layout, Result, ScalarType, ensure};

/// The row and column indices of a triangle of a matrix; `columns` gives the range of columns of each row.
fn triangle_indices(
    name: &str,
    row: i64,
    col: i64,
    columns: impl Fn(i64) -> std::ops::Range<i64>,
    options: (Option<ScalarType>, Option<Layout>, Option<Device>),
) -> Result<Tensor> {
    ensure!(row >= 0, InvalidArgument(name, "row"), "row must be non-negative, got {row}");
    ensure!(col >= 0, InvalidArgument(name, "col"), "col must be non-negative, got {col}");
    let (dtype, layout, device) = options;
    // The loop visits every row: so many that the result would not fit in memory are refused before.
    ensure!(row <= 1 << 32, OutOfMemory(name), "a matrix of {row} rows has too many elements");
    let mut count = 0i64;
    for r in 0..if col == 0 { 0 } else { row } {
        count = count.saturating_add(columns(r).end - columns(r).start);
    }
    let made = ops::empty_memory_format(&[2, count], Some(ScalarType::I64), layout, device, None, None)?;
    if !made.device().is_meta() && count > 0 {
        let mut indices = Vec::new();
        let room = indices.try_reserve_exact(2 * count as usize);
        ensure!(room.is_ok(), OutOfMemory(name), "{count} indices");
        indices.extend((0..row).flat_map(|r| columns(r).map(move |_| r)));
        indices.extend((0..row).flat_map(&columns));
        ops::copy_(&made, &Tensor::from_vec(indices, &[2, count])?, false)?;
    }
    made.to(dtype.unwrap_or(ScalarType::I64))
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
    let end = |r: i64| r.saturating_add(offset).saturating_add(1).clamp(0, col);
    triangle_indices("tril_indices", row, col, |r| 0..end(r), (dtype, layout, device))
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
    let start = |r: i64| r.saturating_add(offset).clamp(0, col);
    triangle_indices("triu_indices", row, col, |r| start(r)..col, (dtype, layout, device))
}
