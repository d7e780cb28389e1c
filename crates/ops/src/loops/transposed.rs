//! Transposed inputs, `x.t()` beside a row-major result: blocks of them are transposed in a tile, so that each cache line is read once
//! and not once for each of its elements.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::reduce::strips::{PackedTile, STRIP};
use super::rows;
use super::strided::copy_strided;
use crate::gemm::{self, GemmElement, Isa, StridedRows};
use crate::tensor_iterator::{Operand, Pointers, TensorIterator};
use crate::vectorized::with_processor_vectors;
use std::mem::MaybeUninit;

/// Columns of a block: elements of a row of the result.
pub(super) const COLUMNS: usize = 64;
/// Bytes of a block in the dimension in which the input is dense: four cache lines, which measured fastest.
const BLOCK_BYTES: usize = 256;
/// Size of a dimension below which blocks are not faster than a strided loop.
const MIN_SIZE: i64 = 8;

/// Rows and columns from which on a matrix is transposed in registers: blocks of fewer take as long as whole ones.
const MIN_IN_REGISTERS: usize = 8;

/// Rows of few elements from which on they are transposed by shuffles.
const MIN_PACKED_ROWS: usize = 16;

/// A block of any type: rows of [`COLUMNS`] elements.
pub(super) type Tile = [MaybeUninit<u64>; COLUMNS * BLOCK_BYTES / 8];

/// The dimension in which transposed inputs are dense, the same for all of them: inputs that are not dense in the first. `None` where no
/// input is transposed, or blocks would be small.
pub(super) fn transposed_dim(iter: &TensorIterator<'_>) -> Option<usize> {
    let (shape, inputs) = (iter.shape(), &iter.operands()[1..]);
    if shape.len() < 2 || shape[0] < MIN_SIZE {
        return None;
    }
    let first = inputs.iter().find(|input| !is_dense_or_broadcast(input))?;
    let size = first.dtype().size() as i64;
    let dim = (1..shape.len()).find(|&dim| first.strides()[dim] == size && shape[dim] >= MIN_SIZE)?;
    inputs.iter().all(|input| is_dense_or_broadcast(input) || is_transposed(input, dim)).then_some(dim)
}

/// Whether an operand is dense, or one value for all, in the first dimension.
pub(super) fn is_dense_or_broadcast(operand: &Operand<'_>) -> bool {
    [0, operand.dtype().size() as i64].contains(&operand.strides()[0])
}

fn is_transposed(operand: &Operand<'_>, dim: usize) -> bool {
    operand.strides()[dim] == operand.dtype().size() as i64
}

/// How many columns a block has that is transposed in registers and written by non-temporal stores into a result that begins at `at`;
/// `None` for elements that cannot be. Where rows do not begin at cache lines, neighbouring blocks write to the same cache lines, and
/// wide blocks make these few.
pub(super) fn nt_block_columns(result: &Operand<'_>, at: *const u8) -> Option<usize> {
    let (size, outer) = (result.dtype().size(), &result.strides()[1..]);
    let is_aligned_to =
        |unit: usize| at.addr().is_multiple_of(unit) && outer.iter().all(|stride| stride % unit as i64 == 0);
    let is_dense = matches!(size, 4 | 8) && result.strides()[0] == size as i64 && is_aligned_to(size);
    is_dense.then(|| gemm::tile_side(size) * if is_aligned_to(rows::CACHE_LINE) { 1 } else { 32 })
}

/// Rows of a block of elements of `size` bytes.
pub(super) fn rows_of_block(size: usize) -> usize {
    BLOCK_BYTES / size
}

/// Bytes from one row of a tile to the next.
pub(super) fn pitch(size: usize) -> usize {
    COLUMNS * size
}

