//! Running sums and products of a line, in f64 for floating point numbers, as PyTorch does on the CPU.
#![expect(unsafe_code, reason = "reads the dense lines that the driver gives")]

use super::map_lines;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::Result;

/// What runs along the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scan {
    /// The sum of the elements so far.
    Sum,
    /// Their product.
    Product,
}

/// A type that there are scans of.
trait ScanElement: Copy {
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
        flambeau_core::ScalarType::I64
    };
    dispatch_all_types!(accumulators, kernel, "cumsum", T => {
        map_lines([input], out, mask, kernel, |_, [from], to, n| {
            let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
            let mut running = <T as ScanElement>::start(scan);
            for i in 0..n {
                // SAFETY: element `i` of a line of `n`.
                unsafe {
                    running = T::next(running, from.add(i).read_unaligned(), scan);
                    to.add(i).write_unaligned(T::value(running));
                }
            }
        })
    })
}
