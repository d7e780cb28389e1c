//! Softmax, its logarithm and their derivatives; running sums and products.

use super::reduce::LINES;
use super::special as f;
use super::view::{build, wrap};
use crate::array::{Array, indices};
use crate::row::{ALL, Arg, FLOATS, Row, none, row, whole};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, I64};

/// `f` of each row along `dim`, which gets the rows of several arrays of the same sizes.
fn lines<const N: usize>(arrays: [&Array; N], dim: &Arg, f: impl Fn([&[f64]; N]) -> Vec<f64>) -> Array {
    let sizes = &arrays[0].sizes;
    if sizes.is_empty() {
        return Array::new(&[], f(arrays.map(|a| a.data.as_slice())));
    }
    let d = wrap(dim, sizes.len());
    let mut made = build(sizes, |_| 0.0);
    for start in indices(sizes).filter(|i| i[d] == 0) {
        let at = |n: usize| {
            let mut i = start.clone();
            i[d] = n;
            sizes.iter().zip(&i).fold(0, |offset, (size, i)| offset * size + i)
        };
        let line = arrays.map(|a| (0..sizes[d]).map(|n| a.data[at(n)]).collect::<Vec<f64>>());
        let results = f(line.each_ref().map(Vec::as_slice));
        results.into_iter().enumerate().for_each(|(n, x)| made.data[at(n)] = x);
    }
    made
}

fn logarithms(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = f::sum(x.iter().map(|x| (x - most).exp()));
    x.iter().map(|x| x - most - sum.ln()).collect()
}

fn shares(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = f::sum(x.iter().map(|x| (x - most).exp()));
    x.iter().map(|x| (x - most).exp() / sum).collect()
}

fn far() -> Vec<Arg> {
    vec![Array::fill(&[2, 3], 0.0..1.0, 0).into(), 2i64.into()]
}

fn softmaxes() -> Vec<Row> {
    let forward = |name, last: Arg, log: bool| {
        // The difference from the maximum is rounded, up to half an ulp of 4, which exp makes 2 ulp of the result; in f64 the
        // reference's is too.
        let start = row(name).types(FLOATS).ulps(6.0).terms(if log { 4.0 } else { 0.0 });
        let formula = if log { logarithms } else { shares };
        LINES
            .iter()
            .zip(0..)
            .fold(start, |row, ((sizes, dim), seed)| {
                row.sample(vec![Array::fill(sizes, -2.0..2.0, seed).into(), (*dim).into(), last.clone()])
            })
            .reference(move |a| vec![lines([a[0].array()], &a[1], |[x]| formula(x))])
            .refuses([far(), vec![last]].concat(), ErrorKind::Index, "dimension out of range")
    };
    vec![
        forward("softmax.int", none(), false),
        forward("_softmax", false.into(), false),
        forward("log_softmax.int", none(), true),
        forward("_log_softmax", false.into(), true),
        gradient("_softmax_backward_data", 0.05..0.5, |[g, y]| {
            let dot = f::sum(g.iter().zip(y).map(|(g, y)| g * y));
            g.iter().zip(y).map(|(g, y)| y * (g - dot)).collect()
        }),
        gradient("_log_softmax_backward_data", -4.0..-0.2, |[g, y]| {
            let sum = f::sum(g.iter().copied());
            g.iter().zip(y).map(|(g, y)| g - y.exp() * sum).collect()
        }),
    ]
}

/// Gradients sum over a line, of up to 64 gradients that are 0.5 on average.
fn gradient(name: &'static str, results: std::ops::Range<f64>, f: fn([&[f64]; 2]) -> Vec<f64>) -> Row {
    let wrong = vec![
        Array::fill(&[3], 0.0..1.0, 0).into(),
        Array::fill(&[4], 0.0..1.0, 0).into(),
        0i64.into(),
        Arg::OwnType,
    ];
    LINES
        .iter()
        .zip(0..)
        .filter(|((sizes, _), _)| !sizes.contains(&700))
        .fold(row(name).types(FLOATS).ulps(4.0).terms(32.0), |row, ((sizes, dim), seed)| {
            let grad = Array::fill(sizes, -1.0..1.0, seed).into();
            let result = Array::fill(sizes, results.clone(), 50 + seed).into();
            row.sample(vec![grad, result, (*dim).into(), Arg::OwnType])
        })
        .reference(move |a| vec![lines([a[0].array(), a[1].array()], &a[2], f)])
        .refuses(wrong, ErrorKind::Shape, "of the same sizes")
}

