//! Reductions of complex numbers. Sums, means and cumulative sums are those of the parts; products are computed by halves.

use super::reduced_spec::mask_of;
use crate::native::shape::complex_views::view_as_real;
use crate::native::shape::view;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, shape};

/// Runs `fold` on the parts of `self_`, converted to the type of `out`, and of `out`. The dimensions to reduce do not include that of parts.
pub(super) fn fold_parts(
    name: &str,
    self_: &Tensor,
    dim: Option<&[i64]>,
    out: &Tensor,
    fold: impl FnOnce(&Tensor, &Tensor, DimMask) -> Result<()>,
) -> Result<()> {
    mask_of(name, self_, dim)?;
    let input = converted(self_, out)?;
    if input.dim() == 0 {
        return ops::copy_(out, &input, false);
    }
    // From the front, since the parts have a dimension behind the last.
    let wrap = |d: &i64| shape::wrap_dim(*d, input.dim()).map(|d| d as i64);
    let dims: DimVec = match dim {
        Some(dims) if !dims.is_empty() => dims.iter().map(wrap).collect::<Result<_>>()?,
        _ => (0..input.dim() as i64).collect(),
    };
    fold(&view_as_real(&input)?, &view_as_real(out)?, DimMask::new(Some(&dims), input.dim() + 1)?)
}

/// `self_` in the type of `out`.
fn converted(self_: &Tensor, out: &Tensor) -> Result<Tensor> {
    ops::to_dtype(self_, out.dtype(), false, false, None)
}

/// `length` indices of a dimension from `start` on.
fn narrow(tensor: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    ops::narrow(tensor, dim, start, length)
}

/// The product of all elements, or along a dimension: the first half is multiplied by the second until one is left.
pub(super) fn product(self_: &Tensor, dim: Option<i64>, out: &Tensor) -> Result<()> {
    let input = converted(self_, out)?;
    let (mut left, dim) = match dim {
        Some(dim) if input.dim() > 0 => (input.clone(), shape::wrap_dim(dim, input.dim())? as i64),
        _ => (view::reshape(&input, &[-1])?, 0),
    };
    let mut count = left.size(dim)?;
    if count == 0 {
        return ops::fill__scalar(out, Scalar::Int(1));
    }
    while count > 1 {
        let half = count / 2;
        let products = ops::mul_tensor(&narrow(&left, dim, 0, half)?, &narrow(&left, dim, half, half)?)?;
        if count % 2 == 1 {
            ops::mul__tensor(&narrow(&products, dim, 0, 1)?, &narrow(&left, dim, count - 1, 1)?)?;
        }
        (left, count) = (products, half);
    }
    ops::copy_(out, &view::reshape(&left, out.sizes())?, false)
}

/// The products of the first elements along a dimension, of 1, 2, 4, ... factors each.
pub(super) fn cumulative_product(self_: &Tensor, dim: i64, out: &Tensor) -> Result<()> {
    let mut products = converted(self_, out)?;
    if products.dim() > 0 && products.numel() > 0 {
        let (dim, mut shift) = (shape::wrap_dim(dim, products.dim())? as i64, 1);
        let count = products.size(dim)?;
        while shift < count {
            let next = ops::clone(&products, Some(MemoryFormat::Contiguous))?;
            ops::mul__tensor(
                &narrow(&next, dim, shift, count - shift)?,
                &narrow(&products, dim, 0, count - shift)?,
            )?;
            (products, shift) = (next, 2 * shift);
        }
    }
    ops::copy_(out, &products, false)
}

/// The real and the imaginary parts.
pub(super) fn parts(self_: &Tensor) -> Result<[Tensor; 2]> {
    let both = view_as_real(self_)?;
    Ok([ops::select_int(&both, -1, 0)?, ops::select_int(&both, -1, 1)?])
}
