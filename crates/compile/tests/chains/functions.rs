//! The functions that tests compile and the example `timings` times.

use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

/// A function of tensors.
pub(crate) type Chain = fn(&[Tensor]) -> Result<Vec<Tensor>>;

fn squared_error(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let d = (&x[0] - &x[1])?;
    Ok(vec![(&d * &d)?])
}

fn smooth_l1(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let d = (&x[0] - &x[1])?.abs()?;
    let near = ((&d * &d)? * 0.5)?;
    Ok(vec![ops::where_self(&d.lt_scalar(1.0)?, &near, &(&d - 0.5)?)?])
}

fn bce_with_logits(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let log = ((&x[0].abs()? * -1.0)?).exp()?.log1p()?;
    Ok(vec![((x[0].clamp_min(0.0)? - (&x[0] * &x[1])?)? + log)?])
}

fn gelu_by_tanh(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let x = &x[0];
    let cube = ((x * x)? * x)?;
    let inner = ((x + (cube * 0.044715)?)? * 0.797_884_560_8)?;
    Ok(vec![((x * 0.5)? * (inner.tanh()? + 1.0)?)?])
}

fn swiglu(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![(x[0].silu()? * &x[1])?])
}

fn mish(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![(&x[0] * x[0].softplus()?.tanh()?)?])
}

fn adam(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let [p, g, m, v] = x else { return Ok(Vec::new()) };
    let m = ((m * 0.9)? + (g * 0.1)?)?;
    let v = ((v * 0.999)? + ((g * g)? * 0.001)?)?;
    let step = (&m / (v.abs()?.sqrt()? + 1e-8)?)?;
    Ok(vec![(p - (step * 0.001)?)?, m, v])
}

fn sgd(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let [p, g, m, ..] = x else { return Ok(Vec::new()) };
    let m = ((m * 0.9)? + (g + (p * 0.01)?)?)?;
    Ok(vec![(p - (&m * 0.1)?)?, m])
}

fn normalized(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let scale = ((&x[1] * &x[1])? + 1e-5)?.rsqrt()?;
    Ok(vec![(((&x[0] - &x[2])? * scale)? * &x[3])?])
}

fn rotated(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let (sin, cos) = (x[2].sin()?, x[2].cos()?);
    Ok(vec![((&x[0] * &cos)? - (&x[1] * &sin)?)?, ((&x[0] * sin)? + (&x[1] * cos)?)?])
}

fn masked(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let mask = x[0].gt_scalar(0.0)?.logical_and(&x[1].lt(&x[2])?)?.logical_or(&x[3].isnan()?)?;
    let chosen = ops::where_self(&mask, &(&x[0] / &x[1])?, &(&x[2] * &x[3])?)?;
    Ok(vec![(chosen + &mask)?, mask])
}

fn activations(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let y = (x[0].elu()? + x[1].sigmoid()?)?;
    Ok(vec![(y.relu()? + x[2].hardtanh()?)?.maximum(&x[3].gelu()?)?])
}

fn roundings(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let y = ((x[0].floor()? + x[1].ceil()?)? + (x[2].round()? + x[3].trunc()?)?)?;
    Ok(vec![y.clamp(-3.0, 7.5)?, x[0].erf()?.expm1()?, (&x[1] * &x[1])?.log()?])
}

/// All functions, with how many tensors each takes.
pub(crate) const CHAINS: &[(&str, Chain, usize)] = &[
    ("squared_error", squared_error, 2),
    ("smooth_l1", smooth_l1, 2),
    ("bce_with_logits", bce_with_logits, 2),
    ("gelu_by_tanh", gelu_by_tanh, 1),
    ("swiglu", swiglu, 2),
    ("mish", mish, 1),
    ("adam", adam, 4),
    ("sgd", sgd, 3),
    ("normalized", normalized, 4),
    ("rotated", rotated, 3),
    ("masked", masked, 4),
    ("activations", activations, 4),
    ("roundings", roundings, 4),
];
