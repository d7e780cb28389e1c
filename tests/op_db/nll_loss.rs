//! Losses for classification: the negative log likelihood and the cross entropy.

use super::special::sum;
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{Arg, Check, FLOATS, Row, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, I64};

const IGNORED: f64 = -100.0;

/// Classes of which every sixth is ignored.
fn targets(sizes: &[usize], classes: usize) -> Array {
    let count: usize = sizes.iter().product();
    let class = |i: usize| if i % 6 == 5 { IGNORED } else { (i * 7 % classes) as f64 };
    Array::new(sizes, (0..count).map(class).collect())
}

fn weights(classes: usize) -> Arg {
    Arg::Constant(Array::fill(&[classes], 0.5..2.0, 3))
}

fn class(target: Array) -> Arg {
    Arg::Typed(target, I64)
}

/// Where the classes stand: in dimension 1, or in the only one.
fn dim_of(x: &Array) -> usize {
    usize::from(x.sizes.len() > 1)
}

/// The index of a target's class in `x`.
fn chosen(x: &Array, at: &[usize], class: usize) -> f64 {
    let mut i = at.to_vec();
    i.insert(dim_of(x), class);
    x.at(&i)
}

fn weight_of(weight: &Arg, class: f64) -> f64 {
    if class == IGNORED { 0.0 } else { weight.optional().map_or(1.0, |w| w.data[class as usize]) }
}

/// Losses of all targets, and the sum of the weights.
fn likelihoods(x: &Array, target: &Array, weight: &Arg) -> (Array, f64) {
    let loss = |i: &[usize]| match target.at(i) {
        IGNORED => 0.0,
        class => -chosen(x, i, class as usize) * weight_of(weight, class),
    };
    (build(&target.sizes, loss), sum(target.data.iter().map(|class| weight_of(weight, *class))))
}

/// The mean is weighted.
fn reduced(each: Array, total: f64, reduction: &Arg) -> Array {
    match reduction.number() as i64 {
        0 => each,
        1 => Array::scalar(sum(each.data.iter().copied()) / total),
        _ => Array::scalar(sum(each.data.iter().copied())),
    }
}

/// `x, target, weight, reduction, ignore_index, rest` for shapes of `x`, the classes in dimension 1.
fn calls(row: Row, shapes: &[&[usize]], rest: &[Arg]) -> Row {
    let mut made = row.types(FLOATS);
    for (sizes, seed) in shapes.iter().zip(0..) {
        let d = usize::from(sizes.len() > 1);
        let mut target_sizes = sizes.to_vec();
        let classes = target_sizes.remove(d);
        for reduction in 0..3i64 {
            let weight = if (seed as i64 + reduction) % 2 == 0 { weights(classes) } else { none() };
            let call = vec![
                Array::fill(sizes, -3.0..-0.1, seed).into(),
                class(targets(&target_sizes, classes)),
                weight,
                reduction.into(),
                (IGNORED as i64).into(),
            ];
            made.samples.push([call, rest.to_vec()].concat());
        }
    }
    made
}

fn outside(rest: &[Arg]) -> Vec<Arg> {
    let x = Array::fill(&[2, 3], -1.0..0.0, 0).into();
    let call = vec![x, class(Array::new(&[2], vec![0.0, 3.0])), none(), 1i64.into(), (-100i64).into()];
    [call, rest.to_vec()].concat()
}

