//! Recording kernels of arithmetic on two tensors.

use crate::record::{
    any_requires_grad, below, check_inplace, check_out, edges, gradients, original, rebase_history,
    saved_input, set_history, unpack,
};
use crate::{Backward, Context, Gradients, SavedVariable, formulas};
use flambeau_core::{DispatchKeySet, Result, Scalar};
use flambeau_ops::{Tensor, ops};

#[derive(Clone)]
struct AddTensor {
    alpha: Scalar,
}

impl Backward for AddTensor {
    const NAME: &'static str = "AddBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| Ok(grad.clone()), &|| formulas::maybe_multiply(grad, self.alpha)])
    }
}

fn add_tensor(_: DispatchKeySet, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::add_tensor(self_, other, alpha)?
    };
    if any_requires_grad(&[self_, other]) {
        set_history(&result, edges(&[self_, other])?, AddTensor { alpha });
    }
    Ok(result)
}

fn add__tensor(_: DispatchKeySet, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<()> {
    if !any_requires_grad(&[self_, other]) {
        let _below = below();
        return ops::add__tensor(self_, other, alpha);
    }
    check_inplace(self_)?;
    let edges = edges(&[self_, other])?;
    {
        let _below = below();
        ops::add__tensor(self_, other, alpha)?;
    }
    rebase_history(self_, edges, AddTensor { alpha })
}

fn add_out(_: DispatchKeySet, self_: &Tensor, other: &Tensor, alpha: Scalar, out: &Tensor) -> Result<()> {
    check_out("add", &[self_, other, out])?;
    let _below = below();
    ops::add_out(self_, other, alpha, out)
}

register!(ADD_TENSOR, Autograd, add_tensor);
register!(ADD__TENSOR, Autograd, add__tensor);
register!(ADD_OUT, Autograd, add_out);

#[derive(Clone)]
struct SubTensor {
    alpha: Scalar,
}

impl Backward for SubTensor {
    const NAME: &'static str = "SubBackward0";
    const SAVES: bool = false;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(cx, [&|| Ok(grad.clone()), &|| formulas::maybe_multiply(&ops::neg(grad)?, self.alpha)])
    }
}

fn sub_tensor(_: DispatchKeySet, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::sub_tensor(self_, other, alpha)?
    };
    if any_requires_grad(&[self_, other]) {
        set_history(&result, edges(&[self_, other])?, SubTensor { alpha });
    }
    Ok(result)
}

register!(SUB_TENSOR, Autograd, sub_tensor);

#[derive(Clone)]
struct MulTensor {
    self_: Option<SavedVariable>,
    other: Option<SavedVariable>,
}

impl Backward for MulTensor {
    const NAME: &'static str = "MulBackward0";
    const SAVES: bool = true;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(
            cx,
            [&|| ops::mul_tensor(grad, &unpack(&self.other, cx)?), &|| {
                ops::mul_tensor(grad, &unpack(&self.self_, cx)?)
            }],
        )
    }
}

fn mul_tensor(_: DispatchKeySet, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::mul_tensor(self_, other)?
    };
    if any_requires_grad(&[self_, other]) {
        let edges = edges(&[self_, other])?;
        let backward = MulTensor {
            self_: saved_input(edges[1].is_some(), self_, &edges[0])?,
            other: saved_input(edges[0].is_some(), other, &edges[1])?,
        };
        set_history(&result, edges, backward);
    }
    Ok(result)
}

fn mul__tensor(_: DispatchKeySet, self_: &Tensor, other: &Tensor) -> Result<()> {
    if !any_requires_grad(&[self_, other]) {
        let _below = below();
        return ops::mul__tensor(self_, other);
    }
    check_inplace(self_)?;
    let edges = edges(&[self_, other])?;
    let backward = MulTensor {
        self_: original(edges[1].is_some(), self_)?,
        other: saved_input(edges[0].is_some(), other, &edges[1])?,
    };
    {
        let _below = below();
        ops::mul__tensor(self_, other)?;
    }
    rebase_history(self_, edges, backward)
}

register!(MUL_TENSOR, Autograd, mul_tensor);
register!(MUL__TENSOR, Autograd, mul__tensor);

#[derive(Clone)]
struct DivTensor {
    self_: Option<SavedVariable>,
    other: SavedVariable,
}

impl Backward for DivTensor {
    const NAME: &'static str = "DivBackward0";
    const SAVES: bool = true;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        let other = &self.other.unpack(cx)?;
        gradients(
            cx,
            [&|| ops::div_tensor(grad, other), &|| {
                let quotient = ops::div_tensor(&unpack(&self.self_, cx)?, other)?;
                ops::mul_tensor(&ops::neg(grad)?, &ops::div_tensor(&quotient, other)?)
            }],
        )
    }
}

fn div_tensor(_: DispatchKeySet, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::div_tensor(self_, other)?
    };
    if any_requires_grad(&[self_, other]) {
        let edges = edges(&[self_, other])?;
        let backward = DivTensor {
            self_: saved_input(edges[1].is_some(), self_, &edges[0])?,
            other: SavedVariable::input(other, &edges[1])?,
        };
        set_history(&result, edges, backward);
    }
    Ok(result)
}

register!(DIV_TENSOR, Autograd, div_tensor);
