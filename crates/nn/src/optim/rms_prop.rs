//! RMSprop: steps scaled by the moving mean of squared gradients.

use super::group::{Field, Hyper, Needs, ParamState, Scratch, check_at_least_zero, state_tensor};
use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`RmsProp`]; the defaults are PyTorch's.
    #[derive(PartialEq)]
    RmsPropOptions {
        /// The learning rate: about how far a step goes.
        lr: f64 = 1e-2,
        /// How much of the mean squared gradient is kept.
        alpha: f64 = 0.99,
        /// Added to the divisor.
        eps: f64 = 1e-8,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// How much of the last step's direction is kept.
        momentum: f64 = 0.0,
        /// Whether the square of the mean gradient is taken off the mean square: Graves, 2013.
        centered: bool = false,
        /// Climbs instead of descending.
        maximize: bool = false,
    }
}

impl Hyper for RmsPropOptions {
    fn check(&self) -> Result<()> {
        check_at_least_zero("lr", self.lr)?;
        check_at_least_zero("alpha", self.alpha)?;
        check_at_least_zero("eps", self.eps)?;
        check_at_least_zero("weight_decay", self.weight_decay)?;
        check_at_least_zero("momentum", self.momentum)
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("alpha", Field::Number(&mut self.alpha)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("momentum", Field::Number(&mut self.momentum)),
            ("centered", Field::Flag(&mut self.centered)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn lr(&mut self) -> &mut f64 {
        &mut self.lr
    }
}

/// In an order in which every choice of options has a contiguous part.
const STATE_NAMES: [&str; 3] = ["grad_avg", "square_avg", "momentum_buffer"];

const NEEDS: Needs<RmsPropOptions> = Needs {
    state_names: |options| {
        let first = usize::from(!options.centered);
        &STATE_NAMES[first..if options.momentum > 0.0 { 3 } else { 2 }]
    },
    scratch_count: |options| 1 + usize::from(options.maximize || options.weight_decay != 0.0),
};

fn update(
    options: &RmsPropOptions,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    scratch: &Scratch,
) -> Result<()> {
    let grad = scratch.gradient(param, grad, options.maximize, options.weight_decay)?;
    let divisor = scratch.buffer(param, (NEEDS.scratch_count)(options) - 1)?;
    deviation(options, &grad, state, &divisor)?;
    if options.momentum > 0.0 {
        let velocity = state_tensor(state, "momentum_buffer")?;
        ops::mul__scalar(&velocity, options.momentum.into())?;
        ops::addcdiv_(&velocity, &grad, &divisor, 1.into())?;
        return ops::add__tensor(param, &velocity, (-options.lr).into());
    }
    ops::addcdiv_(param, &grad, &divisor, (-options.lr).into())
}

/// Writes the root of the mean square, or of the variance, into `out`, after this gradient.
fn deviation(options: &RmsPropOptions, grad: &Tensor, state: &ParamState, out: &Tensor) -> Result<()> {
    let square = state_tensor(state, "square_avg")?;
    ops::mul__scalar(&square, options.alpha.into())?;
    ops::addcmul_(&square, grad, grad, (1.0 - options.alpha).into())?;
    if options.centered {
        let mean = state_tensor(state, "grad_avg")?;
        ops::lerp__scalar(&mean, grad, (1.0 - options.alpha).into())?;
        ops::addcmul_out(&square, &mean, &mean, (-1).into(), out)?;
        ops::sqrt_(out)?;
    } else {
        ops::sqrt_out(&square, out)?;
    }
    ops::add__scalar(out, options.eps.into(), 1.into())
}

optimizer! {
    /// Steps by the gradient over the root of the moving mean of its square: Hinton, "Neural networks for machine learning", lecture
    /// 6, 2012.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{Optimizer, RmsProp, RmsPropOptions};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let mut rms_prop = RmsProp::new(vec![x.clone()], RmsPropOptions::default().lr(0.1).alpha(0.0))?;
    /// x.mul(&x)?.sum()?.backward()?;
    /// rms_prop.step()?;
    /// assert!((x.item::<f64>()? - 3.9).abs() < 1e-8);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    RmsProp<RmsPropOptions>, NEEDS, &STATE_NAMES, update
}
