//! Arguments of sparse kernels: indices, checked patterns, and values in the type that sums are computed in.

use super::lanes::LaneSums;
use crate::Tensor;
use crate::native::factory::copy;
use crate::native::index::dim_index::long_index;
use crate::parallel::{for_each_task, parallel_reduce};
use crate::scratch;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::{prefetch_cache_line, with_processor_vectors};
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, ScalarType, bail, ensure};
use std::fmt::Display;
use std::ops::Range;

/// A matrix in compressed rows: pointers, columns, values.
pub(super) type Csr = (Tensor, Tensor, Tensor);

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

/// A list of indices as contiguous int32, if it has that type, or int64.
pub(super) fn indices_of_either_type(name: &str, argument: &str, tensor: &Tensor) -> Result<Tensor> {
    match (tensor.dtype(), tensor.dim()) {
        (ScalarType::I32, 1) => contiguous(tensor, ScalarType::I32),
        _ => indices(name, argument, tensor),
    }
}

/// `$body` with `$I` the type of a list of indices, int32 or int64.
macro_rules! dispatch_indices {
    ($indices:expr, $I:ident => $body:expr) => {
        match $indices.dtype() {
            flambeau_core::ScalarType::I32 => {
                type $I = i32;
                $body
            }
            _ => {
                type $I = i64;
                $body
            }
        }
    };
}

pub(super) use dispatch_indices;

/// The integers of a list of indices.
pub(super) trait IndexElement: Pod + Display + Send + Sync {
    /// The same integers without a sign, where negative ones are above all others.
    type Unsigned: Copy + Ord;

    fn unsigned(self) -> Self::Unsigned;

    /// The unsigned integer from which on indices are not below `size`.
    fn bound(size: u64) -> Self::Unsigned;

    /// The index as a position; a negative one becomes a position after all others.
    fn position(self) -> usize;

    /// The index of a row, which must be one of this type.
    fn from_row(row: u32) -> Self;
}

macro_rules! index_elements {
    ($($int:ty, $unsigned:ty);*) => {$(
        impl IndexElement for $int {
            type Unsigned = $unsigned;

            #[inline(always)]
            fn unsigned(self) -> $unsigned {
                self as $unsigned
            }

            #[inline(always)]
            fn bound(size: u64) -> $unsigned {
                // No index is larger than the largest of its type.
                size.min(<$int>::MAX as u64 + 1) as $unsigned
            }

            #[inline(always)]
            fn position(self) -> usize {
                self as isize as usize
            }

            #[inline(always)]
            fn from_row(row: u32) -> Self {
                row as $int
            }
        }
    )*};
}

