//! Eigenvectors of Schur forms, by back substitution for several of them at once: within a block of rows one vector after another, and
//! above it by products of matrices.

use crate::field::{Field, Real};
use crate::matrix::{Matrix, MatrixMut};
use crate::schur::{complex, negligible_size, unit};
use flambeau_gemm::scratch;
use flambeau_parallel::for_each_task;
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;

/// Vectors that are computed together. One more where a pair would be split.
const GROUP: usize = 64;
/// Rows of a block. One more where a diagonal block of two would be split.
const ROWS: usize = 32;

/// Whether an eigenvalue is the second one of a pair of a real matrix, whose vector is the conjugate of the one before.
pub(crate) fn is_second<T: Field>(value: T::Complex) -> bool {
    !T::IS_COMPLEX && value.im() < T::Real::ZERO
}

/// The eigenvectors of a Schur form, as columns in the type of the matrix. Those of a real matrix are real columns: for a pair, the real
/// and the imaginary parts of its first vector.
pub(crate) fn vectors_of_schur_form<T: Field>(t: &Matrix<'_, T>, values: &[T::Complex]) -> Vec<T> {
    let n = values.len();
    let mut vectors = scratch::filled(T::ZERO, n * n);
    let mut groups = scratch::with_capacity(n.div_ceil(GROUP));
    let (mut rest, mut first) = (MatrixMut::new(&mut vectors, n, n, n), 0);
    while first < n {
        let end = first + (n - first).min(GROUP);
        let end = end + usize::from(end < n && is_second::<T>(values[end]));
        let (x, others) = rest.split_columns(end - first);
        groups.push(Group { t: *t, values, first, x });
        (rest, first) = (others, end);
    }
    for_each_task(groups, |mut group| group.solve());
    vectors
}

/// Some vectors next to each other.
struct Group<'a, T: Field> {
    t: Matrix<'a, T>,
    values: &'a [T::Complex],
    /// The number of the first one.
    first: usize,
    x: MatrixMut<'a, T>,
}

impl<T: Field> Group<'_, T> {
    fn solve(&mut self) {
        let mut end = self.first + self.x.columns();
        while end > 0 {
            let start = end.saturating_sub(ROWS);
            // Not the second row of a diagonal block.
            let is_split = !T::IS_COMPLEX && start > 0 && self.t.at(start, start - 1) != T::ZERO;
            let start = if is_split { start - 1 } else { start };
            self.solve_rows(start..end);
            self.add_products(start..end);
            end = start;
        }
    }

    /// Adds to the rows above what known rows contribute.
    fn add_products(&mut self, rows: Range<usize>) {
        let columns = self.x.columns();
        let (above, known) = self.x.reborrow().split_rows(rows.start);
        let known = known.block(0, 0, [rows.len(), columns]);
        let factors = self.t.block(0, rows.start, [rows.start, rows.len()]);
        if rows.start > 0 {
            let mut above = above;
            above.multiply_add(T::Real::ONE, &factors, &known.view(), T::Real::ONE);
        }
    }

    /// Solves for some rows of all vectors.
    fn solve_rows(&mut self, rows: Range<usize>) {
        let mut x = scratch::filled(T::Complex::ZERO, rows.len());
        for column in 0..self.x.columns() {
            let index = self.first + column;
            if is_second::<T>(self.values[index]) || index < rows.start {
                continue;
            }
            let is_pair = !T::IS_COMPLEX && self.values[index].im() > T::Real::ZERO;
            self.load(column, is_pair, &rows, &mut x);
            let scale = self.substitute(index, &rows, &mut x);
            self.store(column, is_pair, &rows, &x, scale);
        }
    }

    fn substitute(&self, index: usize, rows: &Range<usize>, x: &mut [T::Complex]) -> T::Real {
        let value = self.values[index];
        let smallest = (unit::<T::Real>() * value.pivot_size()).larger(negligible_size(self.values.len()));
        let size = rows.len();
        let t = self.t.block(rows.start, rows.start, [size, size]);
        let mut substitution = BackSubstitution::<T> { t, value, smallest, x, scale: T::Real::ONE };
        with_processor_vectors(
            #[inline(always)]
            || {
                if index < rows.end {
                    substitution.start(index - rows.start);
                } else {
                    substitution.run(size);
                }
            },
        );
        substitution.scale
    }

    fn load(&mut self, column: usize, is_pair: bool, rows: &Range<usize>, x: &mut [T::Complex]) {
        let re = &self.x.column(column)[rows.clone()];
        x.iter_mut().zip(re).for_each(|(x, re)| *x = complex(*re));
        if is_pair {
            let im = &self.x.column(column + 1)[rows.clone()];
            x.iter_mut().zip(im).for_each(|(x, im)| *x = T::Complex::from_parts(x.re(), im.re()));
        }
    }

    /// Writes what was solved, and scales the other rows as these were.
    fn store(&mut self, column: usize, is_pair: bool, rows: &Range<usize>, x: &[T::Complex], scale: T::Real) {
        let mut write = |column: usize, part: &dyn Fn(&T::Complex) -> T| {
            let column = self.x.column(column);
            if scale != T::Real::ONE {
                column.iter_mut().for_each(|x| *x = x.scaled(scale));
            }
            column[rows.clone()].iter_mut().zip(x).for_each(|(to, x)| *to = part(x));
        };
        write(column, &|x| T::from_parts(x.re(), x.im()));
        if is_pair {
            write(column + 1, &|x| T::from_real(x.im()));
        }
    }
}

