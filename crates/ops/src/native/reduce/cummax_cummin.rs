//! `cummax` and `cummin`: the maximum or minimum of the elements up to each one of a dimension.

use super::median_mode::{find_indices, length, store_selected};
use crate::Tensor;
use crate::structured::TensorSpec;
use flambeau_core::{Result, ScalarType};

fn cumulative_meta(name: &str, self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    length(name, self_, dim)?;
    let values = TensorSpec::like(self_, self_.sizes());
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

/// The best element up to each one of a dimension, and its index; `replaces(new, best)` compares sort keys.
fn cumulative(
    name: &str,
    self_: &Tensor,
    dim: i64,
    (values, indices): (&Tensor, &Tensor),
    replaces: &(dyn Fn(u64, u64) -> bool + Sync),
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let n = length(name, self_, dim)?;
    let found = find_indices(name, self_, dim, n, &|row, nan, out| {
        let mut best = 0;
        for (index, key) in row.iter().enumerate() {
            let (is_nan, was_nan) = (Some(*key) == nan, Some(row[best]) == nan);
            if is_nan || (!was_nan && replaces(*key, row[best])) {
                best = index;
            }
            out[index] = best as i64;
        }
    })?;
    store_selected(self_, dim, &found, (values, indices))
}

/// Shapes and types of [`cummax`].
pub fn cummax_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    cumulative_meta("cummax", self_, dim)
}

/// The maximum of the elements up to each one of a dimension, and its last index; from the first NaN on, NaN.
pub fn cummax(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    cumulative("cummax", self_, dim, (values, indices), &|new, old| new >= old)
}

/// Shapes and types of [`cummin`].
pub fn cummin_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    cumulative_meta("cummin", self_, dim)
}

/// The minimum of the elements up to each one of a dimension, and its last index; from the first NaN on, NaN.
pub fn cummin(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    cumulative("cummin", self_, dim, (values, indices), &|new, old| new <= old)
}
