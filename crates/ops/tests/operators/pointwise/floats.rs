//! Operators on floating point numbers.

use super::harness::{REALS, Row, call, close, numbers, row, tensor};
use super::reference as f;
use flambeau_core::{Complex, Scalar, ScalarType};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// Moderate numbers, for formulas whose f64 reference loses digits elsewhere.
const MODERATE: &[f64] = &[0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 0.1, -0.3, 3.25, -7.75, 11.0, f64::NAN];
const WITH_INFINITIES: &[f64] =
    &[0.0, -0.0, 1.0, -1.0, 2.5, -0.3, 7.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

fn check(rows: impl IntoIterator<Item = Row>) {
    rows.into_iter().for_each(|r| r.check());
}

/// The greater of two numbers, of two zeros the positive one.
fn greater(a: f64, b: f64) -> f64 {
    if a == b && a.is_sign_negative() || a < b { b } else { a }
}

/// Which of two is a number, or what both give.
fn number(a: f64, b: f64, both: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => both,
    }
}

#[test]
fn functions_of_one_number() {
    type Unary = (&'static str, &'static str, &'static str, f64, fn(&[f64]) -> f64);
    let rows: [Unary; 28] = [
        ("abs", "abs_", "abs.out", 0.0, |x| x[0].abs()),
        ("neg", "neg_", "neg.out", 0.0, |x| -x[0]),
        ("sign", "sign_", "sign.out", 0.0, |x| {
            if x[0] > 0.0 {
                1.0
            } else if x[0] < 0.0 {
                -1.0
            } else {
                0.0
            }
        }),
        ("sgn", "sgn_", "sgn.out", 0.0, |x| {
            if x[0] > 0.0 {
                1.0
            } else if x[0] < 0.0 {
                -1.0
            } else {
                0.0
            }
        }),
        ("exp", "exp_", "exp.out", 1.0, |x| x[0].exp()),
        ("exp2", "exp2_", "exp2.out", 1.0, |x| x[0].exp2()),
        ("expm1", "expm1_", "expm1.out", 1.0, |x| x[0].exp_m1()),
        ("log", "log_", "log.out", 1.0, |x| x[0].ln()),
        ("log1p", "log1p_", "log1p.out", 1.0, |x| x[0].ln_1p()),
        ("log2", "log2_", "log2.out", 1.0, |x| x[0].log2()),
        ("log10", "log10_", "log10.out", 1.0, |x| x[0].log10()),
        ("sqrt", "sqrt_", "sqrt.out", 0.5, |x| x[0].sqrt()),
        ("rsqrt", "rsqrt_", "rsqrt.out", 1.0, |x| 1.0 / x[0].sqrt()),
        ("reciprocal", "reciprocal_", "reciprocal.out", 0.5, |x| 1.0 / x[0]),
        ("square", "square_", "square.out", 0.5, |x| x[0] * x[0]),
        ("sin", "sin_", "sin.out", 1.0, |x| x[0].sin()),
        ("cos", "cos_", "cos.out", 1.0, |x| x[0].cos()),
        ("tan", "tan_", "tan.out", 1.0, |x| x[0].tan()),
        ("asin", "asin_", "asin.out", 1.0, |x| x[0].asin()),
        ("acos", "acos_", "acos.out", 1.0, |x| x[0].acos()),
        ("atan", "atan_", "atan.out", 1.0, |x| x[0].atan()),
        ("sinh", "sinh_", "sinh.out", 2.0, |x| x[0].sinh()),
        ("cosh", "cosh_", "cosh.out", 2.0, |x| x[0].cosh()),
        ("tanh", "tanh_", "tanh.out", 2.0, |x| x[0].tanh()),
        ("sigmoid", "sigmoid_", "sigmoid.out", 2.0, |x| f::sigmoid(x[0])),
        ("floor", "floor_", "floor.out", 0.0, |x| x[0].floor()),
        ("ceil", "ceil_", "ceil.out", 0.0, |x| x[0].ceil()),
        ("trunc", "trunc_", "trunc.out", 0.0, |x| x[0].trunc()),
    ];
    check(
        rows.map(|(name, in_place, out, ulps, reference)| {
            row(name, 1, ulps, reference).siblings(in_place, out)
        }),
    );
    check([
        row("round", 1, 0.0, |x| f::round(x[0])).siblings("round_", "round.out"),
        row("frac", 1, 0.0, |x| x[0] - x[0].trunc()).siblings("frac_", "frac.out"),
        row("erf", 1, 3.0, |x| f::erf(x[0])).siblings("erf_", "erf.out").on(MODERATE),
        row("erfc", 1, 3.0, |x| f::erfc(x[0]))
            .siblings("erfc_", "erfc.out")
            .on(&[0.0, -0.5, -1.5, -7.0, 2.5, 3.25, 4.5]),
    ]);
}

#[test]
fn functions_of_two_numbers() {
    let alpha = || vec![Value::Scalar(Scalar::Float(0.5))];
    check([
        row("add.Tensor", 2, 1.0, |x| x[0] + 0.5 * x[1])
            .then(alpha)
            .siblings("add_.Tensor", "add.out")
            .on(MODERATE),
        row("sub.Tensor", 2, 1.0, |x| x[0] - 0.5 * x[1])
            .then(alpha)
            .siblings("sub_.Tensor", "sub.out")
            .on(MODERATE),
        row("rsub.Tensor", 2, 1.0, |x| x[1] - 0.5 * x[0])
            .then(alpha)
            .siblings("", "rsub.Tensor_out")
            .on(MODERATE),
        row("mul.Tensor", 2, 0.5, |x| x[0] * x[1]).siblings("mul_.Tensor", "mul.out"),
        row("div.Tensor", 2, 0.5, |x| x[0] / x[1]).siblings("div_.Tensor", "div.out"),
        row("true_divide.Tensor", 2, 0.5, |x| x[0] / x[1]).siblings("true_divide_.Tensor", "true_divide.out"),
        row(
            "maximum",
            2,
            0.0,
            |x| {
                if x[0].is_nan() || x[1].is_nan() { f64::NAN } else { greater(x[0], x[1]) }
            },
        )
        .siblings("", "maximum.out"),
        row("minimum", 2, 0.0, |x| {
            if x[0].is_nan() || x[1].is_nan() { f64::NAN } else { -greater(-x[0], -x[1]) }
        })
        .siblings("", "minimum.out"),
        row("fmax", 2, 0.0, |x| number(x[0], x[1], greater(x[0], x[1]))).siblings("", "fmax.out"),
        row("fmin", 2, 0.0, |x| number(x[0], x[1], -greater(-x[0], -x[1]))).siblings("", "fmin.out"),
        row("atan2", 2, 1.5, |x| x[0].atan2(x[1])).siblings("atan2_", "atan2.out"),
        row("hypot", 2, 1.0, |x| x[0].hypot(x[1])).siblings("hypot_", "hypot.out"),
        row("copysign.Tensor", 2, 0.0, |x| if x[1].is_nan() { x[0].abs() } else { x[0].copysign(x[1]) })
            .siblings("copysign_.Tensor", "copysign.out")
            .on(&[0.0, -0.0, 1.5, -2.5, f64::INFINITY, f64::NEG_INFINITY]),
        row("pow.Tensor_Tensor", 2, 1.0, |x| x[0].powf(x[1]))
            .siblings("pow_.Tensor", "pow.Tensor_Tensor_out"),
    ]);
}

#[test]
fn quotients_that_are_rounded() {
    let mode = |mode: &'static str| move || vec![Value::from(mode)];
    check([
        row("div.Tensor_mode", 2, 0.0, |x| (x[0] / x[1]).trunc()).then(mode("trunc")).on(WITH_INFINITIES),
        row("div.Tensor_mode", 2, 0.0, |x| f::floor_divide(x[0], x[1])).then(mode("floor")).on(MODERATE),
        row("floor_divide", 2, 0.0, |x| f::floor_divide(x[0], x[1]))
            .siblings("floor_divide_.Tensor", "floor_divide.out")
            .on(MODERATE),
        row("fmod.Tensor", 2, 0.0, |x| x[0] % x[1]).siblings("fmod_.Tensor", "fmod.Tensor_out"),
        row("remainder.Tensor", 2, 0.5, |x| f::remainder(x[0], x[1]))
            .siblings("remainder_.Tensor", "remainder.Tensor_out"),
    ]);
}

#[test]
fn remainders_are_exact_however_far_the_dividend() {
    let far = [1e30, -1e30, 3.0e7, 16777216.0, 5.5e12, 1e-40, 123456789.0, f64::from(f32::MAX)];
    let by = [3.0, 0.7, 1e-5, 1e-38, 7e10, 1.5, -0.3, 1e-45];
    for dtype in [ScalarType::F32, ScalarType::F64] {
        for b in by {
            let (x, y) = (tensor(&far, &[8], dtype), tensor(&[b; 8], &[8], dtype));
            let (exact, divisor) = (numbers(&x), numbers(&y)[0]);
            let got = numbers(&x.fmod(&y).unwrap());
            let expected: Vec<f64> = exact.iter().map(|a| a % divisor).collect();
            assert_eq!(got, expected, "{dtype} by {b:e}");
        }
    }
}

#[test]
fn lengths_neither_overflow_nor_vanish() {
    let (a, b) = ([3e38f32, 3e-44, 1e20, 6e-39], [1e38f32, 4e-44, 1e-20, 8e-39]);
    let got: Vec<f32> = Tensor::from(a).hypot(&Tensor::from(b)).unwrap().to_vec().unwrap();
    for i in 0..4 {
        let expected = f64::from(a[i]).hypot(f64::from(b[i]));
        assert!(close(f64::from(got[i]), expected, ScalarType::F32, 1.0), "{} {}", a[i], b[i]);
    }
}

#[test]
fn functions_with_a_number() {
    let number = |x: f64| move || vec![Value::Scalar(Scalar::Float(x))];
    let two = |x: f64, y: f64| move || vec![Value::Scalar(Scalar::Float(x)), Value::Scalar(Scalar::Float(y))];
    check([
        row("add.Scalar", 1, 0.5, |x| x[0] + 0.75)
            .then(two(1.5, 0.5))
            .siblings("add_.Scalar", "add.Scalar_out"),
        row("sub.Scalar", 1, 0.5, |x| x[0] - 0.75).then(two(1.5, 0.5)).siblings("sub_.Scalar", ""),
        row("rsub.Scalar", 1, 0.5, |x| 1.5 - 0.5 * x[0]).then(two(1.5, 0.5)),
        row("mul.Scalar", 1, 0.5, |x| x[0] * 1.5).then(number(1.5)).siblings("mul_.Scalar", "mul.Scalar_out"),
        row("div.Scalar", 1, 0.5, |x| x[0] / 1.5).then(number(1.5)).siblings("div_.Scalar", ""),
        row("remainder.Scalar", 1, 0.5, |x| f::remainder(x[0], -1.5))
            .then(number(-1.5))
            .siblings("remainder_.Scalar", ""),
        row("fmod.Scalar", 1, 0.0, |x| x[0] % 1.5).then(number(1.5)).siblings("fmod_.Scalar", ""),
        row("pow.Scalar", 1, 1.0, |x| 2.5f64.powf(x[0]))
            .with(|t| vec![Value::Scalar(Scalar::Float(2.5)), Value::from(&t[0])]),
        row("clamp_min", 1, 0.0, |x| if x[0] < -1.0 { -1.0 } else { x[0] })
            .then(number(-1.0))
            .siblings("clamp_min_", "clamp_min.out"),
        row("clamp_max", 1, 0.0, |x| if x[0] > 2.0 { 2.0 } else { x[0] })
            .then(number(2.0))
            .siblings("clamp_max_", "clamp_max.out"),
        row("clamp", 1, 0.0, |x| {
            if x[0] < -1.0 {
                -1.0
            } else if x[0] > 2.0 {
                2.0
            } else {
                x[0]
            }
        })
        .then(two(-1.0, 2.0))
        .siblings("clamp_", "clamp.out"),
        row("round.decimals", 1, 0.5, |x| f::round(x[0] * 4.0) / 4.0).then(|| vec![Value::Int(0)]).on(&[
            1.0,
            -2.0,
            f64::NAN,
        ]),
    ]);
}

/// Those that are products and roots among them, from where they underflow to where they overflow.
#[test]
fn powers_by_a_number() {
    let special = [0.0, 0.5, 1.0, 2.5, 7.0, 1e-3, 1e-45, 1e-300, f64::INFINITY];
    let spread = (-3000..3000).map(|i| 2f64.powf(f64::from(i) * 0.0423));
    let domain: Vec<f64> =
        special.into_iter().chain(spread).flat_map(|x| [x, -x]).chain([f64::NAN]).collect();
    let shape = [domain.len() as i64];
    for (exponent, ulps) in [
        (2.0, 0.5),
        (3.0, 1.5),
        (4.0, 2.5),
        (0.5, 0.5),
        (1.5, 1.5),
        (2.5, 2.5),
        (-0.5, 1.5),
        (-1.0, 0.5),
        (-2.0, 2.5),
        (0.0, 0.0),
        (1.0, 0.5),
        (3.5, 1.0),
        (-1.5, 1.0),
    ] {
        for dtype in [ScalarType::F32, ScalarType::F64, ScalarType::F16, ScalarType::BF16] {
            let x = tensor(&domain, &shape, dtype);
            // The reference is rounded, too.
            let ulps = if dtype == ScalarType::F64 { ulps + 0.6 } else { ulps };
            let power = Value::Scalar(Scalar::Float(exponent));
            let got = numbers(&call("pow.Tensor_Scalar", vec![Value::from(&x), power]).unwrap());
            for (x, got) in numbers(&x).into_iter().zip(got) {
                // Roots are those of IEEE 754, as PyTorch's are.
                let expected = match exponent {
                    0.5 => x.sqrt(),
                    -0.5 => 1.0 / x.sqrt(),
                    _ => x.powf(exponent),
                };
                assert!(
                    close(got, expected, dtype, ulps),
                    "{x:e} to the power of {exponent} in {dtype}: {got:e} and not {expected:e}"
                );
            }
        }
    }
}

#[test]
fn functions_of_three_numbers() {
    let value = || vec![Value::Scalar(Scalar::Float(0.5))];
    let few: &[f64] = &[0.0, 1.0, -1.5, 2.5, 0.25, f64::NAN];
    check([
        row("addcmul", 3, 1.0, |x| x[0] + 0.5 * x[1] * x[2])
            .then(value)
            .siblings("addcmul_", "addcmul.out")
            .on(few),
        row("addcdiv", 3, 2.0, |x| x[0] + 0.5 * (x[1] / x[2]))
            .then(value)
            .siblings("addcdiv_", "addcdiv.out")
            .on(&[1.0, 1.5, 2.5, 4.0]),
        row("lerp.Tensor", 3, 2.0, |x| x[0] + x[2] * (x[1] - x[0]))
            .siblings("lerp_.Tensor", "lerp.Tensor_out")
            .on(few),
        row("lerp.Scalar", 2, 2.0, |x| x[0] + 0.5 * (x[1] - x[0]))
            .then(value)
            .siblings("lerp_.Scalar", "lerp.Scalar_out")
            .on(few),
        row("clamp.Tensor", 3, 0.0, |x| {
            if x.iter().any(|x| x.is_nan()) { f64::NAN } else { x[0].max(x[1]).min(x[2]) }
        })
        .siblings("clamp_.Tensor", "clamp.Tensor_out")
        .on(few),
    ]);
}

#[test]
fn questions_about_numbers() {
    type Question = (&'static str, usize, fn(&[f64]) -> bool);
    const QUESTIONS: [Question; 14] = [
        ("isnan", 1, |x| x[0].is_nan()),
        ("isfinite", 1, |x| x[0].is_finite()),
        ("isinf", 1, |x| x[0].is_infinite()),
        ("signbit", 1, |x| x[0].is_sign_negative()),
        ("logical_not", 1, |x| x[0] == 0.0),
        ("eq.Tensor", 2, |x| x[0] == x[1]),
        ("ne.Tensor", 2, |x| x[0] != x[1]),
        ("lt.Tensor", 2, |x| x[0] < x[1]),
        ("le.Tensor", 2, |x| x[0] <= x[1]),
        ("gt.Tensor", 2, |x| x[0] > x[1]),
        ("ge.Tensor", 2, |x| x[0] >= x[1]),
        ("logical_and", 2, |x| x[0] != 0.0 && x[1] != 0.0),
        ("logical_or", 2, |x| x[0] != 0.0 || x[1] != 0.0),
        ("logical_xor", 2, |x| (x[0] != 0.0) != (x[1] != 0.0)),
    ];
    for (name, tensors, holds) in QUESTIONS {
        let n = REALS.len();
        for dtype in super::harness::FLOATS {
            let first: Vec<f64> = (0..n * n).map(|i| REALS[i % n]).collect();
            let second: Vec<f64> = (0..n * n).map(|i| REALS[i / n]).collect();
            let both = [tensor(&first, &[(n * n) as i64], dtype), tensor(&second, &[(n * n) as i64], dtype)];
            let exact: Vec<Vec<f64>> = both.iter().map(numbers).collect();
            let got = call(name, both[..tensors].iter().map(Value::from).collect()).unwrap();
            for (i, got) in got.to_vec::<bool>().unwrap().into_iter().enumerate() {
                let args = [exact[0][i], exact[1][i]];
                assert_eq!(got, holds(&args), "{name} of {dtype} {args:?}");
            }
        }
    }
}

/// Results are those of PyTorch 2.15.
#[test]
fn powers_of_complex_numbers_are_complex128() {
    let i = Tensor::from([Complex::new(0.0f32, 1.0)]);
    let found = |t: flambeau_ops::Result<Tensor>| t.unwrap().to_vec::<Complex<f64>>().unwrap()[0];
    let near = |z: Complex<f64>, re: f64, im: f64| (z.re - re).hypot(z.im - im) < 1e-12;
    assert!(near(found(i.float_power_tensor(&Tensor::from([2i64]))), -1.0, 0.0));
    assert!(near(found(Tensor::from([2i64]).float_power_tensor(&i)), 2f64.ln().cos(), 2f64.ln().sin()));
    assert!(near(found(i.float_power(3)), 0.0, -1.0));
    assert!(near(
        found(ops::float_power_scalar(Scalar::Complex(0.0, 1.0), &Tensor::from([2i64]))),
        -1.0,
        0.0
    ));
    let real = Tensor::from([4.0f32]);
    assert_eq!(real.float_power(0.5).unwrap().to_vec::<f64>().unwrap(), [2.0]);
}
