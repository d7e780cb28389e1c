//! `where` and `masked_fill`.

use super::harness::{numbers, tensor};
use flambeau_core::{Complex, ErrorKind, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

/// Choices of every type, for rows of every length around the lanes' width.
#[test]
fn where_takes_bits_as_they_are() {
    // All types that have a zero.
    for dtype in ScalarType::WORKING.into_iter().filter(|dtype| *dtype != ScalarType::F8E8M0FNU) {
        for n in [0usize, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 130, 300] {
            let yes: Vec<f64> = (0..n).map(|i| (i % 2) as f64).collect();
            let no: Vec<f64> = (0..n).map(|i| (i % 3 % 2) as f64).collect();
            let holds: Vec<bool> = (0..n).map(|i| i % 5 < 2).collect();
            let condition = Tensor::from_vec(holds.clone(), &[n as i64]).unwrap();
            let (a, b) = (tensor(&yes, &[n as i64], dtype), tensor(&no, &[n as i64], dtype));
            let got = ops::where_self(&condition, &a, &b).unwrap();
            let expected: Vec<f64> = (0..n).map(|i| if holds[i] { yes[i] } else { no[i] }).collect();
            assert_eq!((got.dtype(), numbers(&got)), (dtype, expected));
        }
    }
}

#[test]
fn where_broadcasts_and_promotes_all_three() {
    let condition = Tensor::from([[true], [false]]);
    let got = ops::where_self(&condition, &Tensor::from([1i64, 2]), &Tensor::from(0.5f32)).unwrap();
    assert_eq!(got.to_vec2::<f32>().unwrap(), [[1.0, 2.0], [0.5, 0.5]]);
    let transposed = ops::where_self(
        &condition.t().unwrap(),
        &Tensor::from([[1u8, 2], [3, 4]]).t().unwrap(),
        &Tensor::from([9u8, 8]),
    );
    assert_eq!(transposed.unwrap().to_vec2::<u8>().unwrap(), [[1, 8], [2, 8]]);
    let numbers =
        ops::where_scalar(&Tensor::from([true, false]), Scalar::Int(1), Scalar::Float(2.5)).unwrap();
    assert_eq!(numbers.to_vec::<f32>().unwrap(), [1.0, 2.5]);
    let half = tensor(&[1.0, 2.0], &[2], ScalarType::F16);
    let got = ops::where_self(&Tensor::from([true, false]), &Tensor::from(2.5f64), &half).unwrap();
    assert_eq!(got.dtype(), ScalarType::F16);
    let bytes =
        ops::where_self(&Tensor::from([3u8, 0]), &Tensor::from([1i32, 1]), &Tensor::from([2i32, 2])).unwrap();
    assert_eq!(bytes.to_vec::<i32>().unwrap(), [1, 2]);
    let refused = ops::where_self(&Tensor::from([3i64, 0]), &half, &half).unwrap_err();
    assert!(refused.message().contains("where expected condition to be a boolean tensor"), "{refused}");
}

#[test]
fn masked_fill_keeps_the_type() {
    let (i, mask) = (Tensor::from([3i64, -2]), Tensor::from([true, false]));
    assert_eq!(i.masked_fill(&mask, 2.5).unwrap().to_vec::<i64>().unwrap(), [2, -2]);
    let value = Tensor::from(7.9f64);
    assert_eq!(i.masked_fill_tensor(&mask, &value).unwrap().to_vec::<i64>().unwrap(), [7, -2]);
    assert_eq!(Tensor::from([1.0f32]).masked_fill(&mask, 3).unwrap().to_vec::<f32>().unwrap(), [3.0, 1.0]);
    let m = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    m.t().unwrap().masked_fill_(&mask, -1.0).unwrap();
    assert_eq!(m.to_vec2::<f32>().unwrap(), [[-1.0, -1.0], [3.0, 4.0]]);
    let kind = |r: flambeau_ops::Result<Tensor>| r.unwrap_err().kind();
    assert_eq!(kind(i.masked_fill(&Tensor::from([1u8, 0]), 1)), ErrorKind::Dtype);
    assert_eq!(kind(i.masked_fill_tensor(&mask, &Tensor::from([1.0f32]))), ErrorKind::Shape);
    assert_eq!(kind(Tensor::from([1u8, 2]).masked_fill(&mask, 300)), ErrorKind::InvalidArgument);
    assert_eq!(Tensor::from([1.0f32]).masked_fill_(&mask, 3).map(drop).unwrap_err().kind(), ErrorKind::Shape);
}

#[test]
fn masked_fill_loses_no_part_of_a_number() {
    let mask = Tensor::from([true, false]);
    let kind = |r: flambeau_ops::Result<Tensor>| r.unwrap_err().kind();
    let [complex, real] =
        [Complex::new(1.0, 2.0), Complex::new(1.0, 0.0)].map(|z| Tensor::from_vec(vec![z], &[]).unwrap());
    for x in [Tensor::from([3i64, -2]), Tensor::from([3.0f32, -2.0]), Tensor::from([3u8, 2])] {
        assert_eq!(kind(x.masked_fill_tensor(&mask, &complex)), ErrorKind::InvalidArgument);
        assert_eq!(kind(x.masked_fill(&mask, Scalar::Complex(1.0, 2.0))), ErrorKind::InvalidArgument);
        assert_eq!(
            x.masked_fill_tensor_(&mask, &complex).map(drop).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        let filled = x.masked_fill_tensor(&mask, &real).unwrap();
        assert_eq!(filled.dtype(), x.dtype());
        assert_eq!(numbers(&filled)[0], 1.0);
    }
    let bools = Tensor::from([false, false]);
    let imaginary = Scalar::Complex(0.0, 2.0);
    assert_eq!(bools.masked_fill(&mask, imaginary).unwrap().to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(bools.masked_fill_tensor(&mask, &complex).unwrap().to_vec::<bool>().unwrap(), [true, false]);
    let z = bools.to(ScalarType::Complex64).unwrap().masked_fill_tensor(&mask, &complex).unwrap();
    assert_eq!(z.to_vec::<Complex<f32>>().unwrap(), [Complex::new(1.0, 2.0), Complex::new(0.0, 0.0)]);
    assert_eq!(
        kind(Tensor::from([1u8, 2]).masked_fill_tensor(&mask, &Tensor::from(300i64))),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn clamp_saturates_limits_and_promotes() {
    let u = Tensor::from([3u8, 250]);
    let clamp = |t: &Tensor, min: Option<f64>, max: Option<f64>| {
        let whole = |x: f64| if x.fract() == 0.0 { Scalar::Int(x as i64) } else { Scalar::Float(x) };
        ops::clamp(t, min.map(whole), max.map(whole))
    };
    assert_eq!(clamp(&u, Some(-1.0), None).unwrap().to_vec::<u8>().unwrap(), [3, 250]);
    assert_eq!(clamp(&u, None, Some(300.0)).unwrap().to_vec::<u8>().unwrap(), [3, 250]);
    assert_eq!(clamp(&u, Some(5.0), Some(9.0)).unwrap().to_vec::<u8>().unwrap(), [5, 9]);
    let i = Tensor::from([3i64, -2]);
    assert_eq!(clamp(&i, Some(0.5), None).unwrap().to_vec::<f32>().unwrap(), [3.0, 0.5]);
    assert_eq!(clamp(&i, Some(2.0), Some(1.0)).unwrap().to_vec::<i64>().unwrap(), [1, 1]);
    assert_eq!(ops::clamp_(&i, Some(Scalar::Float(0.5)), None).unwrap_err().kind(), ErrorKind::Dtype);
    let none = clamp(&i, None, None).unwrap_err();
    assert!(none.message().contains("At least one of 'min' or 'max' must not be None"), "{none}");
    assert_eq!(clamp(&Tensor::from([true]), Some(0.0), Some(1.0)).unwrap().dtype(), ScalarType::I64);
}

#[test]
fn what_is_written_below_a_threshold_fits_the_type() {
    let x = Tensor::from([3u8, 250]);
    let threshold = |at: f64, value: f64| ops::threshold(&x, Scalar::Float(at), Scalar::Float(value));
    assert_eq!(threshold(5.0, 7.0).unwrap().to_vec::<u8>().unwrap(), [7, 250]);
    for (at, value) in [(5.0, -0.5), (5.0, 300.0), (-7.3, 1.0), (f64::INFINITY, 1.0)] {
        assert!(threshold(at, value).unwrap_err().message().contains("without overflow"), "{at} {value}");
    }
    let half = tensor(&[1.0, 5.0], &[2], ScalarType::F16);
    assert_eq!(numbers(&ops::threshold(&half, Scalar::Float(1e30), Scalar::Int(2)).unwrap()), [2.0, 2.0]);
    assert!(ops::threshold(&half, Scalar::Int(3), Scalar::Float(1e30)).is_err());
}

#[test]
fn weights_between_real_numbers_are_real() {
    let x = Tensor::from([1.0f32, 2.0]);
    let error = ops::lerp_scalar(&x, &x, Scalar::Complex(0.5, 0.4)).unwrap_err();
    assert!(error.message().contains("a real weight"), "{error}");
    assert!(ops::lerp__scalar(&x, &x, Scalar::Complex(0.5, 0.4)).is_err());
}

#[test]
fn no_integer_is_infinite() {
    let x = Tensor::from([0u64, 1, u64::MAX]);
    for predicate in [ops::isposinf, ops::isneginf] {
        assert_eq!(predicate(&x).unwrap().to_vec::<bool>().unwrap(), [false; 3]);
    }
}

#[test]
fn noise_has_a_slope_for_each_element() {
    let (x, noise) = (Tensor::from([-1.0f32, 2.0]), Tensor::from([0.0f32, 0.0, 0.0]));
    for training in [false, true] {
        let (low, high) = (Scalar::Float(0.1), Scalar::Float(0.3));
        let error = ops::rrelu_with_noise(&x, &noise, low, high, training, None).unwrap_err();
        assert!(error.message().contains("expected `noise` of sizes [2]"), "{error}");
        assert!(ops::rrelu_with_noise_(&x, &noise, low, high, training, None).is_err());
    }
}
