//! Balancing of a matrix before its eigenvalues are computed: exchanges of rows and columns that isolate eigenvalues, and powers of two
//! that make the norms of rows and columns nearly equal. Parlett and Reinsch, "Balancing a matrix for calculation of eigenvalues and
//! eigenvectors" (1969). Norms include the element on the diagonal: without it a nearly triangular matrix would be scaled until
//! rounding errors count as much as its numbers: James, Langou and Lowery, "On matrix balancing and eigenvector computation" (2014).

use crate::field::{Field, Real};
use crate::matrix::MatrixMut;
use crate::reflector::norm;
use flambeau_gemm::scratch;
use std::ops::Range;

/// Passes over the rows and columns after which scaling ends; three to five suffice.
const PASSES: usize = 30;
/// How much smaller the sum of two norms must become: less is not worth the pass.
const GAIN: f64 = 0.95;

/// Elements of a row or column that are copied to the stack.
const FEW: usize = 16;

/// What was done to a matrix.
pub(crate) struct Balance {
    /// The rows and columns between the isolated eigenvalues.
    pub(crate) active: Range<usize>,
    /// With which other row and column each one outside of `active` was exchanged.
    exchanged: Vec<usize>,
    /// The power of two of each row and column, as an exponent.
    exponents: Vec<i32>,
}

impl Balance {
    /// Balances `a`.
    pub(crate) fn new<T: Field>(a: &mut MatrixMut<'_, T>) -> Self {
        let n = a.rows();
        let mut balance =
            Self { active: 0..n, exchanged: scratch::collect(0..n), exponents: scratch::filled(0, n) };
        while balance.isolate(a, true) {}
        while balance.isolate(a, false) {}
        for _ in 0..PASSES {
            if !balance.scale_once(a) {
                break;
            }
        }
        balance
    }

    /// Finds a row of which only the element on the diagonal is not 0, and exchanges it with the last active one; or such a column, with
    /// the first. Returns whether there was one.
    fn isolate<T: Field>(&mut self, a: &mut MatrixMut<'_, T>, row: bool) -> bool {
        let active = self.active.clone();
        let element = |i: usize, j: usize| if row { a.at(i, j) } else { a.at(j, i) };
        let is_isolated = |i: &usize| active.clone().all(|j| j == *i || element(*i, j) == T::ZERO);
        let found =
            if row { active.clone().rev().find(is_isolated) } else { active.clone().find(is_isolated) };
        let Some(found) = found else { return false };
        let end = if row { active.end - 1 } else { active.start };
        self.exchanged[end] = found;
        self.active = if row { active.start..end } else { end + 1..active.end };
        if found != end {
            a.swap_rows(found, end);
            let (x, y) = a.two_columns(found, end);
            x.swap_with_slice(y);
        }
        true
    }

    /// One pass of scaling. Returns whether anything was scaled.
    fn scale_once<T: Field>(&mut self, a: &mut MatrixMut<'_, T>) -> bool {
        let (n, active) = (a.rows(), self.active.clone());
        let len = active.len();
        // Memory for a few is not allocated: of small matrices that took as long as the norms.
        let (mut few, mut many) =
            ([T::ZERO; FEW], scratch::filled(T::ZERO, if len <= FEW { 0 } else { len }));
        let others = if len <= FEW { &mut few[..len] } else { &mut many[..] };
        let mut changed = false;
        for i in active.clone() {
            let mut norm_of = |element: &dyn Fn(usize) -> T| {
                others.iter_mut().zip(active.clone()).for_each(|(other, j)| *other = element(j));
                norm(others)
            };
            let (column, row) = (norm_of(&|j| a.at(j, i)).to_f64(), norm_of(&|j| a.at(i, j)).to_f64());
            // A ratio of less than 2 is balanced best, and its logarithms need not be computed.
            let is_near = row < 2.0 * column && column < 2.0 * row;
            if column == 0.0 || row == 0.0 || is_near {
                continue;
            }
            let exponent = ((row.log2() - column.log2()) / 2.0).round() as i32;
            let (factor, total) = (f64::from(exponent).exp2(), self.exponents[i] + exponent);
            let is_better = column * factor + row / factor < GAIN * (column + row);
            if exponent == 0 || total.abs() > T::Real::LARGEST_EXPONENT || !is_better {
                continue;
            }
            (self.exponents[i], changed) = (total, true);
            let factor = T::Real::from_f64(factor);
            a.column(i)[..active.end].iter_mut().for_each(|x| *x = x.scaled(factor));
            for j in active.start..n {
                a.set(i, j, a.at(i, j).divided(factor));
            }
        }
        changed
    }

    /// Overwrites eigenvectors of the balanced matrix, as columns, with those of the original one.
    pub(crate) fn undo<T: Field>(&self, vectors: &mut MatrixMut<'_, T>) {
        let active = &self.exponents[self.active.clone()];
        let factors =
            scratch::collect(active.iter().map(|exponent| T::Real::from_f64(f64::from(*exponent).exp2())));
        for j in 0..vectors.columns() {
            let column = vectors.column(j);
            for (x, factor) in column[self.active.clone()].iter_mut().zip(&factors) {
                *x = x.scaled(*factor);
            }
            // The last exchange first.
            let before = (0..self.active.start).rev();
            for i in before.chain(self.active.end..self.exchanged.len()) {
                column.swap(i, self.exchanged[i]);
            }
        }
    }
}