/// Transposes the block of operand `operand` at `p`, whose columns are dense, into rows of a tile.
///
/// # Safety
/// - The operand has `n` columns and `rows` rows of elements of `size` bytes, at most [`COLUMNS`] and [`rows_of_block`].
pub(super) unsafe fn transpose_block(
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
            let source = from.wrapping_offset((column as i64 * step) as isize).cast::<Bits>();
            let to = to.cast::<Bits>().wrapping_add(column);
            // SAFETY: the column has `rows` dense elements, and each row of the tile takes one.
            unsafe {
                if rows == ROWS {
                    let whole = source.cast::<[Bits; ROWS]>().read_unaligned();
                    for (row, value) in whole.into_iter().enumerate() {
                        to.add(row * COLUMNS).write(value);
                    }
                } else {
                    for row in 0..rows {
                        to.add(row * COLUMNS).write(source.add(row).cast::<Bits>().read_unaligned());
                    }
                }
            }
        }
    }
    let (from, step, to) = (p.data[operand].cast_const(), p.inner[operand], tile.as_mut_ptr().cast());
    // SAFETY: by this function's conditions.
    unsafe {
        match size {
            1 => columns::<u8, BLOCK_BYTES>(from, step, n, rows, to),
            2 => columns::<u16, { BLOCK_BYTES / 2 }>(from, step, n, rows, to),
            4 if suits_registers::<f32>(from, step, n) => in_registers::<f32>(from, step, n, rows, to),
            8 if suits_registers::<f64>(from, step, n) => in_registers::<f64>(from, step, n, rows, to),
            4 => columns::<u32, { BLOCK_BYTES / 4 }>(from, step, n, rows, to),
            8 => columns::<u64, { BLOCK_BYTES / 8 }>(from, step, n, rows, to),
            _ => columns::<[u64; 2], { BLOCK_BYTES / 16 }>(from, step, n, rows, to),
        }
    }
}

/// Whether `n` columns from `from` on, `step` bytes apart, may be read as elements of `T`, and fill half of a tile: a
/// whole tile is always transposed, so for fewer columns it is faster to copy them one by one.
fn suits_registers<T>(from: *const u8, step: i64, n: usize) -> bool {
    2 * n >= COLUMNS && from.cast::<T>().is_aligned() && step % size_of::<T>() as i64 == 0
}

/// [`transpose_block`] of elements of the size of `T`, which are moved as `T`: square blocks are transposed in registers, so that whole
/// vectors are stored. With stores column by column, loads would wait for earlier stores that have the same address within a page, as if
/// they overlapped (4K aliasing).
///
/// # Safety
/// As [`transpose_block`], with `size` that of `T`.
unsafe fn in_registers<T: GemmElement>(from: *const u8, step: i64, n: usize, rows: usize, to: *mut u8) {
    let row_stride = step as isize / size_of::<T>() as isize;
    let columns = StridedRows::<T> { from: from.cast(), rows: n, row_stride, len: rows, stride: 1 };
    // SAFETY: by this function's conditions; the tile has `COLUMNS` elements in each row.
    unsafe { gemm::transpose_pack(Isa::detected(), &columns, to.cast(), COLUMNS) }
}

