//! Products, cumulative sums, moments, minima and maxima, and norms.

use super::{check, constant, fractions, numbers, of, one, s, transposed, values, x};
use flambeau_autograd::{Autograd, grad};
use flambeau_core::{Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

/// A matrix with no zero, one, two and three zeros in its rows, row-major and column-major.
fn with_zeros() -> [Tensor; 2] {
    let mut all = numbers(16, 3);
    [4, 9, 11, 12, 13, 15].iter().for_each(|index| all[*index] = 0.0);
    let plain = of(all.clone(), &[4, 4]);
    let back = ops::transpose_int(&constant(&of(all, &[4, 4])), 0, 1).unwrap();
    back.requires_grad_(true).unwrap();
    [plain, back]
}

#[test]
fn products() {
    for (which, input) in with_zeros().into_iter().enumerate() {
        for dim in [0, 1, -1] {
            let input = std::slice::from_ref(&input);
            for keep in [false, true] {
                one(
                    &format!("prod {dim} {keep} {which}"),
                    |x| ops::prod_dim_int(&x[0], dim, keep, None),
                    input,
                );
            }
            one(&format!("cumprod {dim} {which}"), |x| ops::cumprod(&x[0], dim, None), input);
        }
    }
    for zeros in 0..4 {
        let mut all = numbers(5, 1);
        all[..zeros].fill(0.0);
        one(&format!("prod of {zeros} zeros"), |x| ops::prod(&x[0], None), &[of(all, &[5])]);
    }
    one("prod, 0-d", |x| ops::prod(&x[0], None), &[x(&[], 0)]);
    one("prod.dim, 0-d", |x| ops::prod_dim_int(&x[0], -1, true, None), &[x(&[], 0)]);
    one("prod, middle", |x| ops::prod_dim_int(&x[0], 1, false, None), &[transposed(&[2, 3, 2], 0)]);
    one("prod, empty", |x| ops::prod_dim_int(&x[0], 1, false, None), &[x(&[2, 0], 0)]);
    one("cumprod, 0-d", |x| ops::cumprod(&x[0], 0, None), &[x(&[], 0)]);
    one("cumprod, empty", |x| ops::cumprod(&x[0], 1, None), &[x(&[2, 0], 0)]);
    one("cumprod, middle", |x| ops::cumprod(&x[0], 1, None), &[transposed(&[2, 4, 3], 2)]);
}

/// The third derivative of a product with two zeros, one with respect to each of its three factors, is 1.
#[test]
fn products_have_every_derivative() {
    let x = of(vec![0.0, 2.0, 0.0], &[3]);
    let mut y = ops::prod(&x, None).unwrap();
    for factor in [0, 2, 1] {
        let all = grad(&[y], std::slice::from_ref(&x), &[], None, true, false).unwrap();
        y = ops::select_int(all[0].as_ref().unwrap(), 0, factor).unwrap();
    }
    assert_eq!(values(&y), [1.0]);
}

#[test]
fn running_sums() {
    for dim in [0, 1, -1] {
        one(&format!("cumsum {dim}"), |x| ops::cumsum(&x[0], dim, None), &[transposed(&[2, 3, 2], 1)]);
    }
    one("cumsum, 0-d", |x| ops::cumsum(&x[0], 0, None), &[x(&[], 0)]);
    one("cumsum, empty", |x| ops::cumsum(&x[0], 0, None), &[x(&[0, 2], 0)]);
    for reverse in [false, true] {
        let inputs = [transposed(&[2, 4, 2], 1), x(&[2, 4, 2], 2)];
        one("_linear_recurrence", |x| ops::_linear_recurrence(&x[0], &x[1], 1, reverse), &inputs);
    }
}

/// A product that overflows on the other side of a zero does not affect the gradient.
#[test]
fn recurrences_forget_infinities_at_zeros() {
    let factors = of(vec![1.0, 1e200, 1e200, 0.0, 3.0], &[5]);
    let ones = of(vec![1.0; 5], &[5]);
    let y = ops::_linear_recurrence(&factors, &ones, 0, false).unwrap();
    assert_eq!(values(&y), [1.0, 1e200, f64::INFINITY, 1.0, 4.0]);
}

#[test]
fn moments() {
    let dims: [Option<&[i64]>; 4] = [None, Some(&[1]), Some(&[0, -1]), Some(&[])];
    let input = [transposed(&[2, 3, 2], 1)];
    for (dim, keep) in dims.into_iter().flat_map(|dim| [(dim, false), (dim, true)]) {
        for correction in [None, Some(s(0.0)), Some(s(0.5))] {
            let name = format!("{dim:?} {keep} {correction:?}");
            one(&format!("var {name}"), |x| ops::var_correction(&x[0], dim, correction, keep), &input);
            one(&format!("std {name}"), |x| ops::std_correction(&x[0], dim, correction, keep), &input);
        }
        let both = |(a, b): (Tensor, Tensor)| vec![a, b];
        check("var_mean", |x| Ok(both(ops::var_mean_correction(&x[0], dim, None, keep)?)), &input);
        check("std_mean", |x| Ok(both(ops::std_mean_correction(&x[0], dim, None, keep)?)), &input);
        check("mean of var_mean", |x| Ok(vec![ops::var_mean_correction(&x[0], dim, None, keep)?.1]), &input);
    }
    one("var, 0-d", |x| ops::var_correction(&x[0], None, Some(s(0.0)), false), &[x(&[], 0)]);
    one("var, empty rows", |x| ops::var_correction(&x[0], Some(&[1]), None, false), &[x(&[0, 3], 0)]);
}

fn gradient(y: Tensor, x: &Tensor) -> Vec<f64> {
    let ones = ops::ones_like(&y.detach().unwrap(), None, None, None, None, None).unwrap();
    values(
        grad(&[y], std::slice::from_ref(x), &[Some(ones)], None, false, false).unwrap()[0].as_ref().unwrap(),
    )
}

#[test]
fn spread_of_equal_numbers() {
    let x = of(vec![2.0; 3], &[3]);
    assert_eq!(gradient(ops::std_correction(&x, None, None, false).unwrap(), &x), [0.0; 3]);
    let lone = of(vec![2.0], &[1]);
    assert!(gradient(ops::var_correction(&lone, None, None, false).unwrap(), &lone)[0].is_nan());
}

#[test]
fn extremes() {
    let input = [transposed(&[3, 4], 2)];
    for (dim, keep) in [(0, false), (1, true), (-1, false)] {
        one("max.dim", |x| Ok(ops::max_dim(&x[0], dim, keep)?.0), &input);
        one("min.dim", |x| Ok(ops::min_dim(&x[0], dim, keep)?.0), &input);
        let both = |(a, b): (Tensor, Tensor)| vec![a, b];
        check("aminmax", |x| Ok(both(ops::aminmax(&x[0], Some(dim), keep)?)), &input);
        check("max of aminmax", |x| Ok(vec![ops::aminmax(&x[0], Some(dim), keep)?.1]), &input);
        one("amax", |x| ops::amax(&x[0], &[dim], keep), &input);
    }
    check("aminmax of all", |x| Ok(vec![ops::aminmax(&x[0], None, false)?.0]), &input);
    one("amin of all", |x| ops::amin(&x[0], &[], true), &input);
    one("amax, dims", |x| ops::amax(&x[0], &[0, 1], false), &input);
    one("max, 0-d", |t| Ok(ops::max_dim(&t[0], 0, false)?.0), &[x(&[], 0)]);
    one("amax, 0-d", |t| ops::amax(&t[0], &[0], true), &[x(&[], 0)]);
}

/// `max.dim` sends the gradient to the index that it returns, `amax` divides it equally, and NaN counts as the maximum.
#[test]
fn ties() {
    let x = of(vec![1.0, 3.0, 3.0], &[3]);
    assert_eq!(gradient(ops::max_dim(&x, 0, false).unwrap().0, &x), [0.0, 1.0, 0.0]);
    assert_eq!(gradient(ops::amax(&x, &[0], false).unwrap(), &x), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(ops::max(&x).unwrap(), &x), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(ops::aminmax(&x, None, false).unwrap().1, &x), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(ops::norm_scalar(&x, s(f64::INFINITY)).unwrap(), &x), [0.0, 0.5, 0.5]);
    let x = of(vec![1.0, f64::NAN, 3.0], &[3]);
    assert_eq!(gradient(ops::max(&x).unwrap(), &x), [0.0, 1.0, 0.0]);
}

#[test]
fn norms() {
    let input = [transposed(&[3, 4], 1)];
    let powers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, -1.0, f64::INFINITY, f64::NEG_INFINITY];
    for p in powers {
        for (dim, keep) in [(None, false), (None, true), (Some(&[1][..]), false), (Some(&[0, -1][..]), true)]
        {
            let name = format!("vector norm {p} {dim:?} {keep}");
            one(&name, |x| ops::linalg_vector_norm(&x[0], s(p), dim, keep, None), &input);
        }
        one("norm", |x| ops::norm_scalar(&x[0], s(p)), &input);
        one("norm.dim", |x| ops::norm_scalaropt_dim(&x[0], Some(s(p)), &[0], true), &input);
        let wide = ScalarType::F64;
        one("norm.dtype", |x| ops::norm_scalaropt_dtype(&x[0], Some(s(p)), wide), &input);
        one(
            "norm.dim_dtype",
            |x| ops::norm_scalaropt_dim_dtype(&x[0], Some(s(p)), &[1], false, wide),
            &input,
        );
    }
    one("norm, 0-d", |t| ops::norm_scalar(&t[0], Scalar::Int(2)), &[x(&[], 0)]);
    one("norm, 2 unless given", |x| ops::norm_scalaropt_dim(&x[0], None, &[1], false), &input);
    one("norm, empty", |t| ops::norm_scalaropt_dim(&t[0], None, &[1], false), &[x(&[2, 0], 0)]);
}

