//! Eigenvalues, singular values, and what is computed from them; least squares and exponentials.

use super::linalg_samples::*;
use super::plain_linalg::*;
use crate::array::Array;
use crate::row::{Arg, Check, Row, WIDE_FLOATS, none, number, row};
use flambeau_core::ErrorKind;

fn eigen_rows() -> Vec<Row> {
    let values = |a: &Array| each(a, &[last(a)[0]], |m| vector(eigenvalues(m)));
    let rest = |args: &[Arg]| args.to_vec();
    let close = |expected: &Array, got: &Array| {
        let error = expected.zip(got, |x, y| (x - y).abs()).data.into_iter().fold(0.0, f64::max);
        if error < 2e-5 { Ok(()) } else { Err(format!("an error of {error}")) }
    };
    // Vectors have either sign: they are orthonormal, and give the matrix back.
    let decomposes = move |a: &Array, got: &[Array]| -> Result<(), String> {
        close(&values(a), &got[0])?;
        let vectors = matrices(&got[1]);
        for (at, (m, v)) in matrices(a).iter().zip(&vectors).enumerate() {
            let n = m.sizes[0];
            let scaled = build(n, n, |i, j| v.data[i * n + j] * got[0].data[at * n + j]);
            close(&identity(n, n), &transposed(v).matmul(v))?;
            close(m, &scaled.matmul(&transposed(v)))?;
        }
        Ok(())
    };
    let both = |name: &'static str, args: &[Arg]| {
        not_square(one_triangle(over(name, SQUARE, symmetric, args)), args)
            .property(move |a, got| decomposes(a[0].array(), got))
    };
    let bad = || vec![any(&[2, 2], 1).map(|_| f64::NAN).into(), text("L")];
    let not_finite =
        "linalg.eigh: The algorithm failed to converge because the input matrix contained non-finite values.";
    vec![
        both("linalg_eigh", &rest(&[text("L")])).refuses(bad(), ErrorKind::LinAlg, not_finite).refuses(
            vec![any(&[2, 2], 1).into(), text("X")],
            ErrorKind::InvalidArgument,
            "Expected UPLO argument to be 'L' or 'U', but got X",
        ),
        both("linalg_eigh", &rest(&[text("U")])),
        both("_linalg_eigh", &[text("L"), true.into()]),
        one_triangle(over("linalg_eigvalsh", SQUARE, symmetric, &[text("L")]))
            .ulps(4.0)
            // Errors are relative to the norm of the matrix. On the largest sample, whose norm is 34, LAPACK's error is 1.5e-14 and that of
            // this library 1.0e-14, beside eigenvalues of 40 digits.
            .terms(40.0)
            .reference(move |a| vec![values(a[0].array())]),
    ]
}

