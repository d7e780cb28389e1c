//! Recording kernels of matrix products.

use crate::record::{any_requires_grad, below, edges, gradients, saved_input, set_history, unpack};
use crate::{Backward, Context, Gradients, SavedVariable};
use flambeau_core::{DispatchKeySet, Result};
use flambeau_ops::{Tensor, ops};

#[derive(Clone)]
struct Mm {
    self_: Option<SavedVariable>,
    mat2: Option<SavedVariable>,
}

impl Backward for Mm {
    const NAME: &'static str = "MmBackward0";
    const SAVES: bool = true;

    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
        gradients(
            cx,
            [&|| ops::mm(grad, &ops::t(&unpack(&self.mat2, cx)?)?), &|| {
                ops::mm(&ops::t(&unpack(&self.self_, cx)?)?, grad)
            }],
        )
    }
}

fn mm(_: DispatchKeySet, self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let result = {
        let _below = below();
        ops::mm(self_, mat2)?
    };
    if any_requires_grad(&[self_, mat2]) {
        let edges = edges(&[self_, mat2])?;
        let backward = Mm {
            self_: saved_input(edges[1].is_some(), self_, &edges[0])?,
            mat2: saved_input(edges[0].is_some(), mat2, &edges[1])?,
        };
        set_history(&result, edges, backward);
    }
    Ok(result)
}

register!(MM, Autograd, mm);
