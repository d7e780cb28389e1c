//! Which rows are scanned at once, one in each lane: the dimensions of both operands in the order of memory, of which one is that of the
//! lanes, and the tasks of threads.
#![expect(unsafe_code, reason = "addresses of operands whose guards are taken here")]

use super::Scan;
use super::elements::ScanElement;
use super::lanes::{CHUNK, FEW, ScanLanes, Side, WIDTH, WIDTH_OF_GROUPS, Whole};
use crate::Tensor;
use crate::loops::reduce::strips::{SHORT, STRIP};
use crate::loops::reduce::{DimCounter, computing_type};
use crate::parallel::{num_threads, parallel_for};
use crate::snapshot::ensure_unchanged;
use crate::tensor_iterator::{Dim, DimMask, Dims, coalesce, grain_of};
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Access, Result, ScalarType, StorageGuards};
use half::{bf16, f16};
use std::ops::Range;

/// Scans `input` into `out` if both are of one type, which is computed in the kernel's, and there are rows for several lanes that are not
/// scanned faster one by one; else does nothing and returns `false`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn scan_in_lanes(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    scan: Scan,
) -> Result<bool> {
    let dtype = out.dtype();
    if computing_type(dtype) != kernel || input.dtype() != dtype || out.numel() == 0 {
        return Ok(false);
    }
    match dtype {
        ScalarType::I64 => scan_each::<i64>(input, out, mask, scan),
        ScalarType::F64 => scan_each::<f64>(input, out, mask, scan),
        ScalarType::F32 => scan_each::<f32>(input, out, mask, scan),
        ScalarType::F16 => scan_each::<f16>(input, out, mask, scan),
        ScalarType::BF16 => scan_each::<bf16>(input, out, mask, scan),
        _ => Ok(false),
    }
}

/// [`scan_in_lanes`] of elements of type `T`.
fn scan_each<T: ScanElement>(input: &Tensor, out: &Tensor, mask: DimMask, scan: Scan) -> Result<bool>
where
    for<'w> ScanLanes<'w, T, true>: EveryIsa,
    for<'w> ScanLanes<'w, T, false>: EveryIsa,
{
    let accesses = [(out.storage(), Access::Write), (input.storage(), Access::Read)];
    let guards = StorageGuards::acquire(&accesses)?;
    ensure_unchanged(&[input]).and_then(|()| ensure_unchanged(&[out]))?;
    let is_grouped = scan == Scan::Sum && T::HAS_GROUPS;
    let Some(layout) = Layout::of::<T>(input, out, mask) else { return Ok(false) };
    if !layout.suits_lanes::<T>(is_grouped) {
        return Ok(false);
    }
    let [from, to] = [input, out].map(|operand| guards.guarded().ptr(operand.strided_view()));
    let width = layout.rows_of_strip::<T>();
    let work = Work { from, to, width, strips: layout.count().div_ceil(width), layout };
    let grain = grain_of(out.numel() as usize, 4) / (work.layout.n() * width.min(work.layout.count()));
    parallel_for(0..work.strips * work.layout.blocks(), grain.max(1), |range| match scan {
        Scan::Sum => work.run::<T, true>(range),
        Scan::Product => work.run::<T, false>(range),
    });
    Ok(true)
}

/// The dimensions of both operands, strides in bytes.
struct Layout {
    /// The dimension that is scanned.
    row: Dim,
    /// The dimension whose rows are in lanes.
    lanes: Dim,
    /// The other dimensions, innermost in memory first.
    others: Dims,
}

impl Layout {
    /// `None` for a single row, or rows of several dimensions.
    fn of<T: ScanElement>(input: &Tensor, out: &Tensor, mask: DimMask) -> Option<Self> {
        let size = size_of::<T>() as i64;
        let dim_of = |d: usize| {
            let [from, to] = [input, out].map(|operand| operand.strides()[d].wrapping_mul(size));
            Dim { size: out.sizes()[d], input: from, output: to }
        };
        let (mut row, mut kept) = (None, Dims::new());
        for d in (0..out.dim()).filter(|&d| out.sizes()[d] != 1) {
            if !mask.has(d) {
                kept.push(dim_of(d));
            } else if row.replace(dim_of(d)).is_some() {
                return None;
            }
        }
        // Innermost in memory first, for results rather than arguments.
        kept.sort_by_key(|dim| (dim.output.unsigned_abs(), dim.input.unsigned_abs()));
        coalesce(&mut kept);
        // Results that are adjacent are written together even if they are few; those that are converted take as long as a whole vector.
        let fills_lanes = |dim: &Dim| match T::IS_CONVERTED {
            true => dim.size >= WIDTH_OF_GROUPS as i64,
            false => dim.size >= FEW as i64 || dim.output == size,
        };
        let largest = || (0..kept.len()).max_by_key(|&d| kept[d].size);
        let lanes = kept.iter().position(fills_lanes).or_else(largest)?;
        let lanes = kept.remove(lanes);
        Some(Layout { row: row.unwrap_or(Dim { size: 1, input: 0, output: 0 }), lanes, others: kept })
    }

