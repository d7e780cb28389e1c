//! Running sums and products of a line, in f64 for floating point numbers, as PyTorch does on the CPU.
//!
//! A sum that waits for the last before it takes three cycles an element. So eight f32 are added up among themselves first, and
//! then to what came before them: in f64, where no order of them overflows. Products and f64 might, and go one by one.
#![expect(unsafe_code, reason = "reads the dense lines that the driver gives")]

use super::drive::map_lines;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{Convert, Isa, Kernel, Placed, dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ScalarType};
use std::ops::Range;

/// What runs along the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scan {
    /// The sum of the elements so far.
    Sum,
    /// Their product.
    Product,
}

/// A type that there are scans of.
trait ScanElement: Convert {
    type Running: Copy;
    fn start(scan: Scan) -> Self::Running;
    fn next(running: Self::Running, x: Self, scan: Scan) -> Self::Running;
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
            fn next($a: $running, x: Self, scan: Scan) -> $running {
                let $b = x as $running;
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

/// Scans every line along `mask`, in i64, f32 or f64 as `out` asks.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn scan_lines(input: &Tensor, out: &Tensor, mask: DimMask, scan: Scan) -> Result<()> {
    let kernel = if out.dtype().is_floating_point() {
        crate::loops::reduce::computing_type(out.dtype())
    } else {
        ScalarType::I64
    };
    if (kernel, scan) == (ScalarType::F32, Scan::Sum) {
        return map_lines([input], out, mask, kernel, |_, [from], to, n| {
            // SAFETY: a line of `n` elements.
            unsafe { dispatch(SumLine { from: from.cast(), to: to.cast(), n }) }
        });
    }
    dispatch_all_types!(accumulators, kernel, "cumsum", T => {
        map_lines([input], out, mask, kernel, |_, [from], to, n| {
            // SAFETY: a line of `n` elements.
            unsafe { one_by_one::<T>(from.cast(), to.cast(), 0..n, T::start(scan), scan) }
        })
    })
}

/// # Safety
/// - `from` is valid for reading and `to` for writing the elements of the range.
#[inline(always)]
unsafe fn one_by_one<T: ScanElement>(
    from: *const T,
    to: *mut T,
    range: Range<usize>,
    mut running: T::Running,
    scan: Scan,
) {
    for i in range {
        // SAFETY: this function's condition.
        unsafe {
            running = T::next(running, load_one(from.add(i)), scan);
            to.add(i).write_unaligned(T::value(running));
        }
    }
}

/// The running sums of a line of f32.
///
/// - `from` is valid for reading and `to` for writing `n` elements.
struct SumLine {
    from: *const f32,
    to: *mut f32,
    n: usize,
}

impl Placed for SumLine {
    type Home = Self;
}

/// How many numbers are added up among themselves.
const TOGETHER: usize = 8;

impl<I: Isa> Kernel<I, ()> for SumLine {
    #[inline(always)]
    unsafe fn run(self) {
        let SumLine { from, to, n } = self;
        let (mut running, mut done) = (0.0, 0);
        while done + TOGETHER <= n {
            // SAFETY: all eight are in the line.
            let x: [f32; TOGETHER] = unsafe { from.add(done).cast::<[f32; TOGETHER]>().read_unaligned() };
            let own = sums_of_eight(x.map(f64::from));
            let sums = own.map(|sum| (running + sum) as f32);
            // SAFETY: the same.
            unsafe { to.add(done).cast::<[f32; TOGETHER]>().write_unaligned(sums) };
            running += own[TOGETHER - 1];
            done += TOGETHER;
        }
        // SAFETY: what is left of the line.
        unsafe { one_by_one(from, to, done..n, running, Scan::Sum) }
    }
}

/// The running sums of eight numbers: of two, of four, of all (Hillis and Steele, Data parallel algorithms, 1986).
#[inline(always)]
fn sums_of_eight(x: [f64; TOGETHER]) -> [f64; TOGETHER] {
    let with = |x: [f64; TOGETHER], before: usize| {
        std::array::from_fn(|i| if i >= before { x[i] + x[i - before] } else { x[i] })
    };
    with(with(with(x, 1), 2), 4)
}
