//! Triangular systems, and inverses of triangular matrices.

use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::strips::{FEW, MOST_ROWS, OnStrips, overwrite_strips};

/// Rows of a diagonal block that is solved without products of matrices.
pub(crate) const LEAF: usize = MOST_ROWS;

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
        if b.rows() <= LEAF {
            solve_leaves(b, &[Leaf::new(self)], [&[]; 2]);
        } else if self.upper {
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
fn solve_lower<T: Field>(l: Matrix<'_, T>, unit: bool, b: MatrixMut<'_, T>) {
    let n = l.rows();
    if n <= LEAF {
        return solve_leaf(&l, unit, b);
    }
    let half = (n / 2).next_multiple_of(LEAF).min(n - 1);
    let (mut above, mut below) = b.split_rows(half);
    solve_lower(l.block(0, 0, [half, half]), unit, above.reborrow());
    below.multiply_add(-T::Real::ONE, &l.block(half, 0, [n - half, half]), &above.view(), T::Real::ONE);
    solve_lower(l.block(half, half, [n - half, n - half]), unit, below);
}

fn solve_leaf<T: Field>(l: &Matrix<'_, T>, unit: bool, b: MatrixMut<'_, T>) {
    let leaf = Leaf::new(&Triangular { matrix: *l, upper: false, unit });
    solve_leaves(b, &[leaf], [&[]; 2]);
}

/// Overwrites a matrix of at most [`LEAF`] rows with the solution for one triangle after another. Rows are exchanged with those of the
/// first pivots before, and with those of the last ones, in reverse order, after it.
pub(crate) fn solve_leaves<T: Field>(
    b: MatrixMut<'_, T>,
    triangles: &[Leaf<T>],
    [before, after]: [&[i32]; 2],
) {
    let work = b.rows() * b.rows() * triangles.len();
    overwrite_strips(b, work, &Substitutions { triangles, before, after });
}

/// A triangle of at most [`LEAF`] rows, with its rows in the order in which they are solved.
pub(crate) struct Leaf<T> {
    rows: [[T; LEAF]; LEAF],
    upper: bool,
    unit: bool,
}

impl<T: Field> Leaf<T> {
    pub(crate) fn new(of: &Triangular<'_, T>) -> Self {
        let (n, Triangular { matrix, upper, unit }) = (of.matrix.rows(), *of);
        let matrix = if upper { matrix.reversed() } else { matrix };
        let mut rows = [[T::ZERO; LEAF]; LEAF];
        for (i, row) in rows.iter_mut().enumerate().take(n) {
            for (k, value) in row.iter_mut().enumerate().take(i + usize::from(!unit)) {
                *value = matrix.at(i, k);
            }
        }
        Self { rows, upper, unit }
    }

    #[inline(always)]
    fn solve<const W: usize>(&self, x: &mut [[T; W]]) {
        let n = x.len();
        for (i, factors) in self.rows.iter().enumerate().take(n) {
            let (own, solved) = if self.upper {
                let (rest, solved) = x.split_at_mut(n - i);
                (&mut rest[n - 1 - i], &*solved)
            } else {
                let (solved, rest) = x.split_at_mut(i);
                (&mut rest[0], &*solved)
            };
            // A few lanes at a time, which stay in registers.
            for (part, own) in own.as_chunks_mut::<FEW>().0.iter_mut().enumerate() {
                let mut sums = *own;
                for (k, factor) in factors[..i].iter().enumerate() {
                    let row = &solved[if self.upper { i - 1 - k } else { k }];
                    let row = &row.as_chunks::<FEW>().0[part];
                    for lane in 0..FEW {
                        sums[lane] = sums[lane] - *factor * row[lane];
                    }
                }
                if !self.unit {
                    for sum in &mut sums {
                        *sum = *sum / factors[i];
                    }
                }
                *own = sums;
            }
        }
    }
}

/// What [`solve_leaves`] does with each column.
struct Substitutions<'a, T> {
    triangles: &'a [Leaf<T>],
    before: &'a [i32],
    after: &'a [i32],
}

impl<T: Field> OnStrips<T> for Substitutions<'_, T> {
    #[inline(always)]
    fn run<const W: usize>(&self, x: &mut [[T; W]]) {
        for (row, pivot) in self.before.iter().enumerate() {
            x.swap(row, *pivot as usize - 1);
        }
        for triangle in self.triangles {
            triangle.solve(x);
        }
        for (row, pivot) in self.after.iter().enumerate().rev() {
            x.swap(row, *pivot as usize - 1);
        }
    }
}
