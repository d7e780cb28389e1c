//! Adam and AdamW: steps scaled by moving means of the gradient and of its square.

use super::group::{Field, Hyper, Needs, ParamState, Scratch, advance, check_at_least_zero, state_tensor};
use flambeau_core::{Layout, Result, ScalarType, ensure};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`Adam`] and [`AdamW`]; the defaults are PyTorch's, but for the weight decay of `AdamW`, 0.01 there.
    #[derive(PartialEq)]
    AdamOptions {
        /// The learning rate: about how far a step goes.
        lr: f64 = 1e-3,
        /// How much of the mean gradient is kept.
        beta1: f64 = 0.9,
        /// How much of the mean squared gradient is kept.
        beta2: f64 = 0.999,
        /// Added to the divisor.
        eps: f64 = 1e-8,
        /// How much of the parameter is added to its gradient; for [`AdamW`], how much the parameter shrinks, times `lr`.
        weight_decay: f64 = 0.0,
        /// Divides by the largest mean squared gradient so far.
        amsgrad: bool = false,
        /// Climbs instead of descending.
        maximize: bool = false,
    }
}

impl Hyper for AdamOptions {
    fn check(&self) -> Result<()> {
        check_at_least_zero("lr", self.lr)?;
        check_at_least_zero("eps", self.eps)?;
        check_at_least_zero("weight_decay", self.weight_decay)?;
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            ensure!(
                (0.0..1.0).contains(&beta),
                InvalidArgument,
                "expected {name} from 0 to below 1 but got {beta}"
            );
        }
        Ok(())
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.beta1)),
            ("beta2", Field::Number(&mut self.beta2)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("amsgrad", Field::Flag(&mut self.amsgrad)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn lr(&mut self) -> &mut f64 {
        &mut self.lr
    }
}

/// How weight decay enters.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Decay {
    /// As part of the gradient, so that it is scaled with it.
    InGradient,
    /// Apart from it.
    Decoupled,
}

/// What a step does besides the moving means, by the options and the kind of weight decay.
#[derive(Clone, Copy)]
struct Changes {
    /// How much of the parameter is added to the gradient.
    decay: f64,
    /// With which number the parameter is multiplied.
    kept: f64,
}

impl Changes {
    fn new(options: &AdamOptions, decay: Decay) -> Self {
        match decay {
            Decay::InGradient => Changes { decay: options.weight_decay, kept: 1.0 },
            Decay::Decoupled if options.weight_decay != 0.0 => {
                Changes { decay: 0.0, kept: 1.0 - options.lr * options.weight_decay }
            }
            Decay::Decoupled => Changes { decay: 0.0, kept: 1.0 },
        }
    }
}

fn update(
    options: &AdamOptions,
    decay: Decay,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    scratch: &Scratch,
) -> Result<()> {
    let changes = Changes::new(options, decay);
    let (mean, square) = (state_tensor(state, "exp_avg")?, state_tensor(state, "exp_avg_sq")?);
    if options.amsgrad || ![param, &grad, &mean, &square].iter().all(|t| is_updated_in_one_pass(t, param)) {
        return update_by_operators(options, changes, param, grad, state, scratch);
    }
    let (correction1, correction2) = corrections(options, advance(state)?);
    let AdamOptions { lr, beta1, beta2, eps, maximize, .. } = *options;
    let (rate, correction) = (lr / correction1, correction2.sqrt());
    let Changes { decay, kept } = changes;
    ops::_adam_step_(param, &mean, &square, &grad, rate, beta1, beta2, eps, correction, kept, decay, maximize)
}

/// Whether one kernel can compute the step with this tensor, which has the bits of [`update_by_operators`].
fn is_updated_in_one_pass(tensor: &Tensor, param: &Tensor) -> bool {
    use ScalarType::{BF16, F16, F32, F64};
    let is_dense = tensor.layout() == Layout::Strided && !is_batched(tensor) && tensor.device().is_cpu();
    let is_floating = matches!(tensor.dtype(), F16 | BF16 | F32 | F64);
    is_dense && is_floating && tensor.dtype() == param.dtype() && tensor.sizes() == param.sizes()
}

/// Both means begin at zero; division by these corrects the bias.
fn corrections(options: &AdamOptions, step: f64) -> (f64, f64) {
    (1.0 - options.beta1.powf(step), 1.0 - options.beta2.powf(step))
}

fn update_by_operators(
    options: &AdamOptions,
    changes: Changes,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    scratch: &Scratch,
) -> Result<()> {
    let grad = scratch.gradient(param, grad, options.maximize, changes.decay)?;
    if changes.kept != 1.0 {
        ops::mul__scalar(param, changes.kept.into())?;
    }
    let (correction1, correction2) = corrections(options, advance(state)?);
    let mean = state_tensor(state, "exp_avg")?;
    let mut square = state_tensor(state, "exp_avg_sq")?;
    ops::lerp__scalar(&mean, &grad, (1.0 - options.beta1).into())?;
    ops::mul__scalar(&square, options.beta2.into())?;
    ops::addcmul_(&square, &grad, &grad, (1.0 - options.beta2).into())?;
    if options.amsgrad {
        let largest = state_tensor(state, "max_exp_avg_sq")?;
        ops::maximum_out(&largest, &square, &largest)?;
        square = largest;
    }
    let divisor = scratch.buffer(param, (NEEDS.scratch_count)(options) - 1)?;
    ops::sqrt_out(&square, &divisor)?;
    ops::div__scalar(&divisor, correction2.sqrt().into())?;
    ops::add__scalar(&divisor, options.eps.into(), 1.into())?;
    ops::addcdiv_(param, &mean, &divisor, (-options.lr / correction1).into())
}

const NEEDS: Needs<AdamOptions> = Needs {
    state_names: |options| if options.amsgrad { &STATE_NAMES[1..] } else { &STATE_NAMES[1..3] },
    scratch_count: |options| 1 + usize::from(options.maximize || options.weight_decay != 0.0),
};

const STATE_NAMES: [&str; 4] = ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

optimizer! {
    /// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, in PyTorch's order of operations.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{Adam, AdamOptions, Optimizer};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let mut adam = Adam::new(vec![x.clone()], AdamOptions::default().lr(0.1))?;
    /// x.mul(&x)?.sum()?.backward()?;
    /// adam.step()?;
    /// assert!((x.to_vec::<f64>()?[0] - 3.9).abs() < 1e-8);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Adam<AdamOptions>, NEEDS, &STATE_NAMES, |options, param, grad, state, scratch| {
        update(options, Decay::InGradient, param, grad, state, scratch)
    }
}

optimizer! {
    /// [`Adam`] whose weight decay shrinks parameters apart from the gradient: Loshchilov and Hutter, "Decoupled weight
    /// decay regularization", 2019.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let options = AdamOptions::default().lr(0.1).weight_decay(0.5);
    /// let mut adam = AdamW::new(vec![x.clone()], options)?;
    /// x.mul(&x)?.sum()?.backward()?;
    /// adam.step()?;
    /// assert!((x.to_vec::<f64>()?[0] - (4.0 * (1.0 - 0.1 * 0.5) - 0.1)).abs() < 1e-8);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    AdamW<AdamOptions>, NEEDS, &STATE_NAMES, |options, param, grad, state, scratch| {
        update(options, Decay::Decoupled, param, grad, state, scratch)
    }
}
