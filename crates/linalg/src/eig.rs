//! Eigenvalues and eigenvectors of any square matrix: balancing, the Schur form, back substitution.

use crate::balance::Balance;
use crate::field::Field;
use crate::hessenberg::hessenberg;
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::product_below_diagonal;
use crate::reflector::norm;
use crate::scaling::{Failure, scale};
use crate::schur::{Basis, Iteration, complex, negligible_size};
use flambeau_core::Complex;
use flambeau_gemm::scratch;
use flambeau_parallel::for_each_task;
use flambeau_vectorized::with_processor_vectors;

/// The largest element of a vector while it is computed. Larger ones are scaled down, and the others with them.
const LARGEST: f64 = 1e60;

/// Rows from which on columns begin a cache line later than their length says: where it is a power of two, columns would share a few
/// sets of the L1 cache.
const PADDED: usize = 64;
/// The elements of a cache line of f64.
const PADDING: usize = 8;
/// Columns of a triangle that are multiplied at once.
const TRIANGLE: usize = 64;

/// Rows from which on several threads compute vectors.
const WORTH_THREADS: usize = 64;

/// The eigenvalues of a matrix, in the order in which they are found on the diagonal of its Schur form, and eigenvectors as columns of
/// norm 1. Those of a real matrix are real, or conjugates that follow each other, of which the first has the positive imaginary part.
/// The largest element of a complex vector is real. `a` is overwritten with anything.
///
/// A matrix without a basis of eigenvectors has nearly parallel ones, as in LAPACK.
///
/// # Errors
/// [`Failure`]; the results then hold anything.
pub fn eig<T: Field<Real = f64>>(
    mut a: MatrixMut<'_, T>,
    values: &mut [Complex<f64>],
    vectors: Option<MatrixMut<'_, Complex<f64>>>,
) -> Result<(), Failure> {
    let n = a.rows();
    assert!(a.columns() == n && values.len() == n, "{n} eigenvalues of a square matrix");
    if n == 0 {
        return Ok(());
    }
    let factor = scale(&mut a)?;
    let pitch = if n < PADDED { n } else { n + PADDING };
    let mut padded = scratch::filled(T::ZERO, if n < PADDED { 0 } else { pitch * n });
    let mut a = if n < PADDED {
        a
    } else {
        let mut copy = MatrixMut::new(&mut padded, n, n, pitch);
        copy.copy_from(&a.view());
        copy
    };
    let balance = Balance::new(&mut a);
    let mut tau = scratch::filled(T::ZERO, n - 1);
    hessenberg(&mut a, &balance.active, &mut tau);
    let mut basis = scratch::filled(T::ZERO, if vectors.is_some() { pitch * n } else { 0 });
    let basis_matrix = vectors.is_some().then(|| {
        let mut basis = MatrixMut::new(&mut basis, n, n, pitch);
        basis.copy_from(&a.view());
        product_below_diagonal(&mut basis, &tau);
        basis
    });
    for j in 0..n {
        a.column(j)[(j + 2).min(n)..].fill(T::ZERO);
    }
    Iteration { h: a.reborrow(), q: Basis::new(basis_matrix), active: balance.active.clone() }.run(values)?;
    if let Some(mut vectors) = vectors {
        let of_schur_form = packed(&vectors_of_schur_form(a.view(), values), values);
        let (basis, of_schur_form) = (Matrix::new(&basis, n, n, pitch), Matrix::new(&of_schur_form, n, n, n));
        multiply_triangle(&mut a, &basis, &of_schur_form);
        unpack(&a.view(), values, &mut vectors);
        balance.undo(&mut vectors);
        normalize::<T>(&mut vectors, values);
    }
    values.iter_mut().for_each(|value| *value = factor.undone(*value));
    Ok(())
}

/// Complex columns in the type of the matrix. Those of a real matrix are real columns: for a pair, the real and the imaginary parts of
/// its first vector.
fn packed<T: Field<Real = f64>>(vectors: &[Complex<f64>], values: &[Complex<f64>]) -> Vec<T> {
    let n = values.len();
    let mut columns = scratch::with_capacity(n * n);
    for (index, value) in values.iter().enumerate() {
        if is_second::<T>(*value) {
            columns.extend(vectors[(index - 1) * n..index * n].iter().map(|x| T::from_real(x.im)));
        } else {
            columns.extend(vectors[index * n..(index + 1) * n].iter().map(|x| T::from_parts(x.re, x.im)));
        }
    }
    columns
}

/// The first vectors of pairs and the other vectors, of columns as those of [`packed`].
fn unpack<T: Field<Real = f64>>(
    columns: &Matrix<'_, T>,
    values: &[Complex<f64>],
    vectors: &mut MatrixMut<'_, Complex<f64>>,
) {
    for (index, value) in values.iter().enumerate() {
        let (to, from) = (vectors.column(index), columns.column(index));
        to.iter_mut().zip(from).for_each(|(to, from)| *to = complex(*from));
        if !T::IS_COMPLEX && value.im > 0.0 {
            let parts = columns.column(index + 1);
            to.iter_mut().zip(parts).for_each(|(to, part)| to.im = part.re());
        }
    }
}