fn singular_rows() -> Vec<Row> {
    let values = |a: &Array| each(a, &[last(a)[0].min(last(a)[1])], |m| vector(svd(m).1));
    let close = |expected: &Array, got: &Array| {
        let error = expected.zip(got, |x, y| (x - y).abs()).data.into_iter().fold(0.0, f64::max);
        if error < 2e-5 { Ok(()) } else { Err(format!("an error of {error}")) }
    };
    let decomposes = move |a: &Array, u: &Array, s: &Array, vh: &Array| -> Result<(), String> {
        close(&values(a), s)?;
        let count = last(a)[0].min(last(a)[1]);
        for (at, ((m, u), vh)) in matrices(a).iter().zip(matrices(u)).zip(matrices(vh)).enumerate() {
            let (columns, rows) = (u.sizes[1], vh.sizes[0]);
            let middle =
                build(columns, rows, |i, j| if i == j && i < count { s.data[at * count + i] } else { 0.0 });
            close(&identity(columns, columns), &transposed(&u).matmul(&u))?;
            close(&identity(rows, rows), &vh.matmul(&transposed(&vh)))?;
            close(m, &u.matmul(&middle).matmul(&vh))?;
        }
        Ok(())
    };
    const SIGNS: &str = "vectors have either sign, so that only what does not depend on it has a gradient; \
                         crates/autograd/tests/derivatives checks it";
    let both = |name: &'static str, args: &[Arg]| {
        not_a_matrix(over(name, OBLONG, any, args), args)
            .skip(Check::Gradients, SIGNS)
            .skip(Check::SecondGradients, SIGNS)
            .skip(Check::Tangents, SIGNS)
            .property(move |a, got| decomposes(a[0].array(), &got[0], &got[1], &got[2]))
    };
    let bad = || vec![any(&[2, 2], 1).map(|_| f64::INFINITY).into(), true.into(), none()];
    let old = |some: bool| {
        over("svd", OBLONG, any, &[some.into(), true.into()])
            .skip(Check::Gradients, SIGNS)
            .skip(Check::SecondGradients, SIGNS)
            .skip(Check::Tangents, SIGNS)
            .property(move |a, got| decomposes(a[0].array(), &got[0], &got[1], &transposed(&got[2])))
    };
    vec![
        both("linalg_svd", &[false.into(), none()]),
        both("linalg_svd", &[true.into(), none()])
            .refuses(
                bad(),
                ErrorKind::LinAlg,
                "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
            )
            .refuses(
                vec![any(&[2, 2], 1).into(), true.into(), text("gesvd")],
                ErrorKind::InvalidArgument,
                "keyword argument `driver=` is only supported on CUDA inputs",
            ),
        both("_linalg_svd", &[false.into(), true.into(), none()]),
        over("linalg_svdvals", OBLONG, any, &[none()])
            .ulps(4.0)
            .terms(10.0)
            .reference(move |a| vec![values(a[0].array())]),
        old(true),
        old(false),
    ]
}

/// What counts as 0 beside the largest singular value.
fn small(values: &[f64]) -> f64 {
    values.first().map_or(0.0, |largest| largest * 1e-6)
}

