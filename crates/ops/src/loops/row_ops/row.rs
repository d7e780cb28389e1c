//! Passes over one dense row: the formula of the pass, which stores to use, and how far ahead to prefetch.
#![expect(unsafe_code, reason = "runs formulas over raw rows")]

use crate::Tensor;
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::SHORT_ROW;
use crate::loops::rows::{self, Floats, RowKernel, Rows, dispatch_rows_of};
use crate::loops::streaming::stream_rows;
use crate::vectorized::EveryIsa;
use flambeau_core::{Element, Guarded};

/// Runs `formula` over a row; where `streams`, by non-temporal stores, and [`fence`](crate::loops::streaming::fence) comes before another
/// thread may read the result.
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
    let supports_nt_stores = rows::supports_nt_stores(T::SCALAR_TYPE, T::SCALAR_TYPE);
    stream_rows(&row, [size_of::<T>(); N], size_of::<T>(), supports_nt_stores, &run);
}

/// How far ahead the last pass over a row of `n` elements prefetches the next row, in bytes; 0 for none. The rows are
/// [short ones](SHORT_ROW), whose later passes read L1: memory has been idle since the first pass, and the hardware prefetcher does not
/// foresee the next row.
pub(super) fn next_row_distance<T>(n: usize) -> usize {
    let bytes = n * size_of::<T>();
    if bytes <= SHORT_ROW { bytes.max(1 << 11) } else { 0 }
}

/// One row of `n` elements from `from` to `to`.
pub(super) fn row<T, const N: usize>(from: [*const T; N], to: *mut T, n: usize) -> Rows<N> {
    Rows { to: to.cast(), from: from.map(|p| p.cast()), ..Rows::empty(n) }
}

/// An address that other threads use while this one holds the guards.
#[derive(Clone, Copy)]
pub(super) struct Shared(*mut u8);

// SAFETY: parameters are only read, and each row has its own statistics, written by one thread, while the guards are held.
unsafe impl Sync for Shared {}

impl Shared {
    pub(super) fn of(guarded: Guarded<'_>, tensor: &Tensor) -> Self {
        Shared(guarded.ptr(tensor.strided_view()))
    }

    pub(super) fn get(&self) -> *mut u8 {
        self.0
    }
}
