//! Special functions that have no short independent formula, against values of 40 digits.

use super::unary::float_of;
use crate::array::Array;
use crate::row::{Arg, Check, FLOATS, Row, WIDE_FLOATS, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{I8, I16, I32, I64, U8};

/// One argument or two, the value, and whether it is an edge: right to know, but no sample.
pub(super) struct Entry {
    arguments: Vec<f64>,
    value: f64,
    edge: bool,
}

/// What the table knows of a function.
pub(super) fn entries(name: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let (edge, line) = line.strip_prefix("edge ").map_or((false, line), |rest| (true, rest));
        let (_, numbers) = line.split_once(' ').filter(|(function, _)| *function == name)?;
        let mut arguments: Vec<f64> = numbers.split(' ').map(|x| x.parse().unwrap()).collect();
        let value = arguments.pop()?;
        Some(Entry { arguments, value, edge })
    };
    let found: Vec<Entry> = include_str!("special_values.txt").lines().filter_map(entry).collect();
    assert!(!found.is_empty(), "the table does not know {name}");
    found
}

pub(super) fn value(entries: &[Entry], arguments: &[f64]) -> f64 {
    if arguments.iter().any(|x| x.is_nan()) {
        return f64::NAN;
    }
    let found = entries.iter().find(|entry| entry.arguments == arguments);
    found.unwrap_or_else(|| panic!("the table has no {arguments:?}")).value
}

/// Numbers of a list in a pseudo-random order.
pub(super) fn of_list(list: Vec<f64>) -> impl Fn(&[usize], u64) -> Array {
    move |sizes, seed| Array::fill(sizes, 0.0..list.len() as f64, seed).map(|i| list[i as usize])
}

fn arguments(name: &str) -> Vec<f64> {
    entries(name).iter().filter(|entry| !entry.edge).map(|entry| entry.arguments[0]).collect()
}

/// A function of one number.
fn one(name: &'static str) -> Row {
    let known = entries(name);
    row(name).types(FLOATS).ulps(3.0).unary_of(of_list(arguments(name)), &[], move |x| value(&known, &[x]))
}

/// The same for integers.
fn of_integers(name: &'static str) -> Row {
    let known = entries(name);
    let list = vec![1.0, 2.0, 3.0, 5.0, 7.0];
    let list = list.into_iter().filter(|x| known.iter().any(|e| e.arguments == [*x])).collect();
    row(name)
        .types(&[U8, I8, I16, I32, I64])
        .gives(float_of)
        .unary_of(of_list(list), &[], move |x| value(&known, &[x]))
}

fn of_one() -> Vec<Row> {
    let digamma = entries("digamma");
    // A zero has a sign, and with it one of two limits.
    let limit = move |x: f64| if x == 0.0 { f64::INFINITY.copysign(-x) } else { value(&digamma, &[x]) };
    let p2 = entries("lgamma");
    let multivariate =
        move |x: f64| value(&p2, &[x]) + value(&p2, &[x - 0.5]) + 0.5 * std::f64::consts::PI.ln();
    let halves = vec![1.0, 1.25, 1.5, 1.625, 2.0, 2.25, 3.0, 3.5, 8.0];
    let mut rows = vec![
        one("erfinv"),
        one("special_ndtri"),
        // Where a result is near 0, its terms are not.
        one("lgamma").ulps(5.0).terms(1.0),
        row("digamma").types(FLOATS).ulps(5.0).terms(1.0).unary_of(of_list(arguments("digamma")), &[], limit),
        one("i0").ulps(5.0),
        one("special_i0e").ulps(5.0),
        one("special_i1").ulps(5.0),
        one("special_i1e").ulps(5.0),
        row("mvlgamma")
            .types(FLOATS)
            .ulps(6.0)
            .terms(1.0)
            .unary_of(of_list(halves), &[2i64.into()], multivariate)
            .refuses(
                vec![Array::scalar(3.0).into(), 0i64.into()],
                ErrorKind::InvalidArgument,
                "greater than or equal to 1",
            ),
    ];
    for row in &mut rows {
        // The table has no edges for it.
        row.pointwise &= row.name != "mvlgamma";
    }
    rows.extend(["lgamma", "digamma", "i0", "special_i0e", "special_i1", "special_i1e"].map(of_integers));
    rows
}

