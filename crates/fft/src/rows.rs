//! The elements of rows in memory: where they are, and how they are read and written.
#![expect(unsafe_code, reason = "threads read and write disjoint rows of one slice")]

use crate::shape::Shape;
use std::marker::PhantomData;
use std::ops::Range;

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

    /// Where the array begins.
    pub(crate) fn start(&self) -> *const E {
        self.first
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

    /// Where the array begins.
    pub(crate) fn start(&self) -> *mut E {
        self.first
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

    /// A walk over the rows from one on.
    pub(crate) fn walk_from(&self, row: usize) -> Walk<'_> {
        let (mut rest, mut index) = (row, vec![]);
        for (size, _) in &self.outer {
            index.push(rest % size);
            rest /= size;
        }
        Walk { rows: self, index, offsets: self.offsets(row) }
    }

    /// The distances between the first elements of neighbours along the innermost of the remaining dimensions, in either array.
    pub(crate) fn steps(&self) -> [usize; 2] {
        self.outer.first().map_or([0, 0], |(_, steps)| *steps)
    }

    /// Whether a part of the rows consists of so many that are neighbours in memory, and as many others, and so on.
    pub(crate) fn are_neighbours(&self, side: usize, count: usize, part: &Range<usize>) -> bool {
        let inner = self.outer.first();
        inner.is_some_and(|(size, steps)| steps[side] == 1 && size.is_multiple_of(count))
            && part.start.is_multiple_of(count)
            && part.end.is_multiple_of(count)
    }
}

/// A position among rows, which moves on without divisions.
pub(crate) struct Walk<'a> {
    rows: &'a Rows,
    /// Along each of the remaining dimensions.
    index: Vec<usize>,
    offsets: [usize; 2],
}

impl Walk<'_> {
    /// Over which rows it goes.
    pub(crate) fn rows(&self) -> &Rows {
        self.rows
    }

    /// Moves over neighbours along the innermost of the remaining dimensions, at most so many: the offsets of the first one in either array,
    /// and how many there are.
    #[inline(always)]
    pub(crate) fn next_run(&mut self, most: usize) -> ([usize; 2], usize) {
        let first = self.offsets;
        let (Some((size, steps)), Some(index)) = (self.rows.outer.first(), self.index.first_mut()) else {
            return (first, 1);
        };
        let count = most.min(size - *index);
        if *index + count < *size {
            *index += count;
            self.offsets = [first[0] + count * steps[0], first[1] + count * steps[1]];
        } else {
            self.offsets = [first[0] - *index * steps[0], first[1] - *index * steps[1]];
            *index = 0;
            self.carry();
        }
        (first, count)
    }

    /// Moves on along the other dimensions.
    #[inline(always)]
    fn carry(&mut self) {
        for (index, (size, steps)) in self.index.iter_mut().zip(&self.rows.outer).skip(1) {
            *index += 1;
            self.offsets = [self.offsets[0] + steps[0], self.offsets[1] + steps[1]];
            if *index < *size {
                return;
            }
            *index = 0;
            self.offsets = [self.offsets[0] - size * steps[0], self.offsets[1] - size * steps[1]];
        }
    }
}

/// The most rows in a strip.
pub(crate) const STRIP: usize = 64;

/// Writes the offsets of the next rows, or of every fourth, and says whether they are neighbours along one dimension: then only the first
/// offsets are written.
#[inline(always)]
pub(crate) fn find_offsets(
    walk: &mut Walk<'_>,
    offsets: &mut [[usize; STRIP]; 2],
    count: usize,
    distance: usize,
) -> bool {
    let (mut first, mut run) = walk.next_run(count);
    (offsets[0][0], offsets[1][0]) = (first[0], first[1]);
    if run == count {
        return true;
    }
    let (steps, mut found) = (walk.rows().steps(), 0);
    loop {
        let mut at = 0;
        while at < run {
            for side in 0..2 {
                offsets[side][(found + at) % STRIP] = first[side] + at * steps[side];
            }
            at += distance;
        }
        found += run;
        if found == count {
            return false;
        }
        (first, run) = walk.next_run(count - found);
    }
}

/// Writes the offsets of neighbours along one dimension.
#[inline(always)]
pub(crate) fn fill_run(offsets: &mut [usize], first: usize, step: usize) {
    for (at, offset) in offsets.iter_mut().enumerate() {
        *offset = first + at * step;
    }
}

/// How rows are copied to a tile or from one, which has one element of all rows after another.
pub(crate) struct Copies {
    /// The distance between neighbours of a row in the array.
    pub(crate) stride: usize,
    pub(crate) length: usize,
    /// How many rows in the tile get elements: those without get zeros.
    pub(crate) padded: usize,
    /// How many rows the tile has.
    pub(crate) strip: usize,
    /// Whether four rows in sequence are neighbours in the array, and so on.
    pub(crate) in_fours: bool,
}

impl Copies {
    /// Copies the rows with these offsets to a tile.
    ///
    /// # Safety
    /// - The rows are in the array, and the tile has room.
    #[inline(always)]
    pub(crate) unsafe fn gather<E: Copy>(&self, from: *const E, offsets: &[usize], to: *mut E, zero: E) {
        for index in 0..self.length {
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (from.add(index * self.stride), to.add(index * self.strip));
                if self.in_fours {
                    for row in (0..offsets.len()).step_by(4) {
                        to.add(row).cast::<[E; 4]>().write(*from.add(offsets[row]).cast());
                    }
                } else {
                    for (row, offset) in offsets.iter().enumerate() {
                        to.add(row).write(*from.add(*offset));
                    }
                }
                for row in offsets.len()..self.padded {
                    to.add(row).write(zero);
                }
            }
        }
    }

    /// Copies a tile to the rows with these offsets.
    ///
    /// # Safety
    /// - The rows are in the array and in the tile.
    #[inline(always)]
    pub(crate) unsafe fn scatter<E: Copy>(&self, from: *const E, to: *mut E, offsets: &[usize]) {
        for index in 0..self.length {
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (from.add(index * self.strip), to.add(index * self.stride));
                if self.in_fours {
                    for row in (0..offsets.len()).step_by(4) {
                        to.add(offsets[row]).cast::<[E; 4]>().write(*from.add(row).cast());
                    }
                } else {
                    for (row, offset) in offsets.iter().enumerate() {
                        to.add(*offset).write(*from.add(row));
                    }
                }
            }
        }
    }
}

/// Where parts of complex numbers are.
#[derive(Clone, Copy)]
pub(crate) enum Parts {
    /// There are no imaginary ones.
    Real,
    /// In pairs.
    Paired,
    /// The imaginary ones in rows of their own, at this distance.
    Apart(usize),
}

/// The elements of neighbouring rows, in an array or in a tile.
#[derive(Clone, Copy)]
pub(crate) struct End<T> {
    pub(crate) first: *mut T,
    pub(crate) parts: Parts,
    /// The distance between neighbours in a row.
    pub(crate) pitch: usize,
}

impl<T> End<T> {
    /// The elements from a row on.
    ///
    /// # Safety
    /// - The row is there.
    #[inline(always)]
    pub(crate) unsafe fn at(self, row: usize) -> Self {
        let distance = if matches!(self.parts, Parts::Paired) { 2 * row } else { row };
        // SAFETY: the caller's.
        End { first: unsafe { self.first.add(distance) }, ..self }
    }

    /// # Safety
    /// - The element is there.
    #[inline(always)]
    pub(crate) unsafe fn element(self, index: usize) -> *mut T {
        // SAFETY: the caller's.
        unsafe { self.first.add(index * self.pitch) }
    }
}
