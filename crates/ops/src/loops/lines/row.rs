//! Passes over one dense line: formulas, past the caches where the result is not read again soon, and what to ask memory for ahead.
#![expect(unsafe_code, reason = "runs formulas over raw rows")]

use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::SHORT_LINE;
use crate::loops::rows::{self, Floats, RowKernel, Rows, dispatch_rows_of};
use crate::loops::streaming::stream_rows;
use crate::vectorized::EveryIsa;
use flambeau_core::Element;

/// Runs `formula` over a row whose result is not read again soon; [`fence`](crate::loops::streaming::fence) before another thread may read it.
///
/// # Safety
/// - The elements of the row are valid, of type `T`.
pub(super) unsafe fn write_row<T: Element, F: FloatFormula<N>, const N: usize>(
    row: Rows<N>,
    formula: F,
    streams: bool,
) where
    for<'r> RowKernel<'r, T, Floats<F>, N>: EveryIsa,
{
    // SAFETY: by this function's condition, of the row or of pieces of it.
    let run = |row: &Rows<N>| unsafe { dispatch_rows_of::<T, F, N>(*row, formula) };
    if !streams {
        return run(&row);
    }
    let heeds = rows::streams(T::SCALAR_TYPE, T::SCALAR_TYPE);
    stream_rows(&row, [size_of::<T>(); N], size_of::<T>(), heeds, &run);
}

/// How far ahead the last pass over a line of `n` elements asks for what comes next, in bytes: at [short ones](SHORT_LINE) memory has
/// had nothing to do since the first pass, and the processor did not foresee the next line.
pub(super) fn next_line<T>(n: usize) -> usize {
    let bytes = n * size_of::<T>();
    if bytes <= SHORT_LINE { bytes.max(1 << 11) } else { 0 }
}

/// One row of `n` elements from `from` to `to`.
pub(super) fn row<T, const N: usize>(from: [*const T; N], to: *mut T, n: usize) -> Rows<N> {
    Rows { to: to.cast(), from: from.map(|p| p.cast()), ..Rows::empty(n) }
}
