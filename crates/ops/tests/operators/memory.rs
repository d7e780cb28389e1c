//! One small call of every loop over raw memory, small enough for an interpreter that checks each access.

use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

fn range(n: i64, sizes: &[i64]) -> Tensor {
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Tensor::from_vec(values, sizes).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    ops::to_dtype(tensor, ScalarType::F32, false, false, None).unwrap().to_vec().unwrap()
}

#[test]
fn rows_of_any_stride_and_type() -> Result<()> {
    let a = range(12, &[3, 4]);
    let columns = ops::t(&range(12, &[4, 3]))?;
    let row = ops::expand(&range(4, &[1, 4]), &[3, 4], false)?;
    let sum = ops::add_tensor(&columns, &row, Scalar::Int(1))?;
    assert_eq!(values(&sum), [0.0, 4.0, 8.0, 12.0, 1.0, 5.0, 9.0, 13.0, 2.0, 6.0, 10.0, 14.0]);
    let mixed = ops::mul_tensor(&ops::to_dtype(&a, ScalarType::I64, false, false, None)?, &columns)?;
    assert_eq!(values(&mixed)[..4], [0.0, 3.0, 12.0, 27.0]);
    let half = ops::exp(&ops::to_dtype(
        &ops::mul_scalar(&a, Scalar::Int(0))?,
        ScalarType::F16,
        false,
        false,
        None,
    )?)?;
    assert_eq!(values(&half), [1.0; 12]);
    Ok(())
}

#[test]
fn overlap_is_copied_first() -> Result<()> {
    let a = range(9, &[3, 3]);
    ops::sub__tensor(&a, &ops::slice_tensor(&a, 1, None, Some(1), 1)?, Scalar::Int(1))?;
    assert_eq!(values(&a), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    Ok(())
}

#[test]
fn choices_and_questions() -> Result<()> {
    let a = range(6, &[2, 3]);
    let mask = ops::gt_scalar(&a, Scalar::Int(2))?;
    let chosen = ops::where_self(&mask, &a, &ops::neg(&a)?)?;
    assert_eq!(values(&chosen), [0.0, -1.0, -2.0, 3.0, 4.0, 5.0]);
    Ok(())
}

#[test]
fn folds_along_every_dimension() -> Result<()> {
    let a = range(24, &[2, 3, 4]);
    assert_eq!(values(&ops::sum(&a, None)?), [276.0]);
    assert_eq!(values(&ops::sum_dim_intlist(&a, Some(&[0, 2]), false, None)?), [60.0, 92.0, 124.0]);
    assert_eq!(values(&ops::sum_dim_intlist(&a, Some(&[1]), false, None)?)[..4], [12.0, 15.0, 18.0, 21.0]);
    let (max, at) = ops::max_dim(&ops::transpose_int(&a, 0, 2)?, 1, false)?;
    assert_eq!((values(&max)[0], values(&at)[0]), (8.0, 2.0));
    assert_eq!(values(&ops::cumsum(&range(4, &[4]), 0, None)?), [0.0, 1.0, 3.0, 6.0]);
    let softmax = ops::softmax_int(&range(6, &[2, 3]), 0, None)?;
    assert!((values(&softmax).iter().sum::<f32>() - 3.0).abs() < 1e-6);
    Ok(())
}

#[test]
fn products_joins_and_indices() -> Result<()> {
    let a = range(6, &[2, 3]);
    assert_eq!(values(&ops::mm(&a, &ops::t(&a)?)?), [5.0, 14.0, 14.0, 50.0]);
    assert_eq!(values(&ops::cat(&[a.clone(), a.clone()], 1)?)[..6], [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    let index = Tensor::from_vec(vec![2i64, 0], &[2])?;
    assert_eq!(values(&ops::index_select(&a, 1, &index)?), [2.0, 0.0, 5.0, 3.0]);
    let (sorted, _) = ops::sort(&ops::neg(&a)?, -1, false)?;
    assert_eq!(values(&sorted), [-2.0, -1.0, 0.0, -5.0, -4.0, -3.0]);
    Ok(())
}

#[test]
fn a_slice_is_the_elements_it_names_and_no_others() -> Result<()> {
    let x = Tensor::from_vec((0..24i32).map(|i| i as f32).collect(), &[4, 6])?;
    for t in [x.clone(), ops::transpose_int(&x, 0, 1)?] {
        for (dim, (start, end, step)) in [0, 1]
            .into_iter()
            .flat_map(|d| [(0, 4, 1), (1, 4, 2), (3, 3, 1), (9, 2, 1), (-2, 99, 3)].map(|c| (d, c)))
        {
            let size = t.sizes()[dim];
            let cut = |i: i64| (if i < 0 { i + size } else { i }).clamp(0, size);
            let indices: Vec<i64> = (cut(start)..cut(end)).step_by(step as usize).collect();
            let index = Tensor::from_vec(indices.clone(), &[indices.len() as i64])?;
            let made = ops::slice_tensor(&t, dim as i64, Some(start), Some(end), step)?;
            let expected = ops::index_select(&t, dim as i64, &index)?;
            assert_eq!((made.sizes(), made.numel()), (expected.sizes(), expected.numel()));
            assert_eq!(made.to_vec::<f32>()?, expected.to_vec::<f32>()?);
            assert_eq!(
                made.is_contiguous(),
                flambeau_core::shape::is_contiguous(made.sizes(), made.strides())
            );
        }
    }
    let impl_ = x.impl_();
    for (dim, start, count, step) in
        [(2, 0, 1, 1), (0, -1, 1, 1), (0, 0, -1, 1), (0, 0, 5, 1), (0, 2, 2, 2), (0, 0, 1, 0)]
    {
        assert!(impl_.sliced(dim, start, count, step).is_none(), "{dim} {start} {count} {step}");
    }
    assert!(impl_.sliced(0, 0, i64::MAX, i64::MAX).is_none());
    Ok(())
}
