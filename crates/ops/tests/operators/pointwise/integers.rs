//! Operators on integers and bool, against arithmetic in i128.

use super::harness::{call, converted, tensor};
use flambeau_core::{Element, ErrorKind, Scalar, ScalarType};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// A type of integers, by its range.
const INTEGERS: [(ScalarType, i128, i128); 5] = [
    (ScalarType::U8, 0, 255),
    (ScalarType::I8, -128, 127),
    (ScalarType::I16, -32768, 32767),
    (ScalarType::I32, i32::MIN as i128, i32::MAX as i128),
    (ScalarType::I64, i64::MIN as i128, i64::MAX as i128),
];

fn integers(t: &Tensor) -> Vec<i128> {
    let to = Tensor::empty(t.sizes(), ScalarType::I64).unwrap();
    to.copy_(t).unwrap();
    to.to_vec::<i64>().unwrap().into_iter().map(i128::from).collect()
}

fn make(values: &[i128], dtype: ScalarType) -> Tensor {
    let wide: Vec<i64> = values.iter().map(|v| *v as i64).collect();
    let from = Tensor::from_vec(wide, &[values.len() as i64]).unwrap();
    let to = Tensor::empty(from.sizes(), dtype).unwrap();
    to.copy_(&from).unwrap();
    to
}

/// The value modulo the size of the type.
fn wrap(value: i128, low: i128, high: i128) -> i128 {
    (value - low).rem_euclid(high - low + 1) + low
}

#[test]
fn arithmetic_wraps() {
    type Case = (&'static str, fn(i128, i128) -> i128);
    let alpha = || Value::Scalar(Scalar::Int(1));
    let cases: [Case; 8] = [
        ("add.Tensor", |a, b| a + b),
        ("sub.Tensor", |a, b| a - b),
        ("mul.Tensor", |a, b| a.wrapping_mul(b)),
        ("maximum", i128::max),
        ("minimum", i128::min),
        ("bitwise_and.Tensor", |a, b| a & b),
        ("bitwise_or.Tensor", |a, b| a | b),
        ("bitwise_xor.Tensor", |a, b| a ^ b),
    ];
    for (dtype, low, high) in INTEGERS {
        let all = [low, low + 1, 0, 1, 2, 3, 5, 100, high - 1, high, if low < 0 { -1 } else { 7 }];
        let first: Vec<i128> = (0..121).map(|i| all[i % 11]).collect();
        let second: Vec<i128> = (0..121).map(|i| all[i / 11]).collect();
        let (a, b) = (make(&first, dtype), make(&second, dtype));
        for (name, formula) in cases {
            let mut arguments = vec![Value::from(&a), Value::from(&b)];
            if name.starts_with("add") || name.starts_with("sub") {
                arguments.push(alpha());
            }
            let got = integers(&call(name, arguments).unwrap());
            for i in 0..121 {
                assert_eq!(
                    got[i],
                    wrap(formula(first[i], second[i]), low, high),
                    "{name} of {dtype} {} {}",
                    first[i],
                    second[i]
                );
            }
        }
    }
}

#[test]
fn division_of_every_sign() {
    type Case = (&'static str, Option<&'static str>, fn(i128, i128) -> i128);
    let cases: [Case; 5] = [
        ("floor_divide", None, |a, b| a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)),
        ("div.Tensor_mode", Some("floor"), |a, b| {
            a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)
        }),
        ("div.Tensor_mode", Some("trunc"), |a, b| a / b),
        ("remainder.Tensor", None, |a, b| {
            a - b * (a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0))
        }),
        ("fmod.Tensor", None, |a, b| a % b),
    ];
    for (dtype, low, high) in INTEGERS {
        let all = [
            low,
            low + 1,
            1,
            2,
            3,
            7,
            100,
            high,
            high - 1,
            if low < 0 { -1 } else { 4 },
            if low < 0 { -3 } else { 5 },
        ];
        let first: Vec<i128> = (0..121).map(|i| all[i % 11]).collect();
        let second: Vec<i128> = (0..121).map(|i| if all[i / 11] == 0 { 1 } else { all[i / 11] }).collect();
        let (a, b) = (make(&first, dtype), make(&second, dtype));
        for (name, mode, formula) in cases {
            let mut arguments = vec![Value::from(&a), Value::from(&b)];
            arguments.extend(mode.map(Value::from));
            let got = integers(&call(name, arguments).unwrap());
            for i in 0..121 {
                assert_eq!(
                    got[i],
                    wrap(formula(first[i], second[i]), low, high),
                    "{name} of {dtype} {} {}",
                    first[i],
                    second[i]
                );
            }
        }
    }
}

