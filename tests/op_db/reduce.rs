//! Reductions of all elements and along dimensions: sums, products, `any`, `all` and counts.

use super::special::sum as exact_sum;
use super::unary::float_of;
use crate::array::Array;
use crate::row::{ALL, Arg, Check, FLOATS, NUMBERS, Row, ints, none, row, whole};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, Bool, F16, F32, F64, I8, I16, I32, I64, U8};

/// Shapes whose elements are all reduced.
pub(super) const WHOLE: &[&[usize]] =
    &[&[], &[1], &[5], &[17], &[64], &[3, 4], &[2, 3, 4], &[1000], &[0], &[2, 0, 3]];
/// Shapes with a dimension to reduce.
pub(super) const LINES: &[(&[usize], i64)] = &[
    (&[], 0),
    (&[1], 0),
    (&[5], -1),
    (&[17], 0),
    (&[64], 0),
    (&[3, 4], 0),
    (&[3, 4], 1),
    (&[2, 17, 3], 1),
    (&[2, 3, 4], -3),
    (&[700, 2], 0),
    (&[0, 3], 1),
];
/// Shapes with several.
pub(super) const SEVERAL: &[(&[usize], &[i64])] = &[
    (&[3, 4], &[0, 1]),
    (&[2, 3, 4], &[0, 2]),
    (&[2, 3, 4], &[-1]),
    (&[2, 3, 4], &[]),
    (&[5, 1, 17], &[2, 1]),
    (&[33], &[0]),
    (&[], &[]),
    (&[3, 0], &[0]),
];

/// Values of a sample, by sizes and a seed.
pub(super) type Make = fn(&[usize], u64) -> Array;

/// Integers, whose sums are exact in every type.
pub(super) fn counted(sizes: &[usize], seed: u64) -> Array {
    whole(0.0..4.0)(sizes, seed)
}

/// Numbers of which no two are equal, and none is 0.
pub(super) fn distinct(sizes: &[usize], _: u64) -> Array {
    let count = sizes.iter().product::<usize>();
    Array::new(sizes, (0..count).map(|i| (i * 37 % 127) as f64 + 1.0).collect())
}

/// Ones, a few twos and halves, and some below zero: products are exact.
fn factors(sizes: &[usize], seed: u64) -> Array {
    let power = |x: f64| if x < 0.1 { 2.0 } else { 1.0 };
    Array::fill(sizes, -4.0..4.0, seed).map(|x| x.signum() * power(x.abs()))
}

pub(super) fn all_of(row: Row, make: Make, rest: &[Arg]) -> Row {
    WHOLE
        .iter()
        .zip(0..)
        .fold(row, |row, (sizes, seed)| row.sample([vec![make(sizes, seed).into()], rest.to_vec()].concat()))
}

/// `x, between, dim, after, keepdim, rest`: with and without the dimension kept.
pub(super) fn along(row: Row, make: Make, after: &[Arg], rest: &[Arg]) -> Row {
    LINES.iter().zip(0..).fold(row, |row, ((sizes, dim), seed)| {
        let start = vec![make(sizes, seed).into(), (*dim).into()];
        row.sample([start, after.to_vec(), vec![(seed % 2 == 0).into()], rest.to_vec()].concat())
    })
}

/// The same with lists of dimensions.
pub(super) fn over(row: Row, make: Make, after: &[Arg], rest: &[Arg]) -> Row {
    SEVERAL.iter().zip(0..).fold(row, |row, ((sizes, dims), seed)| {
        let start = vec![make(sizes, seed).into(), ints(dims)];
        row.sample([start, after.to_vec(), vec![(seed % 2 == 0).into()], rest.to_vec()].concat())
    })
}

/// Folds the dimensions that an argument lists; a tensor without dimensions is one line.
pub(super) fn folded(x: &Array, dims: &Arg, keepdim: bool, f: impl Fn(&[f64]) -> f64) -> Array {
    if x.sizes.is_empty() {
        return Array::scalar(f(&x.data));
    }
    x.reduce(&dims.dims(x.sizes.len()), keepdim, f)
}

fn sum_of(t: ScalarType) -> ScalarType {
    if t.is_integral(true) { I64 } else { t }
}

fn sum(x: &[f64]) -> f64 {
    exact_sum(x.iter().copied())
}

fn mean(x: &[f64]) -> f64 {
    sum(x) / x.len() as f64
}

fn product(x: &[f64]) -> f64 {
    x.iter().product()
}

fn far(rest: &[Arg]) -> Vec<Arg> {
    [vec![Array::fill(&[2, 3], 0.0..1.0, 0).into(), ints(&[2])], rest.to_vec()].concat()
}

const OUT_OF_RANGE: &str = "dimension out of range";

fn sums() -> Vec<Row> {
    let start = |name| row(name).types(ALL).gives(sum_of).ulps(0.0);
    let by_type = |name| row(name).types(&[F16, F32, I32]).gives(|_| F64).ulps(0.0);
    let wide = || Arg::from(flambeau_ops::dispatch::Value::ScalarType(F64));
    let rest = [false.into(), none()];
    let whole_sum = |a: &[Arg]| vec![a[0].array().reduce(&[], false, sum)];
    let part = |a: &[Arg]| vec![folded(a[0].array(), &a[1], a[2].flag(), sum)];
    vec![
        all_of(start("sum"), counted, &[none()]).reference(whole_sum),
        all_of(by_type("sum"), counted, &[wide()]).reference(whole_sum),
        over(start("sum.dim_IntList"), counted, &[], &[none()]).reference(part).refuses(
            far(&rest),
            ErrorKind::Index,
            OUT_OF_RANGE,
        ),
        along(start("prod.dim_int"), factors, &[], &[none()])
            .types(&[I8, I16, I32, I64, F16, ScalarType::BF16, F32, F64])
            .reference(|a| vec![folded(a[0].array(), &a[1], a[2].flag(), product)]),
        all_of(start("prod"), factors, &[none()])
            .types(&[I8, I16, I32, I64, ScalarType::BF16, F32, F64])
            .reference(|a| vec![a[0].array().reduce(&[], false, product)]),
        row("sum.dim_IntList")
            .types(ALL)
            .gives(sum_of)
            .ulps(0.0)
            .sample(vec![counted(&[3, 4], 0).into(), none(), true.into(), none()])
            .reference(part),
        start("prod")
            .types(FLOATS)
            .sample(vec![Array::new(&[3], vec![2.0, 0.0, -3.0]).into(), none()])
            .reference(|a| vec![Array::scalar(product(&a[0].array().data))]),
    ]
}

