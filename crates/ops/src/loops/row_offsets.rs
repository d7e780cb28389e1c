//! Strips of short rows: rows of few elements at any addresses, gathered so that each is in a lane of its own. A loop over each row would
//! take longer to start than to run.
#![expect(unsafe_code, reason = "moves elements of operands whose guards the callers hold")]

use super::reduce::strips::STRIP;
use super::transposed::transpose;

/// Rows from which on they are transposed in registers.
const MIN_TRANSPOSED: usize = 8;

/// Where the elements of rows are, in bytes from a base: the sum of the offset of a row and that of an element.
pub(crate) struct RowOffsets<'a> {
    pub(crate) rows: &'a [isize],
    pub(crate) elements: &'a [isize],
    /// Bytes of an element.
    pub(crate) size: usize,
}

/// Whether each of the offsets is `step` from the one before; at least one is expected.
fn is_even(offsets: &[isize], step: isize) -> bool {
    !offsets.is_empty() && offsets.windows(2).all(|pair| pair[1] - pair[0] == step)
}

impl RowOffsets<'_> {
    /// Rows of a strip.
    pub(crate) const STRIP: usize = STRIP;

    /// The distance between rows, if it is constant, their elements are dense, and there are enough of them to be transposed.
    fn distance(&self) -> Option<isize> {
        let &[first, second, ..] = self.rows else { return None };
        let distance = second - first;
        let is_matrix = self.rows.len() >= MIN_TRANSPOSED
            && is_even(self.elements, self.size as isize)
            && is_even(self.rows, distance);
        is_matrix.then_some(distance)
    }

    /// Bytes of an element of all rows, if they are adjacent.
    fn adjacent(&self) -> Option<usize> {
        is_even(self.rows, self.size as isize).then_some(self.rows.len() * self.size)
    }

    /// Copies the elements from `base` to a strip: element `i` of row `j` to `i * STRIP + j`.
    ///
    /// # Safety
    /// - They are readable, and the strip takes them.
    pub(crate) unsafe fn gather(&self, base: *const u8, strip: *mut u8) {
        let step = STRIP * self.size;
        // SAFETY: this function's condition.
        unsafe {
            if let Some(distance) = self.distance() {
                let from = base.wrapping_offset(self.rows[0] + self.elements[0]);
                let shape = [self.rows.len(), self.elements.len()];
                return transpose(from, distance, shape, self.size, strip, step);
            }
            if let Some(bytes) = self.adjacent() {
                for (i, element) in self.elements.iter().enumerate() {
                    let from = base.wrapping_offset(self.rows[0] + element);
                    strip.add(i * step).copy_from_nonoverlapping(from, bytes);
                }
                return;
            }
            match self.size {
                1 => self.gather_bits::<u8>(base, strip.cast()),
                2 => self.gather_bits::<u16>(base, strip.cast()),
                4 => self.gather_bits::<u32>(base, strip.cast()),
                8 => self.gather_bits::<u64>(base, strip.cast()),
                _ => self.gather_bits::<[u64; 2]>(base, strip.cast()),
            }
        }
    }

    /// Copies the elements of a strip to `base`.
    ///
    /// # Safety
    /// - The strip has them, and they are writable.
    pub(crate) unsafe fn scatter(&self, strip: *const u8, base: *mut u8) {
        let step = STRIP * self.size;
        // SAFETY: this function's condition.
        unsafe {
            if let Some(distance) = self.distance() {
                let to = base.wrapping_offset(self.rows[0] + self.elements[0]);
                let shape = [self.elements.len(), self.rows.len()];
                return transpose(strip, step as isize, shape, self.size, to, distance as usize);
            }
            match self.size {
                1 => self.scatter_bits::<u8>(strip.cast(), base),
                2 => self.scatter_bits::<u16>(strip.cast(), base),
                4 => self.scatter_bits::<u32>(strip.cast(), base),
                8 => self.scatter_bits::<u64>(strip.cast(), base),
                _ => self.scatter_bits::<[u64; 2]>(strip.cast(), base),
            }
        }
    }

    /// # Safety
    /// - As [`gather`](Self::gather), with elements of the size of `Bits`.
    unsafe fn gather_bits<Bits: Copy>(&self, base: *const u8, strip: *mut Bits) {
        for (i, element) in self.elements.iter().enumerate() {
            let (from, to) = (base.wrapping_offset(*element), strip.wrapping_add(i * STRIP));
            for (row, offset) in self.rows.iter().enumerate() {
                // SAFETY: this function's condition.
                unsafe { to.add(row).write_unaligned(from.offset(*offset).cast::<Bits>().read_unaligned()) };
            }
        }
    }

    /// # Safety
    /// - As [`scatter`](Self::scatter), with elements of the size of `Bits`.
    unsafe fn scatter_bits<Bits: Copy>(&self, strip: *const Bits, base: *mut u8) {
        for (i, element) in self.elements.iter().enumerate() {
            let (from, to) = (strip.wrapping_add(i * STRIP), base.wrapping_offset(*element));
            for (row, offset) in self.rows.iter().enumerate() {
                // SAFETY: this function's condition.
                unsafe { to.offset(*offset).cast::<Bits>().write_unaligned(from.add(row).read_unaligned()) };
            }
        }
    }
}
