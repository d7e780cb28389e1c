//! Factorizations, systems of equations, eigenvalues and singular values. Where one triangle is read the input is made symmetric
//! first, and where vectors have either sign only what does not depend on it is compared.

use super::*;
use flambeau_autograd::gradcheck::GradCheck;

/// Numbers with a large diagonal.
fn regular(sizes: &[i64], seed: i64) -> Tensor {
    let (columns, rows) = (sizes[sizes.len() - 1], sizes[sizes.len() - 2]);
    let plain = numbers(sizes.iter().product(), seed);
    let index = |at: usize| (at as i64 / columns % rows, at as i64 % columns);
    let grown =
        |(at, x): (usize, &f64)| if index(at).0 == index(at).1 { x + 2.0 + index(at).0 as f64 } else { *x };
    of(plain.iter().enumerate().map(grown).collect(), sizes)
}

fn mt(x: &Tensor) -> Result<Tensor> {
    ops::transpose_int(x, -2, -1)
}

fn symmetric(x: &Tensor) -> Result<Tensor> {
    x + mt(x)?
}

fn definite(x: &Tensor) -> Result<Tensor> {
    let n = x.size(-1)?;
    ops::matmul(x, &mt(x)?)? + ops::eye(n, Some(ScalarType::F64), None, None, None)?
}

/// Both orders, and tangents.
fn all_modes(name: &str, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    check(name, &f, inputs);
    let both = GradCheck { check_forward_ad: true, check_backward_ad: false, ..GradCheck::default() };
    both.check(&f, inputs).unwrap_or_else(|e| panic!("{name}, tangents: {e}"));
}

#[test]
fn cholesky_of_symmetric_matrices() {
    for sizes in [&[3i64, 3][..], &[2, 2, 2], &[1, 1]] {
        for upper in [false, true] {
            let f = |x: &[Tensor]| Ok(vec![ops::linalg_cholesky(&definite(&x[0])?, upper)?]);
            all_modes("cholesky", f, &[x(sizes, 1)]);
        }
    }
}

#[test]
fn the_gradient_of_cholesky_is_symmetric() {
    let a = constant(&definite(&x(&[3, 3], 1)).unwrap());
    a.requires_grad_(true).unwrap();
    ops::sum(&ops::linalg_cholesky(&a, false).unwrap(), None).unwrap().backward().unwrap();
    let gradient = a.grad().unwrap();
    let difference = (&gradient - mt(&gradient).unwrap()).unwrap();
    assert!(values(&difference).iter().all(|x| x.abs() < 1e-14));
}

#[test]
fn eigenvalues_and_eigenvectors() {
    for sizes in [&[3i64, 3][..], &[2, 2, 2], &[1, 1]] {
        for uplo in ["L", "U"] {
            let values = |x: &[Tensor]| Ok(vec![ops::linalg_eigvalsh(&symmetric(&x[0])?, uplo)?]);
            all_modes("eigvalsh", values, &[x(sizes, 2)]);
            let both = |x: &[Tensor]| {
                let (values, vectors) = ops::linalg_eigh(&symmetric(&x[0])?, uplo)?;
                // Squares have no sign.
                Ok(vec![values, ops::mul_tensor(&vectors, &vectors)?])
            };
            all_modes("eigh", both, &[x(sizes, 2)]);
        }
    }
}

