//! Derivatives of both orders against central differences, a module for each family of operators.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a call that fails, fails the test"
)]

mod attention;
mod branches;
mod linear_algebra;
mod losses;
mod normalizations;
mod recurrent;
mod reductions;
mod scatter_reduce;
mod types;

use flambeau_autograd::{Autograd, gradcheck, gradgradcheck};
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

/// Numbers between -1 and 1, distinct, far enough apart that differences change no order. Another `seed`, other numbers.
fn numbers(n: i64, seed: i64) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + 13 + seed * 271) % 1009) as f64 / 504.5 - 0.9995).collect()
}

fn of(values: Vec<f64>, sizes: &[i64]) -> Tensor {
    let made = Tensor::from_vec(values, sizes).unwrap();
    made.requires_grad_(true).unwrap();
    made
}

fn x(sizes: &[i64], seed: i64) -> Tensor {
    of(numbers(sizes.iter().product(), seed), sizes)
}

/// The same numbers with reversed strides, so that the first dimension is the innermost.
fn transposed(sizes: &[i64], seed: i64) -> Tensor {
    let back: Vec<i64> = sizes.iter().rev().copied().collect();
    let dims: Vec<i64> = (0..sizes.len() as i64).rev().collect();
    let made = Tensor::from_vec(numbers(sizes.iter().product(), seed), &back).unwrap();
    let made = ops::permute(&made, &dims).unwrap().detach().unwrap();
    made.requires_grad_(true).unwrap();
    made
}

/// Numbers above 0 and below 1.
fn fractions(sizes: &[i64], seed: i64) -> Tensor {
    of(numbers(sizes.iter().product(), seed).iter().map(|v| 0.5 + 0.45 * v).collect(), sizes)
}

fn ix(values: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), sizes).unwrap()
}

fn constant(tensor: &Tensor) -> Tensor {
    tensor.detach().unwrap()
}

fn s(x: f64) -> Scalar {
    Scalar::Float(x)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let dense = ops::clone(&tensor.detach().unwrap(), None).unwrap();
    ops::reshape(&dense, &[-1]).unwrap().to_vec::<f64>().unwrap()
}

/// Checks derivatives of both orders of `y + y^2`, neither of which is 0 where `y` is 0.
fn check(name: &str, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    let bent = |x: &[Tensor]| {
        f(x)?.iter().map(|y| ops::addcmul(y, y, y, Scalar::Int(1))).collect::<Result<Vec<_>>>()
    };
    gradcheck(bent, inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    gradgradcheck(bent, inputs).unwrap_or_else(|e| panic!("{name}, twice: {e}"));
}

/// The same of one result.
fn one(name: &str, f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) {
    check(name, |x| Ok(vec![f(x)?]), inputs);
}

fn to_bool(tensor: &Tensor) -> Tensor {
    ops::to_dtype(tensor, ScalarType::Bool, false, false, None).unwrap()
}
