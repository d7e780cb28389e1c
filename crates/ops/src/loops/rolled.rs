//! Copies into dense memory of elements of which few lie side by side in the source, which may be rolled: the offsets of many elements are
//! in a table, so that no loop is started for a few of them.
#![expect(unsafe_code, reason = "moves elements of operands whose guards the callers hold")]

use bytemuck::Pod;
use smallvec::SmallVec;
use std::ops::Range;

/// Elements of the inner dimensions that are one block.
const MAX_BLOCK: usize = 64;
/// Elements of a table.
const MAX_TABLE: usize = 256;
/// Bytes of a dense row from which on it is copied by a call.
const LONG_ROW: usize = 128;
/// Bytes that elements of one table may be apart: they stay in L1 while other elements of their cache lines are copied.
const LOCAL: usize = 16 << 10;

/// A dimension of a source.
#[derive(Clone, Copy)]
pub(crate) struct RolledDim {
    pub(crate) size: usize,
    /// Bytes from one element to the next.
    pub(crate) stride: isize,
    /// Element `i` of the result is element `i - shift` of the source, modulo the size, which is larger than the shift.
    pub(crate) shift: usize,
}

impl RolledDim {
    /// The index in the source of element `i` of the result.
    #[inline(always)]
    fn source(&self, i: usize) -> usize {
        if i >= self.shift { i - self.shift } else { i + self.size - self.shift }
    }
}

/// Where the elements of a dense result come from.
pub(crate) struct RolledSource {
    /// Bytes of an element.
    size: usize,
    /// The offsets of the elements of several blocks that follow one another in the source; those of a long dense row are not needed.
    table: Vec<isize>,
    /// Elements of a block: those of the inner dimensions.
    block: usize,
    /// The dimension of blocks.
    blocks: RolledDim,
    /// The others, innermost first.
    outer: SmallVec<[RolledDim; 6]>,
}

impl RolledSource {
    /// With the dimensions in the order of the result, innermost first, none of which is empty.
    pub(crate) fn new(dims: impl IntoIterator<Item = RolledDim>, size: usize) -> Self {
        let dims = merged(dims);
        let is_long = |dim: &RolledDim| dim.stride == size as isize && dim.size * size >= LONG_ROW;
        let (mut inner, mut block) = (0, 1);
        if !dims.first().is_some_and(is_long) {
            while let Some(dim) = dims.get(inner)
                && block * dim.size <= MAX_BLOCK
            {
                (inner, block) = (inner + 1, block * dim.size);
            }
        }
        let blocks = dims.get(inner).copied().unwrap_or(RolledDim { size: 1, stride: 0, shift: 0 });
        let mut table = vec![0];
        for dim in &dims[..inner] {
            table = repeated(&table, (0..dim.size).map(|i| dim.source(i) as isize * dim.stride));
        }
        let count = if block == 1 && is_long(&blocks) { 0 } else { blocks.size.min(MAX_TABLE / block) };
        table = repeated(&table, (0..count).map(|i| i as isize * blocks.stride));
        let outer = dims.get(inner + 1..).unwrap_or_default().into();
        RolledSource { size, table, block, blocks, outer }
    }

