//! Derivatives: gradients are dL/dRe + i dL/dIm, and are compared with differences along both parts, first and second, backward and forward.

use crate::{c, draw, numbers, reals, tensor};
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_autograd::{Autograd, grad_mode};
use flambeau_core::{Scalar, ScalarType};
use flambeau_ops::{Result, Tensor, ops};

type Function = fn(&[Tensor]) -> Result<Tensor>;

const ONE: Scalar = Scalar::Int(1);

/// Functions of one complex tensor of sizes 2 x 3.
const UNARY: &[(&str, Function)] = &[
    ("neg", |x| ops::neg(&x[0])),
    ("conj", |x| ops::conj(&x[0])),
    ("abs", |x| ops::abs(&x[0])),
    ("angle", |x| ops::angle(&x[0])),
    ("sgn", |x| ops::sgn(&x[0])),
    ("real", |x| ops::real(&x[0])),
    ("imag", |x| ops::imag(&x[0])),
    ("view_as_real", |x| ops::view_as_real(&x[0])),
    ("exp", |x| ops::exp(&x[0])),
    ("exp2", |x| ops::exp2(&x[0])),
    ("expm1", |x| ops::expm1(&x[0])),
    ("log", |x| ops::log(&x[0])),
    ("log2", |x| ops::log2(&x[0])),
    ("log10", |x| ops::log10(&x[0])),
    ("log1p", |x| ops::log1p(&x[0])),
    ("sqrt", |x| ops::sqrt(&x[0])),
    ("rsqrt", |x| ops::rsqrt(&x[0])),
    ("reciprocal", |x| ops::reciprocal(&x[0])),
    ("square", |x| ops::square(&x[0])),
    ("sin", |x| ops::sin(&x[0])),
    ("cos", |x| ops::cos(&x[0])),
    ("tan", |x| ops::tan(&x[0])),
    ("sinh", |x| ops::sinh(&x[0])),
    ("cosh", |x| ops::cosh(&x[0])),
    ("tanh", |x| ops::tanh(&x[0])),
    ("asin", |x| ops::asin(&x[0])),
    ("acos", |x| ops::acos(&x[0])),
    ("atan", |x| ops::atan(&x[0])),
    ("asinh", |x| ops::asinh(&x[0])),
    ("acosh", |x| ops::acosh(&x[0])),
    ("atanh", |x| ops::atanh(&x[0])),
    ("sigmoid", |x| ops::sigmoid(&x[0])),
    ("pow with a number", |x| ops::pow_tensor_scalar(&x[0], Scalar::Complex(1.5, -0.5))),
    ("pow of a number", |x| ops::pow_scalar(Scalar::Complex(1.5, -0.5), &x[0])),
    ("pow with an imaginary number", |x| ops::pow_tensor_scalar(&x[0], Scalar::Complex(0.0, 2.0))),
    ("pow of an imaginary number", |x| ops::pow_scalar(Scalar::Complex(0.0, 2.0), &x[0])),
    ("mul with a number", |x| ops::mul_scalar(&x[0], Scalar::Complex(1.5, -0.5))),
    ("div by a number", |x| ops::div_scalar(&x[0], Scalar::Complex(1.5, -0.5))),
    ("sum", |x| ops::sum(&x[0], None)),
    ("sum of rows", |x| ops::sum_dim_intlist(&x[0], Some(&[1]), true, None)),
    ("mean", |x| ops::mean(&x[0], None)),
    ("prod", |x| ops::prod_dim_int(&x[0], 1, false, None)),
    ("cumsum", |x| ops::cumsum(&x[0], 1, None)),
    ("cumprod", |x| ops::cumprod(&x[0], 1, None)),
    ("var", |x| ops::var(&x[0], true)),
    ("std", |x| ops::std(&x[0], true)),
    ("norm", |x| ops::linalg_vector_norm(&x[0], Scalar::Int(2), None, false, None)),
    ("norm of order 3", |x| ops::linalg_vector_norm(&x[0], Scalar::Int(3), Some(&[0]), false, None)),
    ("adjoint", |x| ops::adjoint(&x[0])),
    ("index_select", |x| ops::index_select(&x[0], 1, &Tensor::from([2i64, 0, 2]))),
    ("to real", |x| ops::to_dtype(&x[0], ScalarType::F64, false, false, None)),
];

