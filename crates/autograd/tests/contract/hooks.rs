//! Hooks on tensors and nodes, and retained gradients.

use crate::{add, assert_close, data, grad_of, leaf, message, mul, sum, values};
use flambeau_autograd::{Autograd, NodeHandle, backward, grad};
use flambeau_core::Scalar;
use flambeau_ops::{Tensor, ops};
use parking_lot::Mutex;
use std::sync::Arc;

fn double(grad: &Tensor) -> flambeau_core::Result<Option<Tensor>> {
    ops::add_tensor(grad, grad, Scalar::Int(1)).map(Some)
}

#[test]
fn a_hook_on_a_leaf_sees_the_whole_gradient_and_may_replace_it() {
    let x = leaf(&[3.0]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    // Registered when the accumulator is there already, and when it is not.
    let y = mul(&x, &x);
    let handle = x
        .register_hook(move |grad| {
            log.lock().extend(values(grad));
            double(grad)
        })
        .unwrap();
    y.backward().unwrap();
    assert_eq!(*seen.lock(), [6.0]);
    assert_close(&grad_of(&x), &[12.0]);
    drop(y);
    sum(&x).backward().unwrap();
    assert_close(&grad_of(&x), &[14.0]);
    // Hooks come before what `grad` returns.
    let got = grad(&[sum(&x)], &[x.clone()], &[], None, false, false).unwrap();
    assert_close(&values(got[0].as_ref().unwrap()), &[2.0]);
    handle.remove();
    sum(&x).backward().unwrap();
    assert_close(&grad_of(&x), &[15.0]);
}

#[test]
fn a_hook_on_a_result_stays_with_the_value_it_was_put_on() {
    let x = leaf(&[3.0]);
    let y = mul(&x, &x);
    y.register_hook(double).unwrap();
    ops::mul__tensor(&y, &data(&[10.0], &[1])).unwrap();
    y.backward().unwrap();
    assert_close(&grad_of(&x), &[120.0]);
    assert!(message(data(&[1.0], &[1]).register_hook(double)).contains("doesn't require gradient"));
}

#[test]
fn retained_gradients() {
    let x = leaf(&[3.0]);
    let y = mul(&x, &x);
    y.retain_grad().unwrap();
    y.retain_grad().unwrap();
    let z = mul(&y, &x);
    assert!(y.retains_grad() && !z.retains_grad() && !x.retains_grad());
    backward(&[z.clone()], &[], Some(true), false, None).unwrap();
    assert_close(&grad_of(&y), &[3.0]);
    backward(&[z], &[], Some(true), false, None).unwrap();
    assert_close(&grad_of(&y), &[6.0]);
    // After a write in place it is the gradient of the new value.
    y.set_grad(None).unwrap();
    ops::mul__tensor(&y, &data(&[10.0], &[1])).unwrap();
    mul(&y, &data(&[7.0], &[1])).backward().unwrap();
    assert_close(&grad_of(&y), &[7.0]);
    assert!(
        message(data(&[1.0], &[1]).retain_grad())
            .contains("can't retain_grad on Tensor that has requires_grad=False")
    );
}

#[test]
fn hooks_on_nodes_run_around_them() {
    let x = leaf(&[3.0]);
    let y = mul(&x, &x);
    let node = y.grad_fn().unwrap().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (order.clone(), order.clone());
    node.register_prehook(move |grads| {
        before.lock().push(("pre", values(grads[0].as_ref().unwrap())[0]));
        Ok(Some([double(grads[0].as_ref().unwrap())?].into_iter().collect()))
    });
    let post = node.register_hook(move |inputs, outputs| {
        assert_eq!(inputs.len(), 2);
        after.lock().push(("post", values(outputs[0].as_ref().unwrap())[0]));
        Ok(Some([None, inputs[1].clone()].into_iter().collect()))
    });
    backward(&[y.clone()], &[], Some(true), false, None).unwrap();
    assert_eq!(*order.lock(), [("pre", 1.0), ("post", 2.0)]);
    assert_close(&grad_of(&x), &[6.0]);
    post.remove();
    y.backward().unwrap();
    assert_close(&grad_of(&x), &[18.0]);
}

#[test]
fn hooks_after_accumulation_see_the_leaf() {
    let x = leaf(&[3.0]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    x.register_post_accumulate_grad_hook(move |leaf| {
        log.lock().extend(grad_of(leaf));
        leaf.set_grad(None)
    })
    .unwrap();
    mul(&x, &x).backward().unwrap();
    assert_eq!(*seen.lock(), [6.0]);
    assert!(x.grad().is_none());
    assert!(message(add(&x, &x).register_post_accumulate_grad_hook(|_| Ok(()))).contains("non-leaf"));
}

#[test]
fn a_hook_must_keep_the_size() {
    let x = leaf(&[3.0, 4.0]);
    x.register_hook(|_| Ok(Some(data(&[1.0], &[1])))).unwrap();
    assert!(message(sum(&x).backward()).contains("has changed the size of value"));
}
