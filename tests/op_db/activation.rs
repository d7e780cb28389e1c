//! Activation functions, and the operators of their gradients.

use super::special as f;
use crate::array::Array;
use crate::row::{Arg, FLOATS, NUMBERS, Row, number, row};
use flambeau_core::ErrorKind;
use std::f64::consts::PI;

fn mish_slope(x: f64) -> f64 {
    let t = f::softplus(x).tanh();
    t + x * f::sigmoid(x) * (1.0 - t * t)
}

/// The approximation of the normal distribution's probability.
fn tanh_cdf(x: f64) -> f64 {
    0.5 * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

fn tanh_gelu_slope(x: f64) -> f64 {
    let t = 2.0 * tanh_cdf(x) - 1.0;
    tanh_cdf(x) + 0.5 * x * (1.0 - t * t) * (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x)
}

fn forward() -> Vec<Row> {
    let wide = || -6.0..6.0;
    let smooth = |name, ulps, rest: &[Arg], f: fn(f64) -> f64| {
        row(name).types(FLOATS).ulps(ulps).unary(wide(), rest, f)
    };
    let one = Array::fill(&[3], 0.0..1.0, 0);
    vec![
        row("threshold").ulps(0.0).unary(wide(), &[number(1), number(7)], |x| if x <= 1.0 { 7.0 } else { x }),
        // The argument of erfc is rounded, and its derivative multiplies that by x^2.
        row("gelu")
            .types(FLOATS)
            .ulps(14.0)
            .unary(-3.0..3.0, &["none".into()], |x| x * f::normal_cdf(x))
            .refuses(vec![one.into(), "sigmoid".into()], ErrorKind::InvalidArgument, "none or tanh"),
        row("gelu")
            .types(FLOATS)
            .ulps(4.0)
            .terms(1.0)
            .unary(-3.0..3.0, &["tanh".into()], |x| x * tanh_cdf(x)),
        smooth("silu", 3.0, &[], |x| x * f::sigmoid(x)),
        smooth("mish", 6.0, &[], |x| x * f::softplus(x).tanh()),
        smooth("softplus", 3.0, &[number(2), number(8)], |x| {
            if 2.0 * x > 8.0 { x } else { f::softplus(2.0 * x) / 2.0 }
        }),
        smooth("leaky_relu", 1.0, &[number(0.25)], |x| if x > 0.0 { x } else { 0.25 * x }),
        smooth("elu", 3.0, &[number(1.5), number(2), number(0.5)], |x| {
            if x < 0.0 { 3.0 * (0.5 * x).exp_m1() } else { 2.0 * x }
        }),
        row("hardtanh")
            .types(NUMBERS)
            .ulps(0.0)
            .unary(wide(), &[number(-1), number(2)], |x| x.clamp(-1.0, 2.0)),
        smooth("log_sigmoid", 3.0, &[], |x| -f::softplus(-x)),
        smooth("log_sigmoid_forward", 3.0, &[], f64::abs)
            .reference(|a| vec![a[0].array().map(|x| -f::softplus(-x)), Array::new(&[0], vec![])]),
    ]
}

/// A gradient times a slope, of which the error is measured against 1 where its terms cancel.
fn slope(name: &'static str, rest: &[Arg], slope: impl Fn(f64) -> f64 + Send + Sync + 'static) -> Row {
    let start = row(name).types(FLOATS).ulps(8.0).terms(1.0);
    start.binary([-2.0..2.0, -3.0..3.0], rest, move |g, x| g * slope(x))
}

/// The same where the gradient is passed or set to 0, also if it is NaN.
fn gate(name: &'static str, rest: &[Arg], open: impl Fn(f64) -> bool + Send + Sync + 'static) -> Row {
    let start = row(name).ulps(0.0);
    start.binary([-2.0..2.0, -3.0..3.0], rest, move |g, x| if open(x) { g } else { 0.0 })
}

fn backward() -> Vec<Row> {
    let nothing = || Arg::Constant(Array::new(&[0], vec![]));
    let elu = |is_result: bool, f: fn(f64) -> f64| {
        slope("elu_backward", &[number(1.5), number(2), number(0.5), is_result.into()], f)
            .arranged(&[0, 2, 3, 4, 5, 1])
    };
    let of_result = |name, domain: std::ops::Range<f64>, f: fn(f64) -> f64| {
        row(name).types(FLOATS).ulps(4.0).terms(1.0).binary([-2.0..2.0, domain], &[], move |g, y| g * f(y))
    };
    vec![
        gate("threshold_backward", &[number(1)], |x| x > 1.0).types(NUMBERS),
        gate("hardtanh_backward", &[number(-1), number(2)], |x| x > -1.0 && x < 2.0).types(FLOATS),
        slope("gelu_backward", &["none".into()], |x| f::normal_cdf(x) + x * f::normal_pdf(x)),
        slope("gelu_backward", &["tanh".into()], tanh_gelu_slope),
        slope("silu_backward", &[], |x| f::sigmoid(x) * (1.0 + x * f::sigmoid(-x))),
        slope("mish_backward", &[], mish_slope),
        slope("softplus_backward", &[number(2), number(4)], |x| {
            if 2.0 * x > 4.0 { 1.0 } else { f::sigmoid(2.0 * x) }
        }),
        slope("leaky_relu_backward", &[number(0.25), false.into()], |x| if x > 0.0 { 1.0 } else { 0.25 })
            .refuses(
                vec![Array::scalar(1.0).into(), Array::scalar(1.0).into(), number(-0.25), true.into()],
                ErrorKind::InvalidArgument,
                "negative slope",
            ),
        elu(false, |x| if x <= 0.0 { 1.5 * (0.5 * x).exp() } else { 2.0 }),
        elu(true, |x| if x <= 0.0 { 0.5 * (x + 3.0) } else { 2.0 }),
        slope("log_sigmoid_backward", &[nothing()], |x| f::sigmoid(-x)),
        of_result("sigmoid_backward", 0.05..0.95, |y| y * (1.0 - y)),
        of_result("tanh_backward", -0.95..0.95, |y| 1.0 - y * y),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [forward(), backward()].into_iter().flatten().collect()
}
