//! Matrices turned on their way past the caches: squares of them whose rows are as long as lines of memory are turned in registers, and
//! their columns written as lines.
#![expect(unsafe_code, reason = "raw operands")]

use super::tile::LINE;
#[cfg(target_arch = "x86_64")]
use super::{
    lanes::{Body, Lanes, Shuffle, WIDEST, turned},
    scratch::Scratch,
    x86::{F32x16, F64x8},
};
#[cfg(target_arch = "x86_64")]
use std::ops::Range;

/// A matrix that consists of squares with a side of [`side`].
#[derive(Clone, Copy, Debug)]
pub struct Squares {
    /// The first element of the first row.
    pub from: *const u8,
    /// Bytes from one row to the next.
    pub row: isize,
    /// How many rows: a multiple of the side.
    pub rows: usize,
    /// Elements of a row: a multiple of the side.
    pub len: usize,
    /// Bytes of an element: 1, 2, 4, 8 or 16. Those of 4 and 8 are turned in registers.
    pub size: usize,
}

/// Elements of `size` bytes in a line of memory.
pub const fn side(size: usize) -> usize {
    LINE / size
}

/// Writes the columns of a matrix as rows that begin `pitch` bytes apart, past the caches but for the lines that a row shares with
/// what lies before and behind it. A fence comes before other threads may read them.
///
/// # Safety
/// - The CPU has AVX-512, where it is an x86-64.
/// - All elements are readable, and `rows` are writable for each column; `to` and `pitch` are multiples of `size`.
pub unsafe fn stream_turned(squares: &Squares, to: *mut u8, pitch: isize) {
    // SAFETY: the conditions above.
    unsafe {
        match squares.size {
            #[cfg(target_arch = "x86_64")]
            4 => F32x16::enter(Columns::<F32x16> { squares, to: to.cast(), pitch }),
            #[cfg(target_arch = "x86_64")]
            8 => F64x8::enter(Columns::<F64x8> { squares, to: to.cast(), pitch }),
            _ => one_by_one(squares, to, pitch),
        }
    }
}

/// # Safety
/// - As [`stream_turned`].
unsafe fn one_by_one(squares: &Squares, to: *mut u8, pitch: isize) {
    let Squares { from, row, rows, len, size } = *squares;
    for r in 0..rows {
        for i in 0..len {
            // SAFETY: an element, and its place in the row that its column becomes.
            unsafe {
                let from = from.offset(r as isize * row).add(i * size);
                to.offset(i as isize * pitch).add(r * size).copy_from_nonoverlapping(from, size);
            }
        }
    }
}

/// Lanes of which a register is a line of memory.
///
/// # Safety
/// As [`Shuffle`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe trait LineOfLanes: Shuffle {
    /// Writes a line past the caches; `to` is the beginning of one.
    unsafe fn stream(units: Self::Operand, to: *mut Self::Unit);
    /// The last `count` units of one register and the first of another.
    unsafe fn joined(a: Self::Operand, b: Self::Operand, count: usize) -> Self::Operand;
}

/// Columns that are turned together where lines join squares: what is kept of those above fits the second cache.
#[cfg(target_arch = "x86_64")]
const ABOVE: usize = 2048;

#[cfg(target_arch = "x86_64")]
struct Columns<'a, L: LineOfLanes> {
    squares: &'a Squares,
    to: *mut L::Unit,
    pitch: isize,
}

/// # Safety
/// - As [`stream_turned`], of units of the size of the elements.
#[cfg(target_arch = "x86_64")]
impl<L: LineOfLanes> Body for Columns<'_, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let Squares { rows, len, .. } = *self.squares;
        if (self.to.addr() | self.pitch as usize).is_multiple_of(LINE) {
            for (row, column) in places::<L>(rows, 0..len) {
                // SAFETY: a square of the matrix.
                unsafe { self.whole(row, column) }
            }
            return;
        }
        let mut above = Scratch::new::<L::Operand>(len.min(ABOVE));
        let above: *mut L::Operand = above.as_mut_ptr();
        for first in (0..len).step_by(ABOVE) {
            for (row, column) in places::<L>(rows, first..len.min(first + ABOVE)) {
                // SAFETY: the same; there is a register above for each of so many columns.
                unsafe { self.across(row, column, above.add(column - first)) }
            }
        }
    }
}

