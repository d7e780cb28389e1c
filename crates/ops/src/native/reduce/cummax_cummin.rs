//! `cummax` and `cummin`: the maximum or minimum of the elements up to each one of a dimension.

use super::median_mode::length;
use crate::native::element_bits::{ElementBits, Numeric, Sortable};
use crate::native::guarded_slices::{fill_both, with_slices};
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, Storage, shape};

fn cumulative_meta(name: &str, self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    length(name, self_, dim)?;
    let values = TensorSpec::like(self_, self_.sizes());
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

/// Columns whose best elements are kept at a time.
const STRIP: usize = 512;

/// Which of two elements is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Largest,
    Smallest,
}

impl Best {
    /// A number that is at least as large for an element that is at least as good; NaN is best.
    #[inline(always)]
    fn rank<N: Sortable>(self, element: N, nan: u64) -> u64 {
        let key = element.sort_key();
        match self {
            Best::Largest => key,
            Best::Smallest if N::HAS_NAN && key == nan => u64::MAX,
            Best::Smallest => !key,
        }
    }
}

/// The best element up to each one of a dimension, and its index, the last of equals.
fn cumulative(
    name: &str,
    self_: &Tensor,
    dim: i64,
    (values, indices): (&Tensor, &Tensor),
    best: Best,
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let rows = length(name, self_, dim)? as usize;
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    let width = shape::product(self_.sizes().get(d + 1..).unwrap_or_default()) as usize;
    let dense = ops::contiguous(self_, MemoryFormat::Contiguous)?;
    let is_own = |t: &Tensor| t.is_contiguous() && !Storage::ptr_eq(t.storage(), dense.storage());
    if is_own(values) && is_own(indices) && !Storage::ptr_eq(values.storage(), indices.storage()) {
        return fill_cumulative(name, &dense, (rows, width), (values, indices), best);
    }
    let chosen = TensorSpec::like(&dense, dense.sizes()).allocate(name)?;
    let found = TensorSpec::like(&dense, dense.sizes()).with_dtype(ScalarType::I64).allocate(name)?;
    fill_cumulative(name, &dense, (rows, width), (&chosen, &found), best)?;
    ops::copy_(values, &chosen, false)?;
    ops::copy_(indices, &found, false).map(drop)
}

/// [`cumulative`] of blocks of `rows` and `width` elements that follow one another; so do those of the results.
fn fill_cumulative(
    name: &str,
    dense: &Tensor,
    (rows, width): (usize, usize),
    (values, indices): (&Tensor, &Tensor),
    best: Best,
) -> Result<()> {
    let block = rows * width;
    dispatch_all_types!(ordered, dense.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[dense], &[values, indices], |s| {
            let (elements, values, indices) = (s.read::<N>(0)?, s.write::<N>(0)?, s.write::<i64>(1)?);
            fill_both((values, indices), block, |range, values, indices| {
                let targets = values.chunks_exact_mut(block).zip(indices.chunks_exact_mut(block));
                for (elements, (values, indices)) in elements[range].chunks_exact(block).zip(targets) {
                    best_of_block(elements, (values, indices), width, best);
                }
            });
            Ok(())
        })
    })
}

/// The elements of each of `width` columns at the indices `found`.
fn take<N: Numeric>(elements: &[N], found: &[i64], to: &mut [N], width: usize) {
    for (to, found) in to.chunks_exact_mut(width).zip(found.chunks_exact(width)) {
        for (column, (to, index)) in to.iter_mut().zip(found).enumerate() {
            *to = elements[*index as usize * width + column].normalized();
        }
    }
}

/// [`best_of_block`] for one column, whose best element stays in registers.
#[inline(always)]
fn best_of_row<N: Sortable>(elements: &[N], (values, indices): (&mut [N], &mut [i64]), nan: u64, best: Best) {
    let Some(&first) = elements.first() else { return };
    let (mut rank, mut at, mut value) = (0, 0, first);
    for (row, (element, (to, index))) in elements.iter().zip(values.iter_mut().zip(indices)).enumerate() {
        let new = best.rank(*element, nan);
        // Without a branch, which would not be predictable.
        let is_best = new >= rank;
        rank = rank.max(new);
        at = if is_best { row as i64 } else { at };
        value = if is_best { *element } else { value };
        (*to, *index) = (value, at);
    }
    N::normalize_all(values);
}

/// The best element up to each one, and its index, in each of `width` columns.
fn best_of_block<N: Sortable>(
    elements: &[N],
    (values, found): (&mut [N], &mut [i64]),
    width: usize,
    best: Best,
) {
    let nan = N::of(Scalar::Float(f64::NAN)).sort_key();
    if width == 1 {
        return best_of_row(elements, (values, found), nan, best);
    }
    let mut ranks: Vec<u64> = scratch::with_capacity(width.min(STRIP));
    let mut rows: Vec<i64> = scratch::with_capacity(width.min(STRIP));
    for first in (0..width).step_by(STRIP) {
        let count = STRIP.min(width - first);
        ranks.clear();
        ranks.resize(count, 0);
        rows.clear();
        rows.resize(count, 0);
        let blocks = elements.chunks_exact(width).zip(found.chunks_exact_mut(width));
        for (row, (elements, found)) in blocks.enumerate() {
            let columns = elements[first..first + count].iter().zip(&mut found[first..first + count]);
            for ((element, found), (rank, at)) in columns.zip(ranks.iter_mut().zip(&mut rows)) {
                let new = best.rank(*element, nan);
                if new >= *rank {
                    (*rank, *at) = (new, row as i64);
                }
                *found = *at;
            }
        }
    }
    take(elements, found, values, width);
}

/// Shapes and types of [`cummax`].
pub fn cummax_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    cumulative_meta("cummax", self_, dim)
}

/// The maximum of the elements up to each one of a dimension, and its last index; from the first NaN on, NaN.
pub fn cummax(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    cumulative("cummax", self_, dim, (values, indices), Best::Largest)
}

/// Shapes and types of [`cummin`].
pub fn cummin_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    cumulative_meta("cummin", self_, dim)
}

/// The minimum of the elements up to each one of a dimension, and its last index; from the first NaN on, NaN.
pub fn cummin(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    cumulative("cummin", self_, dim, (values, indices), Best::Smallest)
}
