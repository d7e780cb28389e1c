//! Terms of sums of numbers: elements of a table at some indices, with weights.
#![expect(unsafe_code, reason = "elements are read by indices that are checked many at a time before")]

use super::arguments::{IndexElement, SumElement, any_outside_of};
use crate::vectorized::prefetch_cache_line;
use std::ops::Range;

/// Indices in a cache line, after which the next one is prefetched.
const CHUNK: usize = 8;
/// How far ahead indices and weights are prefetched, in bytes.
const AHEAD: usize = 4096;

/// Terms of sums: elements of a table, each times a weight if there are any.
#[derive(Clone, Copy)]
pub(super) struct NumberTerms<'a, T, I> {
    pub(super) table: &'a [T],
    /// Where the terms are in the table; without indices they are its elements in their order.
    pub(super) indices: Option<&'a [I]>,
    pub(super) weights: Option<&'a [T]>,
}

impl<T: SumElement, I: IndexElement> NumberTerms<'_, T, I> {
    /// Writes the terms at these positions; `None` if one is out of bounds.
    #[inline(always)]
    pub(super) fn write(&self, positions: Range<usize>, to: &mut [T]) -> Option<()> {
        let Some(indices) = self.indices else {
            to.copy_from_slice(self.table.get(positions.clone())?);
            if let Some(weights) = self.weights {
                to.iter_mut().zip(weights.get(positions)?).for_each(|(to, weight)| *to = weight.times(*to));
            }
            return Some(());
        };
        let indices = indices.get(positions.clone())?;
        // They are checked before they are read by, since a loop without an early exit is vectorized.
        if any_outside_of(indices, self.table.len() as u64) {
            return None;
        }
        // SAFETY: the index is below the length of the table.
        let at = |index: I| unsafe { *self.table.get_unchecked(index.position()) };
        match self.weights {
            Some(weights) => {
                let weights = weights.get(positions)?;
                let ((to, to_rest), (indices, indices_rest)) =
                    (to.as_chunks_mut::<CHUNK>(), indices.as_chunks::<CHUNK>());
                let (weights, weights_rest) = weights.as_chunks::<CHUNK>();
                for ((to, indices), weights) in to.iter_mut().zip(indices).zip(weights) {
                    prefetch_later(indices);
                    prefetch_later(weights);
                    // A whole chunk, so that no loop stands between the loads, which mostly miss L1.
                    *to = std::array::from_fn(|lane| weights[lane].times(at(indices[lane])));
                }
                let rest = indices_rest.iter().zip(weights_rest);
                to_rest.iter_mut().zip(rest).for_each(|(to, (index, weight))| *to = weight.times(at(*index)));
            }
            None => {
                let ((to, to_rest), (indices, indices_rest)) =
                    (to.as_chunks_mut::<CHUNK>(), indices.as_chunks::<CHUNK>());
                for (to, indices) in to.iter_mut().zip(indices) {
                    prefetch_later(indices);
                    *to = indices.map(at);
                }
                to_rest.iter_mut().zip(indices_rest).for_each(|(to, index)| *to = at(*index));
            }
        }
        Some(())
    }
}

/// Prefetches what follows some elements after [`AHEAD`] bytes, so that it is there when its indices are checked.
#[inline(always)]
fn prefetch_later<T>(elements: &[T]) {
    prefetch_cache_line(elements.as_ptr().cast::<u8>().wrapping_add(AHEAD));
}
