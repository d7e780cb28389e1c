//! Residuals, orthogonality, LAPACK's formats, extreme inputs and threads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod batch;
mod complex;
mod divide;
mod factors;
mod general;
mod spectral;

use crate::{Field, Matrix, MatrixMut, Real};

/// A column-major matrix.
#[derive(Clone, Debug, PartialEq)]
struct Dense<T> {
    data: Vec<T>,
    rows: usize,
    columns: usize,
}

/// Sizes around those at which algorithms change.
fn sizes() -> impl Iterator<Item = usize> {
    (0..=40).chain([63, 64, 65, 100])
}

impl<T: Field> Dense<T> {
    fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Self
    where
        T: From32,
    {
        let data =
            (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| T::of(f(i, j))).collect();
        Self { data, rows, columns }
    }

    fn random(rows: usize, columns: usize, seed: u64) -> Self
    where
        T: From32,
    {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        let values: Vec<f64> = (0..rows * columns).map(|_| next()).collect();
        Self::from_fn(rows, columns, |i, j| values[j * rows + i])
    }

    fn identity(rows: usize, columns: usize) -> Self
    where
        T: From32,
    {
        Self::from_fn(rows, columns, |i, j| f64::from(u8::from(i == j)))
    }

    fn view(&self) -> Matrix<'_, T> {
        Matrix::new(&self.data, self.rows, self.columns, self.rows)
    }

    fn view_mut(&mut self) -> MatrixMut<'_, T> {
        MatrixMut::new(&mut self.data, self.rows, self.columns, self.rows)
    }

    fn at(&self, i: usize, j: usize) -> T {
        self.data[j * self.rows + i]
    }

    fn map(&self, f: impl Fn(usize, usize, T) -> T) -> Self {
        let index = |at: usize| (at % self.rows, at / self.rows);
        let data = self.data.iter().enumerate().map(|(at, x)| f(index(at).0, index(at).1, *x)).collect();
        Self { data, ..*self }
    }

    fn transposed(&self) -> Self {
        let (m, n) = (self.rows, self.columns);
        let data = (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| self.at(i, j)).collect();
        Self { data, rows: n, columns: m }
    }

    /// The product, summed plainly in f64.
    fn times(&self, other: &Self) -> Self
    where
        T: From32,
    {
        assert_eq!(self.columns, other.rows);
        let term = |i, j, k| self.at(i, k).wide() * other.at(k, j).wide();
        Self::from_fn(self.rows, other.columns, |i, j| (0..self.columns).map(|k| term(i, j, k)).sum())
    }

    /// The largest difference.
    fn distance(&self, other: &Self) -> f64
    where
        T: From32,
    {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        let differences = self.data.iter().zip(&other.data).map(|(a, b)| (a.wide() - b.wide()).abs());
        differences.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) })
    }

    /// The root of the sum of squares.
    fn norm(&self) -> f64
    where
        T: From32,
    {
        self.data.iter().map(|x| x.wide().powi(2)).sum::<f64>().sqrt()
    }
}

/// The types that tests are written for, with their conversions.
trait From32: Real {
    const UNIT: f64;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
}

impl From32 for f32 {
    const UNIT: f64 = f32::EPSILON as f64 / 2.0;
    fn of(value: f64) -> Self {
        value as f32
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl From32 for f64 {
    const UNIT: f64 = f64::EPSILON / 2.0;
    fn of(value: f64) -> Self {
        value
    }
    fn wide(self) -> f64 {
        self
    }
}

/// Asserts that `a' a` is the identity.
fn assert_orthonormal<T: From32>(a: &Dense<T>, what: &str) {
    let error = a.transposed().times(a).distance(&Dense::identity(a.columns, a.columns));
    let bound = T::UNIT * (10.0 + 2.0 * (a.rows as f64));
    assert!(error <= bound, "{what}: columns are orthonormal to {error:e}, expected {bound:e}");
}

/// Asserts that two matrices differ by rounding errors of numbers as large as the norm of the first.
///
/// LAPACK's residuals in these units, on the same kinds and sizes of matrices (OpenBLAS, three seeds each): up to 20.9 for singular values,
/// where the bound is 14; 7.3 for eigenvalues of Hermitian matrices, 2.2 for QR, 1.7 for Cholesky, 1.2 for LU.
fn assert_close<T: From32>(expected: &Dense<T>, got: &Dense<T>, what: &str) {
    let error = expected.distance(got);
    let size = expected.rows.max(expected.columns) as f64;
    let bound = T::UNIT * expected.norm() * (10.0 + 2.0 * size.sqrt());
    assert!(error <= bound, "{what}: a difference of {error:e}, expected {bound:e}");
}

/// Calls `f` with 1, 2, 3 and 7 threads, and asserts that results are equal bit for bit.
fn assert_same_bits<R: PartialEq + std::fmt::Debug>(f: impl Fn() -> R) {
    let known = flambeau_parallel::num_threads();
    let results = [1, 2, 3, 7].map(|threads| {
        flambeau_parallel::set_num_threads(threads);
        f()
    });
    flambeau_parallel::set_num_threads(known);
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}
