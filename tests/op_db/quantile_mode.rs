//! Order statistics: medians, the k-th value, the mode, cumulative maxima, quantiles; and norms of matrices.

use super::plain_linalg::{each, svd};
use super::reduce::{NAN, distinct};
use super::special::sum;
use super::view::{build, wrap};
use crate::array::Array;
use crate::row::{ALL, Arg, Check, FLOATS, NUMBERS, Row, WIDE_FLOATS, ints, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{F32, F64};
use std::cmp::Ordering;

fn compare(a: f64, b: f64) -> Ordering {
    a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal))
}

/// `f` of each row along `dim`, which gives rows of several results.
fn lines(x: &Array, dim: usize, count: usize, f: impl Fn(&[f64]) -> Vec<Vec<f64>>) -> Vec<Array> {
    if x.sizes.is_empty() {
        return f(&x.data).into_iter().map(|v| Array::scalar(v[0])).collect();
    }
    let mut sizes = x.sizes.clone();
    let n = std::mem::replace(&mut sizes[dim], count);
    let line = |i: &[usize]| -> Vec<f64> {
        let mut at = i.to_vec();
        (0..n)
            .map(|k| {
                at[dim] = k;
                x.at(&at)
            })
            .collect()
    };
    let results = f(&line(&vec![0; sizes.len()])).len();
    (0..results).map(|r| build(&sizes, |i| f(&line(i))[r][i[dim]])).collect()
}

/// The same of one value each, with the dimension kept or not.
fn picks(x: &Array, dim: usize, keepdim: bool, f: impl Fn(&[f64]) -> usize) -> Vec<Array> {
    let both = |line: &[f64]| {
        let at = f(line);
        vec![vec![line[at]], vec![at as f64]]
    };
    let mut made = lines(x, dim, 1, both);
    for array in &mut made {
        if !keepdim && !x.sizes.is_empty() {
            array.sizes.remove(dim);
        }
    }
    made
}

/// The indices of a row in the order of its values.
fn order(line: &[f64]) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..line.len()).collect();
    indices.sort_by(|a, b| compare(line[*a], line[*b]));
    indices
}

fn middle(line: &[f64]) -> usize {
    line.iter().position(|x| x.is_nan()).unwrap_or_else(|| order(line)[(line.len() - 1) / 2])
}

fn middle_of_numbers(line: &[f64]) -> usize {
    let count = line.iter().filter(|x| !x.is_nan()).count();
    order(line)[count.saturating_sub(1) / 2]
}

fn frequent(line: &[f64]) -> usize {
    let times = |x: f64| line.iter().filter(|y| **y == x).count();
    let most = line.iter().map(|x| times(*x)).max().unwrap();
    let value = line.iter().copied().filter(|x| times(*x) == most).fold(f64::INFINITY, f64::min);
    line.iter().rposition(|x| *x == value).unwrap()
}

fn with_nan(sizes: &[usize]) -> Array {
    let mut x = distinct(sizes, 0);
    let n = x.data.len();
    (x.data[n / 3], x.data[n / 2]) = (f64::NAN, f64::NAN);
    x
}

fn unequal(row: Row) -> Row {
    row.skip(Check::Gradients, NAN).skip(Check::SecondGradients, NAN)
}

