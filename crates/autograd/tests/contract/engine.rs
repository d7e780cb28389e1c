//! The engine: accumulation of gradients, retaining of graphs, and concurrent and nested passes.

use crate::{add, assert_close, data, grad_of, leaf, message, mul, sum, values};
use flambeau_autograd::{Autograd, backward, grad};
use flambeau_core::ErrorKind;
use flambeau_ops::{Tensor, ops};
use std::sync::{Arc, Barrier};

#[test]
fn a_leaf_used_twice_gets_both_gradients() {
    let x = leaf(&[2.0, 3.0]);
    sum(&add(&mul(&x, &x), &x)).backward().unwrap();
    assert_close(&grad_of(&x), &[5.0, 7.0]);
    // And again: gradients accumulate, in place.
    let kept = x.grad().unwrap();
    sum(&x).backward().unwrap();
    assert_close(&grad_of(&x), &[6.0, 8.0]);
    assert!(kept.is_same(&x.grad().unwrap()));
}

#[test]
fn leaves_do_not_share_a_gradient() {
    let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
    let seed = data(&[1.0], &[1]);
    backward(&[add(&x, &y)], &[Some(seed.clone())], None, false, None).unwrap();
    for (a, b) in [(&x.grad().unwrap(), &y.grad().unwrap()), (&x.grad().unwrap(), &seed)] {
        ops::fill__scalar(a, 7.into()).unwrap();
        assert_eq!(values(b), [1.0]);
        ops::fill__scalar(a, 1.into()).unwrap();
    }
}

#[test]
fn a_gradient_is_laid_out_like_its_leaf() {
    let x = ops::t(&data(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])).unwrap().detach().unwrap();
    x.requires_grad_(true).unwrap();
    sum(&x).backward().unwrap();
    let grad = x.grad().unwrap();
    assert_eq!(grad.strides(), x.strides());
    assert_eq!(values(&grad), [1.0; 6]);
}

#[test]
fn a_second_pass_needs_retain_graph() {
    let x = leaf(&[2.0]);
    let y = sum(&mul(&x, &x));
    backward(std::slice::from_ref(&y), &[], Some(true), false, None).unwrap();
    y.backward().unwrap();
    assert_close(&grad_of(&x), &[8.0]);
    let error = y.backward().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Autograd);
    assert!(error.message().contains("Trying to backward through the graph a second time"));
    // A graph without saved values can be run a second time.
    let z = add(&x, &x);
    z.backward().unwrap();
    z.backward().unwrap();
    assert_close(&grad_of(&x), &[12.0]);
}

#[test]
fn several_roots_one_of_them_inside_the_graph_of_another() {
    let x = leaf(&[3.0]);
    let y = mul(&x, &x);
    let z = mul(&y, &x);
    // d(y + z + y)/dx = 2 * 2x + 3x^2
    backward(&[y.clone(), z, y], &[], None, false, None).unwrap();
    assert_close(&grad_of(&x), &[39.0]);
}

#[test]
fn what_roots_must_be() {
    let x = leaf(&[1.0, 2.0]);
    let y = mul(&x, &x);
    assert_eq!(message(y.backward()), "grad can be implicitly created only for scalar outputs");
    assert_eq!(
        message(data(&[1.0], &[1]).backward()),
        "element 0 of tensors does not require grad and does not have a grad_fn"
    );
    let wrong = data(&[1.0], &[1]);
    assert!(
        message(backward(&[y.clone()], &[Some(wrong)], None, false, None))
            .contains("Mismatch in shape: grad_output[0]")
    );
    assert!(message(backward(&[sum(&y)], &[], None, false, Some(&[]))).contains("cannot be empty"));
    backward(&[y], &[Some(data(&[10.0, 100.0], &[2]))], None, false, None).unwrap();
    assert_close(&grad_of(&x), &[20.0, 400.0]);
    // A leaf is a root like any other.
    let w = leaf(&[5.0]);
    w.backward().unwrap();
    assert_eq!(grad_of(&w), [1.0]);
}

#[test]
fn grad_of_inputs_accumulates_nothing() {
    let (x, w) = (leaf(&[2.0]), leaf(&[3.0]));
    let y = mul(&x, &w);
    let z = mul(&y, &y);
    let got = grad(&[z.clone()], &[y.clone(), x.clone()], &[], Some(true), false, false).unwrap();
    let got: Vec<f64> = got.iter().flatten().flat_map(values).collect();
    assert_close(&got, &[12.0, 36.0]);
    assert!(x.grad().is_none() && w.grad().is_none());

    let unrelated = leaf(&[1.0]);
    let inputs = [x.clone(), unrelated];
    let unused = grad(&[z.clone()], &inputs, &[], Some(true), false, true).unwrap();
    assert!(unused[0].is_some() && unused[1].is_none());
    assert!(
        message(grad(&[z.clone()], &inputs, &[], Some(true), false, false))
            .contains("appears to not have been used")
    );
    let plain = data(&[1.0], &[1]);
    assert!(message(grad(&[z.clone()], &[plain], &[], None, false, false)).contains("does not require grad"));

    // A root is its own gradient's.
    let own = grad(&[z.clone()], &[z.clone()], &[], Some(true), false, false).unwrap();
    assert_eq!(values(own[0].as_ref().unwrap()), [1.0]);

    backward(&[z], &[], None, false, Some(&[w.clone()])).unwrap();
    assert!(x.grad().is_none());
    assert_close(&grad_of(&w), &[24.0]);
}

