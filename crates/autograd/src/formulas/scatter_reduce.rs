//! Derivatives of `scatter` and `scatter_reduce`.

use super::reductions::shifted;
use crate::factory::zeros;
use flambeau_core::{DimVec, Error, ErrorKind, Result, Scalar, ScalarType, shape};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

/// The part of `src` that a scatter with an index of `sizes` reads.
fn used(src: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let cut =
        |src: Tensor, (d, size): (usize, &i64)| ops::slice_tensor(&src, d as i64, Some(0), Some(*size), 1);
    sizes.iter().enumerate().try_fold(src.clone(), cut)
}

/// The gradient of the part that was read, padded with zeros to the gradient of a `src` of `sizes`.
fn whole(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if grad.sizes() == sizes {
        return Ok(grad.clone());
    }
    let missing = |d: usize| [0, sizes[d] - grad.sizes()[d]];
    let pad: DimVec = (0..sizes.len()).rev().flat_map(missing).collect();
    ops::constant_pad_nd(grad, &pad, ZERO)
}

/// The gradient of the source of a scatter that adds or assigns.
pub fn scatter_source_backward(grad: &Tensor, dim: i64, index: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    whole(&ops::gather(grad, dim, index, false)?, sizes)
}

/// The gradients of `self` and `src` of a scatter that reduces.
///
/// # Errors
/// `NotImplemented` for a reduction that has no kernel either.
#[expect(clippy::too_many_arguments, reason = "those of the operator and its result")]
pub fn scatter_reduce_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let visible = |t: Tensor| if include_self { Ok(t) } else { ops::scatter_value(&t, dim, index, ZERO) };
    if index.numel() == 0 {
        return Ok((grad.clone(), zeros(src.sizes(), grad)?));
    }
    let part = &used(src, index.sizes())?;
    let (grad_self, grad_part) = match reduce {
        "sum" | "add" => (visible(grad.clone())?, ops::gather(grad, dim, index, false)?),
        "mean" => {
            let one = ops::ones(&[], Some(grad.dtype()), None, Some(grad.device()), None)?;
            let ones = |sizes: &[i64]| ops::expand(&one, sizes, false);
            let counts = ops::scatter_add(&visible(ones(grad.sizes())?)?, dim, index, &ones(index.sizes())?)?;
            let share = ops::div_tensor(grad, &counts)?;
            (visible(share.clone())?, ops::gather(&share, dim, index, false)?)
        }
        "amax" | "amin" => {
            let number = |hit: Tensor| ops::to_dtype(&hit, grad.dtype(), false, false, None);
            let hit = |x: &Tensor, extreme: &Tensor| {
                number(ops::logical_or(&ops::eq_tensor(x, extreme)?, &ops::isnan(x)?)?)
            };
            let own = visible(hit(self_, result)?)?;
            let theirs = hit(part, &ops::gather(result, dim, index, false)?)?;
            let share = ops::div_tensor(grad, &ops::scatter_add(&own, dim, index, &theirs)?)?;
            let given = ops::gather(&share, dim, index, false)?;
            (ops::mul_tensor(&own, &share)?, ops::mul_tensor(&theirs, &given)?)
        }
        "prod" | "multiply" => {
            // Without `include_self` the elements of `self` that are written count as 1.
            let counted = if include_self { self_ } else { &ops::scatter_value(self_, dim, index, ONE)? };
            let (own, theirs) = match vector_of(index, dim, self_.sizes())? {
                Some(vector) => slice_products_backward(grad, counted, dim, &vector, part)?,
                None => products_backward(grad, counted, dim, index, part)?,
            };
            (visible(own)?, theirs)
        }
        other => {
            let message = format!("the derivative of scatter_reduce is not implemented for reduce={other:?}");
            return Err(Error::new(ErrorKind::NotImplemented, message));
        }
    };
    Ok((grad_self, whole(&grad_part, src.sizes())?))
}

/// The indices as a vector, if they are expanded to all elements of the slices, as `index_reduce` does.
fn vector_of(index: &Tensor, dim: i64, sizes: &[i64]) -> Result<Option<Tensor>> {
    if index.dim() == 0 || index.dim() != sizes.len() || is_batched(index) {
        return Ok(None);
    }
    let d = shape::wrap_dim(dim, index.dim())?;
    let others = || (0..index.dim()).filter(move |other| *other != d);
    let is_expanded =
        |d: usize| index.sizes()[d] == sizes[d] && (index.sizes()[d] == 1 || index.strides()[d] == 0);
    if !others().all(is_expanded) {
        return Ok(None);
    }
    let first = |t: Tensor, d: usize| ops::slice_tensor(&t, d as i64, Some(0), Some(1), 1);
    Ok(Some(ops::reshape(&others().try_fold(index.clone(), first)?, &[-1])?))
}

