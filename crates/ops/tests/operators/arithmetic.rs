//! Rust's operators, and whether tensors are equal or close.

use flambeau_core::{Complex, ErrorKind, Result, Scalar, ScalarType};
use flambeau_ops::ops::options::AddScalarOptions;
use flambeau_ops::{Tensor, ops};

fn f(values: [f32; 2]) -> Tensor {
    Tensor::from(values)
}

fn values(t: Result<Tensor>) -> Vec<f32> {
    t.unwrap().to_vec().unwrap()
}

#[test]
fn each_operator_is_its_function() {
    let (a, b) = (f([6.0, -8.0]), f([2.0, 4.0]));
    assert_eq!(values(&a + &b), [8.0, -4.0]);
    assert_eq!(values(&a - &b), [4.0, -12.0]);
    assert_eq!(values(&a * &b), [12.0, -32.0]);
    assert_eq!(values(&a / &b), [3.0, -2.0]);
    assert_eq!(values(-&a), [-6.0, 8.0]);
    assert_eq!(values(a.clone() - b.clone()), [4.0, -12.0]);
    assert_eq!(values(a.clone() - &b), [4.0, -12.0]);
    assert_eq!(values(&a - b.clone()), [4.0, -12.0]);
    assert_eq!(values(-a.clone()), [-6.0, 8.0]);
}

#[test]
fn numbers_stand_on_either_side_and_rank_below_tensors() {
    let a = f([6.0, -8.0]);
    assert_eq!(values(&a - 1.0), [5.0, -9.0]);
    assert_eq!(values(1.0 - &a), [-5.0, 9.0]);
    assert_eq!(values(24 / &a), [4.0, -3.0]);
    assert_eq!(values(&a / 2), [3.0, -4.0]);
    assert_eq!(values(Scalar::Int(2) * a.clone()), [12.0, -16.0]);
    assert_eq!(values(a * Scalar::Float(0.5)), [3.0, -4.0]);
    let i = Tensor::from([1i32, 2]);
    assert_eq!((&i + 1).unwrap().dtype(), ScalarType::I32);
    assert_eq!((&i + 1.5).unwrap().dtype(), ScalarType::F32);
    assert_eq!((2 * &i).unwrap().to_vec::<i32>().unwrap(), [2, 4]);
}

#[test]
fn a_number_meets_every_element_of_a_tensor_of_any_size_and_type() -> Result<()> {
    for n in [1usize, 2, 63, 64, 65, 40_000, 100_003] {
        let x: Vec<f64> = (0..n).map(|i| (i % 251) as f64 - 100.0).collect();
        let t = Tensor::from_vec(x.clone(), &[n as i64])?;
        for dtype in [ScalarType::F64, ScalarType::F32, ScalarType::F16, ScalarType::I64, ScalarType::I16] {
            let to = |t: &Tensor, dtype| ops::to_dtype(t, dtype, false, false, None);
            let t = to(&t, dtype)?;
            let back = |t: &Tensor| to(t, ScalarType::F64)?.to_vec::<f64>();
            let of = |f: fn(f64) -> f64| x.iter().map(|x| f(*x)).collect::<Vec<_>>();
            assert_eq!(back(&t.mul_scalar(3)?)?, of(|x| 3.0 * x), "{n} {dtype}");
            assert_eq!(back(&t.add_scalar_with(7, AddScalarOptions::new().alpha(2))?)?, of(|x| x + 14.0));
            assert_eq!(back(&ops::rsub_scalar(&t, 5.into(), 1.into())?)?, of(|x| 5.0 - x));
            assert_eq!(back(&t.gt_scalar(3)?)?, of(|x| f64::from(x > 3.0)));
            let (own, halves) = (ops::clone(&t, None)?, t.mul_scalar(0.5)?);
            assert_eq!(back(own.mul_scalar_(2)?)?, of(|x| 2.0 * x));
            assert_eq!(halves.dtype(), if dtype.is_floating_point() { dtype } else { ScalarType::F32 });
            assert_eq!(back(&halves)?, of(|x| x / 2.0));
        }
    }
    Ok(())
}

