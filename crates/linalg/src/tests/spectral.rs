//! Eigenvalues of Hermitian matrices and singular values.

use super::{Dense, assert_close, assert_orthonormal, assert_same_bits, sizes};
use crate::{Failure, hermitian, svd};
use std::time::{Duration, Instant};

pub(super) type Wide = Dense<f64>;

pub(super) fn symmetric(n: usize, seed: u64) -> Wide {
    let x = Wide::random(n, n, seed);
    let other = x.transposed();
    x.map(|i, j, x| x + other.at(i, j))
}

fn scaled_columns(a: &Wide, by: &[f64]) -> Wide {
    a.map(|_, j, x| x * by[j])
}

pub(super) fn eigen(a: &Wide) -> Result<(Vec<f64>, Wide), Failure> {
    let (mut vectors, mut values) = (a.clone(), vec![0.0; a.rows]);
    hermitian(vectors.view_mut(), &mut values, true)?;
    Ok((values, vectors))
}

pub(super) fn check_eigen(a: &Wide, what: &str) -> Vec<f64> {
    let (values, vectors) = eigen(a).expect(what);
    assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "{what}: ascending");
    assert_orthonormal(&vectors, what);
    assert_close(a, &scaled_columns(&vectors, &values).times(&vectors.transposed()), what);
    let mut alone = vec![0.0; a.rows];
    hermitian(a.clone().view_mut(), &mut alone, false).expect(what);
    assert_eq!(alone, values, "{what}: values are the same without vectors");
    values
}

pub(super) fn hilbert(m: usize, n: usize) -> Wide {
    Wide::from_fn(m, n, |i, j| 1.0 / (i + j + 1) as f64)
}

#[test]
fn eigenvalues_of_random_matrices() {
    for n in sizes() {
        check_eigen(&symmetric(n, n as u64), &format!("random {n}"));
    }
}

/// The reduction is computed in f32, the rest in f64: eigenvalues are right to a rounding error of the norm, unlike those of LAPACK.
#[test]
fn eigenvalues_of_f32_are_accurate() {
    let of_f32 = |a: &Wide| Dense::<f32>::from_fn(a.rows, a.columns, |i, j| a.at(i, j));
    let sizes = (0..=40).chain([63, 64, 65, 97, 130, 200]);
    let matrices = sizes.map(|n| symmetric(n, n as u64)).chain([
        hilbert(150, 150),
        symmetric(140, 7).map(|i, j, x| x * 10f64.powf((i + j) as f64 / -40.0)),
        symmetric(140, 7).map(|i, j, x| x * 1e-6 + f64::from(u8::from(i == j))),
        Wide::from_fn(140, 140, |_, _| 1.0),
        symmetric(130, 3).map(|_, _, x| x * 1e36),
        symmetric(130, 3).map(|_, _, x| x * 1e-36),
    ]);
    for a in matrices.map(|a| of_f32(&a)) {
        let n = a.rows;
        let (mut vectors, mut values) = (a.clone(), vec![0.0; n]);
        hermitian(vectors.view_mut(), &mut values, true).unwrap();
        let (exact, _) = eigen(&Wide::from_fn(n, n, |i, j| f64::from(a.at(i, j)))).unwrap();
        let norm = exact.iter().fold(0.0, |norm: f64, x| norm.max(x.abs()));
        for (value, exact) in values.iter().zip(&exact) {
            let error = (value - exact).abs() / norm / f64::from(f32::EPSILON);
            assert!(error <= 3.0, "{n}: {value} is {error} rounding errors from {exact}");
        }
        assert_orthonormal(&vectors, "f32");
        let scaled = vectors.map(|_, j, x| (f64::from(x) * values[j] / norm.max(1e-300)) as f32);
        let unit = a.map(|_, _, x| (f64::from(x) / norm.max(1e-300)) as f32);
        assert_close(&unit, &scaled.times(&vectors.transposed()), "f32");
        let mut alone = vec![0.0; n];
        hermitian(a.clone().view_mut(), &mut alone, false).unwrap();
        assert_eq!(alone, values);
    }
    let a = of_f32(&symmetric(300, 5));
    assert_same_bits(|| {
        let (mut vectors, mut values) = (a.clone(), vec![0.0; 300]);
        hermitian(vectors.view_mut(), &mut values, true).unwrap();
        (vectors, values)
    });
}

