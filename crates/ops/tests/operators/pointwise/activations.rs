//! Activations and their gradients.

use super::harness::{Row, call, close, numbers, row, tensor};
use super::reference as f;
use flambeau_core::{ErrorKind, Scalar, ScalarType};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

const REALS: &[f64] = &[0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.5, 0.125, -4.0, 6.0, 30.0, f64::NAN];

fn number(x: f64) -> Value {
    Value::Scalar(Scalar::Float(x))
}

fn check(rows: impl IntoIterator<Item = Row>) {
    rows.into_iter().for_each(|r| r.on(REALS).check());
}

fn mish_slope(x: f64) -> f64 {
    let t = f::softplus(x).tanh();
    t + x * f::sigmoid(x) * (1.0 - t * t)
}

fn tanh_gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

#[test]
fn activations() {
    let two = |a: f64, b: f64| move || vec![number(a), number(b)];
    check([
        row("relu", 1, 0.0, |x| if x[0] < 0.0 { 0.0 } else { x[0] }).siblings("relu_", ""),
        row("threshold", 1, 0.0, |x| if x[0] <= 0.5 { -3.0 } else { x[0] })
            .then(two(0.5, -3.0))
            .siblings("threshold_", "threshold.out"),
        row("gelu", 1, 16.0, |x| x[0] * f::normal_cdf(x[0]))
            .then(|| vec![Value::from("none")])
            .siblings("gelu_", "gelu.out"),
        row("silu", 1, 3.0, |x| x[0] * f::sigmoid(x[0])).siblings("silu_", "silu.out"),
        row("mish", 1, 8.0, |x| x[0] * f::softplus(x[0]).tanh()).siblings("mish_", "mish.out"),
        row("softplus", 1, 3.0, |x| if x[0] * 2.0 > 20.0 { x[0] } else { f::softplus(2.0 * x[0]) / 2.0 })
            .then(two(2.0, 20.0))
            .siblings("", "softplus.out"),
        row("leaky_relu", 1, 0.5, |x| if x[0] > 0.0 { x[0] } else { 0.25 * x[0] })
            .then(|| vec![number(0.25)])
            .siblings("leaky_relu_", "leaky_relu.out"),
        row("elu", 1, 3.0, |x| if x[0] < 0.0 { 3.0 * (0.5 * x[0]).exp_m1() } else { 2.0 * x[0] })
            .then(|| vec![number(1.5), number(2.0), number(0.5)])
            .siblings("elu_", "elu.out"),
        row("hardtanh", 1, 0.0, |x| {
            if x[0] < -1.0 {
                -1.0
            } else if x[0] > 2.0 {
                2.0
            } else {
                x[0]
            }
        })
        .then(two(-1.0, 2.0))
        .siblings("hardtanh_", "hardtanh.out"),
        row("log_sigmoid", 1, 3.0, |x| -f::softplus(-x[0])),
    ]);
}

#[test]
fn gradients_of_activations() {
    check([
        row("threshold_backward", 2, 0.0, |x| if x[1] <= 0.5 { 0.0 } else { x[0] })
            .then(|| vec![number(0.5)]),
        row("silu_backward", 2, 8.0, |x| {
            f::chain(x[0], f::sigmoid(x[1]) + x[1] * f::sigmoid(x[1]) * f::sigmoid(-x[1]))
        }),
        row("softplus_backward", 2, 4.0, |x| {
            if x[1] * 2.0 > 20.0 { x[0] } else { f::chain(x[0], f::sigmoid(2.0 * x[1])) }
        })
        .then(|| vec![number(2.0), number(20.0)]),
        row("leaky_relu_backward", 2, 0.5, |x| if x[1] > 0.0 { x[0] } else { 0.25 * x[0] })
            .then(|| vec![number(0.25), Value::Bool(false)]),
        row("sigmoid_backward", 2, 2.0, |x| f::chain(x[0], (1.0 - x[1]) * x[1])),
        row("tanh_backward", 2, 2.0, |x| f::chain(x[0], 1.0 - x[1] * x[1])),
        row("hardtanh_backward", 2, 0.0, |x| if x[1] <= -1.0 || x[1] >= 2.0 { 0.0 } else { x[0] })
            .then(|| vec![number(-1.0), number(2.0)]),
        row("log_sigmoid_backward", 2, 4.0, |x| f::chain(x[0], f::sigmoid(-x[1])))
            .with(|t| vec![Value::from(&t[0]), Value::from(&t[1]), Value::from(&t[1])]),
        row("elu_backward", 2, 3.0, |x| {
            f::chain(x[0], if x[1] <= 0.0 { 1.5 * (0.5 * x[1]).exp() } else { 2.0 })
        })
        .with(|t| elu(t, false)),
        row("elu_backward", 2, 3.0, |x| f::chain(x[0], if x[1] <= 0.0 { 0.5 * (x[1] + 3.0) } else { 2.0 }))
            .with(|t| elu(t, true)),
    ]);
}

