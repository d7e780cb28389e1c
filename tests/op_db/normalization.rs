//! Normalisations: of the last dimensions, of channels over a batch, of groups of channels; and their derivatives.

use super::special::sum;
use crate::array::{Array, indices};
use crate::row::{Arg, Check, FLOATS, Row, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_ops::dispatch::Value;

const EPS: f64 = 0.1;

/// Which elements are normalised together, and which element of weight and bias belongs to an element.
#[derive(Clone, Copy)]
enum Plan {
    /// So many of the last dimensions.
    Last(usize),
    /// Each channel.
    Channels,
    /// So many groups of the channels of each sample.
    Groups(usize),
}

impl Plan {
    fn inner(self, sizes: &[usize]) -> usize {
        let Plan::Last(count) = self else { return 1 };
        sizes[sizes.len() - count..].iter().product()
    }

    fn groups(self, sizes: &[usize]) -> usize {
        match self {
            Plan::Last(_) => sizes.iter().product::<usize>() / self.inner(sizes),
            Plan::Channels => sizes[1],
            Plan::Groups(groups) => sizes[0] * groups,
        }
    }

    fn parameters(self, sizes: &[usize]) -> usize {
        if matches!(self, Plan::Last(_)) { self.inner(sizes) } else { sizes[1] }
    }

    /// Group and parameter of each element, in order.
    fn groups_and_parameters(self, sizes: &[usize]) -> Vec<(usize, usize)> {
        let inner = self.inner(sizes);
        let membership = |(n, i): (usize, Vec<usize>)| match self {
            Plan::Last(_) => (n / inner, n % inner),
            Plan::Channels => (i[1], i[1]),
            Plan::Groups(groups) => (i[0] * groups + i[1] / (sizes[1] / groups), i[1]),
        };
        indices(sizes).enumerate().map(membership).collect()
    }
}

/// Sums of `values` by key.
fn sums(values: &[f64], keys: impl Iterator<Item = usize>, count: usize) -> Vec<f64> {
    let mut bins = vec![vec![]; count];
    values.iter().zip(keys).for_each(|(x, key)| bins[key].push(*x));
    bins.into_iter().map(sum).collect()
}

/// Means (zeros where they are not subtracted) and inverse deviations of the groups.
fn statistics(x: &Array, plan: Plan, centred: bool, eps: f64) -> [Vec<f64>; 2] {
    let memberships = plan.groups_and_parameters(&x.sizes);
    let count = x.data.len() as f64 / plan.groups(&x.sizes) as f64;
    let of = |values: &[f64]| -> Vec<f64> {
        let keys = memberships.iter().map(|p| p.0);
        sums(values, keys, plan.groups(&x.sizes)).iter().map(|s| s / count).collect()
    };
    let mean = if centred { of(&x.data) } else { vec![0.0; plan.groups(&x.sizes)] };
    let squares: Vec<f64> = x.data.iter().zip(&memberships).map(|(x, p)| (x - mean[p.0]).powi(2)).collect();
    let rstd = of(&squares).iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
    [mean, rstd]
}

fn parameter(given: &Arg, plan: Plan, sizes: &[usize], default: f64) -> Vec<f64> {
    given.optional().map_or_else(|| vec![default; plan.parameters(sizes)], |a| a.data.clone())
}

fn normal(x: &Array, plan: Plan, [mean, rstd]: &[Vec<f64>; 2]) -> Vec<f64> {
    let memberships = plan.groups_and_parameters(&x.sizes);
    x.data.iter().zip(memberships).map(|(x, p)| (x - mean[p.0]) * rstd[p.0]).collect()
}

fn applied(x: &Array, plan: Plan, statistics: &[Vec<f64>; 2], weight: &Arg, bias: &Arg) -> Array {
    let [w, b] = [(weight, 1.0), (bias, 0.0)].map(|(p, default)| parameter(p, plan, &x.sizes, default));
    let memberships = plan.groups_and_parameters(&x.sizes);
    let value = |(x, p): (f64, &(usize, usize))| x * w[p.1] + b[p.1];
    Array::new(&x.sizes, normal(x, plan, statistics).into_iter().zip(&memberships).map(value).collect())
}

/// Derivatives with respect to input, weight and bias; `share` is 0 where the statistics are given and not the input's.
fn slopes(
    g: &Array,
    x: &Array,
    plan: Plan,
    statistics: &[Vec<f64>; 2],
    weight: &Arg,
    [centred, share]: [f64; 2],
) -> [Vec<f64>; 3] {
    let (memberships, w) = (plan.groups_and_parameters(&x.sizes), parameter(weight, plan, &x.sizes, 1.0));
    let (groups, count) = (plan.groups(&x.sizes), x.data.len() as f64 / plan.groups(&x.sizes) as f64);
    let normal = normal(x, plan, statistics);
    let weighted: Vec<f64> = g.data.iter().zip(&memberships).map(|(g, p)| g * w[p.1]).collect();
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
    let by_group = |values: &[f64]| sums(values, memberships.iter().map(|p| p.0), groups);
    let (level, tilt) = (by_group(&weighted), by_group(&product(&weighted, &normal)));
    let slope = |n: usize| {
        let p = memberships[n].0;
        let off = centred * level[p] / count + normal[n] * tilt[p] / count;
        statistics[1][p] * (weighted[n] - share * off)
    };
    let by_parameter =
        |values: &[f64]| sums(values, memberships.iter().map(|p| p.1), plan.parameters(&x.sizes));
    [(0..x.data.len()).map(slope).collect(), by_parameter(&product(&g.data, &normal)), by_parameter(&g.data)]
}

fn spread(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -2.0..2.0, seed)
}

