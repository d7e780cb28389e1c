//! Iteration over several tensors together in row-major order, one run of the innermost dimension at a time.

use flambeau_core::DimVec;
use smallvec::SmallVec;
use std::ops::Range;

/// Sizes, and the strides of `K` tensors over them; adjacent dimensions that are contiguous to each other in all tensors are merged.
pub(super) struct StridedIter<const K: usize> {
    /// Sizes and strides, outermost first, at least one.
    dims: SmallVec<[(usize, [i64; K]); 6]>,
    numel: usize,
}

impl<const K: usize> StridedIter<K> {
    /// Over `sizes`, with as many strides for each tensor, in elements; those of a tensor that is traversed backwards are negative.
    pub(super) fn new(sizes: &[i64], strides: [&[i64]; K]) -> Self {
        let mut dims: SmallVec<[(usize, [i64; K]); 6]> = SmallVec::new();
        for (d, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
            let step: [i64; K] = std::array::from_fn(|k| strides[k][d]);
            match dims.last_mut() {
                Some((outer, outer_step))
                    if (0..K).all(|k| step[k].checked_mul(size) == Some(outer_step[k])) =>
                {
                    (*outer, *outer_step) = (outer.saturating_mul(size as usize), step);
                }
                _ => dims.push((size as usize, step)),
            }
        }
        if dims.is_empty() {
            dims.push((1, [0; K]));
        }
        let numel = if sizes.contains(&0) { 0 } else { dims.iter().map(|d| d.0).product() };
        StridedIter { dims, numel }
    }

    /// Sizes and strides after merging, outermost first, at least one.
    pub(super) fn dims(&self) -> &[(usize, [i64; K])] {
        &self.dims
    }

    /// The number of elements.
    pub(super) fn numel(&self) -> usize {
        self.numel
    }

    /// The strides of the innermost dimension: from one element of a run to the next.
    pub(super) fn steps(&self) -> [i64; K] {
        self.dims[self.dims.len() - 1].1
    }

    /// If two dimensions are left after merging: the size of the inner one, and the strides of the outer one.
    pub(super) fn as_matrix(&self) -> Option<(usize, [i64; K])> {
        match self.dims.as_slice() {
            [(_, steps), (width, _)] => Some((*width, *steps)),
            _ => None,
        }
    }

    /// Calls `f` for each run of the elements in `range`, with the offsets of its first element and its length.
    #[inline]
    pub(super) fn for_each_run(&self, range: Range<usize>, mut f: impl FnMut([i64; K], usize)) {
        if range.is_empty() {
            return;
        }
        let (width, steps) = self.dims[self.dims.len() - 1];
        let (mut left, mut column) = (range.len(), range.start % width);
        let mut row = Row::new(&self.dims[..self.dims.len() - 1], range.start / width);
        while left > 0 {
            let n = (width - column).min(left);
            f(std::array::from_fn(|k| row.offsets[k] + column as i64 * steps[k]), n);
            row.advance();
            (left, column) = (left - n, 0);
        }
    }

    /// The size of the innermost dimension, if there is another one: the length of rows.
    pub(super) fn row_length(&self) -> Option<usize> {
        match self.dims.as_slice() {
            [_, .., (width, _)] => Some(*width),
            _ => None,
        }
    }

    /// Calls `f` for rows in a range that are all at one distance from the next: with the offsets of the first elements of the first row,
    /// the number of rows and their distances.
    #[inline]
    pub(super) fn for_each_column(&self, rows: Range<usize>, mut f: impl FnMut([i64; K], usize, [i64; K])) {
        if rows.is_empty() {
            return;
        }
        let Some(((height, steps), outer)) = self.dims[..self.dims.len() - 1].split_last() else {
            return f([0; K], rows.len(), [0; K]);
        };
        // Rows of a block differ by the same steps; only blocks are found by the counters of the outer dimensions.
        let (mut left, mut first) = (rows.len(), rows.start % height);
        let mut block = Row::new(outer, rows.start / height);
        while left > 0 {
            let n = (height - first).min(left);
            f(std::array::from_fn(|k| block.offsets[k] + first as i64 * steps[k]), n, *steps);
            block.advance();
            (left, first) = (left - n, 0);
        }
    }

    /// Calls `f` with the offsets of the first elements of each row in a range of rows.
    #[inline]
    pub(super) fn for_each_row(&self, rows: Range<usize>, mut f: impl FnMut([i64; K])) {
        self.for_each_column(rows, |mut offsets, n, steps| {
            for _ in 0..n {
                f(offsets);
                (0..K).for_each(|k| offsets[k] += steps[k]);
            }
        });
    }

    /// Calls `f` with the offsets of every element.
    pub(super) fn for_each(&self, mut f: impl FnMut([i64; K])) {
        let steps = self.steps();
        self.for_each_run(0..self.numel, |first, n| {
            for j in 0..n as i64 {
                f(std::array::from_fn(|k| first[k] + j * steps[k]));
            }
        });
    }
}

/// A row, found by a division for each dimension, and those after it, found without.
struct Row<'d, const K: usize> {
    /// Outermost first.
    dims: &'d [(usize, [i64; K])],
    at: SmallVec<[usize; 6]>,
    offsets: [i64; K],
}

impl<'d, const K: usize> Row<'d, K> {
    fn new(dims: &'d [(usize, [i64; K])], mut number: usize) -> Self {
        let (mut at, mut offsets) = (SmallVec::from_elem(0, dims.len()), [0; K]);
        for ((size, steps), at) in dims.iter().zip(&mut at).rev() {
            *at = number % size;
            number /= size;
            (0..K).for_each(|k| offsets[k] += *at as i64 * steps[k]);
        }
        Row { dims, at, offsets }
    }

    #[inline]
    fn advance(&mut self) {
        for ((size, steps), at) in self.dims.iter().zip(&mut self.at).rev() {
            *at += 1;
            (0..K).for_each(|k| self.offsets[k] += steps[k]);
            if *at < *size {
                return;
            }
            *at = 0;
            (0..K).for_each(|k| self.offsets[k] -= *size as i64 * steps[k]);
        }
    }
}

/// `strides` with that of dimension `dim` set to 0; a tensor without dimensions has none.
pub(super) fn with_zero_stride(strides: &[i64], dim: usize) -> DimVec {
    let mut strides = DimVec::from_slice(strides);
    if let Some(stride) = strides.get_mut(dim) {
        *stride = 0;
    }
    strides
}
