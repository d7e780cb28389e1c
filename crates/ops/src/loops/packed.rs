//! Rows of few elements that a loop over rows would take long for: tiles that span many of them are gathered, computed at once and scattered.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use crate::tensor_iterator::Operand;
use smallvec::SmallVec;

/// A position in an operand, which moves in the order of iteration.
pub(super) struct Cursor<'o> {
    shape: &'o [i64],
    strides: &'o [i64],
    index: SmallVec<[i64; 6]>,
    at: *mut u8,
}

impl<'o> Cursor<'o> {
    /// At element `number` of an operand that begins at `data`.
    pub(super) fn new(shape: &'o [i64], operand: &'o Operand<'_>, data: *mut u8, mut number: usize) -> Self {
        let (strides, mut at, mut index) = (operand.strides(), data, SmallVec::new());
        for (&size, &stride) in shape.iter().zip(strides) {
            let here = (number % size as usize) as i64;
            number /= size as usize;
            at = at.wrapping_offset((here * stride) as isize);
            index.push(here);
        }
        Cursor { shape, strides, index, at }
    }

    /// The address.
    pub(super) fn address(&self) -> *mut u8 {
        self.at
    }

    /// Moves `n` positions along dimension `dim`, at most to its end, where inner dimensions are at their begin.
    #[inline(always)]
    fn advance(&mut self, dim: usize, n: i64) {
        let mut n = n;
        for (d, (&size, &stride)) in self.shape.iter().zip(self.strides).enumerate().skip(dim) {
            self.index[d] += n;
            self.at = self.at.wrapping_offset((n * stride) as isize);
            if self.index[d] < size {
                return;
            }
            self.at = self.at.wrapping_offset((-size * stride) as isize);
            (self.index[d], n) = (0, 1);
        }
    }

    /// Calls `each` for blocks of elements, `count` in all.
    #[inline(always)]
    fn blocks(&mut self, count: usize, mut each: impl FnMut(Block)) {
        let (size, stride) = (self.shape[0], self.strides[0]);
        let (rows_in_all, row_stride) = match (self.shape, self.strides) {
            ([_, rows, ..], [_, stride, ..]) => (*rows, *stride),
            _ => (1, 0),
        };
        let mut left = count as i64;
        while left > 0 {
            let (at, is_begin) = (self.at, self.index[0] == 0);
            if is_begin && left >= size && rows_in_all > 1 {
                let rows = (left / size).min(rows_in_all - self.index[1]);
                each(Block { at, stride, n: size as usize, rows: rows as usize, row_stride });
                self.advance(1, rows);
                left -= rows * size;
            } else {
                let n = (size - self.index[0]).min(left);
                each(Block { at, stride, n: n as usize, rows: 1, row_stride });
                self.advance(0, n);
                left -= n;
            }
        }
    }

    /// Moves the address by `bytes`, in an operand whose elements are adjacent.
    pub(super) fn jump(&mut self, bytes: usize) {
        self.at = self.at.wrapping_add(bytes);
    }

    /// Copies the next `count` elements, of `size` bytes, to adjacent ones.
    ///
    /// # Safety
    /// - The operand has these elements, which nobody writes, and `to` takes them.
    pub(super) unsafe fn gather(&mut self, count: usize, size: usize, to: *mut u8) {
        // SAFETY: this function's conditions.
        unsafe {
            match size {
                1 => self.gather_bits::<u8>(count, to.cast()),
                2 => self.gather_bits::<u16>(count, to.cast()),
                4 => self.gather_bits::<u32>(count, to.cast()),
                8 => self.gather_bits::<u64>(count, to.cast()),
                _ => self.gather_bits::<[u64; 2]>(count, to.cast()),
            }
        }
    }

