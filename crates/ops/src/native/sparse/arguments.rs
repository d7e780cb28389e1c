//! Arguments of sparse kernels: indices, checked patterns, and values in the type that sums are computed in.

use crate::Tensor;
use crate::native::factory::copy;
use crate::native::index::dim_index::long_index;
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, ScalarType, bail, ensure};
use std::ops::Range;

/// A list of indices as contiguous int64.
pub(super) fn indices(name: &str, argument: &str, tensor: &Tensor) -> Result<Tensor> {
    ensure!(
        tensor.dim() == 1,
        Shape(name, argument),
        "expected a tensor of one dimension but got sizes {:?}",
        tensor.sizes()
    );
    contiguous(&long_index(name, tensor)?, ScalarType::I64)
}

/// `tensor` in row-major order as `dtype`; itself if it is so already.
pub(super) fn contiguous(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.is_contiguous() && tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    copy::to_copy(tensor, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))
}

/// The type in which values of `dtype` are summed. Integers wrap to their type afterwards, and a bool is whether the sum is not 0.
pub(super) fn sum_type(name: &str, dtype: ScalarType) -> Result<ScalarType> {
    match dtype {
        ScalarType::F32 | ScalarType::F64 => Ok(dtype),
        ScalarType::F16 | ScalarType::BF16 => Ok(ScalarType::F32),
        dtype if dtype.is_integral(true) => Ok(ScalarType::I64),
        other => bail!(NotImplemented(name), "sums of {other} are not implemented for sparse tensors"),
    }
}

/// Numbers of one of the types that sums are computed in.
pub(super) trait SumElement: Pod + Send + Sync {
    const ZERO: Self;

    fn plus(self, other: Self) -> Self;

    fn times(self, other: Self) -> Self;
}

macro_rules! float_sums {
    ($($float:ty),*) => {$(
        impl SumElement for $float {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

float_sums!(f32, f64);

impl SumElement for i64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
}

/// Pointers: where each segment starts, and where the last one ends.
///
/// - (sorted) They begin with 0 and ascend.
pub(super) struct Pointers<'a>(&'a [i64]);

impl<'a> Pointers<'a> {
    /// Requires that the last one is `count`.
    pub(super) fn new(name: &str, argument: &str, pointers: &'a [i64], count: usize) -> Result<Self> {
        let ends = (pointers.first().copied(), pointers.last().copied());
        ensure!(
            ends == (Some(0), Some(count as i64)) && pointers.is_sorted(),
            InvalidArgument(name, argument),
            "expected pointers that ascend from 0 to {count}, the number of indices"
        );
        Ok(Pointers(pointers))
    }

    /// How many segments.
    pub(super) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// The positions in a segment.
    #[inline(always)]
    pub(super) fn segment(&self, at: usize) -> Range<usize> {
        self.0[at] as usize..self.0[at + 1] as usize
    }

    /// The segment of a position.
    pub(super) fn segment_of(&self, position: usize) -> usize {
        self.0.partition_point(|start| *start <= position as i64) - 1
    }
}

/// The pattern of a matrix in compressed rows. Its columns are in bounds.
pub(super) struct Pattern<'a> {
    pub(super) rows: Pointers<'a>,
    pub(super) col: &'a [i64],
}

impl<'a> Pattern<'a> {
    pub(super) fn new(name: &str, crow: &'a [i64], col: &'a [i64], columns: i64) -> Result<Self> {
        let rows = Pointers::new(name, "crow", crow, col.len())?;
        check_bounds(name, "col", col, columns)?;
        Ok(Pattern { rows, col })
    }
}

/// Requires that all indices are in `0..size`.
pub(super) fn check_bounds(name: &str, argument: &str, indices: &[i64], size: i64) -> Result<()> {
    // Without an early exit the loop is vectorized.
    let any = indices.iter().fold(false, |any, index| any | !(0..size).contains(index));
    if !any {
        return Ok(());
    }
    let first = indices.iter().find(|index| !(0..size).contains(*index)).copied().unwrap_or_default();
    bail!(Index(name, argument), "index {first} is out of bounds for a dimension of size {size}")
}
