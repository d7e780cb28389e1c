//! LU, Cholesky, QR and triangular systems.

use super::{Dense, From32, assert_close, assert_orthonormal, assert_same_bits, sizes};
use crate::*;

/// The triangular factors that `lu` leaves in a matrix.
fn unpacked<T: From32>(a: &Dense<T>) -> (Dense<T>, Dense<T>) {
    let count = a.rows.min(a.columns);
    let lower = Dense::from_fn(a.rows, count, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => a.at(i, j).wide(),
        order => f64::from(u8::from(order.is_eq())),
    });
    let upper = Dense::from_fn(count, a.columns, |i, j| if i <= j { a.at(i, j).wide() } else { 0.0 });
    (lower, upper)
}

fn check_lu<T: From32>(m: usize, n: usize) {
    let a = Dense::<T>::random(m, n, (m * 101 + n) as u64);
    let (mut factors, mut pivots) = (a.clone(), vec![0; m.min(n)]);
    assert_eq!(lu(factors.view_mut(), &mut pivots, true), 0);
    let (lower, upper) = unpacked(&factors);
    assert!(
        lower.data.iter().all(|x| x.wide().abs() <= 1.0),
        "multipliers of partial pivoting are at most 1"
    );
    let mut permuted = a.clone();
    exchange_rows(&mut permuted.view_mut(), &pivots);
    assert_close(&permuted, &lower.times(&upper), &format!("lu {m} x {n}"));
    if m != n {
        return;
    }
    let b = Dense::<T>::random(n, 3, 5);
    for (system, matrix) in
        [(System::Plain, a.clone()), (System::Adjoint, a.transposed()), (System::Transposed, a.transposed())]
    {
        let mut x = b.clone();
        solve_factored(factors.view(), &pivots, system, x.view_mut());
        let error = matrix.times(&x).distance(&b);
        let bound = T::UNIT * (10.0 + n as f64) * (1.0 + a.norm() * x.norm());
        assert!(error <= bound, "{system:?} {n}: {error:e} > {bound:e}");
    }
}

#[test]
fn lu_and_systems_have_small_residuals() {
    for n in sizes() {
        check_lu::<f64>(n, n);
        check_lu::<f32>(n, n);
        check_lu::<f64>(n + 7, n);
        check_lu::<f64>(n, n + 7);
    }
}

/// The pivots of elimination by the definition, in f64.
fn plain_pivots(a: &Dense<f64>) -> Vec<i32> {
    let mut a = a.clone();
    (0..a.rows)
        .map(|j| {
            let at =
                (j..a.rows).rev().max_by(|x, y| a.at(*x, j).abs().total_cmp(&a.at(*y, j).abs())).unwrap();
            a.view_mut().swap_rows(j, at);
            let pivot = a.clone();
            a = a.map(
                |i, k, x| {
                    if i > j && k >= j { x - pivot.at(i, j) / pivot.at(j, j) * pivot.at(j, k) } else { x }
                },
            );
            at as i32 + 1
        })
        .collect()
}

#[test]
fn pivots_are_those_of_elimination() {
    for n in [1, 2, 5, 17, 33, 50] {
        let a = Dense::<f64>::random(n, n, n as u64);
        let (mut factors, mut pivots) = (a.clone(), vec![0; n]);
        lu(factors.view_mut(), &mut pivots, true);
        assert_eq!(pivots, plain_pivots(&a), "{n}");
    }
    // By hand: the second row comes first; then the third has the larger rest.
    let mut a = Dense::<f64>::from_fn(3, 3, |i, j| [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0], [2.0, 8.0, 1.0]][i][j]);
    let mut pivots = [0; 3];
    lu(a.view_mut(), &mut pivots, true);
    assert_eq!(pivots, [2, 3, 3]);
    assert_eq!(a.data, [4.0, 0.5, 0.25, 4.0, 6.0, 1.0 / 6.0, 4.0, -1.0, 2.0 + 1.0 / 6.0]);
}