fn pseudo_rows() -> Vec<Row> {
    const FULL: &[&[usize]] = &[&[3, 3], &[4, 2], &[2, 4], &[2, 3, 2], &[0, 3], &[3, 0]];
    let pinv = |a: &[Arg]| {
        let a = a[0].array();
        let [rows, columns] = last(a);
        vec![each(a, &[columns, rows], |m| pseudoinverse(m, small))]
    };
    // Rank 1 by a tolerance between the singular values, which differ by more than 2.
    let graded = |sizes: &[usize], seed: u64| {
        let a = any(sizes, seed);
        let one = each(&a, &last(&a), |m| {
            build(m.sizes[0], m.sizes[1], |i, j| 5.0 * (1.0 + i as f64) * (2.0 + j as f64))
        });
        one.zip(&a, |x, y| x + 0.1 * y)
    };
    let tolerance = |value: f64| Arg::Typed(Array::scalar(value), flambeau_core::ScalarType::F64);
    let no = || Arg::Value(false.into());
    let start = |name: &'static str, args: &[Arg]| over(name, FULL, any, args).ulps(2000.0).reference(pinv);
    let ranks = |name: &'static str, args: &[Arg], rank: fn(&Array) -> f64| {
        let shapes: &[&[usize]] = &[&[3, 3], &[4, 2], &[2, 3, 2]];
        shapes
            .iter()
            .fold(row(name).types(WIDE_FLOATS), |row, sizes| {
                row.sample([vec![graded(sizes, 1).into()], args.to_vec()].concat())
            })
            .sample([vec![any(&[2, 0, 3], 1).into()], args.to_vec()].concat())
            .gives(|_| flambeau_core::ScalarType::I64)
            .not_differentiable()
            .reference(move |a| {
                let a = a[0].array();
                vec![each(a, &[], |m| Array::scalar(if m.data.is_empty() { 0.0 } else { rank(m) }))]
            })
    };
    let condition = |p: Arg, of: fn(&Array) -> f64| {
        let name = if matches!(&p, Arg::Value(flambeau_ops::dispatch::Value::Str(_))) {
            "linalg_cond.p_str"
        } else {
            "linalg_cond"
        };
        over(name, &[&[3, 3], &[2, 2, 2]], regular, &[p])
            .ulps(400.0)
            .terms(10.0)
            .reference(move |a| vec![each(a[0].array(), &[], |m| Array::scalar(of(m)))])
    };
    fn frobenius(m: &Array) -> f64 {
        m.data.iter().map(|x| x * x).sum::<f64>().sqrt()
    }
    fn one_norm(m: &Array) -> f64 {
        let column = |j: usize| (0..m.sizes[0]).map(|i| m.data[i * m.sizes[1] + j].abs()).sum::<f64>();
        (0..m.sizes[1]).map(column).fold(0.0, f64::max)
    }
    vec![
        start("linalg_pinv.atol_rtol_tensor", &[none(), none(), no()]),
        start("linalg_pinv.atol_rtol_tensor", &[tolerance(1e-7), tolerance(1e-7), no()]),
        start("linalg_pinv.atol_rtol_float", &[none(), 1e-7.into(), no()]),
        start("linalg_pinv", &[1e-7.into(), no()]),
        start("linalg_pinv.rcond_tensor", &[tolerance(1e-7), no()]),
        start("pinverse", &[1e-7.into()]),
        ranks("linalg_matrix_rank.atol_rtol_tensor", &[tolerance(2.0), tolerance(0.0), no()], |_| 1.0),
        ranks("linalg_matrix_rank.atol_rtol_float", &[none(), none(), no()], |m| {
            m.sizes[0].min(m.sizes[1]) as f64
        })
        .sample(vec![graded(&[2, 2], 1).into(), none(), none(), no()]),
        ranks("linalg_matrix_rank", &[2.0.into(), no()], |_| 1.0),
        ranks("linalg_matrix_rank.tol_tensor", &[tolerance(2.0), no()], |_| 1.0),
        condition(none(), |m| svd(m).1[0] / svd(m).1[m.sizes[0] - 1]),
        condition(number(-2), |m| svd(m).1[m.sizes[0] - 1] / svd(m).1[0]),
        condition(number(1), |m| one_norm(m) * one_norm(&inverse(m))),
        condition(text("fro"), |m| frobenius(m) * frobenius(&inverse(m))),
        condition(text("nuc"), |m| svd(m).1.iter().sum::<f64>() * svd(&inverse(m)).1.iter().sum::<f64>()),
    ]
}

fn least_squares(a: &[Arg]) -> Vec<Array> {
    let (matrix, right) = (a[0].array(), a[1].array());
    let [rows, columns] = last(matrix);
    let wide = last(right)[1];
    let pairs = || matrices(matrix).into_iter().zip(matrices(right));
    let solution = |(m, b): (Array, Array)| pseudoinverse(&m, small).matmul(&b);
    let rest = |(m, b): (Array, Array)| {
        let difference = m.matmul(&solution((m.clone(), b.clone()))).zip(&b, |x, y| x - y);
        vector((0..wide).map(|j| (0..rows).map(|i| difference.data[i * wide + j].powi(2)).sum()).collect())
    };
    let x = stacked(matrix, &pairs().map(solution).collect::<Vec<_>>(), &[columns, wide]);
    let residuals = match rows > columns {
        true => stacked(matrix, &pairs().map(rest).collect::<Vec<_>>(), &[wide]),
        false => Array::new(&[0], vec![]),
    };
    vec![x, residuals]
}

