//! QR iteration with many shifts at once, for large matrices. A round first looks for eigenvalues that have converged, in a
//! [window](super::window) at the end of a block. The window's other eigenvalues are the shifts of a [sweep](super::sweep), unless so
//! many have converged that another look pays more. Nearly all of the work is products of matrices: Braman, Byers and Mathias, "The
//! multishift QR algorithm. Part I: maintaining well-focused shifts and level 3 performance. Part II: aggressive early deflation" (2002).

use super::basis::{multiply_left, multiply_right};
use super::window::Window;
use super::{Iteration, complex};
use crate::field::{Field, Real};
use crate::matrix::Matrix;
use flambeau_gemm::scratch;
use std::ops::Range;

/// Rows up to which a step takes two shifts. A block of as many rows at the end of a large matrix is a window as a whole.
const FEW: usize = 72;
/// A sweep is skipped if a window of so many rows had at least one converged eigenvalue.
const ROWS_PER_FOUND: usize = 7;
/// Rounds without a converged eigenvalue after which shifts are chosen differently, to leave a cycle.
const EXCEPTIONAL: usize = 6;
/// Rounds without a converged eigenvalue after which windows become larger.
const PATIENCE: usize = 5;

/// What a round did.
pub(super) struct Round {
    /// Eigenvalues at the end of the block that have converged.
    pub(super) found: usize,
    /// In steps of two shifts.
    pub(super) cost: usize,
}

/// Whether steps on a matrix of so many rows take many shifts.
pub(super) fn applies(rows: usize) -> bool {
    rows > FEW
}

/// Pairs of shifts in a sweep over a block of so many rows.
fn pairs_for(rows: usize) -> usize {
    match rows {
        0..150 => 6,
        150..400 => 12,
        400..3000 => 24,
        _ => 48,
    }
}

impl<T: Field> Iteration<'_, T> {
    /// A round on a block, after `stalled` rounds without a converged eigenvalue.
    pub(super) fn round(&mut self, block: Range<usize>, stalled: usize, values: &mut [T::Complex]) -> Round {
        let (size, pairs) = (block.len(), pairs_for(block.len()));
        let rows = if size <= FEW { size } else { window_rows(size, pairs, stalled) };
        let first = block.end - rows;
        let is_whole = first == block.start;
        let mut window = Window::new(&self.h.view(), first..block.end, is_whole);
        let is_decomposed = window.decompose().is_ok();
        let kept = if is_decomposed { window.deflate() } else { rows };
        let found = rows - kept;
        if found > 0 {
            values[first + kept..block.end].copy_from_slice(&window.values[kept..]);
            window.restore(kept);
            self.put_back(&window, first, kept);
            self.multiply_outside(first, &window.basis(), &block);
        }
        let rest = block.start..block.end - found;
        if found * ROWS_PER_FOUND >= rows || rest.len() <= FEW {
            return Round { found, cost: 1 };
        }
        let is_exceptional = !is_decomposed || (stalled + 1).is_multiple_of(EXCEPTIONAL);
        let candidates = if is_exceptional { self.exceptional_shifts(&rest, pairs) } else { window.values };
        let mut shifts = in_pairs::<T>(&candidates[..kept.min(candidates.len())]);
        shifts.truncate(pairs.min(rest.len() / 6));
        self.sweep(&rest, &shifts);
        Round { found, cost: 1 + shifts.len() }
    }

    /// Copies the window into the matrix. Without a row that has not converged, nothing is left of it.
    fn put_back(&mut self, window: &Window<T>, first: usize, kept: usize) {
        if first > 0 {
            self.h.set(first, first - 1, if kept == 0 { T::ZERO } else { window.element_before() });
        }
        let (t, rows) = (window.triangle(), window.values.len());
        for j in 0..rows {
            let height = (j + 2).min(rows);
            self.h.column(first + j)[first..first + height].copy_from_slice(&t.column(j)[..height]);
        }
    }

    /// Applies a change of the rows and columns from `first` on to the rest of the matrix, and to the basis. Without a basis only the
    /// eigenvalues count, which depend on the block alone. Its part is a product of its own, so that it has the same bits with and
    /// without a basis.
    pub(super) fn multiply_outside(&mut self, first: usize, change: &Matrix<'_, T>, block: &Range<usize>) {
        let (n, size) = (self.h.columns(), change.rows());
        let end = first + size;
        let mut parts = [(block.start..first, end..block.end), (0..block.start, block.end..n)].into_iter();
        for (above, right) in parts.by_ref().take(if self.q.is_computed() { 2 } else { 1 }) {
            multiply_right(self.h.reborrow().block(above.start, first, [above.len(), size]), change);
            multiply_left(self.h.reborrow().block(first, right.start, [size, right.len()]), change);
        }
        self.q.multiply(first, change);
    }

    /// Shifts near the diagonal, for a block whose own ones do not converge.
    fn exceptional_shifts(&self, block: &Range<usize>, pairs: usize) -> Vec<T::Complex> {
        let size = |i: usize| self.h.at(i, i - 1).pivot_size();
        let rows = (block.start + 2..block.end).rev().step_by(2).take(pairs);
        scratch::collect(rows.flat_map(|i| {
            let part = |factor: f64| T::Real::from_f64(factor) * (size(i) + size(i - 1));
            let center = complex(self.h.at(i, i)) + T::Complex::from_real(part(0.75));
            let offset = T::Complex::from_parts(T::Real::ZERO, part(0.66));
            [center + offset, center - offset]
        }))
    }
}

/// Rows of a window: half as many again as there are shifts, and more where nothing converges.
fn window_rows(size: usize, pairs: usize, stalled: usize) -> usize {
    let rows = (3 * pairs) << stalled.saturating_sub(PATIENCE).min(4);
    rows.clamp(2, (size / 3).max(3 * pairs).min(size - 1))
}

/// Shifts in pairs, the smallest first. Those of a real matrix are conjugates, or both real.
fn in_pairs<T: Field>(shifts: &[T::Complex]) -> Vec<[T::Complex; 2]> {
    let zero = T::Real::ZERO;
    let mut pairs = scratch::with_capacity(shifts.len() / 2);
    let mut alone = None;
    for shift in shifts {
        if T::IS_COMPLEX || shift.im() == zero {
            match alone.take() {
                Some(other) => pairs.push([other, *shift]),
                None => alone = Some(*shift),
            }
        } else if shift.im() > zero {
            pairs.push([*shift, shift.conj()]);
        }
    }
    let size = |pair: &[T::Complex; 2]| (pair[0].pivot_size() + pair[1].pivot_size()).to_f64();
    pairs.sort_unstable_by(|a, b| size(a).total_cmp(&size(b)));
    pairs
}
