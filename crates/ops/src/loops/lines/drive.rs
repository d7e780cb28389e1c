//! Calls a body for every line of tensors, on several threads: lines that are not dense, or of another type, pass through tiles.
#![expect(unsafe_code, reason = "element access behind the guards taken here")]

use crate::loops::reduce::Steps;
use crate::loops::streaming;
use crate::loops::tiles::StridedConvert;
use crate::parallel::parallel_for;
use crate::snapshot::ensure_unchanged;
use crate::tensor_iterator::{Dim, DimMask, Dims, grain_of, offsets};
use crate::{Tensor, scratch};
use flambeau_core::{Access, Guarded, Result, ScalarType, StorageGuards};
use smallvec::SmallVec;

/// Elements of the lines that are gathered together: what a second-level cache holds of a few operands.
const TOGETHER: usize = 32 * 1024;
/// Lines gathered together at most: a cache line of f32.
const WIDTH: usize = 16;

/// An operand: how its lines begin and run.
struct Port {
    base: *mut u8,
    line: Dims,
    kept: Dims,
    /// From memory to kernel, for the output the other way.
    convert: StridedConvert,
    direct: bool,
}

// SAFETY: it is an address that the guards of the calling thread protect; each line is written by one thread.
unsafe impl Sync for Port {}

impl Port {
    fn new(
        guarded: Guarded<'_>,
        tensor: &Tensor,
        mask: DimMask,
        from: ScalarType,
        to: ScalarType,
    ) -> Result<Self> {
        let (line, kept) = (walk(tensor, mask, true), walk(tensor, mask, false));
        let dense = is_dense(&line, tensor.dtype());
        let convert = StridedConvert::new(from, to)?;
        let base = guarded.ptr(tensor.strided_view());
        Ok(Port { base, line, kept, convert, direct: dense && from == to })
    }

    fn start(&self, line: usize) -> *mut u8 {
        self.base.wrapping_offset(offsets(&self.kept, line).0)
    }

    /// Whether neighbouring lines are nearer in memory than the elements of one.
    fn is_across(&self) -> bool {
        matches!((self.kept.first(), self.line.first()), (Some(kept), Some(line)) if kept.input < line.input)
    }

    /// Calls `run(address, tile offset, stride, tile stride, n)` for every run of `width` lines from `first` on.
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
            let mut steps = Steps::new(&self.line, 0);
            for i in 0..tile.n {
                run(start.wrapping_offset(steps.input), i * size, across, (tile.pitch * size) as i64, width);
                steps.advance(1);
            }
            return;
        }
        let stride = self.line.first().map_or(size as i64, |dim| dim.input);
        let (mut steps, mut done) = (Steps::new(&self.line, 0), 0);
        while done < tile.n {
            let n = steps.left_in_row().min(tile.n - done);
            run(start.wrapping_offset(steps.input), done * size, stride, size as i64, n);
            steps.advance(n);
            done += n;
        }
    }
}

/// Lines of `n` elements of `size` bytes, `pitch` elements apart.
#[derive(Clone, Copy)]
struct Tile {
    n: usize,
    size: usize,
    pitch: usize,
}

/// Whether the elements of a line of these dimensions lie side by side.
fn is_dense(line: &Dims, dtype: ScalarType) -> bool {
    match line.as_slice() {
        [] => true,
        [dim] => dim.input == dtype.size() as i64,
        _ => false,
    }
}

/// The dimensions of a tensor that belong to a line, or the others, in their order, innermost first, neighbours joined.
fn walk(tensor: &Tensor, mask: DimMask, in_line: bool) -> Dims {
    let (size, mut dims) = (tensor.dtype().size() as i64, Dims::new());
    for d in (0..tensor.dim()).rev().filter(|&d| mask.has(d) == in_line && tensor.sizes()[d] != 1) {
        let dim = Dim { size: tensor.sizes()[d], input: tensor.strides()[d] * size, output: 0 };
        match dims.last_mut() {
            Some(last) if last.input * last.size == dim.input => last.size *= dim.size,
            _ => dims.push(dim),
        }
    }
    dims
}