    /// Whether the elements are copied from rows that are dense and take a call each.
    pub(crate) fn has_long_rows(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether elements that follow one another in the result are near each other in the source.
    pub(crate) fn is_local(&self) -> bool {
        let last = self.table.iter().max().copied().unwrap_or(0);
        let first = self.table.iter().min().copied().unwrap_or(0);
        (last - first) as usize <= LOCAL
    }

    /// Copies the elements in a range of the result to `to`.
    ///
    /// # Safety
    /// - `from` is where the source begins; its elements are readable, and `to` takes those of the range.
    pub(crate) unsafe fn copy(&self, range: Range<usize>, from: *const u8, to: *mut u8) {
        // SAFETY: this function's condition.
        unsafe {
            match self.size {
                1 => self.copy_bits::<u8>(range, from, to.cast()),
                2 => self.copy_bits::<u16>(range, from, to.cast()),
                4 => self.copy_bits::<u32>(range, from, to.cast()),
                8 => self.copy_bits::<u64>(range, from, to.cast()),
                _ => self.copy_bits::<[u64; 2]>(range, from, to.cast()),
            }
        }
    }

    /// [`copy`](Self::copy) of the elements of slices; the source begins at element `first` of `from`.
    pub(crate) fn copy_slice<B: Pod>(&self, range: Range<usize>, from: &[B], first: usize, to: &mut [B]) {
        if range.is_empty() {
            return;
        }
        let (lowest, highest) = self.extent();
        let (size, to) = (size_of::<B>(), &mut to[..range.len()]);
        let is_inside = lowest / size <= first && first + highest / size < from.len();
        assert!(is_inside && size == self.size && range.end <= self.numel(), "elements of another tensor");
        let begin = from.as_ptr().wrapping_add(first);
        // SAFETY: all elements of the source are between the lowest and the highest one, which the slice has.
        unsafe { self.copy(range, begin.cast(), to.as_mut_ptr().cast()) }
    }

    /// The number of elements.
    fn numel(&self) -> usize {
        self.outer.iter().fold(self.block * self.blocks.size, |numel, dim| numel * dim.size)
    }

    /// How far the lowest element is before the begin, and the highest one behind it, in bytes.
    fn extent(&self) -> (usize, usize) {
        let in_block = self.table.iter().take(self.block).copied();
        let lowest = in_block.clone().min().unwrap_or(0);
        let mut extent = (lowest.unsigned_abs(), in_block.max().unwrap_or(0).unsigned_abs());
        for dim in self.outer.iter().chain([&self.blocks]) {
            let reach = (dim.size - 1) * dim.stride.unsigned_abs();
            *(if dim.stride < 0 { &mut extent.0 } else { &mut extent.1 }) += reach;
        }
        extent
    }

    /// # Safety
    /// - As [`copy`](Self::copy), with elements of the size of `Bits`.
    unsafe fn copy_bits<Bits: Copy>(&self, range: Range<usize>, from: *const u8, mut to: *mut Bits) {
        let (block, blocks) = (self.block, &self.blocks);
        let (mut skipped, number) = (range.start % block, range.start / block);
        let mut at = number % blocks.size;
        let mut outer = Position::new(&self.outer, number / blocks.size);
        let most = if self.has_long_rows() { usize::MAX } else { self.table.len() / block };
        let mut left = range.len();
        while left > 0 {
            let source = blocks.source(at);
            let n = most.min(blocks.size - source).min(blocks.size - at);
            let count = (n * block - skipped).min(left);
            let from = from.wrapping_offset(outer.offset + source as isize * blocks.stride);
            // SAFETY: this function's condition.
            unsafe {
                match self.table.get(skipped..skipped + count) {
                    Some(table) => copy_elements(from, table, to),
                    None => std::ptr::copy(from.cast(), to, count),
                }
            }
            to = to.wrapping_add(count);
            (left, at, skipped) = (left - count, at + n, 0);
            if at == blocks.size {
                at = 0;
                outer.advance();
            }
        }
    }
}

/// Copies elements at offsets to adjacent ones.
///
/// # Safety
/// - They are readable, and `to` takes as many.
#[inline(always)]
unsafe fn copy_elements<Bits: Copy>(from: *const u8, offsets: &[isize], to: *mut Bits) {
    for (i, offset) in offsets.iter().enumerate() {
        // SAFETY: this function's condition.
        unsafe { to.add(i).write_unaligned(from.offset(*offset).cast::<Bits>().read_unaligned()) };
    }
}

/// A table once for each of some offsets that are added to it.
fn repeated(table: &[isize], offsets: impl Iterator<Item = isize>) -> Vec<isize> {
    offsets.flat_map(|offset| table.iter().map(move |element| element + offset)).collect()
}

/// Dimensions without those of size 1; those that are contiguous to one another are one.
fn merged(dims: impl IntoIterator<Item = RolledDim>) -> SmallVec<[RolledDim; 6]> {
    let mut made: SmallVec<[RolledDim; 6]> = SmallVec::new();
    for dim in dims.into_iter().filter(|dim| dim.size != 1) {
        match made.last_mut() {
            Some(inner) if inner.shift == 0 && dim.stride == inner.size as isize * inner.stride => {
                (inner.shift, inner.size) = (dim.shift * inner.size, dim.size * inner.size);
            }
            _ => made.push(dim),
        }
    }
    made
}

/// A position in outer dimensions, found by a division for each, and those after it, found without.
struct Position<'d> {
    dims: &'d [RolledDim],
    /// Indices in the result.
    index: SmallVec<[usize; 6]>,
    /// That of the element of the source.
    offset: isize,
}

