//! Inputs that lie the other way round, as `x.t()` beside a result in its own order: they are read in blocks through a tile, so that
//! each line of memory is read once and not once for each of its elements.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::rows;
use crate::gemm::{self, GemmElement, Isa, Lines};
use crate::tensor_iterator::{Operand, Pointers, TensorIterator};
use std::mem::MaybeUninit;

/// Columns of a block.
pub(super) const COLUMNS: usize = 64;
/// Bytes of a block in the direction in which the input is dense: four lines of the cache, which was measured to be best.
const LINE: usize = 256;
/// Dimensions below which a block is not worth it.
const LEAST: i64 = 8;

/// A block of any type: rows of [`COLUMNS`] elements.
pub(super) type Tile = [MaybeUninit<u64>; COLUMNS * LINE / 8];

/// The dimension in which an input is dense that is not dense in the first; the same for all such inputs. None where no input is
/// turned, or the blocks would be small.
pub(super) fn turned_dim(iter: &TensorIterator<'_>) -> Option<usize> {
    let (shape, inputs) = (iter.shape(), &iter.operands()[1..]);
    if shape.len() < 2 || shape[0] < LEAST {
        return None;
    }
    let first = inputs.iter().find(|input| !lies_along(input))?;
    let size = first.dtype().size() as i64;
    let dim = (1..shape.len()).find(|&dim| first.strides()[dim] == size && shape[dim] >= LEAST)?;
    inputs.iter().all(|input| lies_along(input) || is_turned(input, dim)).then_some(dim)
}

/// Whether an operand is dense, or one value, in the first dimension.
pub(super) fn lies_along(operand: &Operand<'_>) -> bool {
    [0, operand.dtype().size() as i64].contains(&operand.strides()[0])
}

fn is_turned(operand: &Operand<'_>, dim: usize) -> bool {
    operand.strides()[dim] == operand.dtype().size() as i64
}

/// Columns of a block of squares that are turned in registers and written past the caches, into a result that begins at `at`; `None`
/// for elements that are not. Where rows do not begin where lines do, blocks share lines, and are wide so that few are.
pub(super) fn squares(result: &Operand<'_>, at: *const u8) -> Option<usize> {
    let (size, outer) = (result.dtype().size(), &result.strides()[1..]);
    let begin_with =
        |unit: usize| at.addr().is_multiple_of(unit) && outer.iter().all(|stride| stride % unit as i64 == 0);
    let is_dense = matches!(size, 4 | 8) && result.strides()[0] == size as i64 && begin_with(size);
    is_dense.then(|| gemm::side(size) * if begin_with(rows::LINE) { 1 } else { 32 })
}

/// Rows of a block of elements of `size` bytes.
pub(super) fn rows_of_block(size: usize) -> usize {
    LINE / size
}

/// Bytes from one row of a tile to the next.
pub(super) fn pitch(size: usize) -> usize {
    COLUMNS * size
}

/// Reads the block of operand `operand` at `p`, dense from row to row, into rows of a tile.
///
/// # Safety
/// - The operand has `n` columns and `rows` rows of elements of `size` bytes, at most [`COLUMNS`] and [`rows_of_block`].
pub(super) unsafe fn turn(
    p: &Pointers<'_>,
    operand: usize,
    n: usize,
    rows: usize,
    size: usize,
    tile: &mut Tile,
) {
    /// # Safety
    /// As the enclosing function, with `size` that of `Bits`.
    #[inline(always)]
    unsafe fn columns<Bits: Copy, const ROWS: usize>(
        from: *const u8,
        step: i64,
        n: usize,
        rows: usize,
        to: *mut u8,
    ) {
        for column in 0..n {
            let line = from.wrapping_offset((column as i64 * step) as isize).cast::<Bits>();
            let to = to.cast::<Bits>().wrapping_add(column);
            // SAFETY: the column has `rows` elements side by side, and each row of the tile takes one.
            unsafe {
                if rows == ROWS {
                    let whole = line.cast::<[Bits; ROWS]>().read_unaligned();
                    for (row, value) in whole.into_iter().enumerate() {
                        to.add(row * COLUMNS).write(value);
                    }
                } else {
                    for row in 0..rows {
                        to.add(row * COLUMNS).write(line.add(row).cast::<Bits>().read_unaligned());
                    }
                }
            }
        }
    }
    let (from, step, to) = (p.data[operand].cast_const(), p.inner[operand], tile.as_mut_ptr().cast());
    // SAFETY: by this function's conditions.
    unsafe {
        match size {
            1 => columns::<u8, LINE>(from, step, n, rows, to),
            2 => columns::<u16, { LINE / 2 }>(from, step, n, rows, to),
            4 if suits_registers::<f32>(from, step, n) => in_registers::<f32>(from, step, n, rows, to),
            8 if suits_registers::<f64>(from, step, n) => in_registers::<f64>(from, step, n, rows, to),
            4 => columns::<u32, { LINE / 4 }>(from, step, n, rows, to),
            8 => columns::<u64, { LINE / 8 }>(from, step, n, rows, to),
            _ => columns::<[u64; 2], { LINE / 16 }>(from, step, n, rows, to),
        }
    }
}

/// Whether `n` columns from `from` on, `step` bytes apart, may be read as elements of `T`, and fill half of a tile: the rest of its
/// columns is turned with them, and 8 columns took half as long again as one by one.
fn suits_registers<T>(from: *const u8, step: i64, n: usize) -> bool {
    2 * n >= COLUMNS && from.cast::<T>().is_aligned() && step % size_of::<T>() as i64 == 0
}

/// [`turn`] of elements as large as `T`, as whom they are moved: squares of them are turned in registers, so that whole lines are
/// written. Columns written one by one made the processor wait with each read for writes that only look as if they might overlap it.
///
/// # Safety
/// As [`turn`], with `size` that of `T`.
unsafe fn in_registers<T: GemmElement>(from: *const u8, step: i64, n: usize, rows: usize, to: *mut u8) {
    let line = step as isize / size_of::<T>() as isize;
    let lines = Lines::<T> { from: from.cast(), lines: n, line, len: rows, step: 1 };
    // SAFETY: by this function's conditions; the tile has a place for `COLUMNS` elements in each row.
    unsafe { gemm::turn(Isa::detected(), &lines, to.cast(), COLUMNS) }
}
