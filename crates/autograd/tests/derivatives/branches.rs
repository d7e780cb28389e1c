//! A branch that was not taken does not affect a gradient, even if its derivative is infinite or NaN.

use super::{of, s, values};
use flambeau_autograd::grad;
use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

type Operator = fn(&Tensor) -> Result<Tensor>;
type Case = (&'static str, Operator, fn(f64) -> f64);

/// Functions with a bad derivative, or none, at one of the numbers below; and the derivative at the good one, 0.5.
const CASES: &[Case] = &[
    ("sqrt", ops::sqrt, |x| 0.5 / x.sqrt()),
    ("rsqrt", ops::rsqrt, |x| -0.5 * x.powf(-1.5)),
    ("reciprocal", ops::reciprocal, |x| -1.0 / (x * x)),
    ("log", ops::log, |x| 1.0 / x),
    ("log2", ops::log2, |x| 1.0 / (x * 2f64.ln())),
    ("log10", ops::log10, |x| 1.0 / (x * 10f64.ln())),
    ("log1p", ops::log1p, |x| 1.0 / (x + 1.0)),
    ("exp", ops::exp, f64::exp),
    ("exp2", ops::exp2, |x| x.exp2() * 2f64.ln()),
    ("expm1", ops::expm1, f64::exp),
    ("sin", ops::sin, f64::cos),
    ("cos", ops::cos, |x| -x.sin()),
    ("tan", ops::tan, |x| 1.0 + x.tan() * x.tan()),
    ("asin", ops::asin, |x| 1.0 / (1.0 - x * x).sqrt()),
    ("acos", ops::acos, |x| -1.0 / (1.0 - x * x).sqrt()),
    ("sinh", ops::sinh, f64::cosh),
    ("cosh", ops::cosh, f64::sinh),
    ("square", ops::square, |x| 2.0 * x),
    ("pow 0.5", |x| ops::pow_tensor_scalar(x, s(0.5)), |x| 0.5 / x.sqrt()),
    ("x^x", |x| ops::pow_tensor_tensor(x, x), |x| x.powf(x) * (x.ln() + 1.0)),
    ("x log x", |x| ops::mul_tensor(x, &ops::log(x)?), |x| x.ln() + 1.0),
    ("sin x / x", |x| ops::div_tensor(&ops::sin(x)?, x), |x| (x * x.cos() - x.sin()) / (x * x)),
    ("2 / x", |x| ops::mul_scalar(&ops::reciprocal(x)?, Scalar::Int(2)), |x| -2.0 / (x * x)),
    ("hypot", |x| ops::hypot(x, x), |_| 2f64.sqrt()),
    ("atan2", |x| ops::atan2(x, x), |_| 0.0),
];

/// Functions whose derivatives have kernels of their own.
const ACTIVATIONS: &[(&str, Operator)] = &[
    ("tanh", ops::tanh),
    ("sigmoid", ops::sigmoid),
    ("relu", ops::relu),
    ("gelu", |x| ops::gelu(x, "none")),
    ("gelu tanh", |x| ops::gelu(x, "tanh")),
    ("silu", ops::silu),
    ("mish", ops::mish),
    ("softplus", |x| ops::softplus(x, s(1.0), s(20.0))),
    ("leaky_relu", |x| ops::leaky_relu(x, s(0.1))),
    ("elu", |x| ops::elu(x, s(1.0), s(1.0), s(1.0))),
    ("hardtanh", |x| ops::hardtanh(x, s(-1.0), s(1.0))),
    ("log_sigmoid", ops::log_sigmoid),
    ("mse", |x| ops::mse_loss(x, &like(x, 2.0)?, 0)),
    ("smooth_l1", |x| ops::smooth_l1_loss(x, &like(x, 2.0)?, 0, 1.0)),
    ("huber", |x| ops::huber_loss(x, &like(x, 2.0)?, 0, 1.0)),
    ("bce with logits", |x| ops::binary_cross_entropy_with_logits(x, &like(x, 0.5)?, None, None, 0)),
    ("kl_div", |x| ops::kl_div(&like(x, 0.5)?, x, 0, true)),
];

fn like(x: &Tensor, value: f64) -> Result<Tensor> {
    ops::full_like(x, s(value), None, None, None, None, None)?.detach()
}

const BAD: [f64; 7] = [0.0, -0.0, -1.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

fn chosen(f: Operator, x: &Tensor, taken: &Tensor) -> Tensor {
    ops::where_scalarother(taken, &f(x).unwrap(), s(7.0)).unwrap()
}

#[test]
fn no_branch_poisons_the_other() {
    for (name, f, slope) in CASES {
        for bad in BAD {
            let x = of(vec![0.5, bad], &[2]);
            let taken = super::to_bool(&super::ix(&[1, 0], &[2]));
            let y = ops::sum(&chosen(*f, &x, &taken), None).unwrap();
            let first =
                grad(&[y], std::slice::from_ref(&x), &[], None, true, false).unwrap()[0].clone().unwrap();
            let found = values(&first);
            assert!((found[0] - slope(0.5)).abs() < 1e-14 * (1.0 + slope(0.5).abs()), "{name}: {found:?}");
            assert_eq!(found[1], 0.0, "{name} at {bad}");
            let total = ops::sum(&first, None).unwrap();
            let second = grad(&[total], std::slice::from_ref(&x), &[], None, false, true).unwrap()[0].clone();
            let second = second.map_or(vec![0.0; 2], |second| values(&second));
            assert!(second[0].is_finite(), "{name}, twice: {second:?}");
            assert_eq!(second[1], 0.0, "{name} at {bad}, twice");
        }
    }
}

#[test]
fn nor_does_an_activation_or_a_loss() {
    let taken = super::to_bool(&super::ix(&[1, 0], &[2]));
    for (name, f) in ACTIVATIONS {
        for bad in BAD {
            let x = of(vec![0.4, bad], &[2]);
            let y = ops::sum(&chosen(*f, &x, &taken), None).unwrap();
            let first =
                grad(&[y], std::slice::from_ref(&x), &[], None, true, false).unwrap()[0].clone().unwrap();
            let found = values(&first);
            assert!(found[0].is_finite() && found[1] == 0.0, "{name} at {bad}: {found:?}");
            let total = ops::sum(&first, None).unwrap();
            let second = grad(&[total], std::slice::from_ref(&x), &[], None, false, true).unwrap()[0].clone();
            let second = second.map_or(vec![0.0; 2], |second| values(&second));
            assert!(second[0].is_finite() && second[1] == 0.0, "{name} at {bad}, twice: {second:?}");
        }
    }
}

/// The derivative of a branch that was taken is passed on, even if it is infinite or NaN.
#[test]
fn a_taken_branch_shows_its_derivative() {
    let x = of(vec![0.0, f64::NAN], &[2]);
    let y = ops::sum(&ops::sqrt(&x).unwrap(), None).unwrap();
    let found = grad(&[y], &[x], &[], None, false, false).unwrap();
    let found = values(found[0].as_ref().unwrap());
    assert!(found[0] == f64::INFINITY && found[1].is_nan(), "{found:?}");
}

/// A NaN that arrives stays, and so do signs of zero.
#[test]
fn what_arrives_is_kept() {
    let grads = of(vec![f64::NAN, -0.0, 0.0, 2.0], &[4]);
    let slopes = of(vec![0.0, f64::INFINITY, f64::NAN, 3.0], &[4]);
    let bits = |t: Tensor| values(&t).iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let product = bits(ops::_chain(&grads, &slopes).unwrap());
    let quotient = bits(ops::_chain_div(&grads, &slopes).unwrap());
    assert!(f64::from_bits(product[0]).is_nan() && f64::from_bits(quotient[0]).is_nan());
    assert_eq!(product[1..], [-0.0f64, 0.0, 6.0].map(f64::to_bits));
    assert_eq!(quotient[1..], [-0.0f64, 0.0, 2.0 / 3.0].map(f64::to_bits));
}