/// Numbers that floats of 64 bits hold exactly, such that they do not, and both in one vector.
#[test]
fn division_of_large_numbers() {
    let limit = 1i128 << 51;
    let near = [limit - 1, -limit, limit - 2, 1 - limit, 3, -3, 1, -1, 1 << 26, (1 << 26) + 1, 0, limit / 3];
    let far = [limit, -limit - 1, limit + 1, 1 << 52, -(1 << 53) - 1, i128::from(i64::MAX)];
    let beside: Vec<i128> = near.iter().chain(&far).copied().collect();
    for all in [&near[..], &beside] {
        let pairs =
            || all.iter().flat_map(move |a| all.iter().map(move |b| (*a, *b))).filter(|pair| pair.1 != 0);
        let (first, second): (Vec<i128>, Vec<i128>) = pairs().unzip();
        let (a, b) = (make(&first, ScalarType::I64), make(&second, ScalarType::I64));
        let rests = [a.remainder(&b).unwrap(), a.fmod(&b).unwrap(), a.floor_divide(&b).unwrap()]
            .map(|t| integers(&t));
        for (i, (a, b)) in pairs().enumerate() {
            let floor = a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0);
            let expected = [a - b * floor, a % b, floor];
            assert_eq!(rests.each_ref().map(|all| all[i]), expected, "{a} {b}");
        }
    }
}

#[test]
fn division_by_zero_is_an_error_at_every_index() {
    for n in [1usize, 3, 64, 65, 100] {
        for at in [0, n / 2, n - 1] {
            let mut by = vec![3i32; n];
            let ones = Tensor::from_vec(vec![7i32; n], &[n as i64]).unwrap();
            let fine = Tensor::from_vec(by.clone(), &[n as i64]).unwrap();
            assert!(ones.remainder(&fine).is_ok());
            by[at] = 0;
            let by = Tensor::from_vec(by, &[n as i64]).unwrap();
            let (wide, wide_by) = (converted(&ones, ScalarType::I64), converted(&by, ScalarType::I64));
            let results =
                [ones.remainder(&by), ones.fmod(&by), ones.floor_divide(&by), wide.remainder(&wide_by)];
            for result in results {
                let error = result.unwrap_err();
                assert!(error.message().contains("ZeroDivisionError"), "{error}");
            }
        }
    }
    assert!(Tensor::from([1i64]).fmod_scalar(0).is_err());
    assert_eq!(
        Tensor::from([true]).remainder(&Tensor::from([true])).unwrap_err().kind(),
        ErrorKind::NotImplemented
    );
}

