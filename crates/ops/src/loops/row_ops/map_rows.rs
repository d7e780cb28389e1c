//! Calls a body for every row of tensors, on several threads: rows that are not dense, or of another type, are copied to tiles.
#![expect(unsafe_code, reason = "element access behind the guards taken here")]

use crate::loops::neighbors::Neighbors;
use crate::loops::reduce::DimCounter;
use crate::loops::streaming;
use crate::loops::tiles::StridedConvert;
use crate::parallel::parallel_for;
use crate::snapshot::ensure_unchanged;
use crate::tensor_iterator::{Dim, DimMask, Dims, grain_of, offsets};
use crate::{Tensor, scratch};
use flambeau_core::{Access, Guarded, Result, ScalarType, StorageGuards};
use smallvec::SmallVec;

/// Elements of the rows that are gathered together: what L2 holds of a few operands.
const GROUP_ELEMENTS: usize = 32 * 1024;
/// The largest number of rows that are gathered together: the elements of a cache line of f32.
const MAX_WIDTH: usize = 16;

/// An operand: the addresses of its rows and of the elements of a row.
pub(super) struct RowOperand {
    base: *mut u8,
    /// The dimensions of a row.
    row: Dims,
    /// The other dimensions.
    kept: Dims,
    /// From memory to kernel, and for the output from kernel to memory.
    convert: StridedConvert,
    /// Bytes of an element in memory.
    size: usize,
    direct: bool,
}

/// The elements of some rows in an operand: adjacent across the rows, `step` bytes apart along them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) at: *mut u8,
    pub(super) step: isize,
}

// SAFETY: it is an address that the guards of the calling thread protect; each row is written by one thread.
unsafe impl Sync for RowOperand {}

impl RowOperand {
    pub(super) fn new(
        guarded: Guarded<'_>,
        tensor: &Tensor,
        mask: DimMask,
        from: ScalarType,
        to: ScalarType,
    ) -> Result<Self> {
        let (row, kept) = (dims_of(tensor, mask, true), dims_of(tensor, mask, false));
        let dense = is_dense(&row, tensor.dtype());
        let convert = StridedConvert::new(from, to)?;
        let base = guarded.ptr(tensor.strided_view());
        let size = tensor.dtype().size();
        Ok(RowOperand { base, row, kept, convert, size, direct: dense && from == to })
    }

    /// How many rows follow each other of which the elements of the same index are adjacent; 0 if rows have several dimensions.
    pub(super) fn adjacent_rows(&self) -> usize {
        match (self.kept.first(), self.row.len()) {
            (Some(dim), 0..=1) if dim.input == self.size as i64 => dim.size as usize,
            _ => 0,
        }
    }

    /// Whether the operand consists of dense blocks that follow one another, each of up to `most` elements: those of several adjacent rows,
    /// whose elements alternate.
    pub(super) fn has_dense_blocks(&self, most: usize) -> bool {
        let ([across, outer], [row]) = (self.kept.as_slice(), self.row.as_slice()) else { return false };
        let (size, block) = (self.size as i64, across.size * row.size);
        let is_dense = across.input == size && row.input == across.size * size;
        is_dense && outer.input == block * size && block <= most as i64
    }

    /// The byte offsets of `count` rows from `first` on.
    pub(super) fn row_offsets<const N: usize>(&self, first: usize, count: usize) -> [isize; N] {
        let across = self.kept.first().map_or(0, |dim| dim.input as isize);
        let (mut offsets, mut counter, mut done) = ([0; N], DimCounter::new(&self.kept, first), 0);
        while done < count {
            let n = counter.left_in_row().min(count - done);
            for (row, offset) in offsets[done..done + n].iter_mut().enumerate() {
                *offset = counter.input + row as isize * across;
            }
            counter.advance(n);
            done += n;
        }
        offsets
    }

    /// The byte offsets of the elements of a row, of which there are at most as many as the array takes.
    pub(super) fn element_offsets<const N: usize>(&self) -> [isize; N] {
        let (mut offsets, mut counter) = ([0; N], DimCounter::new(&self.row, 0));
        let count = self.row.iter().fold(1, |n, dim| n * dim.size as usize);
        for offset in offsets.iter_mut().take(count) {
            *offset = counter.input;
            counter.advance(1);
        }
        offsets
    }

    /// The address of the first element of the first row.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Rows from `row` on, of [`adjacent_rows`](Self::adjacent_rows).
    pub(super) fn strip(&self, row: usize) -> Strip {
        Strip { at: self.start(row), step: self.row.first().map_or(0, |dim| dim.input as isize) }
    }

    fn start(&self, row: usize) -> *mut u8 {
        self.base.wrapping_offset(offsets(&self.kept, row).0)
    }

