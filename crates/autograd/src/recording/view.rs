//! Recording kernels of views.

use crate::formulas::{self, AsStrided};
use crate::record::{self, any_requires_grad, below, edges, gradients, set_history};
use crate::{Backward, Context, Gradients};
use flambeau_core::{DimVec, DispatchKeySet, Result};
use flambeau_ops::{Tensor, ops};

#[derive(Clone)]
struct Permute {
    dims: DimVec,
}

impl Backward for Permute {
    const NAME: &'static str = "PermuteBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| formulas::permute_backward(grad, &self.dims)])
    }
}

fn permute(_: DispatchKeySet, self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::permute(self_, dims)?
    };
    if any_requires_grad(&[self_]) {
        let backward = Permute { dims: DimVec::from_slice(dims) };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn permute_tracked(_: DispatchKeySet, self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    record::view(self_, || ops::permute(self_, dims))
}

register!(PERMUTE, Autograd, permute);
register!(PERMUTE, ADInplaceOrView, permute_tracked);

#[derive(Clone)]
struct Alias;

impl Backward for Alias {
    const NAME: &'static str = "AliasBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| Ok(grad.clone())])
    }
}

fn alias(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::alias(self_)?
    };
    if any_requires_grad(&[self_]) {
        set_history(&result, edges(&[self_])?, Alias);
    }
    Ok(result)
}

fn alias_tracked(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    record::view(self_, || ops::alias(self_))
}

register!(ALIAS, Autograd, alias);
register!(ALIAS, ADInplaceOrView, alias_tracked);

fn detach(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let _below = below();
    ops::detach(self_)
}

register!(DETACH, Autograd, detach);

#[derive(Clone)]
struct TransposeInt {
    dim0: i64,
    dim1: i64,
}

impl Backward for TransposeInt {
    const NAME: &'static str = "TransposeBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| ops::transpose_int(grad, self.dim0, self.dim1)])
    }
}

fn transpose_int(_: DispatchKeySet, self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::transpose_int(self_, dim0, dim1)?
    };
    if any_requires_grad(&[self_]) {
        let backward = TransposeInt { dim0, dim1 };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn transpose_int_tracked(_: DispatchKeySet, self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    record::view(self_, || ops::transpose_int(self_, dim0, dim1))
}

register!(TRANSPOSE_INT, Autograd, transpose_int);
register!(TRANSPOSE_INT, ADInplaceOrView, transpose_int_tracked);

#[derive(Clone)]
struct View {
    self_sizes: DimVec,
}

impl Backward for View {
    const NAME: &'static str = "ViewBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| ops::reshape(grad, &self.self_sizes)])
    }
}

fn view(_: DispatchKeySet, self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::view(self_, size)?
    };
    if any_requires_grad(&[self_]) {
        let backward = View { self_sizes: DimVec::from_slice(self_.sizes()) };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn view_tracked(_: DispatchKeySet, self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    record::view(self_, || ops::view(self_, size))
}

register!(VIEW, Autograd, view);
register!(VIEW, ADInplaceOrView, view_tracked);

#[derive(Clone)]
struct Expand;

impl Backward for Expand {
    const NAME: &'static str = "ExpandBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| Ok(grad.clone())])
    }
}

fn expand(_: DispatchKeySet, self_: &Tensor, size: &[i64], implicit: bool) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::expand(self_, size, implicit)?
    };
    if any_requires_grad(&[self_]) {
        let backward = Expand;
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn expand_tracked(_: DispatchKeySet, self_: &Tensor, size: &[i64], implicit: bool) -> Result<Tensor> {
    record::view(self_, || ops::expand(self_, size, implicit))
}

register!(EXPAND, Autograd, expand);
register!(EXPAND, ADInplaceOrView, expand_tracked);

#[derive(Clone)]
struct SelectInt {
    self_sizes: DimVec,
    dim: i64,
    index: i64,
}

impl Backward for SelectInt {
    const NAME: &'static str = "SelectBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| formulas::select_backward(grad, &self.self_sizes, self.dim, self.index)])
    }
}

fn select_int(_: DispatchKeySet, self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::select_int(self_, dim, index)?
    };
    if any_requires_grad(&[self_]) {
        let backward = SelectInt { self_sizes: DimVec::from_slice(self_.sizes()), dim, index };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn select_int_tracked(_: DispatchKeySet, self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    record::view(self_, || ops::select_int(self_, dim, index))
}

register!(SELECT_INT, Autograd, select_int);
register!(SELECT_INT, ADInplaceOrView, select_int_tracked);

fn as_strided(
    _: DispatchKeySet,
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::as_strided(self_, size, stride, storage_offset)?
    };
    if any_requires_grad(&[self_]) {
        let backward = AsStrided { base: self_.geometry().clone(), view: result.geometry().clone() };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn as_strided_tracked(
    _: DispatchKeySet,
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    record::view(self_, || ops::as_strided(self_, size, stride, storage_offset))
}

register!(AS_STRIDED, Autograd, as_strided);
register!(AS_STRIDED, ADInplaceOrView, as_strided_tracked);