index_elements!(i32, u32; i64, u64);

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
pub(super) trait SumElement: Pod + Send + Sync + LaneSums {
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
        // Without an early exit the loop is vectorized.
        let descends = || pointers.windows(2).fold(false, |any, pair| any | (pair[0] > pair[1]));
        ensure!(
            ends == (Some(0), Some(count as i64)) && !with_processor_vectors(descends),
            InvalidArgument(name, argument),
            "expected pointers that ascend from 0 to {count}, the number of indices"
        );
        Ok(Pointers(pointers))
    }

    /// Pointers that were counted by a kernel, so that they need no check.
    pub(super) fn counted(pointers: &'a [i64]) -> Self {
        Pointers(pointers)
    }

    /// How many segments.
    pub(super) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Where a segment starts, or for their number where the last one ends.
    #[inline(always)]
    pub(super) fn start(&self, at: usize) -> usize {
        self.0[at] as usize
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

    /// The positions of the longest segment.
    pub(super) fn longest(&self) -> usize {
        self.0.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default() as usize
    }

    /// The segments in ranges of about `grain` positions. A segment counts as one more, so that many empty ones are split too.
    pub(super) fn ranges(&self, grain: usize) -> Vec<Range<usize>> {
        let weight_before = |segment: usize| self.0[segment] as usize + segment;
        ranges(self.len(), grain, weight_before)
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

/// `0..count` in ranges of a weight of about `grain`: `weight_before` says how much comes before an item, or before the end, and ascends.
pub(super) fn ranges(
    count: usize,
    grain: usize,
    weight_before: impl Fn(usize) -> usize,
) -> Vec<Range<usize>> {
    let (grain, mut start) = (grain.max(1), 0);
    let mut found = scratch::with_capacity(weight_before(count) / grain + 1);
    while start < count {
        let bound = weight_before(start).saturating_add(grain);
        let (mut low, mut high) = (start + 1, count);
        while low < high {
            let middle = low.midpoint(high);
            (low, high) = if weight_before(middle) < bound { (middle + 1, high) } else { (low, middle) };
        }
        scratch::push(&mut found, start..low);
        start = low;
    }
    found
}

/// The elements of each range of units in a result, for ranges that follow each other from 0 on.
pub(super) fn parts<T>(
    mut out: &mut [T],
    ranges: Vec<Range<usize>>,
    elements: impl Fn(&Range<usize>) -> usize,
) -> Vec<(Range<usize>, &mut [T])> {
    scratch::collect(ranges.into_iter().map(|range| {
        let (part, rest) = std::mem::take(&mut out).split_at_mut(elements(&range));
        out = rest;
        (range, part)
    }))
}

/// Copies these parts of a list, one after the other.
pub(super) fn copy_parts<T: Pod + Send + Sync>(used: &[Range<usize>], from: &[T], to: &mut [T]) {
    let mut rest = to;
    let pairs = used.iter().map(|part| {
        let (own, after) = std::mem::take(&mut rest).split_at_mut(part.len());
        rest = after;
        (part.clone(), own)
    });
    for_each_task(scratch::collect(pairs), |(part, own)| own.copy_from_slice(&from[part]));
}

/// Prefetches some elements of a list, which may be past its end.
#[inline(always)]
pub(super) fn prefetch_elements<T>(list: &[T], first: usize, count: usize) {
    let address = list.as_ptr().wrapping_add(first).cast::<u8>();
    // The hardware prefetcher foresees the rest of a long row.
    for byte in (0..(count * size_of::<T>()).min(512)).step_by(64) {
        prefetch_cache_line(address.wrapping_add(byte));
    }
}

/// Whether any index is not in `0..size`.
fn any_outside<I: IndexElement>(indices: &[I], size: u64) -> bool {
    let any = |part: Range<usize>| with_processor_vectors(|| any_outside_of(&indices[part], size));
    parallel_reduce(0..indices.len(), GRAIN, any, |a, b| a | b).unwrap_or_default()
}

/// Whether any of a few indices is not in `0..size`.
#[inline(always)]
pub(super) fn any_outside_of<I: IndexElement>(indices: &[I], size: u64) -> bool {
    let bound = I::bound(size);
    // Without an early exit the loop is vectorized. A negative index is a large one without a sign.
    indices.iter().fold(false, |any, index| any | (index.unsigned() >= bound))
}

/// Requires a number of rows or columns, to which one can be added.
pub(super) fn check_size(name: &str, argument: &str, size: i64) -> Result<()> {
    ensure!(
        (0..i64::MAX).contains(&size),
        InvalidArgument(name, argument),
        "expected a number of at least 0 but got {size}"
    );
    Ok(())
}

/// Requires that all indices are in `0..size`.
pub(super) fn check_bounds<I: IndexElement>(
    name: &str,
    argument: &str,
    indices: &[I],
    size: i64,
) -> Result<()> {
    let count = size.max(0) as u64;
    if !any_outside(indices, count) {
        return Ok(());
    }
    let bound = I::bound(count);
    let Some(first) = indices.iter().find(|index| index.unsigned() >= bound) else { return Ok(()) };
    bail!(Index(name, argument), "index {first} is out of bounds for a dimension of size {size}")
}
