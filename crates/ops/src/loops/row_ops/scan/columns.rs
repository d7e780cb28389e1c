//! Scans of neighbouring rows at once, one in each lane, element by element: along a dimension that is not the last, or of short rows.
//! Elements of f16 and bf16 are converted in registers.
#![expect(unsafe_code, reason = "reads and writes the strips that `map_columns` gives")]

use super::super::columns::map_columns;
use super::super::map_rows::Strip;
use super::{GROUP, Scan, ScanElement};
use crate::loops::reduce::computing_type;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{CodegenAnchor, Convert, EveryIsa, Isa, Kernel, Lanes, Vector, dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ScalarType};
use half::{bf16, f16};
use std::marker::PhantomData;

/// Rows in the lanes of one step.
const WIDTH: usize = 16;

/// Scans `input` into `out` if both are of one type, which is computed in the kernel's, and [`map_columns`] has strips of them; else does
/// nothing and returns `false`.
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
    let dtype = out.dtype();
    if computing_type(dtype) != kernel {
        return Ok(false);
    }
    match (dtype, scan) {
        (ScalarType::F32, Scan::Sum) => sum::<f32>(input, out, mask),
        (ScalarType::F16, Scan::Sum) => sum::<f16>(input, out, mask),
        (ScalarType::BF16, Scan::Sum) => sum::<bf16>(input, out, mask),
        (ScalarType::F16, _) => scan_each::<f16>(input, out, mask, scan),
        (ScalarType::BF16, _) => scan_each::<bf16>(input, out, mask, scan),
        _ => dispatch_all_types!(accumulators, kernel, "scan", T => scan_each::<T>(input, out, mask, scan)),
    }
}

