//! Copying between any two types and any two orders.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::streaming;
use super::strided::copy_strided;
use super::tiles::StridedConvert;
use super::turned;
use crate::gemm::{self, Squares};
use crate::tensor_iterator::{Along, Pointers, TensorIterator};
use flambeau_core::{Result, ScalarType};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Copies the input of an iterator of one output and one input, converting where types differ. Truth values are converted too: their
/// bytes are 0 or 1 in a result, whatever they were.
///
/// # Errors
/// `Busy` or `Aliasing` where an operand may not be touched.
pub fn copy_kernel(iter: &TensorIterator<'_>) -> Result<()> {
    let (to, from) = (iter.operands()[0].dtype(), iter.operands()[1].dtype());
    let convert = StridedConvert::new(from, to)?;
    let moves = from == to && to != ScalarType::Bool;
    let turned_dim = turned::turned_dim(iter);
    // A block that is turned writes a few lines in each of many rows, for which the processor cannot ask ahead: it gains sooner.
    let sooner = if turned_dim.is_some() { 2 } else { 1 };
    // A conversion to a lesser type fills the caches with what it reads.
    let size = to.size().max(from.size());
    let streams = streaming::pays(sooner * iter.numel() as usize * size, || 1)
        && !iter.operands()[0].shares_storage(&iter.operands()[1]);
    if let Some(dim) = turned_dim {
        let rows = turned::rows_of_block(from.size());
        // Along the input's rows, whose lines are so asked for ahead by the processor; lines of the output need not be.
        let along = if streams { Along::Rows } else { Along::Columns };
        return iter.with_pointers(|data| {
            let result = &iter.operands()[0];
            if let Some(columns) = turned::squares(result, data[0]).filter(|_| streams && moves) {
                return iter.for_each_block(data, dim, [columns, usize::MAX], Along::Rows, &|p, n, rows| {
                    stream_squares(&p, n, rows, to.size());
                    streaming::fence(streams);
                });
            }
            iter.for_each_block(data, dim, [turned::COLUMNS, rows], along, &|p, n, rows| {
                copy_turned(&p, n, rows, [from.size(), to.size()], (!moves).then_some(convert), streams);
                streaming::fence(streams);
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

fn at(p: &Pointers<'_>, operand: usize, row: usize) -> *mut u8 {
    p.data[operand].wrapping_offset((row as i64 * p.outer[operand]) as isize)
}

fn copy_rows(p: &Pointers<'_>, n: usize, rows: usize, size: usize, streams: bool) {
    let dense = |operand: usize| p.inner[operand] == size as i64 || n == 1;
    for row in 0..rows {
        let (to, from) = (at(p, 0, row), at(p, 1, row));
        // SAFETY: the walk stays inside both operands; an input that shares memory with the output is the same view of it,
        // or a copy, so the regions are equal or apart.
        unsafe {
            if dense(0) && dense(1) && streams {
                streaming::stream(from, to, n * size);
            } else if dense(0) && dense(1) {
                std::ptr::copy(from, to, n * size);
            } else {
                copy_strided(from, p.inner[1], to, p.inner[0], n, size);
            }
        }
    }
}

/// A block of an input that lies the other way round.
fn copy_turned(
    p: &Pointers<'_>,
    n: usize,
    rows: usize,
    [from_size, to_size]: [usize; 2],
    convert: Option<StridedConvert>,
    streams: bool,
) {
    let mut tile: turned::Tile = [const { MaybeUninit::uninit() }; _];
    // SAFETY: a block of the walk, which lies inside both operands; what is read from the tile has been written.
    unsafe {
        turned::turn(p, 1, n, rows, from_size, &mut tile);
        for row in 0..rows {
            let from = tile.as_ptr().cast::<u8>().add(row * turned::pitch(from_size));
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

/// A block whose squares are turned in registers, and the rest of it by way of a tile.
fn stream_squares(p: &Pointers<'_>, n: usize, rows: usize, size: usize) {
    let whole = |count: usize| count / gemm::side(size) * gemm::side(size);
    let squares =
        Squares { from: p.data[1], row: p.inner[1] as isize, rows: whole(n), len: whole(rows), size };
    // SAFETY: the walk lies inside both operands; that the output is streamed says that there is AVX-512.
    unsafe { gemm::stream_turned(&squares, p.data[0], p.outer[0] as isize) };
    copy_blocks(p, 0..squares.rows, squares.len..rows, size);
    copy_blocks(p, squares.rows..n, 0..rows, size);
}

/// These columns and rows of an input that lies the other way round, by way of a tile.
fn copy_blocks(p: &Pointers<'_>, columns: Range<usize>, rows: Range<usize>, size: usize) {
    let most = turned::rows_of_block(size);
    for row in rows.clone().step_by(most) {
        for column in columns.clone().step_by(turned::COLUMNS) {
            let from =
                |operand| at(p, operand, row).wrapping_offset(column as isize * p.inner[operand] as isize);
            let block = Pointers { data: &[from(0), from(1)], ..*p };
            let (n, rows) = (turned::COLUMNS.min(columns.end - column), most.min(rows.end - row));
            copy_turned(&block, n, rows, [size; 2], None, false);
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
    for row in 0..rows {
        let (to, from) = (at(p, 0, row), at(p, 1, row));
        // SAFETY: the walk stays inside both operands, whose types are these.
        unsafe {
            if dense && streams {
                convert.stream(from, to, n);
            } else {
                convert.run(from, p.inner[1], to, p.inner[0], n);
            }
        }
    }
}
