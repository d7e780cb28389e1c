//! Variances, standard deviations, norms.

use super::reduce::{Make, SEVERAL, WHOLE, folded};
use super::special::sum;
use crate::array::Array;
use crate::row::{Arg, Check, FLOATS, Row, ints, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{F16, F32, F64, I64};
use flambeau_ops::dispatch::Value;

fn spread(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -2.0..2.0, seed)
}

fn mean(x: &[f64]) -> f64 {
    sum(x.iter().copied()) / x.len() as f64
}

/// Squares of distances from the mean over `n - correction`.
fn variance(x: &[f64], correction: f64) -> f64 {
    let middle = mean(x);
    sum(x.iter().map(|x| (x - middle) * (x - middle))) / (x.len() as f64 - correction).max(0.0)
}

/// What the arguments after the tensor say: dimensions, correction, whether dimensions are kept.
type Told = fn(&[Arg]) -> (Arg, f64, bool);

fn correction(unbiased: &Arg) -> f64 {
    f64::from(unbiased.flag())
}

/// The three overloads by which dimensions and correction are given.
const FORMS: [Told; 3] = [
    |a| (none(), correction(&a[1]), false),
    |a| (a[1].clone(), correction(&a[2]), a[3].flag()),
    |a| {
        (a[1].clone(), if matches!(a[2], Arg::Value(Value::None)) { 1.0 } else { a[2].number() }, a[3].flag())
    },
];

fn samples(row: Row, form: usize) -> Row {
    let several = |row: Row, second: [Arg; 2]| {
        SEVERAL.iter().zip(0..).filter(|((sizes, _), _)| !sizes.is_empty()).fold(
            row,
            |row, ((sizes, dims), seed)| {
                let kept = Arg::from(seed % 2 == 0);
                row.sample(vec![
                    spread(sizes, seed).into(),
                    ints(dims),
                    second[seed as usize % 2].clone(),
                    kept,
                ])
            },
        )
    };
    match form {
        0 => WHOLE.iter().zip(0..).fold(row, |row, (sizes, seed)| {
            // One element has no variance of a sample: 0 / 0.
            let unbiased = sizes.iter().product::<usize>() != 1;
            row.sample(vec![spread(sizes, seed).into(), unbiased.into()])
        }),
        1 => several(row, [true.into(), false.into()]),
        _ => several(row, [none(), number(2)]).sample(vec![
            spread(&[3, 4], 9).into(),
            none(),
            number(0),
            true.into(),
        ]),
    }
}