fn running(start: f64, f: fn(f64, f64) -> f64) -> impl Fn(&[Arg]) -> Vec<Array> {
    move |a| {
        let scan = |state: &mut f64, x: &f64| {
            *state = f(*state, *x);
            Some(*state)
        };
        vec![lines([a[0].array()], &a[1], |[x]| x.iter().scan(start, scan).collect())]
    }
}

fn sum_of(t: ScalarType) -> ScalarType {
    if t.is_integral(true) { I64 } else { t }
}

fn scans() -> Vec<Row> {
    let exact = |name, make: fn(&[usize], u64) -> Array| {
        let start = row(name).types(ALL).gives(sum_of).ulps(0.0);
        LINES
            .iter()
            .zip(0..)
            .filter(|((sizes, _), _)| !sizes.contains(&700))
            .fold(start, |row, ((sizes, dim), seed)| {
                row.sample(vec![make(sizes, seed).into(), (*dim).into(), none()])
            })
    };
    let ones = |sizes: &[usize], seed: u64| {
        Array::fill(sizes, 0.0..4.0, seed).map(|x| if x < 0.3 { 2.0 } else { 1.0 })
    };
    let real = |sizes: &[usize], seed: u64| Array::fill(sizes, 0.5..1.5, seed).into();
    let few: &[(&[usize], i64)] = &[(&[5], 0), (&[3, 4], 1), (&[2, 3], 0)];
    let smooth =
        few.iter().zip(0..).fold(row("cumprod").types(FLOATS).ulps(4.0), |row, ((sizes, dim), seed)| {
            row.sample(vec![real(sizes, seed), (*dim).into(), none()])
        });
    let far = || [far(), vec![none()]].concat();
    vec![
        exact("cumsum", |sizes, seed| whole(0.0..4.0)(sizes, seed))
            .reference(running(0.0, |a, b| a + b))
            .refuses(far(), ErrorKind::Index, "dimension out of range"),
        exact("cumprod", ones).reference(running(1.0, |a, b| a * b)).refuses(
            far(),
            ErrorKind::Index,
            "dimension out of range",
        ),
        smooth.reference(running(1.0, |a, b| a * b)),
    ]
}

/// `y[k] = input[k] + factor[k] * y[k - 1]`, or from the end with the factor of the element before.
fn recurrent(factor: &[f64], input: &[f64], reverse: bool) -> Vec<f64> {
    let n = input.len();
    let mut made = input.to_vec();
    for k in 1..n {
        if reverse {
            made[n - 1 - k] += factor[n - k] * made[n - k];
        } else {
            made[k] += factor[k] * made[k - 1];
        }
    }
    made
}

fn recurrences() -> Vec<Row> {
    let short = LINES.iter().zip(0..).filter(|((sizes, _), _)| !sizes.contains(&700));
    let uneven = vec![Array::fill(&[3], 0.0..1.0, 0).into(), Array::fill(&[4], 0.0..1.0, 0).into()];
    vec![
        short
            .fold(
                row("_linear_recurrence").types(FLOATS).ulps(4.0).terms(2.0),
                |row, ((sizes, dim), seed)| {
                    let [factor, input] = [0, 50].map(|n| Array::fill(sizes, -0.9..0.9, seed + n).into());
                    row.sample(vec![factor, input, (*dim).into(), (seed % 2 == 0).into()])
                },
            )
            .reference(|a| {
                let reverse = a[3].flag();
                vec![lines([a[0].array(), a[1].array()], &a[2], |[f, x]| recurrent(f, x, reverse))]
            })
            .refuses(
                [uneven, vec![0i64.into(), false.into()]].concat(),
                ErrorKind::Shape,
                "_linear_recurrence",
            ),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [softmaxes(), scans(), recurrences()].into_iter().flatten().collect()
}
