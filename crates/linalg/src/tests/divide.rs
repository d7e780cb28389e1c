//! Divide and conquer: matrices that are cut several times, and those whose parts share eigenvalues or singular values.

use super::spectral::{Wide, check_eigen, check_svd, eigen, hilbert, symmetric};
use super::{assert_orthonormal, assert_same_bits};
use crate::divide::secular::Equation;
use crate::svd;

/// Sizes that are cut once and several times, evenly and unevenly.
const SIZES: [usize; 5] = [33, 64, 67, 130, 201];

fn tridiagonal(n: usize, d: impl Fn(usize) -> f64, e: impl Fn(usize) -> f64) -> Wide {
    Wide::from_fn(n, n, |i, j| match i.abs_diff(j) {
        0 => d(i),
        1 => e(i.min(j)),
        _ => 0.0,
    })
}

fn bidiagonal(n: usize, d: impl Fn(usize) -> f64, e: impl Fn(usize) -> f64) -> Wide {
    Wide::from_fn(n, n, |i, j| match (i == j, i + 1 == j) {
        (true, _) => d(i),
        (_, true) => e(i),
        _ => 0.0,
    })
}

/// Wilkinson's matrices of 21 rows, side by side.
fn glued_wilkinson(n: usize, glue: f64) -> Wide {
    let distance = |i: usize| ((i % 21) as f64 - 10.0).abs();
    tridiagonal(n, distance, |i| if i % 21 == 20 { glue } else { 1.0 })
}

fn sign(i: usize) -> f64 {
    if i % 3 == 1 { -1.0 } else { 1.0 }
}

#[test]
fn eigenvalues_of_tridiagonal_matrices() {
    for n in SIZES {
        for glue in [1.0, 1e-4, 1e-8, 1e-14, 1e-300, 0.0] {
            check_eigen(&glued_wilkinson(n, glue), &format!("{n}: Wilkinson, glued by {glue:e}"));
        }
        check_eigen(&tridiagonal(n, |_| 0.0, |i| sign(i)), "zeros on the diagonal");
        check_eigen(&tridiagonal(n, |_| 1.0, |_| 1e-9), "nearly the identity");
        check_eigen(&tridiagonal(n, |i| 10f64.powi(-(i as i32)), |i| 10f64.powi(-(i as i32) - 1)), "graded");
        check_eigen(
            &tridiagonal(n, |i| 10f64.powi(i as i32 - n as i32), |i| 10f64.powi(i as i32 - n as i32)),
            "graded upward",
        );
        check_eigen(&tridiagonal(n, |i| f64::from(u8::from(i == n / 2)), |_| 0.0), "one number");
        check_eigen(&tridiagonal(n, |_| 0.0, |i| f64::from(u8::from(i + 1 == n / 2))), "two numbers");
        let huge = check_eigen(&tridiagonal(n, |_| 2e110, |_| -1e110), "large numbers");
        for (k, value) in (1..).zip(huge) {
            let exact = 4.0 * (std::f64::consts::FRAC_PI_2 * f64::from(k) / (n + 1) as f64).sin().powi(2);
            assert!((value / 1e110 - exact).abs() < 30.0 * f64::EPSILON, "{n}: {value} is not {exact}e110");
        }
    }
}

#[test]
fn eigenvalues_of_full_matrices() {
    for n in SIZES {
        check_eigen(&symmetric(n, n as u64), "random");
        check_eigen(&hilbert(n, n), "Hilbert");
        let low_rank = Wide::random(n, 3, 7);
        check_eigen(&low_rank.times(&low_rank.transposed()), "rank 3");
        check_eigen(&Wide::from_fn(n, n, |_, _| 1.0), "rank one");
        assert_eq!(check_eigen(&Wide::from_fn(n, n, |_, _| 0.0), "zero"), vec![0.0; n]);
        assert_eq!(check_eigen(&Wide::identity(n, n), "identity"), vec![1.0; n]);
        check_eigen(&symmetric(n, 5).map(|i, j, x| x * 0.8f64.powi((i + j) as i32)), "graded");
    }
}

