//! Derivatives of reductions and of cumulative sums and products.

use super::complex::conjugate;
use crate::factory::zeros;
use flambeau_core::{DimVec, Result, Scalar, shape};
use flambeau_ops::{Tensor, ops};

/// The gradient of a sum over `dim` (all dimensions where there are none) of a tensor of `sizes`.
pub fn sum_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let dims = dim.unwrap_or(&[]);
    if keepdim || dims.is_empty() || sizes.is_empty() {
        return ops::expand(grad, sizes, false);
    }
    let mut kept = DimVec::from_slice(sizes);
    for dim in dims {
        kept[shape::wrap_dim(*dim, sizes.len())?] = 1;
    }
    ops::expand(&ops::reshape(grad, &kept)?, sizes, false)
}

/// The gradient of a mean over `dim` (all dimensions where there are none) of a tensor of `sizes`.
pub fn mean_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let expanded = sum_backward(grad, sizes, dim, keepdim)?;
    let count = shape::numel(sizes)? as f64 / (grad.numel() as f64).max(1.0);
    ops::mul_scalar(&expanded, Scalar::Float(1.0 / count))
}

/// A tensor that was reduced over `dim` (all dimensions where there are none) from `sizes`, with the reduced dimensions inserted
/// again with size 1.
pub fn restored_dims(tensor: &Tensor, sizes: &[i64], dim: &[i64], keepdim: bool) -> Result<Tensor> {
    if keepdim || sizes.is_empty() {
        return Ok(tensor.clone());
    }
    let mut kept = DimVec::from_slice(sizes);
    if dim.is_empty() {
        kept.fill(1);
    }
    for d in dim {
        kept[shape::wrap_dim(*d, sizes.len())?] = 1;
    }
    ops::reshape(tensor, &kept)
}

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

/// `tensor` converted to the dtype of `like`, or, if it is complex and `like` is not, to the complex dtype of that precision.
fn converted(tensor: &Tensor, like: &Tensor) -> Result<Tensor> {
    let dtype = if tensor.is_complex() { like.dtype().to_complex() } else { like.dtype() };
    ops::to_dtype(tensor, dtype, false, false, None)
}

/// `tensor` with elements of `value` added in front of and behind those of a dimension, or, for negative numbers, cut off.
fn padded(tensor: &Tensor, dim: i64, [front, back]: [i64; 2], value: Scalar) -> Result<Tensor> {
    let from_last = tensor.dim() - 1 - shape::wrap_dim(dim, tensor.dim())?;
    let mut pad = DimVec::from_elem(0, 2 * from_last);
    pad.extend([front, back]);
    ops::constant_pad_nd(tensor, &pad, value)
}

/// `[first, x[0], x[1], ..]`, as long as `x`.
pub(super) fn shifted(x: &Tensor, dim: i64, first: Scalar) -> Result<Tensor> {
    if x.dim() == 0 {
        return ops::full_like(x, first, None, None, None, None, None);
    }
    if x.numel() == 0 { Ok(x.clone()) } else { padded(x, dim, [1, -1], first) }
}

/// The gradient of the factors of a linear recurrence, from that of its inputs: the gradient of an element times the result of the
/// element before it.
pub fn linear_recurrence_backward(
    grad_input: &Tensor,
    result: &Tensor,
    dim: i64,
    reverse: bool,
) -> Result<Tensor> {
    let (first, second) = if reverse { (grad_input, result) } else { (result, grad_input) };
    ops::mul_tensor(&shifted(first, dim, ZERO)?, second)
}

/// The gradient of `cumsum`: the cumulative sum from the end.
pub fn cumsum_backward(grad: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.dim() == 0 {
        return Ok(grad.clone());
    }
    ops::flip(&ops::cumsum(&ops::flip(grad, &[dim])?, dim, None)?, &[dim])
}

/// The gradient of `cumprod`. Element k is a factor of the products from k on, so its gradient is the product of the elements before
/// it times `s[k] = grad[k] + x[k + 1] * s[k + 1]`. Nothing is divided by an element, so zeros need no special case, in derivatives of
/// any order.
pub fn cumprod_backward(grad: &Tensor, self_: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    let (self_, result) = (conjugate(&converted(self_, grad)?)?, conjugate(result)?);
    let after = ops::_linear_recurrence(&self_, grad, dim, true)?;
    ops::mul_tensor(&after, &shifted(&result, dim, ONE)?)
}