#[test]
fn powers_of_integers() {
    for (dtype, low, high) in INTEGERS {
        let bases = [0, 1, 2, 3, if low < 0 { -1 } else { 1 }, if low < 0 { -2 } else { 10 }, high];
        for exponent in 0..70i128 {
            let got = integers(&make(&bases, dtype).pow(exponent as i64).unwrap());
            let expected: Vec<i128> =
                bases.iter().map(|b| (0..exponent).fold(1, |p, _| wrap(p * b, low, high))).collect();
            assert_eq!(got, expected, "{dtype} to the power of {exponent}");
        }
    }
    let (base, exponent) =
        (Tensor::from([2i64, -2, 1, -1, -1, 0]), Tensor::from([-1i64, -2, -3, -3, -2, -1]));
    assert_eq!(base.pow_tensor(&exponent).unwrap().to_vec::<i64>().unwrap(), [0, 0, 1, -1, 1, 0]);
    let refused = base.pow(-1).unwrap_err();
    assert!(refused.message().contains("Integers to negative integer powers are not allowed."), "{refused}");
    assert_eq!(Tensor::from([true, false]).pow(2).unwrap().to_vec::<i64>().unwrap(), [1, 0]);
    assert_eq!(Tensor::from([true, false]).square().unwrap().dtype(), ScalarType::I64);
    let b = Tensor::from([true]);
    assert_eq!(b.pow_tensor(&b).unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn signs_and_roundings() {
    let i = Tensor::from([3i64, -2, 0, i64::MIN]);
    let vec = |t: flambeau_ops::Result<Tensor>| t.unwrap().to_vec::<i64>().unwrap();
    assert_eq!(vec(i.abs()), [3, 2, 0, i64::MIN]);
    assert_eq!(vec(i.neg()), [-3, 2, 0, i64::MIN]);
    assert_eq!(vec(i.sign()), [1, -1, 0, -1]);
    assert_eq!(vec(i.floor()), [3, -2, 0, i64::MIN]);
    assert_eq!(vec(i.round()), [3, -2, 0, i64::MIN]);
    assert_eq!(vec(i.bitwise_not()), [-4, 1, -1, i64::MAX]);
    assert_eq!(i.signbit().unwrap().to_vec::<bool>().unwrap(), [false, true, false, true]);
    assert_eq!(i.isfinite().unwrap().to_vec::<bool>().unwrap(), [true; 4]);
    assert_eq!(Tensor::from([0u8, 200]).sign().unwrap().to_vec::<u8>().unwrap(), [0, 1]);
    let b = Tensor::from([true, false]);
    assert_eq!(b.sign().unwrap().to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(b.bitwise_not().unwrap().to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!(b.isfinite().unwrap().to_vec::<bool>().unwrap(), [true, true]);
    for refused in [b.abs(), b.neg(), b.floor(), b.sub(&b), b.frac(), i.frac(), i.hypot(&i)] {
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::NotImplemented | ErrorKind::Dtype));
    }
    let x = tensor(&[1.5], &[1], ScalarType::F32);
    assert_eq!(x.bitwise_and(&x).unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn comparisons_in_place_and_with_numbers() {
    let u = Tensor::from([3u8, 250]);
    let vec = |t: flambeau_ops::Result<Tensor>| t.unwrap().to_vec::<bool>().unwrap();
    assert_eq!(vec(u.eq_scalar(-6)), [false, false], "the number does not wrap");
    assert_eq!(vec(u.gt_scalar(-1)), [true, true]);
    assert_eq!(vec(u.eq_scalar(2.5)), [false, false]);
    assert_eq!(vec(Tensor::from([3i64, -2]).lt_scalar(1e30)), [true, true]);
    let f = Tensor::from([1.0f32, 2.0]);
    f.eq_(&Tensor::from([1.0f32, 3.0])).unwrap();
    assert_eq!(f.to_vec::<f32>().unwrap(), [1.0, 0.0]);
    f.logical_not_().unwrap();
    assert_eq!(f.to_vec::<f32>().unwrap(), [0.0, 1.0]);
}

#[test]
fn close_and_equal() {
    let (a, b) = (
        Tensor::from([1.0f32, f32::INFINITY, f32::NAN]),
        Tensor::from([1.000001f32, f32::INFINITY, f32::NAN]),
    );
    let close = |equal_nan| ops::isclose(&a, &b, 1e-5, 1e-8, equal_nan).unwrap().to_vec::<bool>().unwrap();
    assert_eq!((close(true), close(false)), (vec![true, true, true], vec![true, true, false]));
    let far = ops::isclose(&a, &Tensor::from([1.1f32, f32::NEG_INFINITY, 0.0]), 1e-5, 1e-8, true).unwrap();
    assert_eq!(far.to_vec::<bool>().unwrap(), [false; 3]);
    let (i, j) = (Tensor::from([1 << 60, 100i64]), Tensor::from([(1 << 60) + 1, 101i64]));
    let integers = |rtol| ops::isclose(&i, &j, rtol, 0.0, false).unwrap().to_vec::<bool>().unwrap();
    assert_eq!(
        (integers(0.0), integers(1e-5), integers(0.1)),
        (vec![false, false], vec![true, false], vec![true, true])
    );
    assert_eq!(ops::isclose(&a, &i, 0.0, 0.0, false).unwrap_err().kind(), ErrorKind::Dtype);
    assert_eq!(ops::isclose(&a, &b, -1.0, 0.0, false).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(ops::equal(&i, &i).unwrap() && !ops::equal(&i, &j).unwrap() && !ops::equal(&a, &a).unwrap());
    assert!(!ops::equal(&i, &Tensor::from([1i64])).unwrap());
    assert!(ops::allclose(&a, &b, 1e-5, 1e-8, true).unwrap());
    let empty = Tensor::empty(&[0], f32::SCALAR_TYPE).unwrap();
    assert!(ops::equal(&empty, &empty).unwrap());
}

#[test]
fn a_quotient_by_a_number_beyond_the_type_is_an_error_and_not_one_by_what_wraps() {
    let x = Tensor::from([250u8, 7]);
    for number in [300i64, -1, 256] {
        let number = Scalar::from(number);
        let calls = [
            ops::floor_divide_scalar(&x, number),
            ops::remainder_scalar(&x, number),
            ops::fmod_scalar(&x, number),
            ops::div_scalar_mode(&x, number, Some("trunc")),
            ops::remainder_scalar_tensor(number, &x),
        ];
        for call in calls {
            let error = call.unwrap_err();
            assert!(error.to_string().contains("in the range of uint8"), "{error}");
        }
    }
    assert_eq!(ops::floor_divide_scalar(&x, 255.into()).unwrap().to_vec::<u8>().unwrap(), [0, 0]);
    assert_eq!(
        ops::floor_divide_scalar(&x, Scalar::from(0.5)).unwrap().to_vec::<f32>().unwrap(),
        [500.0, 14.0]
    );
}
