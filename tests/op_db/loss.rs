//! Losses of predictions and targets, and their derivatives.

use super::special::{softplus, sum};
use crate::array::Array;
use crate::row::{Arg, FLOATS, Row, none, row};
use flambeau_core::ErrorKind;
use std::ops::Range;

const SHAPES: &[&[usize]] = &[&[], &[1], &[5], &[17], &[3, 4], &[2, 3, 4], &[0]];

/// Nothing, the mean or the sum.
const REDUCTIONS: [i64; 3] = [0, 1, 2];

pub(super) fn reduced(each: Array, reduction: &Arg) -> Array {
    let total = || sum(each.data.iter().copied());
    match reduction.number() as i64 {
        0 => each,
        1 => Array::scalar(total() / each.data.len() as f64),
        _ => Array::scalar(total()),
    }
}

/// What each element's derivative is divided by.
fn share(count: usize, reduction: &Arg) -> f64 {
    if reduction.number() as i64 == 1 { count as f64 } else { 1.0 }
}

fn pair(domains: &[Range<f64>; 2], sizes: &[usize], seed: u64) -> [Array; 2] {
    [Array::fill(sizes, domains[0].clone(), seed), Array::fill(sizes, domains[1].clone(), 50 + seed)]
}

fn each_call(mut f: impl FnMut(&[usize], u64, i64)) {
    for (sizes, seed) in SHAPES.iter().zip(0..) {
        REDUCTIONS.iter().for_each(|reduction| f(sizes, seed, *reduction));
    }
}

