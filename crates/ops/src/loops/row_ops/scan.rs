//! Cumulative sums and products of a row, in f64 for floating point numbers, as PyTorch does on the CPU.
//!
//! Each sum depends on the one before, so that a loop element by element takes the latency of an addition for each. So the prefix sums
//! of eight f32 are computed in parallel first, and added to the sum of the elements before them: in f64, where no order of f32 terms
//! overflows. Products, and sums of f64, might overflow in another order, and are computed element by element. Several rows are scanned at
//! once where they are, one in each lane and in the same order ([`lanes`]), except for long dense rows of sums in groups.
#![expect(unsafe_code, reason = "reads the dense rows that `map_rows` gives")]

mod elements;
mod lanes;
mod log_sum_exp;
mod plan;

pub(crate) use log_sum_exp::log_cumsum_exp_rows;

use super::map_rows::map_rows;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use elements::ScanElement;
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
    if plan::scan_in_lanes(input, out, mask, kernel, scan)? {
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
            let (from, to) = (from.cast(), to.cast());
            // SAFETY: a row of `n` elements.
            unsafe {
                match scan {
                    Scan::Sum => sequential::<T, true>(from, to, 0..n, T::start::<true>()),
                    Scan::Product => sequential::<T, false>(from, to, 0..n, T::start::<false>()),
                }
            }
        })
    })
}

/// # Safety
/// - `from` is valid for reading and `to` for writing the elements of the range.
#[inline(always)]
unsafe fn sequential<T: ScanElement, const SUM: bool>(
    from: *const T,
    to: *mut T,
    range: Range<usize>,
    mut running: T::Running,
) {
    for i in range {
        // SAFETY: this function's condition.
        unsafe {
            running = T::next::<SUM>(running, T::to_running(load_one(from.add(i))));
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
        unsafe { sequential::<f32, true>(from, to, done..n, running) }
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