fn means() -> Vec<Row> {
    let start = |name| row(name).types(FLOATS).ulps(0.5);
    let with_nan = |sizes: &[usize], seed: u64| {
        let nan = |(i, x): (usize, f64)| if i % 3 == 1 { f64::NAN } else { x };
        Array::new(sizes, counted(sizes, seed).data.into_iter().enumerate().map(nan).collect())
    };
    let known = |x: &[f64]| x.iter().filter(|x| !x.is_nan()).sum();
    let integers = Arg::Typed(counted(&[3], 0), I64);
    vec![
        all_of(start("mean"), counted, &[none()])
            .reference(|a| vec![a[0].array().reduce(&[], false, mean)])
            .refuses(vec![integers, none()], ErrorKind::Dtype, "mean()"),
        over(start("mean.dim"), counted, &[], &[none()])
            .reference(|a| vec![folded(a[0].array(), &a[1], a[2].flag(), mean)])
            .refuses(far(&[false.into(), none()]), ErrorKind::Index, OUT_OF_RANGE),
        over(row("nansum").types(FLOATS).ulps(0.0), with_nan, &[], &[none()])
            .reference(move |a| vec![folded(a[0].array(), &a[1], a[2].flag(), known)])
            .skip(Check::Gradients, NAN)
            .skip(Check::SecondGradients, NAN),
        over(row("nansum").types(ALL).gives(sum_of).ulps(0.0), counted, &[], &[none()])
            .reference(|a| vec![folded(a[0].array(), &a[1], a[2].flag(), sum)]),
    ]
}

pub(super) const NAN: &str = "a sample holds NaN, of which there are no differences";

fn truth_of(t: ScalarType) -> ScalarType {
    if t == U8 { U8 } else { Bool }
}

fn truths() -> Vec<Row> {
    let start = |name| row(name).types(ALL).gives(truth_of).not_differentiable();
    let make: Make = |sizes, seed| whole(0.0..6.0)(sizes, seed).map(|x| (x - 1.0).max(0.0));
    let three = |all: &'static str, dim: &'static str, dims: &'static str, f: fn(&[f64]) -> bool| {
        let fold = move |x: &[f64]| f64::from(f(x));
        [
            all_of(start(all), make, &[]).reference(move |a| vec![a[0].array().reduce(&[], false, fold)]),
            along(start(dim), make, &[], &[])
                .reference(move |a| vec![folded(a[0].array(), &a[1], a[2].flag(), fold)]),
            // No dimensions listed are none here, not all.
            over(start(dims), make, &[], &[])
                .reference(move |a| {
                    let x = a[0].array();
                    let listed = !a[1].dims(x.sizes.len()).is_empty();
                    vec![if listed { folded(x, &a[1], a[2].flag(), fold) } else { x.map(|x| fold(&[x])) }]
                })
                .refuses(far(&[false.into()]), ErrorKind::Index, OUT_OF_RANGE),
        ]
    };
    let some = |x: &[f64]| x.iter().any(|x| *x != 0.0);
    let every = |x: &[f64]| x.iter().all(|x| *x != 0.0);
    three("any", "any.dim", "any.dims", some)
        .into_iter()
        .chain(three("all", "all.dim", "all.dims", every))
        .collect()
}

fn counts() -> Vec<Row> {
    let start = |name| row(name).types(ALL).gives(|_| I64).not_differentiable();
    let count = |x: &[f64]| x.iter().filter(|x| **x != 0.0).count() as f64;
    let one = LINES.iter().zip(0..).fold(start("count_nonzero"), |row, ((sizes, dim), seed)| {
        row.sample(vec![counted(sizes, seed).into(), (*dim).into()])
    });
    let several =
        SEVERAL.iter().zip(0..).fold(start("count_nonzero.dim_IntList"), |row, ((sizes, dims), seed)| {
            row.sample(vec![counted(sizes, seed).into(), ints(dims)])
        });
    let of = move |a: &[Arg]| vec![folded(a[0].array(), &a[1], false, count)];
    vec![
        one.sample(vec![counted(&[3, 4], 1).into(), none()]).reference(of),
        several.reference(of).refuses(far(&[]), ErrorKind::Index, OUT_OF_RANGE),
    ]
}

fn log_sums() -> Vec<Row> {
    let of = |x: &[f64]| {
        let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most.is_infinite() { most } else { most + exact_sum(x.iter().map(|x| (x - most).exp())).ln() }
    };
    let start = row("logsumexp").types(NUMBERS).gives(float_of).ulps(3.0).terms(4.0);
    vec![
        over(start, |sizes, seed| Array::fill(sizes, 0.0..4.0, seed), &[], &[])
            .reference(move |a| vec![folded(a[0].array(), &a[1], a[2].flag(), of)])
            .refuses(far(&[false.into()]), ErrorKind::Index, OUT_OF_RANGE),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [sums(), means(), truths(), counts(), log_sums()].into_iter().flatten().collect()
}
