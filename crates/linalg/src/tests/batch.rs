//! Batches of small matrices: the same results as those of single ones, to rounding errors, and the same bits at each index.

use super::{Dense, From32};
use crate::*;
use flambeau_core::Complex;

const COUNT: usize = 21;

/// Elements of `COUNT` matrices, of parts between -1 and 1.
fn numbers<T: Field>(size: usize, seed: u64) -> Vec<T>
where
    T::Real: From32,
{
    let parts = Dense::<f64>::random(2 * size, COUNT, seed).data;
    parts.chunks_exact(2).map(|x| T::from_parts(T::Real::of(x[0]), T::Real::of(x[1]))).collect()
}

/// Calls `f` with all matrices and with each alone, and asserts that the bits are equal.
fn assert_same_alone<T: Field, U: PartialEq + std::fmt::Debug>(
    matrices: &[T],
    what: &str,
    f: impl Fn(std::ops::Range<usize>) -> Vec<U>,
) {
    let together = f(0..COUNT);
    let each = together.len() / COUNT;
    assert!(matrices.len().is_multiple_of(COUNT));
    for (first, last) in (0..COUNT).map(|at| (at, at + 1)).chain([(2, 19)]) {
        let alone = f(first..last);
        let bits = |x: &[U]| format!("{x:?}");
        assert_eq!(bits(&alone), bits(&together[first * each..last * each]), "{what}, {first} to {last}");
    }
}

fn largest_difference<T: Field<Real: From32>>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (*a - *b).magnitude().wide()).fold(0.0, f64::max)
}

/// The product of square column-major matrices, and of the adjoint of the second if `adjoint`.
fn product<T: Field>(a: &[T], b: &[T], n: usize, adjoint: bool) -> Vec<T> {
    let (a, b) = (Matrix::new(a, n, n, n), Matrix::new(b, n, n, n));
    let mut c = vec![T::ZERO; n * n];
    let b = if adjoint { b.adjoint() } else { b };
    MatrixMut::new(&mut c, n, n, n).multiply_add(T::Real::ONE, &a, &b, T::Real::ZERO);
    c
}

fn check_cholesky<T: InLanes<Real: From32>>(n: usize) {
    let square = n * n;
    let random = numbers::<T>(square, n as u64);
    let mut definite: Vec<T> = random.chunks_exact(square).flat_map(|a| product(a, a, n, true)).collect();
    for a in definite.chunks_exact_mut(square) {
        a.iter_mut().step_by(n + 1).for_each(|x| *x = *x + T::ONE);
    }
    // One that is not definite, and one with NaN.
    definite[3 * square + square - 1] = -T::ONE;
    definite[5 * square] = T::from_real(T::Real::of(f64::NAN));
    let factors = |range: std::ops::Range<usize>| {
        let mut a = definite[range.start * square..range.end * square].to_vec();
        let mut info = vec![-1; range.len()];
        cholesky_batch(&mut a, n, &mut info);
        (a, info)
    };
    let (made, info) = factors(0..COUNT);
    for (at, info) in info.iter().enumerate() {
        assert_eq!(*info, [0, n as i32, 1][usize::from(at == 3) + 2 * usize::from(at == 5)], "{n}, {at}");
    }
    for at in (0..COUNT).filter(|at| ![3, 5].contains(at)) {
        let (l, a) = (&made[at * square..(at + 1) * square], &definite[at * square..(at + 1) * square]);
        let error = largest_difference(&product(l, l, n, true), a);
        assert!(error <= T::Real::UNIT * (20 + 4 * n) as f64 * (n + 1) as f64, "{n}, {at}: {error:e}");
        assert!((1..n).all(|j| (0..j).all(|i| l[j * n + i] == T::ZERO)));
    }
    assert_same_alone(&definite, "cholesky", |range| factors(range).0);
}