#[test]
fn eigenvalues_of_known_matrices() {
    for n in [1, 2, 3, 10, 50, 120] {
        let second = Wide::from_fn(n, n, |i, j| [2.0, -1.0, 0.0][i.abs_diff(j).min(2)]);
        let values = check_eigen(&second, "second difference");
        for (k, value) in (1..).zip(values) {
            let angle = std::f64::consts::PI * f64::from(k) / (n + 1) as f64;
            let exact = 4.0 * (angle / 2.0).sin().powi(2);
            assert!((value - exact).abs() < 20.0 * f64::EPSILON, "{n}: {value} is not {exact}");
        }
        let ones = check_eigen(&Wide::from_fn(n, n, |_, _| 1.0), "rank one");
        assert!((ones[n - 1] - n as f64).abs() < 1e-13 * n as f64);
        assert_eq!(check_eigen(&Wide::from_fn(n, n, |_, _| 0.0), "zero"), vec![0.0; n]);
        assert_eq!(check_eigen(&Wide::identity(n, n), "identity"), vec![1.0; n]);
    }
    check_eigen(&hilbert(30, 30), "Hilbert");
    let wilkinson = |n: usize| {
        Wide::from_fn(n, n, |i, j| [(i as f64 - (n / 2) as f64).abs(), 1.0, 0.0][i.abs_diff(j).min(2)])
    };
    check_eigen(&wilkinson(21), "Wilkinson");
    check_eigen(&wilkinson(101), "Wilkinson");
    // Equal and clustered eigenvalues, by a reflection that is orthogonal to rounding errors.
    let (_, basis) = eigen(&symmetric(40, 3)).unwrap();
    for spread in [0.0, 1e-14, 1e-8] {
        let values: Vec<f64> =
            (0..40).map(|k| if k < 20 { 1.0 + spread * f64::from(k) } else { -3.0 }).collect();
        let a = scaled_columns(&basis, &values).times(&basis.transposed());
        let symmetrized = a.map(|i, j, x| (x + a.at(j, i)) / 2.0);
        check_eigen(&symmetrized, "clusters");
    }
}

#[test]
fn graded_and_extreme_matrices() {
    for n in [2, 9, 33] {
        let a = symmetric(n, 5);
        let graded = a.map(|i, j, x| x * 10f64.powi(-(i as i32 + j as i32) / 4));
        check_eigen(&graded, "graded");
        check_svd(&graded, "graded");
        let upward = a.map(|i, j, x| x * 10f64.powi((i as i32 + j as i32) / 4 - n as i32));
        check_eigen(&upward, "graded upward");
        check_svd(&upward, "graded upward");
        let expected = eigen(&a).unwrap().0;
        // Powers of two: results are those of the plain matrix, times the power.
        for exponent in [-1000, -600, 600, 1010] {
            let factor = f64::from(exponent).exp2();
            let values = eigen(&a.map(|_, _, x| x * factor)).unwrap().0;
            for (value, expected) in values.iter().zip(&expected) {
                assert!((value / factor - expected).abs() < 1e-13 * n as f64, "2^{exponent}: {value:e}");
            }
            let (_, values, _) = singular(&a.map(|_, _, x| x * factor)).unwrap();
            assert!(values.iter().all(|value| value.is_finite()));
        }
        let subnormal = eigen(&a.map(|_, _, x| x * 1e-310)).unwrap().0;
        assert!(
            subnormal.iter().zip(&expected).all(|(value, expected)| (value / 1e-310 - expected).abs() < 1e-9)
        );
    }
}

fn singular(a: &Wide) -> Result<(Wide, Vec<f64>, Wide), Failure> {
    if a.rows < a.columns {
        let (v, values, u) = singular(&a.transposed())?;
        return Ok((u, values, v));
    }
    let (m, n) = (a.rows, a.columns);
    let (mut u, mut v, mut values) = (Wide::identity(m, m), Wide::identity(n, n), vec![0.0; n]);
    svd(a.clone().view_mut(), &mut values, Some((u.view_mut(), v.view_mut())))?;
    Ok((u, values, v))
}

pub(super) fn check_svd(a: &Wide, what: &str) -> Vec<f64> {
    let (u, values, v) = singular(a).expect(what);
    let count = values.len();
    assert!(values.windows(2).all(|pair| pair[0] >= pair[1]) && values.iter().all(|s| *s >= 0.0), "{what}");
    assert_orthonormal(&u, what);
    assert_orthonormal(&v, what);
    let middle =
        Wide::from_fn(u.columns, v.columns, |i, j| if i == j && i < count { values[i] } else { 0.0 });
    assert_close(a, &u.times(&middle).times(&v.transposed()), what);
    let (mut tall, mut alone) =
        (if a.rows < a.columns { a.transposed() } else { a.clone() }, vec![0.0; count]);
    svd(tall.view_mut(), &mut alone, None).expect(what);
    assert_eq!(alone, values, "{what}: values are the same without vectors");
    values
}

