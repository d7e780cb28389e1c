//! Stochastic gradient descent, with momentum.

use super::Optimizer;
use super::group::{Field, Groups, Hyper, Needs, ParamGroup, ParamState, Scratch, check_at_least_zero};
use crate::StateDict;
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::native::pointwise::accumulate::accumulate_scaled_;
use flambeau_ops::{Tensor, ops};

/// Options of [`Sgd`]; the defaults are PyTorch's.
#[derive(Debug, Clone, PartialEq)]
pub struct SgdOptions {
    /// The learning rate: how far a step goes.
    pub lr: f64,
    /// How much of the last step's direction is kept.
    pub momentum: f64,
    /// How much less of the gradient enters the direction.
    pub dampening: f64,
    /// How much of the parameter is added to its gradient.
    pub weight_decay: f64,
    /// Looks ahead along the momentum; needs momentum and no dampening.
    pub nesterov: bool,
    /// Climbs instead of descending.
    pub maximize: bool,
}

impl Default for SgdOptions {
    fn default() -> Self {
        SgdOptions {
            lr: 1e-3,
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: false,
            maximize: false,
        }
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

/// `p ← p - lr · g`, where `g` may be a moving sum of gradients: Sutskever et al., "On the importance of initialization and
/// momentum in deep learning", 2013, in PyTorch's order of operations.
///
/// ```
/// use flambeau_autograd::Autograd;
/// use flambeau_nn::optim::{Optimizer, Sgd, SgdOptions};
/// use flambeau_ops::Tensor;
/// let x = Tensor::from([4.0f64]);
/// x.requires_grad_(true)?;
/// let mut sgd = Sgd::new(vec![x.clone()], SgdOptions { lr: 0.25, ..Default::default() })?;
/// x.mul(&x)?.backward()?;
/// sgd.step()?;
/// assert_eq!(x.to_vec::<f64>()?, [4.0 - 0.25 * 8.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Sgd(Groups<SgdOptions>);

impl Sgd {
    /// One group of parameters.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range and parameters given twice, `Autograd` for tensors that are no leaves or
    /// ask for no gradient.
    pub fn new(params: Vec<Tensor>, options: SgdOptions) -> Result<Self> {
        Self::with_groups(vec![ParamGroup { params, options }])
    }

    /// Several groups.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_groups(groups: Vec<ParamGroup<SgdOptions>>) -> Result<Self> {
        Groups::new(groups).map(Sgd).map_err(|e| e.context("Sgd"))
    }

    /// The groups.
    pub fn groups(&self) -> &[ParamGroup<SgdOptions>] {
        &self.0.groups
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
    let Some(buffer) = state.get("momentum_buffer") else {
        bail!(Internal, "a step needs `momentum_buffer`, which is not there")
    };
    if scratch.is_created(buffer) {
        ops::copy_(buffer, grad, false)?;
    } else {
        ops::mul__scalar(buffer, options.momentum.into())?;
        ops::add__tensor(buffer, grad, (1.0 - options.dampening).into())?;
    }
    Ok(buffer.clone())
}

impl Optimizer for Sgd {
    fn step(&mut self) -> Result<()> {
        self.0.each(NEEDS, update)
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
        self.0.load_state_dict(state, &["momentum_buffer"])
    }
}
