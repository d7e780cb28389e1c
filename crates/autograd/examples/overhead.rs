//! Measures what recording adds to the time of the smallest calls, in nanoseconds: the best of many runs.

use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};
use std::hint::black_box;
use std::time::Instant;

fn time(name: &str, mut call: impl FnMut() -> Result<()>) -> Result<()> {
    // Short, so that some rounds are not interrupted.
    let (rounds, calls) = (4000, 50);
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    println!("{name:40} {best:8.1} ns");
    Ok(())
}

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add_tensor(a, b, Scalar::Int(1))
}

/// y = y * x; y = y + x, five times; then backward.
fn chain(x: &Tensor) -> Result<()> {
    let mut y = x.clone();
    for _ in 0..5 {
        y = ops::mul_tensor(&y, x)?;
        y = add(&y, x)?;
    }
    y.backward()?;
    black_box(x.grad());
    x.set_grad(None)
}

fn main() -> Result<()> {
    let a = Tensor::from_vec(vec![1.0f32], &[1])?;
    let b = Tensor::from_vec(vec![2.0f32], &[1])?;
    let x = Tensor::from_vec(vec![1.0f32], &[1])?;
    x.requires_grad_(true)?;
    let y = ops::mul_tensor(&x, &x)?;
    time("add, no gradient required", || add(&a, &b).map(drop))?;
    time("add, recorded, leaf + plain", || add(&x, &b).map(drop))?;
    time("add, recorded, leaf + leaf", || add(&x, &x).map(drop))?;
    time("add, recorded, result + plain", || add(&y, &b).map(drop))?;
    time("mul, no gradient required", || ops::mul_tensor(&a, &b).map(drop))?;
    time("mul, recorded, leaf * leaf", || ops::mul_tensor(&x, &x).map(drop))?;
    time("view, no gradient required", || ops::view(&a, &[1, 1]).map(drop))?;
    time("view, recorded", || ops::view(&y, &[1, 1]).map(drop))?;
    time("chain of 10, forward and backward", || chain(&x))?;
    let _unrecorded = no_grad();
    time("add, no_grad", || add(&x, &b).map(drop))?;
    time("view, no_grad", || ops::view(&y, &[1, 1]).map(drop))
}
