//! `linalg.norm`, `linalg.matrix_norm` and `renorm`.

use crate::loops::reduce::computing_type;
use crate::ops::options::{AmaxOptions, AminOptions, SumOptions};
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// Two different dimensions, as nonnegative indices.
fn two_dims(self_: &Tensor, dim: &[i64]) -> Result<[i64; 2]> {
    const NAME: &str = "linalg.matrix_norm";
    ensure!(self_.dim() >= 2, Shape(NAME, "self"), "The input tensor A must have at least 2 dimensions.");
    ensure!(
        self_.dtype().is_floating_point() || self_.is_complex(),
        Dtype(NAME, "self"),
        "Expected a floating point or complex tensor as input. Got {}",
        self_.dtype()
    );
    match *crate::native::shape::view::wrap_dims(NAME, dim, self_.dim())? {
        [row, column] => Ok([row as i64, column as i64]),
        _ => bail!(InvalidArgument(NAME, "dim"), "dim must be a 2-tuple. Got {dim:?}"),
    }
}

/// The maximum or, for negative orders, the minimum sum of magnitudes: of columns for order 1, of rows for infinity. For orders 2 and
/// -2, the largest or smallest singular value.
pub fn matrix_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    let [row, column] = two_dims(self_, dim)?;
    let ord = ord.to_f64();
    let (summed, compared) = if ord.abs() == 1.0 { (row, column) } else { (column, row) };
    match ord.abs() {
        1.0 | f64::INFINITY => {}
        2.0 => return norm_by_values(self_, [row, column], Some(ord), keepdim, dtype),
        _ => bail!(InvalidArgument("linalg.matrix_norm", "ord"), "Order {ord} not supported."),
    }
    let sums = ops::linalg_vector_norm(self_, Scalar::Int(1), Some(&[summed]), true, dtype)?;
    let norm = match ord > 0.0 {
        // The maximum of no sums is 0.
        true if sums.size(compared)? == 0 => {
            sums.sum_with(SumOptions::new().dim(&[compared]).keepdim(true))?
        }
        true => sums.amax_with(AmaxOptions::new().dim(&[compared]).keepdim(true))?,
        false => sums.amin_with(AminOptions::new().dim(&[compared]).keepdim(true))?,
    };
    if keepdim { Ok(norm) } else { norm.squeeze_dims(&[row, column]) }
}

/// A norm of singular values: their sum without an order, else the largest or smallest.
fn norm_by_values(
    self_: &Tensor,
    dims: [i64; 2],
    ord: Option<f64>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    if let Some(dtype) = dtype {
        crate::native::reduce::vector_norm::ensure_widens("linalg.matrix_norm", self_.dtype(), dtype)?;
    }
    let converted = ops::to_dtype(self_, dtype.unwrap_or(self_.dtype()), false, false, None)?;
    let norm = super::pinv::norm_of_values(&ops::movedim_intlist(&converted, &dims, &[-2, -1])?, ord)?;
    if !keepdim {
        return Ok(norm);
    }
    let mut dims = dims;
    dims.sort_unstable();
    dims.iter().try_fold(norm, |norm, dim| ops::unsqueeze(&norm, *dim))
}

/// The root of the sum of squares, "fro", or the sum of the singular values, "nuc".
pub fn matrix_norm_named(
    self_: &Tensor,
    ord: &str,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    let dims = two_dims(self_, dim)?;
    match ord {
        "fro" => ops::linalg_vector_norm(self_, Scalar::Int(2), Some(&dims), keepdim, dtype),
        "nuc" => norm_by_values(self_, dims, None, keepdim, dtype),
        _ => bail!(InvalidArgument("linalg.matrix_norm", "ord"), "Order {ord} not supported."),
    }
}

/// The vector norm of a vector or along one dimension, the matrix norm of a matrix or along two; without an order, the root of
/// the sum of squares.
pub fn norm(
    self_: &Tensor,
    ord: Option<Scalar>,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    let Some(ord) = ord else {
        return ops::linalg_vector_norm(self_, Scalar::Int(2), dim, keepdim, dtype);
    };
    let count = dim.map_or(self_.dim(), <[i64]>::len);
    ensure!(
        matches!(count, 1 | 2),
        InvalidArgument("linalg.norm", "self"),
        "If dim is not specified but ord is, the input must be 1D or 2D. Got {count}D."
    );
    if count == 1 {
        return ops::linalg_vector_norm(self_, ord, dim, keepdim, dtype);
    }
    ops::linalg_matrix_norm(self_, ord, dim.unwrap_or(&[0, 1]), keepdim, dtype)
}

/// [`norm`] with an order by name, which is that of a matrix norm.
pub fn norm_named(
    self_: &Tensor,
    ord: &str,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    let fits = dim.map_or(self_.dim(), <[i64]>::len) == 2;
    ensure!(
        fits,
        InvalidArgument("linalg.norm", "dim"),
        "If dim is specified, it must be of length 2 for a matrix norm."
    );
    ops::linalg_matrix_norm_str_ord(self_, ord, dim.unwrap_or(&[0, 1]), keepdim, dtype)
}

/// `self_` with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.
pub fn renorm(self_: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    const NAME: &str = "renorm";
    ensure!(p.to_f64() > 0.0, InvalidArgument(NAME, "p"), "non-positive-norm not supported");
    ensure!(
        maxnorm.to_f64() >= 0.0,
        InvalidArgument(NAME, "maxnorm"),
        "expected maxnorm to be >= 0 but got {maxnorm}"
    );
    let rank = self_.dim();
    ensure!(rank > 1, Shape(NAME, "self"), "input needs at least 2 dimensions, got {rank} dimensions");
    let d = shape::wrap_dim(dim, rank).map_err(|e| e.in_operator(NAME))?;
    let others: DimVec = (0..rank as i64).filter(|other| *other != d as i64).collect();
    let wide = computing_type(self_.dtype());
    let norm = ops::linalg_vector_norm(self_, p, Some(&others), true, Some(wide))?;
    // PyTorch's 1e-7 prevents a division by 0.
    let down = norm.add_scalar(1e-7)?.reciprocal()?.mul_scalar(maxnorm)?;
    let factor = ops::where_scalarother(&norm.gt_scalar(maxnorm)?, &down, Scalar::Int(1))?;
    ops::contiguous(&self_.mul(&factor.to(self_.dtype())?)?, MemoryFormat::Contiguous)
}