/// Copies rows of `len` dense elements, `row_stride` bytes apart, as columns: element `i` of row `j` to `to + i * pitch + j * size`.
///
/// # Safety
/// - All elements are readable, and as many as there are rows writable at each multiple of `pitch`. `pitch` may be the bits of a negative
///   number.
pub(crate) unsafe fn transpose(
    from: *const u8,
    row_stride: isize,
    [rows, len]: [usize; 2],
    size: usize,
    to: *mut u8,
    pitch: usize,
) {
    /// Blocks in registers, where addresses are those of elements.
    ///
    /// # Safety
    /// - As the enclosing function, with `size` that of `T`.
    unsafe fn by_blocks<T: GemmElement<Scalar = T>>(
        rows: &StridedRows<u8>,
        to: *mut u8,
        pitch: usize,
    ) -> bool {
        let size = size_of::<T>();
        let is_multiple = (pitch | rows.row_stride as usize).is_multiple_of(size) && (pitch as isize) >= 0;
        let suits = is_multiple && rows.from.cast::<T>().is_aligned() && to.cast::<T>().is_aligned();
        if suits {
            let StridedRows { from, rows, row_stride, len, stride } = *rows;
            let row_stride = row_stride / size as isize;
            let rows = StridedRows { from: from.cast::<T>(), rows, row_stride, len, stride };
            // SAFETY: by this function's conditions.
            unsafe { gemm::transpose(Isa::detected(), &rows, to.cast(), pitch / size) }
        }
        suits
    }
    let matrix = StridedRows { from, rows, row_stride, len, stride: 1 };
    let fills_blocks = rows.min(len) >= MIN_IN_REGISTERS;
    // SAFETY: by this function's conditions.
    unsafe {
        let done = match size {
            4 if fills_blocks => by_blocks::<f32>(&matrix, to, pitch),
            8 if fills_blocks => by_blocks::<f64>(&matrix, to, pitch),
            _ => false,
        };
        let is_packed = row_stride == (len * size) as isize;
        if done || (is_packed && transpose_few_columns(from, [rows, len], size, to, pitch)) {
            return;
        }
        if pitch == rows * size && interleave(&matrix, size, to) {
            return;
        }
        if len < rows {
            for i in 0..len {
                let (from, to) = (from.add(i * size), to.offset(i as isize * pitch as isize));
                copy_strided(from, row_stride as i64, to, size as i64, rows, size);
            }
            return;
        }
        for row in 0..rows {
            let (from, to) = (from.offset(row as isize * row_stride), to.add(row * size));
            copy_strided(from, size as i64, to, pitch as i64, len, size);
        }
    }
}

/// Moves up to [`STRIP`] rows of `len` elements of `size` bytes, which follow one another, to columns: element `i` of row `j` to element
/// `i * STRIP + j`. `false` where rows have another number of elements than a few, or elements another size than numbers.
///
/// # Safety
/// - `from` is valid for reading the rows, and `to` for writing `len * STRIP` elements.
pub(super) unsafe fn few_columns(from: *const u8, [rows, len]: [usize; 2], size: usize, to: *mut u8) -> bool {
    // SAFETY: this function's condition.
    unsafe {
        match size {
            1 => few_columns_of::<u8>(from, [rows, len], to),
            2 => few_columns_of::<u16>(from, [rows, len], to),
            4 => few_columns_of::<u32>(from, [rows, len], to),
            8 => few_columns_of::<u64>(from, [rows, len], to),
            _ => false,
        }
    }
}

/// [`few_columns`] of elements of the size of `Bits`.
///
/// # Safety
/// - As [`few_columns`].
unsafe fn few_columns_of<Bits: Copy>(from: *const u8, [rows, len]: [usize; 2], to: *mut u8) -> bool {
    let (from, to) = (from.cast::<Bits>(), to.cast::<Bits>());
    // SAFETY: this function's condition.
    unsafe {
        match len {
            2 => columns_of::<Bits, 2>(from, rows, to),
            3 => columns_of::<Bits, 3>(from, rows, to),
            4 => columns_of::<Bits, 4>(from, rows, to),
            5 => columns_of::<Bits, 5>(from, rows, to),
            6 => columns_of::<Bits, 6>(from, rows, to),
            7 => columns_of::<Bits, 7>(from, rows, to),
            8 => columns_of::<Bits, 8>(from, rows, to),
            _ => return false,
        }
    }
    true
}

/// [`few_columns`] of rows of `N` elements. The number is constant, so that the compiler makes it shuffles of vectors.
///
/// # Safety
/// - As [`few_columns`].
unsafe fn columns_of<Bits: Copy, const N: usize>(from: *const Bits, rows: usize, to: *mut Bits) {
    // SAFETY: this function's condition; any bytes are a `MaybeUninit`.
    let tile = unsafe { &mut *to.cast::<[[MaybeUninit<Bits>; STRIP]; N]>() };
    with_processor_vectors(
        #[inline(always)]
        move || {
            for row in 0..rows.min(STRIP) {
                for (i, column) in tile.iter_mut().enumerate() {
                    // SAFETY: an element of the row.
                    column[row] =
                        unsafe { from.add(row * N + i).cast::<MaybeUninit<Bits>>().read_unaligned() };
                }
            }
        },
    );
}

