//! Functions against values.txt, in both types and on every instruction set.

use crate::{C, COMPLEX, abs, c, eps, numbers, tensor};
use flambeau_core::ScalarType;
use flambeau_ops::vectorized::{CpuCapability, override_cpu_capability};
use flambeau_ops::{Result, Tensor, ops};

type Function = fn(&Tensor) -> Result<Tensor>;

const FUNCTIONS: &[(&str, Function)] = &[
    ("sqrt", ops::sqrt),
    ("exp", ops::exp),
    ("log", ops::log),
    ("sin", ops::sin),
    ("cos", ops::cos),
    ("tan", ops::tan),
    ("sinh", ops::sinh),
    ("cosh", ops::cosh),
    ("tanh", ops::tanh),
    ("asin", ops::asin),
    ("acos", ops::acos),
    ("atan", ops::atan),
    ("asinh", ops::asinh),
    ("acosh", ops::acosh),
    ("atanh", ops::atanh),
];

/// Arguments and values of a function.
fn table(kind: &str, name: &str) -> (Vec<C>, Vec<C>) {
    let prefix = format!("{kind} {name} ");
    let lines = include_str!("values.txt").lines().filter_map(|line| line.strip_prefix(&prefix));
    let numbers = |line: &str| line.split(' ').map(|x| x.parse().unwrap()).collect::<Vec<f64>>();
    lines.map(numbers).map(|n| (c(n[0], n[1]), c(n[2], n[3]))).unzip()
}

