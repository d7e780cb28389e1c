//! Recording kernels of functions of one tensor.

use crate::record::{
    NotImplemented, any_requires_grad, below, check_inplace, edges, gradients, rebase_history, set_history,
};
use crate::{Backward, Context, Gradients, SavedVariable};
use flambeau_core::{DispatchKeySet, Result, Scalar};
use flambeau_ops::{Tensor, ops};

#[derive(Clone)]
struct Exp {
    result: SavedVariable,
}

impl Backward for Exp {
    const NAME: &'static str = "ExpBackward0";
    const SAVES: bool = true;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        let result = &self.result.unpack(cx)?;
        gradients(cx, [&|| ops::mul_tensor(grad, result)])
    }
}

fn exp(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::exp(self_)?
    };
    if any_requires_grad(&[self_]) {
        let backward = Exp { result: SavedVariable::output(&result, 0)? };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

fn exp_(_: DispatchKeySet, self_: &Tensor) -> Result<()> {
    if !any_requires_grad(&[self_]) {
        let _below = below();
        return ops::exp_(self_);
    }
    check_inplace(self_)?;
    let edges = edges(&[self_])?;
    {
        let _below = below();
        ops::exp_(self_)?;
    }
    let backward = Exp { result: SavedVariable::output(self_, 0)? };
    rebase_history(self_, edges, backward)
}

register!(EXP, Autograd, exp);
register!(EXP_, Autograd, exp_);

#[derive(Clone)]
struct Tanh {
    result: SavedVariable,
}

impl Backward for Tanh {
    const NAME: &'static str = "TanhBackward0";
    const SAVES: bool = true;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        let result = &self.result.unpack(cx)?;
        gradients(
            cx,
            [&|| {
                let square = ops::mul_tensor(result, result)?;
                ops::sub_tensor(grad, &ops::mul_tensor(grad, &square)?, Scalar::Int(1))
            }],
        )
    }
}

fn tanh(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::tanh(self_)?
    };
    if any_requires_grad(&[self_]) {
        let backward = Tanh { result: SavedVariable::output(&result, 0)? };
        set_history(&result, edges(&[self_])?, backward);
    }
    Ok(result)
}

register!(TANH, Autograd, tanh);

#[derive(Clone)]
struct Neg;

impl Backward for Neg {
    const NAME: &'static str = "NegBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| ops::neg(grad)])
    }
}

fn neg(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::neg(self_)?
    };
    if any_requires_grad(&[self_]) {
        set_history(&result, edges(&[self_])?, Neg);
    }
    Ok(result)
}

register!(NEG, Autograd, neg);

// Its derivative needs a comparison, which there is not yet: the pattern of an operator without one.
fn relu(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::relu(self_)?
    };
    if any_requires_grad(&[self_]) {
        set_history(&result, edges(&[self_])?, NotImplemented("relu"));
    }
    Ok(result)
}

register!(RELU, Autograd, relu);
