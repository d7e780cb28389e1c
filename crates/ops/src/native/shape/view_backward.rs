//! Derivatives of views, and the `*_scatter` operators: a part of a tensor written into zeros, or into a copy of the whole.

use crate::loops::reduce::computing_type;
use crate::native::factory::copy;
use crate::native::shape::view;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ensure, shape};

fn zeros_for(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ops::zeros(sizes, Some(grad.dtype()), Some(grad.layout()), Some(grad.device()), None)
}

/// Zeros of `sizes`, with `grad_output` in the view that `part` makes of them.
fn embed_in_zeros(
    grad_output: &Tensor,
    sizes: &[i64],
    part: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let made = zeros_for(grad_output, sizes)?;
    ops::copy_(&part(&made)?, grad_output, false)?;
    Ok(made)
}

/// Zeros, with `grad_output` at one index of a dimension.
pub fn select_backward(grad_output: &Tensor, input_sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    embed_in_zeros(grad_output, input_sizes, |t| view::select(t, dim, index))
}

/// Zeros, with `grad_output` in a slice.
pub fn slice_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Result<Tensor> {
    embed_in_zeros(grad_output, input_sizes, |t| view::slice(t, dim, Some(start), Some(end), step))
}

/// Zeros, with `grad_output` on a diagonal.
pub fn diagonal_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    embed_in_zeros(grad_output, input_sizes, |t| view::diagonal(t, offset, dim1, dim2))
}

/// For each element the sum of the gradients from all windows that contain it. Windows overlap, but their elements of one index do
/// not: one addition for each index of a window.
pub fn unfold_backward(
    grad_in: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    size: i64,
    step: i64,
) -> Result<Tensor> {
    const NAME: &str = "unfold_backward";
    ensure!(step > 0, InvalidArgument(NAME, "step"), "step is {step} but must be > 0");
    let d = shape::wrap_dim(dim, input_sizes.len()).map_err(|e| e.in_operator(NAME))?;
    let length = input_sizes.get(d).copied().unwrap_or(1);
    let fits = (0..=length).contains(&size);
    let mut windows = DimVec::from_slice(input_sizes);
    if let Some(count) = windows.get_mut(d).filter(|_| fits) {
        *count = (length - size) / step + 1;
    }
    windows.push(size);
    ensure!(
        fits && shape::same(grad_in.sizes(), &windows),
        Shape(NAME, "grad_in"),
        "expected windows of {size} elements of sizes {input_sizes:?} but got sizes {:?}",
        grad_in.sizes()
    );
    let wide = computing_type(grad_in.dtype());
    if wide != grad_in.dtype() {
        // Where windows overlap, sums are rounded once.
        return unfold_backward(&grad_in.to(wide)?, input_sizes, dim, size, step)?.to(grad_in.dtype());
    }
    let made = zeros_for(grad_in, input_sizes)?;
    if input_sizes.is_empty() {
        let only = if size == 1 { view::select(grad_in, 0, 0)? } else { return Ok(made) };
        ops::copy_(&made, &only, false)?;
        return Ok(made);
    }
    let last_start = (grad_in.sizes()[d] - 1).saturating_mul(step);
    for index in 0..size {
        let end = last_start.saturating_add(index + 1);
        let part = view::slice(&made, d as i64, Some(index), Some(end), step)?;
        ops::add__tensor(&part, &view::select(grad_in, -1, index)?, Scalar::Int(1))?;
    }
    Ok(made)
}

/// A copy with exactly the strides of `self_`, gaps included, unless elements overlap.
fn with_own_strides(self_: &Tensor) -> Result<Tensor> {
    if shape::has_internal_overlap(self_.sizes(), self_.strides()) {
        return copy::clone(self_, Some(MemoryFormat::Preserve));
    }
    let made = Tensor::empty_with_strides(self_.sizes(), self_.strides(), self_.dtype(), self_.device())?;
    ops::copy_(&made, self_, false)?;
    Ok(made)
}

/// A copy of `self_` with `src` in the view that `part` makes of it, whose sizes it must have.
fn scattered(
    name: &str,
    self_: &Tensor,
    src: &Tensor,
    part: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let made = with_own_strides(self_)?;
    let part = part(&made)?;
    ensure!(
        part.sizes() == src.sizes(),
        Shape(name, "src"),
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
        src.sizes(),
        part.sizes()
    );
    ops::copy_(&part, src, false)?;
    Ok(made)
}

/// `self_` with `src` at one index of a dimension.
pub fn select_scatter(self_: &Tensor, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    scattered("select_scatter", self_, src, |t| view::select(t, dim, index))
}

/// `self_` with `src` in a slice.
pub fn slice_scatter(
    self_: &Tensor,
    src: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    scattered("slice_scatter", self_, src, |t| view::slice(t, dim, start, end, step))
}

/// `self_` with `src` on a diagonal.
pub fn diagonal_scatter(self_: &Tensor, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    scattered("diagonal_scatter", self_, src, |t| view::diagonal(t, offset, dim1, dim2))
}

/// Zeros, with the last dimension of `self_` on a diagonal.
pub fn diag_embed(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let rank = self_.dim() + 1;
    let context = |e: flambeau_core::Error| e.in_operator("diag_embed");
    let a = shape::wrap_dim(dim1, rank).map_err(context)?;
    let b = shape::wrap_dim(dim2, rank).map_err(context)?;
    ensure!(
        a != b,
        InvalidArgument("diag_embed", "dim2"),
        "diagonal dimensions cannot be identical {dim1}, {dim2}"
    );
    let Some((length, batch)) = self_.sizes().split_last() else {
        flambeau_core::bail!(Shape("diag_embed", "self"), "expected at least one dimension but got none");
    };
    let Some(side) = offset.checked_abs().and_then(|o| o.checked_add(*length)) else {
        flambeau_core::bail!(
            Overflow("diag_embed", "offset"),
            "a matrix of {length} elements with offset {offset}"
        );
    };
    let mut sizes = DimVec::from_slice(batch);
    sizes.insert(a.min(b), side);
    sizes.insert(a.max(b), side);
    embed_in_zeros(self_, &sizes, |t| view::diagonal(t, offset, dim1, dim2))
}