/// Parameters near one.
fn weights(sizes: &[usize], seed: u64) -> Arg {
    Array::fill(sizes, 0.5..1.5, 30 + seed).into()
}

fn flags<const N: usize>() -> Arg {
    Arg::Value(Value::Bools(vec![true; N]))
}

/// Results are a few units large, and their terms too.
fn start(name: &'static str) -> Row {
    row(name).types(FLOATS).ulps(8.0).terms(4.0)
}

/// Sums over up to 40 elements. The statistics count as functions of the input, as in PyTorch, so that no differences of this
/// operator alone show its derivative: the second derivative of the normalisation does.
fn start_of_sums(name: &'static str) -> Row {
    let reason = "its derivative is the second of the normalisation, and is checked there";
    let start = row(name).types(FLOATS).ulps(8.0).terms(16.0);
    start.skip(Check::Gradients, reason).skip(Check::SecondGradients, reason)
}

/// Sizes, and how many of the last dimensions are normalised.
const LAST: &[(&[usize], usize)] =
    &[(&[5], 1), (&[3, 4], 1), (&[2, 3, 4], 2), (&[2, 17], 1), (&[0, 4], 1), (&[3, 1], 1)];

fn tail(sizes: &[usize], count: usize) -> &[usize] {
    &sizes[sizes.len() - count..]
}

fn as_ints(sizes: &[usize]) -> Arg {
    ints(&sizes.iter().map(|s| *s as i64).collect::<Vec<_>>())
}

/// Sizes with ones for what is reduced.
fn kept(sizes: &[usize], count: usize) -> Vec<usize> {
    let rows = sizes.len() - count;
    sizes.iter().enumerate().map(|(d, s)| if d < rows { *s } else { 1 }).collect()
}

fn plan_of(a: &Arg) -> Plan {
    let Arg::Value(Value::Ints(dims)) = a else { panic!("expected a shape but got {a:?}") };
    Plan::Last(dims.len())
}

