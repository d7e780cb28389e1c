//! Pointwise operators with one argument, and predicates of one.

use super::special as f;
use crate::array::Array;
use crate::row::{ALL, FLOATS, NUMBERS, Row, number, row, whole};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, Bool, I8, I16, I32, I64, U8};
use std::ops::Range;

/// Integers give the default floating point type.
pub(super) fn float_of(t: ScalarType) -> ScalarType {
    t.to_floating_point(ScalarType::F32)
}

/// A function of real numbers. The library's and the standard library's each have an error below one ulp.
fn real(name: &'static str, domain: Range<f64>, f: fn(f64) -> f64) -> Row {
    row(name).types(NUMBERS).gives(float_of).ulps(2.0).unary(domain, &[], f)
}

fn angle(x: f64) -> f64 {
    match x {
        x if x.is_nan() => x,
        x if x < 0.0 => std::f64::consts::PI,
        _ => 0.0,
    }
}

fn reals() -> Vec<Row> {
    vec![
        real("exp", -8.0..8.0, f64::exp),
        real("exp2", -8.0..8.0, f64::exp2),
        real("expm1", -8.0..8.0, f64::exp_m1),
        real("log", 0.1..60.0, f64::ln),
        real("log1p", -0.9..50.0, f64::ln_1p),
        real("log2", 0.1..60.0, f64::log2),
        real("log10", 0.1..60.0, f64::log10),
        real("sqrt", 0.1..90.0, f64::sqrt).ulps(0.0),
        real("rsqrt", 0.1..90.0, |x| 1.0 / x.sqrt()),
        real("reciprocal", 0.3..9.0, |x| 1.0 / x).ulps(0.5),
        real("sin", -20.0..20.0, f64::sin),
        real("cos", -20.0..20.0, f64::cos),
        real("tan", -1.4..1.4, f64::tan),
        real("asin", -0.95..0.95, f64::asin),
        real("acos", -0.95..0.95, f64::acos),
        real("atan", -9.0..9.0, f64::atan),
        real("sinh", -8.0..8.0, f64::sinh),
        real("cosh", -8.0..8.0, f64::cosh),
        real("tanh", -9.0..9.0, f64::tanh),
        real("sigmoid", -20.0..20.0, f::sigmoid),
        real("erf", -4.0..4.0, f::erf),
        // The reference's own exponentials and fraction add up to a few ulp.
        real("erfc", -3.0..6.0, f::erfc).ulps(6.0),
        real("deg2rad", -400.0..400.0, f64::to_radians).ulps(1.0),
        real("angle", -3.0..3.0, angle).ulps(1.0).types(ALL),
    ]
}

fn numbers() -> Vec<Row> {
    let exact = |name, domain, f: fn(f64) -> f64| row(name).ulps(0.0).unary(domain, &[], f);
    let sign = |x: f64| if x > 0.0 { 1.0 } else { -f64::from(x < 0.0) };
    vec![
        exact("neg", -100.0..100.0, |x| -x).types(FLOATS),
        exact("neg", 0.0..100.0, |x| -x).types(&[I8, I16, I32, I64]),
        exact("abs", -100.0..100.0, f64::abs),
        exact("sign", -3.0..3.0, sign).types(ALL),
        exact("sgn", -3.0..3.0, sign).types(ALL),
        exact("conj", -9.0..9.0, |x| x).types(ALL),
        exact("resolve_conj", -9.0..9.0, |x| x).types(ALL),
        exact("resolve_neg", -9.0..9.0, |x| x).types(ALL),
        exact("conj_physical", -9.0..9.0, |x| x).types(ALL),
        exact("floor", -9.0..9.0, f64::floor),
        exact("ceil", -9.0..9.0, f64::ceil),
        exact("round", -9.0..9.0, f64::round_ties_even),
        exact("trunc", -9.0..9.0, f64::trunc),
        exact("frac", -9.0..9.0, |x| x - x.trunc()).types(FLOATS),
        exact("square", 0.0..11.0, |x| x * x).types(&[U8, I8, I16, I32, I64]),
        row("square").types(FLOATS).ulps(0.0).unary(-11.0..11.0, &[], |x| x * x),
        row("round.decimals")
            .types(FLOATS)
            .unary(-9.0..9.0, &[2i64.into()], |x| (x * 100.0).round_ties_even() / 100.0),
        row("round.decimals")
            .types(FLOATS)
            .unary(-900.0..900.0, &[(-1i64).into()], |x| (x / 10.0).round_ties_even() * 10.0),
        row("relu").unary(-3.0..3.0, &[], |x| f::greater(x, 0.0)).types(NUMBERS),
    ]
}

fn questions() -> Vec<Row> {
    let ask = |name, f: fn(f64) -> bool| {
        let make = whole(-2.0..3.0);
        row(name).types(ALL).gives(|_| Bool).not_differentiable().unary_of(make, &[], move |x| f(x).into())
    };
    let bits = |types, most: f64, f: fn(f64) -> f64| {
        row("bitwise_not").types(types).not_differentiable().unary_of(whole(0.0..most), &[], f)
    };
    vec![
        ask("isnan", f64::is_nan),
        ask("isinf", f64::is_infinite),
        ask("isfinite", f64::is_finite),
        ask("signbit", f64::is_sign_negative),
        ask("logical_not", |x| x == 0.0),
        bits(&[Bool], 2.0, |x| 1.0 - x),
        bits(&[U8], 256.0, |x| 255.0 - x),
        bits(&[I8, I16, I32, I64], 128.0, |x| -1.0 - x).refuses(
            vec![Array::fill(&[3], 0.0..1.0, 0).into()],
            ErrorKind::NotImplemented,
            "bitwise_not",
        ),
    ]
}

fn powers() -> Vec<Row> {
    let of = |exponent: f64, f: fn(f64) -> f64| {
        row("pow.Tensor_Scalar").types(FLOATS).ulps(2.0).unary(0.3..4.0, &[number(exponent)], f)
    };
    vec![
        of(2.0, |x| x * x),
        of(3.0, |x| x * x * x),
        of(0.5, f64::sqrt),
        of(-0.5, |x| 1.0 / x.sqrt()),
        of(-1.0, |x| 1.0 / x),
        of(-2.0, |x| 1.0 / (x * x)),
        of(1.7, |x| x.powf(1.7)),
        of(1.0, |x| x),
        of(0.0, |_| 1.0),
        row("pow.Tensor_Scalar").ulps(0.0).unary_of(whole(0.0..6.0), &[number(3)], |x| x.powi(3)).refuses(
            vec![crate::row::Arg::Typed(Array::fill(&[3], 0.0..9.0, 0), I32), number(-1)],
            ErrorKind::InvalidArgument,
            "Integers to negative integer powers are not allowed",
        ),
        row("pow.Scalar")
            .types(FLOATS)
            .ulps(2.0)
            .unary(-4.0..4.0, &[number(2.5)], |x| 2.5f64.powf(x))
            .arranged(&[1, 0]),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [reals(), numbers(), questions(), powers()].into_iter().flatten().collect()
}