/// Their amplitude is the square root of `2 / (pi x)`: what oscillates is measured against that of small arguments, 1.
fn bessel_functions() -> Vec<Row> {
    let waves = [
        "special_bessel_j0",
        "special_bessel_j1",
        "special_bessel_y0",
        "special_bessel_y1",
        "special_airy_ai",
    ];
    let falling = [
        "special_modified_bessel_k0",
        "special_modified_bessel_k1",
        "special_scaled_modified_bessel_k0",
        "special_scaled_modified_bessel_k1",
    ];
    let of_first = [("special_modified_bessel_i0", "i0"), ("special_modified_bessel_i1", "special_i1")];
    let at_infinity = |mut row: Row| {
        // The table has no limits at infinity, where these are not a number in PyTorch.
        row.pointwise = false;
        // In PyTorch neither.
        let alone = row.name.contains("scaled") || row.name.contains("airy");
        if alone { row.not_differentiable() } else { row }
    };
    let mut rows: Vec<Row> = waves.map(|name| at_infinity(one(name).ulps(6.0).terms(1.0))).into();
    rows.extend(falling.map(|name| at_infinity(one(name).ulps(12.0))));
    rows.push(one("special_spherical_bessel_j0").ulps(3.0).not_differentiable());
    rows.extend(of_first.map(|(name, known)| {
        let known = (entries(known), arguments(known));
        let row = row(name).types(FLOATS).ulps(5.0);
        row.unary_of(of_list(known.1), &[], move |x| value(&known.0, &[x]))
    }));
    rows.extend(
        ["special_bessel_j0", "special_bessel_y1"].map(of_integers).map(|row| at_infinity(row.terms(1.0))),
    );
    rows
}

/// A function of two numbers, each of a list, with a derivative by the second alone.
pub(super) fn two(name: &'static str, first: &[f64], second: &[f64]) -> Row {
    let known = entries(name);
    let (first, second) = (of_list(first.to_vec()), of_list(second.to_vec()));
    let make =
        move |sizes: &[usize], seed: u64| if seed < 100 { first(sizes, seed) } else { second(sizes, seed) };
    let mut row = row(name).types(FLOATS).ulps(8.0).binary_of(make, &[], move |a, x| value(&known, &[a, x]));
    for sample in &mut row.samples {
        sample[0] = Arg::Constant(sample[0].array().clone());
    }
    row
}

const ARGUMENTS: [f64; 8] = [0.125, 0.5, 0.75, 1.0, 1.75, 4.0, 9.5, 30.0];
const BELOW: [f64; 5] = [-0.25, -0.5, -1.75, -2.5, -9.25];

