//! Scans along a dimension that is not the last of dense tensors: neighbouring columns in lanes, from row to row.
#![expect(unsafe_code, reason = "element access behind the guards taken here")]

use super::{GROUP, Scan, ScanElement};
use crate::parallel::parallel_for;
use crate::structured::with_scratch;
use crate::tensor_iterator::{DimMask, GRAIN};
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ScalarType, StridedView, shape};

/// Columns of a task: their running values stay in L1.
const STRIP: usize = 256;
/// Columns in the lanes of one step.
const WIDTH: usize = 16;

/// Scans `input` into `out` if both are dense, of the kernel's type, and one dimension that is not the last is scanned; else does nothing
/// and returns `false`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn scan_columns(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    scan: Scan,
) -> Result<bool> {
    let (from, to) = (input.strided_view(), out.strided_view());
    let is_dense = |t: StridedView<'_>| t.dtype() == kernel && t.is_contiguous() && t.device().is_cpu();
    let mut masked = (0..from.sizes().len()).filter(|d| mask.has(*d));
    let (Some(dim), None) = (masked.next(), masked.next()) else { return Ok(false) };
    let width = shape::product(&from.sizes()[dim + 1..]) as usize;
    let rows = from.sizes()[dim] as usize;
    if !is_dense(from) || !is_dense(to) || from.sizes() != to.sizes() || width < WIDTH || rows == 0 {
        return Ok(false);
    }
    let blocks = from.numel() as usize / (rows * width);
    with_scratch("scan", &[input], &[out], |guarded| {
        let addresses = Addresses { from: guarded.ptr(from).cast_const(), to: guarded.ptr(to) };
        let block = Block { rows, width, blocks };
        if (kernel, scan) == (ScalarType::F32, Scan::Sum) {
            block.each(addresses, |columns| {
                // SAFETY: the columns are inside dense tensors of f32, whose guards are held.
                unsafe { dispatch(SumColumns(columns)) }
            });
            return Ok(());
        }
        dispatch_all_types!(accumulators, kernel, "scan", T => {
            block.each(addresses, |columns| {
                // SAFETY: the same, of the kernel's type.
                unsafe { dispatch(ScanColumns::<T> { columns, scan }) }
            });
            Ok(())
        })
    })?;
    Ok(true)
}

/// The first elements of two dense tensors.
#[derive(Clone, Copy)]
struct Addresses<T> {
    from: *const T,
    to: *mut T,
}

// SAFETY: the guards of the calling thread protect them, and every task writes its own columns.
unsafe impl<T> Sync for Addresses<T> {}

/// Blocks of `rows` rows, of `width` elements each.
#[derive(Clone, Copy)]
struct Block {
    rows: usize,
    width: usize,
    blocks: usize,
}

/// Some neighbouring columns of a block, `width` elements from one row to the next.
#[derive(Clone, Copy)]
struct Columns<T> {
    at: Addresses<T>,
    rows: usize,
    width: usize,
    count: usize,
}

impl Block {
    /// Calls `scan` for strips of columns, on several threads.
    fn each<T: Copy>(&self, bytes: Addresses<u8>, scan: impl Fn(Columns<T>) + Sync) {
        let strips = self.width.div_ceil(STRIP);
        let grain = (GRAIN / (self.rows * STRIP.min(self.width))).max(1);
        let (all, Block { rows, width, blocks }) = (&bytes, *self);
        parallel_for(0..blocks * strips, grain, |range| {
            for task in range {
                let first = task % strips * STRIP;
                let start = task / strips * rows * width + first;
                let at = Addresses {
                    from: all.from.cast::<T>().wrapping_add(start),
                    to: all.to.cast::<T>().wrapping_add(start),
                };
                scan(Columns { at, rows, width, count: STRIP.min(width - first) });
            }
        });
    }
}

/// Columns scanned element by element.
struct ScanColumns<T> {
    columns: Columns<T>,
    scan: Scan,
}

