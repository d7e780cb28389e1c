//! Eigenvalues of matrices without symmetry, and factorizations of indefinite symmetric ones.

use super::complex::{C, Numbers};
use super::{Dense, assert_same_bits, sizes};
use crate::*;
use flambeau_core::Complex;
use std::time::{Duration, Instant};

type Wide = Dense<f64>;

/// Eigenvalues and eigenvectors, computed in the type of the matrix.
fn decomposed<T: Field>(a: &Dense<T>) -> Result<(Vec<C>, Numbers), Failure> {
    let n = a.rows;
    let (mut values, mut vectors) = (vec![T::Complex::ZERO; n], vec![T::Complex::ZERO; n * n]);
    eig(a.clone().view_mut(), &mut values, Some(MatrixMut::new(&mut vectors, n, n, n)))?;
    let vectors = Dense { data: vectors, rows: n, columns: n };
    Ok((values.into_iter().map(wide).collect(), complex(&vectors)))
}

fn wide<T: Field>(x: T) -> C {
    C::new(x.re().to_f64(), x.im().to_f64())
}

fn complex<T: Field>(a: &Dense<T>) -> Numbers {
    Numbers::of(a.rows, a.columns, |i, j| wide(a.at(i, j)))
}

/// A matrix in another type, of which a real one takes the real parts.
fn in_type<T: Field>(a: &Numbers) -> Dense<T> {
    let part = T::Real::from_f64;
    let data = a.data.iter().map(|x| T::from_parts(part(x.re), part(x.im))).collect();
    Dense { data, rows: a.rows, columns: a.columns }
}

/// Residuals as LAPACK's: each is at most a few rounding errors of the norm, whatever the condition of the eigenvectors.
#[track_caller]
fn check<T: Field>(a: &Dense<T>, what: &str) -> Vec<C> {
    let n = a.rows;
    let (values, vectors) = decomposed(a).expect(what);
    let (all, unit) = (complex(a), 2.0 * T::Real::EPSILON.to_f64());
    let scaled = vectors.map(|_, j, x| x * values[j]);
    let (error, bound) = (all.product(&vectors).error(&scaled), unit * all.size() * (10.0 + 2.0 * n as f64));
    assert!(error <= bound, "{what} {n}: A V - V L is {error:e}, expected {bound:e}");
    for j in 0..n {
        let norm: f64 = (0..n).map(|i| vectors.at(i, j).magnitude().powi(2)).sum::<f64>().sqrt();
        assert!((norm - 1.0).abs() < 45.0 * unit * (n as f64).sqrt(), "{what}: a vector of norm {norm}");
    }
    let mut alone = vec![T::Complex::ZERO; n];
    eig(a.clone().view_mut(), &mut alone, None).expect(what);
    let alone: Vec<C> = alone.into_iter().map(wide).collect();
    assert_eq!(alone, values, "{what}: values are the same without vectors");
    if !T::IS_COMPLEX {
        check_pairs(&values, &vectors);
    }
    values
}

/// Real eigenvalues have real vectors, and pairs are conjugates of which the first has the positive imaginary part.
fn check_pairs(values: &[C], vectors: &Numbers) {
    for (j, value) in values.iter().enumerate() {
        let column = |j: usize| (0..values.len()).map(move |i| vectors.at(i, j));
        if value.im == 0.0 {
            assert!(column(j).all(|x| x.im == 0.0));
        } else if value.im > 0.0 {
            assert_eq!(values[j + 1], value.conj());
            assert!(column(j).zip(column(j + 1)).all(|(x, y)| x == y.conj()));
        }
    }
}

#[test]
fn eigenvalues_of_random_matrices() {
    for n in sizes() {
        check(&Wide::random(n, n, n as u64), "random");
        check(&Numbers::drawn(n, n, n as u64), "complex");
    }
}

fn real_parts(values: &[C]) -> Vec<f64> {
    let mut parts: Vec<f64> = values.iter().map(|value| value.re).collect();
    parts.sort_by(f64::total_cmp);
    parts
}

