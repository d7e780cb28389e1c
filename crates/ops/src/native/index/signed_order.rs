//! Unsigned integers wider than a byte as i64 of the same order, for operators that sort.

use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType};

/// The elements of an unsigned type as i64 in the same order.
pub(super) fn to_signed(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        ScalarType::U64 => with_flipped_sign(&ops::view_dtype(tensor, ScalarType::I64)?),
        _ => tensor.to(ScalarType::I64),
    }
}

/// The elements of type `dtype` of which these are the [`to_signed`].
pub(super) fn from_signed(signed: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    match dtype {
        ScalarType::U64 => ops::view_dtype(&with_flipped_sign(signed)?, dtype),
        _ => signed.to(dtype),
    }
}

fn with_flipped_sign(tensor: &Tensor) -> Result<Tensor> {
    ops::bitwise_xor_scalar(tensor, Scalar::Int(i64::MIN))
}