impl<T> CodegenAnchor for ScanColumns<T> {
    type Anchor = Self;
}

impl<I: Isa, T: ScanElement> Kernel<I, ()> for ScanColumns<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let ScanColumns { columns, scan } = self;
        let whole = columns.count / WIDTH * WIDTH;
        let start = T::start(scan);
        // SAFETY: these columns are those of the task.
        unsafe {
            for first in (0..whole).step_by(WIDTH) {
                scan_from(columns, first, 0, [start; WIDTH], scan);
            }
            for column in whole..columns.count {
                scan_from(columns, column, 0, [start], scan);
            }
        }
    }
}

/// Scans `N` columns from a row on.
///
/// # Safety
/// - They are among the columns, whose elements are valid for reading and writing.
#[inline(always)]
unsafe fn scan_from<T: ScanElement, const N: usize>(
    columns: Columns<T>,
    first: usize,
    row: usize,
    mut running: [T::Running; N],
    scan: Scan,
) {
    for row in row..columns.rows {
        let at = row * columns.width + first;
        for (lane, running) in running.iter_mut().enumerate() {
            // SAFETY: this function's condition.
            unsafe {
                *running = T::next(*running, load_one(columns.at.from.add(at + lane)), scan);
                columns.at.to.add(at + lane).write_unaligned(T::value(*running));
            }
        }
    }
}

/// Sums of columns of f32, in groups of rows.
struct SumColumns(Columns<f32>);

impl CodegenAnchor for SumColumns {
    type Anchor = Self;
}

impl<I: Isa> Kernel<I, ()> for SumColumns {
    #[inline(always)]
    unsafe fn run(self) {
        let columns = self.0;
        let whole = columns.count / WIDTH * WIDTH;
        // SAFETY: these columns are those of the task.
        unsafe {
            for first in (0..whole).step_by(WIDTH) {
                sum_columns::<WIDTH>(columns, first);
            }
            for column in whole..columns.count {
                sum_columns::<1>(columns, column);
            }
        }
    }
}

/// The cumulative sums of `N` columns, added in the order of a dense row.
///
/// # Safety
/// - They are among the columns, whose elements are valid for reading and writing.
#[inline(always)]
unsafe fn sum_columns<const N: usize>(columns: Columns<f32>, first: usize) {
    let (mut running, mut done) = ([0f64; N], 0);
    while done + GROUP <= columns.rows {
        let mut x = [[0f64; N]; GROUP];
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: this function's condition.
            let row = unsafe { row_of::<N>(columns, done + i, first) };
            *x = row.map(f64::from);
        }
        let own = prefix_sums_of(x);
        for (i, own) in own.iter().enumerate() {
            let sums: [f32; N] = std::array::from_fn(|lane| (running[lane] + own[lane]) as f32);
            let to = columns.at.to.wrapping_add((done + i) * columns.width + first);
            // SAFETY: the same.
            unsafe { to.cast::<[f32; N]>().write_unaligned(sums) };
        }
        let last = own[GROUP - 1];
        running = std::array::from_fn(|lane| running[lane] + last[lane]);
        done += GROUP;
    }
    // SAFETY: the same.
    unsafe { scan_from(columns, first, done, running, Scan::Sum) };
}

/// # Safety
/// - The elements are valid for reading.
#[inline(always)]
unsafe fn row_of<const N: usize>(columns: Columns<f32>, row: usize, first: usize) -> [f32; N] {
    let from = columns.at.from.wrapping_add(row * columns.width + first);
    // SAFETY: this function's condition.
    unsafe { from.cast::<[f32; N]>().read_unaligned() }
}

/// `prefix_sums` of each column.
#[inline(always)]
fn prefix_sums_of<const N: usize>(mut x: [[f64; N]; GROUP]) -> [[f64; N]; GROUP] {
    for before in [1, 2, 4] {
        for i in (before..GROUP).rev() {
            x[i] = std::array::from_fn(|lane| x[i][lane] + x[i - before][lane]);
        }
    }
    x
}