#[test]
fn values_are_right() {
    let mut faults = vec![];
    for (name, function) in FUNCTIONS {
        let (arguments, values) = table("value", name);
        assert!(arguments.len() > 60, "{name}");
        for dtype in COMPLEX {
            let got = numbers(&function(&tensor(&arguments, &[arguments.len() as i64], dtype)).unwrap());
            for ((z, expected), got) in arguments.iter().zip(&values).zip(got) {
                let error = abs(got - *expected) / (abs(*expected) * eps(dtype));
                if error > 3.0 || error.is_nan() {
                    faults
                        .push(format!("{name}({z}) in {dtype}: {got} is not {expected}, off by {error:.1}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Equal, or both NaN, or as close as rounding allows; zeros have the same sign.
fn agrees(got: f64, expected: f64, dtype: ScalarType) -> bool {
    if expected.is_nan() {
        return got.is_nan();
    }
    if expected == 0.0 {
        return got == 0.0 && got.is_sign_negative() == expected.is_sign_negative();
    }
    got == expected || (got - expected).abs() <= 8.0 * eps(dtype) * expected.abs()
}

/// Where the C library differs, and C99 leaves the sign or the value open: `tanh` of 0 and an angle that is no number is 0 with NaN since C23,
/// and signs of parts that are zeros or infinite are not specified beside NaN and infinite angles.
fn is_open(name: &str, z: C, got: C, expected: C) -> bool {
    let same_size = |a: f64, b: f64| (a.is_nan() && b.is_nan()) || a.abs() == b.abs();
    let is_no_angle = |x: f64| !x.is_finite();
    let rotated = ["sin", "cos", "tan"].contains(&name);
    let (x, y) = if rotated { (z.im, z.re) } else { (z.re, z.im) };
    let open_sign =
        (is_no_angle(y) || x.is_nan()) && same_size(got.re, expected.re) && same_size(got.im, expected.im);
    let tanh_at_0 = ["tanh", "tan"].contains(&name) && x == 0.0 && is_no_angle(y);
    let nan_sign = z.re.is_nan() || z.im.is_nan();
    open_sign || tanh_at_0 || (nan_sign && same_size(got.re, expected.re) && same_size(got.im, expected.im))
}

#[test]
fn special_values_are_those_of_c99() {
    let mut faults = vec![];
    for (name, function) in FUNCTIONS {
        let (arguments, values) = table("edge", name);
        assert_eq!(arguments.len(), 49, "{name}");
        for dtype in COMPLEX {
            let got = numbers(&function(&tensor(&arguments, &[49], dtype)).unwrap());
            for ((z, expected), got) in arguments.iter().zip(&values).zip(got) {
                let right = agrees(got.re, expected.re, dtype) && agrees(got.im, expected.im, dtype);
                if !right && !is_open(name, *z, got, *expected) {
                    faults.push(format!("{name}({z}) in {dtype}: {got} is not {expected}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// A finite part of any size beside NaN gives NaN, but for those of which C99 says otherwise: 0 and infinity.
#[test]
fn a_part_that_is_nan_is_not_lost() {
    let sizes = [1e-30, 1e-3, 1.0, 2.5, 1e3, 1e9, 1.5e9, 1e19, 1e30];
    let signed: Vec<f64> = sizes.iter().flat_map(|size| [*size, -size]).collect();
    let arguments: Vec<C> = signed.iter().flat_map(|x| [c(f64::NAN, *x), c(*x, f64::NAN)]).collect();
    for (name, function) in FUNCTIONS {
        for dtype in COMPLEX {
            let x = tensor(&arguments, &[arguments.len() as i64], dtype);
            for (z, got) in arguments.iter().zip(numbers(&function(&x).unwrap())) {
                assert!(got.re.is_nan() || got.im.is_nan(), "{name}({z}) in {dtype}: {got}");
            }
        }
    }
}

/// Bits do not depend on the instruction set, nor on the position.
#[test]
fn bits_are_the_same_everywhere() {
    for (name, function) in FUNCTIONS {
        let (arguments, _) = table("value", name);
        for dtype in COMPLEX {
            let bits =
                |t: &Tensor| numbers(t).iter().map(|z| (z.re.to_bits(), z.im.to_bits())).collect::<Vec<_>>();
            let run = |values: &[C]| bits(&function(&tensor(values, &[values.len() as i64], dtype)).unwrap());
            let whole = run(&arguments);
            assert_eq!(run(&arguments[3..]), whole[3..], "{name} in {dtype} at another position");
            for set in CpuCapability::available() {
                let _guard = override_cpu_capability(set);
                assert_eq!(run(&arguments), whole, "{name} in {dtype} on {}", set.name());
            }
        }
    }
}

#[test]
fn composed_functions_are_right() {
    let z = crate::draw(40, 3);
    for dtype in COMPLEX {
        let x = tensor(&z, &[40], dtype);
        let near = |what: &str, got: Tensor, expected: Tensor| {
            crate::expect_close(what, &numbers(&got), &numbers(&expected), dtype, 8.0);
        };
        near("rsqrt", ops::rsqrt(&x).unwrap(), ops::reciprocal(&ops::sqrt(&x).unwrap()).unwrap());
        near("square", ops::square(&x).unwrap(), ops::mul_tensor(&x, &x).unwrap());
        near(
            "exp2",
            ops::exp2(&x).unwrap(),
            ops::exp(&ops::mul_scalar(&x, std::f64::consts::LN_2.into()).unwrap()).unwrap(),
        );
        near(
            "log2",
            ops::log2(&x).unwrap(),
            ops::div_scalar(&ops::log(&x).unwrap(), std::f64::consts::LN_2.into()).unwrap(),
        );
        let one = flambeau_core::Scalar::Int(1);
        near("expm1", ops::add_scalar(&ops::expm1(&x).unwrap(), one, one).unwrap(), ops::exp(&x).unwrap());
        near("log1p", ops::log1p(&x).unwrap(), ops::log(&ops::add_scalar(&x, one, one).unwrap()).unwrap());
        let sigmoid = ops::add_scalar(&ops::exp(&ops::neg(&x).unwrap()).unwrap(), one, one).unwrap();
        near("sigmoid", ops::sigmoid(&x).unwrap(), ops::reciprocal(&sigmoid).unwrap());
    }
}