/// Powers above 2 are smooth at 0, and the derivatives of the norm of zeros are not NaN.
#[test]
fn norms_at_zero() {
    let x = of(vec![0.0, 0.7, -0.3], &[3]);
    one("norm 3", |x| ops::norm_scalar(&x[0], s(3.0)), std::slice::from_ref(&x));
    one("norm 2", |x| ops::norm_scalar(&x[0], s(2.0)), std::slice::from_ref(&x));
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0] {
        let zeros = of(vec![0.0; 3], &[3]);
        let y = ops::norm_scalar(&zeros, s(p)).unwrap();
        let first =
            grad(&[y], std::slice::from_ref(&zeros), &[], None, true, false).unwrap()[0].clone().unwrap();
        assert_eq!(values(&first), [0.0; 3], "{p}");
        if first.requires_grad() {
            assert!(gradient(first, &zeros).iter().all(|g| g.is_finite()), "{p}, twice");
        }
    }
}

#[test]
fn weights_of_a_covariance_have_gradients_too() {
    for correction in [0, 1] {
        one(
            &format!("cov, correction {correction}"),
            |x| ops::cov(&x[0], correction, None, Some(&x[1])),
            &[x(&[3, 5], 0), fractions(&[5], 1)],
        );
    }
    one("cov of one row", |x| ops::cov(&x[0], 1, None, Some(&x[1])), &[x(&[4], 0), fractions(&[4], 1)]);
}
