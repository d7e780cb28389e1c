//! Recording kernels of reductions.

use crate::record::{any_requires_grad, below, edges, gradients, set_history};
use crate::{Backward, Context, Gradients, formulas};
use flambeau_core::{DimVec, DispatchKeySet, Result, ScalarType};
use flambeau_ops::{Tensor, ops};

#[derive(Clone)]
struct Sum {
    self_sizes: DimVec,
}

impl Backward for Sum {
    const NAME: &'static str = "SumBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| ops::expand(grad, &self.self_sizes, false)])
    }
}

fn sum(_: DispatchKeySet, self_: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::sum(self_, dtype)?
    };
    if any_requires_grad(&[self_]) {
        let backward = Sum { self_sizes: DimVec::from_slice(self_.sizes()) };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

register!(SUM, Autograd, sum);

#[derive(Clone)]
struct SumDimIntList {
    self_sizes: DimVec,
    dim: Option<DimVec>,
    keepdim: bool,
}

impl Backward for SumDimIntList {
    const NAME: &'static str = "SumBackward1";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        let sum_backward =
            || formulas::sum_backward(grad, &self.self_sizes, self.dim.as_deref(), self.keepdim);
        gradients(cx, [&sum_backward])
    }
}

fn sum_dim_intlist(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::sum_dim_intlist(self_, dim, keepdim, dtype)?
    };
    if any_requires_grad(&[self_]) {
        let self_sizes = DimVec::from_slice(self_.sizes());
        let backward = SumDimIntList { self_sizes, dim: dim.map(DimVec::from_slice), keepdim };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

register!(SUM_DIM_INTLIST, Autograd, sum_dim_intlist);