fn spreads() -> Vec<Row> {
    let names = [
        (["var", "var.dim", "var.correction"], false, false),
        (["std", "std.dim", "std.correction"], true, false),
        (["var_mean", "var_mean.dim", "var_mean.correction"], false, true),
        (["std_mean", "std_mean.dim", "std_mean.correction"], true, true),
    ];
    let make = |(names, root, with_mean): ([&'static str; 3], bool, bool)| {
        (0..3).map(move |form| {
            let start = samples(row(names[form]).types(FLOATS).ulps(4.0).terms(1.0), form);
            let start = start.refuses(
                [
                    vec![Arg::Typed(spread(&[3], 0), I64)],
                    [
                        vec![true.into()],
                        vec![ints(&[0]), true.into(), false.into()],
                        vec![none(), none(), false.into()],
                    ][form]
                        .clone(),
                ]
                .concat(),
                ErrorKind::Dtype,
                "only support floating point",
            );
            start.reference(move |a| {
                let (dims, correction, kept) = FORMS[form](a);
                let fold = |f: &dyn Fn(&[f64]) -> f64| folded(a[0].array(), &dims, kept, f);
                let variance = fold(&|x| variance(x, correction));
                let first = if root { variance.map(f64::sqrt) } else { variance };
                if with_mean { vec![first, fold(&mean)] } else { vec![first] }
            })
        })
    };
    names.into_iter().flat_map(make).chain([alone()]).collect()
}

/// The unbiased variance of one element.
fn alone() -> Row {
    let reason = "the variance of one element is NaN";
    row("var")
        .types(FLOATS)
        .sample(vec![Array::scalar(2.0).into(), true.into()])
        .reference(|_| vec![Array::scalar(f64::NAN)])
        .skip(Check::Gradients, reason)
        .skip(Check::SecondGradients, reason)
}

fn norm(x: &[f64], p: f64) -> f64 {
    let magnitudes = x.iter().map(|x| x.abs());
    match p {
        0.0 => magnitudes.filter(|x| *x != 0.0).count() as f64,
        p if p == f64::INFINITY => magnitudes.fold(0.0, f64::max),
        p if p == f64::NEG_INFINITY => magnitudes.fold(f64::INFINITY, f64::min),
        p => sum(magnitudes.map(|x| x.powf(p))).powf(1.0 / p),
    }
}

fn norms() -> Vec<Row> {
    let positive: Make =
        |sizes, seed| Array::fill(sizes, 0.3..2.0, seed).map(|x| if x < 1.0 { -x } else { x });
    let floats = |name| row(name).types(FLOATS).ulps(4.0);
    let narrow = |name| row(name).types(&[F16, F32]).gives(|_| F64).ulps(8.0);
    let wide = || Arg::from(Value::ScalarType(F64));
    let orders = [0.0, 1.0, 2.0, 3.0, 0.5];
    let of_all = |start: Row, rest: &[Arg]| {
        WHOLE.iter().zip(0..).fold(start, |row, (sizes, seed)| {
            let order = number(orders[seed as usize % 5]);
            row.sample([vec![positive(sizes, seed).into(), order], rest.to_vec()].concat())
        })
    };
    let of_dims = |start: Row, rest: &[Arg]| {
        SEVERAL.iter().zip(0..).fold(start, |row, ((sizes, dims), seed)| {
            let order = number(orders[seed as usize % 5]);
            let call = vec![positive(sizes, seed).into(), order, ints(dims), (seed % 2 == 0).into()];
            row.sample([call, rest.to_vec()].concat())
        })
    };
    let limits = |name| {
        let signs = [f64::INFINITY, f64::NEG_INFINITY];
        signs.into_iter().fold(floats(name).ulps(0.0), |row, order| {
            row.sample(vec![
                super::reduce::distinct(&[3, 5], 0).into(),
                number(order),
                ints(&[1]),
                false.into(),
                none(),
            ])
        })
    };
    let two = |order: &Arg| if matches!(order, Arg::Value(Value::None)) { 2.0 } else { order.number() };
    let total = move |a: &[Arg]| vec![Array::scalar(norm(&a[0].array().data, two(&a[1])))];
    let part = move |a: &[Arg]| vec![folded(a[0].array(), &a[2], a[3].flag(), |x| norm(x, two(&a[1])))];
    let integers = |rest: &[Arg]| [vec![Arg::Typed(spread(&[3], 0), I64)], rest.to_vec()].concat();
    vec![
        of_dims(floats("linalg_vector_norm"), &[none()]).reference(part).refuses(
            integers(&[number(2), none(), false.into(), none()]),
            ErrorKind::Dtype,
            "linalg.vector_norm",
        ),
        limits("linalg_vector_norm").reference(part),
        of_all(floats("norm.Scalar"), &[]).reference(total).refuses(
            integers(&[number(2)]),
            ErrorKind::Dtype,
            "norm()",
        ),
        of_all(narrow("norm.ScalarOpt_dtype"), &[wide()])
            .sample(vec![positive(&[5], 1).into(), none(), wide()])
            .reference(total),
        of_dims(floats("norm.ScalarOpt_dim"), &[])
            .sample(vec![positive(&[5, 3], 1).into(), none(), ints(&[0]), false.into()])
            .reference(part),
        of_dims(narrow("norm.ScalarOpt_dim_dtype"), &[wide()]).reference(part),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [spreads(), norms()].into_iter().flatten().collect()
}
