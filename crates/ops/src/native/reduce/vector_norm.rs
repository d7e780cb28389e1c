//! Norms of vectors: `(sum |x|^p)^(1/p)` and its limits.

use super::reduced_spec::{mask_of, reduced_spec};
use crate::loops::reduce::{
    Epilogue, MaxMagnitude, MinMagnitude, Nonzeros, SumOfMagnitudes, SumOfPowers, SumOfSquares,
};
use crate::loops::reduce::{computing_type, float_fold, sum_fold};
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

/// Shape and type of [`linalg_vector_norm`].
pub fn linalg_vector_norm_meta(
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<TensorSpec> {
    const NAME: &str = "linalg.vector_norm";
    let own = self_.dtype();
    ensure!(
        own.is_differentiable(),
        Dtype(NAME, "self"),
        "Expected a floating point or complex tensor as input. Got {own}"
    );
    if let Some(dtype) = dtype {
        ensure_widens(NAME, own, dtype)?;
    }
    check_has_norm(self_, ord.to_f64(), dim)?;
    reduced_spec(NAME, self_, dim, keepdim, dtype.unwrap_or(own).to_real())
}

/// Refuses a dtype for the computation that is not at least as wide as that of the input, or not real or complex like that.
pub(crate) fn ensure_widens(name: &str, own: ScalarType, dtype: ScalarType) -> Result<()> {
    ensure!(
        dtype.is_complex() == own.is_complex()
            && dtype.is_differentiable()
            && own.promote(dtype) == Some(dtype),
        Dtype(name, "dtype"),
        "the dtype of the input ({own}) should be convertible without narrowing to the specified dtype ({dtype})"
    );
    Ok(())
}

/// Refuses norms of no elements that have no identity: those of negative or infinite order.
fn check_has_norm(self_: &Tensor, ord: f64, dim: Option<&[i64]>) -> Result<()> {
    let mask = mask_of("linalg.vector_norm", self_, dim)?;
    ensure!(
        self_.numel() != 0 || (ord >= 0.0 && ord != f64::INFINITY) || mask.count(self_.sizes()) != 0,
        InvalidArgument,
        operator = "linalg.vector_norm",
        argument = "self",
        "linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity"
    );
    Ok(())
}

/// The norm along dimensions.
pub fn linalg_vector_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    _keepdim: bool,
    _dtype: Option<ScalarType>,
    out: &Tensor,
) -> Result<()> {
    let sizes = if self_.dtype().is_complex() { Some(ops::abs(self_)?) } else { None };
    let self_ = sizes.as_ref().unwrap_or(self_);
    let mask = mask_of("linalg.vector_norm", self_, dim)?;
    let kernel = computing_type(out.dtype());
    match ord.to_f64() {
        0.0 => sum_fold(self_, out, mask, kernel, Nonzeros, Epilogue::Identity),
        1.0 => float_fold(self_, out, mask, kernel, SumOfMagnitudes, Epilogue::Identity),
        2.0 => sum_fold(self_, out, mask, kernel, SumOfSquares, Epilogue::Sqrt),
        p if p == f64::INFINITY => float_fold(self_, out, mask, kernel, MaxMagnitude, Epilogue::Identity),
        p if p == f64::NEG_INFINITY => float_fold(self_, out, mask, kernel, MinMagnitude, Epilogue::Identity),
        p => float_fold(self_, out, mask, kernel, SumOfPowers(p), Epilogue::Power(1.0 / p)),
    }
}

fn check_norm_dtype(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype().is_differentiable(),
        Dtype,
        operator = "norm",
        argument = "self",
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        self_.dtype()
    );
    Ok(())
}

/// The norm of all elements.
pub fn norm(self_: &Tensor, p: Scalar) -> Result<Tensor> {
    check_norm_dtype(self_)?;
    ops::linalg_vector_norm(self_, p, None, false, None)
}

/// The norm of all elements, computed in another type.
pub fn norm_dtype(self_: &Tensor, p: Option<Scalar>, dtype: ScalarType) -> Result<Tensor> {
    check_norm_dtype(self_)?;
    ops::linalg_vector_norm(self_, p.unwrap_or(Scalar::Int(2)), None, false, Some(dtype))
}

/// Shape and type of [`norm_dim`].
pub fn norm_dim_meta(self_: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool) -> Result<TensorSpec> {
    check_norm_dtype(self_)?;
    linalg_vector_norm_meta(self_, p.unwrap_or(Scalar::Int(2)), Some(dim), keepdim, None)
}

/// The norm along dimensions.
pub fn norm_dim(self_: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool, out: &Tensor) -> Result<()> {
    linalg_vector_norm(self_, p.unwrap_or(Scalar::Int(2)), Some(dim), keepdim, None, out)
}

/// Shape and type of [`norm_dim_dtype`].
pub fn norm_dim_dtype_meta(
    self_: &Tensor,
    p: Option<Scalar>,
    dim: &[i64],
    keepdim: bool,
    dtype: ScalarType,
) -> Result<TensorSpec> {
    check_norm_dtype(self_)?;
    linalg_vector_norm_meta(self_, p.unwrap_or(Scalar::Int(2)), Some(dim), keepdim, Some(dtype))
}

/// The norm along dimensions, computed in another type.
pub fn norm_dim_dtype(
    self_: &Tensor,
    p: Option<Scalar>,
    dim: &[i64],
    keepdim: bool,
    dtype: ScalarType,
    out: &Tensor,
) -> Result<()> {
    linalg_vector_norm(self_, p.unwrap_or(Scalar::Int(2)), Some(dim), keepdim, Some(dtype), out)
}