fn nll() -> Vec<Row> {
    let flat: &[&[usize]] = &[&[4], &[1, 3], &[7, 5], &[17, 2]];
    let deep: &[&[usize]] = &[&[4], &[7, 5], &[2, 3, 4], &[2, 3, 2, 2]];
    let loss = |a: &[Arg]| {
        let (each, total) = likelihoods(a[0].array(), a[1].array(), &a[2]);
        reduced(each, total, &a[3])
    };
    let start = |name| row(name).ulps(2.0);
    vec![
        calls(start("nll_loss_forward"), &[flat, &deep[2..]].concat(), &[])
            .reference(move |a| {
                // The sum of the weights is told only where it divides or could.
                let (_, total) = likelihoods(a[0].array(), a[1].array(), &a[2]);
                vec![loss(a), Array::scalar(if a[3].number() == 0.0 { 0.0 } else { total })]
            })
            .refuses(outside(&[]), ErrorKind::Index, "Target 3 is out of bounds"),
        calls(start("nll_loss"), flat, &[]).reference(move |a| vec![loss(a)]).refuses(
            outside(&[]),
            ErrorKind::Index,
            "Target 3 is out of bounds",
        ),
        calls(start("nll_loss_nd"), deep, &[]).reference(move |a| vec![loss(a)]).refuses(
            vec![
                Array::fill(&[2, 3, 4], -1.0..0.0, 0).into(),
                class(targets(&[2, 3], 3)),
                none(),
                1i64.into(),
                (-100i64).into(),
            ],
            ErrorKind::Shape,
            "Expected target size",
        ),
        backward(&[flat, &deep[2..]].concat()),
    ]
}

/// `grad, x, target, weight, reduction, ignore_index, total_weight`.
fn backward(shapes: &[&[usize]]) -> Row {
    let mut made = calls(row("nll_loss_backward").ulps(2.0), shapes, &[]);
    for (number, call) in made.samples.iter_mut().enumerate() {
        let (_, total) = likelihoods(call[0].array(), call[1].array(), &call[2]);
        let sizes: &[usize] = if call[3].number() == 0.0 { &call[1].array().sizes } else { &[] };
        let grad = Array::fill(sizes, 0.5..2.0, number as u64);
        call.push(Arg::Constant(Array::scalar(total)));
        call.insert(0, grad.into());
    }
    made.reference(|a| {
        let (x, target, grad) = (a[1].array(), a[2].array(), a[0].array().expand(&a[2].array().sizes));
        let share = if a[4].number() == 1.0 { a[6].array().data[0] } else { 1.0 };
        let mut made = x.map(|_| 0.0);
        for (n, i) in indices(&target.sizes).enumerate().filter(|(n, _)| target.data[*n] != IGNORED) {
            let mut at = i.clone();
            at.insert(dim_of(x), target.data[n] as usize);
            let at = at.iter().zip(&x.sizes).fold(0, |at, (i, size)| at * size + i);
            made.data[at] = -grad.at(&i) * weight_of(&a[3], target.data[n]) / share;
        }
        vec![made]
    })
}

