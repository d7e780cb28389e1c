//! Walking an iterator: two-dimensional stretches, cut by size alone, on one thread or several.
#![expect(unsafe_code, reason = "addresses cross to other threads under the guards taken by the caller")]

use super::{Operand, TensorIterator};
use crate::parallel::parallel_for;
use smallvec::SmallVec;
use std::ops::Range;

/// Elements below which a walk stays on the calling thread. PyTorch's `GRAIN_SIZE`.
pub const GRAIN: usize = 32 * 1024;

/// The grain of so many elements: of a few grains, one of so many `parts` of a grain, so that all threads end together.
#[inline]
pub(crate) fn grain_of(elements: usize, parts: usize) -> usize {
    if elements < 8 * GRAIN { GRAIN / parts } else { GRAIN }
}

/// The direction in which blocks follow one another.
#[derive(Clone, Copy)]
pub(crate) enum Along {
    /// Side by side in a row of the output.
    Columns,
    /// One below the other.
    Rows,
}

/// The first element of each operand, and how far each steps per element (`[0]`) and per row (`[1]`), in bytes.
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

// SAFETY: the pointers are only read through `walk`, whose caller holds the guards until every thread is done.
unsafe impl Sync for Shared<'_> {}

impl<'p> Shared<'p> {
    /// A method, so that closures capture the whole and not the bare slice.
    fn pointers(&self) -> &'p [*mut u8] {
        self.0
    }
}

impl TensorIterator<'_> {
    /// Calls `stretch(pointers, n, rows)` until every element was met once, on as many threads as pay. `data` are the
    /// addresses given by [`with_pointers`](Self::with_pointers).
    #[inline]
    pub fn for_each(&self, data: &[*mut u8], stretch: impl Fn(Pointers<'_>, usize, usize) + Sync) {
        let numel = self.numel() as usize;
        if numel <= GRAIN {
            return self.serial_for_each(data, 0..numel, stretch);
        }
        let shared = Shared(data);
        parallel_for(0..numel, GRAIN, |range| self.serial_for_each(shared.pointers(), range, &stretch));
    }

    /// The same for a part of the elements, counted in the order of the walk, on this thread.
    #[inline]
    pub fn serial_for_each(
        &self,
        data: &[*mut u8],
        range: Range<usize>,
        stretch: impl Fn(Pointers<'_>, usize, usize),
    ) {
        if range.is_empty() {
            return;
        }
        let (inner, outer) = (self.strides_in(0), self.strides_in(1));
        if self.shape().len() == 1 && range.start == 0 {
            return stretch(Pointers { data, inner: &inner, outer: &outer }, range.len(), 1);
        }
        if self.shape().len() == 1 {
            let moved = moved(data, &inner, range.start as i64);
            return stretch(Pointers { data: &moved, inner: &inner, outer: &outer }, range.len(), 1);
        }
        self.walk_stretches(data, range, |data, n, rows| {
            stretch(Pointers { data, inner: &inner, outer: &outer }, n, rows);
        });
    }

    /// Calls `block(pointers, n, rows)` until every element was met once: blocks of at most so many columns and rows, which are the
    /// first dimension and dimension `dim`, one after another in the dimension `along`. `outer` strides are those of `dim`.
    pub(crate) fn for_each_block(
        &self,
        data: &[*mut u8],
        dim: usize,
        most: [usize; 2],
        along: Along,
        block: &(dyn Fn(Pointers<'_>, usize, usize) + Sync),
    ) {
        let (walked, cut) = match along {
            Along::Columns => (0, 1),
            Along::Rows => (1, 0),
        };
        let sizes = [self.shape()[0] as usize, self.shape()[dim] as usize];
        let strips = sizes[cut].div_ceil(most[cut]);
        let count = self.numel() as usize / (sizes[0] * sizes[1]).max(1) * strips;
        let strides = [self.strides_in(0), self.strides_in(dim)];
        let [inner, outer] = &strides;
        let shared = Shared(data);
        parallel_for(0..count, (GRAIN / (sizes[walked] * most[cut])).max(1), |range| {
            for index in range {
                let (first, data) = (index % strips * most[cut], shared.pointers());
                let strip = self.block_start(data, dim, index / strips);
                let strip = moved(&strip, &strides[cut], first as i64);
                let mut here = [most[cut].min(sizes[cut] - first); 2];
                for at in (0..sizes[walked]).step_by(most[walked]) {
                    here[walked] = most[walked].min(sizes[walked] - at);
                    let data = &moved(&strip, &strides[walked], at as i64);
                    block(Pointers { data, inner, outer }, here[0], here[1]);
                }
            }
        });
    }

    /// Addresses at place number `index` of the dimensions other than the first and `dim`.
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

    /// Cuts `range` into rectangles of the two innermost dimensions.
    fn walk_stretches(
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
            let place: SmallVec<[*mut u8; 4]> = self
                .operands
                .iter()
                .zip(data)
                .map(|(o, p)| p.wrapping_offset(self.offset_of(&o.strides, at)))
                .collect();
            call(&place, n, rows);
            at += n * rows;
        }
    }

    /// The byte offset of element number `at` for an operand of these strides.
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