/// The gradient of a product of all elements, or along a dimension: that of the last of the cumulative products.
pub fn prod_backward(grad: &Tensor, self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
    let Some(dim) = dim.filter(|_| self_.dim() > 0) else {
        let flat = ops::reshape(self_, &[-1])?;
        return ops::reshape(&prod_backward(grad, &flat, Some(0), false)?, self_.sizes());
    };
    if self_.numel() == 0 {
        return zeros(self_.sizes(), grad);
    }
    let x = converted(self_, grad)?;
    let last = restored_dims(grad, x.sizes(), &[dim], keepdim)?;
    let count = x.sizes()[shape::wrap_dim(dim, x.dim())?];
    let products = ops::cumprod(&x, dim, None)?;
    cumprod_backward(&padded(&last, dim, [count - 1, 0], ZERO)?, &x, &products, dim)
}

/// How many elements a reduction over `dim` (all dimensions where there are none) combines.
fn reduced_count(sizes: &[i64], dim: &[i64]) -> Result<i64> {
    if dim.is_empty() || sizes.is_empty() {
        return shape::numel(sizes);
    }
    dim.iter().try_fold(1, |count, d| Ok(count * sizes[shape::wrap_dim(*d, sizes.len())?]))
}

/// The gradient of a variance. Where the correction leaves no degree of freedom it is infinite or NaN, as the variance is.
pub fn var_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let dim = dim.unwrap_or(&[]);
    let free = reduced_count(self_.sizes(), dim)? as f64 - correction.unwrap_or(ONE).to_f64();
    let grad = restored_dims(grad, self_.sizes(), dim, keepdim)?;
    // Without elements the factor has no effect, but NaN would make the second derivative NaN.
    let factor = if self_.numel() == 0 { 0.0 } else { 2.0 / free.max(0.0) };
    let slope = ops::mul_scalar(&grad, Scalar::Float(factor))?;
    let mean = ops::mean_dim(self_, Some(dim), true, None)?;
    ops::mul_tensor(&ops::sub_tensor(self_, &mean, ONE)?, &slope)
}

/// The gradient of a standard deviation; 0 where that is 0.
pub fn std_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let is_zero = ops::eq_scalar(result, ZERO)?;
    let twice = ops::mul_scalar(&ops::masked_fill_scalar(result, &is_zero, ONE)?, Scalar::Int(2))?;
    let slope = ops::masked_fill_scalar(&ops::div_tensor(grad, &twice)?, &is_zero, ZERO)?;
    var_backward(&slope, self_, dim, correction, keepdim)
}

