//! Complex matrices: the same residuals, orthogonality and robustness as of real ones.

use super::{Dense, assert_same_bits, sizes};
use crate::*;
use flambeau_core::Complex;
use std::time::{Duration, Instant};

pub(super) type C = Complex<f64>;
pub(super) type Numbers = Dense<C>;

impl Numbers {
    pub(super) fn of(rows: usize, columns: usize, f: impl Fn(usize, usize) -> C) -> Self {
        let data = (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| f(i, j)).collect();
        Self { data, rows, columns }
    }

    pub(super) fn drawn(rows: usize, columns: usize, seed: u64) -> Self {
        let (re, im) =
            (Dense::<f64>::random(rows, columns, seed), Dense::<f64>::random(rows, columns, seed + 1000));
        Self::of(rows, columns, |i, j| C::new(re.at(i, j), im.at(i, j)))
    }

    pub(super) fn one(rows: usize, columns: usize) -> Self {
        Self::of(rows, columns, |i, j| if i == j { C::ONE } else { C::ZERO })
    }

    pub(super) fn adjoint(&self) -> Self {
        Self::of(self.columns, self.rows, |i, j| self.at(j, i).conj())
    }

    pub(super) fn product(&self, other: &Self) -> Self {
        assert_eq!(self.columns, other.rows);
        Self::of(self.rows, other.columns, |i, j| {
            (0..self.columns).map(|k| self.at(i, k) * other.at(k, j)).sum()
        })
    }

    pub(super) fn error(&self, other: &Self) -> f64 {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        let differences = self.data.iter().zip(&other.data).map(|(a, b)| (*a - *b).magnitude());
        differences.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) })
    }

    pub(super) fn size(&self) -> f64 {
        let largest = self.data.iter().map(|x| x.magnitude()).fold(f64::MIN_POSITIVE, f64::max);
        largest * self.data.iter().map(|x| (x.magnitude() / largest).powi(2)).sum::<f64>().sqrt()
    }

    fn hermitian_part(&self) -> Self {
        let adjoint = self.adjoint();
        self.map(|i, j, x| x + adjoint.at(i, j))
    }

    /// Fails where the difference is more than rounding errors of numbers as large as the norm.
    #[track_caller]
    pub(super) fn assert_close(&self, got: &Self, what: &str) {
        let size = self.rows.max(self.columns) as f64;
        let (error, bound) = (self.error(got), f64::EPSILON * self.size() * (10.0 + 2.0 * size.sqrt()));
        assert!(error <= bound, "{what}: a difference of {error:e}, expected {bound:e}");
    }

    #[track_caller]
    pub(super) fn assert_unitary(&self, what: &str) {
        Self::one(self.columns, self.columns).assert_close(&self.adjoint().product(self), what);
    }
}

#[test]
fn products_take_conjugates() {
    for (m, n, k) in [(1, 1, 1), (3, 4, 5), (17, 9, 33), (64, 65, 70), (2, 3, 0)] {
        let (a, b, c) = (Numbers::drawn(m, k, 1), Numbers::drawn(k, n, 2), Numbers::drawn(m, n, 3));
        for (conjugate_a, conjugate_b, alpha, beta) in [
            (false, false, 1.0, 0.0),
            (true, false, -1.0, 1.0),
            (false, true, 1.0, 1.0),
            (true, true, -1.0, 0.0),
        ] {
            let flip = |x: &Numbers, flip: bool| x.map(|_, _, x| if flip { x.conj() } else { x });
            let left = if conjugate_a { a.view().conjugated() } else { a.view() };
            let right = if conjugate_b { b.view().conjugated() } else { b.view() };
            let mut got = c.clone();
            got.view_mut().multiply_add(alpha, &left, &right, beta);
            let product = flip(&a, conjugate_a).product(&flip(&b, conjugate_b));
            c.map(|i, j, x| product.at(i, j).scaled(alpha) + x.scaled(beta)).assert_close(&got, "product");
        }
    }
}

fn check_systems(n: usize) {
    let (a, b) = (Numbers::drawn(n, n, n as u64 + 7), Numbers::drawn(n, 3, 5));
    let (mut factors, mut pivots) = (a.clone(), vec![0; n]);
    assert_eq!(lu(factors.view_mut(), &mut pivots, true), 0);
    let transposed = Numbers::of(n, n, |i, j| a.at(j, i));
    for (system, matrix) in
        [(System::Plain, a.clone()), (System::Adjoint, a.adjoint()), (System::Transposed, transposed)]
    {
        let mut x = b.clone();
        solve_factored(factors.view(), &pivots, system, x.view_mut());
        let (error, scale) = (matrix.product(&x).error(&b), 1.0 + a.size() * x.size());
        assert!(error <= f64::EPSILON * (10.0 + n as f64) * scale, "{system:?} {n}: {error:e}");
    }
    let lower = Numbers::of(n, n, |i, j| if i > j { factors.at(i, j) } else { Numbers::one(n, n).at(i, j) });
    let upper = Numbers::of(n, n, |i, j| if i <= j { factors.at(i, j) } else { C::ZERO });
    let mut permuted = a.clone();
    exchange_rows(&mut permuted.view_mut(), &pivots);
    permuted.assert_close(&lower.product(&upper), "lu");
}