/// Sums in groups of rows.
fn sum<T>(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<bool>
where
    SumColumns<T>: EveryIsa,
{
    map_columns([input], out, mask, |_, [from], to, n, count| {
        // SAFETY: the strips have these elements.
        unsafe { dispatch(SumColumns::<T>(Columns { from, to, n, count, element: PhantomData })) }
    })
}

/// Scans element by element.
fn scan_each<T>(input: &Tensor, out: &Tensor, mask: DimMask, scan: Scan) -> Result<bool>
where
    ScanColumns<T>: EveryIsa,
{
    map_columns([input], out, mask, |_, [from], to, n, count| {
        let columns = Columns { from, to, n, count, element: PhantomData };
        // SAFETY: the strips have these elements.
        unsafe { dispatch(ScanColumns::<T> { columns, scan }) }
    })
}

/// An element type whose neighbours are read and written together.
trait ColumnElement<I: Isa>: ScanElement {
    /// Reads `N` adjacent elements.
    ///
    /// # Safety
    /// - They are valid for reading.
    unsafe fn read<const N: usize>(from: *const Self) -> [Self::Running; N];

    /// Writes `N` adjacent elements.
    ///
    /// # Safety
    /// - They are valid for writing.
    unsafe fn write<const N: usize>(values: [Self::Running; N], to: *mut Self);
}

macro_rules! native_columns {
    ($($t:ident)*) => {$(
        impl<I: Isa> ColumnElement<I> for $t {
            #[inline(always)]
            unsafe fn read<const N: usize>(from: *const Self) -> [Self::Running; N] {
                // SAFETY: this function's condition.
                unsafe { from.cast::<[Self; N]>().read_unaligned() }.map(Self::to_running)
            }
            #[inline(always)]
            unsafe fn write<const N: usize>(values: [Self::Running; N], to: *mut Self) {
                // SAFETY: this function's condition.
                unsafe { to.cast::<[Self; N]>().write_unaligned(values.map(Self::value)) }
            }
        }
    )*};
}

native_columns!(i64 f32 f64);

/// Fewer elements than a vector has lanes are converted in a part of a vector, or one by one where that takes few instructions.
macro_rules! half_columns {
    ($($t:ident, $in_parts:literal;)*) => {$(
        impl ScanElement for $t {
            type Running = f64;
            #[inline(always)]
            fn start(scan: Scan) -> f64 {
                f32::start(scan)
            }
            #[inline(always)]
            fn to_running(self) -> f64 {
                f64::from(self.convert::<f32>())
            }
            #[inline(always)]
            fn next(running: f64, x: f64, scan: Scan) -> f64 {
                f32::next(running, x, scan)
            }
            #[inline(always)]
            fn value(running: f64) -> Self {
                f32::value(running).convert()
            }
        }

        impl<I: Isa> ColumnElement<I> for $t
        where
            $t: Lanes<I, Vector: Vector<Element = f32>>,
        {
            #[inline(always)]
            unsafe fn read<const N: usize>(from: *const Self) -> [f64; N] {
                let lanes = <<Self as Lanes<I>>::Vector as Vector>::LANES;
                let mut wide = [0f32; N];
                for at in (0..N).step_by(lanes) {
                    // SAFETY: these lanes are in both sides.
                    unsafe {
                        let (from, to) = (from.add(at), wide.as_mut_ptr().add(at));
                        if at + lanes <= N {
                            <Self as Lanes<I>>::load(from).store(to);
                        } else if $in_parts {
                            <Self as Lanes<I>>::load_partial(from, N - at).store_partial(to, N - at);
                        } else {
                            for i in 0..N - at {
                                to.add(i).write(load_one(from.add(i)).convert());
                            }
                        }
                    }
                }
                wide.map(f64::from)
            }
            #[inline(always)]
            unsafe fn write<const N: usize>(values: [f64; N], to: *mut Self) {
                let lanes = <<Self as Lanes<I>>::Vector as Vector>::LANES;
                let wide = values.map(f32::value);
                for at in (0..N).step_by(lanes) {
                    // SAFETY: these lanes are in both sides.
                    unsafe {
                        let (from, to) = (wide.as_ptr().add(at), to.add(at));
                        if at + lanes <= N {
                            <Self as Lanes<I>>::store(Vector::load(from), to);
                        } else if $in_parts {
                            <Self as Lanes<I>>::store_partial(Vector::load_partial(from, N - at), to, N - at);
                        } else {
                            for i in 0..N - at {
                                to.add(i).write_unaligned(load_one(from.add(i)).convert());
                            }
                        }
                    }
                }
            }
        }
    )*};
}

half_columns! {
    f16, true;
    bf16, false;
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

impl<I: Isa, T: ColumnElement<I>> Kernel<I, ()> for ScanColumns<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let ScanColumns { columns, scan } = self;
        let (start, mut first) = (T::start(scan), 0);
        while first < columns.count {
            // SAFETY: these columns are those of the task.
            first += unsafe {
                match columns.count - first {
                    WIDTH.. => scan_from::<I, T, WIDTH>(columns, first, 0, [start; WIDTH], scan),
                    4.. => scan_from::<I, T, 4>(columns, first, 0, [start; 4], scan),
                    _ => scan_from::<I, T, 1>(columns, first, 0, [start], scan),
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
unsafe fn scan_from<I: Isa, T: ColumnElement<I>, const N: usize>(
    columns: Columns<T>,
    first: usize,
    start: usize,
    mut running: [T::Running; N],
    scan: Scan,
) -> usize {
    for i in start..columns.n {
        // SAFETY: this function's condition.
        unsafe {
            let x = T::read::<N>(columns.source(i, first));
            for (running, x) in running.iter_mut().zip(x) {
                *running = T::next(*running, x, scan);
            }
            T::write(running, columns.target(i, first));
        }
    }
    N
}

/// Sums of columns that run in f64 and are rounded to f32, in groups of rows.
struct SumColumns<T>(Columns<T>);

impl<T> CodegenAnchor for SumColumns<T> {
    type Anchor = Self;
}

impl<I: Isa, T: ColumnElement<I, Running = f64>> Kernel<I, ()> for SumColumns<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let (columns, mut first) = (self.0, 0);
        while first < columns.count {
            // SAFETY: these columns are those of the task.
            first += unsafe {
                match columns.count - first {
                    WIDTH.. => sum_columns::<I, T, WIDTH>(columns, first),
                    4.. => sum_columns::<I, T, 4>(columns, first),
                    _ => sum_columns::<I, T, 1>(columns, first),
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
unsafe fn sum_columns<I, T, const N: usize>(columns: Columns<T>, first: usize) -> usize
where
    I: Isa,
    T: ColumnElement<I, Running = f64>,
{
    let (mut running, mut done) = ([0f64; N], 0);
    while done + GROUP <= columns.n {
        let mut x = [[0f64; N]; GROUP];
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: this function's condition.
            *x = unsafe { T::read(columns.source(done + i, first)) };
        }
        let own = prefix_sums_of(x);
        for (i, own) in own.iter().enumerate() {
            let sums: [f64; N] = std::array::from_fn(|lane| running[lane] + own[lane]);
            // SAFETY: the same.
            unsafe { T::write(sums, columns.target(done + i, first)) };
        }
        let last = own[GROUP - 1];
        running = std::array::from_fn(|lane| running[lane] + last[lane]);
        done += GROUP;
    }
    // SAFETY: the same.
    unsafe { scan_from::<I, T, N>(columns, first, done, running, Scan::Sum) }
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