/// Results are those of PyTorch 2.15.
#[test]
fn a_factor_is_not_rounded_to_half_precision() -> Result<()> {
    let halves = Tensor::from([1.0f32, 1000.0, 30000.0, 3.3]).to(ScalarType::F16)?;
    let expected =
        |values: [f32; 4]| Tensor::from(values).to(ScalarType::F16)?.to(ScalarType::F32)?.to_vec::<f32>();
    let found = |t: Tensor| {
        assert_eq!(t.dtype(), ScalarType::F16);
        t.to(ScalarType::F32)?.to_vec::<f32>()
    };
    // The f16 next to 1e-7 is 1.19e-7.
    let small = expected([1.1921e-7, 1.0002e-4, 3.0003e-3, 3.5763e-7])?;
    assert_eq!(found(halves.mul_scalar(1e-7)?)?, small);
    assert_eq!(found(halves.mul(&Tensor::from(1e-7f32))?)?, small);
    assert_eq!(found(halves.mul(&Tensor::from(1e-7f64))?)?, small);
    assert_eq!(found((&halves * 1e-7)?)?, small);
    let strided = halves.view(&[2, 2])?.t()?;
    assert_eq!(found(strided.mul_scalar(1e-7)?.t()?.reshape(&[4])?)?, small);
    for (at, expected) in small.iter().enumerate() {
        assert_eq!(found(halves.select(0, at as i64)?.mul_scalar(1e-7)?)?, [*expected]);
    }
    // No f16 is as large as 70000.
    let tenths = Tensor::from([0.1f32, -0.5]).to(ScalarType::F16)?;
    assert_eq!(found(tenths.mul_scalar(70000)?)?, [7000.0, -35008.0]);
    let wide = halves.to(ScalarType::BF16)?.mul_scalar(1e-3)?;
    assert_eq!(wide.to(ScalarType::F32)?.to_vec::<f32>()?[..2], [9.994_507e-4, 1.0]);
    Ok(())
}

#[test]
fn results_chain_and_errors_pass_through() -> Result<()> {
    let (a, b, c) = (f([1.0, 2.0]), f([3.0, 4.0]), f([5.0, 6.0]));
    assert_eq!(values(&a + &b * &c), [16.0, 26.0]);
    assert_eq!(values((&a - &b) * &c), [-10.0, -12.0]);
    assert_eq!(values((&a + &b)? * 2.0), [8.0, 12.0]);
    assert_eq!(values(&a - 2.0 * &b), [-5.0, -6.0]);
    let wrong = Tensor::from([1.0f32, 2.0, 3.0]);
    let kind = |r: Result<Tensor>| r.unwrap_err().kind();
    assert_eq!(kind(&a + (&b * &wrong)), ErrorKind::Shape);
    assert_eq!(kind((&b * &wrong) - &a), ErrorKind::Shape);
    Ok(())
}

#[test]
fn equal_means_type_sizes_and_values() {
    let t = Tensor::from([[1i64, 2], [3, 4]]);
    assert!(t.equal(&t.t().unwrap().t().unwrap()).unwrap());
    assert!(t.t().unwrap().equal(&Tensor::from([[1i64, 3], [2, 4]])).unwrap());
    assert!(!t.equal(&t.t().unwrap()).unwrap());
    assert!(!t.equal(&t.view(&[4]).unwrap()).unwrap());
    assert!(!f([f32::NAN, 0.0]).equal(&f([f32::NAN, 0.0])).unwrap());
    assert!(f([-0.0, 0.0]).equal(&f([0.0, 0.0])).unwrap());
    assert_eq!(t.equal(&f([1.0, 2.0])).unwrap_err().kind(), ErrorKind::Dtype);
}

#[test]
fn allclose_is_the_formula() {
    let close = |a: f64, b: f64| Tensor::from(a).allclose(&Tensor::from(b), 0.5, 1.0, false).unwrap();
    assert!(close(7.0, 4.0) && !close(7.01, 4.0));
    assert!(close(4.0, 7.0) && close(2.5, 7.0) && !close(2.49, 7.0));
    let inf = f64::INFINITY;
    assert!(close(inf, inf) && !close(inf, -inf) && !close(1.0, inf) && !close(inf, 1.0));
    assert!(!close(f64::NAN, f64::NAN));
}