fn reductions() -> Vec<Row> {
    let cases = |row: Row, before: &[Arg], make: &dyn Fn(&[usize]) -> Array| {
        [(&[5][..], 0i64, false), (&[3, 4], -1, true), (&[3, 4], 0, false), (&[], 0, false)].into_iter().fold(
            row,
            |row, (sizes, dim, keepdim)| {
                row.sample(
                    [vec![make(sizes).into()], before.to_vec(), vec![dim.into(), keepdim.into()]].concat(),
                )
            },
        )
    };
    let plain = |sizes: &[usize]| distinct(sizes, 0);
    let start = |name| row(name).types(NUMBERS).ulps(0.0);
    let of = |at: usize, f: fn(&[f64]) -> usize| {
        move |a: &[Arg]| {
            let x = a[0].array();
            picks(x, wrap(&a[at], x.sizes.len().max(1)), a[at + 1].flag(), f)
        }
    };
    let whole = |name, f: fn(&[f64]) -> usize, make: &dyn Fn(&[usize]) -> Array| {
        let samples = [&[5][..], &[3, 4], &[]].into_iter();
        samples.fold(start(name), |row, sizes| row.sample(vec![make(sizes).into()])).reference(move |a| {
            let data = &a[0].array().data;
            vec![Array::scalar(data[f(data)])]
        })
    };
    let holey = |sizes: &[usize]| if sizes.is_empty() { Array::scalar(f64::NAN) } else { with_nan(sizes) };
    let empty = || vec![Array::new(&[0], vec![]).into(), 0i64.into(), false.into()];
    vec![
        cases(start("median.dim"), &[], &plain).reference(of(1, middle)).refuses(
            empty(),
            ErrorKind::Index,
            "non-zero size",
        ),
        unequal(cases(start("median.dim"), &[], &holey).types(FLOATS)).reference(of(1, middle)),
        cases(start("nanmedian.dim"), &[], &plain).reference(of(1, middle_of_numbers)),
        unequal(cases(start("nanmedian.dim"), &[], &holey).types(FLOATS)).reference(of(1, middle_of_numbers)),
        whole("median", middle, &plain),
        unequal(whole("median", middle, &holey).types(FLOATS)),
        whole("nanmedian", middle_of_numbers, &plain),
        unequal(whole("nanmedian", middle_of_numbers, &holey).types(FLOATS)),
        row("mode")
            .types(ALL)
            .ulps(0.0)
            .skip(Check::Gradients, "equal elements share a mode, and differences change one of them")
            .skip(Check::SecondGradients, "as for first gradients")
            .sample(vec![super::index::small(&[3, 7]).into(), (-1i64).into(), false.into()])
            .sample(vec![super::index::small(&[9, 2]).into(), 0i64.into(), true.into()])
            .reference(of(1, frequent)),
        cases(start("kthvalue"), &[1i64.into()], &plain).reference(of(2, |line| order(line)[0])).refuses(
            vec![distinct(&[3], 0).into(), 4i64.into(), 0i64.into(), false.into()],
            ErrorKind::InvalidArgument,
            "out of range",
        ),
        start("kthvalue")
            .sample(vec![distinct(&[3, 5], 0).into(), 4i64.into(), 1i64.into(), true.into()])
            .reference(of(2, |line| order(line)[3])),
    ]
}

/// The extreme up to each element; from the first NaN on the values are NaN, at their own indices.
fn so_far(line: &[f64], replaces: fn(f64, f64) -> bool) -> Vec<Vec<f64>> {
    let (mut best, mut values, mut indices) = (0, vec![], vec![]);
    for (at, x) in line.iter().enumerate() {
        if x.is_nan() || replaces(*x, line[best]) {
            best = at;
        }
        values.push(line[best]);
        indices.push(best as f64);
    }
    vec![values, indices]
}

fn scans() -> Vec<Row> {
    let extreme = |name: &'static str, replaces: fn(f64, f64) -> bool| {
        let of = move |a: &[Arg]| {
            let x = a[0].array();
            let d = wrap(&a[1], x.sizes.len().max(1));
            lines(x, d, x.sizes.get(d).copied().unwrap_or(1), |line| so_far(line, replaces))
        };
        let call = |x: Array, dim: i64| vec![x.into(), dim.into()];
        [
            row(name)
                .types(ALL)
                .ulps(0.0)
                .skip(Check::Gradients, "of equal elements the last counts, and differences see both")
                .skip(Check::SecondGradients, "as for first gradients")
                .sample(call(super::index::small(&[5, 7]), 1))
                .reference(of),
            row(name)
                .types(NUMBERS)
                .ulps(0.0)
                .sample(call(distinct(&[9], 0), 0))
                .sample(call(distinct(&[3, 4], 0), -2))
                .sample(call(Array::scalar(3.0), 0))
                .reference(of)
                .refuses(call(distinct(&[3], 0), 1), ErrorKind::Index, "dimension out of range"),
            unequal(row(name).types(FLOATS).ulps(0.0).sample(call(with_nan(&[9]), 0)).reference(of)),
        ]
    };
    let log_sum = |line: &[f64]| {
        let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most.is_infinite() { most } else { most + sum(line.iter().map(|x| (x - most).exp())).ln() }
    };
    let values = |sizes: &[usize], seed: u64| Array::fill(sizes, -4.0..4.0, seed);
    let mut far = values(&[6], 1);
    (far.data[0], far.data[1], far.data[4]) = (f64::NEG_INFINITY, -1000.0, 800.0);
    let logs = move |a: &[Arg]| {
        let x = a[0].array();
        let d = wrap(&a[1], x.sizes.len().max(1));
        let n = x.sizes.get(d).copied().unwrap_or(1);
        lines(x, d, n, |line| vec![(0..line.len()).map(|k| log_sum(&line[..=k])).collect()])
    };
    let logs_row = || row("logcumsumexp").ulps(2.0).terms(4.0);
    let mut rows = vec![
        logs_row()
            .types(FLOATS)
            .sample(vec![values(&[17], 1).into(), 0i64.into()])
            .sample(vec![values(&[3, 4], 2).into(), 0i64.into()])
            .sample(vec![values(&[2, 3, 2], 2).into(), (-2i64).into()])
            .sample(vec![values(&[], 2).into(), 0i64.into()])
            // Short rows, of which each lane has one, and a row of more than one block.
            .sample(vec![values(&[20, 3], 3).into(), 1i64.into()])
            .sample(vec![values(&[70], 4).into(), 0i64.into()])
            .reference(logs),
        unequal(logs_row().types(WIDE_FLOATS).sample(vec![far.into(), 0i64.into()]).reference(logs)),
    ];
    rows.extend(extreme("cummax", |new, old| !old.is_nan() && new >= old));
    rows.extend(extreme("cummin", |new, old| !old.is_nan() && new <= old));
    rows
}

