//! Graphs do not leak, and deep graphs need no deep stack. It is one test, since it counts the nodes of the whole process.

#![expect(
    clippy::unwrap_used,
    clippy::cloned_ref_to_slice_refs,
    reason = "tests that read easily, and fail by panicking"
)]

use flambeau_autograd::forward::{dual_level, make_dual};
use flambeau_autograd::{Autograd, backward, grad, live_nodes};
use flambeau_core::Scalar;
use flambeau_ops::{Tensor, ops};

fn leaf(value: f64) -> Tensor {
    let tensor = Tensor::from_vec(vec![value], &[1]).unwrap();
    tensor.requires_grad_(true).unwrap();
    tensor
}

fn value(tensor: &Tensor) -> f64 {
    tensor.item().unwrap()
}

fn mul(a: &Tensor, b: &Tensor) -> Tensor {
    ops::mul_tensor(a, b).unwrap()
}

fn add(a: &Tensor, b: &Tensor) -> Tensor {
    ops::add_tensor(a, b, Scalar::Int(1)).unwrap()
}

/// Runs on the small stack of a second thread, so that recursion would be noticed.
fn on_small_stack(run: fn()) {
    std::thread::Builder::new().stack_size(256 * 1024).spawn(run).unwrap().join().unwrap();
    assert_eq!(live_nodes(), 0);
}

const DEEP: usize = 1_000_000;

/// A chain in which each node is owned only by the edge of the next.
fn chain_of_edges() {
    let x = leaf(1.0);
    let mut y = add(&x, &x);
    for _ in 1..DEEP {
        y = add(&y, &x);
    }
    assert_eq!(live_nodes(), DEEP as i64);
    y.backward().unwrap();
    assert_eq!(value(&x.grad().unwrap()), (DEEP + 1) as f64);
}

/// A chain in which each node is owned also by a tensor that the next has saved; half of it is never run backwards.
fn chain_of_saved_tensors() {
    let (x, w) = (leaf(1.0), leaf(1.0));
    let mut y = mul(&x, &w);
    for _ in 1..DEEP / 4 {
        y = mul(&y, &w);
    }
    drop(y);
    assert_eq!(live_nodes(), 0);
    let mut y = mul(&x, &w);
    for _ in 1..DEEP / 4 {
        y = mul(&y, &w);
    }
    y.backward().unwrap();
    assert_eq!(value(&w.grad().unwrap()), (DEEP / 4) as f64);
}

/// Writes in place through a view stack one history upon another.
fn chain_of_writes() {
    let x = leaf(1.0);
    let y = mul(&x, &x);
    let view = ops::view(&y, &[1, 1]).unwrap();
    for _ in 0..2000 {
        ops::add__tensor(&view, &x, Scalar::Int(1)).unwrap();
    }
    y.backward().unwrap();
    assert_eq!(value(&x.grad().unwrap()), 2002.0);
}

fn create_graph() {
    for _ in 0..20 {
        let x = leaf(0.5);
        let y = ops::tanh(&mul(&x, &ops::exp(&x).unwrap())).unwrap();
        // `x.grad` owns a graph that owns x: a cycle that the program creates, and breaks again.
        backward(&[mul(&y, &y)], &[], None, true, None).unwrap();
        let first = x.grad().unwrap();
        x.set_grad(None).unwrap();
        let second = grad(&[first], &[x.clone()], &[], None, true, false).unwrap().remove(0).unwrap();
        grad(&[second], &[x], &[], None, true, false).unwrap();
    }
    assert_eq!(live_nodes(), 0);
}

/// In-place operators on tensors that an earlier node saved: no backward is possible, and no cycle may stay.
fn writes_over_saved_tensors() {
    let w = leaf(2.0);
    let x = mul(&w, &w);
    let y = mul(&x, &w);
    ops::mul__tensor(&x, &y).unwrap();
    let plain = Tensor::from_vec(vec![1.0f64], &[1]).unwrap();
    let z = mul(&plain, &w);
    ops::mul__tensor(&plain, &z).unwrap();
    let view = ops::view(&x, &[1, 1]).unwrap();
    ops::exp_(&view).unwrap();
    ops::exp_(&x).unwrap();
    drop((w, x, y, z, plain, view));
    assert_eq!(live_nodes(), 0);
}

fn failed_passes() {
    let x = leaf(2.0);
    let y = ops::exp(&mul(&x, &x)).unwrap();
    ops::fill__scalar(&y.detach().unwrap(), Scalar::Int(0)).unwrap();
    y.backward().unwrap_err();
    drop((x, y));
    assert_eq!(live_nodes(), 0);
}

/// A graph made in one thread and dropped in another.
fn across_threads() {
    let x = leaf(2.0);
    let y = std::thread::spawn({
        let x = x.clone();
        move || mul(&x, &x)
    });
    let y = y.join().unwrap();
    assert_eq!(live_nodes(), 1);
    drop(y);
    assert_eq!(live_nodes(), 0);
}

/// The graph of a tangent owns aliases of the results that own the tangent; the end of the level breaks this cycle.
fn tangents_of_a_level() {
    let x = leaf(0.5);
    let _level = dual_level().unwrap();
    let one = Tensor::from_vec(vec![1.0], &[1]).unwrap();
    let mut y = make_dual(&x, &one).unwrap();
    for _ in 0..5 {
        y = ops::tanh(&ops::exp(&y).unwrap()).unwrap();
    }
    assert!(live_nodes() > 5);
}

#[test]
fn nothing_is_left_behind() {
    for run in [
        chain_of_edges,
        chain_of_saved_tensors,
        chain_of_writes,
        create_graph,
        writes_over_saved_tensors,
        failed_passes,
        across_threads,
        tangents_of_a_level,
    ] {
        on_small_stack(run);
    }
}