#[test]
fn allclose_broadcasts_and_is_exact_for_integers() {
    let column = Tensor::from([[1.0f32], [2.0]]);
    assert!(column.allclose(&Tensor::from([1.0f32, 2.0]), 0.0, 1.0, false).unwrap());
    assert!(!column.allclose(&Tensor::from([1.0f32, 2.0]), 0.0, 0.9, false).unwrap());
    let (big, next) = (Tensor::from(1i64 << 60), Tensor::from((1i64 << 60) + 1));
    assert!(!big.allclose(&next, 0.0, 0.0, false).unwrap());
    assert!(big.allclose(&next, 0.0, 1.0, false).unwrap());
    assert!(Tensor::from(i64::MIN).allclose(&Tensor::from(i64::MAX), 2.0, 8.0, false).unwrap());
    let kind = |r: Result<bool>| r.unwrap_err().kind();
    assert_eq!(kind(big.allclose(&column, 0.0, 0.0, false)), ErrorKind::Dtype);
    assert_eq!(kind(big.allclose(&next, -1.0, 0.0, false)), ErrorKind::InvalidArgument);
    assert_eq!(kind(f([1.0, 2.0]).allclose(&Tensor::from([1.0f32; 3]), 0.0, 0.0, false)), ErrorKind::Shape);
}

/// Results are those of PyTorch 2.15.
#[test]
fn factors_are_in_the_range_of_the_result() -> Result<()> {
    let zeros = |dtype| Tensor::from([0.0f64, 0.0]).to(dtype);
    let add = |dtype, alpha: Scalar| zeros(dtype).and_then(|t| ops::add_tensor(&t, &t, alpha));
    let sub = |dtype, alpha: Scalar| zeros(dtype).and_then(|t| ops::sub_tensor(&t, &t, alpha));
    for (dtype, alpha) in [
        (ScalarType::F16, Scalar::Int(1 << 40)),
        (ScalarType::U8, Scalar::Int(300)),
        (ScalarType::I32, Scalar::Int(1 << 40)),
        (ScalarType::F32, Scalar::Float(1e300)),
    ] {
        let error = add(dtype, alpha).map(drop).unwrap_err();
        assert!(error.message().contains("without overflow"), "{dtype}: {error}");
        assert!(
            ops::add_scalar(&zeros(dtype)?, 1.into(), alpha).is_err() && sub(dtype, alpha).is_err(),
            "{dtype}"
        );
    }
    assert!(add(ScalarType::U8, Scalar::Int(-1)).is_ok() && add(ScalarType::Bool, Scalar::Int(300)).is_ok());
    // What is added is `-alpha` times the other operand.
    assert!(sub(ScalarType::I8, Scalar::Int(128)).is_ok() && sub(ScalarType::I8, Scalar::Int(-128)).is_err());
    let error = ops::fill__scalar(&zeros(ScalarType::U8)?, Scalar::Float(-0.5)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn a_complex_number_without_dimensions_makes_nothing_wider() -> Result<()> {
    let number = Tensor::from([Complex::new(0.0f64, 1.0)]).reshape(&[])?;
    let narrow = number.to(ScalarType::Complex64)?;
    let ones = |dtype| Tensor::from([1.0f64, 1.0]).to(dtype);
    let sum = |dtype, number: &Tensor| Ok::<_, flambeau_core::Error>(ones(dtype)?.add(number)?.dtype());
    assert_eq!(sum(ScalarType::F32, &number)?, ScalarType::Complex64);
    assert_eq!(sum(ScalarType::F64, &narrow)?, ScalarType::Complex128);
    assert_eq!(sum(ScalarType::U64, &narrow)?, ScalarType::Complex64);
    assert!(ones(ScalarType::U64)?.add(&narrow.reshape(&[1])?).is_err());
    Ok(())
}