fn check_systems<T: InLanes<Real: From32>>(n: usize) {
    let (square, columns) = (n * n, 1 + n % 3);
    let mut a = numbers::<T>(square, 7 + n as u64);
    a[4 * square..5 * square].fill(T::ZERO);
    a[6 * square] = T::from_real(T::Real::of(f64::NAN));
    let b = numbers::<T>(n * columns, 1);
    let run = |range: std::ops::Range<usize>| {
        let mut factors = a[range.start * square..range.end * square].to_vec();
        let (mut pivots, mut info) = (vec![0; range.len() * n], vec![-1; range.len()]);
        lu_batch(&mut factors, [n, n], &mut pivots, &mut info, true);
        let solutions = [System::Plain, System::Adjoint, System::Transposed].map(|system| {
            let mut x = b[range.start * n * columns..range.end * n * columns].to_vec();
            solve_factored_batch(&factors, n, &pivots, system, &mut x, columns);
            x
        });
        (factors, pivots, info, solutions)
    };
    let (_, pivots, info, solutions) = run(0..COUNT);
    assert!((0..COUNT).all(|at| info[at] == i32::from(at == 4)), "{info:?}");
    for at in (0..COUNT).filter(|at| ![4, 6].contains(at)) {
        let part = |x: &[T], size: usize| x[at * size..(at + 1) * size].to_vec();
        let (mut alone, mut own_pivots) = (part(&a, square), vec![0; n]);
        lu(MatrixMut::new(&mut alone, n, n, n), &mut own_pivots, true);
        assert_eq!(own_pivots, pivots[at * n..(at + 1) * n], "{n}, {at}");
        let a = part(&a, square);
        let view = Matrix::new(&a, n, n, n);
        for (x, view) in solutions.iter().zip([view, view.adjoint(), view.transposed()]) {
            let (x, mut rest) = (part(x, n * columns), part(&b, n * columns));
            let size = x.iter().map(|x| x.magnitude().wide()).fold(1.0, f64::max);
            MatrixMut::new(&mut rest, n, columns, n).multiply_add(
                -T::Real::ONE,
                &view,
                &Matrix::new(&x, n, columns, n),
                T::Real::ONE,
            );
            let error = largest_difference(&rest, &vec![T::ZERO; n * columns]);
            assert!(error <= T::Real::UNIT * (20 + 8 * n) as f64 * size, "{n}, {at}: {error:e}");
        }
    }
    assert_same_alone(&a, "lu", |range| run(range).0);
    assert_same_alone(&a, "systems", |range| {
        let [x, y, z] = run(range.clone()).3;
        let each = n * columns;
        let of = |at: usize, x: &[T]| x[at * each..(at + 1) * each].to_vec();
        (0..range.len()).flat_map(|at| [of(at, &x), of(at, &y), of(at, &z)].concat()).collect()
    });
}

fn check_qr<T: InLanes<Real: From32>>(rows: usize, columns: usize) {
    let (size, count) = (rows * columns, rows.min(columns));
    let mut a = numbers::<T>(size, (rows * 31 + columns) as u64);
    let scale = |a: &mut [T], by: f64| a.iter_mut().for_each(|x| *x = x.scaled(T::Real::of(by)));
    a[..size].fill(T::ZERO);
    scale(&mut a[size..2 * size], T::Real::SAFE_MIN.wide() / 8.0);
    scale(&mut a[2 * size..3 * size], 0.1 / T::Real::SAFE_MIN.wide());
    let run = |range: std::ops::Range<usize>| {
        let mut factors = a[range.start * size..range.end * size].to_vec();
        let mut tau = vec![T::ZERO; range.len() * count];
        qr_batch(&mut factors, [rows, columns], &mut tau);
        (factors, tau)
    };
    let (factors, tau) = run(0..COUNT);
    for at in 0..COUNT {
        let (mut alone, mut own_tau) = (a[at * size..(at + 1) * size].to_vec(), vec![T::ZERO; count]);
        let norm = alone.iter().map(|x| x.magnitude().wide()).fold(0.0, f64::max);
        qr(MatrixMut::new(&mut alone, rows, columns, rows), &mut own_tau);
        let r = |x: &[T]| -> Vec<T> {
            (0..size).map(|e| if e % rows <= e / rows { x[e] } else { T::ZERO }).collect()
        };
        let error = largest_difference(&r(&alone), &r(&factors[at * size..(at + 1) * size]));
        let smallest = T::Real::SAFE_MIN.wide() * T::Real::UNIT;
        assert!(
            error <= T::Real::UNIT * 500.0 * norm + 40.0 * rows as f64 * smallest,
            "{rows} x {columns}, {at}: {error:e}"
        );
        let error = largest_difference(&own_tau, &tau[at * count..(at + 1) * count]);
        assert!(at == 1 || error <= T::Real::UNIT * 2e4, "{rows} x {columns}, {at}: tau {error:e}");
    }
    assert_same_alone(&a, "qr", |range| run(range).0);
    if rows < columns {
        return;
    }
    let mut q = factors;
    householder_product_batch(&mut q, [rows, columns], &tau, count);
    for (at, q) in q.chunks_exact(size).enumerate() {
        let view = Matrix::new(q, rows, columns, rows);
        let mut square = vec![T::ZERO; columns * columns];
        MatrixMut::new(&mut square, columns, columns, columns).multiply_add(
            T::Real::ONE,
            &view.adjoint(),
            &view,
            T::Real::ZERO,
        );
        let one = |e: usize| if e.is_multiple_of(columns + 1) { T::ONE } else { T::ZERO };
        let error = largest_difference(&square, &(0..columns * columns).map(one).collect::<Vec<_>>());
        assert!(error <= T::Real::UNIT * (20 + 4 * rows) as f64, "{rows} x {columns}, {at}: {error:e}");
    }
}

