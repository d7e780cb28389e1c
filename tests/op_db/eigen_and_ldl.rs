//! Eigenvalues of any matrices, factorizations of indefinite symmetric ones, square roots and polar decompositions. Complex matrices are
//! in `tests/complex`.

use super::linalg_samples::*;
use super::plain_linalg::*;
use crate::array::Array;
use crate::row::{Arg, Check, Row, WIDE_FLOATS, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, I32};

/// Fails where two arrays differ by more than what f32 explains.
fn close(expected: &Array, got: &Array) -> Result<(), String> {
    let error = expected.zip(got, |x, y| (x - y).abs()).data.into_iter().fold(0.0, f64::max);
    if error < 2e-5 { Ok(()) } else { Err(format!("an error of {error}")) }
}

fn to_complex(dtype: ScalarType) -> ScalarType {
    dtype.to_complex()
}

fn without_derivatives(row: Row, reason: &'static str) -> Row {
    [Check::Gradients, Check::SecondGradients, Check::Tangents]
        .into_iter()
        .fold(row, |row, check| row.skip(check, reason))
}

/// One part of an array whose last dimension has both.
fn part(a: &Array, number: usize) -> Array {
    let sizes = &a.sizes[..a.sizes.len() - 1];
    Array::new(sizes, a.data.chunks(2).map(|pair| pair[number]).collect())
}

/// `A V = V diag(values)`, with columns of norm 1.
fn decomposes(a: &Array, values: &Array, vectors: &Array) -> Result<(), String> {
    let [re, im] = [0, 1].map(|number| matrices(&part(vectors, number)));
    let (values_re, values_im) = (part(values, 0), part(values, 1));
    for (at, ((m, x), y)) in matrices(a).iter().zip(&re).zip(&im).enumerate() {
        let n = m.sizes[0];
        let value = |values: &Array, j: usize| values.data[at * n + j];
        let (l, k) = (|j| value(&values_re, j), |j| value(&values_im, j));
        let entry = |m: &Array, i: usize, j: usize| m.data[i * n + j];
        close(&m.matmul(x), &build(n, n, |i, j| entry(x, i, j) * l(j) - entry(y, i, j) * k(j)))?;
        close(&m.matmul(y), &build(n, n, |i, j| entry(x, i, j) * k(j) + entry(y, i, j) * l(j)))?;
        for j in 0..n {
            let norm: f64 = (0..n).map(|i| entry(x, i, j).powi(2) + entry(y, i, j).powi(2)).sum();
            close(&Array::scalar(1.0), &Array::scalar(norm))?;
        }
    }
    Ok(())
}

/// Sums of the first two powers of eigenvalues are traces, which needs no order.
fn traces(a: &Array, values: &Array) -> Result<(), String> {
    let n = last(a)[0];
    for (at, m) in matrices(a).iter().enumerate() {
        let trace = |m: &Array| (0..n).map(|i| m.data[i * n + i]).sum::<f64>();
        let parts = values.data[2 * at * n..2 * (at + 1) * n].chunks(2);
        let sums = parts.fold([0.0; 3], |s, z| [s[0] + z[0], s[1] + z[0] * z[0] - z[1] * z[1], s[2] + z[1]]);
        let exact = [trace(m), trace(&m.matmul(m)), 0.0];
        close(&vector(exact.to_vec()), &vector(sums.to_vec()))?;
    }
    Ok(())
}

fn eigen_rows() -> Vec<Row> {
    const DERIVATIVES: &str =
        "vectors have any phase; tests/complex compares the derivatives of what does not depend on it";
    let start = |name: &'static str, rest: &[Arg]| {
        let bad = vec![any(&[2, 2], 1).map(|_| f64::NAN).into()];
        not_square(over(name, SQUARE, any, rest), rest).gives(to_complex).refuses(
            [bad, rest.to_vec()].concat(),
            ErrorKind::LinAlg,
            "torch.linalg.eig: input tensor should not contain infs or NaNs.",
        )
    };
    let both = |name: &'static str, rest: &[Arg]| {
        without_derivatives(start(name, rest), DERIVATIVES)
            .property(|a, got| decomposes(a[0].array(), &got[0], &got[1]))
    };
    vec![
        both("linalg_eig", &[]),
        both("_linalg_eig", &[true.into()]),
        without_derivatives(start("linalg_eigvals", &[]), DERIVATIVES)
            .property(|a, got| traces(a[0].array(), &got[0])),
    ]
}

