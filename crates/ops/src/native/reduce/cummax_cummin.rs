//! `cummax` and `cummin`: the maximum or minimum of the elements up to each one of a dimension.

use super::median_mode::length;
use crate::native::element_bits::{ElementBits, Sortable};
use crate::native::guarded_slices::{fill, with_slices};
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, shape};

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
    let found = TensorSpec::like(&dense, dense.sizes()).with_dtype(ScalarType::I64).allocate(name)?;
    let chosen = TensorSpec::like(&dense, dense.sizes()).allocate(name)?;
    dispatch_all_types!(ordered, self_.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[&dense], &[&found], |s| {
            let (elements, found) = (s.read::<N>(0)?, s.write::<i64>(0)?);
            fill(found, rows * width, |range, part| {
                let blocks = part.chunks_exact_mut(rows * width).zip(elements[range].chunks_exact(rows * width));
                blocks.for_each(|(found, elements)| best_of_block(elements, found, width, best));
            });
            Ok(())
        })?;
        with_slices(name, &[&dense, &found], &[&chosen], |s| {
            let (elements, found, chosen) = (s.read::<N>(0)?, s.read::<i64>(1)?, s.write::<N>(0)?);
            fill(chosen, rows * width, |range, part| {
                let blocks = found[range.clone()].chunks_exact(rows * width);
                let blocks = blocks.zip(elements[range].chunks_exact(rows * width));
                for (to, (found, elements)) in part.chunks_exact_mut(rows * width).zip(blocks) {
                    take(elements, found, to, width);
                }
            });
            Ok(())
        })
    })?;
    ops::copy_(values, &chosen, false)?;
    ops::copy_(indices, &found, false).map(drop)
}

/// The elements of each of `width` columns at the indices `found`.
fn take<N: Copy>(elements: &[N], found: &[i64], to: &mut [N], width: usize) {
    for (to, found) in to.chunks_exact_mut(width).zip(found.chunks_exact(width)) {
        for (column, (to, index)) in to.iter_mut().zip(found).enumerate() {
            *to = elements[*index as usize * width + column];
        }
    }
}

/// [`best_of_block`] for one column, whose best element stays in registers.
fn best_of_row<N: Sortable>(elements: &[N], found: &mut [i64], nan: u64, best: Best) {
    let (mut rank, mut at) = (0, 0);
    for (row, (element, found)) in elements.iter().zip(found).enumerate() {
        let new = best.rank(*element, nan);
        if new >= rank {
            (rank, at) = (new, row as i64);
        }
        *found = at;
    }
}

/// The index of the best element up to each one, in each of `width` columns.
fn best_of_block<N: Sortable>(elements: &[N], found: &mut [i64], width: usize, best: Best) {
    let nan = N::of(Scalar::Float(f64::NAN)).sort_key();
    if width == 1 {
        return best_of_row(elements, found, nan, best);
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
