//! Normalizations: layer, root mean square, group and batch.

use super::{check, constant, fractions, one, transposed, x};
use flambeau_autograd::{grad, gradcheck};
use flambeau_ops::{Tensor, ops};

#[test]
fn of_the_last_dimensions() {
    for (sizes, shape) in [(&[3, 4][..], &[4][..]), (&[2, 3, 2], &[3, 2]), (&[4], &[4])] {
        let (input, weight, bias) = (transposed(sizes, 1), x(shape, 2), x(shape, 3));
        let all = [input.clone(), weight.clone(), bias];
        let layer =
            |x: &Tensor, w: Option<&Tensor>, b: Option<&Tensor>| ops::layer_norm(x, shape, w, b, 1e-2, false);
        one("layer_norm", |x| layer(&x[0], Some(&x[1]), Some(&x[2])), &all);
        one("layer_norm, no bias", |x| layer(&x[0], Some(&x[1]), None), &all[..2]);
        one("layer_norm, plain", |x| layer(&x[0], None, None), &all[..1]);
        one("layer_norm, fixed weight", |x| layer(&x[0], Some(&constant(&weight)), None), &all[..1]);
        one("rms_norm", |x| ops::rms_norm(&x[0], shape, Some(&x[1]), Some(1e-2)), &all[..2]);
        one("rms_norm, plain", |x| ops::rms_norm(&x[0], shape, None, None), &all[..1]);
    }
    one("layer_norm of none", |x| ops::layer_norm(&x[0], &[3], None, None, 1e-2, false), &[x(&[0, 3], 0)]);
}

#[test]
fn of_groups() {
    for sizes in [&[2, 4, 3][..], &[1, 4, 2, 2], &[2, 4]] {
        let all = [transposed(sizes, 1), x(&[4], 2), x(&[4], 3)];
        one("group_norm", |x| ops::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-2, false), &all);
        one("group_norm, plain", |x| ops::group_norm(&x[0], 1, None, None, 1e-2, false), &all[..1]);
    }
}

#[test]
fn of_channels() {
    let (mean, var) = (constant(&x(&[2], 7)), constant(&fractions(&[2], 8)));
    for sizes in [&[3, 2, 2][..], &[4, 2], &[2, 2, 2, 1]] {
        let all = [transposed(sizes, 1), x(&[2], 2), x(&[2], 3)];
        for train in [true, false] {
            let statistics = (!train).then_some([&mean, &var]);
            let [m, v] = statistics.map_or([None, None], |[m, v]| [Some(m), Some(v)]);
            let f = |x: &Tensor, w: Option<&Tensor>, b: Option<&Tensor>| {
                ops::batch_norm(x, w, b, m, v, train, 0.1, 1e-2, false)
            };
            one("batch_norm", |x| f(&x[0], Some(&x[1]), Some(&x[2])), &all);
            one("batch_norm, plain", |x| f(&x[0], None, None), &all[..1]);
        }
    }
}

/// The statistics that the forward pass has saved are differentiated as functions of the input, in derivatives of any order.
#[test]
fn a_third_derivative() {
    let second = |x: &[Tensor]| {
        let y = ops::layer_norm(&x[0], &[4], Some(&x[1]), None, 1e-1, false)?;
        let y = ops::sum(&ops::mul_tensor(&ops::mul_tensor(&y, &y)?, &y)?, None)?;
        let first = grad(&[y], &x[..1], &[], None, true, false)?[0].clone().unwrap();
        let bent = ops::sum(&ops::mul_tensor(&first, &first)?, None)?;
        Ok(vec![grad(&[bent], &x[..1], &[], None, true, false)?[0].clone().unwrap()])
    };
    gradcheck(second, &[x(&[2, 4], 1), x(&[4], 2)]).unwrap();
}

/// An input that is itself the result of operators gets the right gradient.
#[test]
fn of_what_was_computed() {
    let f = |x: &[Tensor]| {
        let y = ops::mul_tensor(&x[0], &x[0])?;
        Ok(vec![ops::mul_tensor(&ops::layer_norm(&y, &[3], Some(&y), None, 1e-1, false)?, &y)?])
    };
    check("layer_norm of squares by squares", f, &[x(&[3], 1)]);
}
