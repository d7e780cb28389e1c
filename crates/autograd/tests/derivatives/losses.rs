//! Losses, their derivatives, and what they share with softmax and pooling.

use super::{constant, fractions, ix, one, s, transposed, x};
use flambeau_core::{Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

#[test]
fn of_differences() {
    let inputs = [x(&[2, 3], 1), transposed(&[2, 3], 5)];
    let broadcast = [x(&[2, 3], 1), x(&[3], 5)];
    for reduction in 0..3 {
        for inputs in [&inputs, &broadcast] {
            one("mse", |x| ops::mse_loss(&x[0], &x[1], reduction), inputs);
            for width in [0.3, 0.6, 5.0] {
                one("smooth l1", |x| ops::smooth_l1_loss(&x[0], &x[1], reduction, width), inputs);
                one("huber", |x| ops::huber_loss(&x[0], &x[1], reduction, width), inputs);
            }
            one("l1", |x| ops::smooth_l1_loss(&x[0], &x[1], reduction, 0.0), inputs);
        }
    }
}

#[test]
fn of_probabilities() {
    let weight = constant(&fractions(&[3], 9));
    let inputs = [fractions(&[2, 3], 1), fractions(&[2, 3], 5)];
    let free = [x(&[2, 3], 1), fractions(&[2, 3], 5)];
    for reduction in 0..3 {
        for weight in [None, Some(&weight)] {
            one("bce", |x| ops::binary_cross_entropy(&x[0], &x[1], weight, reduction), &inputs);
            for positive in [None, Some(&constant(&fractions(&[2, 1], 4)))] {
                let f = |x: &[Tensor]| {
                    ops::binary_cross_entropy_with_logits(&x[0], &x[1], weight, positive, reduction)
                };
                one("bce with logits", f, &free);
            }
        }
        for log in [false, true] {
            for target in [&[2, 3][..], &[3], &[]] {
                let inputs = [free[0].clone(), fractions(target, 5)];
                one("kl_div", |x| ops::kl_div(&x[0], &x[1], reduction, log), &inputs);
            }
        }
    }
    one(
        "bce, 0-d",
        |x| ops::binary_cross_entropy(&x[0], &x[1], None, 1),
        &[fractions(&[], 1), fractions(&[], 2)],
    );
}

/// Far from 0 the slope is 1 or as small as it should be, for each class.
#[test]
fn logits_do_not_cancel() {
    let x = super::of(vec![-40.0, 40.0, -40.0, 40.0], &[4]);
    let target = constant(&super::of(vec![0.0, 0.0, 1.0, 1.0], &[4]));
    let loss = ops::binary_cross_entropy_with_logits(&x, &target, None, None, 2).unwrap();
    let found = flambeau_autograd::grad(&[loss], &[x], &[], None, false, false).unwrap();
    let found = super::values(found[0].as_ref().unwrap());
    let tiny = (-40f64).exp();
    for (found, expected) in found.iter().zip([tiny, 1.0, -1.0, -tiny]) {
        assert!((found / expected - 1.0).abs() < 1e-14, "{found} {expected}");
    }
}

#[test]
fn of_classes() {
    let input = [transposed(&[4, 3], 2)];
    let target = ix(&[2, 0, 1, 2], &[4]);
    let weight = constant(&fractions(&[3], 1));
    for reduction in 0..3 {
        for weight in [None, Some(&weight)] {
            one("nll", |x| ops::nll_loss(&x[0], &target, weight, reduction, 1), &input);
            one(
                "nll of spent scores",
                |x| ops::nll_loss(&ops::exp(&x[0])?, &target, weight, reduction, -100),
                &input,
            );
            for smoothing in [0.0, 0.1] {
                let f = |x: &[Tensor]| {
                    ops::cross_entropy_loss(&x[0], &target, weight, reduction, -100, smoothing)
                };
                one("cross entropy", f, &input);
            }
        }
    }
}

#[test]
fn softmax_and_pooling() {
    let input = [transposed(&[2, 3, 2], 2)];
    for dim in [0, 1, -1] {
        one("softmax", |x| ops::softmax_int(&x[0], dim, None), &input);
        one("log_softmax", |x| ops::log_softmax_int(&x[0], dim, None), &input);
        one("logsumexp", |x| ops::logsumexp(&x[0], &[dim], false), &input);
    }
    one("softmax, 0-d", |t| ops::softmax_int(&t[0], 0, None), &[x(&[], 0)]);
    for sizes in [&[2, 4, 5][..], &[1, 2, 4, 5]] {
        let input = [transposed(sizes, 1)];
        let f = |x: &[Tensor]| {
            Ok(ops::max_pool2d_with_indices(&x[0], &[2, 2], &[1, 2], &[1, 0], &[1, 1], false)?.0)
        };
        one("max_pool2d", f, &input);
        one("avg_pool2d", |x| ops::avg_pool2d(&x[0], &[2, 2], &[1, 2], &[1, 0], false, true, None), &input);
    }
}

#[test]
fn ranges() {
    const DOUBLE: Option<ScalarType> = Some(ScalarType::F64);
    let ends = [x(&[], 1), x(&[], 2)];
    let ls = |x: &[Tensor], n| ops::linspace_tensor_tensor(&x[0], &x[1], n, DOUBLE, None, None, None);
    [1, 2, 5].into_iter().for_each(|n| one("linspace", |x| ls(x, n), &ends));
    one("from", |x| ops::linspace_tensor_scalar(&x[0], s(2.0), 4, DOUBLE, None, None, None), &ends[..1]);
    one("to", |x| ops::linspace_scalar_tensor(s(2.0), &x[0], 4, DOUBLE, None, None, None), &ends[..1]);
    one("floor_divide", |x| ops::floor_divide(&x[0], &x[1]), &ends);
    one("floor_divide by a number", |x| ops::floor_divide_scalar(&x[0], Scalar::Int(2)), &ends[..1]);
}
