//! Pointwise operators with two arguments that broadcast.

use super::special as f;
use super::unary::float_of;
use crate::array::Array;
use crate::row::{ALL, Arg, BITS, Check, FLOATS, INTEGERS, Row, none, number, row, whole};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::Bool;
use std::ops::Range;

/// Two ranges of integers, the second for seeds from 100 on.
fn wholes(a: Range<f64>, b: Range<f64>) -> impl Fn(&[usize], u64) -> Array {
    move |sizes, seed| whole(if seed < 100 { a.clone() } else { b.clone() })(sizes, seed)
}

fn three_and_four(rest: &[Arg]) -> Vec<Arg> {
    let of = |n: usize| Arg::Tensor(Array::fill(&[n], 1.0..2.0, n as u64));
    [vec![of(3), of(4)], rest.to_vec()].concat()
}

fn arithmetic() -> Vec<Row> {
    let wide = || [-50.0..50.0, -50.0..50.0];
    let refused = |row: Row, rest: &[Arg]| {
        let says = row.name;
        row.refuses(three_and_four(rest), ErrorKind::Shape, says)
    };
    vec![
        refused(row("add.Tensor").binary(wide(), &[number(2)], |a, b| a + 2.0 * b), &[number(1)])
            .types(FLOATS)
            .terms(50.0),
        row("add.Scalar").unary(0.0..50.0, &[number(3), number(2)], |x| x + 6.0),
        refused(row("sub.Tensor").binary(wide(), &[number(1)], |a, b| a - b), &[number(1)]).types(FLOATS),
        row("sub.Scalar").unary(10.0..60.0, &[number(3), number(2)], |x| x - 6.0),
        row("rsub.Tensor").binary([0.0..20.0, 60.0..90.0], &[number(2)], |a, b| b - 2.0 * a),
        row("rsub.Scalar").unary(0.0..40.0, &[number(100), number(2)], |x| 100.0 - 2.0 * x),
        refused(row("mul.Tensor").binary(wide(), &[], |a, b| a * b), &[]).types(FLOATS),
        row("mul.Scalar").unary(0.0..30.0, &[number(3)], |x| 3.0 * x),
        refused(row("div.Tensor").binary([-50.0..50.0, 0.5..9.0], &[], |a, b| a / b), &[]).types(FLOATS),
        row("div.Scalar").gives(float_of).unary(-50.0..50.0, &[number(3)], |x| x / 3.0),
        row("true_divide.Tensor").gives(float_of).binary([-50.0..50.0, 1.0..9.0], &[], |a, b| a / b),
        row("true_divide.Scalar").gives(float_of).unary(-50.0..50.0, &[number(3)], |x| x / 3.0),
        row("pow.Tensor_Tensor").types(FLOATS).ulps(2.0).binary([0.3..4.0, -3.0..3.0], &[], f64::powf),
        row("pow.Tensor_Tensor").types(INTEGERS).binary_of(wholes(0.0..6.0, 0.0..3.0), &[], f64::powf),
        row("atan2").gives(float_of).ulps(2.0).binary([-5.0..5.0, -5.0..5.0], &[], f64::atan2),
        row("hypot").types(FLOATS).ulps(2.0).binary([-5.0..5.0, -5.0..5.0], &[], f64::hypot),
        // A gradient of 0 stays, whatever it is multiplied with.
        row("_chain").gives(float_of).binary(wide(), &[], |g, d| if g == 0.0 { g } else { g * d }),
        row("_chain_div")
            .gives(float_of)
            .binary([-50.0..50.0, 0.5..9.0], &[], |g, d| if g == 0.0 { g } else { g / d }),
        row("copysign.Tensor").gives(float_of).binary([-5.0..5.0, -5.0..5.0], &[], f64::copysign),
        row("copysign.Scalar").gives(float_of).unary(-5.0..5.0, &[number(-2)], |x| x.copysign(-2.0)),
    ]
}

fn extremes() -> Vec<Row> {
    let row = |name, f: fn(f64, f64) -> f64| {
        let start = row(name).types(ALL).ulps(0.0).binary([-50.0..50.0, -50.0..50.0], &[], f);
        start.refuses(three_and_four(&[]), ErrorKind::Shape, name)
    };
    vec![row("maximum", f::greater), row("minimum", f::lesser), row("fmax", f64::max), row("fmin", f64::min)]
}

fn divisions() -> Vec<Row> {
    let pair = || [-50.0..50.0, 1.0..9.0];
    let rounded = |mode: &str, f: fn(f64, f64) -> f64| {
        [
            row("div.Tensor_mode").binary(pair(), &[mode.into()], f),
            row("div.Scalar_mode").unary(-50.0..50.0, &[number(3), mode.into()], move |x| f(x, 3.0)),
        ]
    };
    let plain = [
        row("div.Tensor_mode").gives(float_of).binary(pair(), &[none()], |a, b| a / b).refuses(
            three_and_four(&["up".into()]),
            ErrorKind::InvalidArgument,
            "'up'",
        ),
        row("floor_divide").binary(pair(), &[], f::floor_divide).not_differentiable(),
        row("floor_divide.Scalar")
            .unary(-50.0..50.0, &[number(3)], |x| f::floor_divide(x, 3.0))
            .not_differentiable(),
        row("remainder.Tensor").binary(pair(), &[], f::remainder),
        row("remainder.Scalar").unary(-50.0..50.0, &[number(3)], |x| f::remainder(x, 3.0)),
        row("remainder.Scalar_Tensor")
            .unary(1.0..9.0, &[number(40)], |x| f::remainder(40.0, x))
            .arranged(&[1, 0]),
        row("fmod.Tensor").binary(pair(), &[], |a, b| a % b),
        row("fmod.Scalar").unary(-50.0..50.0, &[number(3)], |x| x % 3.0),
    ];
    let trunc = rounded("trunc", |a, b| (a / b).trunc());
    plain.into_iter().chain(trunc).chain(rounded("floor", f::floor_divide)).collect()
}

