//! Elements of neighbouring rows that are adjacent across the rows: gathered to dense rows, and scattered from them, by transposed blocks.
#![expect(unsafe_code, reason = "moves elements of operands whose guards the callers hold")]

use super::tiles::StridedConvert;
use super::transposed::transpose;
use std::mem::MaybeUninit;

/// Elements of each row that are transposed at a time, and the largest number of rows.
const BLOCK: [usize; 2] = [64, 16];

/// A block whose elements are converted before or after it is transposed.
type Converted = [MaybeUninit<[u64; 2]>; BLOCK[0] * BLOCK[1]];

/// Elements of neighbouring rows: `n` of each of `width` rows, which are dense across the rows, and whose elements lie `step` bytes apart
/// along them.
#[derive(Clone, Copy)]
pub(super) struct Neighbors {
    pub(super) step: i64,
    pub(super) n: usize,
    pub(super) width: usize,
}

impl Neighbors {
    /// Calls `each(first, n)` for blocks of up to [`BLOCK`] elements of each row.
    fn blocks(self, mut each: impl FnMut(usize, usize)) {
        debug_assert!(self.width <= BLOCK[1]);
        (0..self.n).step_by(BLOCK[0]).for_each(|first| each(first, BLOCK[0].min(self.n - first)));
    }

    fn address(self, base: *mut u8, element: usize) -> *mut u8 {
        base.wrapping_offset((element as i64 * self.step) as isize)
    }

    /// Gathers the elements from memory, converted: row `w` to `to + w * pitch`.
    ///
    /// # Safety
    /// - There are at most 16 rows; all elements are readable, and `to` takes `n` elements of each row.
    pub(super) unsafe fn gather(self, convert: StridedConvert, from: *const u8, to: *mut u8, pitch: usize) {
        let [memory, kernel] = convert.sizes();
        let mut moved: Converted = [const { MaybeUninit::uninit() }; _];
        let rows: *mut u8 = moved.as_mut_ptr().cast();
        self.blocks(|first, n| {
            let from = self.address(from.cast_mut(), first);
            // SAFETY: a block of both sides, and of the elements to convert.
            unsafe {
                let to = to.add(first * kernel);
                if convert.is_move() {
                    return transpose(from, self.step as isize, [n, self.width], kernel, to, pitch);
                }
                // Transposed first, since a row of the block has more elements than a row in memory.
                let row = n * memory;
                transpose(from, self.step as isize, [n, self.width], memory, rows, row);
                for w in 0..self.width {
                    let (from, to) = (rows.add(w * row), to.add(w * pitch));
                    convert.run(from, memory as i64, to, kernel as i64, n);
                }
            }
        });
    }

    /// Writes rows that begin `pitch` bytes apart to memory, converted.
    ///
    /// # Safety
    /// - There are at most 16 rows; `from` has `n` elements of each, and all elements in memory are writable.
    pub(super) unsafe fn scatter(self, convert: StridedConvert, from: *const u8, pitch: usize, to: *mut u8) {
        let [kernel, memory] = convert.sizes();
        let mut converted: Converted = [const { MaybeUninit::uninit() }; _];
        let rows: *mut u8 = converted.as_mut_ptr().cast();
        self.blocks(|first, n| {
            let to = self.address(to, first);
            // SAFETY: a block of both sides, and of the elements to convert.
            unsafe {
                let from = from.add(first * kernel);
                if convert.is_move() {
                    return transpose(from, pitch as isize, [self.width, n], kernel, to, self.step as usize);
                }
                let row = self.width * kernel;
                transpose(from, pitch as isize, [self.width, n], kernel, rows, row);
                for i in 0..n {
                    let to = self.address(to, i);
                    convert.run(rows.add(i * row), kernel as i64, to, memory as i64, self.width);
                }
            }
        });
    }
}