/// Calls `body(line, inputs, output, n)` for every line of the dimensions `mask`, counted in row-major order of the others.
/// Inputs and output have the same sizes and are met as elements of `kernel`.
///
/// # Errors
/// `NotImplemented` for a type without storage, `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn map_lines<const N: usize>(
    inputs: [&Tensor; N],
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    body: impl Fn(usize, [*const u8; N], *mut u8, usize) + Sync,
) -> Result<()> {
    let mut ports: SmallVec<[Port; 4]> = SmallVec::new();
    let mut wanted: SmallVec<[_; 4]> = SmallVec::new();
    wanted.push((out.storage(), Access::Write));
    wanted.extend(inputs.iter().map(|input| (input.storage(), Access::Read)));
    let guards = StorageGuards::acquire(&wanted)?;
    ensure_unchanged(&inputs).and_then(|()| ensure_unchanged(&[out]))?;
    for input in inputs {
        ports.push(Port::new(guards.guarded(), input, mask, input.dtype(), kernel)?);
    }
    ports.push(Port::new(guards.guarded(), out, mask, kernel, out.dtype())?);
    if out.numel() == 0 {
        return Ok(());
    }
    let n = mask.count(out.sizes()) as usize;
    let lines = out.numel() as usize / n;
    let row =
        ports.iter().map(|port| port.kept.first().map_or(1, |dim| dim.size as usize)).min().unwrap_or(1);
    let across = ports.iter().any(Port::is_across);
    let width = if across { (TOGETHER / n).clamp(1, WIDTH) } else { 1 };
    let tile = Tile { n, size: kernel.size(), pitch: n + 16 };
    let work = Groups { ports, width, row, tile };
    let groups = lines / row * row.div_ceil(width);
    // A line takes several times as long as its elements do elsewhere, so fewer are worth another thread.
    let grain = (grain_of(out.numel() as usize, 4) / (n * width)).max(1);
    scratch::catch(|| {
        parallel_for(0..groups, grain, |range| work.run(range, &body));
        Ok(())
    })
}

/// The whole of a call.
struct Groups {
    ports: SmallVec<[Port; 4]>,
    width: usize,
    row: usize,
    tile: Tile,
}

impl Groups {
    fn run<const N: usize>(
        &self,
        groups: std::ops::Range<usize>,
        body: &impl Fn(usize, [*const u8; N], *mut u8, usize),
    ) {
        let Tile { n, size, pitch } = self.tile;
        let indirect = self.ports.iter().any(|port| !port.direct);
        let mut memory = scratch::filled(0u64, if indirect { (N + 1) * self.width * pitch } else { 0 });
        let tiles: *mut u8 = memory.as_mut_ptr().cast();
        let tile_of = |k: usize| tiles.wrapping_add(k * self.width * pitch * 8);
        let in_row = self.row.div_ceil(self.width);
        for group in groups {
            let column = group % in_row * self.width;
            let (first, width) = (group / in_row * self.row + column, self.width.min(self.row - column));
            for (k, port) in self.ports[..N].iter().enumerate().filter(|(_, port)| !port.direct) {
                port.runs(self.tile, first, width, |from, at, stride, to_stride, count| {
                    // SAFETY: the operand has these elements, and its tile takes `width` lines.
                    unsafe { port.convert.run(from, stride, tile_of(k).add(at), to_stride, count) }
                });
            }
            for w in 0..width {
                let at = |k: usize| {
                    let port = &self.ports[k];
                    if port.direct {
                        port.start(first + w)
                    } else {
                        tile_of(k).wrapping_add(w * pitch * size)
                    }
                };
                body(first + w, std::array::from_fn(|k| at(k).cast_const()), at(N), n);
            }
            let out = &self.ports[N];
            if !out.direct {
                out.runs(self.tile, first, width, |to, at, stride, from_stride, count| {
                    // SAFETY: as above, the other way.
                    unsafe { out.convert.run(tile_of(N).add(at), from_stride, to, stride, count) }
                });
            }
        }
        // For lines that went past the caches.
        streaming::fence(true);
    }
}

/// Whether lines of `out`, computed from so many others, are written past the caches: they are where the kernel writes them, and
/// many.
pub(super) fn streams_to(out: &Tensor, mask: DimMask, kernel: ScalarType, arguments: usize) -> bool {
    let is_direct = out.dtype() == kernel && is_dense(&walk(out, mask, true), kernel);
    is_direct && streaming::pays(out.numel() as usize * kernel.size(), || arguments)
}