/// The quantile `q` of a row.
fn quantile(line: &[f64], q: f64, interpolation: &str, only_numbers: bool) -> f64 {
    let mut sorted = line.to_vec();
    sorted.sort_by(|a, b| compare(*a, *b));
    let count = line.iter().filter(|x| !x.is_nan()).count();
    if (count < line.len() && !only_numbers) || count == 0 {
        return f64::NAN;
    }
    let rank = q * (count - 1) as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    match interpolation {
        "lower" => below,
        "higher" => above,
        "nearest" => sorted[rank.round_ties_even() as usize],
        "midpoint" => (below + above) / 2.0,
        _ => below + (above - below) * rank.fract(),
    }
}

fn quantiles() -> Vec<Row> {
    let values = |sizes: &[usize]| Array::fill(sizes, -9.0..9.0, 5);
    let words = ["linear", "lower", "higher", "midpoint", "nearest"];
    let call = |x: Array, q: Arg, dim: Arg, keepdim: bool, word: &str| {
        vec![x.into(), q, dim, keepdim.into(), word.into()]
    };
    let list = |q: &[f64]| Arg::Constant(Array::new(&[q.len()], q.to_vec()));
    let word = |a: &[Arg]| match &a[4] {
        Arg::Value(flambeau_ops::dispatch::Value::Str(word)) => word.clone(),
        other => panic!("expected a word but got {other:?}"),
    };
    let make = |name: &'static str, number_name: &'static str, only: bool| {
        let start = |name| row(name).types(WIDE_FLOATS).ulps(4.0).terms(9.0);
        // A list of two along dimension 1, kept or not.
        let listed = move |a: &[Arg]| {
            let (x, q) = (a[0].array(), a[1].array());
            let made = lines(x, 1, q.data.len(), |line| {
                vec![q.data.iter().map(|q| quantile(line, *q, &word(a), only)).collect()]
            });
            let moved = made[0].permute(&[1, 0]);
            let sizes = if a[3].flag() { vec![moved.sizes[0], moved.sizes[1], 1] } else { moved.sizes };
            vec![Array::new(&sizes, moved.data)]
        };
        let one = move |a: &[Arg]| {
            let (x, q) = (a[0].array(), a[1].number());
            let value = quantile(&x.data, q, &word(a), only);
            vec![Array::new(&if a[3].flag() { vec![1; x.sizes.len()] } else { vec![] }, vec![value])]
        };
        let holey = || {
            let mut x = values(&[3, 5]);
            (x.data[1], x.data[7]) = (f64::NAN, f64::NAN);
            x
        };
        let q = || list(&[0.1, 0.75]);
        let lists = words.into_iter().fold(start(name), |row, word| {
            row.sample(call(values(&[3, 5]), q(), 1i64.into(), word == "lower", word))
        });
        let ones = words.into_iter().fold(start(number_name), |row, word| {
            row.sample(call(values(&[3, 4]), 0.35.into(), none(), word == "higher", word))
        });
        let bad = ErrorKind::InvalidArgument;
        [
            lists.reference(listed).refuses(
                call(values(&[3]), list(&[1.5]), none(), false, "linear"),
                bad,
                "in the range [0, 1]",
            ),
            unequal(start(name).sample(call(holey(), q(), 1i64.into(), false, "linear"))).reference(listed),
            ones.reference(one)
                .refuses(
                    call(values(&[3]), 0.5.into(), none(), false, "best"),
                    bad,
                    "interpolation must be one of",
                )
                .refuses(
                    call(values(&[0]), 0.5.into(), none(), false, "linear"),
                    ErrorKind::Shape,
                    "non-empty",
                ),
        ]
    };
    let mean = |line: &[f64]| {
        let numbers: Vec<f64> = line.iter().copied().filter(|x| !x.is_nan()).collect();
        sum(numbers.iter().copied()) / numbers.len() as f64
    };
    let mut rows: Vec<Row> =
        [make("quantile", "quantile.scalar", false), make("nanquantile", "nanquantile.scalar", true)]
            .into_iter()
            .flatten()
            .collect();
    rows.push(
        unequal(row("nanmean").types(FLOATS).ulps(1.0))
            .sample(vec![with_nan(&[3, 4]).into(), ints(&[1]), false.into(), none()])
            .sample(vec![with_nan(&[3, 4]).into(), none(), false.into(), none()])
            .reference(move |a| {
                let dims = a[1].dims(2);
                vec![a[0].array().reduce(&dims, false, mean)]
            }),
    );
    rows
}