/// Where squares begin of so many rows and of these columns, row after row.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn places<L: LineOfLanes>(rows: usize, columns: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    (0..rows)
        .step_by(L::N)
        .flat_map(move |row| columns.clone().step_by(L::N).map(move |column| (row, column)))
}

/// # Safety
/// - As above; a square of the matrix begins at `row` and `column`.
#[cfg(target_arch = "x86_64")]
impl<L: LineOfLanes> Columns<'_, L> {
    /// The columns of a square.
    #[inline(always)]
    unsafe fn turned(&self, row: usize, column: usize) -> [L::Operand; WIDEST] {
        // SAFETY: the condition above.
        unsafe {
            let from = self.squares.from.cast::<L::Unit>().add(column);
            let at = |r: usize| from.byte_offset((row + r) as isize * self.squares.row);
            let mut rows = [L::operand(at(0)); WIDEST];
            for (r, units) in rows.iter_mut().enumerate().take(L::N).skip(1) {
                *units = L::operand(at(r));
            }
            turned::<L>(rows)
        }
    }

    /// Where element `row` of the row stands that a column becomes.
    #[inline(always)]
    fn place(&self, row: usize, column: usize) -> *mut L::Unit {
        self.to.wrapping_byte_offset(column as isize * self.pitch).wrapping_add(row)
    }

    /// Where each column is a line.
    #[inline(always)]
    unsafe fn whole(&self, row: usize, column: usize) {
        // SAFETY: the condition above.
        unsafe {
            for (i, units) in self.turned(row, column).into_iter().enumerate().take(L::N) {
                L::stream(units, self.place(row, column + i));
            }
        }
    }

    /// Where lines begin with the end of a column of the square above, which is found at `above`, and left there for the one below.
    #[inline(always)]
    unsafe fn across(&self, row: usize, column: usize, above: *mut L::Operand) {
        let is_last = row + L::N == self.squares.rows;
        // SAFETY: the condition above; a square above has left its columns, and there is none but in the first row.
        unsafe {
            for (i, here) in self.turned(row, column).into_iter().enumerate().take(L::N) {
                let (to, above) = (self.place(row, column + i), above.add(i));
                let begun = to.addr() % LINE / size_of::<L::Unit>();
                if row == 0 {
                    L::put(here, to, L::N - begun);
                } else {
                    L::stream(L::joined(above.read(), here, begun), to.sub(begun));
                }
                if is_last {
                    L::put(L::joined(here, here, begun), to.add(L::N - begun), begun);
                }
                above.write(here);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Written([u8; 65_536]);

    #[test]
    fn columns_become_rows_that_begin_anywhere() {
        if cfg!(target_arch = "x86_64") && !crate::Isa::Avx512.is_available() {
            return;
        }
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i * 7919 % 251) as u8).collect();
        let cases = [(1, 1, 0), (1, 4, 3), (2, 1, 5), (3, 2, 1), (0, 1, 0), (1, 0, 0)];
        for (size, (down, right, skipped)) in
            [1, 2, 4, 8, 16].into_iter().flat_map(|size| cases.map(|c| (size, c)))
        {
            let (rows, len) = (side(size) * down, side(size).min(16) * right);
            let row = len * size + 24;
            let from = &bytes[skipped..];
            let squares = Squares { from: from.as_ptr(), row: row as isize, rows, len, size };
            for (begin, pitch) in [(0, 192), (64, 256), (8, 192), (24, 200), (size, 192 + size)] {
                let (mut got, mut expected) = (Written([255; _]), Written([255; _]));
                for (i, r) in (0..len).flat_map(|i| (0..rows).map(move |r| (i, r))) {
                    let to = &mut expected.0[begin + i * pitch + r * size..][..size];
                    to.copy_from_slice(&from[r * row + i * size..][..size]);
                }
                // SAFETY: the processor has the instructions; both matrices end in their arrays.
                unsafe { stream_turned(&squares, got.0.as_mut_ptr().add(begin), pitch as isize) };
                assert!(got.0 == expected.0, "{down} x {right} squares of {size} bytes, {begin} + {pitch} i");
            }
        }
    }
}