/// `product = a b`, where `b` has zeros below the diagonal, but for an element beside it.
fn multiply_triangle<T: Field<Real = f64>>(
    product: &mut MatrixMut<'_, T>,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
) {
    let n = product.columns();
    for start in (0..n).step_by(TRIANGLE) {
        let columns = TRIANGLE.min(n - start);
        let inner = (start + columns + 1).min(n);
        let (a, b) = (a.block(0, 0, [n, inner]), b.block(0, start, [inner, columns]));
        product.reborrow().block(0, start, [n, columns]).multiply_add(1.0, &a, &b, 0.0);
    }
}

/// Whether the eigenvalue at an index is the second one of a pair of a real matrix, whose vector is the conjugate of the one before.
fn is_second<T: Field>(value: Complex<f64>) -> bool {
    !T::IS_COMPLEX && value.im < 0.0
}

/// The eigenvectors of a Schur form, column by column; zeros for the second ones of pairs.
fn vectors_of_schur_form<T: Field<Real = f64>>(
    t: Matrix<'_, T>,
    values: &[Complex<f64>],
) -> Vec<Complex<f64>> {
    let n = values.len();
    let mut vectors = scratch::filled(Complex::<f64>::ZERO, n * n);
    let solve = |(index, x): (usize, &mut [Complex<f64>])| {
        let value: Complex<f64> = values[index];
        if !is_second::<T>(value) {
            let smallest = (f64::EPSILON * value.pivot_size()).max(negligible_size(n));
            BackSubstitution { t, value, smallest, x }.run(index);
        }
    };
    let columns = vectors.chunks_exact_mut(n).enumerate();
    if n < WORTH_THREADS {
        columns.for_each(solve);
    } else {
        for_each_task(scratch::collect(columns), solve);
    }
    vectors
}

/// The solution of `(t - value) x = 0`. An element of `x` that is not yet known holds the sum of the known ones times its row.
struct BackSubstitution<'a, T> {
    t: Matrix<'a, T>,
    value: Complex<f64>,
    /// What replaces smaller divisors.
    smallest: f64,
    x: &'a mut [Complex<f64>],
}

impl<T: Field<Real = f64>> BackSubstitution<'_, T> {
    fn at(&self, row: usize, column: usize) -> Complex<f64> {
        complex(self.t.at(row, column))
    }

    /// An element of the diagonal less the eigenvalue.
    fn diagonal(&self, row: usize) -> Complex<f64> {
        self.at(row, row) - self.value
    }

    /// Whether a row is the second one of a block.
    fn ends_block(&self, row: usize) -> bool {
        !T::IS_COMPLEX && row > 0 && self.t.at(row, row - 1) != T::ZERO
    }

    fn run(&mut self, index: usize) {
        self.x[index] = Complex::<f64>::ONE;
        let is_pair = index + 1 < self.x.len() && self.ends_block(index + 1);
        if is_pair {
            self.start_in_block(index);
            self.add_column(index + 1, index);
        }
        self.add_column(index, index);
        let mut row = index;
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
        let size = vector[0].pivot_size().max(vector[1].pivot_size());
        [self.x[k], self.x[k + 1]] = vector.map(|x| x.divided(size));
    }

    /// Adds a known element times its column to the sums above a row.
    fn add_column(&mut self, column: usize, above: usize) {
        let (known, factors) = (self.x[column], &self.t.column(column)[..above]);
        with_processor_vectors(
            #[inline(always)]
            || {
                for (x, factor) in self.x.iter_mut().zip(factors) {
                    let product =
                        if T::IS_COMPLEX { known * complex(*factor) } else { known.scaled(factor.re()) };
                    *x = *x + product;
                }
            },
        );
    }

    /// Divides the negative of an element by `divisor`, and scales the vector down where the quotient would be too large.
    fn divide(&mut self, index: usize, divisor: Complex<f64>) {
        let divisor =
            if divisor.pivot_size() < self.smallest { Complex::new(self.smallest, 0.0) } else { divisor };
        let (size, bound) = (self.x[index].pivot_size(), LARGEST * divisor.pivot_size());
        if size > bound {
            self.x.iter_mut().for_each(|x| *x = x.scaled(bound / size));
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

/// Gives columns norm 1, and complex ones a real element where they are largest.
fn normalize<T: Field>(vectors: &mut MatrixMut<'_, Complex<f64>>, values: &[Complex<f64>]) {
    for (index, value) in values.iter().enumerate() {
        if is_second::<T>(*value) {
            let (first, second) = vectors.two_columns(index - 1, index);
            second.iter_mut().zip(first).for_each(|(second, first)| *second = first.conj());
            continue;
        }
        let column = vectors.column(index);
        let length = norm(column);
        column.iter_mut().for_each(|x| *x = x.divided(length));
        if !T::IS_COMPLEX && value.im == 0.0 {
            continue;
        }
        let larger = |best: usize, at: usize| {
            if column[at].magnitude() > column[best].magnitude() { at } else { best }
        };
        let at = (0..column.len()).fold(0, larger);
        let phase = column[at].conj().divided(column[at].magnitude());
        column.iter_mut().for_each(|x| *x = *x * phase);
        column[at].im = 0.0;
    }
}
