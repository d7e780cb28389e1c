//! Copies between any two dtypes and any strides.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::copy_bytes::copy_bytes;
use super::device::or_on_device;
use super::packed::{self, Cursor};
use super::rolled::{RolledDim, RolledSource};
use super::streaming;
use super::strided::copy_strided;
use super::tiles::StridedConvert;
use super::transposed;
use crate::gemm::{self, TileMatrix};
use crate::tensor_iterator::{Along, Pointers, TensorIterator};
use flambeau_core::{Result, ScalarType};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Copies the input of an iterator of one output and one input, converting where types differ. Bools are converted too: their
/// bytes are 0 or 1 in a result, whatever they were.
///
/// # Errors
/// `Busy` or `Aliasing` where an operand may not be touched.
pub fn copy_kernel(iter: &TensorIterator<'_>) -> Result<()> {
    or_on_device(copy_on_host(iter), iter, |loops| loops.copy(iter))
}

fn copy_on_host(iter: &TensorIterator<'_>) -> Result<()> {
    let (to, from) = (iter.operands()[0].dtype(), iter.operands()[1].dtype());
    let convert = StridedConvert::new(from, to)?;
    let moves = from == to && to != ScalarType::Bool;
    let transposed_dim = transposed::transposed_dim(iter);
    // A transposed block writes a few cache lines in each of many rows, whose reads for ownership the hardware prefetcher does not
    // foresee: non-temporal stores, which need no such reads, are faster for half as many bytes.
    let factor = if transposed_dim.is_some() { 2 } else { 1 };
    // A conversion to a smaller type fills the caches with its input.
    let size = to.size().max(from.size());
    let streams = streaming::should_stream(factor * iter.numel() as usize * size, || 1)
        && !iter.operands()[0].shares_storage(&iter.operands()[1]);
    if let Some(dim) = transposed_dim {
        let rows = transposed::rows_of_block(from.size());
        // Along the input's rows, which the hardware prefetcher then follows; with non-temporal stores the output is not read.
        let along = if streams { Along::Rows } else { Along::Columns };
        return iter.with_pointers(|data| {
            let result = &iter.operands()[0];
            if let Some(columns) = transposed::nt_block_columns(result, data[0]).filter(|_| streams && moves)
            {
                return iter.for_each_block(data, dim, [columns, usize::MAX], Along::Rows, &|p, n, rows| {
                    stream_transposed_block(&p, n, rows, to.size());
                    streaming::fence(streams);
                });
            }
            iter.for_each_block(data, dim, [transposed::COLUMNS, rows], along, &|p, n, rows| {
                copy_transposed(&p, n, rows, [from.size(), to.size()], (!moves).then_some(convert), streams);
                streaming::fence(streams);
            });
        });
    }
    let (result, argument) = (&iter.operands()[0], &iter.operands()[1]);
    let is_small = iter.numel() > 0 && has_small_rectangles(iter.shape());
    if is_small && packed::is_dense(iter.shape(), result, to.size()) {
        let dims = iter.shape().iter().zip(argument.strides());
        let dims =
            dims.map(|(&n, &stride)| RolledDim { size: n as usize, stride: stride as isize, shift: 0 });
        let source = RolledSource::new(dims, to.size());
        return iter.with_pointers(|data| {
            iter.for_each_range(data, &|data, range| {
                let result = data[0].wrapping_add(range.start * to.size());
                // SAFETY: the elements of the range, of which the result's are this task's to write. An input that shares memory with
                // the output is a copy, since no other view of it is dense in this order without being the same.
                unsafe {
                    if moves {
                        return source.copy(range, data[1], result);
                    }
                    let mut cursor = Cursor::new(iter.shape(), argument, data[1], range.start);
                    convert_packed(&mut cursor, range.len(), convert, result);
                }
            });
        });
    }
    iter.with_pointers(|data| {
        iter.for_each(data, |p, n, rows| {
            if moves {
                copy_rows(&p, n, rows, to.size(), streams);
            } else {
                convert_rows(&p, n, rows, [from.size(), to.size()], convert, streams);
            }
            streaming::fence(streams);
        });
    })
}

/// Converts the next `count` elements of an operand to adjacent ones, through a tile.
///
/// # Safety
/// - The operand has these elements, which nobody writes, and `to` takes them.
unsafe fn convert_packed(cursor: &mut Cursor<'_>, count: usize, convert: StridedConvert, to: *mut u8) {
    let [from_size, to_size] = convert.sizes();
    let mut tile = [const { MaybeUninit::<[u64; 2]>::uninit() }; PACKED_BYTES / size_of::<[u64; 2]>()];
    let tile: *mut u8 = tile.as_mut_ptr().cast();
    let at_once = PACKED_BYTES / from_size;
    for first in (0..count).step_by(at_once) {
        let n = at_once.min(count - first);
        // SAFETY: this function's conditions; the tile takes `n` elements.
        unsafe {
            cursor.gather(n, from_size, tile);
            convert.run(tile, from_size as i64, to.add(first * to_size), to_size as i64, n);
        }
    }
}

/// Whether the rectangles of the two innermost dimensions are so small that a loop over each takes longer to start than to run.
fn has_small_rectangles(shape: &[i64]) -> bool {
    matches!(shape, [inner, outer, _, ..] if *inner < SHORT_ROW as i64 && *outer < 2 * SHORT_ROW as i64)
}

fn at(p: &Pointers<'_>, operand: usize, row: usize) -> *mut u8 {
    p.data[operand].wrapping_offset((row as i64 * p.outer[operand]) as isize)
}

