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

    /// Moves `n` elements, at most to the end of the innermost dimension.
    #[inline(always)]
    fn advance(&mut self, n: i64) {
        let mut n = n;
        for (d, (&size, &stride)) in self.shape.iter().zip(self.strides).enumerate() {
            self.index[d] += n;
            self.at = self.at.wrapping_offset((n * stride) as isize);
            if self.index[d] < size {
                return;
            }
            self.at = self.at.wrapping_offset((-size * stride) as isize);
            (self.index[d], n) = (0, 1);
        }
    }

    /// Calls `each(address, stride, n)` for runs of elements, `count` in all.
    #[inline(always)]
    fn runs(&mut self, count: usize, mut each: impl FnMut(*mut u8, i64, usize)) {
        let (size, stride) = (self.shape[0], self.strides[0]);
        let mut left = count as i64;
        while left > 0 {
            let n = (size - self.index[0]).min(left);
            each(self.at, stride, n as usize);
            self.advance(n);
            left -= n;
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
        self.runs(count, |from, stride, n| {
            for i in 0..n {
                let from = from.wrapping_offset(i as isize * stride as isize);
                // SAFETY: this function's conditions.
                unsafe { to.add(i).write_unaligned(from.cast::<Bits>().read_unaligned()) };
            }
            to = to.wrapping_add(n);
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
    unsafe fn scatter_bits<Bits: Copy>(&mut self, count: usize, mut from: *const u8) {
        self.runs(count, |to, stride, n| {
            for i in 0..n {
                let to = to.wrapping_offset(i as isize * stride as isize).cast::<Bits>();
                // SAFETY: this function's conditions.
                unsafe { to.write_unaligned(from.cast::<Bits>().read_unaligned()) };
                from = from.wrapping_add(size_of::<Bits>());
            }
        });
    }
}

/// Whether there are several rows, of fewer elements than this.
pub(super) fn has_rows_below(shape: &[i64], most: i64) -> bool {
    matches!(shape, [inner, _, ..] if *inner < most)
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