impl<'d> Position<'d> {
    fn new(dims: &'d [RolledDim], mut number: usize) -> Self {
        let (mut index, mut offset) = (SmallVec::new(), 0);
        for dim in dims {
            let here = number % dim.size;
            number /= dim.size;
            offset += dim.source(here) as isize * dim.stride;
            index.push(here);
        }
        Position { dims, index, offset }
    }

    #[inline]
    fn advance(&mut self) {
        for (dim, index) in self.dims.iter().zip(&mut self.index) {
            *index += 1;
            self.offset += dim.stride;
            // The source begins anew at the shift, or together with the result.
            if *index == (if dim.shift == 0 { dim.size } else { dim.shift }) {
                self.offset -= dim.size as isize * dim.stride;
            }
            if *index < dim.size {
                return;
            }
            *index = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where sources begin, with elements before.
    const FIRST: usize = 5000;

    /// The elements of the result, each found by itself.
    fn expected(dims: &[RolledDim], from: &[u32]) -> Vec<u32> {
        let numel = dims.iter().map(|dim| dim.size).product();
        let at = |number| FIRST as isize + Position::new(dims, number).offset / 4;
        (0..numel).map(|number| from[at(number) as usize]).collect()
    }

    #[test]
    fn every_range_is_copied_from_where_it_is() {
        let from: Vec<u32> = (0..20_000).collect();
        let dim = |size, stride: isize, shift| RolledDim { size, stride: 4 * stride, shift };
        for dims in [
            vec![],
            vec![dim(7, 2, 3)],
            vec![dim(300, 1, 17)],
            vec![dim(4, 1, 1), dim(3, 4, 2), dim(50, 12, 49)],
            vec![dim(4, 1, 0), dim(3, 4, 2), dim(50, 12, 49)],
            vec![dim(2, 1, 0), dim(2, 4, 0), dim(2, 2, 0), dim(40, 8, 0)],
            vec![dim(40, 3, 39), dim(3, 1, 1), dim(5, 130, 2), dim(4, 1000, 1)],
            vec![dim(3, -2, 0), dim(700, 6, 0), dim(2, -1, 0)],
            vec![dim(90, -1, 3), dim(3, 1, 1), dim(5, -300, 2), dim(4, 1000, 1)],
            vec![dim(5, 0, 0), dim(100, 1, 99), dim(2, 100, 1), dim(2, 200, 1)],
        ] {
            let source = RolledSource::new(dims.iter().copied(), 4);
            let expected = expected(&dims, &from);
            assert_eq!(source.numel(), expected.len());
            for (start, end) in [(0, expected.len()), (expected.len() / 3, expected.len() / 2), (1, 1)] {
                let mut to = vec![u32::MAX; end - start];
                source.copy_slice(start..end, &from, FIRST, &mut to);
                assert_eq!(to, expected[start..end]);
            }
        }
    }
}