/// The solution of `(t - value) x = 0`. An element of `x` that is not yet known holds the sum of the known ones times its row.
struct BackSubstitution<'a, T: Field> {
    t: Matrix<'a, T>,
    value: T::Complex,
    /// What replaces smaller divisors.
    smallest: T::Real,
    x: &'a mut [T::Complex],
    /// What the vector was scaled by.
    scale: T::Real,
}

impl<T: Field> BackSubstitution<'_, T> {
    #[inline(always)]
    fn at(&self, row: usize, column: usize) -> T::Complex {
        complex(self.t.at(row, column))
    }

    /// An element of the diagonal less the eigenvalue.
    #[inline(always)]
    fn diagonal(&self, row: usize) -> T::Complex {
        self.at(row, row) - self.value
    }

    /// Whether a row is the second one of a block.
    #[inline(always)]
    fn ends_block(&self, row: usize) -> bool {
        !T::IS_COMPLEX && row > 0 && self.t.at(row, row - 1) != T::ZERO
    }

    /// Solves from the row of the eigenvalue on.
    #[inline(always)]
    fn start(&mut self, index: usize) {
        self.x[index] = T::Complex::ONE;
        let is_pair = index + 1 < self.x.len() && self.ends_block(index + 1);
        if is_pair {
            self.start_in_block(index);
            self.add_column(index + 1, index);
        }
        self.add_column(index, index);
        self.run(index);
    }

    /// Solves for the rows before `row`.
    #[inline(always)]
    fn run(&mut self, mut row: usize) {
        while row > 0 {
            row -= 1;
            if self.ends_block(row) {
                row -= 1;
                self.solve_block(row);
                self.add_column(row + 1, row);
            } else {
                let divisor = self.diagonal(row);
                self.divide(row, divisor);
            }
            self.add_column(row, row);
        }
    }

    /// The eigenvector of a block of two rows, from the row whose element off the diagonal is larger.
    fn start_in_block(&mut self, k: usize) {
        let (above, below) = (self.at(k, k + 1), self.at(k + 1, k));
        let vector = if above.pivot_size() >= below.pivot_size() {
            [above, -self.diagonal(k)]
        } else {
            [-self.diagonal(k + 1), below]
        };
        let size = vector[0].pivot_size().larger(vector[1].pivot_size());
        [self.x[k], self.x[k + 1]] = vector.map(|x| x.divided(size));
    }

    /// Adds a known element times its column to the sums above a row.
    #[inline(always)]
    fn add_column(&mut self, column: usize, above: usize) {
        let (known, factors) = (self.x[column], &self.t.column(column)[..above]);
        for (x, factor) in self.x.iter_mut().zip(factors) {
            let product = if T::IS_COMPLEX { known * complex(*factor) } else { known.scaled(factor.re()) };
            *x = *x + product;
        }
    }

    /// Divides the negative of an element by `divisor`, and scales the vector down where the quotient would be too large.
    #[inline(always)]
    fn divide(&mut self, index: usize, divisor: T::Complex) {
        let divisor =
            if divisor.pivot_size() < self.smallest { T::Complex::from_real(self.smallest) } else { divisor };
        let bound = T::Real::LARGEST_ELEMENT * divisor.pivot_size();
        let size = self.x[index].pivot_size();
        if size > bound {
            let factor = bound / size;
            self.x.iter_mut().for_each(|x| *x = x.scaled(factor));
            self.scale = self.scale * factor;
        }
        self.x[index] = -(self.x[index] / divisor);
    }

    /// The elements of a block of two rows, by elimination with the larger element of the first column.
    fn solve_block(&mut self, k: usize) {
        let rows = [[self.diagonal(k), self.at(k, k + 1)], [self.at(k + 1, k), self.diagonal(k + 1)]];
        let exchanged = rows[1][0].pivot_size() > rows[0][0].pivot_size();
        let [[pivot, beside], [below, corner]] = if exchanged { [rows[1], rows[0]] } else { rows };
        if exchanged {
            self.x.swap(k, k + 1);
        }
        let factor = below / pivot;
        self.x[k + 1] = self.x[k + 1] - factor * self.x[k];
        self.divide(k + 1, corner - factor * beside);
        self.x[k] = self.x[k] + beside * self.x[k + 1];
        self.divide(k, pivot);
    }
}
