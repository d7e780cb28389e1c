//! Rows across memory: where the neighbours of an element belong to other rows, strips of these are computed column by column, without
//! a copy of each row. Short rows are gathered in such strips, since a loop over each takes longer to start than to run.
#![expect(unsafe_code, reason = "transposes rows of operands whose guards are taken here")]

use super::map_rows::{RowOperand, Strip};
use crate::Tensor;
use crate::loops::reduce::strips::{SHORT, STRIP};
use crate::loops::row_offsets::RowOffsets;
use crate::loops::transposed::transpose;
use crate::parallel::parallel_for;
use crate::scratch::{self, Scratch};
use crate::snapshot::ensure_unchanged;
use crate::tensor_iterator::{DimMask, grain_of};
use flambeau_core::{Access, Result, StorageGuards};
use smallvec::SmallVec;

/// With fewer adjacent rows than this, short rows are gathered in tiles.
const MIN_ROWS: usize = 8;
/// The most elements of a block that is transposed.
const MAX_BLOCK: usize = 128;
/// With fewer adjacent rows than this, long rows are read one by one.
const MIN_LONG_ROWS: usize = 4;

/// Calls `body(row, inputs, output, n, rows)` for strips of up to 64 rows of `n` elements from `row` on, if the elements of all operands are adjacent across
/// the rows of the dimensions `mask`, or rows are short, and of one type. Otherwise does nothing and returns `false`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn map_columns<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    body: impl Fn(usize, [Strip; N], Strip, usize, usize) + Sync,
) -> Result<bool> {
    map_strips(inputs, out, mask, false, body)
}

/// [`map_columns`] for a body that may have any rows in a strip: `body(inputs, output, n, rows)`. Small dense blocks of few adjacent rows
/// are transposed, many at a time, and the rows that have the same position in each of them are a strip.
///
/// # Errors
/// As [`map_columns`].
pub(super) fn map_any_columns<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    body: impl Fn([Strip; N], Strip, usize, usize) + Sync,
) -> Result<bool> {
    map_strips(inputs, out, mask, true, |_, from, to, n, rows| body(from, to, n, rows))
}

fn map_strips<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    in_any_order: bool,
    body: impl Fn(usize, [Strip; N], Strip, usize, usize) + Sync,
) -> Result<bool> {
    let dtype = out.dtype();
    if out.numel() == 0 || inputs.iter().any(|input| input.dtype() != dtype) {
        return Ok(false);
    }
    let mut accesses: SmallVec<[_; 4]> = SmallVec::new();
    accesses.push((out.storage(), Access::Write));
    accesses.extend(inputs.iter().map(|input| (input.storage(), Access::Read)));
    let guards = StorageGuards::acquire(&accesses)?;
    ensure_unchanged(&inputs).and_then(|()| ensure_unchanged(&[out]))?;
    let mut operands: SmallVec<[RowOperand; 4]> = SmallVec::new();
    for operand in inputs.iter().chain([&out]) {
        operands.push(RowOperand::new(guards.guarded(), operand, mask, dtype, dtype)?);
    }
    let n = mask.count(out.sizes()) as usize;
    let across = operands.iter().map(RowOperand::adjacent_rows).min().unwrap_or(0);
    let (adjacent, gathers) = match across {
        MIN_ROWS.. => (across, false),
        _ if n <= SHORT => (out.numel() as usize / n, true),
        _ => (across, false),
    };
    if adjacent < if gathers { MIN_ROWS } else { MIN_LONG_ROWS } {
        return Ok(false);
    }
    let in_blocks =
        |operand: &RowOperand| operand.adjacent_rows() == across && operand.has_dense_blocks(MAX_BLOCK);
    if gathers && in_any_order && operands.iter().all(in_blocks) {
        let count = out.numel() as usize / (n * across);
        let blocks = Blocks { operands: &operands, n, across, count, size: dtype.size() };
        return scratch::catch(|| {
            blocks.for_each(|inputs, to, rows| body(0, inputs, to, n, rows));
            Ok(true)
        });
    }
    let strips = adjacent.div_ceil(STRIP);
    let all = out.numel() as usize / n / adjacent * strips;
    let grain = (grain_of(out.numel() as usize, 4) / (n * STRIP)).max(1);
    scratch::catch(|| {
        parallel_for(0..all, grain, |range| {
            let mut tiles = Tiles::new(&operands[..if gathers { N + 1 } else { 0 }], n, dtype.size());
            for strip in range {
                let first = strip % strips * STRIP;
                let (row, rows) = (strip / strips * adjacent + first, STRIP.min(adjacent - first));
                if !gathers {
                    let of = |k: usize| operands[k].strip(row);
                    body(row, std::array::from_fn(of), of(N), n, rows);
                    continue;
                }
                // SAFETY: the rows are in the operands, and nobody else writes those of the result.
                let inputs = std::array::from_fn(|k| unsafe { tiles.gather(k, &operands[k], row, rows) });
                body(row, inputs, tiles.strip(N), n, rows);
                // SAFETY: the same; `body` has written the tile.
                unsafe { tiles.scatter(N, &operands[N], row, rows) };
            }
        });
        Ok(true)
    })
}

