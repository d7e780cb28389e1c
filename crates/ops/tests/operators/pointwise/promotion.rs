//! The type of a result: tensors with dimensions outrank those without, and both outrank numbers.

use super::harness::tensor;
use flambeau_core::{ErrorKind, Scalar, ScalarType};
use flambeau_ops::ops::options::AddScalarOptions;
use flambeau_ops::{Tensor, ops};

fn one(dtype: ScalarType, sizes: &[i64]) -> Tensor {
    tensor(&[1.0], sizes, dtype)
}

#[test]
fn numbers_change_the_category_only() {
    use ScalarType::*;
    let cases = [
        (I64, Scalar::Float(2.5), F32),
        (I8, Scalar::Int(300), I8),
        (Bool, Scalar::Int(1), I64),
        (Bool, Scalar::Bool(true), Bool),
        (F16, Scalar::Float(2.5), F16),
        (BF16, Scalar::Int(2), BF16),
        (F64, Scalar::Float(2.5), F64),
    ];
    for (dtype, number, expected) in cases {
        let t = one(dtype, &[1]);
        assert_eq!(
            ops::add_scalar(&t, number, Scalar::Int(1)).unwrap().dtype(),
            expected,
            "{dtype} + {number}"
        );
        assert_eq!(ops::mul_scalar(&t, number).unwrap().dtype(), expected, "{dtype} * {number}");
    }
}

#[test]
fn tensors_without_dimensions_rank_below_those_with() {
    use ScalarType::*;
    let cases =
        [(F32, F64, F32), (I64, F64, F64), (F16, F64, F16), (I8, I64, I8), (Bool, I16, I16), (U8, Bool, U8)];
    for (with, without, expected) in cases {
        let (a, b) = (one(with, &[1]), one(without, &[]));
        for got in [a.add(&b), b.add(&a), a.maximum(&b), a.pow_tensor(&b)] {
            assert_eq!(got.unwrap().dtype(), expected, "{with} and a lone {without}");
        }
    }
    assert_eq!(one(F16, &[1]).add(&one(F32, &[1])).unwrap().dtype(), F32);
    assert_eq!(one(F16, &[1]).add(&one(BF16, &[1])).unwrap().dtype(), F32);
    assert_eq!(one(U8, &[1]).add(&one(I8, &[1])).unwrap().dtype(), I16);
}

#[test]
fn floating_point_results_of_integers() {
    use ScalarType::*;
    let i = Tensor::from([1i32, 2]);
    for got in
        [i.exp(), i.div(&i), i.atan2(&i), i.copysign(&i), i.reciprocal(), i.sigmoid(), i.true_divide(&i)]
    {
        assert_eq!(got.unwrap().dtype(), F32);
    }
    assert_eq!(i.exp().unwrap().to_vec::<f32>().unwrap()[0], 1f32.exp());
    assert_eq!(ops::div_tensor_mode(&i, &i, None).unwrap().dtype(), F32);
    assert_eq!(ops::div_tensor_mode(&i, &i, Some("floor")).unwrap().dtype(), I32);
    let refused = ops::div_tensor_mode(&i, &i, Some("up")).unwrap_err();
    assert!(refused.message().contains("found 'up'"), "{refused}");
}

#[test]
fn results_never_fall_a_category() {
    let i = Tensor::from([3i64, -2]);
    let errors = [
        i.add_scalar_(2.5).map(drop),
        i.mul_scalar_(2.5).map(drop),
        i.div_(&i).map(drop),
        i.exp_().map(drop),
        i.pow_(0.5).map(drop),
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert!(error.kind() == ErrorKind::Dtype && error.message().contains("can't be cast"), "{error}");
    }
    assert_eq!(
        i.add_scalar_with(1, AddScalarOptions::new().alpha(2.5)).unwrap_err().kind(),
        ErrorKind::Dtype
    );
    let out = Tensor::empty(&[0], ScalarType::I64).unwrap();
    assert_eq!(ops::exp_out(&i, &out).unwrap_err().kind(), ErrorKind::Dtype);
    let wide = Tensor::empty(&[0], ScalarType::F64).unwrap();
    ops::exp_out(&i, &wide).unwrap();
    assert_eq!(wide.sizes(), [2]);
}

#[test]
fn lerp_and_addcdiv_want_one_type() {
    let (f, h, i) = (one(ScalarType::F32, &[1]), one(ScalarType::F16, &[1]), one(ScalarType::I64, &[1]));
    let error = f.lerp(&h, &f).unwrap_err();
    assert!(error.message().contains("expected dtype float32 for `end` but got dtype float16"), "{error}");
    assert!(f.lerp(&f, &one(ScalarType::F64, &[])).is_ok());
    assert_eq!(i.lerp(&i, &i).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!(f.addcdiv(&i, &i).unwrap_err().kind(), ErrorKind::Dtype);
    assert!(i.addcdiv(&f, &i).unwrap().is_floating_point());
}

#[test]
fn shared_memory_gives_the_answer_of_separate_memory() {
    let a = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    let column = flambeau_ops::native::shape::view::slice(&a, 1, Some(0), Some(1), 1).unwrap();
    a.sub_(&column).unwrap();
    assert_eq!(a.to_vec2::<f32>().unwrap(), [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]);
    let b = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    ops::mul_out(&b, &b.t().unwrap(), &b).unwrap();
    assert_eq!(b.to_vec2::<f32>().unwrap(), [[1.0, 6.0], [6.0, 16.0]]);
}