#[test]
fn factorizations_have_small_residuals() {
    for n in sizes() {
        check_systems(n);
        let a = Numbers::drawn(n, n, n as u64);
        let definite = a.product(&a.adjoint()).map(|i, j, x| if i == j { x + C::ONE } else { x });
        // Neither what is above the diagonal nor the imaginary parts on it are read.
        let nan = C::new(f64::NAN, 0.0);
        let mut factor = definite.map(|i, j, x| match i.cmp(&j) {
            std::cmp::Ordering::Less => nan,
            std::cmp::Ordering::Equal => C::new(x.re, 3.0),
            std::cmp::Ordering::Greater => x,
        });
        assert_eq!(cholesky(factor.view_mut()), 0);
        definite.assert_close(&factor.product(&factor.adjoint()), "cholesky");
        assert!((0..n).all(|i| factor.at(i, i).im == 0.0));
        for (m, n) in [(n, n), (n + 9, n), (n, n + 9)] {
            check_qr(m, n);
        }
    }
}

fn check_qr(m: usize, n: usize) {
    let (a, count) = (Numbers::drawn(m, n, (m * 7 + n) as u64), m.min(n));
    let (mut factors, mut tau) = (a.clone(), vec![C::ZERO; count]);
    qr(factors.view_mut(), &mut tau);
    let r = Numbers::of(count, n, |i, j| if i <= j { factors.at(i, j) } else { C::ZERO });
    assert!((0..count).all(|i| r.at(i, i).im == 0.0), "LAPACK's R has a real diagonal");
    let vectors = Numbers::of(m, count, |i, j| factors.at(i, j));
    let mut q = vectors.clone();
    householder_product(q.view_mut(), &tau);
    q.assert_unitary("qr");
    a.assert_close(&q.product(&r), "qr");
    let mut whole = Numbers::of(m, m, |i, j| if j < count { factors.at(i, j) } else { C::ZERO });
    householder_product(whole.view_mut(), &tau);
    for adjoint in [false, true] {
        let q = if adjoint { whole.adjoint() } else { whole.clone() };
        let (left, right) = (Numbers::drawn(m, 5, 1), Numbers::drawn(5, m, 2));
        let (mut x, mut y) = (left.clone(), right.clone());
        multiply_by_q(vectors.view(), &tau, [false, adjoint], x.view_mut());
        multiply_by_q(vectors.view(), &tau, [true, adjoint], y.view_mut());
        q.product(&left).assert_close(&x, "Q c");
        right.product(&q).assert_close(&y, "c Q");
    }
}

#[test]
fn triangular_systems_of_all_kinds() {
    for n in sizes() {
        let a = Numbers::drawn(n, n, n as u64)
            .map(|i, j, x| if i == j { x + C::new(3.0, 0.0) } else { x.scaled(0.2) });
        for (upper, unit) in [(false, false), (true, false), (false, true), (true, true)] {
            let full = Numbers::of(n, n, |i, j| match (i == j, if upper { i < j } else { i > j }) {
                (true, _) if unit => C::ONE,
                (true, _) | (_, true) => a.at(i, j),
                _ => C::ZERO,
            });
            let (t, b) = (Triangular { matrix: a.view(), upper, unit }, Numbers::drawn(n, 5, 8));
            let (mut x, mut y, mut z) = (b.clone(), b.adjoint(), b.clone());
            t.solve(x.view_mut());
            b.assert_close(&full.product(&x), "t x = b");
            t.solve_right(y.view_mut());
            b.adjoint().assert_close(&y.product(&full), "x t = b");
            t.adjoint().solve(z.view_mut());
            b.assert_close(&full.adjoint().product(&z), "t' x = b");
        }
    }
}

fn eigen(a: &Numbers) -> Result<(Vec<f64>, Numbers), Failure> {
    let (mut vectors, mut values) = (a.clone(), vec![0.0; a.rows]);
    hermitian(vectors.view_mut(), &mut values, true)?;
    Ok((values, vectors))
}

fn scaled_columns(a: &Numbers, by: &[f64]) -> Numbers {
    a.map(|_, j, x| x.scaled(by[j]))
}

fn singular(a: &Numbers) -> Result<(Numbers, Vec<f64>, Numbers), Failure> {
    let (m, n) = (a.rows, a.columns);
    let (mut u, mut v, mut values) = (Numbers::one(m, m), Numbers::one(n, n), vec![0.0; n]);
    svd(a.clone().view_mut(), &mut values, Some((u.view_mut(), v.view_mut())))?;
    Ok((u, values, v))
}