    /// Whether rows in lanes are faster than one by one. Long dense rows are, if they are summed in groups, which are vectors of one row,
    /// or converted, which their neighbours are together.
    fn suits_lanes<T: ScanElement>(&self, is_grouped: bool) -> bool {
        let size = size_of::<T>() as i64;
        let is_long = self.row.input == size && self.row.output == size && self.n() > SHORT;
        let fills_lanes = self.lanes.size >= FEW as i64 || self.is_adjacent::<T>();
        !(is_long && (is_grouped || T::IS_CONVERTED)) && (fills_lanes || !is_grouped)
    }

    /// Whether the elements of neighbouring rows are adjacent in both operands.
    fn is_adjacent<T>(&self) -> bool {
        let size = size_of::<T>() as i64;
        self.lanes.input == size && self.lanes.output == size
    }

    /// Elements of a row.
    fn n(&self) -> usize {
        self.row.size as usize
    }

    /// Rows in the dimension of the lanes.
    fn count(&self) -> usize {
        self.lanes.size as usize
    }

    /// Blocks of so many rows.
    fn blocks(&self) -> usize {
        self.others.iter().fold(1, |n, dim| n * dim.size as usize)
    }

    /// Rows of a strip, of which there should be one for each thread. Long rows whose own elements are nearer than their neighbours are read
    /// from end to end, as many as have a lane.
    fn rows_of_strip<T>(&self) -> usize {
        let at_once = if self.is_adjacent::<T>() { WIDTH } else { FEW };
        let [along, across] =
            [&self.row, &self.lanes].map(|dim| [dim.input, dim.output].map(i64::unsigned_abs));
        if along[0] < across[0] && along[1] < across[1] && self.n() > CHUNK {
            return at_once;
        }
        let tasks = num_threads().div_ceil(self.blocks());
        self.count().div_ceil(tasks).next_multiple_of(at_once).min(STRIP)
    }
}

/// A call: strips of up to `width` rows, `strips` of them side by side in a block.
struct Work {
    from: *mut u8,
    to: *mut u8,
    width: usize,
    strips: usize,
    layout: Layout,
}

// SAFETY: the guards of the calling thread protect the addresses; each row is written by one thread.
unsafe impl Sync for Work {}

impl Work {
    /// Scans the strips of a range, those of a block one after another.
    fn run<T: ScanElement, const SUM: bool>(&self, range: Range<usize>)
    where
        for<'w> ScanLanes<'w, T, SUM>: EveryIsa,
    {
        let Work { width, strips, ref layout, .. } = *self;
        let (mut whole, mut strip) = (Whole::<T>::uninit(), range.start);
        while strip < range.end {
            let counter = DimCounter::new(&layout.others, strip / strips);
            let blocks = if strips > 1 { 1 } else { counter.left_in_row().min(range.end - strip) };
            let first = strip % strips * width;
            let next = layout.others.first().map_or([0, 0], |dim| [dim.input, dim.output]);
            let side = |base: *mut u8, offset: isize, step: i64, across: i64, block: i64| Side {
                at: base.wrapping_offset(offset + first as isize * across as isize),
                step: step as isize,
                across: across as isize,
                block: block as isize,
            };
            let kernel = ScanLanes::<'_, T, SUM> {
                from: side(self.from, counter.input, layout.row.input, layout.lanes.input, next[0]),
                to: side(self.to, counter.output, layout.row.output, layout.lanes.output, next[1]),
                n: layout.n(),
                rows: width.min(layout.count() - first),
                blocks,
                whole: &mut whole,
            };
            // SAFETY: these rows are in the operands, and nobody else writes those of the result.
            unsafe { dispatch(kernel) };
            strip += blocks;
        }
    }
}
