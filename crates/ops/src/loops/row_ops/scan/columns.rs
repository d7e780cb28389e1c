//! Scans of neighbouring rows at once, one in each lane, element by element: along a dimension that is not the last, or of short rows.
#![expect(unsafe_code, reason = "reads and writes the strips that `map_columns` gives")]

use super::super::columns::map_columns;
use super::super::map_rows::Strip;
use super::{GROUP, Scan, ScanElement};
use crate::tensor_iterator::DimMask;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ScalarType};
use std::marker::PhantomData;

/// Rows in the lanes of one step.
const WIDTH: usize = 16;

/// Scans `input` into `out` if both are of the kernel's type and [`map_columns`] has strips of them; else does nothing and returns `false`.
///
/// # Errors
/// As [`map_columns`].
pub(super) fn scan_columns(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    scan: Scan,
) -> Result<bool> {
    if out.dtype() != kernel {
        return Ok(false);
    }
    if (kernel, scan) == (ScalarType::F32, Scan::Sum) {
        return map_columns([input], out, mask, |_, [from], to, n, count| {
            // SAFETY: the strips have these elements.
            unsafe { dispatch(SumColumns(Columns { from, to, n, count, element: PhantomData })) }
        });
    }
    dispatch_all_types!(accumulators, kernel, "scan", T => {
        map_columns([input], out, mask, |_, [from], to, n, count| {
            let columns = Columns { from, to, n, count, element: PhantomData };
            // SAFETY: the same, of the kernel's type.
            unsafe { dispatch(ScanColumns::<T> { columns, scan }) }
        })
    })
}

/// `count` rows of `n` elements of a strip.
#[derive(Clone, Copy)]
struct Columns<T> {
    from: Strip,
    to: Strip,
    n: usize,
    count: usize,
    element: PhantomData<T>,
}

impl<T> Columns<T> {
    /// The address of element `i` of row `first`.
    #[inline(always)]
    fn source(&self, i: usize, first: usize) -> *const T {
        self.from.at.wrapping_offset(i as isize * self.from.step).cast::<T>().wrapping_add(first)
    }

    /// That of its result.
    #[inline(always)]
    fn target(&self, i: usize, first: usize) -> *mut T {
        self.to.at.wrapping_offset(i as isize * self.to.step).cast::<T>().wrapping_add(first)
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
        let (start, mut first) = (T::start(scan), 0);
        while first < columns.count {
            // SAFETY: these columns are those of the task.
            first += unsafe {
                match columns.count - first {
                    WIDTH.. => scan_from(columns, first, 0, [start; WIDTH], scan),
                    4.. => scan_from(columns, first, 0, [start; 4], scan),
                    _ => scan_from(columns, first, 0, [start], scan),
                }
            };
        }
    }
}

/// Scans `N` rows from element `start` on, and returns how many.
///
/// # Safety
/// - They are among the columns, whose elements are valid for reading and writing.
#[inline(always)]
unsafe fn scan_from<T: ScanElement, const N: usize>(
    columns: Columns<T>,
    first: usize,
    start: usize,
    mut running: [T::Running; N],
    scan: Scan,
) -> usize {
    for i in start..columns.n {
        let (from, to) = (columns.source(i, first), columns.target(i, first));
        for (lane, running) in running.iter_mut().enumerate() {
            // SAFETY: this function's condition.
            unsafe {
                *running = T::next(*running, load_one(from.add(lane)), scan);
                to.add(lane).write_unaligned(T::value(*running));
            }
        }
    }
    N
}

/// Sums of columns of f32, in groups of rows.
struct SumColumns(Columns<f32>);

impl CodegenAnchor for SumColumns {
    type Anchor = Self;
}

impl<I: Isa> Kernel<I, ()> for SumColumns {
    #[inline(always)]
    unsafe fn run(self) {
        let (columns, mut first) = (self.0, 0);
        while first < columns.count {
            // SAFETY: these columns are those of the task.
            first += unsafe {
                match columns.count - first {
                    WIDTH.. => sum_columns::<WIDTH>(columns, first),
                    4.. => sum_columns::<4>(columns, first),
                    _ => sum_columns::<1>(columns, first),
                }
            };
        }
    }
}

/// The cumulative sums of `N` columns, added in the order of a dense row; returns how many.
///
/// # Safety
/// - They are among the columns, whose elements are valid for reading and writing.
#[inline(always)]
unsafe fn sum_columns<const N: usize>(columns: Columns<f32>, first: usize) -> usize {
    let (mut running, mut done) = ([0f64; N], 0);
    while done + GROUP <= columns.n {
        let mut x = [[0f64; N]; GROUP];
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: this function's condition.
            let row = unsafe { row_of::<N>(columns, done + i, first) };
            *x = row.map(f64::from);
        }
        let own = prefix_sums_of(x);
        for (i, own) in own.iter().enumerate() {
            let sums: [f32; N] = std::array::from_fn(|lane| (running[lane] + own[lane]) as f32);
            // SAFETY: the same.
            unsafe { columns.target(done + i, first).cast::<[f32; N]>().write_unaligned(sums) };
        }
        let last = own[GROUP - 1];
        running = std::array::from_fn(|lane| running[lane] + last[lane]);
        done += GROUP;
    }
    // SAFETY: the same.
    unsafe { scan_from(columns, first, done, running, Scan::Sum) }
}

/// # Safety
/// - The elements are valid for reading.
#[inline(always)]
unsafe fn row_of<const N: usize>(columns: Columns<f32>, i: usize, first: usize) -> [f32; N] {
    // SAFETY: this function's condition.
    unsafe { columns.source(i, first).cast::<[f32; N]>().read_unaligned() }
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
