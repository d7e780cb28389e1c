//! Operands that are passed by value (`a * &b`): their buffers are not reused while the call is recorded or has tangents.

use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
use flambeau_autograd::{Autograd, inference_mode, no_grad};
use flambeau_core::{Result, ScalarType};
use flambeau_ops::Tensor;

const N: i64 = 40_000;

fn large(seed: i64) -> Result<Tensor> {
    Tensor::arange_start(seed, seed + N, ScalarType::F32)?.sin()
}

#[test]
fn what_is_recorded_keeps_its_operands() -> Result<()> {
    let (x, w) = (large(1)?, large(2)?);
    w.requires_grad_(true)?;
    let kept = (&x * 2)?;
    let at = kept.data_ptr();
    let product = (kept * &w)?;
    assert_ne!(product.data_ptr(), at);
    // The buffer of the product could be reused; both factors of the square are saved.
    let y = (product * 3 + &x)?;
    let square = (y.clone() * y)?;
    square.sum()?.backward()?;
    let by_methods = {
        let v = w.detach()?;
        v.requires_grad_(true)?;
        let y = x.mul_scalar(2)?.mul(&v)?.mul_scalar(3)?.add(&x)?;
        y.mul(&y)?.sum()?.backward()?;
        v.grad()
    };
    let values = |t: Option<Tensor>| t.map(|t| t.to_vec::<f32>()).transpose();
    assert_eq!(values(w.grad())?, values(by_methods)?);
    Ok(())
}

#[test]
fn without_recording_weights_take_part() -> Result<()> {
    let (x, w) = (large(1)?, large(2)?);
    w.requires_grad_(true)?;
    let _guard = no_grad();
    let temporary = (&x * 2)?;
    let at = temporary.data_ptr();
    let result = (temporary * &w)?;
    assert!(result.data_ptr() == at && !result.requires_grad());
    Ok(())
}

#[test]
fn a_tensor_of_inference_mode_does_not_become_another() -> Result<()> {
    let x = large(1)?;
    let temporary = {
        let _guard = inference_mode();
        (&x * 2)?
    };
    let result = (temporary + 1)?;
    assert!(!result.is_inference());
    let _guard = inference_mode();
    let temporary = (&x * 2)?;
    let at = temporary.data_ptr();
    let result = (temporary + 1)?;
    assert!(result.data_ptr() == at && result.is_inference());
    Ok(())
}

#[test]
fn what_carries_a_tangent_is_not_written_over() -> Result<()> {
    let _level = dual_level()?;
    let (x, along) = (large(1)?, large(2)?);
    let dual = make_dual(&x, &along)?;
    let temporary = (&x * 2)?;
    let at = temporary.data_ptr();
    let product = (temporary * &dual)?;
    assert_ne!(product.data_ptr(), at);
    let (value, tangent) = unpack_dual(&product)?;
    let tangents = tangent.map(|t| t.to_vec::<f32>()).transpose()?;
    assert_eq!(tangents, Some(x.mul_scalar(2)?.mul(&along)?.to_vec::<f32>()?));
    assert_eq!(value.to_vec::<f32>()?, x.mul_scalar(2)?.mul(&x)?.to_vec::<f32>()?);
    Ok(())
}