/// As [`products_backward`], where `index` is a vector of indices of slices: only these slices are read.
fn slice_products_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let (sorted, order) = ops::sort_stable(index, Some(true), 0, false)?;
    let factors = ops::index_select(src, dim, &order)?;
    let along = |t: &Tensor| -> Result<Tensor> {
        let mut sizes = DimVec::from_elem(1, src.dim());
        sizes[shape::wrap_dim(dim, src.dim())?] = t.numel();
        ops::expand(&ops::view(t, &sizes)?, factors.sizes(), false)
    };
    let (is_first, is_last) = ends_of_runs(&sorted)?;
    let (begins, follows) = (&along(&is_first)?, &along(&ops::logical_not(&is_first)?)?);
    let ends = along(&ops::to_dtype(&is_last, grad.dtype(), false, false, None)?)?;
    let linked = |t: &Tensor| ops::masked_fill_scalar(t, begins, ZERO);
    let only_first = |t: &Tensor| ops::masked_fill_scalar(t, follows, ZERO);

    let own = ops::index_select(self_, dim, &sorted)?;
    let before =
        ops::_linear_recurrence(&linked(&shifted(&factors, dim, ONE)?)?, &only_first(&own)?, dim, false)?;
    let after = ops::_linear_recurrence(&linked(&factors)?, &ends, dim, true)?;

    let given = ops::index_select(grad, dim, &sorted)?;
    let of_own = only_first(&ops::mul_tensor(&given, &ops::mul_tensor(&factors, &after)?)?)?;
    let grad_self =
        ops::index_add(&ops::index_fill_int_scalar(grad, dim, index, ZERO)?, dim, &sorted, &of_own, ONE)?;
    let of_src = ops::mul_tensor(&given, &ops::mul_tensor(&before, &after)?)?;
    Ok((grad_self, ops::index_copy(&zeros(src.sizes(), &of_src)?, dim, &order, &of_src)?))
}

/// For each element of a sorted vector whether it is the first and whether it is the last one of its value.
fn ends_of_runs(sorted: &Tensor) -> Result<(Tensor, Tensor)> {
    let is_first = ops::ne_tensor(sorted, &shifted(sorted, 0, Scalar::Int(-1))?)?;
    let next = ops::slice_tensor(&is_first, 0, Some(1), None, 1)?;
    let is_last = ops::constant_pad_nd(&next, &[0, 1], ONE)?;
    Ok((is_first, is_last))
}

/// The gradients of the factors of products, of which there is one for each element of `self_`: the gradients of `self_`, and those of
/// `src`, which has the sizes of `index`. The factors are sorted by the offset of the element of `self_` that they are multiplied to.
/// Then the product of the other factors of an element is the cumulative product before the factor times the one after it, and zeros
/// need no special case.
fn products_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let flat = |t: &Tensor| ops::reshape(t, &[-1]);
    let numel = self_.numel();
    let own = ops::arange(Scalar::Int(numel), Some(ScalarType::I64), None, Some(grad.device()), None)?;
    let theirs = ops::gather(&ops::view(&own, self_.sizes())?, dim, index, false)?;
    let (offsets, order) = ops::sort_stable(&ops::cat(&[own, flat(&theirs)?], 0)?, Some(true), 0, false)?;
    let factors = ops::index_select(&ops::cat(&[flat(self_)?, flat(src)?], 0)?, 0, &order)?;

    let (begins, ends) = &ends_of_runs(&offsets)?;
    let one = |t: &Tensor| ops::to_dtype(t, grad.dtype(), false, false, None);
    let linked = |t: &Tensor| ops::masked_fill_scalar(t, begins, ZERO);
    let before = ops::_linear_recurrence(&linked(&shifted(&factors, 0, ONE)?)?, &one(begins)?, 0, false)?;
    let after = ops::_linear_recurrence(&linked(&factors)?, &one(ends)?, 0, true)?;

    let given = ops::index_select(&flat(grad)?, 0, &offsets)?;
    let sorted = ops::mul_tensor(&given, &ops::mul_tensor(&before, &after)?)?;
    let all = ops::index_copy(&zeros(sorted.sizes(), &sorted)?, 0, &order, &sorted)?;
    let cut = |from: i64, to: i64, sizes: &[i64]| {
        ops::reshape(&ops::slice_tensor(&all, 0, Some(from), Some(to), 1)?, sizes)
    };
    Ok((cut(0, numel, self_.sizes())?, cut(numel, all.numel(), index.sizes())?))
}