    /// # Safety
    /// - As [`gather`](Self::gather), with elements of the size of `Bits`.
    unsafe fn gather_bits<Bits: Copy>(&mut self, count: usize, mut to: *mut Bits) {
        self.blocks(count, |block| {
            block.each_row(
                #[inline(always)]
                |i, from| {
                    // SAFETY: this function's conditions.
                    unsafe { to.add(i).write_unaligned(from.cast::<Bits>().read_unaligned()) };
                },
            );
            to = to.wrapping_add(block.rows * block.n);
        });
    }

    /// Copies `count` adjacent elements, of `size` bytes, to the next ones of the operand.
    ///
    /// # Safety
    /// - The operand has these elements, which are this thread's to write, and `from` as many.
    pub(super) unsafe fn scatter(&mut self, count: usize, size: usize, from: *const u8) {
        // SAFETY: this function's conditions.
        unsafe {
            match size {
                1 => self.scatter_bits::<u8>(count, from),
                2 => self.scatter_bits::<u16>(count, from),
                4 => self.scatter_bits::<u32>(count, from),
                8 => self.scatter_bits::<u64>(count, from),
                _ => self.scatter_bits::<[u64; 2]>(count, from),
            }
        }
    }

    /// # Safety
    /// - As [`scatter`](Self::scatter), with elements of the size of `Bits`.
    unsafe fn scatter_bits<Bits: Copy>(&mut self, count: usize, from: *const u8) {
        let mut from = from.cast::<Bits>();
        self.blocks(count, |block| {
            block.each_row(
                #[inline(always)]
                |i, to| {
                    // SAFETY: this function's conditions.
                    unsafe { to.cast::<Bits>().write_unaligned(from.add(i).read_unaligned()) };
                },
            );
            from = from.wrapping_add(block.rows * block.n);
        });
    }
}

/// Rows of `n` elements, `stride` bytes apart; the rows begin `row_stride` bytes from each other.
#[derive(Clone, Copy)]
struct Block {
    at: *mut u8,
    stride: i64,
    n: usize,
    rows: usize,
    row_stride: i64,
}

impl Block {
    /// Calls `each(i, address)` for every element. Loops over the fewest elements have a constant length: a counted loop would take longer
    /// to start than to run.
    #[inline(always)]
    fn each_row(self, each: impl FnMut(usize, *mut u8)) {
        match self.n {
            1 => self.each_of::<1>(each),
            2 => self.each_of::<2>(each),
            3 => self.each_of::<3>(each),
            4 => self.each_of::<4>(each),
            _ => self.each(self.n, each),
        }
    }

    #[inline(always)]
    fn each_of<const COUNT: usize>(self, each: impl FnMut(usize, *mut u8)) {
        self.each(COUNT, each);
    }

    #[inline(always)]
    fn each(self, n: usize, mut each: impl FnMut(usize, *mut u8)) {
        for row in 0..self.rows {
            let at = self.at.wrapping_offset(row as isize * self.row_stride as isize);
            for i in 0..n {
                each(row * n + i, at.wrapping_offset(i as isize * self.stride as isize));
            }
        }
    }
}

/// Whether there are several rows, of fewer elements than this.
pub(super) fn has_rows_below(shape: &[i64], most: i64) -> bool {
    matches!(shape, [inner, _, ..] if *inner < most)
}

/// After how many elements, in the order of iteration, those of an operand recur: it is broadcast in all dimensions from there on.
pub(super) fn period(shape: &[i64], operand: &Operand<'_>) -> usize {
    let last = operand.strides().iter().rposition(|stride| *stride != 0);
    let sizes = &shape[..last.map_or(0, |last| last + 1)];
    sizes.iter().fold(1, |period, &size| period.saturating_mul(size.max(1) as usize))
}

/// Whether the elements of an operand, of `size` bytes, are adjacent in the order of iteration.
pub(super) fn is_dense(shape: &[i64], operand: &Operand<'_>, size: usize) -> bool {
    // The product overflows only for tensors without elements.
    let mut expected = size as i64;
    shape.iter().zip(operand.strides()).all(|(&size, &stride)| {
        let is_next = stride == expected || size == 1;
        expected = expected.wrapping_mul(size);
        is_next
    })
}
