//! Rows across memory: where the neighbours of an element belong to other rows, strips of these are computed column by column, without
//! a copy of each row.

use super::map_rows::{RowOperand, Strip};
use crate::Tensor;
use crate::parallel::parallel_for;
use crate::snapshot::ensure_unchanged;
use crate::tensor_iterator::{DimMask, grain_of};
use flambeau_core::{Access, Result, StorageGuards};
use smallvec::SmallVec;

/// Rows of a strip: four cache lines of f32.
const STRIP: usize = 64;
/// With fewer adjacent rows than this, rows are gathered in tiles.
const MIN_ROWS: usize = 8;

/// Calls `body(inputs, output, n, rows)` for strips of up to 64 rows of `n` elements, if the elements of all operands are adjacent across
/// the rows of the dimensions `mask`, and of one type. Otherwise does nothing and returns `false`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn map_columns<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    body: impl Fn([Strip; N], Strip, usize, usize) + Sync,
) -> Result<bool> {
    let dtype = out.dtype();
    if out.numel() == 0 || inputs.iter().any(|input| input.dtype() != dtype) {
        return Ok(false);
    }
    let mut accesses: SmallVec<[_; 4]> = SmallVec::new();
    accesses.push((out.storage(), Access::Write));
    accesses.extend(inputs.iter().map(|input| (input.storage(), Access::Read)));
    let guards = StorageGuards::acquire(&accesses)?;
    ensure_unchanged(&inputs).and_then(|()| ensure_unchanged(&[out]))?;
    let mut operands: SmallVec<[RowOperand; 4]> = SmallVec::new();
    for operand in inputs.iter().chain([&out]) {
        operands.push(RowOperand::new(guards.guarded(), operand, mask, dtype, dtype)?);
    }
    let adjacent = operands.iter().map(RowOperand::adjacent_rows).min().unwrap_or(0);
    if adjacent < MIN_ROWS {
        return Ok(false);
    }
    let n = mask.count(out.sizes()) as usize;
    let strips = adjacent.div_ceil(STRIP);
    let all = out.numel() as usize / n / adjacent * strips;
    let grain = (grain_of(out.numel() as usize, 4) / (n * STRIP)).max(1);
    parallel_for(0..all, grain, |range| {
        for strip in range {
            let first = strip % strips * STRIP;
            let row = strip / strips * adjacent + first;
            let of = |k: usize| operands[k].strip(row);
            body(std::array::from_fn(of), of(N), n, STRIP.min(adjacent - first));
        }
    });
    Ok(true)
}