/// A loss of `self, target, reduction, rest`. Each element's loss is rounded before they are added.
fn loss(
    name: &'static str,
    domains: [Range<f64>; 2],
    rest: &[Arg],
    f: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> Row {
    let mut made = row(name).types(FLOATS).ulps(4.0);
    each_call(|sizes, seed, reduction| {
        let tensors = pair(&domains, sizes, seed).map(Arg::Tensor);
        made.samples.push([tensors.to_vec(), vec![reduction.into()], rest.to_vec()].concat());
    });
    let wrong = [Array::fill(&[3], 0.1..0.9, 0).into(), Array::fill(&[3], 0.1..0.9, 1).into(), 3i64.into()];
    made.reference(move |a| vec![reduced(a[0].array().zip(a[1].array(), &f), &a[2])]).refuses(
        [wrong.to_vec(), rest.to_vec()].concat(),
        ErrorKind::InvalidArgument,
        "0 (none), 1 (mean) or 2 (sum)",
    )
}

/// The derivative of a loss with respect to `self`: `grad, self, target, reduction, rest`.
fn slope(
    name: &'static str,
    domains: [Range<f64>; 2],
    rest: &[Arg],
    f: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> Row {
    let mut made = row(name).types(FLOATS).ulps(4.0);
    each_call(|sizes, seed, reduction| {
        let grad = Array::fill(if reduction == 0 { sizes } else { &[] }, 0.5..2.0, 90 + seed);
        let tensors = pair(&domains, sizes, seed).map(Arg::Tensor);
        made.samples
            .push([vec![grad.into()], tensors.to_vec(), vec![reduction.into()], rest.to_vec()].concat());
    });
    made.reference(move |a| {
        let slope = a[1].array().zip(a[2].array(), &f);
        let share = share(slope.data.len(), &a[3]);
        vec![slope.zip(a[0].array(), |s, g| g * s / share)]
    })
}

fn wide() -> [Range<f64>; 2] {
    [-2.0..2.0, -2.0..2.0]
}

fn distances() -> Vec<Row> {
    let smooth = |x: f64, t: f64| {
        let d = (x - t).abs();
        if d < 0.7 { d * d / 1.4 } else { d - 0.35 }
    };
    let huber = |x: f64, t: f64| {
        let d = (x - t).abs();
        if d <= 0.7 { d * d / 2.0 } else { 0.7 * (d - 0.35) }
    };
    let one = || vec![Array::scalar(1.0).into(), Array::scalar(0.0).into(), 1i64.into(), (-1.0).into()];
    vec![
        loss("mse_loss", wide(), &[], |x, t| (x - t) * (x - t)),
        loss("l1_loss", wide(), &[], |x, t| (x - t).abs()),
        loss("smooth_l1_loss", wide(), &[0.7.into()], smooth).refuses(
            one(),
            ErrorKind::InvalidArgument,
            "beta",
        ),
        loss("huber_loss", wide(), &[0.7.into()], huber).refuses(one(), ErrorKind::InvalidArgument, "delta"),
        slope("mse_loss_backward", wide(), &[], |x, t| 2.0 * (x - t)),
        slope("smooth_l1_loss_backward", wide(), &[0.7.into()], |x, t| ((x - t) / 0.7).clamp(-1.0, 1.0)),
        slope("huber_loss_backward", wide(), &[0.7.into()], |x, t| (x - t).clamp(-0.7, 0.7)),
    ]
}

/// The target, of which no derivative is checked, and the arguments after it.
fn with_constants(mut row: Row, target: usize, weights: usize) -> Row {
    let constant = |arg: &mut Arg| *arg = Arg::Constant(arg.array().clone());
    for (number, sample) in row.samples.iter_mut().enumerate() {
        constant(&mut sample[target]);
        let reduction = sample.remove(target + 1);
        let sizes = sample[target].array().sizes.clone();
        for n in 0..weights {
            let weight = Array::fill(&sizes, 0.5..2.0, (number + 7 * n) as u64);
            sample.push(if number % 2 == n { none() } else { Arg::Constant(weight) });
        }
        sample.push(reduction);
    }
    row.refused.clear();
    row
}

fn or_one(weight: &Arg, like: &Array) -> Array {
    weight.optional().cloned().unwrap_or_else(|| like.map(|_| 1.0))
}

fn entropies() -> Vec<Row> {
    let likely = || [0.05..0.95, 0.05..0.95];
    let bernoulli = |x: f64, t: f64| -(t * x.ln() + (1.0 - t) * (-x).ln_1p());
    let bernoulli_slope = |x: f64, t: f64| (x - t) / (x * (1.0 - x));
    let outside = vec![Array::scalar(1.5).into(), Array::scalar(1.0).into(), none(), 1i64.into()];
    let bce = with_constants(loss("binary_cross_entropy", likely(), &[], |x, _| x), 1, 1);
    let bce_slope = with_constants(slope("binary_cross_entropy_backward", likely(), &[], |x, _| x), 2, 1);
    let logits = with_constants(
        loss("binary_cross_entropy_with_logits", [-3.0..3.0, 0.05..0.95], &[], |x, _| x),
        1,
        2,
    );
    vec![
        bce.reference(move |a| {
            let each = a[0].array().zip(a[1].array(), bernoulli);
            vec![reduced(each.zip(&or_one(&a[2], &each), |l, w| l * w), &a[3])]
        })
        .refuses(outside, ErrorKind::InvalidArgument, "between 0 and 1"),
        bce_slope.reference(move |a| {
            let each = a[1].array().zip(a[2].array(), bernoulli_slope);
            let share = share(each.data.len(), &a[4]);
            let weighted = each.zip(&or_one(&a[3], &each), |l, w| l * w);
            vec![weighted.zip(a[0].array(), |l, g| l * g / share)]
        }),
        logits.reference(|a| {
            let (x, t) = (a[0].array(), a[1].array());
            let positive = or_one(&a[3], x).zip(t, |p, t| p * t).zip(x, |pt, x| pt * softplus(-x));
            let each = positive.zip(&t.zip(x, |t, x| (1.0 - t) * softplus(x)), |a, b| a + b);
            vec![reduced(each.zip(&or_one(&a[2], x), |l, w| l * w), &a[4])]
        }),
        loss("kl_div", [-2.0..0.0, 0.05..1.0], &[false.into()], |x, t| t * (t.ln() - x)).terms(24.0),
        loss("kl_div", [-2.0..0.0, -2.0..0.0], &[true.into()], |x, t| t.exp() * (t - x)).terms(24.0),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [distances(), entropies()].into_iter().flatten().collect()
}