#[test]
fn equal_eigenvalues_have_a_gradient_and_their_vectors_none() {
    let one = || {
        let one = ops::eye(3, Some(ScalarType::F64), None, None, None).unwrap();
        one.requires_grad_(true).unwrap();
        one
    };
    let a = one();
    ops::sum(&ops::linalg_eigvalsh(&a, "L").unwrap(), None).unwrap().backward().unwrap();
    assert_eq!(values(&a.grad().unwrap()), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let a = one();
    let vectors = ops::linalg_eigh(&a, "L").unwrap().1;
    ops::sum(&vectors, None).unwrap().backward().unwrap();
    assert!(values(&a.grad().unwrap()).iter().any(|x| x.is_nan()));
}

#[test]
fn singular_values_and_vectors() {
    // Of full rank: a singular value has no derivative at 0, which is its minimum.
    for sizes in [&[3i64, 3][..], &[4, 2], &[2, 3], &[2, 2, 2], &[2, 3, 2]] {
        let alone = |x: &[Tensor]| Ok(vec![ops::linalg_svdvals(&x[0], None)?]);
        all_modes("svdvals", alone, &[regular(sizes, 3)]);
        let both = |x: &[Tensor]| {
            let (u, s, vh) = ops::linalg_svd(&x[0], false, None)?;
            // Signs of a pair of vectors change together.
            let first = ops::narrow(&vh, -1, 0, 1)?;
            let product = ops::mul_tensor(&u, &mt(&first)?)?;
            Ok(vec![product, s, ops::mul_tensor(&vh, &vh)?])
        };
        all_modes("svd", both, &[regular(sizes, 3)]);
    }
}

#[test]
fn vectors_without_a_singular_value_have_no_gradient() {
    let a = x(&[3, 2], 1);
    let (u, s, _) = ops::linalg_svd(&a, true, None).unwrap();
    let error = ops::sum(&ops::narrow(&u, -1, 2, 1).unwrap(), None).unwrap().backward().unwrap_err();
    assert!(error.to_string().contains("not unique"), "{error}");
    let first = ops::narrow(&u, -1, 0, 2).unwrap();
    ops::sum(&(&first * &s).unwrap(), None).unwrap().backward().unwrap();
    assert!(a.grad().is_some());
}

#[test]
fn determinants_at_every_rank() {
    // Rank 2, 1 and 0 of 3: cofactors, where the inverse does not exist.
    let low = |rank: i64| {
        let (a, b) = (constant(&x(&[3, rank], 1)), constant(&x(&[rank, 3], 2)));
        let made = constant(&ops::mm(&a, &b).unwrap());
        made.requires_grad_(true).unwrap();
        made
    };
    for rank in [3, 2, 1, 0] {
        gradcheck(|x| Ok(vec![ops::linalg_det(&x[0])?]), &[low(rank)])
            .unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    }
    gradgradcheck(|x| Ok(vec![ops::linalg_det(&x[0])?]), &[low(2)]).unwrap();
    let batch = ops::stack(&[constant(&low(3)), constant(&low(1))], 0).unwrap();
    batch.requires_grad_(true).unwrap();
    gradcheck(|x| Ok(vec![ops::linalg_det(&x[0])?]), &[batch]).unwrap();
    all_modes("det", |x| Ok(vec![ops::linalg_det(&x[0])?]), &[regular(&[2, 3, 3], 1)]);
    all_modes("slogdet", |x| Ok(vec![ops::linalg_slogdet(&x[0])?.1]), &[regular(&[2, 3, 3], 1)]);
}

#[test]
fn systems_of_equations() {
    let cases: [(&[i64], &[i64], bool); 4] = [
        (&[3, 3], &[3, 2], true),
        (&[2, 2], &[3, 2], false),
        (&[2, 2, 2], &[2, 1], true),
        (&[2, 2], &[2], true),
    ];
    for (a, b, left) in cases {
        let f = |x: &[Tensor]| Ok(vec![ops::linalg_solve(&x[0], &x[1], left)?]);
        all_modes("solve", f, &[regular(a, 1), x(b, 2)]);
    }
    all_modes("inv", |x| Ok(vec![ops::linalg_inv(&x[0])?]), &[regular(&[2, 2, 2], 1)]);
    for (left, adjoint) in [(true, false), (true, true), (false, false), (false, true)] {
        let f = |x: &[Tensor]| {
            let (factors, pivots, _) = ops::linalg_lu_factor_ex(&x[0], true, false)?;
            Ok(vec![ops::linalg_lu_solve(&factors, &pivots, &x[1], left, adjoint)?])
        };
        // Rows are exchanged.
        let transposed = constant(&ops::flip(&regular(&[2, 2], 1), &[0]).unwrap());
        transposed.requires_grad_(true).unwrap();
        all_modes("lu_solve", f, &[transposed, x(&[2, 2], 2)]);
    }
}

#[test]
fn triangles_of_tall_and_wide_matrices() {
    for sizes in [&[3i64, 3][..], &[3, 2], &[2, 3], &[2, 2, 2]] {
        let lu = |x: &[Tensor]| {
            let (_, l, u) = ops::linalg_lu(&x[0], true)?;
            Ok(vec![l, u])
        };
        let transposed = constant(&ops::flip(&regular(sizes, 1), &[-2]).unwrap());
        transposed.requires_grad_(true).unwrap();
        all_modes("lu", lu, &[transposed]);
        let qr = |x: &[Tensor]| {
            let (q, r) = ops::linalg_qr(&x[0], "reduced")?;
            Ok(vec![q, r])
        };
        all_modes("qr", qr, &[regular(sizes, 1)]);
        all_modes("q alone", |x| Ok(vec![ops::linalg_qr(&x[0], "reduced")?.0]), &[regular(sizes, 1)]);
    }
    let error = |mode: &str| {
        let (q, r) = ops::linalg_qr(&x(&[3, 2], 1), mode).unwrap();
        let used = if mode == "r" { r } else { q };
        ops::sum(&used, None).unwrap().backward().unwrap_err().to_string()
    };
    assert!(error("r").contains("depends on Q"));
    assert!(error("complete").contains("not differentiable when mode='complete' and nrows > ncols"));
}

#[test]
fn products_of_reflectors() {
    all_modes(
        "householder_product",
        |x| Ok(vec![ops::linalg_householder_product(&x[0], &x[1])?]),
        &[x(&[4, 3], 1), x(&[2], 2)],
    );
    for (left, transpose) in [(true, false), (true, true), (false, false), (false, true)] {
        let f = |x: &[Tensor]| Ok(vec![ops::ormqr(&x[0], &x[1], &x[2], left, transpose)?]);
        let other: &[i64] = if left { &[3, 2] } else { &[2, 3] };
        all_modes("ormqr", f, &[x(&[3, 2], 1), x(&[2], 2), x(other, 3)]);
    }
}

#[test]
fn functions_of_matrices() {
    for sizes in [&[3i64, 2][..], &[2, 3], &[2, 2, 2]] {
        let pinv = |x: &[Tensor]| Ok(vec![ops::linalg_pinv_atol_rtol_float(&x[0], None, None, false)?]);
        all_modes("pinv", pinv, &[regular(sizes, 1)]);
    }
    let hermitian =
        |x: &[Tensor]| Ok(vec![ops::linalg_pinv_atol_rtol_float(&symmetric(&x[0])?, None, None, true)?]);
    all_modes("pinv of symmetric", hermitian, &[regular(&[3, 3], 1)]);
    all_modes("matrix_exp", |x| Ok(vec![ops::linalg_matrix_exp(&x[0])?]), &[x(&[2, 2, 2], 1)]);
    // At the identity, where eigenvalues are equal.
    let one = ops::eye(2, Some(ScalarType::F64), None, None, None).unwrap();
    one.requires_grad_(true).unwrap();
    gradcheck(|x| Ok(vec![ops::linalg_matrix_exp(&x[0])?]), &[one]).unwrap();
    for (a, b) in [(&[4i64, 2][..], &[4i64, 2][..]), (&[2, 3], &[2, 1]), (&[2, 3, 2], &[2, 3, 1])] {
        let f = |x: &[Tensor]| {
            let (solution, residuals, _, _) = ops::linalg_lstsq(&x[0], &x[1], None, None)?;
            Ok(if residuals.numel() > 0 { vec![solution, residuals] } else { vec![solution] })
        };
        all_modes("lstsq", f, &[regular(a, 1), x(b, 2)]);
    }
    for (order, sizes) in [(2, [3i64, 2]), (-2, [2, 3])] {
        let f = |x: &[Tensor]| {
            Ok(vec![ops::linalg_matrix_norm(&x[0], Scalar::Int(order), &[-2, -1], false, None)?])
        };
        all_modes("matrix_norm", f, &[x(&sizes, 1)]);
    }
    let nuclear =
        |x: &[Tensor]| Ok(vec![ops::linalg_matrix_norm_str_ord(&x[0], "nuc", &[-2, -1], false, None)?]);
    all_modes("the nuclear norm", nuclear, &[x(&[3, 2], 1)]);
    all_modes("negative powers", |x| Ok(vec![ops::linalg_matrix_power(&x[0], -2)?]), &[regular(&[2, 2], 1)]);
}
