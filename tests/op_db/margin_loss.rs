//! Margin losses, and products of two vectors and a matrix.

use super::linalg::{TYPES, tensors};
use super::view::build;
use crate::array::Array;
use crate::row::{Arg, Row, WIDE_FLOATS, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;

/// Samples by classes, none of which meets a margin exactly.
fn scores(sizes: &[usize], seed: u64) -> Arg {
    Array::fill(sizes, -2.0..2.0, seed).into()
}

fn targets(sizes: &[usize], values: &[i64]) -> Arg {
    Arg::Typed(Array::new(sizes, values.iter().map(|v| *v as f64).collect()), I64)
}

/// All losses, their mean or their sum; without a dimension where there is no batch.
fn reduced(losses: Vec<f64>, reduction: f64, alone: bool) -> Array {
    let sum: f64 = losses.iter().sum();
    match reduction as i64 {
        0 if alone => Array::scalar(losses[0]),
        0 => Array::new(&[losses.len()], losses),
        1 => Array::scalar(sum / losses.len() as f64),
        _ => Array::scalar(sum),
    }
}

/// The rows of scores, and of the other array beside them.
fn samples(x: &Array) -> Vec<&[f64]> {
    x.data.chunks(*x.sizes.last().unwrap_or(&1)).collect()
}

fn multi_margin() -> Row {
    let call = |sizes: &[usize], target: Arg, p: i64, margin: f64, weight: Arg, reduction: i64| {
        vec![scores(sizes, 4), target, number(p), number(margin), weight, reduction.into()]
    };
    let three = || targets(&[3], &[1, 0, 3]);
    let weight = || Arg::Tensor(Array::fill(&[4], 0.5..2.0, 5));
    let bad = |target: Arg, p: i64, weight: Arg| call(&[3, 4], target, p, 1.0, weight, 1);
    row("multi_margin_loss")
        .types(WIDE_FLOATS)
        .ulps(4.0)
        .terms(4.0)
        .sample(call(&[3, 4], three(), 1, 1.0, none(), 0))
        .sample(call(&[3, 4], three(), 2, 0.75, weight(), 1))
        .sample(call(&[3, 4], three(), 1, 0.5, weight(), 2))
        .sample(call(&[4], targets(&[], &[2]), 2, 1.0, none(), 0))
        .sample(call(&[], targets(&[], &[0]), 1, 1.0, none(), 1))
        .sample(call(&[4], targets(&[1], &[2]), 1, 1.0, none(), 0))
        .reference(|a| {
            let loss = |(x, target): (&[f64], &f64)| {
                let target = *target as usize;
                let behind = |(_, other): (usize, &f64)| (a[3].number() - x[target] + other).max(0.0);
                let others = x.iter().enumerate().filter(|(class, _)| *class != target);
                let sum: f64 = others.map(|other| behind(other).powf(a[2].number())).sum();
                sum / x.len() as f64 * a[4].optional().map_or(1.0, |weight| weight.data[target])
            };
            let all = samples(a[0].array()).into_iter().zip(&a[1].array().data).map(loss).collect();
            vec![reduced(all, a[5].number(), a[1].array().sizes.is_empty())]
        })
        .refuses(bad(three(), 3, none()), ErrorKind::InvalidArgument, "only p == 1 and p == 2")
        .refuses(bad(targets(&[2], &[0, 1]), 1, none()), ErrorKind::Shape, "inconsistent target size")
        .refuses(bad(targets(&[3], &[0, 1, 4]), 1, none()), ErrorKind::InvalidArgument, "out of bounds")
        .refuses(bad(three(), 1, scores(&[3], 1)), ErrorKind::Shape, "inconsistent weight size")
}

/// How far the target class of a sample is behind each class, in `x, target, p, margin, weight`; 0 for itself.
fn behind_each(x: &[f64], target: usize, margin: f64) -> Vec<f64> {
    let behind = |(class, other): (usize, &f64)| {
        if class == target { 0.0 } else { (margin - x[target] + other).max(0.0) }
    };
    x.iter().enumerate().map(behind).collect()
}

/// The losses of rows, and their derivative.
fn multi_margins() -> Vec<Row> {
    let weight = || Arg::Constant(Array::fill(&[4], 0.5..2.0, 5));
    let calls = [
        vec![scores(&[3, 4], 4), targets(&[3], &[1, 0, 3]), number(1i64), number(1.0), none()],
        vec![scores(&[3, 4], 4), targets(&[3], &[1, 0, 3]), number(2i64), number(0.75), weight()],
        vec![scores(&[2, 40], 8), targets(&[2], &[7, 39]), number(1i64), number(0.5), none()],
        vec![scores(&[1, 40], 8), targets(&[1], &[0]), number(2i64), number(0.5), none()],
        vec![scores(&[2, 1], 8), targets(&[2], &[0, 0]), number(1i64), number(0.5), none()],
        vec![scores(&[0, 4], 8), targets(&[0], &[]), number(1i64), number(0.5), none()],
    ];
    let share = |a: &[Arg], at: usize, target: usize, classes: usize| {
        a[at].optional().map_or(1.0, |weight| weight.data[target]) / classes as f64
    };
    let start = |name| row(name).types(WIDE_FLOATS).ulps(4.0).terms(4.0);
    let losses = calls.clone().into_iter().fold(start("_multi_margin_losses"), Row::sample);
    let with_grad = |(seed, call): (u64, Vec<Arg>)| {
        let sizes = call[1].array().sizes.clone();
        [vec![Array::fill(&sizes, 0.5..2.0, seed).into()], call].concat()
    };
    let slopes = (1..).zip(calls).map(with_grad).fold(start("_multi_margin_losses_backward"), Row::sample);
    vec![
        losses
            .reference(move |a| {
                let loss = |(x, target): (&[f64], &f64)| {
                    let target = *target as usize;
                    let behind = behind_each(x, target, a[3].number());
                    let sum: f64 = behind.iter().map(|behind| behind.powf(a[2].number())).sum();
                    sum * share(a, 4, target, x.len())
                };
                let rows = samples(a[0].array()).into_iter().zip(&a[1].array().data);
                vec![Array::new(&a[1].array().sizes, rows.map(loss).collect())]
            })
            .refuses(
                vec![scores(&[3, 4], 4), targets(&[2], &[0, 1]), number(1i64), number(1.0), none()],
                ErrorKind::Shape,
                "expected rows of scores, and a target for each",
            ),
        slopes
            .reference(move |a| {
                let gradient = |((x, target), grad): ((&[f64], &f64), &f64)| {
                    let target = *target as usize;
                    let factor = grad * share(a, 5, target, x.len());
                    let slope = |behind: f64| match a[3].number() {
                        1.0 => f64::from(behind > 0.0),
                        _ => 2.0 * behind,
                    };
                    let behind = behind_each(x, target, a[4].number());
                    let mut slopes: Vec<f64> =
                        behind.into_iter().map(|behind| slope(behind) * factor).collect();
                    slopes[target] = -slopes.iter().sum::<f64>();
                    slopes
                };
                let rows = samples(a[1].array()).into_iter().zip(&a[2].array().data);
                let rows = rows.zip(&a[0].array().data);
                vec![Array::new(&a[1].array().sizes, rows.flat_map(gradient).collect())]
            })
            .refuses(
                vec![
                    scores(&[2], 1),
                    scores(&[3, 4], 4),
                    targets(&[3], &[0, 1, 2]),
                    number(1i64),
                    number(1.0),
                    none(),
                ],
                ErrorKind::Shape,
                "expected a gradient for each of 3 samples",
            ),
    ]
}

/// Seven of forty classes: enough others for whole vectors.
fn some_of_forty() -> Vec<i64> {
    (0..40).map(|n| if n < 7 { n * 5 } else { -1 }).collect()
}

/// The losses, and which classes are named.
fn multilabel(x: &Array, target: &Array) -> (Vec<f64>, Array) {
    let named = |target: &[f64]| -> Vec<usize> {
        target.iter().take_while(|class| **class >= 0.0).map(|class| *class as usize).collect()
    };
    let loss = |(x, target): (&[f64], &[f64])| {
        let named = named(target);
        let others: Vec<f64> =
            (0..x.len()).filter(|class| !named.contains(class)).map(|class| x[class]).collect();
        let behind =
            |right: &usize| others.iter().map(|other| (1.0 - x[*right] + other).max(0.0)).sum::<f64>();
        named.iter().map(behind).sum::<f64>() / x.len() as f64
    };
    let rows = samples(target);
    let width = *x.sizes.last().unwrap_or(&1);
    let is_named = |n: usize| f64::from(named(rows[n / width]).contains(&(n % width)));
    let marks = Array::new(&x.sizes, (0..x.data.len()).map(is_named).collect());
    (samples(x).into_iter().zip(samples(target)).map(loss).collect(), marks)
}

fn multilabels() -> Vec<Row> {
    let two = || targets(&[2, 4], &[3, 0, -1, 1, 2, -1, 0, 3]);
    let many = || targets(&[1, 40], &some_of_forty());
    let start = |name| {
        row(name)
            .types(WIDE_FLOATS)
            .ulps(4.0)
            .terms(4.0)
            .sample(vec![scores(&[2, 4], 6), two(), 0i64.into()])
            .sample(vec![scores(&[2, 4], 6), two(), 1i64.into()])
            .sample(vec![scores(&[4], 7), targets(&[4], &[1, 1, 2, -1]), 2i64.into()])
            .sample(vec![scores(&[3], 7), targets(&[3], &[0, 2, 1]), 0i64.into()])
            .sample(vec![scores(&[2], 7), targets(&[2], &[-1, 1]), 1i64.into()])
            .sample(vec![scores(&[], 7), targets(&[], &[0]), 0i64.into()])
            .sample(vec![scores(&[1, 40], 8), many(), 0i64.into()])
    };
    let results = |a: &[Arg]| {
        let (losses, marks) = multilabel(a[0].array(), a[1].array());
        vec![reduced(losses, a[2].number(), a[0].array().sizes.len() <= 1), marks]
    };
    vec![
        start("multilabel_margin_loss")
            .reference(move |a| results(a)[..1].to_vec())
            .refuses(
                vec![scores(&[2, 4], 1), targets(&[2], &[0, 1]), 1i64.into()],
                ErrorKind::Shape,
                "inconsistent target size",
            )
            .refuses(
                vec![scores(&[2], 1), targets(&[2], &[2, -1]), 1i64.into()],
                ErrorKind::InvalidArgument,
                "out of bounds",
            ),
        start("multilabel_margin_loss_forward").reference(results),
        multilabel_backward(),
    ]
}

/// `grad, x, target, reduction, is_target`.
fn multilabel_backward() -> Row {
    let call = |sizes: &[usize], classes: &[i64], reduction: i64, seed: u64| {
        let (x, target) = (Array::fill(sizes, -2.0..2.0, seed), targets(sizes, classes));
        let (_, marks) = multilabel(&x, target.array());
        let losses: &[usize] = if reduction == 0 && sizes.len() == 2 { &sizes[..1] } else { &[] };
        let grad = Array::fill(losses, 0.5..2.0, seed).into();
        vec![grad, x.into(), target, reduction.into(), Arg::Constant(marks)]
    };
    let two: &[i64] = &[3, 0, -1, 1, 2, -1, 0, 3];
    row("multilabel_margin_loss_backward")
        .types(WIDE_FLOATS)
        .ulps(4.0)
        .sample(call(&[2, 4], two, 0, 6))
        .sample(call(&[2, 4], two, 1, 6))
        .sample(call(&[1, 40], &some_of_forty(), 2, 8))
        .sample(call(&[4], &[1, 1, 2, -1], 2, 7))
        .sample(call(&[2], &[-1, 1], 0, 7))
        .sample(call(&[], &[0], 1, 7))
        .reference(|a| {
            let (grad, x, target) = (a[0].array(), a[1].array(), a[2].array());
            let width = *x.sizes.last().unwrap_or(&1);
            let share = if a[3].number() == 1.0 { samples(x).len() as f64 } else { 1.0 };
            let gradient = |(sample, (x, target)): (usize, (&[f64], &[f64]))| {
                let grad = grad.data[if grad.data.len() == 1 { 0 } else { sample }] / share / width as f64;
                slopes(x, target).into_iter().map(move |slope| slope * grad)
            };
            let rows = samples(x).into_iter().zip(samples(target)).enumerate();
            vec![Array::new(&x.sizes, rows.flat_map(gradient).collect())]
        })
        .refuses(
            vec![scores(&[3], 1), scores(&[2, 4], 1), targets(&[2, 4], two), 0i64.into(), scores(&[2, 4], 1)],
            ErrorKind::Shape,
            "expected 2 gradients",
        )
}

/// The derivative of the sum of a sample's pairs.
fn slopes(x: &[f64], target: &[f64]) -> Vec<f64> {
    let named: Vec<usize> =
        target.iter().take_while(|class| **class >= 0.0).map(|class| *class as usize).collect();
    let mut made = vec![0.0; x.len()];
    for right in &named {
        for other in (0..x.len()).filter(|class| !named.contains(class)) {
            if 1.0 - x[*right] + x[other] > 0.0 {
                made[other] += 1.0;
                made[*right] -= 1.0;
            }
        }
    }
    made
}

fn bilinear() -> Row {
    let call = |shapes: &[&[usize]]| {
        let bias = if shapes.len() == 4 { vec![] } else { vec![none()] };
        [tensors(shapes), bias].concat()
    };
    row("bilinear")
        .types(TYPES)
        .ulps(0.0)
        .sample(call(&[&[2, 3], &[2, 2], &[2, 3, 2], &[2]]))
        .sample(call(&[&[2], &[3], &[4, 2, 3]]))
        .sample(call(&[&[2, 1, 3], &[2, 1, 4], &[2, 3, 4], &[2]]))
        .sample(call(&[&[0, 3], &[0, 2], &[2, 3, 2]]))
        .reference(|a| {
            let [x, y, w] = [0, 1, 2].map(|n| a[n].array());
            let batch = x.sizes.len() - 1;
            vec![build(&[&x.sizes[..batch], &w.sizes[..1]].concat(), |i| {
                let of = |array: &Array, k: usize| array.at(&[&i[..batch], &[k]].concat());
                let products = |j: usize| -> f64 {
                    (0..w.sizes[2]).map(|k| of(x, j) * w.at(&[i[batch], j, k]) * of(y, k)).sum()
                };
                let bias = a[3].optional().map_or(0.0, |bias| bias.data[i[batch]]);
                (0..w.sizes[1]).map(products).sum::<f64>() + bias
            })]
        })
        .refuses(call(&[&[2, 3], &[3, 2], &[2, 3, 2]]), ErrorKind::Shape, "batch dimensions do not match")
        .refuses(call(&[&[2, 3], &[2, 2], &[2, 2, 2]]), ErrorKind::Shape, "do not match weight size")
        .refuses(call(&[&[2, 3], &[2, 2], &[2, 3, 2], &[3]]), ErrorKind::Shape, "bias size does not match")
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [vec![multi_margin(), bilinear()], multi_margins(), multilabels()].into_iter().flatten().collect()
}