#[test]
fn eigenvalues_of_known_matrices() {
    for n in [1, 2, 3, 4, 7, 20, 50] {
        assert_eq!(real_parts(&check(&Wide::identity(n, n), "identity")), vec![1.0; n]);
        check(&Wide::from_fn(n, n, |_, _| 0.0), "zero");
        // The companion matrix of x^n - 1, whose eigenvalues are the roots of 1.
        let roots = check(&Wide::from_fn(n, n, |i, j| f64::from(u8::from((j + 1) % n == i))), "roots of 1");
        assert!(roots.iter().all(|z| (z.magnitude() - 1.0).abs() < 1e-13));
        let power = |z: C| (0..n).fold(C::ONE, |product, _| product * z);
        assert!(roots.iter().all(|z| (power(*z) - C::ONE).magnitude() < 1e-11));
        // Triangular: exact, from either side.
        let upper = Wide::random(n, n, 3).map(|i, j, x| {
            if i < j {
                x
            } else if i == j {
                i as f64
            } else {
                0.0
            }
        });
        let expected: Vec<f64> = (0..n).map(|i| i as f64).collect();
        assert_eq!(real_parts(&check(&upper, "upper")), expected);
        assert_eq!(real_parts(&check(&upper.transposed(), "lower")), expected);
        // Defective: one vector for all eigenvalues.
        let jordan =
            Wide::from_fn(n, n, |i, j| f64::from(u8::from(i + 1 == j)) + if i == j { 2.0 } else { 0.0 });
        assert_eq!(real_parts(&check(&jordan, "Jordan")), vec![2.0; n]);
        check(&Wide::from_fn(n, n, |i, j| f64::from(u8::from(i + 1 == j))), "nilpotent");
        check(
            &Numbers::of(n, n, |i, j| if i + 1 == j { C::new(0.0, 1.0) } else { C::ZERO }),
            "complex nilpotent",
        );
        let rotation = Wide::from_fn(n, n, |i, j| match (i + 1 == j, j + 1 == i) {
            (true, _) => -1.0,
            (_, true) => 1.0,
            _ => 0.0,
        });
        assert!(check(&rotation, "skew").iter().all(|z| z.re.abs() < 1e-14 * n as f64));
        check(&Wide::from_fn(n, n, |i, j| 1.0 / (i + j + 1) as f64), "Hilbert");
        check(&Wide::from_fn(n, n, |_, _| 1.0), "rank one");
        let blocks =
            Wide::from_fn(
                n,
                n,
                |i, j| if i / 2 == j / 2 { [[1.0, -2.0], [2.0, 1.0]][i % 2][j % 2] } else { 0.0 },
            );
        check(&blocks, "equal pairs");
    }
    let sum_of = |values: &[C]| values.iter().copied().sum::<C>();
    let (a, b) = (Wide::random(30, 30, 9), Numbers::drawn(30, 30, 9));
    let trace = |a: &Numbers| (0..30).map(|i| a.at(i, i)).sum::<C>();
    assert!((sum_of(&check(&a, "trace")) - trace(&complex(&a))).magnitude() < 1e-12);
    assert!((sum_of(&check(&b, "trace")) - trace(&b)).magnitude() < 1e-12);
}

#[test]
fn a_real_matrix_and_its_complex_copy_agree() {
    let key = |z: &C| (z.re * 1e8).round() as i64;
    for n in [1, 2, 5, 12, 33] {
        let a = Wide::random(n, n, 77);
        let (mut x, mut y) = (check(&a, "real"), check(&complex(&a), "complex"));
        for values in [&mut x, &mut y] {
            values.sort_by(|a, b| key(a).cmp(&key(b)).then(a.im.total_cmp(&b.im)));
        }
        assert!(x.iter().zip(&y).all(|(x, y)| (*x - *y).magnitude() < 1e-11), "{x:?} {y:?}");
    }
}

