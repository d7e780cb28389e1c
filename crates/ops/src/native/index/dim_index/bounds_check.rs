//! How places of a dimension are named by indices, which are looked at before anything is read or written.

use crate::native::strided_iter::Walk;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use flambeau_core::{DimVec, Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// Refuses indices outside `0..size`. In Python most operators raise IndexError, but those of the gather family RuntimeError.
fn check_range(name: &str, index: &[i64], walk: &Walk<1>, dim: usize, size: i64) -> Result<()> {
    // A negative index is a large one.
    let is_outside = |i: i64| i as u64 >= size as u64;
    let ([step], outside) = (walk.steps(), AtomicBool::new(false));
    parallel_for(0..walk.numel(), GRAIN, |range| {
        walk.stretches(range, |[at], n| {
            let any = match step {
                // Without a way out in the middle, so that whole vectors are looked at.
                1 => index[at as usize..][..n].iter().fold(false, |any, &i| any | is_outside(i)),
                _ => (0..n as i64).any(|j| is_outside(index[(at + j * step) as usize])),
            };
            if any {
                outside.store(true, Ordering::Relaxed);
            }
        });
    });
    let mut wrong = None;
    if outside.into_inner() {
        walk.each(|[at]| wrong = wrong.or(Some(index[at as usize]).filter(|&i| is_outside(i))));
    }
    match wrong {
        Some(i) => {
            let family = ["gather", "index_add"].contains(&name) || name.starts_with("scatter");
            let kind = if family { ErrorKind::InvalidArgument } else { ErrorKind::Index };
            let message = format!("{name}: index {i} is out of bounds for dimension {dim} with size {size}");
            Err(Error::new(kind, message))
        }
        None => Ok(()),
    }
}

/// How the places of one dimension are named.
pub(in crate::native) struct Places<'a> {
    /// The operator, for messages.
    pub(in crate::native) name: &'a str,
    /// The sizes walked.
    pub(in crate::native) sizes: &'a [i64],
    /// Strides of the tensor whose places are named, 0 along the dimension.
    pub(in crate::native) strides: &'a [i64],
    /// Strides of the indices over `sizes`.
    pub(in crate::native) index_strides: &'a [i64],
    /// The dimension, its size, and the distance of its places.
    pub(in crate::native) dim: usize,
    pub(in crate::native) size: i64,
    pub(in crate::native) stride: i64,
}

impl Places<'_> {
    pub(super) fn check(&self, index: &[i64]) -> Result<()> {
        // Dimensions along which indices repeat need one look.
        let repeats = |d: &usize| self.index_strides[*d] == 0 && self.sizes[*d] > 0;
        let sizes: DimVec =
            (0..self.sizes.len()).map(|d| if repeats(&d) { 1 } else { self.sizes[d] }).collect();
        check_range(self.name, index, &Walk::new(&sizes, [self.index_strides]), self.dim, self.size)
    }
}
