//! The offsets of a tensor's elements, in logical order.

use smallvec::SmallVec;

/// Sizes or strides of any rank.
pub(crate) type Extents = SmallVec<[usize; 6]>;

/// Sizes or strides as a tensor has them: at least 0, as `TensorImpl` (1) says.
pub(crate) fn extents(of: &[i64]) -> Extents {
    of.iter().map(|&n| n as usize).collect()
}

/// Iterates over `sizes`, the last dimension fastest, and yields offsets in elements from the first one.
///
/// No sum overflows: offsets and strides stay below 2^63, and `size * stride` below 2^64 since `(size - 1) * stride` does
/// not pass 2^63.
pub(crate) struct Offsets {
    sizes: Extents,
    strides: Extents,
    index: Extents,
    next: Option<usize>,
}

impl Offsets {
    pub(crate) fn new(sizes: &[usize], strides: &[usize]) -> Self {
        Offsets {
            sizes: sizes.into(),
            strides: strides.into(),
            index: SmallVec::from_elem(0, sizes.len()),
            next: (!sizes.contains(&0)).then_some(0),
        }
    }

    fn after(&mut self, mut offset: usize) -> Option<usize> {
        for d in (0..self.sizes.len()).rev() {
            self.index[d] += 1;
            offset += self.strides[d];
            if self.index[d] < self.sizes[d] {
                return Some(offset);
            }
            self.index[d] = 0;
            offset -= self.sizes[d] * self.strides[d];
        }
        None
    }
}

impl Iterator for Offsets {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let current = self.next?;
        self.next = self.after(current);
        Some(current)
    }
}

/// The last dimension, and the others: a tensor without dimensions is one row of one element.
pub(crate) fn split_row(of: &[usize], scalar: usize) -> (&[usize], usize) {
    match of.split_last() {
        Some((last, outer)) => (outer, *last),
        None => (&[], scalar),
    }
}
