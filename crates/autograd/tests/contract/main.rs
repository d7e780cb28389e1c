//! The contract of autograd, from outside: one module for each part of it.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::cloned_ref_to_slice_refs, reason = "lists of one read like lists of two")]

mod anomaly;
mod buffer_reuse;
mod engine;
mod families;
mod forward;
mod functional;
mod functions;
mod gradients;
mod hooks;
mod inplace;
mod modes;
mod saved;
mod views;

use flambeau_autograd::Autograd;
use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// A tensor of f64 that needs no gradient.
fn data(values: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), sizes).unwrap()
}

/// A leaf of f64 that requires a gradient.
fn leaf(values: &[f64]) -> Tensor {
    let tensor = data(values, &[values.len() as i64]);
    tensor.requires_grad_(true).unwrap();
    tensor
}

/// The elements in row-major order.
fn values(tensor: &Tensor) -> Vec<f64> {
    if let Ok(values) = tensor.to_vec::<f32>() {
        return values.into_iter().map(f64::from).collect();
    }
    tensor.to_vec().unwrap()
}

/// The elements of a leaf's gradient.
fn grad_of(tensor: &Tensor) -> Vec<f64> {
    values(&tensor.grad().expect("a gradient"))
}

fn add(a: &Tensor, b: &Tensor) -> Tensor {
    ops::add_tensor(a, b, Scalar::Int(1)).unwrap()
}

fn mul(a: &Tensor, b: &Tensor) -> Tensor {
    ops::mul_tensor(a, b).unwrap()
}

fn sum(a: &Tensor) -> Tensor {
    ops::sum(a, None).unwrap()
}

/// What an error says.
fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.to_string(),
    }
}

/// `[2.0] == [2.0]` up to rounding.
fn assert_close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{got:?} {expected:?}");
    for (g, e) in got.iter().zip(expected) {
        assert!((g - e).abs() <= 1e-12 * (1.0 + e.abs()), "expected {expected:?} but got {got:?}");
    }
}
