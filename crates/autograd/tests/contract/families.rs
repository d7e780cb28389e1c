//! Derivatives of products, reductions, normalizations, losses and pooling against central differences.

use crate::gradients::{check, check_first, sample};
use flambeau_core::Scalar;
use flambeau_ops::ops;

#[test]
fn products_of_matrices_vectors_and_batches() {
    let (beta, alpha) = (Scalar::Float(0.5), Scalar::Int(2));
    let [matrix, other] = [sample(&[2, 3], 0), sample(&[3, 2], 1)];
    let [batch, batches] = [sample(&[2, 2, 3], 2), sample(&[2, 3, 2], 3)];
    let [square, short, long] = [sample(&[2, 2], 4), sample(&[2], 5), sample(&[3], 6)];
    check(|x| ops::bmm(&x[0], &x[1]), &[batch.clone(), batches.clone()]);
    check(|x| ops::addmm(&x[0], &x[1], &x[2], beta, alpha), &[square.clone(), matrix.clone(), other.clone()]);
    check(|x| ops::addmm(&x[0], &x[1], &x[2], beta, alpha), &[short.clone(), matrix.clone(), other]);
    check(
        |x| ops::baddbmm(&x[0], &x[1], &x[2], beta, alpha),
        &[square.clone(), batch.clone(), batches.clone()],
    );
    check(|x| ops::addbmm(&x[0], &x[1], &x[2], beta, alpha), &[square, batch, batches]);
    check(|x| ops::mv(&x[0], &x[1]), &[matrix.clone(), long.clone()]);
    check(|x| ops::addmv(&x[0], &x[1], &x[2], beta, alpha), &[short.clone(), matrix.clone(), long.clone()]);
    check(|x| ops::addr(&x[0], &x[1], &x[2], beta, alpha), &[matrix, short, long.clone()]);
    check(|x| ops::dot(&x[0], &x[1]), &[long.clone(), sample(&[3], 7)]);
    check(|x| ops::vdot(&x[0], &x[1]), &[long, sample(&[3], 8)]);
}

#[test]
fn convolutions() {
    let given = [sample(&[1, 2, 3, 3], 0), sample(&[2, 2, 2, 2], 1), sample(&[2], 2)];
    for transposed in [false, true] {
        let run = |x: &[flambeau_ops::Tensor]| {
            ops::convolution(&x[0], &x[1], x.get(2), &[1, 1], &[1, 0], &[1, 1], transposed, &[0, 0], 1)
        };
        check_first(run, &given);
        check_first(run, &given[..2]);
    }
}

#[test]
fn reductions() {
    let x = [sample(&[2, 3], 0)];
    check(|x| ops::mean(&x[0], None), &x);
    check(|x| ops::max(&x[0]), &x);
    check(|x| ops::min(&x[0]), &x);
    for keepdim in [false, true] {
        for dim in [&[0][..], &[1], &[-1, 0], &[]] {
            check(|x| ops::mean_dim(&x[0], Some(dim), keepdim, None), &x);
            check(|x| ops::nansum(&x[0], Some(dim), keepdim, None), &x);
            check(|x| ops::amax(&x[0], dim, keepdim), &x);
            check(|x| ops::amin(&x[0], dim, keepdim), &x);
        }
        for dim in [&[0][..], &[1], &[-1, 0]] {
            check(|x| ops::logsumexp(&x[0], dim, keepdim), &x);
        }
    }
}

#[test]
fn softmax_along_each_dimension() {
    let x = [sample(&[2, 3], 0)];
    for dim in [0, -1] {
        check(|x| ops::_softmax(&x[0], dim, false), &x);
        check(|x| ops::_log_softmax(&x[0], dim, false), &x);
    }
}

#[test]
fn normalizations() {
    let x = [sample(&[2, 4], 0), sample(&[4], 1), sample(&[4], 2)];
    check_first(|x| Ok(ops::native_layer_norm(&x[0], &[4], x.get(1), x.get(2), 1e-3)?.0), &x);
    check_first(|x| Ok(ops::native_layer_norm(&x[0], &[4], None, x.get(1), 1e-3)?.0), &x[..2]);
    check_first(|x| Ok(ops::_fused_rms_norm(&x[0], &[4], x.get(1), Some(1e-3))?.0), &x[..2]);
    let image = [sample(&[2, 4, 2], 3), sample(&[4], 1), sample(&[4], 2)];
    check_first(|x| Ok(ops::native_group_norm(&x[0], x.get(1), x.get(2), 2, 4, 2, 2, 1e-3)?.0), &image);
    check_first(
        |x| Ok(ops::native_batch_norm(&x[0], x.get(1), x.get(2), None, None, true, 0.1, 1e-3)?.0),
        &image,
    );
}

#[test]
fn losses() {
    let x = [sample(&[2, 3], 0), sample(&[2, 3], 1)];
    for reduction in [0, 1, 2] {
        check(|x| ops::mse_loss(&x[0], &x[1], reduction), &x);
        check_first(|x| ops::smooth_l1_loss(&x[0], &x[1], reduction, 0.9), &x);
        check_first(|x| ops::huber_loss(&x[0], &x[1], reduction, 0.9), &x);
    }
}

#[test]
fn pooling() {
    let x = [sample(&[1, 1, 3, 3], 0)];
    check(|x| ops::avg_pool2d(&x[0], &[2, 2], &[1, 1], &[0, 0], false, true, None), &x);
    check(|x| ops::_adaptive_avg_pool2d(&x[0], &[2, 2]), &x);
    check_first(
        |x| Ok(ops::max_pool2d_with_indices(&x[0], &[2, 2], &[1, 1], &[0, 0], &[1, 1], false)?.0),
        &x,
    );
}

/// In-place siblings are derived, and so are their kernels.
#[test]
fn derived_in_place_operators() {
    let x = [sample(&[2, 3], 0), sample(&[2, 3], 1)];
    let on_copy = |f: fn(&flambeau_ops::Tensor, &flambeau_ops::Tensor) -> flambeau_core::Result<()>| {
        check(
            |x| {
                let y = ops::clone(&x[0], None)?;
                f(&y, &x[1])?;
                Ok(y)
            },
            &x,
        );
    };
    on_copy(|y, x| ops::sub__tensor(y, x, Scalar::Int(2)));
    on_copy(ops::div__tensor);
    on_copy(|y, _| ops::tanh_(y));
    on_copy(|y, _| ops::neg_(y));
    on_copy(|y, _| ops::mul__scalar(y, Scalar::Float(1.5)));
    on_copy(|y, _| ops::add__scalar(y, Scalar::Int(1), Scalar::Int(1)));
}