fn check_hermitian<T: SpectralInLanes>(n: usize) {
    let square = n * n;
    let mut a = numbers::<T>(square, 99 + n as u64);
    for a in a.chunks_exact_mut(square) {
        let plain = a.to_vec();
        for (e, x) in a.iter_mut().enumerate() {
            *x = plain[e] + plain[e % n * n + e / n].conj();
        }
    }
    a[..square].fill(T::ZERO);
    a[square..2 * square].iter_mut().for_each(|x| *x = x.scaled(1e-300));
    a[2 * square..3 * square].iter_mut().for_each(|x| *x = x.scaled(1e300));
    // Diagonal, with zeros of either sign: nothing is rotated, whatever the others of the batch need.
    for (e, x) in a[5 * square..6 * square].iter_mut().enumerate() {
        *x = T::from_real(if e == 0 { 1.0 } else { -0.0 });
    }
    a[7 * square] = T::from_real(f64::NAN);
    let run = |range: std::ops::Range<usize>, vectors: bool| {
        let mut a = a[range.start * square..range.end * square].to_vec();
        let (mut values, mut results) = (vec![0.0; range.len() * n], vec![Ok(()); range.len()]);
        hermitian_batch(&mut a, n, &mut values, vectors, &mut results);
        (a, values, results)
    };
    let (vectors, values, results) = run(0..COUNT, true);
    assert_eq!(values[..7 * n], run(0..COUNT, false).1[..7 * n]);
    for at in 0..COUNT {
        if at == 7 {
            assert_eq!(results[at], Err(Failure::NotFinite));
            continue;
        }
        assert_eq!(results[at], Ok(()));
        let (a, v) = (&a[at * square..(at + 1) * square], &vectors[at * square..(at + 1) * square]);
        let values = &values[at * n..(at + 1) * n];
        assert!(values.is_sorted());
        let norm = a.iter().map(|x| x.magnitude()).fold(1e-310, f64::max) * (n as f64).sqrt();
        let scaled: Vec<T> = v.iter().enumerate().map(|(e, x)| x.scaled(values[e / n] / norm)).collect();
        let expected: Vec<T> = a.iter().map(|x| x.divided(norm)).collect();
        let error = largest_difference(&product(&scaled, v, n, true), &expected);
        assert!(error <= f64::UNIT * (20 + 4 * n) as f64, "{n}, {at}: {error:e}");
    }
    assert_same_alone(&a, "eigenvectors", |range| run(range, true).0);
    assert_same_alone(&a, "eigenvalues", |range| run(range, true).1);
}