/// The matrix of factors and pivots of LAPACK's format: blocks of D on the diagonal, and exchanges of rows one after another.
fn whole(factors: &Array, pivots: &[f64]) -> Array {
    let n = factors.sizes[0];
    let at = |i: usize, j: usize| factors.data[i * n + j];
    let (mut product, mut d) = (identity(n, n), build(n, n, |i, j| if i == j { at(i, j) } else { 0.0 }));
    let mut k = 0;
    while k < n {
        let width = if pivots[k] < 0.0 { 2 } else { 1 };
        let (last, with) = (k + width - 1, pivots[k].abs() as usize - 1);
        if width == 2 {
            d.data[k * n + last] = at(last, k);
            d.data[last * n + k] = at(last, k);
        }
        let exchange = build(n, n, |i, j| {
            let to = if i == last {
                with
            } else if i == with {
                last
            } else {
                i
            };
            f64::from(u8::from(to == j))
        });
        let lower = build(n, n, |i, j| match i == j {
            true => 1.0,
            false if (k..=last).contains(&j) && i > last => at(i, j),
            false => 0.0,
        });
        product = product.matmul(&exchange).matmul(&lower);
        k += width;
    }
    product.matmul(&d).matmul(&transposed(&product))
}

/// Matrices that need blocks of two rows: zeros on the diagonal, except of a single row.
fn indefinite(sizes: &[usize], seed: u64) -> Array {
    let n = sizes[sizes.len() - 1];
    let a = any(sizes, seed);
    each(&a, &[n, n], |m| {
        let sum = m.zip(&transposed(m), |x, y| x + y);
        build(n, n, |i, j| if i == j && i % 2 == 0 && n > 1 { 0.0 } else { sum.data[i * n + j] })
    })
}

fn ldl_rows() -> Vec<Row> {
    const NONE: &str = "as in PyTorch, the backward pass says that it is not implemented";
    let reconstructs = |a: &[Arg], got: &[Array]| {
        let n = last(&got[0])[0];
        let pivots = got[1].data.chunks(n.max(1));
        matrices(a[0].array())
            .iter()
            .zip(matrices(&got[0]).iter().zip(pivots))
            .try_for_each(|(m, (factors, pivots))| close(m, &whole(factors, pivots)))
    };
    let start = |name: &'static str, rest: &[Arg]| {
        not_square(without_derivatives(one_triangle_only(name, rest), NONE), rest).property(reconstructs)
    };
    let factors = |sizes: &[usize], seed: u64| {
        any(sizes, seed).zip(&identity(sizes[0], sizes[0]), |x, one| x + 3.0 * one)
    };
    let solve = [[1.0, 2.0, 3.0], [3.0, 2.0, 3.0], [-2.0, -2.0, 3.0], [1.0, -3.0, -3.0], [-3.0, -3.0, 3.0]]
        .into_iter()
        .fold(row("linalg_ldl_solve").types(WIDE_FLOATS).ulps(400.0).terms(4.0), |row, pivots| {
            row.sample(vec![
                Arg::Constant(factors(&[3, 3], 4)),
                Arg::Typed(vector(pivots.to_vec()), I32),
                any(&[2, 3, 2], 5).into(),
                false.into(),
            ])
        });
    let wrong = |pivots: Vec<f64>| {
        vec![
            factors(&[2, 2], 1).into(),
            Arg::Typed(vector(pivots), I32),
            any(&[2, 1], 2).into(),
            false.into(),
        ]
    };
    const SAYS: &str = "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2)";
    vec![
        start("linalg_ldl_factor_ex", &[false.into(), false.into()]).refuses(
            vec![any(&[2, 2], 1).map(|_| 0.0).into(), false.into(), true.into()],
            ErrorKind::LinAlg,
            "torch.linalg.ldl_factor_ex: D[1,1] is zero",
        ),
        start("linalg_ldl_factor", &[true.into()]).refuses(
            vec![any(&[2, 2], 1).map(|_| 0.0).into(), true.into()],
            ErrorKind::LinAlg,
            "torch.linalg.ldl_factor: D[1,1] is zero",
        ),
        solve
            .refuses(wrong(vec![1.0, 9.0]), ErrorKind::InvalidArgument, SAYS)
            .refuses(wrong(vec![1.0, -2.0]), ErrorKind::InvalidArgument, SAYS)
            .refuses(wrong(vec![0.0, 1.0]), ErrorKind::InvalidArgument, SAYS)
            .reference(|a| {
                let matrix = whole(a[0].array(), &a[1].array().data);
                let right = a[2].array();
                vec![each(right, &last(right), |b| inverse(&matrix).matmul(b))]
            }),
    ]
}