fn zetas() -> Vec<Row> {
    let of = |n: i64, list: &[f64]| {
        let known = entries("polygamma");
        let at = move |x: f64| value(&known, &[n as f64, x]);
        let row = row("polygamma").types(FLOATS).ulps(8.0).terms(if n == 0 { 1.0 } else { 0.0 });
        let mut row = row.unary_of(of_list(list.to_vec()), &[n.into()], at).arranged(&[1, 0]);
        // The first argument is a number: there is no element to replace.
        row.pointwise = false;
        row
    };
    let (known, more) = (entries("special_zeta"), entries("special_zeta"));
    let mut rows = vec![
        two("special_zeta", &[1.5, 2.0, 3.0, 4.5], &ARGUMENTS),
        two("special_zeta", &[12.0], &ARGUMENTS)
            .skip(Check::SecondGradients, "differences of 1e13 leave no digit"),
        // Terms of both signs.
        two("special_zeta", &[2.0, 3.0], &BELOW).terms(16.0),
        row("special_zeta.self_scalar")
            .types(FLOATS)
            .ulps(8.0)
            .unary_of(of_list(ARGUMENTS.to_vec()), &[number(3)], move |q| value(&known, &[3.0, q]))
            .arranged(&[1, 0]),
        row("special_zeta.other_scalar").types(FLOATS).ulps(8.0).not_differentiable().unary_of(
            of_list(vec![1.5, 2.0, 3.0, 4.5, 12.0]),
            &[number(1)],
            // Below 1 there is no sum, and far above the first term is all of it.
            move |s| match s {
                f64::INFINITY => 1.0,
                s if s < 1.0 => f64::NAN,
                s => value(&more, &[s, 1.0]),
            },
        ),
        edges(
            "special_zeta",
            &[
                [1.0, 1.0, f64::INFINITY],
                [0.5, 1.0, f64::NAN],
                [2.0, 0.0, f64::INFINITY],
                [2.0, -1.0, f64::INFINITY],
                [2.5, -1.5, f64::NAN],
                [f64::NAN, 1.0, f64::NAN],
                [2.0, f64::NAN, f64::NAN],
                [2.0, f64::INFINITY, 0.0],
            ],
        ),
        of(0, &ARGUMENTS).refuses(
            vec![(-1i64).into(), Array::scalar(1.0).into()],
            ErrorKind::InvalidArgument,
            "negative n",
        ),
        of(6, &ARGUMENTS),
    ];
    let known = entries("polygamma");
    let in_place = row("polygamma_").types(FLOATS).ulps(8.0);
    let mut in_place =
        in_place.unary_of(of_list(ARGUMENTS.to_vec()), &[2i64.into()], move |x| value(&known, &[2.0, x]));
    // The table has no edges for it.
    in_place.pointwise = false;
    rows.push(in_place);
    rows.extend([1, 2, 3].map(|n| of(n, &ARGUMENTS)));
    rows.extend([1, 2, 3].map(|n| of(n, &BELOW).terms(16.0)));
    rows
}

/// Cases where a rule, not a formula, says what comes out.
pub(super) fn edges(name: &'static str, cases: &'static [[f64; 3]]) -> Row {
    let column = |k: usize| Array::new(&[cases.len()], cases.iter().map(|case| case[k]).collect());
    row(name)
        .types(FLOATS)
        .ulps(0.0)
        .not_differentiable()
        .sample(vec![column(0).into(), column(1).into()])
        .reference(move |_| vec![column(2)])
}

fn incomplete_gammas() -> Vec<Row> {
    const SHAPES: [f64; 7] = [0.125, 0.5, 1.0, 1.5, 3.5, 8.0, 20.0];
    const LIMITS: [f64; 11] = [0.0625, 0.5, 0.75, 1.0, 1.5, 3.0, 7.0, 15.0, 30.0, 90.0, 120.0];
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let great = |name| {
        let noisy = "the derivative is the exponential of a difference of 1e9, as PyTorch's: differences see its steps";
        let row = two(name, &[1e6, 1e8], &[999_424.0, 1_000_448.0, 1e8]).types(WIDE_FLOATS).ulps(60.0);
        row.skip(Check::SecondGradients, noisy)
    };
    vec![
        // An exponential: its relative error is the absolute one of the logarithm.
        two("igamma", &SHAPES, &LIMITS).ulps(60.0),
        two("igamma", &[100.0], &[30.0, 90.0, 120.0]).ulps(60.0),
        two("igammac", &SHAPES, &LIMITS).ulps(60.0),
        two("igammac", &[100.0], &[30.0, 90.0, 120.0]).ulps(60.0),
        great("igamma"),
        great("igammac"),
        edges(
            "igamma",
            &[
                [0.0, 0.0, NAN],
                [0.0, 1.0, 1.0],
                [1.0, 0.0, 0.0],
                [-1.0, 1.0, NAN],
                [1.0, -1.0, NAN],
                [1.0, INF, 1.0],
                [INF, 1.0, 0.0],
                [INF, INF, NAN],
                [NAN, 1.0, NAN],
                [1.0, NAN, NAN],
            ],
        ),
        edges(
            "igammac",
            &[
                [0.0, 0.0, NAN],
                [0.0, 1.0, 0.0],
                [1.0, 0.0, 1.0],
                [-1.0, 1.0, NAN],
                [1.0, -1.0, NAN],
                [1.0, INF, 0.0],
                [INF, 1.0, 1.0],
                [INF, INF, NAN],
                [NAN, 1.0, NAN],
                [1.0, NAN, NAN],
            ],
        ),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [of_one(), bessel_functions(), zetas(), incomplete_gammas()].into_iter().flatten().collect()
}
