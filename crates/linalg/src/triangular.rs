//! Triangular systems, and inverses of triangular matrices.

use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use flambeau_vectorized::with_processor_vectors;

/// Rows of a diagonal block that is solved without products of matrices.
const LEAF: usize = 16;
/// Columns of the right side that a leaf solves at once, as lanes of vectors.
const LANES: usize = 8;

/// A triangular matrix.
#[derive(Clone, Copy, Debug)]
pub struct Triangular<'a, T> {
    /// The matrix, of which one triangle is read.
    pub matrix: Matrix<'a, T>,
    /// Whether the triangle is the upper one.
    pub upper: bool,
    /// Whether the diagonal is taken to be 1, and not read.
    pub unit: bool,
}

impl<T: Field> Triangular<'_, T> {
    /// The transpose, whose triangle is the other one.
    pub fn transposed(self) -> Self {
        Self { matrix: self.matrix.transposed(), upper: !self.upper, ..self }
    }

    /// The conjugate transpose.
    pub fn adjoint(self) -> Self {
        Self { matrix: self.matrix.adjoint(), upper: !self.upper, ..self }
    }

    /// Overwrites `b` with the solution of `self x = b`. A zero on the diagonal gives infinities and NaN.
    pub fn solve(&self, b: MatrixMut<'_, T>) {
        assert!(
            self.matrix.rows() == b.rows() && self.matrix.columns() == b.rows(),
            "a system of other sizes"
        );
        if self.upper {
            solve_lower(self.matrix.reversed(), self.unit, b.rows_reversed());
        } else {
            solve_lower(self.matrix, self.unit, b);
        }
    }

    /// Overwrites `b` with the solution of `x self = b`.
    pub fn solve_right(&self, b: MatrixMut<'_, T>) {
        self.transposed().solve(b.transposed());
    }
}

/// Forward substitution, by halves: the second half of the rows takes what the first contributes by one product.
fn solve_lower<T: Field>(l: Matrix<'_, T>, unit: bool, mut b: MatrixMut<'_, T>) {
    let n = l.rows();
    if n <= LEAF {
        return solve_leaf(&l, unit, &mut b);
    }
    let half = (n / 2).next_multiple_of(LEAF).min(n - 1);
    let (mut above, mut below) = b.split_rows(half);
    solve_lower(l.block(0, 0, [half, half]), unit, above.reborrow());
    below.multiply_add(-T::Real::ONE, &l.block(half, 0, [n - half, half]), &above.view(), T::Real::ONE);
    solve_lower(l.block(half, half, [n - half, n - half]), unit, below);
}

fn solve_leaf<T: Field>(l: &Matrix<'_, T>, unit: bool, b: &mut MatrixMut<'_, T>) {
    let n = l.rows();
    let mut rows = [[T::ZERO; LEAF]; LEAF];
    for (i, row) in rows.iter_mut().enumerate().take(n) {
        for (k, value) in row.iter_mut().enumerate().take(i + usize::from(!unit)) {
            *value = l.at(i, k);
        }
    }
    for first in (0..b.columns()).step_by(LANES) {
        let lanes = LANES.min(b.columns() - first);
        let mut x = [[T::ZERO; LANES]; LEAF];
        for (i, row) in x.iter_mut().enumerate().take(n) {
            (0..lanes).for_each(|lane| row[lane] = b.at(i, first + lane));
        }
        with_processor_vectors(
            #[inline(always)]
            || substitute(&rows, n, unit, &mut x),
        );
        for (i, row) in x.iter().enumerate().take(n) {
            (0..lanes).for_each(|lane| b.set(i, first + lane, row[lane]));
        }
    }
}

#[inline(always)]
fn substitute<T: Field>(rows: &[[T; LEAF]; LEAF], n: usize, unit: bool, x: &mut [[T; LANES]; LEAF]) {
    for (i, row) in rows.iter().enumerate().take(n) {
        let (known, rest) = x.split_at_mut(i);
        let own = &mut rest[0];
        for (solved, factor) in known.iter().zip(row) {
            own.iter_mut().zip(solved).for_each(|(own, solved)| *own = *own - *factor * *solved);
        }
        if !unit {
            own.iter_mut().for_each(|own| *own = *own / row[i]);
        }
    }
}
