//! Cumulative sums and products of a row, in f64 for floating point numbers, as PyTorch does on the CPU.
//!
//! Each sum depends on the one before, so that a loop element by element takes the latency of an addition for each. So the prefix sums
//! of eight f32 are computed in parallel first, and added to the sum of the elements before them: in f64, where no order of f32 terms
//! overflows. Products, and sums of f64, might overflow in another order, and are computed element by element. Where rows are not dense
//! but their neighbours are, [`columns`] computes several rows at once, in the same order.
#![expect(unsafe_code, reason = "reads the dense rows that `map_rows` gives")]

mod columns;
mod log_sum_exp;

pub(crate) use log_sum_exp::log_cumsum_exp_rows;

use super::map_rows::map_rows;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{CodegenAnchor, Convert, Isa, Kernel, dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ScalarType};
use std::ops::Range;

/// Which prefix operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scan {
    /// The cumulative sum.
    Sum,
    /// The cumulative product.
    Product,
}

/// An element type that scans are computed for.
trait ScanElement: Convert {
    type Running: Copy;
    fn start(scan: Scan) -> Self::Running;
    fn to_running(self) -> Self::Running;
    fn next(running: Self::Running, x: Self::Running, scan: Scan) -> Self::Running;
    fn value(running: Self::Running) -> Self;
}

macro_rules! scan_elements {
    ($($t:ident $running:ident |$a:ident, $b:ident| $sum:expr, $product:expr;)*) => {$(
        impl ScanElement for $t {
            type Running = $running;
            #[inline(always)]
            fn start(scan: Scan) -> $running {
                if scan == Scan::Sum { 0 as $running } else { 1 as $running }
            }
            #[inline(always)]
            fn to_running(self) -> $running {
                self as $running
            }
            #[inline(always)]
            fn next($a: $running, $b: $running, scan: Scan) -> $running {
                if scan == Scan::Sum { $sum } else { $product }
            }
            #[inline(always)]
            fn value(running: $running) -> Self {
                running as $t
            }
        }
    )*};
}

scan_elements! {
    i64 i64 |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    f32 f64 |a, b| a + b, a * b;
    f64 f64 |a, b| a + b, a * b;
}

/// Scans every row of the dimensions `mask`, in i64, f32 or f64 by the type of `out`.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn scan_rows(input: &Tensor, out: &Tensor, mask: DimMask, scan: Scan) -> Result<()> {
    let kernel = if out.dtype().is_floating_point() {
        crate::loops::reduce::computing_type(out.dtype())
    } else {
        ScalarType::I64
    };
    if columns::scan_columns(input, out, mask, kernel, scan)? {
        return Ok(());
    }
    if (kernel, scan) == (ScalarType::F32, Scan::Sum) {
        return map_rows([input], out, mask, kernel, |_, [from], to, n| {
            // SAFETY: a row of `n` elements.
            unsafe { dispatch(SumRow { from: from.cast(), to: to.cast(), n }) }
        });
    }
    dispatch_all_types!(accumulators, kernel, "cumsum", T => {
        map_rows([input], out, mask, kernel, |_, [from], to, n| {
            // SAFETY: a row of `n` elements.
            unsafe { sequential::<T>(from.cast(), to.cast(), 0..n, T::start(scan), scan) }
        })
    })
}

/// # Safety
/// - `from` is valid for reading and `to` for writing the elements of the range.
#[inline(always)]
unsafe fn sequential<T: ScanElement>(
    from: *const T,
    to: *mut T,
    range: Range<usize>,
    mut running: T::Running,
    scan: Scan,
) {
    for i in range {
        // SAFETY: this function's condition.
        unsafe {
            running = T::next(running, T::to_running(load_one(from.add(i))), scan);
            to.add(i).write_unaligned(T::value(running));
        }
    }
}

/// The cumulative sums of a row of f32.
///
/// - `from` is valid for reading and `to` for writing `n` elements.
struct SumRow {
    from: *const f32,
    to: *mut f32,
    n: usize,
}

impl CodegenAnchor for SumRow {
    type Anchor = Self;
}

/// How many prefix sums are computed in parallel.
const GROUP: usize = 8;

impl<I: Isa> Kernel<I, ()> for SumRow {
    #[inline(always)]
    unsafe fn run(self) {
        let SumRow { from, to, n } = self;
        let (mut running, mut done) = (0.0, 0);
        while done + GROUP <= n {
            // SAFETY: all eight are in the row.
            let x: [f32; GROUP] = unsafe { from.add(done).cast::<[f32; GROUP]>().read_unaligned() };
            let own = prefix_sums(x.map(f64::from));
            let sums = own.map(|sum| (running + sum) as f32);
            // SAFETY: the same.
            unsafe { to.add(done).cast::<[f32; GROUP]>().write_unaligned(sums) };
            running += own[GROUP - 1];
            done += GROUP;
        }
        // SAFETY: the rest of the row.
        unsafe { sequential(from, to, done..n, running, Scan::Sum) }
    }
}

/// The prefix sums of eight numbers: first of up to two, then four, then all (Hillis and Steele, Data parallel algorithms, 1986).
#[inline(always)]
fn prefix_sums(mut x: [f64; GROUP]) -> [f64; GROUP] {
    for before in [1, 2, 4] {
        x = std::array::from_fn(|i| if i >= before { x[i] + x[i - before] } else { x[i] });
    }
    x
}
