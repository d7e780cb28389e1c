//! Loops over an iterator's elements: two-dimensional parts, split by size alone, on one thread or several.
#![expect(unsafe_code, reason = "addresses cross to other threads under the guards taken by the caller")]

use super::{Operand, TensorIterator};
use crate::parallel::parallel_for;
use smallvec::SmallVec;
use std::ops::Range;

/// Elements below which a loop stays on the calling thread. PyTorch's `GRAIN_SIZE`.
pub const GRAIN: usize = 32 * 1024;

/// The grain size for so many elements: for fewer than eight grains, `1 / parts` of [`GRAIN`], so that threads get equal shares.
#[inline]
pub(crate) fn grain_of(elements: usize, parts: usize) -> usize {
    if elements < 8 * GRAIN { GRAIN / parts } else { GRAIN }
}

/// The dimension in which blocks follow one another.
#[derive(Clone, Copy)]
pub(crate) enum Along {
    /// Side by side in a row of the output.
    Columns,
    /// One below the other.
    Rows,
}

/// The address of the first element of each operand, and its strides per element (`inner`) and per row (`outer`), in bytes.
pub struct Pointers<'p> {
    /// One address per operand.
    pub data: &'p [*mut u8],
    /// Inner strides, one per operand.
    pub inner: &'p [i64],
    /// Outer strides, one per operand.
    pub outer: &'p [i64],
}

/// Addresses that the guards of the calling thread protect.
#[derive(Clone, Copy)]
struct Shared<'p>(&'p [*mut u8]);

// SAFETY: the pointers are only read by loops whose caller holds the guards until every thread is done.
unsafe impl Sync for Shared<'_> {}

impl<'p> Shared<'p> {
    /// A method, so that closures capture the whole and not the bare slice.
    fn pointers(&self) -> &'p [*mut u8] {
        self.0
    }
}

