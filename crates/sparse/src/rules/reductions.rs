//! Reductions. Elements that are not stored count as 0.

use super::copies::with_values;
use super::{rules, unsupported};
use crate::convert::coo_of;
use crate::dense::{cast, reshape};
use crate::functions::{softmax, sum, sum_dim};
use flambeau_core::{Result, Scalar, ScalarType, ensure};
use flambeau_ops::{Tensor, ops};

/// The values that elements are stored with, each once.
fn elements(tensor: &Tensor) -> Result<Tensor> {
    Ok(coo_of(tensor)?.coalesced()?.values)
}

/// A norm of all elements, for which zeros do not matter.
fn norm(tensor: &Tensor, p: Scalar) -> Result<Tensor> {
    if p.to_f64() < 0.0 || p.to_f64().is_nan() {
        return unsupported("norm", tensor, "zeros decide on a norm of negative order");
    }
    let values = elements(tensor)?;
    // A maximum over no elements is 0, since all that are not stored are.
    let empty = values.numel() == 0;
    let values = if empty { crate::dense::zeros(&[1], &values)? } else { values };
    ops::norm_scalar(&values, p)
}

/// A norm of all elements, computed in another type if one is given, without or with dimensions of size 1.
fn norm_of_all(
    name: &str,
    tensor: &Tensor,
    p: Scalar,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    ensure!(
        dim.is_empty(),
        NotImplemented(name, "dim"),
        "norms of a tensor of layout {} along dimensions are not implemented; call `to_dense()` first",
        tensor.layout()
    );
    let made = match dtype {
        Some(dtype) => norm(&with_values(tensor, |values| cast(values, dtype))?, p)?,
        None => norm(tensor, p)?,
    };
    if keepdim { reshape(&made, &vec![1; tensor.dim()]) } else { Ok(made) }
}

fn mean(tensor: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(tensor.dtype());
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        Dtype("mean", "dtype"),
        "expected a floating point or complex type but got {dtype}"
    );
    // A sum of many elements may be too large for the types of 16 bits where the mean is not.
    let wide = if matches!(dtype, ScalarType::F16 | ScalarType::BF16) { ScalarType::F32 } else { dtype };
    let total = sum(tensor, Some(wide))?;
    cast(&ops::div_scalar(&total, Scalar::Int(tensor.numel()))?, dtype)
}

/// `softmax` along a dimension, of the stored elements.
fn softmax_rule(tensor: &Tensor, dim: i64, is_log: bool) -> Result<Tensor> {
    if is_log { crate::log_softmax(tensor, dim, None) } else { softmax(tensor, dim, None) }
}

/// Whether any element is not 0.
fn any(tensor: &Tensor) -> Result<Tensor> {
    ops::any(&elements(tensor)?)
}

rules! {
    SUM => |_, tensor, dtype| sum(tensor, dtype);
    SUM_DIM_INTLIST => |_, tensor, dim, keepdim, dtype| sum_dim(tensor, dim.unwrap_or(&[]), keepdim, dtype);
    MEAN => |_, tensor, dtype| mean(tensor, dtype);
    NORM_SCALAR => |_, tensor, p| norm(tensor, p);
    NORM_SCALAROPT_DIM => |_, tensor, p, dim, keepdim| {
        norm_of_all("norm", tensor, p.unwrap_or(Scalar::Int(2)), dim, keepdim, None)
    };
    LINALG_VECTOR_NORM => |_, tensor, p, dim, keepdim, dtype| {
        norm_of_all("vector_norm", tensor, p, dim.unwrap_or(&[]), keepdim, dtype)
    };
    ANY => |_, tensor| any(tensor);
    _SOFTMAX => |_, tensor, dim, _| softmax_rule(tensor, dim, false);
    _LOG_SOFTMAX => |_, tensor, dim, _| softmax_rule(tensor, dim, true);
}
