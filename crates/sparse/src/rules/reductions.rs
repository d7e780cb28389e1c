//! Reductions. Elements that are not stored count as 0.

use super::copies::with_values;
use super::{rules, unsupported};
use crate::convert::coo_of;
use crate::functions::{softmax, sum, sum_dim};
use flambeau_core::{Result, Scalar, ensure};
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

fn norm_of_all(name: &str, tensor: &Tensor, p: Scalar, dim: &[i64]) -> Result<Tensor> {
    ensure!(
        dim.is_empty(),
        NotImplemented(name, "dim"),
        "norms of a tensor of layout {} along dimensions are not implemented; call `to_dense()` first",
        tensor.layout()
    );
    norm(tensor, p)
}

fn mean(tensor: &Tensor) -> Result<Tensor> {
    ops::div_scalar(&sum(tensor, None)?, Scalar::Int(tensor.numel()))
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
    MEAN => |_, tensor, dtype| match dtype {
        None => mean(tensor),
        Some(dtype) => mean(&with_values(tensor, |values| crate::dense::cast(values, dtype))?),
    };
    NORM_SCALAR => |_, tensor, p| norm(tensor, p);
    NORM_SCALAROPT_DIM => |_, tensor, p, dim, _| norm_of_all("norm", tensor, p.unwrap_or(Scalar::Int(2)), dim);
    LINALG_VECTOR_NORM => |_, tensor, p, dim, _, _| norm_of_all("vector_norm", tensor, p, dim.unwrap_or(&[]));
    ANY => |_, tensor| any(tensor);
    _SOFTMAX => |_, tensor, dim, _| softmax_rule(tensor, dim, false);
    _LOG_SOFTMAX => |_, tensor, dim, _| softmax_rule(tensor, dim, true);
}
