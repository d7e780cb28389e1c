//! The extremes of short rows and their indices, many rows at a time: of rows across dense columns, which are read where they are, and of
//! rows side by side in blocks, which are transposed.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::outer_arg::Outputs;
use super::source::Source;
use super::strips::{SHORT, STRIP};
use crate::loops::strided::copy_strided;
use crate::loops::transposed::transpose;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Dim, GRAIN, Reduction, offsets};
use crate::vectorized::{CodegenAnchor, Convert, Isa, Kernel, dispatch, load_one};
use std::mem::MaybeUninit;

/// The smallest number of dense columns.
const MIN_COLUMNS: i64 = STRIP as i64 / 2;
/// Blocks that are transposed at a time, or a multiple of so many: as many as are transposed in registers.
const BLOCKS: usize = 8;

/// A reduction of short rows.
pub(super) struct ShortArg<'r> {
    reduction: &'r Reduction,
    source: Source,
    rows: Dim,
    blocks: Option<Blocks>,
}

/// Blocks of the elements of several rows.
#[derive(Clone, Copy)]
struct Blocks {
    /// Rows of a block.
    columns: usize,
    /// Blocks of a strip.
    at_once: usize,
    /// Bytes from one element to the next.
    distance: i64,
}

impl Blocks {
    /// Those of rows that begin `first.input` bytes from each other.
    fn of(first: &Dim, rows: &Dim) -> Option<Self> {
        let is_block = first.input > 0 && rows.input == first.size * first.input;
        if !is_block || first.size as usize > STRIP / BLOCKS {
            return None;
        }
        let columns = first.size as usize;
        Some(Blocks { columns, at_once: STRIP / columns / BLOCKS * BLOCKS, distance: first.input })
    }
}

impl<'r> ShortArg<'r> {
    /// Rows that are read as described; `None` for others.
    pub(super) fn of(reduction: &'r Reduction, source: Source) -> Option<Self> {
        let ([rows], [first, others @ ..]) = (&reduction.reduced[..], &reduction.kept[..]) else {
            return None;
        };
        let size = source.size() as i64;
        let is_short = (1..=SHORT as i64).contains(&rows.size);
        if !is_short || !source.is_move() || reduction.outputs() == 0 {
            return None;
        }
        let blocks = match others.first() {
            _ if first.input == size && first.size >= MIN_COLUMNS => None,
            Some(others) if others.size >= BLOCKS as i64 => Some(Blocks::of(first, rows)?),
            _ => return None,
        };
        Some(ShortArg { reduction, source, rows: *rows, blocks })
    }

    /// Finds the extremes of elements of `T`.
    pub(super) fn find<T: Convert + PartialOrd + Default>(&self, outputs: Outputs, largest: bool) {
        let n = self.rows.size as usize;
        let strip = Strip::<T> {
            elements: std::ptr::null(),
            step: self.rows.input as isize,
            n,
            count: 0,
            largest,
            values: std::ptr::null_mut(),
            indices: std::ptr::null_mut(),
            runs: 1,
            run: 0,
            run_step: 0,
            run_results: 0,
            result_step: 0,
        };
        match self.blocks {
            None => self.find_columns(strip, outputs),
            Some(blocks) => self.find_blocks(strip, blocks, outputs),
        }
    }

    /// The extremes of dense columns.
    fn find_columns<T: Convert + PartialOrd + Default>(&self, strip: Strip<T>, outputs: Outputs) {
        self.each_piece(strip, &self.reduction.kept, STRIP, |strip, input, output, count| {
            let result_step = self.reduction.kept[0].output as isize / outputs.size as isize;
            let elements = self.source.at(input).cast();
            let strip = Strip { elements, count, run: count, result_step, ..strip };
            // SAFETY: the columns are in the input, and their results are this task's to write.
            unsafe { dispatch(strip.into_results(outputs, output)) }
        });
    }

    /// The extremes of rows in blocks.
    fn find_blocks<T: Convert + PartialOrd + Default>(
        &self,
        strip: Strip<T>,
        blocks: Blocks,
        outputs: Outputs,
    ) {
        let (first, dims, size) = (self.reduction.kept[0], &self.reduction.kept[1..], self.source.size());
        let columns = blocks.columns;
        self.each_piece(strip, dims, blocks.at_once, |strip, input, output, count| {
            let mut tile = [const { MaybeUninit::<u64>::uninit() }; SHORT * STRIP];
            let to: *mut u8 = tile.as_mut_ptr().cast();
            // SAFETY: these blocks are in the input, and the tile takes as many.
            unsafe {
                self.transpose(input, dims[0].input as isize, [count, strip.n * columns], blocks.distance, to)
            };
            let strip = Strip {
                elements: to.cast_const().cast(),
                step: (columns * count * size) as isize,
                count: columns * count,
                runs: columns,
                run: count,
                run_step: count,
                run_results: first.output as isize / outputs.size as isize,
                result_step: dims[0].output as isize / outputs.size as isize,
                ..strip
            };
            // SAFETY: the tile has these rows, and their results are this task's to write.
            unsafe { dispatch(strip.into_results(outputs, output)) }
        });
    }