/// Functions of two complex tensors of sizes 2 x 3.
const BINARY: &[(&str, Function)] = &[
    ("add", |x| ops::add_tensor(&x[0], &x[1], Scalar::Complex(0.5, 2.0))),
    ("sub", |x| ops::sub_tensor(&x[0], &x[1], Scalar::Complex(0.5, 2.0))),
    ("mul", |x| ops::mul_tensor(&x[0], &x[1])),
    ("div", |x| ops::div_tensor(&x[0], &x[1])),
    ("pow", |x| ops::pow_tensor_tensor(&x[0], &x[1])),
    ("addcmul", |x| ops::addcmul(&x[0], &x[0], &x[1], Scalar::Int(2))),
    ("mm", |x| ops::mm(&x[0], &ops::t(&x[1])?)),
    ("addmm", |x| {
        ops::addmm(
            &ops::mm(&x[0], &ops::adjoint(&x[0])?)?,
            &x[0],
            &ops::t(&x[1])?,
            Scalar::Complex(0.5, 1.0),
            Scalar::Complex(1.0, -0.5),
        )
    }),
    ("bmm", |x| ops::bmm(&ops::unsqueeze(&x[0], 0)?, &ops::unsqueeze(&ops::t(&x[1])?, 0)?)),
    ("mv", |x| ops::mv(&x[0], &ops::select_int(&x[1], 0, 0)?)),
    ("dot", |x| ops::dot(&ops::select_int(&x[0], 0, 0)?, &ops::select_int(&x[1], 0, 1)?)),
    ("vdot", |x| ops::vdot(&ops::select_int(&x[0], 0, 0)?, &ops::select_int(&x[1], 0, 1)?)),
    ("where", |x| ops::where_self(&Tensor::from([true, false, true]), &x[0], &x[1])),
    ("cat", |x| ops::cat(&[x[0].clone(), x[1].clone()], 0)),
    ("real times complex", |x| ops::mul_tensor(&ops::real(&x[0])?, &x[1])),
];

fn variable(seed: u64) -> Tensor {
    let x = tensor(&draw(6, seed), &[2, 3], ScalarType::Complex128);
    x.requires_grad_(true).unwrap();
    x
}

fn real_variable(seed: u64) -> Tensor {
    let values = draw(6, seed).iter().map(|z| z.re.abs() + 0.2).collect::<Vec<f64>>();
    let x = Tensor::from_vec(values, &[2, 3]).unwrap();
    x.requires_grad_(true).unwrap();
    x
}

