//! Tensors made from sizes, ranges and triangles.

use super::harness::{numbers, tensor};
use flambeau_core::{Device, ErrorKind, MemoryFormat, Scalar, ScalarType};
use flambeau_ops::ops::options::{TrilOptions, TriuOptions};
use flambeau_ops::{Result, Tensor, native, ops};

fn arange(
    start: impl Into<Scalar>,
    end: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    ops::arange_start_step(start.into(), end.into(), step.into(), dtype, None, None, None)
}

fn linspace(
    start: impl Into<Scalar>,
    end: impl Into<Scalar>,
    steps: i64,
    dtype: ScalarType,
) -> Result<Tensor> {
    ops::linspace(start.into(), end.into(), steps, Some(dtype), None, None, None)
}

#[test]
fn ranges_count_as_pytorch_does() {
    use ScalarType::*;
    let r = arange(0, -3, -1, None).unwrap();
    assert_eq!((r.dtype(), r.to_vec::<i64>().unwrap()), (I64, vec![0, -1, -2]));
    assert_eq!(arange(1, 2.5, 1, None).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(arange(0, 1, 0.1, None).unwrap().sizes(), [10]);
    assert_eq!(numbers(&arange(0, 10, 3, Some(F16)).unwrap()), [0.0, 3.0, 6.0, 9.0]);
    assert_eq!(arange(5, 5, 1, None).unwrap().sizes(), [0]);
    let far = arange(i64::MAX - 2, i64::MAX, 1, None).unwrap();
    assert_eq!(far.to_vec::<i64>().unwrap(), [i64::MAX - 2, i64::MAX - 1]);
    let many = arange(0, 100_000, 1, Some(F64)).unwrap();
    assert!(numbers(&many).iter().enumerate().all(|(i, x)| *x == i as f64));
    let message = |r: Result<Tensor>| r.unwrap_err().to_string();
    assert!(
        message(arange(5, 0, 1, None)).contains("upper bound and lower bound inconsistent with step sign")
    );
    assert!(message(arange(0, 5, 0, None)).contains("step must be nonzero"));
    assert!(message(arange(0, f64::INFINITY, 1, None)).contains("unsupported range"));
    assert!(arange(0, f64::NAN, 1, None).is_err() && arange(0.0, 1.0, f64::NAN, None).is_err());
    assert_eq!(arange(0, 2, 1, Some(Bool)).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert!(arange(i64::MIN, i64::MAX, 1, None).is_err());
}

#[test]
fn linspace_meets_both_ends() {
    use ScalarType::*;
    assert_eq!(numbers(&linspace(0, 10, 5, I64).unwrap()), [0.0, 2.0, 5.0, 7.0, 10.0]);
    assert_eq!(numbers(&linspace(3, 10, 5, I32).unwrap()), [3.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(numbers(&linspace(-5, 5, 4, I32).unwrap()), [-5.0, -1.0, 1.0, 5.0]);
    assert_eq!(numbers(&linspace(0, 1, 1, F32).unwrap()), [0.0]);
    assert_eq!(linspace(0, 1, 0, F32).unwrap().sizes(), [0]);
    let thirds = numbers(&linspace(0.1, 0.7, 7, F64).unwrap());
    assert_eq!((thirds[0], thirds[6]), (0.1, 0.7));
    assert!(thirds.iter().enumerate().all(|(i, x)| (x - (0.1 + 0.1 * i as f64)).abs() < 1e-15));
    assert!(linspace(0, 1, -1, F32).unwrap_err().message().contains("number of steps must be non-negative"));
}

#[test]
fn like_another_tensor() {
    let t = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], ScalarType::F64).t().unwrap();
    let like = ops::ones_like(&t, None, None, None, None, None).unwrap();
    assert_eq!((like.sizes(), like.strides(), like.dtype()), (t.sizes(), t.strides(), ScalarType::F64));
    assert_eq!(numbers(&like), [1.0; 6]);
    let gaps = native::shape::view::slice(&tensor(&[0.0; 24], &[4, 6], ScalarType::F32), 1, None, None, 2)
        .unwrap()
        .t()
        .unwrap();
    assert_eq!(
        ops::zeros_like(&gaps, None, None, None, None, None).unwrap().strides(),
        [1, 3],
        "dense, in the order it had"
    );
    let formatted = ops::empty_like(&gaps, None, None, None, None, Some(MemoryFormat::Contiguous)).unwrap();
    assert_eq!(formatted.strides(), [4, 1]);
    let i = Tensor::from([3i64, -2]);
    assert_eq!(
        ops::full_like(&i, Scalar::Float(2.5), None, None, None, None, None)
            .unwrap()
            .to_vec::<i64>()
            .unwrap(),
        [2, 2]
    );
    assert_eq!(
        ops::full_like(&i, Scalar::Float(2.5), Some(ScalarType::F32), None, None, None, None)
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [2.5, 2.5]
    );
    assert_eq!(i.new_ones(&[2], ()).unwrap().to_vec::<i64>().unwrap(), [1, 1]);
    assert_eq!(i.new_full(&[1], 7, ScalarType::U8).unwrap().to_vec::<u8>().unwrap(), [7]);
    assert_eq!(i.new_zeros(&[2, 0], Device::META).unwrap().device(), Device::META);
    assert!(ops::full_like(&Tensor::from([1u8]), Scalar::Int(300), None, None, None, None, None).is_err());
}

#[test]
fn single_numbers_diagonals_and_strides() {
    let scalar = ops::scalar_tensor(Scalar::Int(3), None, None, None, None).unwrap();
    assert_eq!((scalar.dim(), scalar.dtype(), scalar.item::<f32>().unwrap()), (0, ScalarType::F32, 3.0));
    let eye = ops::eye_m(2, 3, Some(ScalarType::Bool), None, None, None).unwrap();
    assert_eq!(eye.to_vec2::<bool>().unwrap(), [[true, false, false], [false, true, false]]);
    assert_eq!(ops::eye_m(0, 3, None, None, None, None).unwrap().sizes(), [0, 3]);
    assert!(
        ops::eye(-1, None, None, None, None)
            .unwrap_err()
            .message()
            .contains("n must be greater or equal to 0, got -1")
    );
    let strided = ops::empty_strided(&[2, 3], &[1, 2], None, None, None, None).unwrap();
    assert_eq!(strided.strides(), [1, 2]);
    assert_eq!(
        ops::empty_strided(&[2, 3], &[1], None, None, None, None).unwrap_err().kind(),
        ErrorKind::Shape
    );
}

#[test]
fn triangles() {
    let values: Vec<f64> = (1..=24).map(f64::from).collect();
    for dtype in [ScalarType::F32, ScalarType::I64, ScalarType::BF16, ScalarType::U8, ScalarType::U64] {
        let t = tensor(&values, &[2, 3, 4], dtype);
        assert_eq!(t.tril().unwrap().dtype(), dtype);
        for diagonal in [-5i64, -1, 0, 1, 3, 9, i64::MAX, i64::MIN] {
            let (low, high) = (
                numbers(&t.tril_with(TrilOptions::new().diagonal(diagonal)).unwrap()),
                numbers(&t.triu_with(TriuOptions::new().diagonal(diagonal)).unwrap()),
            );
            for i in 0..24 {
                let (row, column) = (i as i64 / 4 % 3, i as i64 % 4);
                let offset = column - row;
                assert_eq!(low[i], if offset <= diagonal { values[i] } else { 0.0 });
                assert_eq!(high[i], if offset >= diagonal { values[i] } else { 0.0 });
            }
        }
    }
    let t = tensor(&values[..9], &[3, 3], ScalarType::F32);
    t.t().unwrap().tril_().unwrap();
    assert_eq!(numbers(&t), [1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 0.0, 0.0, 9.0]);
    assert_eq!(tensor(&[], &[0, 3], ScalarType::F32).tril().unwrap().sizes(), [0, 3]);
    assert!(Tensor::from([1.0f32]).triu().unwrap_err().message().contains("at least 2 dimensions"));
}