    /// Copies element `i` of block `j` to number `i * count + j` of a tile.
    ///
    /// # Safety
    /// - There are `count` blocks of `len` elements, and the tile takes as many.
    unsafe fn transpose(
        &self,
        input: isize,
        block: isize,
        [count, len]: [usize; 2],
        distance: i64,
        to: *mut u8,
    ) {
        let (from, size) = (self.source.at(input), self.source.size());
        let pitch = count * size;
        // SAFETY: this function's condition.
        unsafe {
            // Elements of 8 bytes, of which fewer are in a register, are faster copied.
            if size == 4 && distance == size as i64 {
                return transpose(from, block, [count, len], size, to, pitch);
            }
            for j in 0..count {
                let from = from.wrapping_offset(j as isize * block);
                copy_strided(from, distance, to.add(j * size), pitch as i64, len, size);
            }
        }
    }

    /// Calls `each(strip, input, output, count)` with the offsets of pieces of up to `at_once` elements of the first one of `dims`.
    fn each_piece<T: Convert>(
        &self,
        strip: Strip<T>,
        dims: &[Dim],
        at_once: usize,
        each: impl Fn(Strip<T>, isize, isize, usize) + Sync,
    ) {
        let size = dims[0].size as usize;
        let pieces = size.div_ceil(at_once);
        let all = dims.iter().fold(1, |all, dim| all * dim.size as usize) / size * pieces;
        let grain = (GRAIN / (strip.n * STRIP)).max(1);
        parallel_for(0..all, grain, |range| {
            let strip = &strip;
            for piece in range {
                let first = piece % pieces * at_once;
                let (input, output) = offsets(dims, piece / pieces * size + first);
                each(*strip, input, output, at_once.min(size - first));
            }
        });
    }
}

/// Up to a strip of rows: element `i` of row `j` is `i * step` bytes and `j` elements from the first. Results are those of `runs` of `run`
/// rows, the first rows of which are `run_step` from each other.
#[derive(Clone, Copy)]
struct Strip<T> {
    elements: *const T,
    step: isize,
    n: usize,
    count: usize,
    largest: bool,
    /// Null where values are not requested.
    values: *mut T,
    indices: *mut i64,
    runs: usize,
    run: usize,
    run_step: usize,
    /// Results from one run to the next, and from one row to the next.
    run_results: isize,
    result_step: isize,
}

// SAFETY: every task has a copy, with the addresses of its own results.
unsafe impl<T> Sync for Strip<T> {}

impl<T> Strip<T> {
    /// With results at the byte offset `output`.
    fn into_results(self, outputs: Outputs, output: isize) -> Self {
        let element = output / outputs.size as isize;
        let values =
            outputs.values.map_or(self.values, |values| values.0.cast::<T>().wrapping_offset(element));
        Strip { values, indices: outputs.indices.0.cast::<i64>().wrapping_offset(element), ..self }
    }
}

impl<T> CodegenAnchor for Strip<T> {
    type Anchor = Self;
}

impl<I: Isa, T: Convert + PartialOrd + Default> Kernel<I> for Strip<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Strip { elements, step, n, .. } = self;
        let count = self.count.min(STRIP);
        // SAFETY: the strip's elements, and the addresses of its results.
        unsafe {
            // A constant number of rows makes whole vectors.
            let (values, indices) = match (self.largest, count) {
                (true, STRIP) => extremes::<T, true>(elements, step, n, STRIP),
                (true, _) => extremes::<T, true>(elements, step, n, count),
                (false, STRIP) => extremes::<T, false>(elements, step, n, STRIP),
                (false, _) => extremes::<T, false>(elements, step, n, count),
            };
            for run in 0..self.runs {
                let rows = run * self.run_step..run * self.run_step + self.run;
                let at = run as isize * self.run_results;
                if !self.values.is_null() {
                    let to = self.values.wrapping_offset(at);
                    write(&values[rows.clone()], to, self.result_step, |value| value);
                }
                let to = self.indices.wrapping_offset(at);
                write(&indices[rows], to, self.result_step, i64::from);
            }
        }
    }
}

/// Writes results, `step` elements apart.
///
/// # Safety
/// - They are the caller's to write.
#[inline(always)]
unsafe fn write<F: Copy, T>(from: &[F], to: *mut T, step: isize, convert: impl Fn(F) -> T) {
    // SAFETY: this function's condition.
    unsafe {
        if step == 1 {
            for (i, x) in from.iter().enumerate() {
                to.add(i).write_unaligned(convert(*x));
            }
            return;
        }
        for (i, x) in from.iter().enumerate() {
            to.wrapping_offset(i as isize * step).write_unaligned(convert(*x));
        }
    }
}

/// The extreme of each of `count` rows, at most a strip, and its index: the first of equals or of NaNs. Element `i` of row `j` is
/// `i * step` bytes and `j` elements from the first.
///
/// # Safety
/// - There are `n` elements of each row, one or more.
#[inline(always)]
pub(super) unsafe fn extremes<T: Convert + PartialOrd + Default, const LARGEST: bool>(
    elements: *const T,
    step: isize,
    n: usize,
    count: usize,
) -> ([T; STRIP], [u32; STRIP]) {
    let (mut best, mut indices) = ([T::default(); STRIP], [0; STRIP]);
    for (row, best) in best[..count].iter_mut().enumerate() {
        // SAFETY: the first element of a row.
        *best = unsafe { load_one(elements.add(row)) };
    }
    for i in 1..n {
        let elements = elements.wrapping_byte_offset(i as isize * step);
        for row in 0..count {
            // SAFETY: an element of a row.
            let x = unsafe { load_one(elements.add(row)) };
            let wins = if LARGEST { x > best[row] } else { x < best[row] };
            #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
            let better = (wins | (x != x)) & (best[row] == best[row]);
            best[row] = if better { x } else { best[row] };
            indices[row] = if better { i as u32 } else { indices[row] };
        }
    }
    (best, indices)
}
