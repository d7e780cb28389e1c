//! DimCounter over dimensions, one element after another, without a division for each.

use crate::tensor_iterator::{Dim, offsets};
use smallvec::SmallVec;

/// Where a walk over dimensions stands.
pub(crate) struct DimCounter<'d> {
    dims: &'d [Dim],
    at: SmallVec<[i64; 6]>,
    /// Bytes from the first input element.
    pub(crate) input: isize,
    /// Bytes from the first output element.
    pub(crate) output: isize,
}

impl<'d> DimCounter<'d> {
    /// At step number `index` of a walk over `dims`, innermost first.
    #[inline]
    pub(crate) fn new(dims: &'d [Dim], index: usize) -> Self {
        let (input, output) = offsets(dims, index);
        let mut left = index;
        let at = dims.iter().map(|dim| {
            let here = left % dim.size as usize;
            left /= dim.size as usize;
            here as i64
        });
        DimCounter { dims, at: at.collect(), input, output }
    }

    /// How many steps are left in the innermost dimension, this one included.
    #[inline]
    pub(crate) fn left_in_row(&self) -> usize {
        self.dims.first().map_or(1, |dim| (dim.size - self.at[0]) as usize)
    }

    /// `n` steps further, at most to the end of the innermost dimension.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        let mut n = n as i64;
        for (dim, at) in self.dims.iter().zip(&mut self.at) {
            *at += n;
            self.input += (n * dim.input) as isize;
            self.output += (n * dim.output) as isize;
            if *at < dim.size {
                return;
            }
            self.input -= (dim.size * dim.input) as isize;
            self.output -= (dim.size * dim.output) as isize;
            (*at, n) = (0, 1);
        }
    }
}