#[test]
fn a_zero_pivot_is_reported_and_the_factorization_goes_on() {
    for n in [3, 10, 40] {
        for zero in [0, 1, n / 2, n - 1] {
            // A column of zeros is a zero pivot at its number.
            let a = Dense::<f64>::random(n, n, 9).map(|_, j, x| if j == zero { 0.0 } else { x });
            let (mut factors, mut pivots) = (a.clone(), vec![0; n]);
            assert_eq!(lu(factors.view_mut(), &mut pivots, true), zero as i32 + 1);
            let (lower, upper) = unpacked(&factors);
            let mut permuted = a.clone();
            exchange_rows(&mut permuted.view_mut(), &pivots);
            assert_close(&permuted, &lower.times(&upper), "singular");
        }
    }
}

#[test]
fn elimination_without_pivoting_keeps_rows() {
    let a = Dense::<f64>::random(30, 30, 4).map(|i, j, x| if i == j { x + 40.0 } else { x });
    let (mut factors, mut pivots) = (a.clone(), vec![0; 30]);
    assert_eq!(lu(factors.view_mut(), &mut pivots, false), 0);
    assert!(pivots.iter().zip(1..).all(|(pivot, row)| *pivot == row));
    let (lower, upper) = unpacked(&factors);
    assert_close(&a, &lower.times(&upper), "without pivoting");
}

/// A positive definite matrix, well conditioned.
fn definite<T: From32>(n: usize) -> Dense<T> {
    let x = Dense::<f64>::random(n, n + 2, n as u64 + 1);
    let square = x.times(&x.transposed());
    Dense::from_fn(n, n, |i, j| square.at(i, j) + f64::from(u8::from(i == j)))
}

fn check_cholesky<T: From32>(n: usize) {
    let a = definite::<T>(n);
    // What is above the diagonal is not read.
    let mut factor = a.map(|i, j, x| if i < j { T::of(f64::NAN) } else { x });
    assert_eq!(cholesky(factor.view_mut()), 0);
    assert!((0..n).all(|j| (0..j).all(|i| factor.at(i, j) == T::ZERO)));
    assert_close(&a, &factor.times(&factor.transposed()), &format!("cholesky {n}"));
}

#[test]
fn cholesky_has_small_residuals_and_reports_the_first_minor() {
    for n in sizes() {
        check_cholesky::<f64>(n);
        check_cholesky::<f32>(n);
    }
    for n in [1, 5, 20, 70] {
        for bad in [0, n / 2, n - 1] {
            for value in [-1.0, 0.0, f64::NAN] {
                let mut a =
                    Dense::<f64>::identity(n, n).map(|i, j, x| if i == j && i == bad { value } else { x });
                assert_eq!(cholesky(a.view_mut()), bad as i32 + 1);
            }
        }
    }
}

fn check_qr<T: From32>(m: usize, n: usize) {
    let a = Dense::<T>::random(m, n, (m * 7 + n) as u64);
    let count = m.min(n);
    let (mut factors, mut tau) = (a.clone(), vec![T::ZERO; count]);
    qr(factors.view_mut(), &mut tau);
    let r = Dense::from_fn(count, n, |i, j| if i <= j { factors.at(i, j).wide() } else { 0.0 });
    let mut q = Dense::from_fn(m, count, |i, j| factors.at(i, j).wide());
    householder_product(q.view_mut(), &tau);
    assert_orthonormal(&q, &format!("qr {m} x {n}"));
    assert_close(&a, &q.times(&r), &format!("qr {m} x {n}"));
    // The whole Q, and its four products.
    let mut whole = Dense::from_fn(m, m, |i, j| if j < count { factors.at(i, j).wide() } else { 0.0 });
    householder_product(whole.view_mut(), &tau);
    assert_orthonormal(&whole, "the whole Q");
    let vectors = Dense::from_fn(m, count, |i, j| factors.at(i, j).wide());
    for adjoint in [false, true] {
        let q = if adjoint { whole.transposed() } else { whole.clone() };
        let (left, right) = (Dense::<T>::random(m, 5, 1), Dense::<T>::random(5, m, 2));
        let (mut x, mut y) = (left.clone(), right.clone());
        multiply_by_q(vectors.view(), &tau, [false, adjoint], x.view_mut());
        multiply_by_q(vectors.view(), &tau, [true, adjoint], y.view_mut());
        assert_close(&q.times(&left), &x, "Q c");
        assert_close(&right.times(&q), &y, "c Q");
    }
}

