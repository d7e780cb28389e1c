//! Derivatives of the pointwise operators, to second order, against central differences.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::{Autograd, gradcheck, gradgradcheck};
use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

type Case = (&'static str, usize, fn(&[Tensor]) -> Result<Tensor>);

/// Numbers away from zero, from ties and from the kinks of the operators below.
const MIXED: [&[f64]; 3] = [
    &[0.35, -0.62, 1.7, -1.25, 0.81, -2.4],
    &[-0.55, 1.15, 0.28, -0.9, 2.1, 1.6],
    &[0.7, 0.3, -0.45, 1.35, -1.8, 0.15],
];
const POSITIVE: [&[f64]; 3] = [
    &[0.35, 0.62, 1.7, 1.25, 0.81, 2.4],
    &[0.55, 1.15, 0.28, 0.9, 2.1, 1.6],
    &[0.7, 0.3, 0.45, 1.35, 1.8, 0.15],
];
/// Between -1 and 1.
const SMALL: [&[f64]; 3] = [&[0.35, -0.62, 0.7, -0.25, 0.81, -0.4], POSITIVE[1], POSITIVE[2]];

fn check(values: [&[f64]; 3], cases: &[Case]) {
    let failed: Vec<String> = cases.iter().filter_map(|case| fault(values, case)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The first input is 2 x 3 and the others broadcast to it.
fn fault(values: [&[f64]; 3], (name, count, f): &Case) -> Option<String> {
    let sizes: [&[i64]; 3] = [&[2, 3], &[2, 1], &[3]];
    let make = |i: usize| {
        let n = sizes[i].iter().product::<i64>() as usize;
        let t = Tensor::from_vec(values[i][..n].to_vec(), sizes[i]).unwrap();
        t.requires_grad_(true).unwrap();
        t
    };
    let inputs: Vec<Tensor> = (0..*count).map(make).collect();
    let g = |x: &[Tensor]| Ok(vec![f(x)?]);
    let first = gradcheck(g, &inputs).err().map(|e| format!("{name}: {e}"));
    first.or_else(|| gradgradcheck(g, &inputs).err().map(|e| format!("{name}, second order: {e}")))
}

fn s(x: f64) -> Scalar {
    Scalar::Float(x)
}

#[test]
fn functions_of_any_number() {
    check(
        MIXED,
        &[
            ("neg", 1, |x| ops::neg(&x[0])),
            ("abs", 1, |x| ops::abs(&x[0])),
            ("exp", 1, |x| ops::exp(&x[0])),
            ("exp2", 1, |x| ops::exp2(&x[0])),
            ("expm1", 1, |x| ops::expm1(&x[0])),
            ("reciprocal", 1, |x| ops::reciprocal(&x[0])),
            ("square", 1, |x| ops::square(&x[0])),
            ("sin", 1, |x| ops::sin(&x[0])),
            ("cos", 1, |x| ops::cos(&x[0])),
            ("tan", 1, |x| ops::tan(&x[0])),
            ("atan", 1, |x| ops::atan(&x[0])),
            ("sinh", 1, |x| ops::sinh(&x[0])),
            ("cosh", 1, |x| ops::cosh(&x[0])),
            ("tanh", 1, |x| ops::tanh(&x[0])),
            ("sigmoid", 1, |x| ops::sigmoid(&x[0])),
            ("erf", 1, |x| ops::erf(&x[0])),
            ("erfc", 1, |x| ops::erfc(&x[0])),
            ("frac", 1, |x| ops::frac(&x[0])),
            ("floor", 1, |x| ops::floor(&x[0])),
            ("sign", 1, |x| ops::sign(&x[0])),
            ("pow 3", 1, |x| ops::pow_tensor_scalar(&x[0], s(3.0))),
            ("pow 0", 1, |x| ops::pow_tensor_scalar(&x[0], s(0.0))),
            ("2 to the power", 1, |x| ops::pow_scalar(s(2.0), &x[0])),
            ("add_scalar", 1, |x| ops::add_scalar(&x[0], s(1.5), s(2.0))),
            ("sub_scalar", 1, |x| ops::sub_scalar(&x[0], s(1.5), s(2.0))),
            ("rsub_scalar", 1, |x| ops::rsub_scalar(&x[0], s(1.5), s(2.0))),
            ("mul_scalar", 1, |x| ops::mul_scalar(&x[0], s(1.5))),
            ("div_scalar", 1, |x| ops::div_scalar(&x[0], s(1.5))),
            ("remainder_scalar", 1, |x| ops::remainder_scalar(&x[0], s(0.5))),
            ("remainder of a number", 1, |x| ops::remainder_scalar_tensor(s(2.0), &x[0])),
            ("fmod_scalar", 1, |x| ops::fmod_scalar(&x[0], s(0.5))),
            ("copysign_scalar", 1, |x| ops::copysign_scalar(&x[0], s(-1.0))),
            ("clamp", 1, |x| ops::clamp(&x[0], Some(s(-1.0)), Some(s(1.0)))),
            ("clamp from above", 1, |x| ops::clamp(&x[0], None, Some(s(1.0)))),
            ("clamp_min", 1, |x| ops::clamp_min(&x[0], s(-1.0))),
            ("clamp_max", 1, |x| ops::clamp_max(&x[0], s(1.0))),
            ("tril", 1, |x| ops::tril(&x[0], 0)),
            ("triu", 1, |x| ops::triu(&x[0], 1)),
        ],
    );
}

#[test]
fn functions_with_a_domain() {
    check(
        POSITIVE,
        &[
            ("log", 1, |x| ops::log(&x[0])),
            ("log1p", 1, |x| ops::log1p(&x[0])),
            ("log2", 1, |x| ops::log2(&x[0])),
            ("log10", 1, |x| ops::log10(&x[0])),
            ("sqrt", 1, |x| ops::sqrt(&x[0])),
            ("rsqrt", 1, |x| ops::rsqrt(&x[0])),
            ("pow 2.5", 1, |x| ops::pow_tensor_scalar(&x[0], s(2.5))),
            ("pow", 2, |x| ops::pow_tensor_tensor(&x[0], &x[1])),
            ("addcdiv", 3, |x| ops::addcdiv(&x[0], &x[1], &x[2], s(0.5))),
            ("div", 2, |x| ops::div_tensor(&x[0], &x[1])),
            ("hypot", 2, |x| ops::hypot(&x[0], &x[1])),
        ],
    );
    check(SMALL, &[("asin", 1, |x| ops::asin(&x[0])), ("acos", 1, |x| ops::acos(&x[0]))]);
}

#[test]
fn functions_of_several_numbers() {
    check(
        MIXED,
        &[
            ("add", 2, |x| ops::add_tensor(&x[0], &x[1], s(1.5))),
            ("sub", 2, |x| ops::sub_tensor(&x[0], &x[1], s(1.5))),
            ("rsub", 2, |x| ops::rsub_tensor(&x[0], &x[1], s(1.5))),
            ("mul", 2, |x| ops::mul_tensor(&x[0], &x[1])),
            ("div floor", 2, |x| ops::div_tensor_mode(&x[0], &x[1], Some("floor"))),
            ("div None", 2, |x| ops::div_tensor_mode(&x[0], &x[1], None)),
            ("maximum", 2, |x| ops::maximum(&x[0], &x[1])),
            ("minimum", 2, |x| ops::minimum(&x[0], &x[1])),
            ("fmax", 2, |x| ops::fmax(&x[0], &x[1])),
            ("fmin", 2, |x| ops::fmin(&x[0], &x[1])),
            ("atan2", 2, |x| ops::atan2(&x[0], &x[1])),
            ("remainder", 2, |x| ops::remainder_tensor(&x[0], &x[1])),
            ("fmod", 2, |x| ops::fmod_tensor(&x[0], &x[1])),
            ("copysign", 2, |x| ops::copysign_tensor(&x[0], &x[1])),
            ("addcmul", 3, |x| ops::addcmul(&x[0], &x[1], &x[2], s(0.5))),
            ("lerp", 3, |x| ops::lerp_tensor(&x[0], &ops::expand(&x[1], &[2, 3], false)?, &x[2])),
            ("lerp_scalar", 2, |x| ops::lerp_scalar(&x[0], &x[1], s(0.3))),
            ("clamp_tensor", 3, |x| ops::clamp_tensor(&x[0], Some(&x[1]), Some(&x[2]))),
            ("clamp_tensor from below", 2, |x| ops::clamp_tensor(&x[0], Some(&x[1]), None)),
            ("clamp_min_tensor", 2, |x| ops::clamp_min_tensor(&x[0], &x[1])),
            ("clamp_max_tensor", 2, |x| ops::clamp_max_tensor(&x[0], &x[1])),
            ("where", 2, |x| ops::where_self(&ops::gt_scalar(&x[0].detach()?, s(0.5))?, &x[0], &x[1])),
            ("masked_fill", 1, |x| {
                ops::masked_fill_scalar(&x[0], &ops::gt_scalar(&x[0].detach()?, s(0.5))?, s(2.0))
            }),
        ],
    );
}

#[test]
fn activations() {
    check(
        MIXED,
        &[
            ("relu", 1, |x| ops::relu(&x[0])),
            ("threshold", 1, |x| ops::threshold(&x[0], s(0.5), s(-3.0))),
            ("gelu", 1, |x| ops::gelu(&x[0], "none")),
            ("gelu tanh", 1, |x| ops::gelu(&x[0], "tanh")),
            ("silu", 1, |x| ops::silu(&x[0])),
            ("mish", 1, |x| ops::mish(&x[0])),
            ("softplus", 1, |x| ops::softplus(&x[0], s(2.0), s(3.0))),
            ("leaky_relu", 1, |x| ops::leaky_relu(&x[0], s(0.25))),
            ("elu", 1, |x| ops::elu(&x[0], s(1.5), s(2.0), s(0.5))),
            ("hardtanh", 1, |x| ops::hardtanh(&x[0], s(-1.0), s(1.0))),
            ("log_sigmoid", 1, |x| ops::log_sigmoid(&x[0])),
        ],
    );
}

/// Of ones, dropout gives the factors themselves, and so they are its gradient.
#[test]
fn dropout_passes_gradients_where_elements_stay() {
    for (train, p) in [(true, 0.5), (true, 1.0), (false, 0.5)] {
        let x = Tensor::from_vec(vec![1.0f64; 40], &[40]).unwrap();
        x.requires_grad_(true).unwrap();
        let (y, _) = ops::native_dropout(&x, p, Some(train)).unwrap();
        let ones = Tensor::from_vec(vec![1.0f64; 40], &[40]).unwrap();
        let grads =
            flambeau_autograd::grad(std::slice::from_ref(&y), &[x], &[Some(ones)], None, false, false)
                .unwrap();
        let gradient = grads[0].as_ref().unwrap().to_vec::<f64>().unwrap();
        assert_eq!(gradient, y.detach().unwrap().to_vec::<f64>().unwrap(), "{train} {p}");
    }
}

/// Results are those of PyTorch 2.15.
#[test]
fn the_gradient_of_clamp_between_numbers_is_0_at_the_limits() {
    let gradient = |min: Option<f64>, max: Option<f64>| {
        let x = Tensor::from([1.0f64, -1.0, 0.5, 2.0, -2.0, f64::NAN]);
        x.requires_grad_(true).unwrap();
        let y = ops::clamp(&x, min.map(Scalar::Float), max.map(Scalar::Float)).unwrap();
        let ones = Tensor::from([1.0f64; 6]);
        let grads = flambeau_autograd::grad(&[y], &[x], &[Some(ones)], None, false, false).unwrap();
        grads[0].as_ref().unwrap().to_vec::<f64>().unwrap()
    };
    assert_eq!(gradient(Some(-1.0), Some(1.0)), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(gradient(Some(-1.0), None), [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(gradient(None, Some(1.0)), [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(gradient(Some(1.0), Some(-1.0)), [0.0; 6]);
    assert_eq!(gradient(Some(f64::NAN), Some(1.0)), [0.0; 6]);
}