fn norms() -> Vec<Row> {
    let x = || Arg::from(Array::fill(&[2, 3, 4], -3.0..3.0, 3));
    let start = |name| row(name).types(&[F32, F64]).ulps(4.0).terms(4.0);
    let magnitudes = |x: &Array, d: usize| x.reduce(&[d], true, |v| v.iter().map(|x| x.abs()).sum());
    let of = move |x: &Array, ord: f64, [r, c]: [usize; 2]| {
        let most = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
        let (summed, compared) = if ord.abs() == 1.0 { (r, c) } else { (c, r) };
        let sums = magnitudes(x, summed);
        sums.reduce(&[compared], true, if ord > 0.0 { most } else { smallest })
    };
    let call = |ord: Arg, dims: &[i64], keepdim: bool| vec![x(), ord, ints(dims), keepdim.into(), none()];
    let flat = |x: Array, kept: bool, dims: [usize; 2]| {
        let sizes: Vec<usize> = if kept {
            x.sizes.clone()
        } else {
            (0..3).filter(|d| !dims.contains(d)).map(|d| x.sizes[d]).collect()
        };
        vec![Array::new(&sizes, x.data)]
    };
    let both = move |a: &[Arg]| {
        let d = a[2].dims(3);
        flat(of(a[0].array(), a[1].number(), [d[0], d[1]]), a[3].flag(), [d[0], d[1]])
    };
    let root = |a: &[Arg]| {
        vec![a[0].array().reduce(&a[2].dims(3), a[3].flag(), |v| sum(v.iter().map(|x| x * x)).sqrt())]
    };
    let orders = [1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY];
    let all = |name| {
        orders.into_iter().fold(start(name), |row, ord| {
            row.sample(call(number(ord), &[-2, -1], ord == 1.0)).sample(call(number(ord), &[2, 0], false))
        })
    };
    vec![
        all("linalg_matrix_norm").reference(both).refuses(
            call(number(3), &[0, 1], false),
            ErrorKind::InvalidArgument,
            "Order 3 not supported",
        ),
        all("linalg_norm").reference(both),
        start("linalg_norm").sample(call(none(), &[0, 2], true)).reference(root),
        start("linalg_norm").sample(call(number(3), &[1], false)).reference(|a| {
            vec![a[0].array().reduce(&[1], false, |v| v.iter().map(|x| x.abs().powi(3)).sum::<f64>().cbrt())]
        }),
        start("linalg_matrix_norm.str_ord")
            .sample(call("fro".into(), &[0, 1], false))
            .reference(root)
            .refuses(call("abc".into(), &[0, 1], false), ErrorKind::InvalidArgument, "not supported"),
        start("linalg_norm.ord_str").sample(call("fro".into(), &[1, 2], true)).reference(root),
        by_values("linalg_matrix_norm", number(2), |s| s[0]),
        by_values("linalg_matrix_norm", number(-2), |s| s[s.len() - 1]),
        by_values("linalg_matrix_norm.str_ord", "nuc".into(), |s| s.iter().sum()),
    ]
}

/// A norm of singular values, of matrices in the last two dimensions and in others.
fn by_values(name: &'static str, ord: Arg, of: fn(&[f64]) -> f64) -> Row {
    let call = |dims: &[i64]| -> Vec<Arg> {
        vec![
            Array::fill(&[2, 3, 4], -1.0..1.0, 7).into(),
            ord.clone(),
            ints(dims),
            (dims[0] == 2).into(),
            none(),
        ]
    };
    row(name).types(WIDE_FLOATS).ulps(8.0).terms(8.0).sample(call(&[-2, -1])).sample(call(&[2, 0])).reference(
        move |a| {
            let last = a[2].dims(3) == [1, 2];
            let x = if last { a[0].array().clone() } else { a[0].array().permute(&[1, 2, 0]) };
            let norms = each(&x, &[], |m| Array::scalar(of(&svd(m).1)));
            vec![if last { norms } else { Array::new(&[1, 3, 1], norms.data) }]
        },
    )
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [reductions(), scans(), quantiles(), norms()].into_iter().flatten().collect()
}