#[test]
fn singular_values_of_random_matrices() {
    for n in sizes() {
        check_svd(&Wide::random(n, n, n as u64), &format!("{n} x {n}"));
        check_svd(&Wide::random(n + 11, n, n as u64), &format!("{} x {n}", n + 11));
        check_svd(&Wide::random(n, n + 1, n as u64), &format!("{n} x {}", n + 1));
    }
}

#[test]
fn singular_values_of_known_matrices() {
    for n in [1, 2, 3, 25, 60] {
        let ones = check_svd(&Wide::from_fn(n + 3, n, |_, _| 1.0), "rank one");
        assert!((ones[0] - ((n * (n + 3)) as f64).sqrt()).abs() < 1e-13 * n as f64);
        assert!(ones[1..].iter().all(|s| *s < 1e-14 * n as f64));
        assert_eq!(check_svd(&Wide::from_fn(n, n, |_, _| 0.0), "zero"), vec![0.0; n]);
        assert_eq!(check_svd(&Wide::identity(n + 1, n), "identity"), vec![1.0; n]);
        // Nilpotent: one zero, the others 1.
        let nilpotent = check_svd(&Wide::from_fn(n, n, |i, j| f64::from(u8::from(i + 1 == j))), "nilpotent");
        assert_eq!(nilpotent, (0..n).map(|k| f64::from(u8::from(k + 1 < n))).collect::<Vec<_>>());
        // The Kahan matrix: ill conditioned without a small element on its diagonal.
        let (s, c) = (0.6f64, 0.8f64);
        check_svd(
            &Wide::from_fn(n, n, |i, j| {
                s.powi(i as i32)
                    * if i == j {
                        1.0
                    } else if i < j {
                        -c
                    } else {
                        0.0
                    }
            }),
            "Kahan",
        );
    }
    check_svd(&hilbert(40, 25), "Hilbert");
    // The squares of singular values are eigenvalues of the product.
    let a = Wide::random(30, 12, 1);
    let (values, squares) = (check_svd(&a, "random"), check_eigen(&a.transposed().times(&a), "square"));
    for (value, square) in values.iter().rev().zip(squares) {
        assert!((value * value - square).abs() < 1e-13 * squares_norm(&values));
    }
}

fn squares_norm(values: &[f64]) -> f64 {
    values.iter().map(|s| s * s).sum()
}

#[test]
fn small_singular_values_of_a_bidiagonal_matrix_keep_their_digits() {
    // Diagonal numbers over 200 orders of magnitude beside equal ones: the product of the values is the determinant.
    let n = 11;
    let a = Wide::from_fn(n, n, |i, j| match (i == j, i + 1 == j) {
        (true, _) => 10f64.powi(-20 * i as i32),
        (_, true) => 10f64.powi(-20 * i as i32),
        _ => 0.0,
    });
    let values = check_svd(&a, "graded bidiagonal");
    // By perturbation theory, values[k] is 1e-20k up to a factor of sqrt(2): the row has norm sqrt(2), what is left 1 / sqrt(2).
    let logarithms: f64 = values.iter().map(|s| s.log10()).sum();
    assert!((logarithms + 20.0 * 55.0).abs() < 1e-11, "{logarithms}");
}

#[test]
fn numbers_that_are_not_finite_are_refused_at_once() {
    let start = Instant::now();
    for n in 1..=9 {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for at in 0..n * n {
                let is_there = |i: usize, j: usize| i * n + j == at;
                let a = symmetric(n, 1).map(|i, j, x| if is_there(i, j) || is_there(j, i) { bad } else { x });
                assert_eq!(eigen(&a).unwrap_err(), Failure::NotFinite);
                let general = Wide::random(n, n, 2).map(|i, j, x| if is_there(i, j) { bad } else { x });
                assert_eq!(singular(&general).unwrap_err(), Failure::NotFinite);
            }
        }
    }
    let a = symmetric(300, 1).map(|i, j, x| if i == 299 && j == 299 { f64::NAN } else { x });
    assert_eq!(eigen(&a).unwrap_err(), Failure::NotFinite);
    assert!(start.elapsed() < Duration::from_secs(5));
    // What is not read may be anything.
    let a = symmetric(6, 1);
    assert_eq!(eigen(&a.map(|i, j, x| if i < j { f64::NAN } else { x })).unwrap().0, eigen(&a).unwrap().0);
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (a, b) = (symmetric(150, 2), Wide::random(160, 140, 3));
    assert_same_bits(|| (eigen(&a).unwrap(), singular(&b).unwrap()));
}