/// What `f` makes of all columns of a matrix, row-major too, has the bits of what it makes of each alone.
fn check_columns_alone<T: From32>(b: &Dense<T>, what: &str, f: impl Fn(MatrixMut<'_, T>)) {
    let (mut all, mut rows) = (b.clone(), b.transposed());
    f(all.view_mut());
    f(rows.view_mut().transposed());
    assert_eq!(rows.transposed().data, all.data, "{what} of adjacent rows");
    for j in (0..b.columns).step_by(7).chain([b.columns - 1]) {
        let mut one = Dense::from_fn(b.rows, 1, |i, _| b.at(i, j).wide());
        f(one.view_mut());
        assert_eq!(one.data, all.data[j * b.rows..(j + 1) * b.rows], "{what}: column {j}");
    }
}

fn check_few_rows<T: From32>(n: usize, columns: usize) {
    let a = definite::<T>(n);
    let b = Dense::<T>::random(n, columns, 3);
    for (upper, unit) in [(false, false), (true, false), (false, true), (true, true)] {
        let triangle = Triangular { matrix: a.view(), upper, unit };
        check_columns_alone(&b, &format!("{upper} {unit} {n} x {columns}"), |b| triangle.solve(b));
    }
    let (mut factors, mut pivots) = (Dense::<T>::random(n, n, 8), vec![0; n]);
    lu(factors.view_mut(), &mut pivots, true);
    for system in [System::Plain, System::Adjoint, System::Transposed] {
        let solve = |b: MatrixMut<'_, T>| solve_factored(factors.view(), &pivots, system, b);
        check_columns_alone(&b, &format!("{system:?} {n} x {columns}"), solve);
    }
    let count = n.min(4);
    let (mut vectors, mut tau) = (Dense::<T>::random(n, count, 9), vec![T::ZERO; count]);
    qr(vectors.view_mut(), &mut tau);
    for adjoint in [false, true] {
        check_columns_alone(&b, &format!("Q {n} x {columns}"), |b| {
            multiply_by_q(vectors.view(), &tau, [false, adjoint], b);
        });
        // `(c Q)' = Q' c'`
        let (mut left, mut right) = (b.clone(), b.transposed());
        multiply_by_q(vectors.view(), &tau, [false, adjoint], left.view_mut());
        multiply_by_q(vectors.view(), &tau, [true, !adjoint], right.view_mut());
        assert_eq!(left.data, right.transposed().data, "Q from both sides {n} x {columns}");
    }
}

#[test]
fn columns_of_few_rows_have_the_bits_of_one() {
    for n in [1, 2, 3, 4, 5, 8, 16] {
        for columns in [1, 7, 8, 9, 31, 32, 33, 100] {
            check_few_rows::<f32>(n, columns);
            check_few_rows::<f64>(n, columns);
        }
    }
    // So many that threads share them.
    check_few_rows::<f64>(3, 40_000);
    check_few_rows::<f32>(16, 1_100);
}

/// Q of few reflectors of many rows, which are applied without blocks.
fn check_tall_reflectors<T: From32>(rows: usize, count: usize, other: usize) {
    let (mut vectors, mut tau) = (Dense::<T>::random(rows, count, 4), vec![T::ZERO; count]);
    qr(vectors.view_mut(), &mut tau);
    let b = Dense::<T>::random(rows, other, 5);
    for adjoint in [false, true] {
        let (mut left, mut right) = (b.clone(), b.transposed());
        multiply_by_q(vectors.view(), &tau, [false, adjoint], left.view_mut());
        multiply_by_q(vectors.view(), &tau, [true, !adjoint], right.view_mut());
        assert_close(&left, &right.transposed(), "Q from both sides");
        // Beside enough columns that blocks are used.
        let mut wide =
            Dense::from_fn(rows, other + 9, |i, j| if j < other { b.at(i, j).wide() } else { 1.0 });
        multiply_by_q(vectors.view(), &tau, [false, adjoint], wide.view_mut());
        assert_close(&Dense::from_fn(rows, other, |i, j| wide.at(i, j).wide()), &left, "few columns");
        multiply_by_q(vectors.view(), &tau, [false, !adjoint], left.view_mut());
        assert_close(&b, &left, "Q' Q");
    }
}

#[test]
fn tall_reflectors_agree_with_blocks() {
    for (rows, count, other) in [(17, 1, 1), (40, 3, 2), (1000, 4, 4), (300, 8, 5), (5000, 2, 3)] {
        check_tall_reflectors::<f64>(rows, count, other);
        check_tall_reflectors::<f32>(rows, count, other);
    }
}

#[test]
fn qr_has_small_residuals_and_its_products_agree() {
    for n in sizes() {
        check_qr::<f64>(n, n);
        check_qr::<f32>(n, n);
        check_qr::<f64>(n + 9, n);
        check_qr::<f64>(n, n + 9);
    }
}

#[test]
fn reflectors_are_those_of_lapack() {
    // (3, 4) is mapped to (-5, 0); v = (1, 0.5), tau = 1.6.
    let (mut a, mut tau) = (Dense::<f64> { data: vec![3.0, 4.0], rows: 2, columns: 1 }, [0.0]);
    qr(a.view_mut(), &mut tau);
    assert_eq!((a.data, tau), (vec![-5.0, 0.5], [1.6]));
    // Nothing below: no reflector, whatever the sign.
    let (mut a, mut tau) = (Dense::<f64> { data: vec![-3.0, 0.0], rows: 2, columns: 1 }, [1.0]);
    qr(a.view_mut(), &mut tau);
    assert_eq!((a.data, tau), (vec![-3.0, 0.0], [0.0]));
}

#[test]
fn extreme_numbers_keep_their_digits_in_qr() {
    for size in [1e300, 1e-300, 1e-310, 5e-320] {
        let plain = Dense::<f64>::random(20, 12, 3);
        let a = plain.map(|_, _, x| x * size);
        let (mut factors, mut tau) = (a.clone(), vec![0.0; 12]);
        qr(factors.view_mut(), &mut tau);
        householder_product(factors.view_mut(), &tau);
        assert_orthonormal(&factors, &format!("{size:e}"));
    }
}

fn check_triangular<T: From32>(n: usize) {
    let a = Dense::<T>::random(n, n, n as u64)
        .map(|i, j, x| if i == j { x + T::of(3.0) } else { x * T::of(0.2) });
    for upper in [false, true] {
        for unit in [false, true] {
            let triangle = |i: usize, j: usize| match (i == j, if upper { i < j } else { i > j }) {
                (true, _) if unit => 1.0,
                (true, _) | (_, true) => a.at(i, j).wide(),
                _ => 0.0,
            };
            let (full, b) = (Dense::<T>::from_fn(n, n, triangle), Dense::<T>::random(n, 11, 8));
            let t = Triangular { matrix: a.view(), upper, unit };
            let (mut x, mut y) = (b.clone(), b.transposed());
            t.solve(x.view_mut());
            assert_close(&b, &full.times(&x), "t x = b");
            t.solve_right(y.view_mut());
            assert_close(&b.transposed(), &y.times(&full), "x t = b");
            let mut z = b.clone();
            t.adjoint().solve(z.view_mut());
            assert_close(&b, &full.transposed().times(&z), "t' x = b");
        }
    }
}

#[test]
fn triangular_systems_are_solved_from_both_sides() {
    for n in sizes() {
        check_triangular::<f64>(n);
        check_triangular::<f32>(n);
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let n = 150;
    let (a, spd) = (Dense::<f32>::random(n, n, 1), definite::<f32>(n));
    assert_same_bits(|| {
        let (mut x, mut y, mut z) = (a.clone(), spd.clone(), a.clone());
        let (mut pivots, mut tau) = (vec![0; n], vec![0.0; n]);
        lu(x.view_mut(), &mut pivots, true);
        cholesky(y.view_mut());
        qr(z.view_mut(), &mut tau);
        (x, pivots, y, z, tau)
    });
}
