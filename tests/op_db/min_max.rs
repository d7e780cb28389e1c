//! Maxima and minima: values, indices, or both.

use super::reduce::{LINES, Make, NAN, SEVERAL, WHOLE, along, distinct, folded, over};
use crate::array::Array;
use crate::row::{ALL, Arg, Check, FLOATS, NUMBERS, Row, none, row, whole};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;

/// Whether `a` comes before `b`: NaN before all.
fn beats(a: f64, b: f64, largest: bool) -> bool {
    if a.is_nan() || b.is_nan() {
        a.is_nan() && !b.is_nan()
    } else if largest {
        a > b
    } else {
        a < b
    }
}

/// The index of the first of the extremes.
fn arg(x: &[f64], largest: bool) -> f64 {
    let better = |best: usize, i: usize| if beats(x[i], x[best], largest) { i } else { best };
    (0..x.len()).reduce(better).unwrap_or(0) as f64
}

fn value(x: &[f64], largest: bool) -> f64 {
    x[arg(x, largest) as usize]
}

fn ties(sizes: &[usize], seed: u64) -> Array {
    whole(0.0..4.0)(sizes, seed)
}

fn with_nan(sizes: &[usize], seed: u64) -> Array {
    let nan = |(i, x): (usize, f64)| if i % 5 == 3 { f64::NAN } else { x };
    Array::new(sizes, ties(sizes, seed).data.into_iter().enumerate().map(nan).collect())
}

const TIES: &str = "a sample has equal elements, of which differences see only one";

/// Rows of one operator with distinct values, with ties and with NaN; only the first is compared with differences.
fn three(types: &'static [flambeau_core::ScalarType], make_row: impl Fn(Make) -> Row) -> Vec<Row> {
    let unchecked =
        |row: Row, reason| row.skip(Check::Gradients, reason).skip(Check::SecondGradients, reason);
    vec![
        make_row(distinct).types(types),
        unchecked(make_row(ties), TIES).types(types),
        unchecked(make_row(with_nan), NAN).types(FLOATS),
    ]
}

/// Not of bool, whose numbers are all 1.
const ORDERED: &[flambeau_core::ScalarType] = NUMBERS;

fn empty(rest: &[Arg]) -> Vec<Arg> {
    [vec![Array::new(&[0], vec![]).into()], rest.to_vec()].concat()
}

fn wholes(name: &'static str, largest: bool) -> Vec<Row> {
    three(ALL, |make| {
        let shapes = WHOLE.iter().zip(0..).filter(|(sizes, _)| !sizes.contains(&0));
        let start =
            row(name).ulps(0.0).refuses(empty(&[]), ErrorKind::InvalidArgument, "Specify the reduction dim");
        shapes
            .fold(start, |row, (sizes, seed)| row.sample(vec![make(sizes, seed).into()]))
            .reference(move |a| vec![Array::scalar(value(&a[0].array().data, largest))])
    })
}

fn lists(name: &'static str, largest: bool) -> Vec<Row> {
    three(ALL, |make| {
        let mut made = over(row(name).ulps(0.0), make, &[], &[])
            .reference(move |a| vec![folded(a[0].array(), &a[1], a[2].flag(), |x| value(x, largest))]);
        made.samples.retain(|sample| !sample[0].array().data.is_empty());
        made.refuses(
            empty(&[crate::row::ints(&[0]), false.into()]),
            ErrorKind::Index,
            "to have non-zero size",
        )
    })
}

fn both(name: &'static str, largest: bool) -> Vec<Row> {
    three(ALL, |make| {
        along(row(name).ulps(0.0), make, &[], &[])
            .reference(move |a| {
                let fold =
                    |f: fn(&[f64], bool) -> f64| folded(a[0].array(), &a[1], a[2].flag(), |x| f(x, largest));
                vec![fold(value), fold(arg)]
            })
            .refuses(
                vec![Array::fill(&[2], 0.0..1.0, 0).into(), 1i64.into(), false.into()],
                ErrorKind::Index,
                "dimension out of range",
            )
            .refuses(empty(&[0i64.into(), false.into()]), ErrorKind::Index, "to have non-zero size")
    })
}

fn arg_rows(name: &'static str, largest: bool) -> Vec<Row> {
    three(ORDERED, |make| {
        let start = row(name).gives(|_| I64).not_differentiable();
        along(start, make, &[], &[])
            .sample(vec![make(&[3, 4], 5).into(), none(), false.into()])
            .sample(vec![make(&[3, 4], 6).into(), none(), true.into()])
            .reference(move |a| vec![folded(a[0].array(), &a[1], a[2].flag(), |x| arg(x, largest))])
            .refuses(empty(&[none(), false.into()]), ErrorKind::InvalidArgument, "Specify the reduction dim")
    })
}

fn pairs() -> Vec<Row> {
    three(ALL, |make| {
        let shapes = LINES.iter().zip(0..);
        shapes
            .fold(row("aminmax").ulps(0.0), |row, ((sizes, dim), seed)| {
                row.sample(vec![make(sizes, seed).into(), (*dim).into(), (seed % 2 == 0).into()])
            })
            .sample(vec![make(SEVERAL[1].0, 3).into(), none(), false.into()])
            .reference(|a| {
                let fold = |largest| folded(a[0].array(), &a[1], a[2].flag(), |x| value(x, largest));
                vec![fold(false), fold(true)]
            })
            .refuses(empty(&[none(), false.into()]), ErrorKind::InvalidArgument, "no identity")
    })
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [
        wholes("max", true),
        wholes("min", false),
        lists("amax", true),
        lists("amin", false),
        both("max.dim", true),
        both("min.dim", false),
        arg_rows("argmax", true),
        arg_rows("argmin", false),
        pairs(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
