//! Buffer reuse: when the result is written over a donated operand, and that the result is the same.

use flambeau_core::{IntrusivePtr, Result, ScalarType};
use flambeau_ops::{Tensor, ops};

const ROWS: i64 = 200;
const COLUMNS: i64 = 300;

/// Large enough for its memory to be reused; different elements for each `seed`.
fn large(seed: i64) -> Tensor {
    let numbers = Tensor::arange_start(seed, seed + ROWS * COLUMNS, ScalarType::F32).unwrap();
    let floats = ops::remainder_scalar(&numbers, 37.into()).unwrap();
    floats.add_scalar(0.5).unwrap().view(&[ROWS, COLUMNS]).unwrap()
}

fn address(t: &Tensor) -> *mut u8 {
    t.data_ptr()
}

/// A new tensor with one handle, and the address of its elements.
fn fresh(seed: i64) -> (Tensor, *mut u8) {
    let t = ops::clone(&large(seed), None).unwrap();
    let at = address(&t);
    (t, at)
}

fn assert_same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    assert_eq!(a.strides(), b.strides());
    assert_eq!(a.dtype(), b.dtype());
    assert_eq!(a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
}

#[test]
fn the_memory_of_an_operand_given_away_takes_the_result() -> Result<()> {
    let (row, column) = (large(5).select(0, 3)?, large(7).narrow(1, 0, 1)?.contiguous()?);
    for other in [large(3), row, column] {
        let (a, at) = fresh(1);
        let result = (a - &other)?;
        assert_eq!(address(&result), at, "{:?}", other.sizes());
        assert_same(&result, &ops::sub_tensor(&large(1), &other, 1.into())?);
        let (b, at) = fresh(2);
        let result = (&other / b)?;
        assert_eq!(address(&result), at);
        assert_same(&result, &ops::div_tensor(&other, &large(2))?);
    }
    let (a, at) = fresh(1);
    let result = (2 * a)?;
    assert_eq!(address(&result), at);
    assert_same(&result, &large(1).mul_scalar(2)?);
    let ((a, at), (b, _)) = (fresh(1), fresh(2));
    let result = (a * b)?;
    assert_eq!(address(&result), at);
    assert_same(&result, &large(1).mul(&large(2))?);
    Ok(())
}

#[test]
fn the_temporaries_of_a_chain_are_one() -> Result<()> {
    let (a, b) = (large(1), large(2));
    let first = (&a * &b)?;
    let at = address(&first);
    let result = ((first + &a - (3 * &b)?)? / 2)?;
    assert_eq!(address(&result), at);
    let expected = a.mul(&b)?.add(&a)?.sub(&b.mul_scalar(3)?)?.mul_scalar(0.5)?;
    assert_same(&result, &expected);
    Ok(())
}

#[test]
fn elements_that_somebody_else_sees_stay() -> Result<()> {
    let before = large(1).to_vec::<f32>()?;
    let see = |name: &str, keep: &dyn Fn(&Tensor) -> Result<Tensor>| -> Result<()> {
        let (a, at) = fresh(1);
        let kept = keep(&a)?;
        let result = (a + 1)?;
        assert_ne!(address(&result), at, "{name}");
        assert_eq!(kept.to_vec::<f32>()?, before, "{name}");
        assert_same(&result, &large(1).add_scalar(1)?);
        Ok(())
    };
    see("a handle", &|a| Ok(a.clone()))?;
    see("a view", &|a| a.view(&[ROWS * COLUMNS]))?;
    let (a, at) = fresh(1);
    let (weak, bytes) = (IntrusivePtr::downgrade(a.impl_()), a.storage().downgrade());
    let result = (a + 1)?;
    assert_ne!(address(&result), at);
    assert!(weak.upgrade().is_none() && bytes.upgrade().is_none());
    Ok(())
}

#[test]
fn memory_that_must_not_move_is_not_taken() -> Result<()> {
    let (a, at) = fresh(1);
    a.storage().pin()?;
    assert_ne!(address(&(a + 1)?), at);
    Ok(())
}

#[test]
fn a_result_of_another_look_is_made_anew() -> Result<()> {
    let wide = ops::to_dtype(&large(2), ScalarType::F64, false, false, None)?;
    let (a, at) = fresh(1);
    let result = (a * &wide)?;
    assert_eq!(result.dtype(), ScalarType::F64);
    assert_ne!(address(&result), at);

    let (a, at) = fresh(1);
    let deep = large(2).view(&[1, ROWS, COLUMNS])?;
    let result = (a * &deep)?;
    assert_eq!((result.sizes(), address(&result) == at), (&[1, ROWS, COLUMNS][..], false));

    let (a, at) = fresh(1);
    let transposed = large(2).view(&[COLUMNS, ROWS])?.t()?;
    let result = (a * &transposed)?;
    assert_ne!(address(&result), at);
    assert_same(&result, &large(1).mul(&transposed)?);

    let whole = ops::to_dtype(&large(1), ScalarType::I64, false, false, None)?;
    let at = address(&whole);
    let result = (whole / 2)?;
    assert_eq!(result.dtype(), ScalarType::F32);
    assert_ne!(address(&result), at);
    Ok(())
}

#[test]
fn a_refused_call_is_refused_as_ever() {
    let (a, _) = fresh(1);
    let error = (a + Tensor::from([1.0f32, 2.0])).unwrap_err().to_string();
    let expected = large(1).add(&Tensor::from([1.0f32, 2.0])).unwrap_err().to_string();
    assert_eq!(error, expected);
}
