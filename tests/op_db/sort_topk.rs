//! Sorting, top-k, binary search in sorted sequences, distinct elements.

use super::index::{moves, named, row_major_offset, small, t};
use super::view::{build, int, wrap};
use crate::array::{Array, indices};
use crate::row::{ALL, Arg, Check, FLOATS, NUMBERS, Row, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;

/// For each row along `dim` the indices of its elements in order, NaN largest, equal ones in their original order.
fn ordered(x: &Array, dim: usize, descending: bool) -> Array {
    if x.sizes.is_empty() {
        return Array::scalar(0.0);
    }
    let mut made = build(&x.sizes, |_| 0.0);
    for i in indices(&x.sizes).filter(|i| i[dim] == 0) {
        let value = |n: &usize| {
            let mut at = i.clone();
            at[dim] = *n;
            x.at(&at)
        };
        let mut line: Vec<usize> = (0..x.sizes[dim]).collect();
        let compare = |a: &usize, b: &usize| {
            let (a, b) = (value(a), value(b));
            a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal))
        };
        line.sort_by(|a, b| if descending { compare(b, a) } else { compare(a, b) });
        for (n, index) in line.iter().enumerate() {
            let mut at = i.clone();
            at[dim] = n;
            made.data[row_major_offset(&x.sizes, &at)] = *index as f64;
        }
    }
    made
}

fn picked(x: &Array, order: &Array, dim: usize) -> Array {
    build(&order.sizes, |i| x.at(&named(order, i, dim)))
}

fn values_and_indices(a: &[Arg], dim: &Arg, descending: bool) -> Vec<Array> {
    let x = a[0].array();
    let d = wrap(dim, x.sizes.len().max(1));
    let order = ordered(x, d, descending);
    vec![picked(x, &order, d), order]
}

const TIES: &str = "which of equal elements comes first decides the gradient, and differences see both";

/// Numbers of which no two are equal, in every type.
fn distinct(sizes: &[usize]) -> Arg {
    let count = sizes.iter().product::<usize>();
    Array::new(sizes, (0..count).map(|i| (i * 37 % 127) as f64).collect()).into()
}

/// With ties or NaN, and so not compared with differences.
fn tied(row: Row) -> Row {
    row.skip(Check::Gradients, TIES).skip(Check::SecondGradients, TIES)
}

/// Calls with a tensor, a dimension and a direction, of which `start` comes between.
fn calls(row: Row, start: &[Arg], cases: &[(Arg, i64, bool)]) -> Row {
    cases.iter().fold(row.types(ALL).ulps(0.0), |row, (x, dim, descending)| {
        row.sample([vec![x.clone()], start.to_vec(), vec![(*dim).into(), (*descending).into()]].concat())
    })
}

fn orders() -> Vec<Row> {
    let ties = || Arg::Tensor(small(&[5, 7]));
    let long = || Arg::Tensor(Array::fill(&[5000], -9.0..9.0, 3).map(f64::round));
    let with_nan = || {
        let mut x = small(&[9]);
        (x.data[2], x.data[5], x.data[7]) = (f64::NAN, f64::INFINITY, f64::NAN);
        Arg::Tensor(x)
    };
    let equal = [(ties(), -1, false), (ties(), 0, true), (long(), 0, false), (long(), 0, true)];
    let unequal = [
        (distinct(&[5, 7]), -1, false),
        (distinct(&[3, 4]), 0, true),
        (t(&[]), 0, false),
        (t(&[0, 3]), 1, false),
    ];
    let both = |name, start: &[Arg], cases: &[_], at: usize| {
        calls(row(name), start, cases).reference(move |a| values_and_indices(a, &a[at], a[at + 1].flag()))
    };
    let arg_rows = |name, start: &[Arg], at: usize| {
        calls(row(name), start, &[equal.clone(), unequal.clone()].concat())
            .gives(|_| I64)
            .not_differentiable()
            .reference(move |a| vec![values_and_indices(a, &a[at], a[at + 1].flag()).remove(1)])
    };
    let stable = [true.into()];
    let lines =
        |x: Arg| moves("msort", vec![vec![x]], |a| values_and_indices(a, &0i64.into(), false).remove(0));
    vec![
        tied(both("sort", &[], &equal, 1)),
        both("sort", &[], &unequal, 1).refuses(
            vec![t(&[2, 3]), 2i64.into(), false.into()],
            ErrorKind::Index,
            "dimension out of range",
        ),
        tied(both("sort.stable", &stable, &equal, 2)),
        both("sort.stable", &stable, &unequal, 2),
        tied(both("sort", &[], &[(with_nan(), 0, false), (with_nan(), 0, true)], 1)).types(FLOATS),
        arg_rows("argsort", &[], 1),
        arg_rows("argsort.stable", &stable, 2),
        tied(lines(ties())),
        lines(distinct(&[5, 7])),
        tied(topk(&[
            (ties(), 3, 1, true),
            (ties(), 2, 0, false),
            (long(), 10, 0, true),
            (ties(), 7, 1, false),
        ])),
        topk(&[(distinct(&[5, 7]), 3, 1, true), (distinct(&[3, 4]), 2, 0, false), (t(&[]), 1, 0, true)])
            .refuses(largest(t(&[3]), 4, 0, true), ErrorKind::InvalidArgument, "k out of range"),
    ]
}