fn layer() -> Vec<Row> {
    let call = |sizes: &[usize], count: usize, seed: u64, rest: &[Arg]| {
        let shape = tail(sizes, count);
        let (w, b) =
            if seed % 3 == 2 { (none(), none()) } else { (weights(shape, seed), weights(shape, seed + 9)) };
        [vec![spread(sizes, seed).into(), as_ints(shape), w, b, EPS.into()], rest.to_vec()].concat()
    };
    let calls = |row: Row, rest: &[Arg]| {
        LAST.iter()
            .zip(0..)
            .fold(row, |row, ((sizes, count), seed)| row.sample(call(sizes, *count, seed, rest)))
    };
    let results = |a: &[Arg]| {
        let (x, plan) = (a[0].array(), plan_of(&a[1]));
        let Plan::Last(count) = plan else { return vec![] };
        let found = statistics(x, plan, true, EPS);
        let out = applied(x, plan, &found, &a[2], &a[3]);
        let [mean, rstd] = found.map(|s| Array::new(&kept(&x.sizes, count), s));
        vec![out, mean, rstd]
    };
    let wrong = |rest: &[Arg]| {
        let call = vec![spread(&[2, 3], 0).into(), ints(&[4]), none(), none(), EPS.into()];
        [call, rest.to_vec()].concat()
    };
    let backward = LAST.iter().zip(0..).fold(
        start_of_sums("native_layer_norm_backward"),
        |row, ((sizes, count), seed)| {
            let (x, plan, shape) = (spread(sizes, seed), Plan::Last(*count), tail(sizes, *count));
            let [mean, rstd] =
                statistics(&x, plan, true, EPS).map(|s| Arg::Constant(Array::new(&kept(sizes, *count), s)));
            let [w, b] = [weights(shape, seed), weights(shape, seed + 9)];
            row.sample(vec![
                spread(sizes, 60 + seed).into(),
                x.into(),
                as_ints(shape),
                mean,
                rstd,
                w,
                b,
                flags::<3>(),
            ])
        },
    );
    vec![
        calls(start("layer_norm"), &[false.into()]).reference(move |a| results(a)[..1].to_vec()).refuses(
            wrong(&[false.into()]),
            ErrorKind::Shape,
            "normalized_shape",
        ),
        calls(start("native_layer_norm"), &[]).reference(results).refuses(
            wrong(&[]),
            ErrorKind::Shape,
            "normalized_shape",
        ),
        backward.reference(|a| {
            let statistics = [a[3].array().data.clone(), a[4].array().data.clone()];
            let [dx, dw, db] =
                slopes(a[0].array(), a[1].array(), plan_of(&a[2]), &statistics, &a[5], [1.0, 1.0]);
            let shape = &a[5].array().sizes;
            vec![Array::new(&a[1].array().sizes, dx), Array::new(shape, dw), Array::new(shape, db)]
        }),
    ]
}

fn root_mean_square() -> Vec<Row> {
    let calls = |row: Row| {
        LAST.iter().zip(0..).fold(row, |row, ((sizes, count), seed)| {
            let shape = tail(sizes, *count);
            let w = if seed % 3 == 2 { none() } else { weights(shape, seed) };
            row.sample(vec![spread(sizes, seed).into(), as_ints(shape), w, EPS.into()])
        })
    };
    let results = |a: &[Arg]| {
        let (x, plan) = (a[0].array(), plan_of(&a[1]));
        let Plan::Last(count) = plan else { return vec![] };
        let found = statistics(x, plan, false, EPS);
        let out = applied(x, plan, &found, &a[2], &none());
        vec![out, Array::new(&kept(&x.sizes, count), found[1].clone())]
    };
    let backward = LAST.iter().zip(0..).fold(
        start_of_sums("_fused_rms_norm_backward"),
        |row, ((sizes, count), seed)| {
            let (x, plan, shape) = (spread(sizes, seed), Plan::Last(*count), tail(sizes, *count));
            let [_, rstd] =
                statistics(&x, plan, false, EPS).map(|s| Arg::Constant(Array::new(&kept(sizes, *count), s)));
            let call = vec![
                spread(sizes, 60 + seed).into(),
                x.into(),
                as_ints(shape),
                rstd,
                weights(shape, seed),
                flags::<2>(),
            ];
            row.sample(call)
        },
    );
    let wrong = vec![spread(&[2, 3], 0).into(), ints(&[4]), none(), EPS.into()];
    vec![
        calls(start("rms_norm")).reference(move |a| results(a)[..1].to_vec()).refuses(
            wrong,
            ErrorKind::Shape,
            "normalized_shape",
        ),
        calls(start("_fused_rms_norm")).reference(results),
        backward.reference(|a| {
            let rstd = a[3].array().data.clone();
            let statistics = [vec![0.0; rstd.len()], rstd];
            let [dx, dw, _] =
                slopes(a[0].array(), a[1].array(), plan_of(&a[2]), &statistics, &a[4], [0.0, 1.0]);
            vec![Array::new(&a[1].array().sizes, dx), Array::new(&a[4].array().sizes, dw)]
        }),
    ]
}