fn comparisons() -> Vec<Row> {
    let both = |tensors, scalar, f: fn(&f64, &f64) -> bool| {
        let start = |name| row(name).types(ALL).gives(|_| Bool).not_differentiable();
        let values = wholes(-3.0..4.0, -3.0..4.0);
        [
            start(tensors).binary_of(values, &[], move |a, b| f(&a, &b).into()).refuses(
                three_and_four(&[]),
                ErrorKind::Shape,
                tensors,
            ),
            start(scalar).unary_of(whole(-3.0..4.0), &[number(1)], move |x| f(&x, &1.0).into()),
        ]
    };
    [
        both("eq.Tensor", "eq.Scalar", f64::eq),
        both("ne.Tensor", "ne.Scalar", f64::ne),
        both("lt.Tensor", "lt.Scalar", f64::lt),
        both("le.Tensor", "le.Scalar", f64::le),
        both("gt.Tensor", "gt.Scalar", f64::gt),
        both("ge.Tensor", "ge.Scalar", f64::ge),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Where the limit itself is met, sums are exact.
fn close(a: f64, b: f64) -> bool {
    a == b || ((a - b).is_finite() && (a - b).abs() <= 0.5 + 0.25 * b.abs())
}

fn agreements() -> Vec<Row> {
    let tolerance = [0.25.into(), 0.5.into(), false.into()];
    let values = "a truth value is known from elements alone, which Meta has not";
    let small = |seed: u64| Arg::Tensor(whole(1.0..9.0)(&[7], seed));
    let near = Arg::Tensor(whole(1.0..9.0)(&[7], 1).map(|x| x + 0.5));
    let negative = [(-1.0).into(), 0.5.into(), false.into()];
    vec![
        row("isclose")
            .gives(|_| Bool)
            .not_differentiable()
            .binary_of(wholes(0.0..5.0, 0.0..5.0), &tolerance, |a, b| close(a, b).into())
            .refuses(
                [vec![small(1), small(2)], negative.to_vec()].concat(),
                ErrorKind::InvalidArgument,
                "rtol",
            ),
        row("isclose").types(FLOATS).gives(|_| Bool).not_differentiable().binary_of(
            wholes(0.0..5.0, 0.0..5.0),
            &[0.25.into(), 0.5.into(), true.into()],
            |a, b| (close(a, b) || a.is_nan() && b.is_nan()).into(),
        ),
        row("equal")
            .types(ALL)
            .gives(|_| Bool)
            .not_differentiable()
            .skip(Check::Variants, values)
            .sample(vec![small(1), small(1)])
            .sample(vec![small(1), Arg::Tensor(Array::fill(&[7], -9.0..-3.0, 1))])
            .sample(vec![Array::fill(&[0], 0.0..1.0, 0).into(), Array::fill(&[0], 0.0..1.0, 0).into()])
            .sample(vec![Array::fill(&[0], 0.0..1.0, 0).into(), Array::fill(&[2, 0], 0.0..1.0, 0).into()])
            .reference(|a| vec![Array::scalar((a[0].array() == a[1].array()).into())]),
        row("allclose")
            .types(FLOATS)
            .gives(|_| Bool)
            .not_differentiable()
            .skip(Check::Variants, values)
            .sample([vec![small(1), near], tolerance.to_vec()].concat())
            .sample([vec![small(1), small(2)], tolerance.to_vec()].concat())
            .reference(|a| {
                let each = a[0].array().zip(a[1].array(), |a, b| close(a, b).into());
                vec![Array::scalar(each.data.iter().all(|c| *c == 1.0).into())]
            }),
    ]
}

fn logic() -> Vec<Row> {
    let truth = |name, f: fn(bool, bool) -> bool| {
        let start = row(name).types(ALL).gives(|_| Bool).not_differentiable();
        let values = wholes(-1.0..2.0, -1.0..2.0);
        start.binary_of(values, &[], move |a, b| f(a != 0.0, b != 0.0).into())
    };
    let fraction = || Arg::Tensor(Array::scalar(0.5));
    let bits = |tensors, scalar, f: fn(i64, i64) -> i64| {
        let on = move |a: f64, b: f64| f(a as i64, b as i64) as f64;
        [
            row(tensors)
                .types(BITS)
                .not_differentiable()
                .binary_of(wholes(0.0..100.0, 0.0..100.0), &[], on)
                .refuses(vec![fraction(), fraction()], ErrorKind::NotImplemented, "bitwise"),
            row(scalar).types(INTEGERS).not_differentiable().unary_of(
                whole(-90.0..90.0),
                &[number(37)],
                move |x| on(x, 37.0),
            ),
        ]
    };
    let truths = [
        truth("logical_and", |a, b| a && b),
        truth("logical_or", |a, b| a || b),
        truth("logical_xor", |a, b| a != b),
    ];
    let bits = [
        bits("bitwise_and.Tensor", "bitwise_and.Scalar", |a, b| a & b),
        bits("bitwise_or.Tensor", "bitwise_or.Scalar", |a, b| a | b),
        bits("bitwise_xor.Tensor", "bitwise_xor.Scalar", |a, b| a ^ b),
    ];
    truths.into_iter().chain(bits.into_iter().flatten()).collect()
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [arithmetic(), extremes(), divisions(), comparisons(), agreements(), logic()]
        .into_iter()
        .flatten()
        .collect()
}