fn largest(x: Arg, k: i64, dim: i64, largest: bool) -> Vec<Arg> {
    vec![x, k.into(), dim.into(), largest.into(), true.into()]
}

fn topk(cases: &[(Arg, i64, i64, bool)]) -> Row {
    let start = row("topk").types(ALL).ulps(0.0);
    let sample =
        |row: Row, (x, k, dim, most): &(Arg, i64, i64, bool)| row.sample(largest(x.clone(), *k, *dim, *most));
    cases.iter().fold(start, sample).reference(|a| {
        let (x, d) = (a[0].array(), wrap(&a[2], a[0].array().sizes.len().max(1)));
        if x.sizes.is_empty() {
            return vec![x.clone(), Array::scalar(0.0)];
        }
        let order = super::view::sliced(&ordered(x, d, a[3].flag()), d, 0, int(&a[1]) as usize, 1);
        vec![picked(x, &order, d), order]
    })
}

fn searches() -> Vec<Row> {
    let sorted = || Arg::Tensor(Array::new(&[4], vec![1.0, 3.0, 3.0, 5.0]));
    let values = || Arg::Tensor(Array::new(&[2, 3], vec![0.0, 1.0, 3.0, 4.0, 5.0, 9.0]));
    let insertion_points = |values: &Array, right: bool| {
        values.map(|v| {
            [1.0, 3.0, 3.0, 5.0].iter().filter(|b| if right { **b <= v } else { **b < v }).count() as f64
        })
    };
    let int = |row: Row| row.types(NUMBERS).ulps(0.0).gives(|_| I64).not_differentiable();
    let repeated = || Arg::Tensor(Array::new(&[2, 3], vec![3.0, 1.0, 3.0, 3.0, 2.0, 2.0]));
    let whole = "the size of the result depends on values, which Meta has not";
    let rest = |right: bool| vec![false.into(), right.into()];
    vec![
        int(row("searchsorted.Tensor"))
            .sample([vec![sorted(), values()], rest(false), vec![none(), none()]].concat())
            .sample([vec![sorted(), values()], rest(true), vec![none(), none()]].concat())
            .reference(move |a| vec![insertion_points(a[1].array(), a[3].flag())]),
        int(row("searchsorted.Scalar"))
            .sample([vec![sorted(), number(3)], rest(true), vec![none(), none()]].concat())
            .reference(|_| vec![Array::scalar(3.0)]),
        int(row("bucketize.Tensor"))
            .sample([vec![values(), sorted()], rest(false)].concat())
            .reference(move |a| vec![insertion_points(a[0].array(), a[3].flag())]),
        row("_unique2")
            .types(NUMBERS)
            .ulps(0.0)
            .skip(Check::Variants, whole)
            .not_differentiable()
            .sample(vec![repeated(), true.into(), true.into(), true.into()])
            .reference(|_| {
                let inverse = Array::new(&[2, 3], vec![2.0, 0.0, 2.0, 2.0, 1.0, 1.0]);
                vec![Array::new(&[3], vec![1.0, 2.0, 3.0]), inverse, Array::new(&[3], vec![1.0, 2.0, 3.0])]
            }),
        row("unique_consecutive")
            .types(NUMBERS)
            .ulps(0.0)
            .skip(Check::Variants, whole)
            .not_differentiable()
            .sample(vec![repeated(), true.into(), true.into(), none()])
            .reference(|_| {
                let inverse = Array::new(&[2, 3], vec![0.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
                let counts = Array::new(&[4], vec![1.0, 1.0, 2.0, 2.0]);
                vec![Array::new(&[4], vec![3.0, 1.0, 3.0, 2.0]), inverse, counts]
            }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [orders(), searches()].into_iter().flatten().collect()
}