#[test]
fn graded_and_extreme_matrices_have_eigenvalues() {
    for n in [2, 5, 17, 40] {
        let a = Wide::random(n, n, 5);
        let graded = a.map(|i, j, x| x * 10f64.powi(i as i32 - j as i32));
        let (values, _) = decomposed(&graded).unwrap();
        // Balancing undoes a diagonal similarity.
        let mut expected = real_parts(&check(&a, "plain"));
        let mut got = real_parts(&values);
        for (x, y) in expected.iter_mut().zip(&mut got) {
            assert!((*x - *y).abs() < 1e-9, "{n}: {x} and {y}");
        }
        for factor in [1e-310, 1e-300, 1e-160, 1e160, 1e300] {
            let scaled = a.map(|_, _, x| x * factor);
            let (values, vectors) = decomposed(&scaled).unwrap();
            assert!(values.iter().all(|z| z.is_finite()) && vectors.data.iter().all(|x| x.is_finite()));
            let mixed = a.map(|i, j, x| if (i + j) % 2 == 0 { x * factor } else { x });
            let (values, vectors) = decomposed(&mixed).unwrap();
            assert!(values.iter().all(|z| z.is_finite()) && vectors.data.iter().all(|x| x.is_finite()));
            let complex = Numbers::drawn(n, n, 4).map(|i, j, x| if i > j { x.scaled(factor) } else { x });
            let (values, vectors) = decomposed(&complex).unwrap();
            assert!(values.iter().all(|z| z.is_finite()) && vectors.data.iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn numbers_that_are_not_finite_have_no_eigenvalues() {
    let start = Instant::now();
    for n in 1..=6 {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for at in 0..n * n {
                let a = Wide::random(n, n, 1).map(|i, j, x| if i * n + j == at { bad } else { x });
                assert_eq!(decomposed(&a).unwrap_err(), Failure::NotFinite);
                let a =
                    Numbers::drawn(n, n, 1).map(|i, j, x| if i * n + j == at { C::new(1.0, bad) } else { x });
                assert_eq!(decomposed(&a).unwrap_err(), Failure::NotFinite);
            }
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn eigenvalues_do_not_depend_on_threads() {
    let (a, b) = (Wide::random(90, 90, 2), Numbers::drawn(80, 80, 3));
    assert_same_bits(|| (decomposed(&a).unwrap(), decomposed(&b).unwrap()));
}

/// Matrices that QR iteration has trouble with, or that are special in another sense.
fn difficult(n: usize) -> Vec<(&'static str, Numbers)> {
    let drawn = Numbers::drawn(n, n, 31);
    let real = |f: &dyn Fn(usize, usize) -> f64| Numbers::of(n, n, |i, j| C::new(f(i, j), 0.0));
    let one_if = |condition: bool| f64::from(u8::from(condition));
    let scaled = |f: &dyn Fn(f64, f64) -> f64| drawn.map(|i, j, x| x.scaled(f(i as f64, j as f64)));
    let size = n as f64;
    vec![
        ("random", drawn.clone()),
        ("roots of 1", real(&|i, j| one_if((j + 1) % n == i))),
        ("Jordan", real(&|i, j| one_if(i + 1 == j) + 2.0 * one_if(i == j))),
        ("nilpotent", real(&|i, j| one_if(j + 1 == i))),
        ("graded", scaled(&|i, j| 10f64.powf(-4.0 * (i + j) / size))),
        ("graded across", scaled(&|i, j| 10f64.powf(6.0 * (i - j) / size))),
        ("Hessenberg", drawn.map(|i, j, x| x.scaled(one_if(i <= j + 1)))),
        ("nearly triangular", drawn.map(|i, j, x| if i > j { x.scaled(1e-17) } else { x })),
        ("blocks", drawn.map(|i, j, x| x.scaled(one_if(i / 40 <= j / 40)))),
        ("clustered", drawn.map(|i, j, x| x.scaled(1e-9) + C::new(one_if(i == j), 0.0))),
        ("Hilbert", real(&|i, j| 1.0 / (i + j + 1) as f64)),
        ("rank one", real(&|i, _| 1.0 + i as f64)),
        ("positive", real(&|i, j| 1.0 + drawn.at(i, j).re)),
        ("Toeplitz", real(&|i, j| one_if((i..i + 4).contains(&j)) - one_if(j + 1 == i))),
        ("equal pairs", real(&|i, j| one_if(i / 2 == j / 2) * [[1.0, -2.0], [2.0, 1.0]][i % 2][j % 2])),
        ("zero", real(&|_, _| 0.0)),
    ]
}

fn check_difficult<T: Field>(n: usize) {
    for (what, a) in difficult(n) {
        check(&in_type::<T>(&a), what);
    }
}

/// Sizes from which steps take many shifts.
#[test]
fn eigenvalues_of_large_difficult_matrices() {
    for n in [73, 130] {
        check_difficult::<f64>(n);
        check_difficult::<f32>(n);
        check_difficult::<C>(n);
        check_difficult::<Complex<f32>>(n);
    }
}

#[test]
fn eigenvalues_of_large_random_matrices() {
    for n in [74, 75, 149, 151, 255, 256, 257] {
        let a = Numbers::drawn(n, n, n as u64);
        check(&in_type::<f32>(&a), "f32");
        check(&in_type::<f64>(&a), "f64");
    }
    for n in [75, 151, 257] {
        let a = Numbers::drawn(n, n, n as u64);
        check(&in_type::<Complex<f32>>(&a), "complex64");
        check(&a, "complex128");
    }
}

/// The eigenvalues of `[.., 1, 0, 1, ..]` are `2 cos(k pi / (n + 1))`, and those of the roots of 1 known as well.
#[test]
fn large_matrices_of_known_eigenvalues() {
    let n = 200;
    let a = Wide::from_fn(n, n, |i, j| f64::from(u8::from(i.abs_diff(j) == 1)));
    let angle = |k: usize| k as f64 * std::f64::consts::PI / (n + 1) as f64;
    let mut expected: Vec<f64> = (1..=n).map(|k| 2.0 * angle(k).cos()).collect();
    expected.sort_by(f64::total_cmp);
    for values in [decomposed(&a).unwrap().0, decomposed(&complex(&a)).unwrap().0] {
        assert!(values.iter().all(|z| z.im.abs() < 1e-13));
        assert!(real_parts(&values).iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-13));
    }
    let roots = Wide::from_fn(n, n, |i, j| f64::from(u8::from((j + 1) % n == i)));
    let mut found: Vec<usize> = decomposed(&roots)
        .unwrap()
        .0
        .iter()
        .map(|z| {
            assert!((z.magnitude() - 1.0).abs() < 1e-13);
            let number = z.im.atan2(z.re) / std::f64::consts::TAU * n as f64;
            assert!((number - number.round()).abs() < 1e-11);
            number.round().rem_euclid(n as f64) as usize
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, (0..n).collect::<Vec<_>>());
}

/// f32 is computed in f32, as LAPACK does: its eigenvalues are those of a matrix that differs by rounding errors.
#[test]
fn f32_eigenvalues_are_near_those_of_f64() {
    let a = Numbers::drawn(150, 150, 8);
    let near = |x: &[C], y: &[C]| {
        let distance = |x: &C| y.iter().map(|y| (*x - *y).magnitude()).fold(f64::INFINITY, f64::min);
        x.iter().map(distance).fold(0.0, f64::max)
    };
    let (narrow, real) = (in_type::<f32>(&a), in_type::<Complex<f32>>(&a));
    for (narrow, wide) in [
        (decomposed(&narrow).unwrap().0, decomposed(&in_type::<f64>(&complex(&narrow))).unwrap().0),
        (decomposed(&real).unwrap().0, decomposed(&complex(&real)).unwrap().0),
    ] {
        assert!(near(&narrow, &wide) < 1e-4 && near(&wide, &narrow) < 1e-4);
    }
}

#[test]
fn large_extreme_matrices_have_eigenvalues() {
    let drawn = Numbers::drawn(100, 100, 12);
    for factor in [1e-310, 1e-300, 1e-160, 1e160, 1e300] {
        let a = drawn.map(|_, _, x| x.scaled(factor));
        let (values, vectors) = decomposed(&a).unwrap();
        assert!(values.iter().all(|z| z.is_finite() && *z != C::ZERO));
        assert!(vectors.data.iter().all(|x| x.is_finite()));
    }
    for factor in [1e-42, 1e-36, 1e-20, 1e20, 1e36] {
        let a = in_type::<f32>(&drawn.map(|_, _, x| x.scaled(factor)));
        let (values, vectors) = decomposed(&a).unwrap();
        assert!(values.iter().all(|z| z.is_finite()) && vectors.data.iter().all(|x| x.is_finite()));
        let mixed = in_type::<Complex<f32>>(&drawn.map(|i, j, x| if i > j { x.scaled(factor) } else { x }));
        let (values, vectors) = decomposed(&mixed).unwrap();
        assert!(values.iter().all(|z| z.is_finite()) && vectors.data.iter().all(|x| x.is_finite()));
    }
}

#[test]
fn large_matrices_do_not_depend_on_threads() {
    let a = Numbers::drawn(300, 300, 2);
    let (b, c) = (in_type::<f64>(&a), in_type::<f32>(&a));
    assert_same_bits(|| (decomposed(&b).unwrap(), decomposed(&c).unwrap()));
    let d = Numbers::drawn(160, 160, 2);
    assert_same_bits(|| decomposed(&d).unwrap());
}

/// `P1 L1 P2 L2 .. D ..`, from LAPACK's format.
fn whole(factors: &Numbers, pivots: &[i32], hermitian: bool) -> Numbers {
    let n = factors.rows;
    let mirrored = |x: C| if hermitian { x.conj() } else { x };
    let mut product = Numbers::one(n, n);
    let mut d = Numbers::of(n, n, |i, j| if i == j { factors.at(i, j) } else { C::ZERO });
    let mut k = 0;
    while k < n {
        let width = if pivots[k] < 0 { 2 } else { 1 };
        let (last, with) = (k + width - 1, pivots[k].unsigned_abs() as usize - 1);
        if width == 2 {
            d.view_mut().set(last, k, factors.at(last, k));
            d.view_mut().set(k, last, mirrored(factors.at(last, k)));
        }
        let mut exchange = Numbers::one(n, n);
        exchange.view_mut().swap_rows(last, with);
        let lower = Numbers::of(n, n, |i, j| match i == j {
            true => C::ONE,
            false if (k..=last).contains(&j) && i > last => factors.at(i, j),
            false => C::ZERO,
        });
        product = product.product(&exchange).product(&lower);
        k += width;
    }
    let right = Numbers::of(n, n, |i, j| mirrored(product.at(j, i)));
    product.product(&d).product(&right)
}

fn check_ldl(a: &Numbers, hermitian: bool) {
    let n = a.rows;
    // Only the lower triangle is read.
    let mut factors = a.map(|i, j, x| if i < j { C::new(f64::NAN, 0.0) } else { x });
    let mut pivots = vec![0; n];
    assert_eq!(ldl(factors.view_mut(), &mut pivots, hermitian), 0);
    assert!(ldl_pivots_are_valid(&pivots));
    let lower = factors.map(|i, j, x| if i < j { C::ZERO } else { x });
    let (error, bound) =
        (whole(&lower, &pivots, hermitian).error(a), f64::EPSILON * a.size() * (10.0 + n as f64));
    assert!(error <= bound, "{n}: {error:e} > {bound:e}");
    let b = Numbers::drawn(n, 3, 6);
    let mut x = b.clone();
    ldl_solve(factors.view(), &pivots, hermitian, x.view_mut());
    let (error, scale) = (a.product(&x).error(&b), 1.0 + a.size() * x.size());
    assert!(error <= f64::EPSILON * (10.0 + n as f64) * scale, "{n}: {error:e}");
}

#[test]
fn indefinite_matrices_are_factored() {
    for n in sizes() {
        let (drawn, real) = (Numbers::drawn(n, n, n as u64), Wide::random(n, n, n as u64));
        let symmetric = drawn.map(|i, j, x| x + drawn.at(j, i));
        let adjoint = drawn.adjoint();
        let hermitian = drawn.map(|i, j, x| x + adjoint.at(i, j));
        let hollow = |a: &Numbers| a.map(|i, j, x| if i == j { C::ZERO } else { x });
        check_ldl(&symmetric, false);
        check_ldl(&hermitian, true);
        check_ldl(&complex(&real.map(|i, j, x| x + real.at(j, i))), false);
        // The residual of a system may be large if the matrix is singular, as a hollow matrix of one row is.
        if n > 1 {
            check_ldl(&hollow(&symmetric), false);
            check_ldl(&hollow(&hermitian), true);
        }
    }
}

#[test]
fn zeros_and_nan_are_reported_by_ldl() {
    for n in [1, 2, 5] {
        let (mut a, mut pivots) = (Wide::from_fn(n, n, |_, _| 0.0), vec![0; n]);
        assert_eq!(ldl(a.view_mut(), &mut pivots, false), 1);
        assert_eq!(pivots, (1..=n as i32).collect::<Vec<_>>());
        for bad in [f64::NAN, f64::INFINITY] {
            for at in 0..n * n {
                let mut a = Wide::random(n, n, 1).map(|i, j, x| if i * n + j == at { bad } else { x });
                ldl(a.view_mut(), &mut pivots, false);
                assert!(ldl_pivots_are_valid(&pivots));
            }
        }
    }
    assert!(!ldl_pivots_are_valid(&[1, 3]) && !ldl_pivots_are_valid(&[0]) && !ldl_pivots_are_valid(&[1, -2]));
    assert!(!ldl_pivots_are_valid(&[-1, -2]) && !ldl_pivots_are_valid(&[i32::MIN, i32::MIN]));
}
