//! Stochastic gradient descent, with momentum.

use super::group::{Field, Hyper, Needs, ParamState, Scratch, check_at_least_zero, state_tensor};
use flambeau_core::{Result, ensure};
use flambeau_ops::native::pointwise::accumulate::accumulate_scaled_;
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`Sgd`]; the defaults are PyTorch's.
    #[derive(PartialEq)]
    SgdOptions {
        /// The learning rate: how far a step goes.
        lr: f64 = 1e-3,
        /// How much of the last step's direction is kept.
        momentum: f64 = 0.0,
        /// How much less of the gradient enters the direction.
        dampening: f64 = 0.0,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// Looks ahead along the momentum; needs momentum and no dampening.
        nesterov: bool = false,
        /// Climbs instead of descending.
        maximize: bool = false,
    }
}

impl Hyper for SgdOptions {
    fn check(&self) -> Result<()> {
        check_at_least_zero("lr", self.lr)?;
        check_at_least_zero("momentum", self.momentum)?;
        check_at_least_zero("weight_decay", self.weight_decay)?;
        ensure!(
            !self.nesterov || (self.momentum > 0.0 && self.dampening == 0.0),
            InvalidArgument,
            "expected a momentum and no dampening with nesterov but got {} and {}",
            self.momentum,
            self.dampening
        );
        Ok(())
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("momentum", Field::Number(&mut self.momentum)),
            ("dampening", Field::Number(&mut self.dampening)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("nesterov", Field::Flag(&mut self.nesterov)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn lr(&mut self) -> &mut f64 {
        &mut self.lr
    }
}

const NEEDS: Needs<SgdOptions> = Needs {
    state_names: |options| if options.momentum != 0.0 { &["momentum_buffer"] } else { &[] },
    scratch_count: |options| {
        let changed = options.maximize || options.weight_decay != 0.0;
        usize::from(changed) + usize::from(options.nesterov)
    },
};

fn update(
    options: &SgdOptions,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    scratch: &Scratch,
) -> Result<()> {
    let mut grad = scratch.gradient(param, grad, options.maximize, options.weight_decay)?;
    if options.momentum != 0.0 {
        let direction = direction(options, &grad, state, scratch)?;
        grad = match options.nesterov {
            true => {
                let ahead = scratch.buffer(param, (NEEDS.scratch_count)(options) - 1)?;
                ops::add_out(&grad, &direction, options.momentum.into(), &ahead)?;
                ahead
            }
            false => direction,
        };
    }
    accumulate_scaled_(param, &grad, (-options.lr).into())
}

/// The moving sum of gradients, after this one.
fn direction(options: &SgdOptions, grad: &Tensor, state: &ParamState, scratch: &Scratch) -> Result<Tensor> {
    let buffer = state_tensor(state, "momentum_buffer")?;
    if scratch.is_created(&buffer) {
        ops::copy_(&buffer, grad, false)?;
    } else {
        ops::mul__scalar(&buffer, options.momentum.into())?;
        ops::add__tensor(&buffer, grad, (1.0 - options.dampening).into())?;
    }
    Ok(buffer)
}

optimizer! {
    /// `p ← p - lr · g`, where `g` may be a moving sum of gradients: Sutskever et al., "On the importance of initialization and
    /// momentum in deep learning", 2013, in PyTorch's order of operations.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{Optimizer, Sgd, SgdOptions};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let mut sgd = Sgd::new(vec![x.clone()], SgdOptions::default().lr(0.25))?;
    /// x.mul(&x)?.backward()?;
    /// sgd.step()?;
    /// assert_eq!(x.to_vec::<f64>()?, [4.0 - 0.25 * 8.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Sgd<SgdOptions>, NEEDS, &["momentum_buffer"], update
}