/// The sum of those that are not `None`.
fn added(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    match (a, b) {
        (Some(a), Some(b)) => ops::add_tensor(&a, &b, ONE).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

fn mean_part(
    grad: Option<&Tensor>,
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    grad.map(|grad| mean_backward(grad, self_.sizes(), dim, keepdim)).transpose()
}

/// The gradient of `var_mean`.
pub fn var_mean_backward(
    grad_var: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let by_var = grad_var.map(|grad| var_backward(grad, self_, dim, correction, keepdim)).transpose()?;
    added(by_var, mean_part(grad_mean, self_, dim, keepdim)?)
}

/// The gradient of `std_mean`.
pub fn std_mean_backward(
    grad_std: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    self_: &Tensor,
    std: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let by_std = grad_std.map(|grad| std_backward(grad, self_, std, dim, correction, keepdim)).transpose()?;
    added(by_std, mean_part(grad_mean, self_, dim, keepdim)?)
}

/// The gradient of a minimum or maximum over `dim` (all dimensions where there are none), divided equally among the elements that
/// equal it, or, where it is NaN, among those that are NaN.
pub fn extreme_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let restored = |t: &Tensor| restored_dims(t, self_.sizes(), dim, keepdim);
    let equal = ops::eq_tensor(self_, &restored(result)?)?;
    let hit = ops::logical_or(&equal, &ops::isnan(self_)?)?;
    let share = ops::div_tensor(&restored(grad)?, &ops::sum_dim_intlist(&hit, Some(dim), true, None)?)?;
    ops::where_scalarother(&hit, &share, ZERO)
}

/// The gradient of `aminmax`.
pub fn aminmax_backward(
    grad_min: Option<&Tensor>,
    grad_max: Option<&Tensor>,
    self_: &Tensor,
    min: &Tensor,
    max: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let dim: DimVec = dim.into_iter().collect();
    let part = |grad: Option<&Tensor>, extreme: &Tensor| {
        grad.map(|grad| extreme_backward(grad, self_, extreme, &dim, keepdim)).transpose()
    };
    added(part(grad_min, min)?, part(grad_max, max)?)
}

/// The gradient of a norm over `dim` (all dimensions where there are none): `sign(x) * (|x| / norm)^(p - 1)`, and 0 where x is 0.
/// Divisors that are 0 are replaced rather than their quotients, so that second derivatives stay finite as well.
pub fn norm_backward(
    grad: &Tensor,
    self_: &Tensor,
    p: Option<Scalar>,
    result: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let dim = dim.unwrap_or(&[]);
    let x = &converted(self_, grad)?;
    let grad = restored_dims(grad, x.sizes(), dim, keepdim)?;
    let norm = restored_dims(result, x.sizes(), dim, keepdim)?;
    let p = p.map_or(2.0, Scalar::to_f64);
    let without_zeros = |t: &Tensor| ops::masked_fill_scalar(t, &ops::eq_scalar(t, ZERO)?, ONE);
    match p {
        0.0 => zeros(x.sizes(), &grad),
        1.0 => ops::mul_tensor(&ops::sgn(x)?, &grad),
        2.0 => {
            let ratio = ops::div_tensor(&grad, &without_zeros(&norm)?)?;
            ops::mul_tensor(x, &ops::masked_fill_scalar(&ratio, &ops::eq_scalar(&norm, ZERO)?, ZERO)?)
        }
        p if p.is_infinite() => {
            let sizes = ops::abs(x)?;
            ops::mul_tensor(&ops::sgn(x)?, &extreme_backward(&grad, &sizes, &norm, dim, true)?)
        }
        p => {
            let power = |t: &Tensor| ops::pow_tensor_scalar(&without_zeros(t)?, Scalar::Float(p - 1.0));
            let direction = ops::mul_tensor(&ops::sgn(x)?, &power(&ops::abs(x)?)?)?;
            // With an exponent below 0 a norm is 0 if one element is 0, whatever the others are.
            let ratio = ops::div_tensor(&grad, &power(&norm)?)?;
            ops::mul_tensor(
                &direction,
                &ops::masked_fill_scalar(&ratio, &ops::eq_scalar(&norm, ZERO)?, ZERO)?,
            )
        }
    }
}

/// The gradient of `cummax` and `cummin`: each gradient is added at the index of the element that was the maximum or minimum.
pub fn cummaxmin_backward(grad: &Tensor, sizes: &[i64], indices: &Tensor, dim: i64) -> Result<Tensor> {
    ops::scatter_add(&zeros(sizes, grad)?, dim, indices, grad)
}

/// The gradient of one selected element, divided equally among the elements that equal it, or, where it is NaN, among those that are
/// NaN.
pub fn evenly_distribute_backward(grad: &Tensor, self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    let both_nan = ops::logical_and(&ops::isnan(self_)?, &ops::isnan(result)?)?;
    let hit = ops::logical_or(&ops::eq_tensor(self_, result)?, &both_nan)?;
    let share = ops::div_tensor(grad, &ops::sum(&hit, None)?)?;
    ops::where_scalarother(&hit, &share, ZERO)
}

/// The gradient of `logcumsumexp`: `sum_(j >= i) grad[j] exp(x[i] - y[j])`. The positive and the negative terms are summed separately,
/// by their logarithms, since the exponentials alone may overflow.
pub fn logcumsumexp_backward(grad: &Tensor, self_: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.dim() == 0 || grad.numel() == 0 {
        return Ok(grad.clone());
    }
    let part = |grad: &Tensor| -> Result<Tensor> {
        let there = ops::gt_scalar(grad, ZERO)?;
        let size = ops::log(&ops::where_scalarother(&there, grad, ONE)?)?;
        let terms = ops::sub_tensor(&size, result, ONE)?;
        let none = Scalar::Float(f64::NEG_INFINITY);
        let terms = ops::where_scalarother(&there, &terms, none)?;
        let sums = ops::flip(&ops::logcumsumexp(&ops::flip(&terms, &[dim])?, dim)?, &[dim])?;
        let any = ops::ne_scalar(&sums, none)?;
        let finite = ops::where_scalarother(&any, &sums, ZERO)?;
        let made = ops::exp(&ops::add_tensor(&finite, self_, ONE)?)?;
        ops::where_scalarother(&any, &made, ZERO)
    };
    ops::sub_tensor(&part(grad)?, &part(&ops::neg(grad)?)?, ONE)
}

/// The tangent of `logcumsumexp`: `y[k] = sum_(j <= k) exp(x[j] - r[k]) t[j]`. It is computed by the recurrence
/// `y[k] = exp(r[k - 1] - r[k]) y[k - 1] + exp(x[k] - r[k]) t[k]`, in which no exponent is positive.
pub fn logcumsumexp_tangent(tangent: &Tensor, self_: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if tangent.dim() == 0 || tangent.numel() == 0 {
        return Ok(tangent.clone());
    }
    let none = &ops::eq_scalar(result, Scalar::Float(f64::NEG_INFINITY))?;
    let share = |of: &Tensor| {
        let share = ops::exp(&ops::sub_tensor(of, result, ONE)?)?;
        ops::masked_fill_scalar(&share, none, ZERO)
    };
    let terms = ops::mul_tensor(&share(self_)?, tangent)?;
    ops::_linear_recurrence(&share(&ops::roll(result, &[1], &[dim])?)?, &terms, dim, false)
}