/// Sizes with channels in dimension 1, and a number of groups that divides them.
const CHANNELS: &[(&[usize], usize)] = &[(&[5, 2], 1), (&[2, 4, 3], 2), (&[2, 3, 2, 2], 3), (&[3, 4, 5], 4)];

/// A call for sizes, a number of groups and a seed.
type Call<'a> = &'a dyn Fn(&[usize], usize, u64) -> Vec<Arg>;

fn group() -> Vec<Row> {
    let number = |n: usize| Arg::from(n as i64);
    let geometry = |sizes: &[usize], groups: usize| {
        [sizes[0], sizes[1], sizes[2..].iter().product(), groups].map(number).to_vec()
    };
    let parameters = |sizes: &[usize], seed: u64| {
        if seed % 3 == 2 {
            [none(), none()]
        } else {
            [weights(&sizes[1..2], seed), weights(&sizes[1..2], seed + 9)]
        }
    };
    let calls = |row: Row, call: Call<'_>| {
        CHANNELS
            .iter()
            .zip(0..)
            .fold(row, |row, ((sizes, groups), seed)| row.sample(call(sizes, *groups, seed)))
    };
    let results = |x: &Array, groups: usize, w: &Arg, b: &Arg| {
        let found = statistics(x, Plan::Groups(groups), true, EPS);
        let out = applied(x, Plan::Groups(groups), &found, w, b);
        let [mean, rstd] = found.map(|s| Array::new(&[x.sizes[0], groups], s));
        vec![out, mean, rstd]
    };
    let plain = calls(start("group_norm"), &|sizes, groups, seed| {
        let [w, b] = parameters(sizes, seed);
        vec![spread(sizes, seed).into(), number(groups), w, b, EPS.into(), false.into()]
    });
    let native = calls(start("native_group_norm"), &|sizes, groups, seed| {
        let tensors = [vec![spread(sizes, seed).into()], parameters(sizes, seed).to_vec()].concat();
        [tensors, geometry(sizes, groups), vec![EPS.into()]].concat()
    });
    let backward = calls(start_of_sums("native_group_norm_backward"), &|sizes, groups, seed| {
        let x = spread(sizes, seed);
        let found = statistics(&x, Plan::Groups(groups), true, EPS);
        let [mean, rstd] = found.map(|s| Arg::Constant(Array::new(&[sizes[0], groups], s)));
        let tensors =
            vec![spread(sizes, 60 + seed).into(), x.into(), mean, rstd, weights(&sizes[1..2], seed)];
        [tensors, geometry(sizes, groups), vec![flags::<3>()]].concat()
    });
    let uneven = vec![spread(&[2, 3], 0).into(), 2i64.into(), none(), none(), EPS.into(), false.into()];
    vec![
        plain
            .reference(move |a| results(a[0].array(), a[1].number() as usize, &a[2], &a[3])[..1].to_vec())
            .refuses(uneven, ErrorKind::InvalidArgument, "divisible by num_groups"),
        native.reference(move |a| results(a[0].array(), a[6].number() as usize, &a[1], &a[2])),
        backward.reference(|a| {
            let plan = Plan::Groups(a[8].number() as usize);
            let statistics = [a[2].array().data.clone(), a[3].array().data.clone()];
            let [dx, dw, db] = slopes(a[0].array(), a[1].array(), plan, &statistics, &a[4], [1.0, 1.0]);
            let shape = &a[4].array().sizes;
            vec![Array::new(&a[1].array().sizes, dx), Array::new(shape, dw), Array::new(shape, db)]
        }),
    ]
}

/// Running means and variances.
fn running(channels: usize) -> [Arg; 2] {
    [
        Arg::Constant(Array::fill(&[channels], -1.0..1.0, 70)),
        Arg::Constant(Array::fill(&[channels], 0.5..2.0, 71)),
    ]
}