/// `x, target, weight, reduction, ignore_index` for the cross entropy in one, and its derivative.
fn fused() -> Vec<Row> {
    let shapes: &[&[usize]] = &[&[1, 3], &[7, 5], &[17, 2], &[3, 40]];
    let wide = &[ScalarType::F32, ScalarType::F64];
    let forward = |a: &[Arg]| {
        let x = a[0].array();
        let (each, total) = likelihoods(&log_softmax(x), a[1].array(), &a[2]);
        let max_scores = x.reduce(&[1], false, |line| line.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let shifted = x.zip(
            &x.reduce(&[1], true, |line| line.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            |x, g| x - g,
        );
        let log_sum = shifted.reduce(&[1], false, |line| sum(line.iter().map(|x| x.exp())).ln());
        let total_weight = if a[3].number() == 0.0 { 0.0 } else { total };
        vec![reduced(each, total, &a[3]), Array::scalar(total_weight), max_scores, log_sum]
    };
    let follows = "the statistics follow from `self`, which the derivative counts in; that of `_cross_entropy` is looked at";
    let mut back = calls(row("_cross_entropy_backward").ulps(8.0).terms(16.0), shapes, &[])
        .types(wide)
        .skip(Check::Gradients, follows)
        .skip(Check::SecondGradients, follows)
        .skip(Check::Tangents, follows);
    for (number, call) in back.samples.iter_mut().enumerate() {
        let parts = forward(call);
        let sizes: &[usize] = if call[3].number() == 0.0 { &call[1].array().sizes } else { &[] };
        let grad = Array::fill(sizes, 0.5..2.0, number as u64);
        call.extend(parts.into_iter().skip(1).map(Arg::Constant));
        call.insert(0, grad.into());
    }
    let back = back.reference(|a| {
        let (x, target, grad) = (a[1].array(), a[2].array(), a[0].array().expand(&a[2].array().sizes));
        let share = if a[4].number() == 1.0 { a[6].array().data[0] } else { 1.0 };
        let logs = log_softmax(x);
        let slope = |i: &[usize]| {
            let (n, class) = (&i[..1], target.at(&i[..1]));
            let chosen = if class == i[1] as f64 { 1.0 } else { 0.0 };
            (logs.at(i).exp() - chosen) * grad.at(n) * weight_of(&a[3], class) / share
        };
        vec![build(&x.sizes, slope)]
    });
    let front = calls(row("_cross_entropy").ulps(4.0).terms(16.0), shapes, &[])
        .types(wide)
        .reference(move |a| forward(a));
    vec![front.refuses(outside(&[]), ErrorKind::Index, "Target 3 is out of bounds"), back]
}

/// Logarithms of the shares along the classes.
fn log_softmax(x: &Array) -> Array {
    let d = dim_of(x);
    let sums = x.reduce(&[d], true, |line| sum(line.iter().map(|x| x.exp())).ln());
    x.zip(&sums, |x, s| x - s)
}

fn smoothed(a: &[Arg]) -> Array {
    let (x, target, smoothing) = (log_softmax(a[0].array()), a[1].array(), a[5].number());
    let (each, total) = likelihoods(&x, target, &a[2]);
    let classes = x.sizes[dim_of(&x)];
    let every = |i: &[usize]| sum((0..classes).map(|c| -chosen(&x, i, c) * weight_of(&a[2], c as f64)));
    let spread =
        build(&target.sizes, |i| if target.at(i) == IGNORED { 0.0 } else { every(i) / classes as f64 });
    reduced(each.zip(&spread, |e, s| (1.0 - smoothing) * e + smoothing * s), total, &a[3])
}

fn cross_entropies() -> Vec<Row> {
    let shapes: &[&[usize]] = &[&[4], &[7, 5], &[2, 3, 4]];
    let start = || row("cross_entropy_loss").ulps(4.0).terms(16.0);
    let probable = |sizes: &[usize], reduction: i64, smoothing: f64| {
        vec![
            Array::fill(sizes, -2.0..2.0, 4).into(),
            Arg::Constant(Array::fill(sizes, 0.0..1.0, 5)),
            none(),
            reduction.into(),
            (-100i64).into(),
            smoothing.into(),
        ]
    };
    let mut ignored = probable(&[3, 4], 0, 0.0);
    ignored[4] = 1i64.into();
    let too_smooth = [outside(&[]), vec![1.5.into()]].concat();
    vec![
        calls(start(), shapes, &[0.0.into()]).reference(|a| vec![smoothed(a)]).refuses(
            too_smooth,
            ErrorKind::InvalidArgument,
            "label_smoothing",
        ),
        calls(start(), shapes, &[0.2.into()]).reference(|a| vec![smoothed(a)]),
        start()
            .types(FLOATS)
            .sample(probable(&[3, 4], 0, 0.0))
            .sample(probable(&[3, 4], 1, 0.1))
            .sample(probable(&[2, 3, 2], 2, 0.0))
            .refuses(ignored, ErrorKind::InvalidArgument, "ignore_index is not supported")
            .reference(|a| {
                let (x, smoothing) = (log_softmax(a[0].array()), a[5].number());
                let classes = x.sizes[1] as f64;
                let target = a[1].array().map(|t| (1.0 - smoothing) * t + smoothing / classes);
                let each =
                    x.zip(&target, |x, t| -x * t).reduce(&[1], false, |line| sum(line.iter().copied()));
                let samples = each.data.len() as f64;
                vec![reduced(each, samples, &a[3])]
            }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [nll(), fused(), cross_entropies()].into_iter().flatten().collect()
}
