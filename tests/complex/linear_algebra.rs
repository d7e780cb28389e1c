//! Complex matrices: factorizations give them back, systems and functions of matrices fulfil their equations, and derivatives are compared
//! with differences along both parts. Vectors have any phase, so only what does not depend on it is differentiated.

use crate::{C, COMPLEX, abs, c, draw, eps, numbers, reals, tensor};
use flambeau_autograd::Autograd;
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_core::{ErrorKind, Scalar, ScalarType};
use flambeau_ops::{Result, Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

fn matrix(sizes: &[i64], seed: u64, dtype: ScalarType) -> Tensor {
    tensor(&draw(sizes.iter().product::<i64>() as usize, seed), sizes, dtype)
}

/// Far from singular: its diagonal is larger than the sum beside it.
fn regular(sizes: &[i64], seed: u64, dtype: ScalarType) -> Tensor {
    let (rows, columns) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let one = ops::eye_m(rows, columns, Some(dtype), None, None, None).unwrap();
    let shift = ops::mul_scalar(&one, Scalar::Complex(3.0 + columns as f64, 1.0)).unwrap();
    let spread =
        Tensor::from_vec((0..columns).map(|j| 1.0 + 0.3 * j as f64).collect::<Vec<f64>>(), &[columns]);
    let sum = (matrix(sizes, seed, dtype) + shift).unwrap();
    ops::to_dtype(&ops::mul_tensor(&sum, &spread.unwrap()).unwrap(), dtype, false, false, None).unwrap()
}

fn mh(x: &Tensor) -> Result<Tensor> {
    ops::conj(&ops::transpose_int(x, -2, -1)?)
}

fn hermitian(x: &Tensor) -> Result<Tensor> {
    x + mh(x)?
}

fn definite(x: &Tensor) -> Result<Tensor> {
    ops::matmul(x, &mh(x)?)? + ops::eye(x.size(-1)?, Some(x.dtype()), None, None, None)?
}

#[track_caller]
fn expect_equal(what: &str, expected: &Tensor, got: &Tensor) {
    assert_eq!((expected.sizes(), expected.dtype()), (got.sizes(), got.dtype()), "{what}");
    let as_complex = |t: &Tensor| -> Vec<C> {
        if t.is_complex() { numbers(t) } else { reals(t).into_iter().map(|x| c(x, 0.0)).collect() }
    };
    let (expected, values) = (as_complex(expected), as_complex(got));
    let size = expected.iter().map(|z| abs(*z)).fold(1.0, f64::max);
    let error = expected.iter().zip(&values).map(|(x, y)| abs(*x - *y)).fold(0.0, f64::max);
    assert!(error <= 200.0 * eps(got.dtype().to_complex()) * size, "{what}: {error:e} of {size}");
}

fn diagonal(values: &Tensor, dtype: ScalarType) -> Tensor {
    ops::to_dtype(&ops::diag_embed(values, 0, -2, -1).unwrap(), dtype, false, false, None).unwrap()
}

fn product(factors: &[&Tensor]) -> Tensor {
    factors[1..].iter().fold(factors[0].clone(), |product, factor| ops::matmul(&product, factor).unwrap())
}

const SHAPES: &[&[i64]] = &[&[3, 3], &[5, 2], &[2, 5], &[2, 3, 3], &[1, 1], &[0, 0], &[2, 0, 3], &[19, 17]];

#[test]
fn factors_give_the_matrix_back() {
    for dtype in COMPLEX {
        for (seed, sizes) in (1..).zip(SHAPES) {
            let a = matrix(sizes, seed, dtype);
            let (p, l, u) = ops::linalg_lu(&a, true).unwrap();
            expect_equal("lu", &a, &product(&[&p, &l, &u]));
            for mode in ["reduced", "complete"] {
                let (q, r) = ops::linalg_qr(&a, mode).unwrap();
                expect_equal("qr", &a, &product(&[&q, &r]));
                let one = ops::eye(q.size(-1).unwrap(), Some(dtype), None, None, None).unwrap();
                let square = product(&[&mh(&q).unwrap(), &q]);
                expect_equal("q", &one.expand(square.sizes()).unwrap(), &square);
            }
            let (u, s, vh) = ops::linalg_svd(&a, false, None).unwrap();
            assert_eq!(s.dtype(), dtype.to_real());
            expect_equal("svd", &a, &product(&[&u, &diagonal(&s, dtype), &vh]));
            expect_equal("svdvals", &s, &ops::linalg_svdvals(&a, None).unwrap());
            let (u, s, v) = ops::svd(&a, true, true).unwrap();
            expect_equal("svd", &a, &product(&[&u, &diagonal(&s, dtype), &mh(&v).unwrap()]));
            let pinv = ops::linalg_pinv_atol_rtol_tensor(&a, None, None, false).unwrap();
            expect_equal("pinv", &a, &product(&[&a, &pinv, &a]));
            if sizes[sizes.len() - 2] >= sizes[sizes.len() - 1] {
                let (u, h) = ops::linalg_polar(&a).unwrap();
                expect_equal("polar", &a, &product(&[&u, &h]));
                expect_equal("polar", &mh(&h).unwrap(), &h);
                let (packed, tau) = ops::geqrf(&a).unwrap();
                let q = ops::linalg_householder_product(&packed, &tau).unwrap();
                expect_equal("householder_product", &ops::linalg_qr(&a, "reduced").unwrap().0, &q);
            }
        }
    }
}

#[test]
fn square_matrices_are_decomposed_and_solved() {
    for dtype in COMPLEX {
        for (seed, sizes) in (1..).zip([&[3i64, 3][..], &[2, 4, 4], &[1, 1], &[0, 0], &[18, 18]]) {
            let (a, b) = (regular(sizes, seed, dtype), matrix(sizes, seed + 50, dtype));
            let definite = definite(&b).unwrap();
            let lower = ops::linalg_cholesky(&definite, false).unwrap();
            expect_equal("cholesky", &definite, &product(&[&lower, &mh(&lower).unwrap()]));
            let upper = ops::linalg_cholesky(&definite, true).unwrap();
            expect_equal("cholesky", &mh(&lower).unwrap(), &upper);
            for (factor, is_upper) in [(&lower, false), (&upper, true)] {
                let x = ops::cholesky_solve(&a, factor, is_upper).unwrap();
                expect_equal("cholesky_solve", &a, &product(&[&definite, &x]));
                let inverse = ops::cholesky_inverse(factor, is_upper).unwrap();
                expect_equal("cholesky_inverse", &ops::linalg_inv(&definite).unwrap(), &inverse);
            }
            let h = hermitian(&b).unwrap();
            for uplo in ["L", "U"] {
                // The other triangle is not read.
                let read = if uplo == "L" { ops::tril(&h, 0) } else { ops::triu(&h, 0) }.unwrap();
                let (values, vectors) = ops::linalg_eigh(&read, uplo).unwrap();
                let made = product(&[&vectors, &diagonal(&values, dtype), &mh(&vectors).unwrap()]);
                expect_equal("eigh", &h, &made);
                assert_eq!(values.dtype(), dtype.to_real());
            }
            let root = ops::linalg_matrix_sqrth(&definite).unwrap();
            expect_equal("matrix_sqrth", &definite, &product(&[&root, &root]));
            let (values, vectors) = ops::linalg_eig(&b).unwrap();
            expect_equal("eig", &product(&[&b, &vectors]), &product(&[&vectors, &diagonal(&values, dtype)]));
            check_systems(&a, &b);
        }
    }
}

/// From 65 and 129 rows on, eigenvalues of f32 matrices are computed in f32.
#[test]
fn eigenvectors_of_large_matrices_of_a_batch() {
    for dtype in COMPLEX {
        let b = matrix(&[2, 140, 140], 6, dtype);
        let real = ops::to_dtype(&ops::real(&b).unwrap(), dtype.to_real(), false, false, None).unwrap();
        for b in [b, real] {
            let complex = ops::to_dtype(&b, dtype, false, false, None).unwrap();
            let (values, vectors) = ops::linalg_eig(&b).unwrap();
            let scaled = product(&[&vectors, &diagonal(&values, dtype)]);
            expect_equal("eig", &product(&[&complex, &vectors]), &scaled);
            expect_equal("eigvals", &values, &ops::linalg_eigvals(&b).unwrap());
            let alone = ops::linalg_eigvals(&ops::select_int(&b, 0, 1).unwrap()).unwrap();
            assert_eq!(numbers(&ops::select_int(&values, 0, 1).unwrap()), numbers(&alone));
            let h = hermitian(&b).unwrap();
            let (values, vectors) = ops::linalg_eigh(&h, "U").unwrap();
            let own = diagonal(&values, b.dtype());
            expect_equal("eigh", &h, &product(&[&vectors, &own, &mh(&vectors).unwrap()]));
            assert_eq!((values.dtype(), vectors.dtype()), (dtype.to_real(), b.dtype()));
        }
    }
}

/// Systems with `a`, which is regular, and with matrices made of `b`.
fn check_systems(a: &Tensor, b: &Tensor) {
    for left in [true, false] {
        let x = ops::linalg_solve(a, b, left).unwrap();
        expect_equal("solve", b, &if left { product(&[a, &x]) } else { product(&[&x, a]) });
        let (factors, pivots) = ops::linalg_lu_factor(a, true).unwrap();
        for adjoint in [false, true] {
            let matrix = if adjoint { mh(a).unwrap() } else { a.clone() };
            let x = ops::linalg_lu_solve(&factors, &pivots, b, left, adjoint).unwrap();
            expect_equal(
                "lu_solve",
                b,
                &if left { product(&[&matrix, &x]) } else { product(&[&x, &matrix]) },
            );
        }
        for upper in [true, false] {
            let t = if upper { ops::triu(a, 0) } else { ops::tril(a, 0) }.unwrap();
            let x = ops::linalg_solve_triangular(a, b, upper, left, false).unwrap();
            expect_equal("solve_triangular", b, &if left { product(&[&t, &x]) } else { product(&[&x, &t]) });
        }
    }
    for is_hermitian in [true, false] {
        let plain = if is_hermitian { mh(b) } else { ops::transpose_int(b, -2, -1) }.unwrap();
        let symmetric = (b + &plain).unwrap();
        let (factors, pivots) = ops::linalg_ldl_factor(&symmetric, is_hermitian).unwrap();
        let x = ops::linalg_ldl_solve(&factors, &pivots, a, is_hermitian).unwrap();
        // As a residual of the whole, since the matrix may be far from well conditioned.
        expect_equal("ldl_solve", a, &product(&[&symmetric, &x]));
    }
    let inverse = ops::linalg_inv(a).unwrap();
    let one = ops::matrix_power(a, 0).unwrap();
    expect_equal("inv", &one, &product(&[a, &inverse]));
    expect_equal("matrix_power", &product(&[&inverse, &inverse]), &ops::matrix_power(a, -2).unwrap());
}

#[test]
fn determinants_norms_and_functions() {
    for dtype in COMPLEX {
        let a = tensor(&[c(1.0, 2.0), c(0.0, -1.0), c(3.0, 0.0), c(2.0, 2.0)], &[2, 2], dtype);
        // (1 + 2i)(2 + 2i) - (-i)(3)
        let det = c(-2.0, 9.0);
        crate::expect_close("det", &numbers(&ops::linalg_det(&a).unwrap()), &[det], dtype, 8.0);
        let (sign, logarithm) = ops::linalg_slogdet(&a).unwrap();
        let size = abs(det);
        crate::expect_close("sign", &numbers(&sign), &[c(det.re / size, det.im / size)], dtype, 8.0);
        crate::expect_close_reals("logabsdet", &reals(&logarithm), &[size.ln()], dtype, 8.0);
        let log = numbers(&ops::logdet(&a).unwrap());
        crate::expect_close("logdet", &log, &[c(size.ln(), det.im.atan2(det.re))], dtype, 8.0);
        let frobenius = ops::linalg_matrix_norm_str_ord(&a, "fro", &[-2, -1], false, None).unwrap();
        crate::expect_close_reals("fro", &reals(&frobenius), &[23f64.sqrt()], dtype, 8.0);
        let one = ops::linalg_matrix_norm(&a, ONE, &[-2, -1], false, None).unwrap();
        crate::expect_close_reals("1", &reals(&one), &[5f64.sqrt() + 3.0], dtype, 8.0);
        let values = reals(&ops::linalg_svdvals(&a, None).unwrap());
        for (ord, expected) in [(2, values[0]), (-2, values[1])] {
            let norm = ops::linalg_matrix_norm(&a, Scalar::Int(ord), &[-2, -1], false, None).unwrap();
            crate::expect_close_reals("2", &reals(&norm), &[expected], dtype, 8.0);
        }
        crate::expect_close_reals("det by values", &[values[0] * values[1]], &[size], dtype, 20.0);
        crate::expect_close_reals(
            "cond",
            &reals(&ops::linalg_cond(&a, None).unwrap()),
            &[values[0] / values[1]],
            dtype,
            20.0,
        );
        let rank = ops::linalg_matrix_rank_atol_rtol_tensor(&a, None, None, false).unwrap();
        assert_eq!(rank.to_vec::<i64>().unwrap(), [2]);
        // exp(i pi) = -1, in a basis that is not that of the eigenvectors.
        let generator = tensor(&[c(0.0, 0.0), c(0.0, -1.0), c(0.0, 1.0), c(0.0, 0.0)], &[2, 2], dtype);
        let angle = ops::mul_scalar(&generator, Scalar::Complex(0.0, std::f64::consts::PI)).unwrap();
        let power = ops::linalg_matrix_exp(&angle).unwrap();
        expect_equal("matrix_exp", &ops::neg(&ops::matrix_power(&a, 0).unwrap()).unwrap(), &power);
        let vector = tensor(&[c(1.0, 1.0), c(2.0, -1.0)], &[2], dtype);
        let dot = ops::linalg_vecdot(&vector, &ops::select_int(&a, 0, 0).unwrap(), -1).unwrap();
        // (1 - i)(1 + 2i) + (2 + i)(-i)
        crate::expect_close("vecdot", &numbers(&dot), &[c(4.0, -1.0)], dtype, 4.0);
        let chain = ops::linalg_multi_dot(&[a.clone(), a.clone(), a.clone()]).unwrap();
        expect_equal("multi_dot", &product(&[&a, &a, &a]), &chain);
    }
}

#[test]
fn least_squares_are_orthogonal_to_what_is_left() {
    for dtype in COMPLEX {
        for sizes in [[6i64, 3], [3, 6], [4, 4]] {
            let (a, b) = (matrix(&sizes, 1, dtype), matrix(&[sizes[0], 2], 2, dtype));
            let mut solutions = vec![];
            for driver in ["gels", "gelsy", "gelsd"] {
                let (x, residuals, _, values) = ops::linalg_lstsq(&a, &b, None, Some(driver)).unwrap();
                let rest = (product(&[&a, &x]) - &b).unwrap();
                let left = product(&[&mh(&a).unwrap(), &rest]);
                expect_equal("lstsq", &ops::mul_scalar(&left, Scalar::Int(0)).unwrap(), &left);
                assert_eq!((residuals.dtype(), values.dtype()), (dtype.to_real(), dtype.to_real()));
                if driver == "gelsy" {
                    assert_eq!(residuals.numel(), 0);
                } else if sizes[0] > sizes[1] {
                    let squares = ops::square(&ops::abs(&rest).unwrap()).unwrap();
                    expect_equal(
                        "residuals",
                        &ops::sum_dim_intlist(&squares, Some(&[0]), false, None).unwrap(),
                        &residuals,
                    );
                }
                solutions.push(x);
            }
            expect_equal("gelsy", &solutions[0], &solutions[1]);
            expect_equal("gelsd", &solutions[0], &solutions[2]);
        }
    }
}

#[test]
fn products_with_reflectors() {
    for dtype in COMPLEX {
        let (packed, tau) = ops::geqrf(&matrix(&[2, 5, 3], 3, dtype)).unwrap();
        let padded = ops::constant_pad_nd(&packed, &[0, 2], Scalar::Int(0)).unwrap();
        let q = ops::linalg_householder_product(&padded, &tau).unwrap();
        for (left, transpose) in [(true, false), (true, true), (false, false), (false, true)] {
            let other = matrix(&if left { [2, 5, 2] } else { [2, 2, 5] }, 4, dtype);
            let q = if transpose { mh(&q).unwrap() } else { q.clone() };
            let expected = if left { product(&[&q, &other]) } else { product(&[&other, &q]) };
            expect_equal("ormqr", &expected, &ops::ormqr(&packed, &tau, &other, left, transpose).unwrap());
        }
    }
}

type Function = fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// The matrix that vectors make, which depends neither on their phases nor on their order.
fn outer(vectors: &Tensor, weights: &Tensor, right: &Tensor) -> Result<Tensor> {
    ops::matmul(&ops::mul_tensor(vectors, &ops::unsqueeze(weights, -2)?)?, right)
}

/// Functions of one matrix and of one of the same sizes.
const SQUARE: &[(&str, Function)] = &[
    ("cholesky", |x| Ok(vec![ops::linalg_cholesky(&definite(&x[0])?, false)?])),
    ("upper cholesky", |x| Ok(vec![ops::linalg_cholesky(&definite(&x[0])?, true)?])),
    ("cholesky_solve", |x| {
        Ok(vec![ops::cholesky_solve(&x[1], &ops::linalg_cholesky(&definite(&x[0])?, false)?, false)?])
    }),
    ("inv", |x| Ok(vec![ops::linalg_inv(&x[0])?])),
    ("solve", |x| Ok(vec![ops::linalg_solve(&x[0], &x[1], true)?])),
    ("solve from the right", |x| Ok(vec![ops::linalg_solve(&x[0], &x[1], false)?])),
    ("solve_triangular", |x| Ok(vec![ops::linalg_solve_triangular(&x[0], &x[1], true, true, false)?])),
    ("solve_triangular from the right", |x| {
        Ok(vec![ops::linalg_solve_triangular(&x[0], &x[1], false, false, true)?])
    }),
    ("lu_solve", |x| {
        let (factors, pivots) = ops::linalg_lu_factor(&x[0], true)?;
        Ok(vec![ops::linalg_lu_solve(&factors, &pivots, &x[1], true, false)?])
    }),
    ("lu_solve, adjoint", |x| {
        let (factors, pivots) = ops::linalg_lu_factor(&x[0], true)?;
        Ok(vec![ops::linalg_lu_solve(&factors, &pivots, &x[1], true, true)?])
    }),
    ("lu_solve, adjoint from the right", |x| {
        let (factors, pivots) = ops::linalg_lu_factor(&x[0], true)?;
        Ok(vec![ops::linalg_lu_solve(&factors, &pivots, &x[1], false, true)?])
    }),
    ("det", |x| Ok(vec![ops::linalg_det(&x[0])?])),
    ("slogdet", |x| {
        let (sign, logarithm) = ops::linalg_slogdet(&x[0])?;
        Ok(vec![sign, logarithm])
    }),
    ("logdet", |x| Ok(vec![ops::logdet(&x[0])?])),
    ("eigvalsh", |x| Ok(vec![ops::linalg_eigvalsh(&hermitian(&x[0])?, "L")?])),
    ("eigh", |x| {
        let (values, vectors) = ops::linalg_eigh(&hermitian(&x[0])?, "U")?;
        let cubes = ops::mul_tensor(&values, &ops::square(&values)?)?;
        let squares = ops::real(&ops::mul_tensor(&vectors, &ops::conj(&vectors)?)?)?;
        Ok(vec![outer(&vectors, &cubes, &mh(&vectors)?)?, squares])
    }),
    ("eigvals", |x| Ok(vec![ops::linalg_eigvals(&x[0])?])),
    ("eig", |x| {
        let (values, vectors) = ops::linalg_eig(&x[0])?;
        let squares = ops::real(&ops::mul_tensor(&vectors, &ops::conj(&vectors)?)?)?;
        Ok(vec![values, squares])
    }),
    ("matrix_exp", |x| Ok(vec![ops::linalg_matrix_exp(&ops::mul_scalar(&x[0], Scalar::Float(0.2))?)?])),
    ("matrix_power", |x| Ok(vec![ops::linalg_matrix_power(&x[0], 3)?])),
    ("matrix_sqrth", |x| Ok(vec![ops::linalg_matrix_sqrth(&definite(&x[0])?)?])),
    ("sylvester", |x| Ok(vec![ops::_linalg_sylvester(&definite(&x[0])?, &x[1])?])),
    ("ldl_solve", |x| {
        let h = hermitian(&matrix(&[2, 2], 31, ScalarType::Complex128))?;
        let (factors, pivots) = ops::linalg_ldl_factor(&h, true)?;
        Ok(vec![ops::linalg_ldl_solve(&factors, &pivots, &(&x[0] + &x[1])?, true)?])
    }),
    ("symmetric ldl_solve", |x| {
        let a = matrix(&[2, 2], 31, ScalarType::Complex128);
        let symmetric = (&a + ops::t(&a)?)?;
        let (factors, pivots) = ops::linalg_ldl_factor(&symmetric, false)?;
        Ok(vec![ops::linalg_ldl_solve(&factors, &pivots, &(&x[0] - &x[1])?, false)?])
    }),
    ("vecdot", |x| Ok(vec![ops::linalg_vecdot(&x[0], &x[1], -1)?])),
    ("the nuclear norm", |x| {
        Ok(vec![ops::linalg_matrix_norm_str_ord(&x[0], "nuc", &[-2, -1], false, None)?])
    }),
    ("the 2-norm", |x| Ok(vec![ops::linalg_matrix_norm(&x[0], Scalar::Int(2), &[-2, -1], false, None)?])),
];

/// Functions of a matrix that need not be square.
const OBLONG: &[(&str, Function)] = &[
    ("lu", |x| {
        let (_, l, u) = ops::linalg_lu(&x[0], true)?;
        Ok(vec![l, u])
    }),
    ("qr", |x| {
        let (q, r) = ops::linalg_qr(&x[0], "reduced")?;
        Ok(vec![q, r])
    }),
    ("svdvals", |x| Ok(vec![ops::linalg_svdvals(&x[0], None)?])),
    ("svd", |x| {
        let (u, s, vh) = ops::linalg_svd(&x[0], false, None)?;
        let squares = ops::real(&ops::mul_tensor(&u, &ops::conj(&u)?)?)?;
        Ok(vec![outer(&u, &ops::square(&s)?, &vh)?, squares])
    }),
    ("pinv", |x| Ok(vec![ops::linalg_pinv_atol_rtol_tensor(&x[0], None, None, false)?])),
];

/// Functions of a matrix with at least as many rows as columns.
const TALL: &[(&str, Function)] = &[
    ("polar", |x| {
        let (u, h) = ops::linalg_polar(&x[0])?;
        Ok(vec![u, h])
    }),
    ("polar's first factor", |x| Ok(vec![ops::linalg_polar(&x[0])?.0])),
    ("lstsq", |x| {
        let right = ops::narrow(&x[0], -1, 0, 1)?;
        let b = ops::mul_tensor(&right, &ops::exp(&right)?)?;
        Ok(vec![ops::linalg_lstsq(&x[0], &b, None, None)?.0])
    }),
    ("householder_product", |x| {
        let tau = ops::diagonal(&x[0], 0, -2, -1)?;
        Ok(vec![ops::linalg_householder_product(&x[0], &tau)?])
    }),
    ("ormqr", |x| {
        let tau = ops::diagonal(&x[0], 0, -2, -1)?;
        Ok(vec![ops::ormqr(&x[0], &tau, &x[0], true, false)?])
    }),
    ("ormqr, adjoint from the right", |x| {
        let tau = ops::diagonal(&x[0], 0, -2, -1)?;
        Ok(vec![ops::ormqr(&x[0], &tau, &mh(&x[0])?, false, true)?])
    }),
    ("ormqr from the right", |x| {
        let tau = ops::diagonal(&x[0], 0, -2, -1)?;
        Ok(vec![ops::ormqr(&x[0], &tau, &mh(&x[0])?, false, false)?])
    }),
    ("ormqr, adjoint", |x| {
        let tau = ops::diagonal(&x[0], 0, -2, -1)?;
        Ok(vec![ops::ormqr(&x[0], &tau, &x[0], true, true)?])
    }),
];

fn check(name: &str, f: Function, inputs: &[Tensor]) {
    let all = GradCheck { check_forward_ad: true, ..GradCheck::default() };
    all.check(f, inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    all.check_twice(f, inputs).unwrap_or_else(|e| panic!("{name}, twice: {e}"));
}

fn variable(sizes: &[i64], seed: u64) -> Tensor {
    let x = regular(sizes, seed, ScalarType::Complex128);
    x.requires_grad_(true).unwrap();
    x
}

#[test]
fn derivatives_of_square_matrices_are_right() {
    for (name, f) in SQUARE {
        check(name, *f, &[variable(&[2, 2], 5), variable(&[2, 2], 9)]);
    }
    for (name, f) in
        SQUARE.iter().filter(|(name, _)| ["cholesky", "inv", "eig", "eigh", "det"].contains(name))
    {
        check(name, *f, &[variable(&[2, 3, 3], 5)]);
    }
}

#[test]
fn derivatives_of_oblong_matrices_are_right() {
    for (name, f) in OBLONG {
        for sizes in [[3, 2], [2, 3], [2, 2]] {
            check(name, *f, &[variable(&sizes, 4)]);
        }
    }
    for (name, f) in TALL {
        for sizes in [[3, 2], [2, 2]] {
            check(name, *f, &[variable(&sizes, 6)]);
        }
    }
}

/// A real matrix has complex eigenvalues, and a real gradient.
#[test]
fn eigenvalues_of_real_matrices_have_real_gradients() {
    let f: Function = |x| {
        let (values, vectors) = ops::linalg_eig(&x[0])?;
        Ok(vec![values, ops::real(&ops::mul_tensor(&vectors, &ops::conj(&vectors)?)?)?])
    };
    for values in [
        vec![1.0, -2.0, 0.5, 1.5, 0.3, 0.7, -0.4, 0.2, -1.0],
        vec![2.0, 0.1, 0.0, 0.3, -1.0, 0.4, 0.2, 0.1, 0.5],
    ] {
        let a = Tensor::from_vec(values, &[3, 3]).unwrap();
        a.requires_grad_(true).unwrap();
        check("eig of real matrices", f, &[a]);
    }
}

/// Functions of matrices have derivatives where eigenvalues are equal.
#[test]
fn equal_eigenvalues_of_functions_of_matrices() {
    let one = || {
        let one = ops::eye(2, Some(ScalarType::Complex128), None, None, None).unwrap();
        one.requires_grad_(true).unwrap();
        one
    };
    let root: Function = |x| Ok(vec![ops::linalg_matrix_sqrth(&hermitian(&x[0])?)?]);
    check("matrix_sqrth", root, &[one()]);
    let polar: Function = |x| {
        let (u, h) = ops::linalg_polar(&x[0])?;
        Ok(vec![u, h])
    };
    check("polar", polar, &[one()]);
}

/// A loss that depends on the phase of vectors has no gradient: PyTorch's words.
#[test]
fn losses_that_depend_on_phases_are_refused() {
    let a = || variable(&[3, 3], 3);
    let refused = |loss: Tensor, words: &str| {
        let error = ops::sum(&ops::real(&loss).unwrap(), None).unwrap().backward().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Autograd);
        assert!(error.to_string().contains(words), "{error}");
    };
    const EIGENVECTORS: &str = "The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. \
                                The specified loss function depends on this quantity, so it is ill-defined.";
    refused(ops::linalg_eig(&a()).unwrap().1, &format!("linalg_eig_backward: {EIGENVECTORS}"));
    refused(
        ops::linalg_eigh(&hermitian(&a()).unwrap(), "L").unwrap().1,
        &format!("linalg_eigh_backward: {EIGENVECTORS}"),
    );
    refused(
        ops::linalg_svd(&a(), false, None).unwrap().0,
        "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The \
         specified loss function depends on this phase term, making it ill-defined.",
    );
}

#[test]
fn a_matrix_has_the_same_bits_alone_and_in_a_batch() {
    let batch = regular(&[3, 9, 9], 2, ScalarType::Complex64);
    type Call = fn(&Tensor) -> Result<Vec<Tensor>>;
    let calls: &[Call] = &[
        |a| Ok(vec![ops::linalg_inv(a)?, ops::linalg_det(a)?]),
        |a| Ok(vec![ops::linalg_svd(a, true, None)?.0, ops::linalg_eig(a)?.1, ops::linalg_eig(a)?.0]),
        |a| {
            Ok(vec![ops::linalg_eigh(a, "L")?.1, ops::linalg_qr(a, "reduced")?.0, ops::linalg_matrix_exp(a)?])
        },
        |a| Ok(vec![ops::linalg_ldl_factor_ex(a, true, false)?.0]),
    ];
    for call in calls {
        for at in 0..3 {
            let alone = call(&ops::select_int(&batch, 0, at).unwrap()).unwrap();
            for (alone, all) in alone.iter().zip(call(&batch).unwrap()) {
                let part = ops::select_int(&all, 0, at).unwrap();
                assert!(ops::equal(alone, &part).unwrap());
            }
        }
    }
}