/// Elements of a row below which a rectangle is copied column by column.
const SHORT_ROW: usize = 8;
/// Bytes of a tile of elements that are converted.
const PACKED_BYTES: usize = 8192;
/// Rows of which columns are copied: so few that their cache lines stay in L1.
const ROWS_OF_COLUMNS: usize = 128;

fn copy_rows(p: &Pointers<'_>, n: usize, rows: usize, size: usize, streams: bool) {
    let dense = |operand: usize| p.inner[operand] == size as i64 || n == 1;
    if n < SHORT_ROW && rows >= 2 * SHORT_ROW && !streams {
        // SAFETY: as below.
        return each_column(p, n, rows, |[to, from], count| unsafe {
            copy_strided(from, p.outer[1], to, p.outer[0], count, size);
        });
    }
    for row in 0..rows {
        let (to, from) = (at(p, 0, row), at(p, 1, row));
        // SAFETY: the iterator gives addresses inside both operands; an input that shares memory with the output is the same view of it,
        // or a copy, so the regions are equal or disjoint.
        unsafe {
            if dense(0) && dense(1) && streams {
                streaming::stream(from, to, n * size);
            } else if dense(0) && dense(1) {
                copy_bytes(from, to, n * size);
            } else {
                copy_strided(from, p.inner[1], to, p.inner[0], n, size);
            }
        }
    }
}

/// Calls `copy` with the addresses of the result and the input, and the length, of each column of a rectangle of short rows. Columns are
/// taken in pieces.
fn each_column(p: &Pointers<'_>, n: usize, rows: usize, copy: impl Fn([*mut u8; 2], usize)) {
    for first in (0..rows).step_by(ROWS_OF_COLUMNS) {
        let count = ROWS_OF_COLUMNS.min(rows - first);
        for column in 0..n as i64 {
            copy([0, 1].map(|k| at(p, k, first).wrapping_offset((column * p.inner[k]) as isize)), count);
        }
    }
}

/// Copies a block of a transposed input.
fn copy_transposed(
    p: &Pointers<'_>,
    n: usize,
    rows: usize,
    [from_size, to_size]: [usize; 2],
    convert: Option<StridedConvert>,
    streams: bool,
) {
    let mut tile: transposed::Tile = [const { MaybeUninit::uninit() }; _];
    // SAFETY: the iterator gives a block inside both operands; what is read from the tile has been written.
    unsafe {
        transposed::transpose_block(p, 1, n, rows, from_size, &mut tile);
        for row in 0..rows {
            let from = tile.as_ptr().cast::<u8>().add(row * transposed::pitch(from_size));
            let to = at(p, 0, row);
            match convert {
                Some(convert) => convert.run(from, from_size as i64, to, p.inner[0], n),
                None if p.inner[0] != to_size as i64 => {
                    copy_strided(from, from_size as i64, to, p.inner[0], n, from_size);
                }
                None if streams => streaming::stream(from, to, n * to_size),
                None => std::ptr::copy_nonoverlapping(from, to, n * to_size),
            }
        }
    }
}

/// Copies a transposed block by non-temporal stores: its square blocks are transposed in registers, the rest in a tile.
fn stream_transposed_block(p: &Pointers<'_>, n: usize, rows: usize, size: usize) {
    let whole = |count: usize| count / gemm::tile_side(size) * gemm::tile_side(size);
    let tiles = TileMatrix {
        from: p.data[1],
        row_stride: p.inner[1] as isize,
        rows: whole(n),
        len: whole(rows),
        size,
    };
    // SAFETY: the iterator gives addresses inside both operands; `should_stream` says that the processor has AVX-512.
    unsafe { gemm::stream_transposed(&tiles, p.data[0], p.outer[0] as isize) };
    copy_blocks(p, 0..tiles.rows, tiles.len..rows, size);
    copy_blocks(p, tiles.rows..n, 0..rows, size);
}

/// Copies these columns and rows of a transposed input, through a tile.
fn copy_blocks(p: &Pointers<'_>, columns: Range<usize>, rows: Range<usize>, size: usize) {
    let max_rows = transposed::rows_of_block(size);
    for row in rows.clone().step_by(max_rows) {
        for column in columns.clone().step_by(transposed::COLUMNS) {
            let from =
                |operand| at(p, operand, row).wrapping_offset(column as isize * p.inner[operand] as isize);
            let block = Pointers { data: &[from(0), from(1)], ..*p };
            let (n, rows) = (transposed::COLUMNS.min(columns.end - column), max_rows.min(rows.end - row));
            copy_transposed(&block, n, rows, [size; 2], None, false);
        }
    }
}

fn convert_rows(
    p: &Pointers<'_>,
    n: usize,
    rows: usize,
    [from_size, to_size]: [usize; 2],
    convert: StridedConvert,
    streams: bool,
) {
    let dense = p.inner[1] == from_size as i64 && p.inner[0] == to_size as i64;
    if n < SHORT_ROW && rows >= 2 * SHORT_ROW {
        // SAFETY: as below.
        return each_column(p, n, rows, |[to, from], count| unsafe {
            convert.run(from, p.outer[1], to, p.outer[0], count);
        });
    }
    for row in 0..rows {
        let (to, from) = (at(p, 0, row), at(p, 1, row));
        // SAFETY: the iterator gives addresses inside both operands, whose types are these.
        unsafe {
            if dense && streams {
                convert.stream(from, to, n);
            } else {
                convert.run(from, p.inner[1], to, p.inner[0], n);
            }
        }
    }
}
