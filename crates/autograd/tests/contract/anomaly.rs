//! Anomaly mode.

use crate::{data, leaf, message, sum};
use flambeau_autograd::{Autograd, detect_anomaly};
use flambeau_ops::ops;

#[test]
fn a_nan_is_traced_to_the_node_that_made_it() {
    let run = || {
        let x = leaf(&[0.0, 1.0]);
        // 0 / 0 / 0 in the derivative by the divisor.
        let y = ops::div_tensor(&ops::mul_tensor(&x, &x).unwrap(), &x).unwrap();
        sum(&y).backward()
    };
    run().unwrap();
    let _anomaly = detect_anomaly(true);
    let text = message(run());
    assert!(text.contains("Function 'DivBackward0' returned nan values in its 1th output."), "{text}");
    assert!(text.contains("Error detected in DivBackward0. Traceback of forward call"), "{text}");
    assert!(text.contains("a_nan_is_traced"), "{text}");
}

#[test]
fn infinities_are_no_nan() {
    let _anomaly = detect_anomaly(true);
    let x = leaf(&[0.0, 0.0]);
    let y = ops::div_tensor(&data(&[1.0, -1.0], &[2]), &x).unwrap();
    sum(&ops::neg(&y).unwrap()).backward().unwrap();
}

#[test]
fn the_mode_ends_with_its_guard() {
    let x = leaf(&[1.0]);
    let traced = |y: &flambeau_ops::Tensor| y.grad_fn().unwrap().unwrap().header().trace().is_some();
    {
        let _anomaly = detect_anomaly(false);
        assert!(traced(&ops::exp(&x).unwrap()));
    }
    assert!(!traced(&ops::exp(&x).unwrap()));
}
