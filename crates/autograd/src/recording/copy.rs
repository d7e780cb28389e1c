//! Recording kernels of copies and fills.

use crate::record::{any_requires_grad, below, check_inplace, edges, gradients, rebase_history, set_history};
use crate::{Backward, Context, Gradients};
use flambeau_core::{DispatchKeySet, MemoryFormat, Result, Scalar};
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

#[derive(Clone)]
struct Clone_;

impl Backward for Clone_ {
    const NAME: &'static str = "CloneBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| Ok(grad.clone())])
    }
}

fn clone(_: DispatchKeySet, self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::clone(self_, memory_format)?
    };
    if any_requires_grad(&[self_]) {
        set_history(&result, edges(&[self_])?, Clone_);
    }
    Ok(result)
}

register!(CLONE, Autograd, clone);

#[derive(Clone)]
struct Copy_;

impl Backward for Copy_ {
    const NAME: &'static str = "CopyBackwards";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        // Nothing of what was there before is left.
        Ok(smallvec![None, grads[0].clone()])
    }
}

fn copy_(_: DispatchKeySet, self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<()> {
    if !any_requires_grad(&[self_, src]) {
        let _below = below();
        return ops::copy_(self_, src, non_blocking);
    }
    check_inplace(self_)?;
    let edges = edges(&[self_, src])?;
    {
        let _below = below();
        ops::copy_(self_, src, non_blocking)?;
    }
    rebase_history(self_, edges, Copy_)
}

register!(COPY_, Autograd, copy_);

#[derive(Clone)]
struct FillScalar;

impl Backward for FillScalar {
    const NAME: &'static str = "FillBackward0";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        Ok(smallvec![None])
    }
}

fn fill__scalar(_: DispatchKeySet, self_: &Tensor, value: Scalar) -> Result<()> {
    if !any_requires_grad(&[self_]) {
        let _below = below();
        return ops::fill__scalar(self_, value);
    }
    check_inplace(self_)?;
    let edges = edges(&[self_])?;
    {
        let _below = below();
        ops::fill__scalar(self_, value)?;
    }
    rebase_history(self_, edges, FillScalar)
}

register!(FILL__SCALAR, Autograd, fill__scalar);