#[test]
fn a_pass_that_skips_a_branch_leaves_its_saved_values_alone() {
    let (x, w) = (leaf(&[2.0]), leaf(&[3.0]));
    let (a, b) = (ops::exp(&x).unwrap(), ops::exp(&w).unwrap());
    let y = add(&a, &b);
    grad(&[y], &[x], &[], None, false, false).unwrap();
    b.backward().unwrap();
    assert_close(&grad_of(&w), &[3f64.exp()]);
}

#[test]
fn higher_derivatives() {
    let x = leaf(&[0.5]);
    let mut y = ops::tanh(&mul(&x, &x)).unwrap();
    for _ in 0..3 {
        y = grad(&[y], &[x.clone()], &[], None, true, false).unwrap().remove(0).unwrap();
    }
    // The third derivative of tanh(x^2) at 1/2, by hand: with t = tanh(x^2), s = 1 - t^2, f = 2xs, f' = 2s - 8x^2ts,
    // f'' = -24xts + 16x^3 s(3t^2 - 1).
    let (x, t) = (0.5f64, 0.25f64.tanh());
    let s = 1.0 - t * t;
    assert_close(&values(&y), &[-24.0 * x * t * s + 16.0 * x.powi(3) * s * (3.0 * t * t - 1.0)]);
}

#[test]
fn backward_of_a_gradient_that_was_accumulated() {
    let x = leaf(&[3.0]);
    let y = mul(&mul(&x, &x), &x);
    backward(&[y], &[], None, true, None).unwrap();
    let first = x.grad().unwrap();
    assert!(first.requires_grad());
    x.set_grad(None).unwrap();
    first.backward().unwrap();
    assert_close(&grad_of(&x), &[18.0]);
    x.set_grad(None).unwrap();
}

#[test]
fn passes_in_several_threads_lose_nothing() {
    let x = leaf(&[1.0, 2.0]);
    let shared = mul(&x, &x);
    let threads = 8;
    let barrier = Arc::new(Barrier::new(threads));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (x, shared, barrier) = (x.clone(), shared.clone(), barrier.clone());
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..50 {
                    sum(&mul(&x, &x)).backward().unwrap();
                    backward(&[sum(&shared)], &[], Some(true), false, None).unwrap();
                }
            });
        }
    });
    let n = (threads * 50 * 2) as f64;
    assert_close(&grad_of(&x), &[2.0 * n, 4.0 * n]);
}

#[test]
fn a_hook_may_run_a_pass_of_its_own_through_the_same_nodes() {
    let x = leaf(&[2.0]);
    let y = mul(&x, &x);
    let (inner, twice) = (sum(&y), leaf(&[1.0]));
    let z = mul(&y, &twice);
    let hook = z.register_hook(move |_| {
        backward(std::slice::from_ref(&inner), &[], Some(true), false, None)?;
        Ok(None)
    });
    let handle = hook.unwrap();
    backward(&[z], &[], Some(true), false, None).unwrap();
    assert_close(&grad_of(&x), &[8.0]);
    handle.remove();
}

#[test]
fn numbers_of_nodes_and_edges() {
    let (x, w) = (leaf(&[2.0]), data(&[1.0], &[1]));
    let y = mul(&x, &w);
    let node = y.grad_fn().unwrap().unwrap();
    assert_eq!(node.name(), "MulBackward0");
    let edges = node.header().edges();
    assert_eq!(edges[0].as_ref().unwrap().node.name(), "AccumulateGrad");
    assert!(edges[1].is_none() && y.output_nr() == 0 && !y.is_leaf() && x.is_leaf());
    let later = ops::exp(&y).unwrap().grad_fn().unwrap().unwrap();
    assert!(later.header().sequence_nr() > node.header().sequence_nr());
}

#[test]
fn setting_a_gradient() {
    let x = leaf(&[2.0]);
    assert!(
        message(x.set_grad(Some(&data(&[1.0, 2.0], &[2]))))
            .contains("attempting to assign a gradient of size")
    );
    let f32s = Tensor::from_vec(vec![1.0f32], &[1]).unwrap();
    assert!(message(x.set_grad(Some(&f32s))).contains("with dtype 'float32'"));
    assert!(message(x.set_grad(Some(&x.clone()))).contains("its own grad"));
    x.set_grad(Some(&data(&[4.0], &[1]))).unwrap();
    sum(&x).backward().unwrap();
    assert_eq!(grad_of(&x), [5.0]);
}