fn other_rows() -> Vec<Row> {
    let none_of = || Array::new(&[0], vec![]);
    let full = |a: &Array| each(a, &[], |_| Array::scalar(last(a)[0].min(last(a)[1]) as f64));
    let shapes: &[(&[usize], &[usize])] =
        &[(&[4, 2], &[4, 3]), (&[2, 3], &[2, 1]), (&[3, 3], &[3, 2]), (&[2, 3, 2], &[2, 3, 1])];
    let squares = |driver: &str| {
        let args = [none(), if driver.is_empty() { none() } else { text(driver) }];
        shapes.iter().fold(row("linalg_lstsq").types(WIDE_FLOATS).ulps(2000.0).terms(4.0), |row, (a, b)| {
            row.sample([vec![any(a, 1).into(), any(b, 2).into()], args.to_vec()].concat())
        })
    };
    let tensors = |sizes: &[usize], rest: &[Arg]| [vec![spread(sizes).into()], rest.to_vec()].concat();
    vec![
        squares("")
            .refuses(
                vec![any(&[3, 2], 1).into(), any(&[2, 1], 1).into(), none(), none()],
                ErrorKind::Shape,
                "input.size(-2) should match other.size(-2)",
            )
            .reference(move |a| {
                vec![least_squares(a).swap_remove(0), none_of(), full(a[0].array()), none_of()]
            }),
        squares("gels").reference(move |a| [least_squares(a), vec![none_of(), none_of()]].concat()),
        squares("gelsd").reference(move |a| {
            let matrix = a[0].array();
            let values = each(matrix, &[last(matrix)[0].min(last(matrix)[1])], |m| vector(svd(m).1));
            [least_squares(a), vec![full(matrix), values]].concat()
        }),
        exponentials("linalg_matrix_exp"),
        exponentials("matrix_exp"),
        row("linalg_tensorsolve")
            .types(WIDE_FLOATS)
            .ulps(400.0)
            .terms(4.0)
            .sample(tensors(&[2, 2, 4], &[any(&[2, 2], 1).into(), none()]))
            .refuses(
                tensors(&[2, 2, 3], &[any(&[2, 2], 1).into(), none()]),
                ErrorKind::Shape,
                "Expected self to satisfy the requirement",
            )
            .reference(|a| {
                let matrix = Array::new(&[4, 4], a[0].array().data.clone());
                let right = Array::new(&[4, 1], a[1].array().data.clone());
                vec![Array::new(&[4], inverse(&matrix).matmul(&right).data)]
            }),
        row("linalg_tensorinv")
            .types(WIDE_FLOATS)
            .ulps(400.0)
            .terms(4.0)
            .sample(tensors(&[2, 2, 4], &[2i64.into()]))
            .refuses(
                tensors(&[2, 2, 4], &[0i64.into()]),
                ErrorKind::InvalidArgument,
                "Expected a strictly positive integer for 'ind'",
            )
            .reference(|a| {
                vec![Array::new(&[4, 2, 2], inverse(&Array::new(&[4, 4], a[0].array().data.clone())).data)]
            }),
    ]
}

/// A regular matrix with other sizes.
fn spread(sizes: &[usize]) -> Array {
    let n = (sizes.iter().product::<usize>() as f64).sqrt() as usize;
    let regular = regular(&[n, n], 4);
    if n * n == sizes.iter().product() { Array::new(sizes, regular.data) } else { any(sizes, 1) }
}

fn exponentials(name: &'static str) -> Row {
    let row = over(name, &[&[3, 3], &[2, 2, 2], &[1, 1], &[0, 0], &[2, 0, 0]], any, &[]);
    // A batch in which one matrix is halved and the other is not.
    let mut mixed = any(&[2, 2, 2], 5);
    mixed.data.iter_mut().take(4).for_each(|x| *x *= 4.0);
    not_square(row, &[])
        .sample(vec![mixed.into()])
        .terms(100.0)
        .reference(|a| vec![each(a[0].array(), &last(a[0].array()), exponential)])
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [eigen_rows(), singular_rows(), pseudo_rows(), other_rows()].into_iter().flatten().collect()
}