/// Operands that consist of small dense blocks of adjacent rows.
struct Blocks<'a> {
    operands: &'a [RowOperand],
    /// Elements of a row.
    n: usize,
    /// Rows of a block.
    across: usize,
    count: usize,
    /// Bytes of an element.
    size: usize,
}

impl Blocks<'_> {
    /// Calls `body(inputs, output, rows)` for the rows at each position of up to 64 blocks, which are transposed.
    fn for_each<const N: usize>(&self, body: impl Fn([Strip; N], Strip, usize) + Sync) {
        let (elements, step) = (self.n * self.across, STRIP * self.size);
        let grain = (grain_of(self.count * elements, 4) / (elements * STRIP)).max(1);
        parallel_for(0..self.count.div_ceil(STRIP), grain, |range| {
            let mut memory = Scratch::new::<u8>((N + 1) * elements * step);
            let tiles = memory.as_mut_ptr::<u8>();
            let tile = |k: usize| tiles.wrapping_add(k * elements * step);
            for first in range.map(|strip| strip * STRIP) {
                let (bytes, blocks) = (elements * self.size, STRIP.min(self.count - first));
                let block = |k: usize| self.operands[k].base().wrapping_add(first * bytes);
                for k in 0..N {
                    // SAFETY: the operand has these blocks, and a tile takes as many.
                    unsafe {
                        transpose(block(k), bytes as isize, [blocks, elements], self.size, tile(k), step);
                    }
                }
                for position in 0..self.across {
                    let strip = |k: usize| Strip {
                        at: tile(k).wrapping_add(position * step),
                        step: (self.across * step) as isize,
                    };
                    body(std::array::from_fn(strip), strip(N), blocks);
                }
                // SAFETY: the same; `body` has written the tile, and nobody else writes these blocks.
                unsafe {
                    transpose(tile(N), step as isize, [elements, blocks], self.size, block(N), bytes);
                }
            }
        });
    }
}

/// A strip of short rows of each operand, transposed.
struct Tiles {
    memory: Scratch,
    n: usize,
    size: usize,
    /// The byte offset of each element of a row, for each operand.
    elements: SmallVec<[[isize; SHORT]; 4]>,
}

impl Tiles {
    fn new(operands: &[RowOperand], n: usize, size: usize) -> Self {
        let memory = Scratch::new::<u8>(operands.len() * n * STRIP * size);
        Tiles { memory, n, size, elements: operands.iter().map(RowOperand::element_offsets).collect() }
    }

    /// The tile of operand `k`.
    fn strip(&mut self, k: usize) -> Strip {
        let step = STRIP * self.size;
        let at = self.memory.as_mut_ptr::<u8>().wrapping_add(k * self.n * step);
        Strip { at, step: step as isize }
    }

    /// Gathers `count` rows from `row` on in the tile of operand `k`.
    ///
    /// # Safety
    /// - The operand has these rows, of `n` elements.
    unsafe fn gather(&mut self, k: usize, operand: &RowOperand, row: usize, count: usize) -> Strip {
        let (strip, rows) = (self.strip(k), operand.row_offsets::<STRIP>(row, count));
        // SAFETY: by this function's condition; the tile takes a strip.
        unsafe { self.offsets(k, &rows[..count]).gather(operand.base(), strip.at) };
        strip
    }

    /// Writes the tile of operand `k` to `count` rows from `row` on.
    ///
    /// # Safety
    /// - As [`gather`](Self::gather), and the rows are writable.
    unsafe fn scatter(&mut self, k: usize, operand: &RowOperand, row: usize, count: usize) {
        let (strip, rows) = (self.strip(k), operand.row_offsets::<STRIP>(row, count));
        // SAFETY: by this function's condition.
        unsafe { self.offsets(k, &rows[..count]).scatter(strip.at, operand.base()) };
    }

    fn offsets<'a>(&'a self, k: usize, rows: &'a [isize]) -> RowOffsets<'a> {
        RowOffsets { rows, elements: &self.elements[k][..self.n], size: self.size }
    }
}