    /// Copies `width` rows from `first` on to a tile.
    ///
    /// # Safety
    /// - The operand is an argument that has these rows, and the tile takes as many.
    unsafe fn gather(&self, tile: Tile, first: usize, width: usize, to: *mut u8) {
        if !self.has_dense_neighbors(width) {
            return self.runs(tile, first, width, |from, at, stride, to_stride, count| {
                // SAFETY: by this function's condition.
                unsafe { self.convert.run(from, stride, to.add(at), to_stride, count) }
            });
        }
        self.neighbors(tile, first, width, |from, at, neighbors| {
            // SAFETY: by this function's condition.
            unsafe { neighbors.gather(self.convert, from, to.add(at), tile.pitch * tile.size) }
        });
    }

    /// Copies `width` rows from `first` on from a tile.
    ///
    /// # Safety
    /// - The operand is the result, which has these rows, and so has the tile.
    unsafe fn scatter(&self, tile: Tile, first: usize, width: usize, from: *const u8) {
        if !self.has_dense_neighbors(width) {
            return self.runs(tile, first, width, |to, at, stride, from_stride, count| {
                // SAFETY: by this function's condition.
                unsafe { self.convert.run(from.add(at), from_stride, to, stride, count) }
            });
        }
        self.neighbors(tile, first, width, |to, at, neighbors| {
            // SAFETY: by this function's condition.
            unsafe { neighbors.scatter(self.convert, from.add(at), tile.pitch * tile.size, to) }
        });
    }

    /// Whether several rows are dense across, so that blocks of them are transposed.
    fn has_dense_neighbors(&self, width: usize) -> bool {
        width > 1 && self.kept.first().is_some_and(|dim| dim.input == self.size as i64)
    }

    /// Calls `each(address, tile offset, elements)` for every strided run of elements of `width` rows from `first` on.
    fn neighbors(
        &self,
        tile: Tile,
        first: usize,
        width: usize,
        mut each: impl FnMut(*mut u8, usize, Neighbors),
    ) {
        let (start, step) = (self.start(first), self.row.first().map_or(0, |dim| dim.input));
        let (mut counter, mut done) = (DimCounter::new(&self.row, 0), 0);
        while done < tile.n {
            let n = counter.left_in_row().min(tile.n - done);
            each(start.wrapping_offset(counter.input), done * tile.size, Neighbors { step, n, width });
            counter.advance(n);
            done += n;
        }
    }

    /// Whether neighbouring rows are nearer in memory than the elements of one row.
    fn is_across(&self) -> bool {
        matches!((self.kept.first(), self.row.first()), (Some(kept), Some(row)) if kept.input < row.input)
    }

    /// Calls `run(address, tile offset, stride, tile stride, n)` for every strided run of elements of `width` rows from `first` on.
    fn runs(
        &self,
        tile: Tile,
        first: usize,
        width: usize,
        mut run: impl FnMut(*mut u8, usize, i64, i64, usize),
    ) {
        let (size, start) = (tile.size, self.start(first));
        let across = self.kept.first().map_or(0, |dim| dim.input);
        if width > 1 {
            let mut counter = DimCounter::new(&self.row, 0);
            for i in 0..tile.n {
                run(
                    start.wrapping_offset(counter.input),
                    i * size,
                    across,
                    (tile.pitch * size) as i64,
                    width,
                );
                counter.advance(1);
            }
            return;
        }
        let stride = self.row.first().map_or(size as i64, |dim| dim.input);
        let (mut counter, mut done) = (DimCounter::new(&self.row, 0), 0);
        while done < tile.n {
            let n = counter.left_in_row().min(tile.n - done);
            run(start.wrapping_offset(counter.input), done * size, stride, size as i64, n);
            counter.advance(n);
            done += n;
        }
    }
}

/// Rows of `n` elements of `size` bytes, which begin `pitch` elements apart.
#[derive(Clone, Copy)]
struct Tile {
    n: usize,
    size: usize,
    pitch: usize,
}

/// Whether a row of these dimensions is dense.
fn is_dense(row: &Dims, dtype: ScalarType) -> bool {
    match row.as_slice() {
        [] => true,
        [dim] => dim.input == dtype.size() as i64,
        _ => false,
    }
}

/// The dimensions of a tensor that belong to a row, or the others, in their order, innermost first, coalesced.
fn dims_of(tensor: &Tensor, mask: DimMask, in_row: bool) -> Dims {
    let (size, mut dims) = (tensor.dtype().size() as i64, Dims::new());
    // The products overflow only for tensors without elements, which have no row to map.
    for d in (0..tensor.dim()).rev().filter(|&d| mask.has(d) == in_row && tensor.sizes()[d] != 1) {
        let dim = Dim { size: tensor.sizes()[d], input: tensor.strides()[d].wrapping_mul(size), output: 0 };
        match dims.last_mut() {
            Some(last) if last.input.wrapping_mul(last.size) == dim.input => {
                last.size = last.size.wrapping_mul(dim.size)
            }
            _ => dims.push(dim),
        }
    }
    dims
}