fn elu(t: &[Tensor], is_result: bool) -> Vec<Value> {
    vec![
        Value::from(&t[0]),
        number(1.5),
        number(2.0),
        number(0.5),
        Value::Bool(is_result),
        Value::from(&t[1]),
    ]
}

/// Formulas that cancel near a zero of theirs: the error is measured against the size of the terms.
#[test]
fn gradients_with_cancellation() {
    type Case = (&'static str, Vec<Value>, fn(f64) -> f64);
    let cases: [Case; 5] = [
        ("mish_backward", vec![], mish_slope),
        ("gelu_backward", vec![Value::from("none")], |x| f::normal_cdf(x) + x * f::normal_pdf(x)),
        ("gelu_backward", vec![Value::from("tanh")], |x| (tanh_gelu(x + 1e-6) - tanh_gelu(x - 1e-6)) / 2e-6),
        ("silu_backward", vec![], |x| f::sigmoid(x) * (1.0 + x * f::sigmoid(-x))),
        ("gelu", vec![Value::from("tanh")], tanh_gelu),
    ];
    let x: Vec<f64> = (-80..=80).map(|i| f64::from(i) / 16.0).collect();
    for (name, extra, reference) in cases {
        for dtype in [ScalarType::F32, ScalarType::F64] {
            let x = tensor(&x, &[161], dtype);
            let ones = x.mul_scalar(0).unwrap().add_scalar(1).unwrap();
            let mut arguments = if name == "gelu" { vec![] } else { vec![Value::from(&ones)] };
            arguments.push(Value::from(&x));
            arguments.extend(extra.clone());
            let got = numbers(&call(name, arguments).unwrap());
            let tolerance = if dtype == ScalarType::F32 { 1e-6 } else { 1e-9 };
            for (x, got) in numbers(&x).into_iter().zip(got) {
                let expected = reference(x);
                assert!(
                    (got - expected).abs() <= tolerance,
                    "{name} {extra:?} of {x}: {got} and not {expected}"
                );
            }
        }
    }
}

#[test]
fn gelu_keeps_its_digits_far_below_zero() {
    let x = [-3.0f32, -5.0, -8.0, -12.0];
    let got: Vec<f32> = ops::gelu(&Tensor::from(x), "none").unwrap().to_vec().unwrap();
    for (x, got) in x.into_iter().zip(got) {
        let x = f64::from(x);
        let expected = x * f::normal_cdf(x);
        // The argument of erfc is rounded, and its derivative multiplies that by x^2.
        assert!(
            close(f64::from(got), expected, ScalarType::F32, 4.0 + x * x),
            "{x}: {got:e} and not {expected:e}"
        );
    }
}

#[test]
fn integers_and_bool_are_refused_or_kept() {
    let (i, b) = (Tensor::from([3i64, -2]), Tensor::from([true, false]));
    assert_eq!(i.relu().unwrap().to_vec::<i64>().unwrap(), [3, 0]);
    assert_eq!(
        ops::hardtanh(&i, Scalar::Float(-1.0), Scalar::Float(1.0)).unwrap().to_vec::<i64>().unwrap(),
        [1, -1]
    );
    assert_eq!(
        ops::threshold(&i, Scalar::Float(1.5), Scalar::Float(7.5)).unwrap().to_vec::<i64>().unwrap(),
        [3, 7]
    );
    let one = Scalar::Int(1);
    let kinds = [
        b.relu(),
        ops::hardtanh(&b, Scalar::Float(-1.0), Scalar::Float(1.0)),
        ops::gelu(&i, "none"),
        ops::silu(&i),
        ops::elu(&i, one, one, one),
        ops::mish(&i),
        ops::log_sigmoid(&i),
        ops::softplus(&i, one, one),
    ];
    for result in kinds {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NotImplemented);
    }
    let x = Tensor::from([1.0f32]);
    let wrong = call("gelu", vec![Value::from(&x), Value::from("sigmoid")]).unwrap_err();
    assert!(wrong.message().contains("approximate argument must be either none or tanh"), "{wrong}");
}
