//! Transposed copies of matrices with non-temporal stores (`# Note: non-temporal stores` in `crates/ops/src/loops.rs`): tiles whose rows
//! are as long as cache lines are transposed in registers, and their columns are stored as whole cache lines.
#![expect(unsafe_code, reason = "raw operands")]

use super::tile::CACHE_LINE;
#[cfg(target_arch = "x86_64")]
use super::{
    lanes::{Body, Lanes, Shuffle, WIDEST, transposed},
    scratch::Scratch,
    x86::{F32x16, F64x8},
};
#[cfg(target_arch = "x86_64")]
use std::ops::Range;

/// A matrix that consists of square tiles of [`tile_side`] rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct TileMatrix {
    /// The first element of the first row.
    pub from: *const u8,
    /// Bytes from one row to the next.
    pub row_stride: isize,
    /// The number of rows: a multiple of the tile's side.
    pub rows: usize,
    /// Elements of a row: a multiple of the tile's side.
    pub len: usize,
    /// Bytes of an element: 1, 2, 4, 8 or 16. Elements of 4 and 8 bytes are transposed in registers.
    pub size: usize,
}

/// Rows and columns of a tile: as many as elements of `size` bytes in a cache line.
pub const fn tile_side(size: usize) -> usize {
    CACHE_LINE / size
}

/// Writes the columns of a matrix as rows that begin `pitch` bytes apart, with non-temporal stores except in the cache lines that a
/// row shares with the bytes before and after it. The caller executes a store fence before other threads may read them.
///
/// # Safety
/// - The CPU has AVX-512, if it is an x86-64.
/// - All elements are readable, and `rows` elements are writable for each column; `to` and `pitch` are multiples of `size`.
pub unsafe fn stream_transposed(matrix: &TileMatrix, to: *mut u8, pitch: isize) {
    // SAFETY: the conditions above.
    unsafe {
        match matrix.size {
            #[cfg(target_arch = "x86_64")]
            4 => F32x16::enter(Columns::<F32x16> { matrix, to: to.cast(), pitch }),
            #[cfg(target_arch = "x86_64")]
            8 => F64x8::enter(Columns::<F64x8> { matrix, to: to.cast(), pitch }),
            _ => scalar_transpose(matrix, to, pitch),
        }
    }
}

/// # Safety
/// - As [`stream_transposed`].
unsafe fn scalar_transpose(matrix: &TileMatrix, to: *mut u8, pitch: isize) {
    let TileMatrix { from, row_stride, rows, len, size } = *matrix;
    for r in 0..rows {
        for i in 0..len {
            // SAFETY: an element, and its position in the row that its column becomes.
            unsafe {
                let from = from.offset(r as isize * row_stride).add(i * size);
                to.offset(i as isize * pitch).add(r * size).copy_from_nonoverlapping(from, size);
            }
        }
    }
}

/// Lanes whose register is as long as a cache line.
///
/// # Safety
/// As [`Shuffle`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe trait CacheLineLanes: Shuffle {
    /// Stores a register with a non-temporal store; `to` is aligned to a cache line.
    unsafe fn stream(units: Self::Operand, to: *mut Self::Unit);
    /// The last `count` units of one register, followed by the first units of another.
    unsafe fn joined(a: Self::Operand, b: Self::Operand, count: usize) -> Self::Operand;
}

/// Columns that are transposed together where rows of the result are not aligned to cache lines: the registers that are stored of the
/// tiles above then fit L2.
#[cfg(target_arch = "x86_64")]
const COLUMNS_AT_ONCE: usize = 2048;

#[cfg(target_arch = "x86_64")]
struct Columns<'a, L: CacheLineLanes> {
    matrix: &'a TileMatrix,
    to: *mut L::Unit,
    pitch: isize,
}

/// # Safety
/// - As [`stream_transposed`], of units of the size of the elements.
#[cfg(target_arch = "x86_64")]
impl<L: CacheLineLanes> Body for Columns<'_, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let TileMatrix { rows, len, .. } = *self.matrix;
        if (self.to.addr() | self.pitch as usize).is_multiple_of(CACHE_LINE) {
            for (row, column) in tile_origins::<L>(rows, 0..len) {
                // SAFETY: a tile of the matrix.
                unsafe { self.aligned_tile(row, column) }
            }
            return;
        }
        let mut above = Scratch::new::<L::Operand>(len.min(COLUMNS_AT_ONCE));
        let above: *mut L::Operand = above.as_mut_ptr();
        for first in (0..len).step_by(COLUMNS_AT_ONCE) {
            for (row, column) in tile_origins::<L>(rows, first..len.min(first + COLUMNS_AT_ONCE)) {
                // SAFETY: the same; `above` has a register for each of so many columns.
                unsafe { self.unaligned_tile(row, column, above.add(column - first)) }
            }
        }
    }
}