/// Calls `body(row, inputs, output, n)` for every row of the dimensions `mask`, counted in row-major order of the others.
/// Inputs and output have the same sizes, and are converted from and to type `kernel`.
///
/// # Errors
/// `NotImplemented` for a type without storage, `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn map_rows<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    body: impl Fn(usize, [*const u8; N], *mut u8, usize) + Sync,
) -> Result<()> {
    let mut operands: SmallVec<[RowOperand; 4]> = SmallVec::new();
    let mut accesses: SmallVec<[_; 4]> = SmallVec::new();
    accesses.push((out.storage(), Access::Write));
    accesses.extend(inputs.iter().map(|input| (input.storage(), Access::Read)));
    let guards = StorageGuards::acquire(&accesses)?;
    ensure_unchanged(&inputs).and_then(|()| ensure_unchanged(&[out]))?;
    for input in inputs {
        operands.push(RowOperand::new(guards.guarded(), input, mask, input.dtype(), kernel)?);
    }
    operands.push(RowOperand::new(guards.guarded(), out, mask, kernel, out.dtype())?);
    if out.numel() == 0 {
        return Ok(());
    }
    let n = mask.count(out.sizes()) as usize;
    let rows = out.numel() as usize / n;
    let inner = operands
        .iter()
        .map(|operand| operand.kept.first().map_or(1, |dim| dim.size as usize))
        .min()
        .unwrap_or(1);
    let across = operands.iter().any(RowOperand::is_across);
    let width = if across { (GROUP_ELEMENTS / n).clamp(1, MAX_WIDTH) } else { 1 };
    let tile = Tile { n, size: kernel.size(), pitch: n + 16 };
    let work = Groups { operands, width, inner, tile };
    let groups = rows / inner * inner.div_ceil(width);
    // An element takes several times as long as in elementwise operators, so fewer are worth another thread.
    let grain = (grain_of(out.numel() as usize, 4) / (n * width)).max(1);
    scratch::catch(|| {
        parallel_for(0..groups, grain, |range| work.run(range, &body));
        Ok(())
    })
}

/// A call: rows in groups of up to `width`, none of which reaches past the innermost kept dimension, of size `inner`.
struct Groups {
    /// Inputs, then the output.
    operands: SmallVec<[RowOperand; 4]>,
    width: usize,
    inner: usize,
    tile: Tile,
}

impl Groups {
    fn run<const N: usize>(
        &self,
        groups: std::ops::Range<usize>,
        body: &impl Fn(usize, [*const u8; N], *mut u8, usize),
    ) {
        let Tile { n, size, pitch } = self.tile;
        let indirect = self.operands.iter().any(|operand| !operand.direct);
        let mut memory = scratch::filled(0u64, if indirect { (N + 1) * self.width * pitch } else { 0 });
        let tiles: *mut u8 = memory.as_mut_ptr().cast();
        let tile_of = |k: usize| tiles.wrapping_add(k * self.width * pitch * 8);
        let groups_of_inner = self.inner.div_ceil(self.width);
        for group in groups {
            let index = group % groups_of_inner * self.width;
            let (first, width) =
                (group / groups_of_inner * self.inner + index, self.width.min(self.inner - index));
            for (k, operand) in self.operands[..N].iter().enumerate().filter(|(_, operand)| !operand.direct) {
                // SAFETY: the operand has these rows, and its tile takes `width` rows.
                unsafe { operand.gather(self.tile, first, width, tile_of(k)) }
            }
            for w in 0..width {
                let at = |k: usize| {
                    let operand = &self.operands[k];
                    if operand.direct {
                        operand.start(first + w)
                    } else {
                        tile_of(k).wrapping_add(w * pitch * size)
                    }
                };
                body(first + w, std::array::from_fn(|k| at(k).cast_const()), at(N), n);
            }
            let out = &self.operands[N];
            if !out.direct {
                // SAFETY: as above, from the tile to the operand.
                unsafe { out.scatter(self.tile, first, width, tile_of(N)) }
            }
        }
        // The body may have used non-temporal stores.
        streaming::fence(true);
    }
}

/// Whether rows of `out`, computed from so many arguments, are better written by non-temporal stores: `out` is large, and the kernel
/// writes to it directly.
pub(super) fn should_stream_to(out: &Tensor, mask: DimMask, kernel: ScalarType, arguments: usize) -> bool {
    let is_direct = out.dtype() == kernel && is_dense(&dims_of(out, mask, true), kernel);
    is_direct && streaming::should_stream(out.numel() as usize * kernel.size(), || arguments)
}