impl TensorIterator<'_> {
    /// Calls `body(pointers, n, rows)` for parts of `rows` rows of `n` elements until every element was visited once, on several
    /// threads where there are more than [`GRAIN`]. `data` are the addresses given by [`with_pointers`](Self::with_pointers).
    #[inline]
    pub fn for_each(&self, data: &[*mut u8], body: impl Fn(Pointers<'_>, usize, usize) + Sync) {
        let numel = self.numel() as usize;
        if numel <= GRAIN {
            return self.serial_for_each(data, 0..numel, body);
        }
        let shared = Shared(data);
        parallel_for(0..numel, GRAIN, |range| self.serial_for_each(shared.pointers(), range, &body));
    }

    /// Calls `body(data, range)` for ranges of elements, counted innermost dimension first, likewise.
    pub(crate) fn for_each_range(&self, data: &[*mut u8], body: &(dyn Fn(&[*mut u8], Range<usize>) + Sync)) {
        let numel = self.numel() as usize;
        if numel == 0 {
            return;
        }
        if numel <= GRAIN {
            return body(data, 0..numel);
        }
        let shared = Shared(data);
        parallel_for(0..numel, GRAIN, |range| body(shared.pointers(), range));
    }

    /// [`for_each`](Self::for_each) for the elements `range`, counted innermost dimension first, on this thread.
    #[inline]
    pub fn serial_for_each(
        &self,
        data: &[*mut u8],
        range: Range<usize>,
        body: impl Fn(Pointers<'_>, usize, usize),
    ) {
        if range.is_empty() {
            return;
        }
        let (inner, outer) = (self.strides_in(0), self.strides_in(1));
        if self.shape().len() == 1 && range.start == 0 {
            return body(Pointers { data, inner: &inner, outer: &outer }, range.len(), 1);
        }
        if self.shape().len() == 1 {
            let moved = moved(data, &inner, range.start as i64);
            return body(Pointers { data: &moved, inner: &inner, outer: &outer }, range.len(), 1);
        }
        self.for_each_rectangle(data, range, |data, n, rows| {
            body(Pointers { data, inner: &inner, outer: &outer }, n, rows);
        });
    }

    /// Calls `block(pointers, n, rows)` until every element was visited once: for blocks of at most `max[0]` columns and `max[1]` rows, of
    /// the first dimension and dimension `dim`, in the order `along`. `outer` strides are those of `dim`.
    pub(crate) fn for_each_block(
        &self,
        data: &[*mut u8],
        dim: usize,
        max: [usize; 2],
        along: Along,
        block: &(dyn Fn(Pointers<'_>, usize, usize) + Sync),
    ) {
        if self.numel() == 0 {
            return;
        }
        let (inner_loop, split) = match along {
            Along::Columns => (0, 1),
            Along::Rows => (1, 0),
        };
        let sizes = [self.shape()[0] as usize, self.shape()[dim] as usize];
        let strips = sizes[split].div_ceil(max[split]);
        let count = self.numel() as usize / (sizes[0] * sizes[1]) * strips;
        let strides = [self.strides_in(0), self.strides_in(dim)];
        let [inner, outer] = &strides;
        let shared = Shared(data);
        parallel_for(0..count, (GRAIN / (sizes[inner_loop] * max[split])).max(1), |range| {
            for index in range {
                let (first, data) = (index % strips * max[split], shared.pointers());
                let strip = self.block_start(data, dim, index / strips);
                let strip = moved(&strip, &strides[split], first as i64);
                let mut here = [max[split].min(sizes[split] - first); 2];
                for at in (0..sizes[inner_loop]).step_by(max[inner_loop]) {
                    here[inner_loop] = max[inner_loop].min(sizes[inner_loop] - at);
                    let data = &moved(&strip, &strides[inner_loop], at as i64);
                    block(Pointers { data, inner, outer }, here[0], here[1]);
                }
            }
        });
    }

    /// Addresses at position `index` of the dimensions other than the first and `dim`.
    fn block_start(&self, data: &[*mut u8], dim: usize, index: usize) -> SmallVec<[*mut u8; 4]> {
        let start = |(operand, data): (&Operand<'_>, &*mut u8)| {
            let (mut offset, mut index) = (0, index as i64);
            for d in (1..self.shape().len()).filter(|&d| d != dim) {
                offset += index % self.shape()[d] * operand.strides[d];
                index /= self.shape()[d];
            }
            data.wrapping_offset(offset as isize)
        };
        self.operands().iter().zip(data).map(start).collect()
    }

    /// The stride of each operand in dimension `d`; 0 where there is no such dimension.
    fn strides_in(&self, d: usize) -> SmallVec<[i64; 4]> {
        self.operands().iter().map(|o| o.strides.get(d).copied().unwrap_or(0)).collect()
    }

    /// Splits `range` into rectangles of the two innermost dimensions.
    fn for_each_rectangle(
        &self,
        data: &[*mut u8],
        range: Range<usize>,
        mut call: impl FnMut(&[*mut u8], usize, usize),
    ) {
        let (width, height) = (self.shape()[0] as usize, self.shape()[1] as usize);
        let mut at = range.start;
        let mut plane = Plane::of(self, data, at / (width * height));
        while at < range.end {
            let (column, row) = (at % width, (at / width) % height);
            let left = range.end - at;
            let (n, rows) = if column == 0 && left >= width {
                (width, (left / width).min(height - row))
            } else {
                (left.min(width - column), 1)
            };
            if (column, row) == (0, 0) {
                call(&plane.start, n, rows);
            } else {
                let [column, row] = [column, row].map(|index| index as i64);
                let moved = |(o, p): (&Operand<'_>, &*mut u8)| {
                    p.wrapping_offset((column * o.strides[0] + row * o.strides[1]) as isize)
                };
                call(&self.operands.iter().zip(&plane.start).map(moved).collect::<Addresses>(), n, rows);
            }
            at += n * rows;
            if at.is_multiple_of(width * height) {
                plane.advance(self);
            }
        }
    }
}

/// The address of each operand.
type Addresses = SmallVec<[*mut u8; 4]>;

/// A plane of the two innermost dimensions: the addresses of its first elements, and its index in the other dimensions, which is advanced
/// without a division.
struct Plane {
    start: Addresses,
    index: SmallVec<[i64; 6]>,
}

impl Plane {
    /// Plane `number` of operands at `data`.
    fn of(iter: &TensorIterator<'_>, data: &[*mut u8], mut number: usize) -> Self {
        let mut plane = Plane { start: Addresses::from_slice(data), index: SmallVec::new() };
        for (d, &size) in iter.shape().iter().enumerate().skip(2) {
            let index = (number % size as usize) as i64;
            number /= size as usize;
            plane.step(iter, d, index);
            plane.index.push(index);
        }
        plane
    }

    /// Moves by so many steps of dimension `d`.
    fn step(&mut self, iter: &TensorIterator<'_>, d: usize, steps: i64) {
        for (start, operand) in self.start.iter_mut().zip(&iter.operands) {
            *start = start.wrapping_offset((steps * operand.strides[d]) as isize);
        }
    }

    /// Moves to the next plane.
    fn advance(&mut self, iter: &TensorIterator<'_>) {
        for (d, &size) in iter.shape().iter().enumerate().skip(2) {
            self.step(iter, d, 1);
            self.index[d - 2] += 1;
            if self.index[d - 2] < size {
                return;
            }
            self.step(iter, d, -size);
            self.index[d - 2] = 0;
        }
    }
}

/// Addresses moved by `steps` inner strides.
#[inline]
fn moved(data: &[*mut u8], inner: &[i64], steps: i64) -> SmallVec<[*mut u8; 4]> {
    data.iter().zip(inner).map(|(p, stride)| p.wrapping_offset((stride * steps) as isize)).collect()
}