/// The first row and column of each tile in so many rows and in these columns, one row of tiles after another.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tile_origins<L: CacheLineLanes>(
    rows: usize,
    columns: Range<usize>,
) -> impl Iterator<Item = (usize, usize)> {
    (0..rows)
        .step_by(L::N)
        .flat_map(move |row| columns.clone().step_by(L::N).map(move |column| (row, column)))
}

/// # Safety
/// - As above; a tile of the matrix begins at `row` and `column`.
#[cfg(target_arch = "x86_64")]
impl<L: CacheLineLanes> Columns<'_, L> {
    /// Loads a tile, and returns its columns.
    #[inline(always)]
    unsafe fn transposed_tile(&self, row: usize, column: usize) -> [L::Operand; WIDEST] {
        // SAFETY: the condition above.
        unsafe {
            let from = self.matrix.from.cast::<L::Unit>().add(column);
            let at = |r: usize| from.byte_offset((row + r) as isize * self.matrix.row_stride);
            let mut rows = [L::operand(at(0)); WIDEST];
            for (r, units) in rows.iter_mut().enumerate().take(L::N).skip(1) {
                *units = L::operand(at(r));
            }
            transposed::<L>(rows)
        }
    }

    /// The destination of the element in this row and column.
    #[inline(always)]
    fn dst(&self, row: usize, column: usize) -> *mut L::Unit {
        self.to.wrapping_byte_offset(column as isize * self.pitch).wrapping_add(row)
    }

    /// Writes a tile if each of its columns is one cache line of the result.
    #[inline(always)]
    unsafe fn aligned_tile(&self, row: usize, column: usize) {
        // SAFETY: the condition above.
        unsafe {
            for (i, units) in self.transposed_tile(row, column).into_iter().enumerate().take(L::N) {
                L::stream(units, self.dst(row, column + i));
            }
        }
    }

    /// Writes a tile if its columns straddle cache lines. Each such cache line begins with the end of the column of the tile above,
    /// which that tile has stored in `above`; this one stores its own columns there for the tile below.
    #[inline(always)]
    unsafe fn unaligned_tile(&self, row: usize, column: usize, above: *mut L::Operand) {
        let is_last = row + L::N == self.matrix.rows;
        // SAFETY: the condition above; the tile above has stored its columns, except in the first row, which has none.
        unsafe {
            for (i, here) in self.transposed_tile(row, column).into_iter().enumerate().take(L::N) {
                let (to, above) = (self.dst(row, column + i), above.add(i));
                let misalignment = to.addr() % CACHE_LINE / size_of::<L::Unit>();
                if row == 0 {
                    L::store_units(here, to, L::N - misalignment);
                } else {
                    L::stream(L::joined(above.read(), here, misalignment), to.sub(misalignment));
                }
                if is_last {
                    let end = to.add(L::N - misalignment);
                    L::store_units(L::joined(here, here, misalignment), end, misalignment);
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
    fn columns_become_rows_of_any_alignment() {
        if cfg!(target_arch = "x86_64") && !crate::Isa::Avx512.is_available() {
            return;
        }
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i * 7919 % 251) as u8).collect();
        let cases = [(1, 1, 0), (1, 4, 3), (2, 1, 5), (3, 2, 1), (0, 1, 0), (1, 0, 0)];
        for (size, (down, right, skipped)) in
            [1, 2, 4, 8, 16].into_iter().flat_map(|size| cases.map(|c| (size, c)))
        {
            let (rows, len) = (tile_side(size) * down, tile_side(size).min(16) * right);
            let row_stride = len * size + 24;
            let from = &bytes[skipped..];
            let matrix = TileMatrix { from: from.as_ptr(), row_stride: row_stride as isize, rows, len, size };
            for (begin, pitch) in [(0, 192), (64, 256), (8, 192), (24, 200), (size, 192 + size)] {
                let (mut got, mut expected) = (Written([255; _]), Written([255; _]));
                for (i, r) in (0..len).flat_map(|i| (0..rows).map(move |r| (i, r))) {
                    let to = &mut expected.0[begin + i * pitch + r * size..][..size];
                    to.copy_from_slice(&from[r * row_stride + i * size..][..size]);
                }
                // SAFETY: the processor has the instructions; both matrices end in their arrays.
                unsafe { stream_transposed(&matrix, got.0.as_mut_ptr().add(begin), pitch as isize) };
                assert!(got.0 == expected.0, "{down} x {right} tiles of {size} bytes, {begin} + {pitch} i");
            }
        }
    }
}
