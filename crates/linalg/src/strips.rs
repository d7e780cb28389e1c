//! Matrices of few rows and any number of columns: the rows of some columns are copied to a strip that stays in L1, whose lanes are the
//! columns, so that each step of an algorithm is done for all of them by whole vectors.
//!
//! No lane depends on another, so a column has the same bits in each strip.

use crate::field::Field;
use crate::matrix::MatrixMut;
use flambeau_parallel::parallel_for;
use flambeau_vectorized::with_processor_vectors;
use std::sync::{Mutex, PoisonError};

/// Rows up to which a matrix is computed in strips.
pub(crate) const MOST_ROWS: usize = 16;
/// Columns of a strip, of a matrix that has more than [`FEW`].
const WIDTH: usize = 32;
/// Columns of a strip of other matrices, and lanes that an algorithm computes at a time: strips are multiples of them.
pub(crate) const FEW: usize = 8;
/// Multiply-adds for which another thread is worthwhile.
const WORTH_A_THREAD: usize = 1 << 17;

/// A computation on each column of a matrix.
pub(crate) trait OnStrips<T>: Sync {
    /// Overwrites rows of the matrix, whose lanes are columns. It is inlined where the instruction set is known, and so must be all
    /// that it calls.
    fn run<const W: usize>(&self, strip: &mut [[T; W]]);
}

/// Overwrites the columns of a matrix of at most [`MOST_ROWS`] rows, for each of which there are `work` multiply-adds.
pub(crate) fn overwrite_strips<T: Field>(b: MatrixMut<'_, T>, work: usize, algorithm: &impl OnStrips<T>) {
    if b.columns() <= FEW {
        return overwrite_part::<T, FEW>(b, algorithm);
    }
    let width = (WORTH_A_THREAD / work.max(1)).next_multiple_of(WIDTH).max(WIDTH);
    if b.columns() <= width {
        return overwrite_part::<T, WIDTH>(b, algorithm);
    }
    // A lock gives access to each part, without contention.
    let parts = b.transposed().panels(width);
    let parts = flambeau_gemm::scratch::collect(parts.into_iter().map(|part| Mutex::new(Some(part))));
    parallel_for(0..parts.len(), 1, |range| {
        for part in &parts[range] {
            if let Some(part) = part.lock().unwrap_or_else(PoisonError::into_inner).take() {
                overwrite_part::<T, WIDTH>(part.transposed(), algorithm);
            }
        }
    });
}

fn overwrite_part<T: Field, const W: usize>(mut b: MatrixMut<'_, T>, algorithm: &impl OnStrips<T>) {
    let mut rows = [[T::ZERO; W]; MOST_ROWS];
    let strip = &mut rows[..b.rows()];
    with_processor_vectors(
        #[inline(always)]
        || {
            for first in (0..b.columns()).step_by(W) {
                b.view().load_strip(first, strip);
                algorithm.run(strip);
                b.store_strip(first, strip);
            }
        },
    );
}
