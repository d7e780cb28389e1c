//! Which elements of a tensor are indexed, and the bounds check of the indices before an element is read or written.

use crate::native::strided_iter::StridedIter;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use flambeau_core::{DimVec, Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// The elements of a tensor at given indices of one dimension: over `sizes`, the element at an index tuple `at` has the offset
/// `sum(at * strides) + index[at] * stride`.
pub(in crate::native) struct DimIndex<'a> {
    /// The operator, for messages.
    pub(in crate::native) name: &'a str,
    /// The sizes of the iteration.
    pub(in crate::native) sizes: &'a [i64],
    /// The strides over `sizes` of the tensor that is indexed, 0 along the indexed dimension.
    pub(in crate::native) strides: &'a [i64],
    /// The strides over `sizes` of the tensor of indices.
    pub(in crate::native) index_strides: &'a [i64],
    /// The indexed dimension, for messages.
    pub(in crate::native) dim: usize,
    /// Its size, below which indices must be.
    pub(in crate::native) size: i64,
    /// Its stride.
    pub(in crate::native) stride: i64,
}

/// Refuses indices outside `0..size`. In Python most operators raise IndexError, but `gather`, `scatter` and `index_add` RuntimeError.
fn check_range(name: &str, index: &[i64], iter: &StridedIter<1>, dim: usize, size: i64) -> Result<()> {
    // As an unsigned integer a negative index is out of range, too.
    let is_outside = |i: i64| i as u64 >= size as u64;
    let ([step], outside) = (iter.steps(), AtomicBool::new(false));
    parallel_for(0..iter.numel(), GRAIN, |range| {
        iter.for_each_run(range, |[at], n| {
            let any = match step {
                // Without an early exit, so that the compiler vectorizes the loop.
                1 => with_processor_vectors(
                    #[inline(always)]
                    || index[at as usize..][..n].iter().fold(false, |any, &i| any | is_outside(i)),
                ),
                _ => (0..n as i64).any(|j| is_outside(index[(at + j * step) as usize])),
            };
            if any {
                outside.store(true, Ordering::Relaxed);
            }
        });
    });
    let mut wrong = None;
    if outside.into_inner() {
        iter.for_each(|[at]| wrong = wrong.or(Some(index[at as usize]).filter(|&i| is_outside(i))));
    }
    match wrong {
        Some(i) => {
            let family = ["gather", "index_add"].contains(&name) || name.starts_with("scatter");
            let kind = if family { ErrorKind::InvalidArgument } else { ErrorKind::Index };
            let message = format!("index {i} is out of bounds for dimension {dim} with size {size}");
            Err(Error::new(kind, message).in_operator(name).with_argument("index"))
        }
        None => Ok(()),
    }
}

impl DimIndex<'_> {
    pub(super) fn check(&self, index: &[i64]) -> Result<()> {
        // Along dimensions in which the indices are broadcast, checking one is enough.
        let repeats = |d: &usize| self.index_strides[*d] == 0 && self.sizes[*d] > 0;
        let sizes: DimVec =
            (0..self.sizes.len()).map(|d| if repeats(&d) { 1 } else { self.sizes[d] }).collect();
        check_range(self.name, index, &StridedIter::new(&sizes, [self.index_strides]), self.dim, self.size)
    }
}
