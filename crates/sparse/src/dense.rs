//! Operators on strided tensors with the arguments that rules need, so that formulas read as such.

use flambeau_core::{Device, DimVec, Result, Scalar, ScalarType, shape};
use flambeau_ops::{Tensor, ops};

pub(crate) const ONE: Scalar = Scalar::Int(1);

pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add_tensor(a, b, ONE)
}

pub(crate) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::mul_tensor(a, b)
}

/// `tensor * factor`, or the tensor itself where the factor is 1.
pub(crate) fn scaled(tensor: &Tensor, factor: Scalar) -> Result<Tensor> {
    if !factor.is_complex() && factor.to_f64() == 1.0 {
        return Ok(tensor.clone());
    }
    ops::mul_scalar(tensor, factor)
}

pub(crate) fn reshape(tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ops::reshape(tensor, sizes)
}

/// The slices of the first dimension at these indices.
pub(crate) fn rows(tensor: &Tensor, index: &Tensor) -> Result<Tensor> {
    ops::index_select(tensor, 0, index)
}

pub(crate) fn slice(tensor: &Tensor, dim: i64, start: i64, end: i64) -> Result<Tensor> {
    ops::slice_tensor(tensor, dim, Some(start), Some(end), 1)
}

/// `0..count` as int64.
pub(crate) fn arange(count: i64, device: Device) -> Result<Tensor> {
    ops::arange(Scalar::Int(count), Some(ScalarType::I64), None, Some(device), None)
}

/// A list of int64.
pub(crate) fn long(values: &[i64], device: Device) -> Result<Tensor> {
    let host = Tensor::from_vec(values.to_vec(), &[values.len() as i64])?;
    ops::to_dtype_layout(&host, None, None, Some(device), None, false, false, None)
}

pub(crate) fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    ops::zeros(sizes, Some(like.dtype()), None, Some(like.device()), None)
}

/// `tensor` as `dtype`; itself if it has that type.
pub(crate) fn cast(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    ops::to_dtype(tensor, dtype, false, false, None)
}

/// The same bits as int64.
pub(crate) fn as_long(tensor: &Tensor) -> Result<Tensor> {
    cast(tensor, ScalarType::I64)
}

pub(crate) fn floor_divided(tensor: &Tensor, divisor: i64) -> Result<Tensor> {
    ops::floor_divide_scalar(tensor, Scalar::Int(divisor.max(1)))
}

pub(crate) fn remainder(tensor: &Tensor, divisor: i64) -> Result<Tensor> {
    ops::remainder_scalar(tensor, Scalar::Int(divisor.max(1)))
}

/// The indices where a mask of one dimension is true.
pub(crate) fn positions(mask: &Tensor) -> Result<Tensor> {
    reshape(&ops::nonzero(mask)?, &[-1])
}

/// Row-major strides of sizes. Those that overflow belong to tensors without elements.
pub(crate) fn row_major(sizes: &[i64]) -> DimVec {
    let mut strides = DimVec::from_elem(1, sizes.len());
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1].saturating_mul(sizes[d + 1].max(1));
    }
    strides
}

/// The coordinates of row-major indices in a tensor of `sizes`, a row for each dimension.
pub(crate) fn unraveled(linear: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if sizes.is_empty() {
        return ops::zeros(&[0, linear.numel()], Some(ScalarType::I64), None, Some(linear.device()), None);
    }
    let strides = row_major(sizes);
    let row = |d: usize| remainder(&floor_divided(linear, strides[d])?, sizes[d]);
    let rows: Vec<Tensor> = (0..sizes.len()).map(row).collect::<Result<_>>()?;
    ops::stack(&rows, 0)
}

/// The row-major indices of coordinates, a row of `indices` for each dimension of `sizes`.
pub(crate) fn raveled(indices: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let strides = reshape(&long(&row_major(sizes), indices.device())?, &[-1, 1])?;
    ops::sum_dim_intlist(&mul(indices, &strides)?, Some(&[0]), false, None)
}

/// The product of sizes.
pub(crate) fn product(sizes: &[i64]) -> Result<i64> {
    shape::numel(sizes)
}

/// Sizes, one list after the other.
pub(crate) fn joined(lists: &[&[i64]]) -> DimVec {
    lists.iter().flat_map(|list| list.iter().copied()).collect()
}