#[test]
fn spectra_have_small_residuals() {
    for n in sizes() {
        let a = Numbers::drawn(n, n, n as u64).hermitian_part();
        for factor in [1.0, 1e-200, 1e200] {
            let a = a.map(|_, _, x| x.scaled(factor));
            let (values, vectors) = eigen(&a).unwrap();
            vectors.assert_unitary("eigenvectors");
            a.assert_close(&scaled_columns(&vectors, &values).product(&vectors.adjoint()), "eigenvalues");
            let mut alone = vec![0.0; n];
            hermitian(a.clone().view_mut(), &mut alone, false).unwrap();
            assert_eq!(alone, values, "values are the same without vectors");
        }
        for rows in [n, n + 11] {
            let a = Numbers::drawn(rows, n, n as u64 + 3);
            let (u, values, v) = singular(&a).unwrap();
            u.assert_unitary("left vectors");
            v.assert_unitary("right vectors");
            let first = Numbers::of(rows, n, |i, j| u.at(i, j));
            a.assert_close(&scaled_columns(&first, &values).product(&v.adjoint()), "singular values");
        }
    }
    // Of rank one, equal eigenvalues, and with a diagonal of imaginary parts that are not read.
    let ones = Numbers::of(20, 20, |i, j| C::new(0.0, (i as f64) - (j as f64)));
    let (values, vectors) = eigen(&ones).unwrap();
    ones.assert_close(&scaled_columns(&vectors, &values).product(&vectors.adjoint()), "rank two");
    assert_eq!(eigen(&Numbers::one(9, 9)).unwrap().0, [1.0; 9]);
}

#[test]
fn numbers_that_are_not_finite_are_refused_at_once() {
    let start = Instant::now();
    for n in 1..=6 {
        for bad in [C::new(f64::NAN, 0.0), C::new(0.0, f64::INFINITY), C::new(f64::NEG_INFINITY, 1.0)] {
            for at in 0..n * n {
                let general = Numbers::drawn(n, n, 2).map(|i, j, x| if i * n + j == at { bad } else { x });
                assert_eq!(singular(&general).unwrap_err(), Failure::NotFinite);
                let (mut x, mut y, mut z) = (general.clone(), general.clone(), general.clone());
                lu(x.view_mut(), &mut vec![0; n], true);
                qr(y.view_mut(), &mut vec![C::ZERO; n]);
                cholesky(z.view_mut());
            }
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn bits_do_not_depend_on_threads() {
    let n = 130;
    let a = Numbers::drawn(n, n, 1);
    let definite = a.product(&a.adjoint()).map(|i, j, x| if i == j { x + C::ONE } else { x });
    assert_same_bits(|| {
        let (mut x, mut y, mut z) = (a.clone(), definite.clone(), a.clone());
        let (mut pivots, mut tau) = (vec![0; n], vec![C::ZERO; n]);
        lu(x.view_mut(), &mut pivots, true);
        cholesky(y.view_mut());
        qr(z.view_mut(), &mut tau);
        (x, y, z, tau, eigen(&a.hermitian_part()).unwrap(), singular(&a).unwrap())
    });
}

#[test]
fn few_reflectors_of_few_or_many_rows_multiply_from_both_sides() {
    for (rows, count, other) in [(1, 1, 3), (2, 2, 40), (3, 2, 9), (16, 4, 33), (17, 1, 2), (60, 3, 4)] {
        let (mut vectors, mut tau) = (Numbers::drawn(rows, count, 3), vec![C::ZERO; count]);
        qr(vectors.view_mut(), &mut tau);
        let mut q = Numbers::of(rows, rows, |i, j| if j < count { vectors.at(i, j) } else { C::ZERO });
        householder_product(q.view_mut(), &tau);
        for adjoint in [false, true] {
            let q = if adjoint { q.adjoint() } else { q.clone() };
            let (left, right) = (Numbers::drawn(rows, other, 5), Numbers::drawn(other, rows, 6));
            let (mut x, mut y) = (left.clone(), right.clone());
            // Row-major, as operators pass what is multiplied from the right.
            let mut z = Numbers::of(rows, other, |i, j| right.at(j, i));
            multiply_by_q(vectors.view(), &tau, [false, adjoint], x.view_mut());
            multiply_by_q(vectors.view(), &tau, [true, adjoint], y.view_mut());
            multiply_by_q(vectors.view(), &tau, [true, adjoint], z.view_mut().transposed());
            q.product(&left).assert_close(&x, "Q c");
            right.product(&q).assert_close(&y, "c Q");
            y.assert_close(&Numbers::of(other, rows, |i, j| z.at(j, i)), "c Q of adjacent rows");
        }
    }
}
