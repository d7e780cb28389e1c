//! An index into several dimensions that is advanced element by element, without a division for each. PyTorch's `DimCounter`.

use crate::tensor_iterator::{Dim, offsets};
use smallvec::SmallVec;

/// An index into dimensions, and the byte offsets of its element.
pub(crate) struct DimCounter<'d> {
    dims: &'d [Dim],
    at: SmallVec<[i64; 6]>,
    /// Bytes from the first input element.
    pub(crate) input: isize,
    /// Bytes from the first output element.
    pub(crate) output: isize,
}

impl<'d> DimCounter<'d> {
    /// At element `index` of `dims`, innermost dimension first.
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

    /// How many elements are left in the innermost dimension, this one included.
    #[inline]
    pub(crate) fn left_in_row(&self) -> usize {
        self.dims.first().map_or(1, |dim| (dim.size - self.at[0]) as usize)
    }

    /// Advances by `n` elements, at most to the end of the innermost dimension.
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
