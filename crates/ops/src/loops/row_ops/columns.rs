//! Rows across memory: where the neighbours of an element belong to other rows, strips of these are computed column by column, without
//! a copy of each row. Short rows are gathered in such strips, since a loop over each takes longer to start than to run.
#![expect(unsafe_code, reason = "transposes rows of operands whose guards are taken here")]

use super::map_rows::{RowOperand, Strip};
use crate::Tensor;
use crate::loops::strided::copy_strided;
use crate::loops::transposed::transpose;
use crate::parallel::parallel_for;
use crate::scratch::{self, Scratch};
use crate::snapshot::ensure_unchanged;
use crate::tensor_iterator::{DimMask, grain_of};
use flambeau_core::{Access, Result, StorageGuards};
use smallvec::SmallVec;

/// Rows of a strip: four cache lines of f32.
const STRIP: usize = 64;
/// With fewer adjacent rows than this, rows are gathered in tiles.
const MIN_ROWS: usize = 8;
/// The largest number of elements of short rows.
const SHORT: usize = 32;

/// Calls `body(inputs, output, n, rows)` for strips of up to 64 rows of `n` elements, if the elements of all operands are adjacent across
/// the rows of the dimensions `mask`, or rows are short, and of one type. Otherwise does nothing and returns `false`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn map_columns<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    body: impl Fn([Strip; N], Strip, usize, usize) + Sync,
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
    let adjacent = operands.iter().map(RowOperand::adjacent_rows).min().unwrap_or(0);
    let (adjacent, gathers) = match adjacent {
        MIN_ROWS.. => (adjacent, false),
        _ if n <= SHORT => (out.numel() as usize / n, true),
        _ => (0, false),
    };
    if adjacent < MIN_ROWS {
        return Ok(false);
    }
    let strips = adjacent.div_ceil(STRIP);
    let all = out.numel() as usize / n / adjacent * strips;
    let grain = (grain_of(out.numel() as usize, 4) / (n * STRIP)).max(1);
    scratch::catch(|| {
        parallel_for(0..all, grain, |range| {
            let mut tiles = Tiles::new(if gathers { N + 1 } else { 0 }, n, dtype.size());
            for strip in range {
                let first = strip % strips * STRIP;
                let (row, rows) = (strip / strips * adjacent + first, STRIP.min(adjacent - first));
                if !gathers {
                    let of = |k: usize| operands[k].strip(row);
                    body(std::array::from_fn(of), of(N), n, rows);
                    continue;
                }
                // SAFETY: the rows are in the operands, and nobody else writes those of the result.
                let inputs = std::array::from_fn(|k| unsafe { tiles.gather(k, &operands[k], row, rows) });
                body(inputs, tiles.strip(N), n, rows);
                // SAFETY: the same; `body` has written the tile.
                unsafe { tiles.scatter(N, &operands[N], row, rows) };
            }
        });
        Ok(true)
    })
}

/// A strip of short rows of each operand, transposed.
struct Tiles {
    memory: Scratch,
    n: usize,
    size: usize,
}

impl Tiles {
    fn new(operands: usize, n: usize, size: usize) -> Self {
        Tiles { memory: Scratch::new::<u8>(operands * n * STRIP * size), n, size }
    }

    /// Bytes from one element of a row to the next.
    fn step(&self) -> usize {
        STRIP * self.size
    }

    /// The tile of operand `k`.
    fn strip(&mut self, k: usize) -> Strip {
        let at = self.memory.as_mut_ptr::<u8>().wrapping_add(k * self.n * self.step());
        Strip { at, step: self.step() as isize }
    }

    /// Gathers `rows` rows from `row` on in the tile of operand `k`.
    ///
    /// # Safety
    /// - The operand has these rows, of `n` elements.
    unsafe fn gather(&mut self, k: usize, operand: &RowOperand, row: usize, rows: usize) -> Strip {
        let (strip, step, size) = (self.strip(k), self.step(), self.size);
        operand.runs_of_rows(row, rows, |from, across, done, count| {
            let to = strip.at.wrapping_add(done * size);
            // SAFETY: by this function's condition; the tile takes a strip.
            unsafe {
                match operand.element_stride() {
                    Some(stride) if stride == size as i64 && count > 1 => {
                        transpose(from, across as isize, [count, self.n], size, to, step);
                    }
                    _ => operand.each_element(|i, offset| {
                        let (from, to) = (from.wrapping_offset(offset), to.wrapping_add(i * step));
                        copy_strided(from, across, to, size as i64, count, size);
                    }),
                }
            }
        });
        strip
    }

    /// Writes the tile of operand `k` to `rows` rows from `row` on.
    ///
    /// # Safety
    /// - As [`gather`](Self::gather), and the rows are writable.
    unsafe fn scatter(&mut self, k: usize, operand: &RowOperand, row: usize, rows: usize) {
        let (strip, step, size) = (self.strip(k), self.step(), self.size);
        operand.runs_of_rows(row, rows, |to, across, done, count| {
            let from = strip.at.wrapping_add(done * size);
            // SAFETY: by this function's condition.
            unsafe {
                match operand.element_stride() {
                    Some(stride) if stride == size as i64 && count > 1 => {
                        transpose(from, step as isize, [self.n, count], size, to, across as usize);
                    }
                    _ => operand.each_element(|i, offset| {
                        let (from, to) = (from.wrapping_add(i * step), to.wrapping_offset(offset));
                        copy_strided(from, size as i64, to, across, count, size);
                    }),
                }
            }
        });
    }
}