/// [`transpose`] of rows that follow one another, in a tile whose columns are then copied; `false` where there are few rows, or they have
/// another number of elements than a few.
///
/// # Safety
/// - As for [`transpose`].
unsafe fn transpose_few_columns(
    from: *const u8,
    [rows, len]: [usize; 2],
    size: usize,
    to: *mut u8,
    pitch: usize,
) -> bool {
    if rows < MIN_PACKED_ROWS {
        return false;
    }
    let mut tile = PackedTile::new();
    let tile = tile.as_mut_ptr().cast::<u8>();
    for first in (0..rows).step_by(STRIP) {
        let count = STRIP.min(rows - first);
        // SAFETY: these rows are readable, and `to` takes as many elements at each multiple of the pitch.
        unsafe {
            if !few_columns(from.add(first * len * size), [count, len], size, tile) {
                return false;
            }
            for i in 0..len {
                let to = to.offset(i as isize * pitch as isize).add(first * size);
                to.copy_from_nonoverlapping(tile.add(i * STRIP * size), count * size);
            }
        }
    }
    true
}

/// [`transpose`] of few rows to columns that follow one another; `false` where there are more rows, or they have few elements.
///
/// # Safety
/// - As for [`transpose`].
unsafe fn interleave(rows: &StridedRows<u8>, size: usize, to: *mut u8) -> bool {
    if rows.len < MIN_PACKED_ROWS {
        return false;
    }
    // SAFETY: this function's condition.
    unsafe {
        match size {
            1 => interleave_of::<u8>(rows, to.cast()),
            2 => interleave_of::<u16>(rows, to.cast()),
            4 => interleave_of::<u32>(rows, to.cast()),
            8 => interleave_of::<u64>(rows, to.cast()),
            _ => false,
        }
    }
}

/// [`interleave`] of elements of the size of `Bits`.
///
/// # Safety
/// - As [`interleave`].
unsafe fn interleave_of<Bits: Copy>(rows: &StridedRows<u8>, to: *mut Bits) -> bool {
    let (from, stride, len) = (rows.from.cast::<Bits>(), rows.row_stride, rows.len);
    // SAFETY: this function's condition.
    unsafe {
        match rows.rows {
            2 => interleave_rows::<Bits, 2>(from, stride, len, to),
            3 => interleave_rows::<Bits, 3>(from, stride, len, to),
            4 => interleave_rows::<Bits, 4>(from, stride, len, to),
            5 => interleave_rows::<Bits, 5>(from, stride, len, to),
            6 => interleave_rows::<Bits, 6>(from, stride, len, to),
            7 => interleave_rows::<Bits, 7>(from, stride, len, to),
            8 => interleave_rows::<Bits, 8>(from, stride, len, to),
            _ => return false,
        }
    }
    true
}

/// [`interleave`] of `N` rows of `len` elements, `row_stride` bytes apart. The number is constant, as in [`columns_of`].
///
/// # Safety
/// - As [`interleave`].
unsafe fn interleave_rows<Bits: Copy, const N: usize>(
    from: *const Bits,
    row_stride: isize,
    len: usize,
    to: *mut Bits,
) {
    with_processor_vectors(
        #[inline(always)]
        move || {
            for i in 0..len {
                for row in 0..N {
                    // SAFETY: an element of the row, and the address of the same one in its column.
                    unsafe {
                        let element = from.byte_offset(row as isize * row_stride).add(i);
                        let element = element.cast::<MaybeUninit<Bits>>().read_unaligned();
                        to.add(i * N + row).cast::<MaybeUninit<Bits>>().write_unaligned(element);
                    }
                }
            }
        },
    );
}
