//! Adam and AdamW: steps scaled by moving means of the gradient and of its square.

use super::Optimizer;
use super::group::{Field, Groups, Hyper, Needs, ParamGroup, ParamState, Scratch, check_at_least_zero};
use crate::StateDict;
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::{Tensor, ops};

/// Options of [`Adam`] and [`AdamW`]; the defaults are PyTorch's, but for the weight decay of `AdamW`, 0.01 there.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamOptions {
    /// The learning rate: about how far a step goes.
    pub lr: f64,
    /// How much of the mean gradient is kept.
    pub beta1: f64,
    /// How much of the mean squared gradient is kept.
    pub beta2: f64,
    /// Added to the divisor.
    pub eps: f64,
    /// How much of the parameter is added to its gradient; for [`AdamW`], how much the parameter shrinks, times `lr`.
    pub weight_decay: f64,
    /// Divides by the largest mean squared gradient so far.
    pub amsgrad: bool,
    /// Climbs instead of descending.
    pub maximize: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        AdamOptions {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            amsgrad: false,
            maximize: false,
        }
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

fn update(
    options: &AdamOptions,
    decay: Decay,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    scratch: &Scratch,
) -> Result<()> {
    let decoupled = matches!(decay, Decay::Decoupled);
    let added = if decoupled { 0.0 } else { options.weight_decay };
    let grad = scratch.gradient(param, grad, options.maximize, added)?;
    if decoupled && options.weight_decay != 0.0 {
        ops::mul__scalar(param, (1.0 - options.lr * options.weight_decay).into())?;
    }
    let step = advance(state)?;
    let mean = state_tensor(state, "exp_avg")?;
    let square = state_tensor(state, "exp_avg_sq")?;
    ops::lerp__scalar(&mean, &grad, (1.0 - options.beta1).into())?;
    ops::mul__scalar(&square, options.beta2.into())?;
    ops::addcmul_(&square, &grad, &grad, (1.0 - options.beta2).into())?;
    let mut square = square;
    if options.amsgrad {
        let largest = state_tensor(state, "max_exp_avg_sq")?;
        ops::maximum_out(&largest, &square, &largest)?;
        square = largest;
    }
    // Both means begin at zero; division by these corrects the bias.
    let (correction1, correction2) = (1.0 - options.beta1.powf(step), 1.0 - options.beta2.powf(step));
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

/// The number of this step, from 1.
fn advance(state: &mut ParamState) -> Result<f64> {
    let step = state.get("step").map_or(Ok(0.0), Tensor::item::<f64>)? + 1.0;
    state.insert("step", Tensor::from(step));
    Ok(step)
}

/// The state tensor `name` of a parameter, allocated before the step.
fn state_tensor(state: &ParamState, name: &str) -> Result<Tensor> {
    let Some(tensor) = state.get(name) else { bail!(Internal, "a step needs `{name}`, which is not there") };
    Ok(tensor.clone())
}

const STATE_NAMES: [&str; 4] = ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

/// The two optimisers differ in how weight decay enters.
macro_rules! adam {
    ($(#[$doc:meta])* $name:ident, $decay:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Groups<AdamOptions>);

        impl $name {
            /// One group of parameters.
            ///
            /// # Errors
            /// `InvalidArgument` for options out of range and parameters given twice, `Autograd` for tensors that are no
            /// leaves or require no gradient.
            pub fn new(params: Vec<Tensor>, options: AdamOptions) -> Result<Self> {
                Self::with_groups(vec![ParamGroup { params, options }])
            }

            /// Several groups.
            ///
            /// # Errors
            /// Those of [`new`](Self::new).
            pub fn with_groups(groups: Vec<ParamGroup<AdamOptions>>) -> Result<Self> {
                Groups::new(groups).map(Self).map_err(|e| e.context(stringify!($name)))
            }

            /// The groups.
            pub fn groups(&self) -> &[ParamGroup<AdamOptions>] {
                &self.0.groups
            }
        }

        impl Optimizer for $name {
            fn step(&mut self) -> Result<()> {
                self.0.each(NEEDS, |options, param, grad, state, scratch| {
                    update(options, $decay, param, grad, state, scratch)
                })
            }

            fn zero_grad(&self) -> Result<()> {
                self.0.zero_grad()
            }

            fn learning_rates(&self) -> Vec<f64> {
                self.0.learning_rates()
            }

            fn set_learning_rates(&mut self, rates: &[f64]) -> Result<()> {
                self.0.set_learning_rates(rates)
            }

            fn state_dict(&self) -> Result<StateDict> {
                self.0.state_dict()
            }

            fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
                self.0.load_state_dict(state, &STATE_NAMES)
            }
        }
    };
}

adam! {
    /// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, in PyTorch's order of operations.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{Adam, AdamOptions, Optimizer};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let mut adam = Adam::new(vec![x.clone()], AdamOptions { lr: 0.1, ..Default::default() })?;
    /// x.mul(&x)?.sum()?.backward()?;
    /// adam.step()?;
    /// assert!((x.to_vec::<f64>()?[0] - 3.9).abs() < 1e-8);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Adam, Decay::InGradient
}

adam! {
    /// [`Adam`] whose weight decay shrinks parameters apart from the gradient: Loshchilov and Hutter, "Decoupled weight
    /// decay regularization", 2019.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let options = AdamOptions { lr: 0.1, weight_decay: 0.5, ..Default::default() };
    /// let mut adam = AdamW::new(vec![x.clone()], options)?;
    /// x.mul(&x)?.sum()?.backward()?;
    /// adam.step()?;
    /// assert!((x.to_vec::<f64>()?[0] - (4.0 * (1.0 - 0.1 * 0.5) - 0.1)).abs() < 1e-8);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    AdamW, Decay::Decoupled
}
