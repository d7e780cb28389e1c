//! Writing in place: what is refused, and that the rest has the right gradient.

use crate::{add, assert_close, data, grad_of, leaf, message, mul, sum, values};
use flambeau_autograd::{Autograd, detect_anomaly, no_grad};
use flambeau_core::Scalar;
use flambeau_ops::ops;

#[test]
fn leaves_and_their_views_are_not_written() {
    let x = leaf(&[1.0, 2.0]);
    let two = data(&[2.0], &[1]);
    assert_eq!(
        message(ops::mul__tensor(&x, &two)),
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    let view = ops::select_int(&x, 0, 0).unwrap();
    assert_eq!(
        message(ops::exp_(&view)),
        "a view of a leaf Variable that requires grad is being used in an in-place operation."
    );
    // Refused before anything was written.
    assert_eq!(values(&x), [1.0, 2.0]);
    assert_eq!(x.version(), 0);
    let _unrecorded = no_grad();
    ops::mul__tensor(&x, &two).unwrap();
    assert_eq!(values(&x), [2.0, 4.0]);
}

#[test]
fn a_tensor_without_gradient_acquires_history() {
    let (x, w) = (data(&[1.0, 2.0], &[2]), leaf(&[3.0, 4.0]));
    let view = ops::select_int(&x, 0, 1).unwrap();
    assert!(!view.requires_grad());
    ops::mul__tensor(&x, &w).unwrap();
    assert!(x.requires_grad() && !x.is_leaf());
    assert_eq!(x.grad_fn().unwrap().unwrap().name(), "MulBackward0");
    // The view was there before, and sees it.
    assert!(view.requires_grad() && !view.is_leaf());
    assert_eq!(view.grad_fn().unwrap().unwrap().name(), "AsStridedBackward0");
    sum(&view).backward().unwrap();
    assert_close(&grad_of(&w), &[0.0, 2.0]);
}

#[test]
fn a_saved_input_that_is_written_is_an_error_naming_the_operator() {
    let x = leaf(&[1.0, 2.0]);
    let y = add(&x, &x);
    let z = sum(&mul(&y, &y));
    ops::add__tensor(&y, &y.detach().unwrap(), Scalar::Int(1)).unwrap();
    let text = message(z.backward());
    assert!(
        text.starts_with(
            "MulBackward0: one of the variables needed for gradient computation has been modified by an inplace \
             operation: [torch.DoubleTensor [2]], which is output 0 of AddBackward0, is at version 1; expected version 0 \
             instead."
        ),
        "{text}"
    );
}

#[test]
fn a_saved_output_that_is_written_is_an_error() {
    let x = leaf(&[1.0]);
    let y = ops::exp(&x).unwrap();
    ops::fill__scalar(&y.detach().unwrap(), Scalar::Int(0)).unwrap();
    let text = message(y.backward());
    assert!(text.contains("ExpBackward0") && text.contains("is at version 1; expected version 0"), "{text}");
}

#[test]
fn a_saved_leaf_that_is_written_is_an_error() {
    let (x, w) = (leaf(&[1.0]), leaf(&[2.0]));
    let y = mul(&x, &w);
    {
        let _unrecorded = no_grad();
        ops::fill__scalar(&w, Scalar::Int(3)).unwrap();
    }
    assert!(message(y.backward()).contains("expected version 0"));
}

#[test]
fn writes_after_which_the_saved_value_is_not_used_are_fine() {
    let x = leaf(&[1.0, 2.0]);
    let y = ops::exp(&x).unwrap();
    let z = add(&y, &y);
    ops::mul__tensor(&z, &data(&[3.0], &[1])).unwrap();
    sum(&z).backward().unwrap();
    assert_close(&grad_of(&x), &[6.0 * 1f64.exp(), 6.0 * 2f64.exp()]);
}

#[test]
fn a_write_through_a_view_reaches_base_and_siblings() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = mul(&x, &x);
    let (first, also) = (ops::select_int(&y, 0, 0).unwrap(), ops::view(&y, &[3, 1]).unwrap());
    ops::mul__tensor(&first, &data(&[5.0], &[])).unwrap();
    assert_eq!(y.grad_fn().unwrap().unwrap().name(), "CopySlices");
    assert_eq!(also.grad_fn().unwrap().unwrap().name(), "AsStridedBackward0");
    assert_eq!(values(&also), [5.0, 4.0, 9.0]);
    sum(&also).backward().unwrap();
    assert_close(&grad_of(&x), &[10.0, 4.0, 6.0]);
}

#[test]
fn a_write_to_the_base_reaches_its_views() {
    let (x, w) = (leaf(&[1.0, 2.0]), leaf(&[3.0]));
    let y = mul(&x, &x);
    let second = ops::select_int(&y, 0, 1).unwrap();
    ops::mul__tensor(&y, &w).unwrap();
    sum(&second).backward().unwrap();
    assert_close(&grad_of(&x), &[0.0, 12.0]);
    assert_close(&grad_of(&w), &[4.0]);
}

#[test]
fn a_view_of_no_floating_point_numbers_has_no_part_in_this() {
    let whole = flambeau_ops::Tensor::from_vec(vec![1i64, 2], &[2]).unwrap();
    assert!(!ops::select_int(&whole, 0, 0).unwrap().is_view());
}

#[test]
fn overwriting_stops_the_gradient() {
    let (x, w) = (leaf(&[1.0, 2.0]), leaf(&[5.0]));
    let y = mul(&x, &x);
    ops::copy_(&ops::select_int(&y, 0, 0).unwrap(), &ops::select_int(&w, 0, 0).unwrap(), false).unwrap();
    sum(&y).backward().unwrap();
    assert_close(&grad_of(&x), &[0.0, 4.0]);
    assert_close(&grad_of(&w), &[1.0]);
}

#[test]
fn out_is_refused_where_it_would_be_recorded() {
    let (x, out) = (leaf(&[1.0]), data(&[0.0], &[1]));
    let text = message(ops::add_out(&x, &x, Scalar::Int(1), &out));
    assert!(
        text.starts_with("add(): functions with out=... arguments don't support automatic differentiation"),
        "{text}"
    );
    assert_eq!(values(&out), [0.0]);
    let _unrecorded = no_grad();
    ops::add_out(&x, &x, Scalar::Int(1), &out).unwrap();
    assert_eq!(values(&out), [2.0]);
}

#[test]
fn the_hint_of_anomaly_mode_is_kept() {
    let _anomaly = detect_anomaly(false);
    let x = leaf(&[1.0]);
    let y = ops::exp(&x).unwrap();
    ops::exp_(&y).unwrap();
    ops::fill__scalar(&y.detach().unwrap(), Scalar::Int(0)).unwrap();
    let text = message(y.backward());
    assert!(text.starts_with("Error detected in ExpBackward0. Traceback of forward call"), "{text}");
}
