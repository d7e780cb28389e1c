//! The elements of rows in memory: where they are, and how they are read and written.
#![expect(unsafe_code, reason = "threads read and write disjoint rows of one slice")]

use crate::shape::Shape;
use std::marker::PhantomData;

/// The memory of an array, whose rows are read.
pub(crate) struct Source<'a, E> {
    first: *const E,
    lifetime: PhantomData<&'a E>,
}

/// The memory of an array, whose rows are written.
pub(crate) struct Target<'a, E> {
    first: *mut E,
    lifetime: PhantomData<&'a mut E>,
}

// SAFETY: it reads elements, as a shared slice does.
unsafe impl<E: Sync> Sync for Source<'_, E> {}
// SAFETY: its methods require that threads use disjoint elements.
unsafe impl<E: Send> Sync for Target<'_, E> {}

impl<'a, E: Copy> Source<'a, E> {
    pub(crate) fn new(elements: &'a [E]) -> Self {
        Source { first: elements.as_ptr(), lifetime: PhantomData }
    }

    /// # Safety
    /// - (inside) the offset is below the length of the slice, and no thread writes the element meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, offset: usize) -> E {
        // SAFETY: (inside).
        unsafe { *self.first.add(offset) }
    }

    /// # Safety
    /// - (inside) the elements are in the slice, and no thread writes them while the result lives.
    pub(crate) unsafe fn row(&self, offset: usize, length: usize) -> &'a [E] {
        // SAFETY: (inside).
        unsafe { std::slice::from_raw_parts(self.first.add(offset), length) }
    }
}

impl<'a, E: Copy> Target<'a, E> {
    pub(crate) fn new(elements: &'a mut [E]) -> Self {
        Target { first: elements.as_mut_ptr(), lifetime: PhantomData }
    }

    /// The same memory to read from.
    pub(crate) fn as_source(&self) -> Source<'a, E> {
        Source { first: self.first, lifetime: PhantomData }
    }

    /// # Safety
    /// - (inside) the offset is below the length of the slice, and no other thread uses the element meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn set(&self, offset: usize, value: E) {
        // SAFETY: (inside).
        unsafe { *self.first.add(offset) = value }
    }

    /// # Safety
    /// - (inside) the elements are in the slice, and neither another thread nor this one uses them while the result lives.
    #[expect(clippy::mut_from_ref, reason = "disjoint rows of one slice")]
    pub(crate) unsafe fn row(&self, offset: usize, length: usize) -> &mut [E] {
        // SAFETY: (inside).
        unsafe { std::slice::from_raw_parts_mut(self.first.add(offset), length) }
    }
}

/// The rows of an array along one dimension, in the order of the remaining dimensions, and the offsets of their first elements.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The remaining dimensions, innermost first, merged where they are one run: size, and the stride in either array.
    outer: Vec<(usize, [usize; 2])>,
    /// How many rows there are.
    pub(crate) count: usize,
    /// The distance between neighbours in a row, in either array.
    pub(crate) strides: [usize; 2],
}

impl Rows {
    /// The rows of two arrays whose sizes agree but for those of `dim`.
    pub(crate) fn new(from: &Shape, to: &Shape, dim: usize) -> Self {
        let mut outer: Vec<(usize, [usize; 2])> = vec![];
        for other in (0..from.sizes().len()).rev().filter(|other| *other != dim && from.sizes()[*other] != 1)
        {
            let (size, strides) = (from.sizes()[other], [from.strides()[other], to.strides()[other]]);
            match outer.last_mut() {
                Some((inner, step)) if [0, 1].iter().all(|side| strides[*side] == *inner * step[*side]) => {
                    *inner *= size;
                }
                _ => outer.push((size, strides)),
            }
        }
        let count = outer.iter().map(|(size, _)| size).product();
        Rows { outer, count, strides: [from.strides()[dim], to.strides()[dim]] }
    }

    /// Whether each row begins where that before it ends, if rows have so many elements.
    pub(crate) fn follow(&self, side: usize, length: usize) -> bool {
        self.strides[side] == 1
            && matches!(&self.outer[..], [] | [_])
            && self.outer.iter().all(|(_, strides)| strides[side] == length)
    }

    /// The offsets of the first element of a row in either array.
    pub(crate) fn offsets(&self, row: usize) -> [usize; 2] {
        let (mut rest, mut offsets) = (row, [0, 0]);
        for (at, (size, strides)) in self.outer.iter().enumerate() {
            // The last dimension needs no division, and often it is the only one.
            let index = if at + 1 == self.outer.len() { rest } else { rest % size };
            rest /= size;
            offsets = [offsets[0] + index * strides[0], offsets[1] + index * strides[1]];
        }
        offsets
    }
}