/// Those of the input in training, else the running ones.
fn batch_statistics(x: &Array, running: [&Arg; 2], training: bool) -> [Vec<f64>; 2] {
    if training {
        return statistics(x, Plan::Channels, true, EPS);
    }
    let [mean, var] = running.map(|a| a.array().data.clone());
    [mean, var.iter().map(|v| 1.0 / (v + EPS).sqrt()).collect()]
}

fn batch() -> Vec<Row> {
    let calls = |row: Row, rest: &[Arg]| {
        CHANNELS.iter().zip(0..).fold(row, |row, ((sizes, _), seed)| {
            let c = sizes[1];
            let [w, b] =
                if seed % 3 == 2 { [none(), none()] } else { [weights(&[c], seed), weights(&[c], seed + 9)] };
            let [mean, var] = running(c);
            let training = Arg::from(seed % 2 == 0);
            let call = vec![spread(sizes, seed).into(), w, b, mean, var, training, 0.1.into(), EPS.into()];
            row.sample([call, rest.to_vec()].concat())
        })
    };
    let results = |a: &[Arg]| {
        let (x, training) = (a[0].array(), a[5].flag());
        let found = batch_statistics(x, [&a[3], &a[4]], training);
        let out = applied(x, Plan::Channels, &found, &a[1], &a[2]);
        let [mean, rstd] =
            found.map(|s| if training { Array::new(&[s.len()], s) } else { Array::new(&[0], vec![]) });
        vec![out, mean, rstd]
    };
    let backward = CHANNELS.iter().zip(0..).fold(
        start_of_sums("native_batch_norm_backward"),
        |row, ((sizes, _), seed)| {
            let (x, c, training) = (spread(sizes, seed), sizes[1], seed % 2 == 0);
            let [mean, var] = running(c);
            let found = statistics(&x, Plan::Channels, true, EPS).map(|s| Arg::Constant(Array::new(&[c], s)));
            let tensors = vec![spread(sizes, 60 + seed).into(), x.into(), weights(&[c], seed), mean, var];
            row.sample([tensors, found.to_vec(), vec![training.into(), EPS.into(), flags::<3>()]].concat())
        },
    );
    let missing =
        vec![spread(&[2, 3], 0).into(), none(), none(), none(), none(), false.into(), 0.1.into(), EPS.into()];
    vec![
        calls(start("batch_norm"), &[false.into()]).reference(move |a| results(a)[..1].to_vec()).refuses(
            [missing.clone(), vec![false.into()]].concat(),
            ErrorKind::InvalidArgument,
            "running_mean",
        ),
        calls(start("native_batch_norm"), &[]).reference(results).refuses(
            missing,
            ErrorKind::InvalidArgument,
            "running_mean",
        ),
        calls(start("_native_batch_norm_legit"), &[]).reference(results),
        without(&[3, 4], in_training(calls(start("_native_batch_norm_legit.no_stats"), &[])))
            .reference(move |a| results(&[&a[..3], &[none(), none()], &a[3..]].concat())),
        without(&[5], calls(start("_native_batch_norm_legit_no_training"), &[]))
            .reference(move |a| results(&[&a[..5], &[false.into()], &a[5..]].concat())),
        backward.reference(|a| {
            let training = a[7].flag();
            let saved = [a[5].array().data.clone(), a[6].array().data.clone()];
            let found = if training { saved } else { batch_statistics(a[1].array(), [&a[3], &a[4]], false) };
            let share = f64::from(training);
            let [dx, dw, db] =
                slopes(a[0].array(), a[1].array(), Plan::Channels, &found, &a[2], [1.0, share]);
            let shape = &a[2].array().sizes;
            vec![Array::new(&a[1].array().sizes, dx), Array::new(shape, dw), Array::new(shape, db)]
        }),
    ]
}

/// The row with those samples of batch normalization that are in training.
fn in_training(mut row: Row) -> Row {
    row.samples.retain(|sample| sample[5].flag());
    row
}

/// The row without the arguments at `removed` of every sample.
fn without(removed: &[usize], mut row: Row) -> Row {
    for sample in &mut row.samples {
        let kept = sample.iter().enumerate().filter(|(index, _)| !removed.contains(index));
        *sample = kept.map(|(_, arg)| arg.clone()).collect();
    }
    row
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [layer(), root_mean_square(), group(), batch()].into_iter().flatten().collect()
}