fn check(name: &str, f: Function, inputs: &[Tensor]) {
    let all = GradCheck { check_forward_ad: true, ..GradCheck::default() };
    let f = |x: &[Tensor]| Ok(vec![f(x)?]);
    all.check(f, inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    all.check_twice(f, inputs).unwrap_or_else(|e| panic!("{name}, twice: {e}"));
}

#[test]
fn derivatives_of_one_argument_are_right() {
    for (n, (name, f)) in UNARY.iter().enumerate() {
        check(name, *f, &[variable(20 + n as u64)]);
    }
}

#[test]
fn derivatives_of_two_arguments_are_right() {
    for (n, (name, f)) in BINARY.iter().enumerate() {
        check(name, *f, &[variable(80 + n as u64), variable(120 + n as u64)]);
    }
}

/// A real argument of a complex result takes the real part of its gradient.
#[test]
fn real_arguments_get_real_gradients() {
    let mixed: &[(&str, Function)] = &[
        ("add", |x| ops::add_tensor(&x[0], &x[1], ONE)),
        ("mul", |x| ops::mul_tensor(&x[0], &x[1])),
        ("div", |x| ops::div_tensor(&x[0], &x[1])),
        ("pow", |x| ops::pow_tensor_tensor(&x[0], &x[1])),
    ];
    for (n, (name, f)) in mixed.iter().enumerate() {
        check(name, *f, &[real_variable(n as u64), variable(n as u64 + 9)]);
    }
    let parts: &[(&str, Function)] = &[
        ("complex", |x| ops::complex(&x[0], &x[1])),
        ("polar", |x| ops::polar(&x[0], &x[1])),
        ("view_as_complex", |x| ops::view_as_complex(&ops::stack(&[x[0].clone(), x[1].clone()], -1)?)),
        ("times i", |x| ops::mul_scalar(&ops::mul_tensor(&x[0], &x[1])?, Scalar::Complex(0.5, 1.0))),
        ("to complex", |x| {
            ops::to_dtype(&ops::mul_tensor(&x[0], &x[1])?, ScalarType::Complex128, false, false, None)
        }),
    ];
    for (n, (name, f)) in parts.iter().enumerate() {
        check(name, *f, &[real_variable(n as u64 + 40), real_variable(n as u64 + 50)]);
    }
}

/// The examples of PyTorch's notes: the gradient of |z|^2 is 2 z, and that of a holomorphic function is conjugated.
#[test]
fn the_convention_is_that_of_pytorch() {
    let z = tensor(&[c(3.0, -4.0)], &[1], ScalarType::Complex64);
    z.requires_grad_(true).unwrap();
    let loss =
        ops::sum(&ops::pow_tensor_scalar(&ops::abs(&z).unwrap(), Scalar::Int(2)).unwrap(), None).unwrap();
    loss.backward().unwrap();
    crate::expect_close(
        "gradient",
        &numbers(&z.grad().unwrap()),
        &[c(6.0, -8.0)],
        ScalarType::Complex64,
        2.0,
    );
    let square = ops::mul_tensor(&z, &z).unwrap();
    let error = ops::sum(&square, None).unwrap().backward().unwrap_err().to_string();
    assert!(
        error.contains("grad can be implicitly created only for real scalar outputs but got complex64"),
        "{error}"
    );
    let real = Tensor::from([2.0f32]);
    real.requires_grad_(true).unwrap();
    let product = ops::mul_scalar(&real, Scalar::Complex(3.0, 5.0)).unwrap();
    ops::sum(&ops::imag(&product).unwrap(), None).unwrap().backward().unwrap();
    assert_eq!(reals(&real.grad().unwrap()), [5.0]);
}

/// At 0 there is no direction: gradients are 0 and not NaN.
#[test]
fn gradients_at_zero_are_zero() {
    for f in [ops::abs, ops::angle] {
        let z = tensor(&[c(0.0, 0.0)], &[1], ScalarType::Complex128);
        z.requires_grad_(true).unwrap();
        ops::sum(&f(&z).unwrap(), None).unwrap().backward().unwrap();
        assert_eq!(numbers(&z.grad().unwrap()), [c(0.0, 0.0)]);
    }
}

/// Writing through a view of a part is seen by the gradient of the whole.
#[test]
fn parts_written_in_place_have_gradients() {
    let x = variable(3);
    let y = ops::mul_scalar(&x, Scalar::Int(2)).unwrap();
    ops::mul__scalar(&ops::imag(&y).unwrap(), Scalar::Int(3)).unwrap();
    ops::sum(&ops::real(&ops::mul_tensor(&y, &ops::conj(&y).unwrap()).unwrap()).unwrap(), None)
        .unwrap()
        .backward()
        .unwrap();
    let expected: Vec<_> = draw(6, 3).iter().map(|z| c(8.0 * z.re, 72.0 * z.im)).collect();
    crate::expect_close("gradient", &numbers(&x.grad().unwrap()), &expected, ScalarType::Complex128, 4.0);
    let _unrecorded = grad_mode::no_grad();
}

/// The logarithm of a negative base is complex where the power is.
#[test]
fn the_exponent_of_a_real_base_below_zero_has_a_gradient() {
    let base = Tensor::from([-2.0f64]);
    let exponent = tensor(&[c(1.0, 1.0)], &[1], ScalarType::Complex128);
    exponent.requires_grad_(true).unwrap();
    ops::real(&ops::pow_tensor_tensor(&base, &exponent).unwrap()).unwrap().sum().unwrap().backward().unwrap();
    let (log, pi) = (2f64.ln(), std::f64::consts::PI);
    let size = (log - pi).exp();
    let power = c(size * (log + pi).cos(), size * (log + pi).sin());
    let expected = c(power.re * log - power.im * pi, -(power.re * pi + power.im * log));
    let found = numbers(&exponent.grad().unwrap())[0];
    assert!((found - expected).re.abs() + (found - expected).im.abs() < 1e-14, "{found} is not {expected}");
}
