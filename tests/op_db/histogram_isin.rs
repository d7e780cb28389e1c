//! Counts, histograms, membership, and slices scattered into another tensor.

use super::view::{build, int};
use crate::array::{Array, indices};
use crate::row::{ALL, Arg, Check, FLOATS, INTEGERS, NUMBERS, Row, WIDE_FLOATS, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{Bool, F32, F64, I16, I64};
use flambeau_ops::dispatch::Value;

const BY_VALUES: &str = "the size of the result depends on values, which Meta has not";

fn list(values: &[f64]) -> Array {
    Array::new(&[values.len()], values.to_vec())
}

fn counts() -> Vec<Row> {
    let x = || list(&[3.0, 0.0, 3.0, 1.0, 7.0, 3.0]);
    let weights = list(&[0.5, 1.0, 0.25, 2.0, 4.0, 8.0]);
    let bins = |x: &Array, w: &dyn Fn(usize) -> f64, min_length: usize| {
        let most = x.data.iter().fold(-1.0, |a: f64, b| a.max(*b)) as i64 + 1;
        build(&[min_length.max(most as usize)], |i| {
            (0..x.data.len()).filter(|n| x.data[*n] == i[0] as f64).map(w).sum()
        })
    };
    let start =
        |types| row("bincount").types(types).ulps(0.0).not_differentiable().skip(Check::Variants, BY_VALUES);
    let invalid = ErrorKind::InvalidArgument;
    vec![
        start(INTEGERS)
            .gives(|_| I64)
            .sample(vec![x().into(), none(), 0i64.into()])
            .sample(vec![x().into(), none(), 10i64.into()])
            .sample(vec![list(&[]).into(), none(), 3i64.into()])
            .reference(move |a| vec![bins(a[0].array(), &|_| 1.0, int(&a[2]) as usize)])
            .refuses(vec![x().into(), none(), 0i64.into()], invalid, "non-negative integral"),
        start(&[I64])
            .gives(|_| F32)
            .sample(vec![x().into(), Arg::Typed(weights.clone(), F32), 0i64.into()])
            .reference(move |a| vec![bins(a[0].array(), &|n| a[1].array().data[n], 0)]),
        start(&[I16])
            .gives(|_| F64)
            .sample(vec![x().into(), Arg::Typed(weights, F64), 9i64.into()])
            .reference(move |a| vec![bins(a[0].array(), &|n| a[1].array().data[n], 9)]),
    ]
}

/// Numbers whose bin in a histogram of eighths is exact.
fn eighths(seed: u64) -> Array {
    let mut x = Array::fill(&[5, 8], -4.0..4.0, seed).map(|x| (x * 8.0).floor() / 8.0);
    x.data[3] = 4.0;
    x
}

/// What lies between neighbours of `edges`, the last one included.
fn between(x: &Array, w: &dyn Fn(usize) -> f64, edges: &[f64]) -> Array {
    let last = edges.len() - 2;
    build(&[edges.len() - 1], |i| {
        let inside =
            |v: f64| edges[i[0]] <= v && (v < edges[i[0] + 1] || (i[0] == last && v == edges[last + 1]));
        (0..x.data.len()).filter(|n| inside(x.data[*n])).map(w).sum()
    })
}

fn evenly(low: f64, high: f64, bins: usize) -> Vec<f64> {
    (0..=bins).map(|n| low + (high - low) * n as f64 / bins as f64).collect()
}

fn histograms() -> Vec<Row> {
    let extent = |x: &Array| {
        let fold = |f: fn(f64, f64) -> f64| x.data.iter().copied().reduce(f).unwrap();
        (fold(f64::min), fold(f64::max))
    };
    let start = |name| row(name).types(WIDE_FLOATS).ulps(1.0).not_differentiable();
    let on_values = "the range is that of the values, which Meta has not";
    let host = |row: Row| row.skip(Check::Variants, on_values);
    let invalid = ErrorKind::InvalidArgument;
    let edges = [-4.0, -1.0, 0.5, 3.0];
    let weights = || Arg::Constant(Array::fill(&[5, 8], 0.0..4.0, 9).map(f64::floor));
    let density = |sums: &Array, edges: &[f64]| {
        let total: f64 = sums.data.iter().sum();
        build(&sums.sizes, |i| sums.data[i[0]] / total / (edges[i[0] + 1] - edges[i[0]]))
    };
    vec![
        host(start("histc"))
            .sample(vec![eighths(1).into(), 4i64.into(), number(0), number(0)])
            .sample(vec![eighths(2).into(), 8i64.into(), number(-2), number(2)])
            .sample(vec![list(&[1.0, 1.0]).into(), 2i64.into(), number(0), number(0)])
            .reference(move |a| {
                let x = a[0].array();
                let (mut low, mut high) = (a[2].number(), a[3].number());
                if low == high {
                    (low, high) = extent(x);
                }
                if low == high {
                    (low, high) = (low - 1.0, high + 1.0);
                }
                vec![between(x, &|_| 1.0, &evenly(low, high, int(&a[1]) as usize))]
            })
            .refuses(vec![eighths(1).into(), 0i64.into(), number(0), number(0)], invalid, "bins must be > 0")
            .refuses(vec![eighths(1).into(), 2i64.into(), number(1), number(0)], invalid, "larger than min"),
        host(start("histogram.bins_tensor"))
            .sample(vec![eighths(1).into(), Arg::Constant(list(&edges)), none(), false.into()])
            .reference(move |a| vec![between(a[0].array(), &|_| 1.0, &edges), list(&edges)]),
        host(start("histogram.bins_tensor"))
            .sample(vec![eighths(1).into(), Arg::Constant(list(&edges)), weights(), true.into()])
            .reference(move |a| {
                let sums = between(a[0].array(), &|n| a[2].array().data[n], &edges);
                vec![density(&sums, &edges), list(&edges)]
            }),
        host(start("histogram.bin_ct"))
            .sample(vec![
                eighths(1).into(),
                4i64.into(),
                Value::Floats(vec![-2.0, 2.0]).into(),
                none(),
                false.into(),
            ])
            .reference(|a| {
                let edges = evenly(-2.0, 2.0, 4);
                vec![between(a[0].array(), &|_| 1.0, &edges), list(&edges)]
            })
            .refuses(
                vec![eighths(1).into(), 0i64.into(), none(), none(), false.into()],
                invalid,
                "bins must be > 0",
            ),
    ]
}

fn members() -> Vec<Row> {
    let x = || Array::new(&[2, 3], vec![3.0, 1.0, 4.0, 1.0, 5.0, 9.0]);
    let flags = |invert: bool| vec![false.into(), invert.into()];
    let start = |name| row(name).types(NUMBERS).gives(|_| Bool).not_differentiable();
    let found = |there: bool, a: &Arg| f64::from(there != a.flag());
    let many = list(&(0..40).map(|n| f64::from(n % 2) * 4.0 + f64::from(n % 5)).collect::<Vec<_>>());
    let among = |tests: Array, invert: bool| [vec![x().into(), tests.into()], flags(invert)].concat();
    vec![
        start("isin.Tensor_Tensor")
            .sample(among(list(&[1.0, 9.0]), false))
            .sample(among(list(&[1.0, 9.0]), true))
            .sample(among(many.clone(), false))
            .sample(among(many, true))
            .sample(among(list(&[]), true))
            .reference(move |a| vec![a[0].array().map(|x| found(a[1].array().data.contains(&x), &a[3]))])
            .skip(Check::Layouts, "a strided list of many elements is longer than what it repeats"),
        start("isin.Tensor_Scalar")
            .sample([vec![x().into(), number(1)], flags(false)].concat())
            .sample([vec![x().into(), number(1)], flags(true)].concat())
            .reference(move |a| vec![a[0].array().map(|x| found(x == a[1].number(), &a[3]))]),
        start("isin.Scalar_Tensor")
            .sample([vec![number(4), x().into()], flags(false)].concat())
            .sample([vec![number(7), x().into()], flags(true)].concat())
            .reference(move |a| {
                vec![Array::scalar(found(a[1].array().data.contains(&a[0].number()), &a[3]))]
            }),
        start("nonzero_static")
            .types(ALL)
            .gives(|_| I64)
            .sample(vec![
                Array::new(&[2, 3], vec![0.0, 1.0, 0.0, 3.0, 0.0, 1.0]).into(),
                5i64.into(),
                (-1i64).into(),
            ])
            .sample(vec![
                Array::new(&[2, 3], vec![0.0, 1.0, 0.0, 3.0, 0.0, 1.0]).into(),
                2i64.into(),
                7i64.into(),
            ])
            .reference(|a| {
                let x = a[0].array();
                let nonzero: Vec<Vec<usize>> = indices(&x.sizes).filter(|i| x.at(i) != 0.0).collect();
                let fill = a[2].number();
                vec![build(&[int(&a[1]) as usize, 2], |i| nonzero.get(i[0]).map_or(fill, |p| p[i[1]] as f64))]
            })
            .refuses(
                vec![x().into(), (-1i64).into(), 0i64.into()],
                ErrorKind::InvalidArgument,
                "non-negative",
            ),
    ]
}

fn reduced() -> Vec<Row> {
    let targets = [2usize, 0, 2];
    let call = |word: &str, include: bool| {
        vec![
            Array::fill(&[2, 3], 1.0..5.0, 1).into(),
            1i64.into(),
            Arg::Typed(list(&[2.0, 0.0, 2.0]), I64),
            Array::fill(&[2, 3], 1.0..5.0, 2).into(),
            word.into(),
            include.into(),
        ]
    };
    type Word = (&'static str, fn(&[f64]) -> f64);
    let words: [Word; 4] = [
        ("prod", |v| v.iter().product()),
        ("mean", |v| v.iter().sum::<f64>() / v.len() as f64),
        ("amax", |v| v.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ("amin", |v| v.iter().copied().fold(f64::INFINITY, f64::min)),
    ];
    let mut rows = vec![];
    for (word, f) in words {
        let of = move |a: &[Arg]| {
            let (x, source) = (a[0].array(), a[3].array());
            vec![build(&[2, 3], |i| {
                let mut all: Vec<f64> =
                    (0..3).filter(|n| targets[*n] == i[1]).map(|n| source.at(&[i[0], n])).collect();
                if all.is_empty() || a[5].flag() {
                    all.insert(0, x.at(i));
                }
                f(&all)
            })]
        };
        let sample = |row: Row| row.sample(call(word, true)).sample(call(word, false));
        rows.push(sample(row("index_reduce").types(FLOATS).ulps(4.0)).reference(of).refuses(
            call("sum", true),
            ErrorKind::InvalidArgument,
            "one of prod, mean, amax or amin",
        ));
    }
    rows
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [counts(), histograms(), members(), reduced()].into_iter().flatten().collect()
}
