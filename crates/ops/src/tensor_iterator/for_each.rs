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
        while at < range.end {
            let (column, row) = (at % width, (at / width) % height);
            let left = range.end - at;
            let (n, rows) = if column == 0 && left >= width {
                (width, (left / width).min(height - row))
            } else {
                (left.min(width - column), 1)
            };
            let start: SmallVec<[*mut u8; 4]> = self
                .operands
                .iter()
                .zip(data)
                .map(|(o, p)| p.wrapping_offset(self.offset_of(&o.strides, at)))
                .collect();
            call(&start, n, rows);
            at += n * rows;
        }
    }

    /// The byte offset of element `at` for an operand of these strides.
    fn offset_of(&self, strides: &[i64], mut at: usize) -> isize {
        let mut offset = 0i64;
        for (&size, &stride) in self.shape().iter().zip(strides) {
            offset += (at % size as usize) as i64 * stride;
            at /= size as usize;
        }
        offset as isize
    }
}

/// Addresses moved by `steps` inner strides.
#[inline]
fn moved(data: &[*mut u8], inner: &[i64], steps: i64) -> SmallVec<[*mut u8; 4]> {
    data.iter().zip(inner).map(|(p, stride)| p.wrapping_offset((stride * steps) as isize)).collect()
}