fn one_triangle_only(name: &'static str, rest: &[Arg]) -> Row {
    over(name, &[&[3, 3], &[2, 4, 4], &[1, 1], &[0, 0], &[2, 0, 0], &[0, 2, 2], &[18, 18]], indefinite, rest)
}

fn function_rows() -> Vec<Row> {
    const ONE_TRIANGLE: &str =
        "one triangle is read, and the gradient is the symmetric one; tests/complex checks it";
    let root = |m: &Array| {
        let (u, s, v) = svd(m);
        let n = m.sizes[0];
        build(n, n, |i, j| u.data[i * n + j] * s[j].sqrt()).matmul(&transposed(&v))
    };
    let polar = |m: &Array| -> [Array; 2] {
        let (u, s, v) = svd(m);
        let n = m.sizes[1];
        [u.matmul(&transposed(&v)), build(n, n, |i, j| v.data[i * n + j] * s[j]).matmul(&transposed(&v))]
    };
    let solves = |a: &[Arg], got: &[Array]| {
        let parts = matrices(a[0].array()).into_iter().zip(matrices(a[1].array())).zip(matrices(&got[0]));
        parts
            .into_iter()
            .try_for_each(|((m, c), x)| close(&c, &m.matmul(&x).zip(&x.matmul(&m), |p, q| p + q)))
    };
    let sylvester = [&[3usize, 3][..], &[2, 2, 2], &[0, 0], &[9, 9]]
        .iter()
        .fold(row("_linalg_sylvester").types(WIDE_FLOATS).ulps(400.0).terms(4.0), |row, sizes| {
            row.sample(vec![definite(sizes, 1).into(), any(sizes, 2).into()])
        });
    const TALL: &[&[usize]] = &[&[3, 3], &[4, 2], &[2, 3, 2], &[3, 0], &[0, 3, 2], &[19, 17]];
    vec![
        not_square(over("linalg_matrix_sqrth", SQUARE, definite, &[]), &[])
            .skip(Check::Gradients, ONE_TRIANGLE)
            .skip(Check::SecondGradients, ONE_TRIANGLE)
            .skip(Check::Tangents, ONE_TRIANGLE)
            .reference(move |a| vec![each(a[0].array(), &last(a[0].array()), root)]),
        without_derivatives(sylvester, ONE_TRIANGLE).property(solves),
        not_a_matrix(over("linalg_polar", TALL, regular, &[]), &[])
            .ulps(400.0)
            .refuses(
                vec![any(&[2, 3], 1).into()],
                ErrorKind::Shape,
                "linalg.polar: input must have at least as many rows as columns, but got 2 by 3 matrices",
            )
            .reference(move |a| {
                let a = a[0].array();
                let [rows, columns] = last(a);
                vec![
                    each(a, &[rows, columns], |m| polar(m)[0].clone()),
                    each(a, &[columns, columns], |m| polar(m)[1].clone()),
                ]
            }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [eigen_rows(), ldl_rows(), function_rows()].into_iter().flatten().collect()
}