fn check_svd<T: SpectralInLanes>(rows: usize, columns: usize) {
    let (size, square) = (rows * columns, columns * columns);
    let mut a = numbers::<T>(size, (rows * 77 + columns) as u64);
    a[..size].fill(T::ZERO);
    a[size..2 * size].iter_mut().for_each(|x| *x = x.scaled(1e-300));
    a[2 * size..3 * size].iter_mut().for_each(|x| *x = x.scaled(1e300));
    // Of rank 1.
    for e in 0..size {
        a[4 * size + e] = T::from_real((1 + e / rows) as f64 * (1.0 + (e % rows) as f64));
    }
    // Orthogonal columns, with zeros of either sign.
    for e in 0..size {
        a[5 * size + e] = T::from_real(if e / rows == e % rows { 2.0 } else { -0.0 });
    }
    // Columns of which the squares of products would vanish.
    for e in 0..size {
        a[6 * size + e] = a[6 * size + e].scaled(if e < rows { 1e-25 } else { 1e-83 });
    }
    a[7 * size] = T::from_real(f64::INFINITY);
    let run = |range: std::ops::Range<usize>, vectors: bool| {
        let mut a = a[range.start * size..range.end * size].to_vec();
        let (mut values, mut results) = (vec![0.0; range.len() * columns], vec![Ok(()); range.len()]);
        let (mut u, mut v) = (vec![T::ZERO; range.len() * size], vec![T::ZERO; range.len() * square]);
        let vectors = vectors.then_some((&mut u[..], columns, &mut v[..]));
        svd_batch(&mut a, [rows, columns], &mut values, vectors, &mut results);
        (u, values, v, results)
    };
    let (u, values, v, results) = run(0..COUNT, true);
    assert_eq!(values[..7 * columns], run(0..COUNT, false).1[..7 * columns]);
    for at in 0..COUNT {
        if at == 7 {
            assert_eq!(results[at], Err(Failure::NotFinite));
            continue;
        }
        assert_eq!(results[at], Ok(()));
        let a = &a[at * size..(at + 1) * size];
        let (u, v) = (&u[at * size..(at + 1) * size], &v[at * square..(at + 1) * square]);
        let values = &values[at * columns..(at + 1) * columns];
        assert!(values.is_sorted_by(|x, y| x >= y) && values.iter().all(|x| *x >= 0.0), "{values:?}");
        let norm = a.iter().map(|x| x.magnitude()).fold(1e-310, f64::max) * (size as f64).sqrt();
        let scaled: Vec<T> = u.iter().enumerate().map(|(e, x)| x.scaled(values[e / rows] / norm)).collect();
        let mut made = vec![T::ZERO; size];
        MatrixMut::new(&mut made, rows, columns, rows).multiply_add(
            1.0,
            &Matrix::new(&scaled, rows, columns, rows),
            &Matrix::new(v, columns, columns, columns).adjoint(),
            0.0,
        );
        let expected: Vec<T> = a.iter().map(|x| x.divided(norm)).collect();
        let error = largest_difference(&made, &expected);
        assert!(error <= f64::UNIT * (20 + 4 * rows) as f64, "{rows} x {columns}, {at}: {error:e}");
        for (q, rows) in [(u, rows), (v, columns)] {
            let q = Matrix::new(q, rows, columns, rows);
            let mut made = vec![T::ZERO; square];
            MatrixMut::new(&mut made, columns, columns, columns).multiply_add(1.0, &q.adjoint(), &q, 0.0);
            let one = |e: usize| if e.is_multiple_of(columns + 1) { T::ONE } else { T::ZERO };
            let error = largest_difference(&made, &(0..square).map(one).collect::<Vec<_>>());
            assert!(error <= f64::UNIT * (20 + 4 * rows) as f64, "{rows} x {columns}, {at}: {error:e}");
        }
    }
    assert_same_alone(&a, "left vectors", |range| run(range, true).0);
    assert_same_alone(&a, "right vectors", |range| run(range, true).2);
}

#[test]
fn singular_values_of_small_matrices_in_batches() {
    for [rows, columns] in [[1, 1], [4, 1], [2, 2], [5, 3], [8, 8], [10, 10], [16, 6], [12, 11], [17, 3]] {
        check_svd::<f64>(rows, columns);
        check_svd::<Complex<f64>>(rows, columns);
    }
}

#[test]
fn small_factors_in_batches_are_those_of_single_matrices() {
    for n in (1..=10).chain([15, 16, 17]) {
        check_cholesky::<f32>(n);
        check_cholesky::<f64>(n);
        check_cholesky::<Complex<f32>>(n);
        check_cholesky::<Complex<f64>>(n);
        check_systems::<f32>(n);
        check_systems::<f64>(n);
        check_systems::<Complex<f32>>(n);
        check_systems::<Complex<f64>>(n);
    }
}

#[test]
fn small_reflectors_in_batches_are_those_of_single_matrices() {
    for [rows, columns] in [[1, 1], [2, 1], [1, 3], [4, 4], [7, 3], [3, 7], [16, 16], [16, 2], [17, 4]] {
        check_qr::<f32>(rows, columns);
        check_qr::<f64>(rows, columns);
        check_qr::<Complex<f32>>(rows, columns);
        check_qr::<Complex<f64>>(rows, columns);
    }
}

#[test]
fn small_hermitian_matrices_in_batches() {
    for n in (1..=8).chain([10, 11]) {
        check_hermitian::<f64>(n);
        check_hermitian::<Complex<f64>>(n);
    }
}

#[test]
fn batches_without_matrices_or_elements() {
    cholesky_batch::<f64>(&mut [], 0, &mut []);
    let mut info = [7; 3];
    cholesky_batch::<f64>(&mut [], 0, &mut info);
    assert_eq!(info, [0; 3]);
    lu_batch::<f64>(&mut [], [0, 4], &mut [], &mut info, true);
    solve_factored_batch::<f64>(&[], 4, &[], System::Plain, &mut [], 2);
    qr_batch::<f64>(&mut [], [0, 3], &mut []);
    householder_product_batch::<f64>(&mut [], [3, 0], &[], 0);
    hermitian_batch::<f64>(&mut [], 0, &mut [], true, &mut [Ok(()); 2]);
}