#[test]
fn singular_values_of_bidiagonal_matrices() {
    for n in SIZES {
        check_svd(&bidiagonal(n, |_| 1.0, |_| 1.0), "ones");
        check_svd(&bidiagonal(n, |_| 0.0, |_| 1.0), "zeros on the diagonal");
        check_svd(&bidiagonal(n, |_| 1.0, |_| 1e-9), "nearly the identity");
        check_svd(
            &bidiagonal(n, |i| f64::from(u8::from(i % 5 != 2)), |i| sign(i)),
            "some zeros on the diagonal",
        );
        check_svd(&bidiagonal(n, |i| sign(i), |i| f64::from(u8::from(i % 4 != 1))), "some zeros beside it");
        check_svd(&bidiagonal(n, |i| 10f64.powi(-(i as i32)), |i| 10f64.powi(-(i as i32))), "graded");
        check_svd(
            &bidiagonal(n, |i| 10f64.powi(i as i32 - n as i32), |i| 10f64.powi(i as i32 - n as i32)),
            "graded upward",
        );
        check_svd(&bidiagonal(n, |i| f64::from(u8::from(i == n / 2)), |_| 0.0), "one number");
        check_svd(
            &bidiagonal(n, |_| 0.0, |i| f64::from(u8::from(i == n / 2))),
            "one number beside the diagonal",
        );
        let glued = |i: usize| ((i % 21) as f64 - 10.0).abs();
        check_svd(&bidiagonal(n, glued, |i| if i % 21 == 20 { 1e-8 } else { 1.0 }), "equal blocks");
    }
}

#[test]
fn singular_values_of_full_matrices() {
    for n in SIZES {
        check_svd(&Wide::random(n, n, n as u64), "random");
        check_svd(&Wide::random(n + 40, n, n as u64), "tall");
        check_svd(&Wide::random(n, 2 * n, n as u64), "wide");
        check_svd(&hilbert(n, n), "Hilbert");
        check_svd(&Wide::random(n, 3, 7).times(&Wide::random(3, n, 8)), "rank 3");
        check_svd(&Wide::from_fn(n, n, |_, _| 1.0), "rank one");
        assert_eq!(check_svd(&Wide::from_fn(n, n, |_, _| 0.0), "zero"), vec![0.0; n]);
        assert_eq!(check_svd(&Wide::identity(n + 1, n), "identity"), vec![1.0; n]);
        check_svd(&Wide::random(n, n, 5).map(|i, j, x| x * 0.8f64.powi((i + j) as i32)), "graded");
        // Rows that are extremely small beside others.
        check_svd(
            &Wide::random(n, n, 6).map(|i, _, x| if i % 2 == 0 { x * 1e-150 } else { x }),
            "small rows",
        );
        // Equal values: a reflection.
        let v = Wide::random(n, 1, 9);
        let square = v.norm().powi(2);
        let reflection =
            Wide::from_fn(n, n, |i, j| f64::from(u8::from(i == j)) - 2.0 * v.data[i] * v.data[j] / square);
        check_svd(&reflection, "reflection");
        check_eigen(&reflection, "reflection");
    }
}

#[test]
fn roots_and_weights_of_secular_equations() {
    for (n, squared) in [1, 2, 3, 7, 50, 300].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        for small in [1.0, 1e-3, 1e-7, 1e-13] {
            let gaps = Wide::random(n, 1, 3).data;
            let mut points: Vec<f64> = gaps
                .iter()
                .scan(0.0, |sum, x| {
                    *sum += x.abs() * small + 1e-14;
                    Some(*sum)
                })
                .collect();
            points[0] = 0.0;
            let weights: Vec<f64> = Wide::random(n, 1, 4)
                .data
                .iter()
                .enumerate()
                .map(|(i, x)| if i % 2 == 0 { x * small } else { *x })
                .collect();
            let equation = Equation { points: &points, weights: &weights, squared };
            let roots = equation.solve().unwrap();
            let values: Vec<f64> = roots.iter().map(|root| equation.value(*root)).collect();
            // Between the poles.
            assert!(
                (0..n).all(
                    |i| points[i] <= values[i] && points.get(i + 1).is_none_or(|next| values[i] <= *next)
                )
            );
            let exact = equation.exact_weights(&roots);
            let mut distances = vec![0.0; n];
            let columns = roots.iter().flat_map(|root| {
                equation.distances(*root, &mut distances);
                let x: Vec<f64> = exact.iter().zip(&distances).map(|(w, distance)| w / distance).collect();
                let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                x.into_iter().map(move |x| x / length).collect::<Vec<f64>>()
            });
            let vectors = Wide { data: columns.collect(), rows: n, columns: n };
            assert_orthonormal(&vectors, &format!("{n} roots, weights {small:e}"));
            // Weights that are large enough are those of the equation.
            for (exact, given) in exact.iter().zip(&weights).filter(|(_, given)| given.abs() > 1e-2) {
                assert!((exact - given).abs() < 1e-10, "{n}, {small:e}: {exact} is not {given}");
            }
        }
    }
}

#[test]
fn numbers_of_threads_change_no_bit() {
    let (a, b) = (symmetric(300, 2), Wide::random(310, 290, 3));
    let singular = |b: &Wide| {
        let (mut values, mut u, mut v) = (vec![0.0; 290], Wide::identity(310, 290), Wide::identity(290, 290));
        svd(b.clone().view_mut(), &mut values, Some((u.view_mut(), v.view_mut()))).unwrap();
        (values, u, v)
    };
    assert_same_bits(|| (eigen(&a).unwrap(), singular(&b)));
}
