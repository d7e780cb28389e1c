//! Adagrad: steps scaled by the sum of all squared gradients.

use super::group::{Field, Hyper, Needs, ParamState, Scratch, advance, check_at_least_zero, state_tensor};
use super::sparse_rows::rows_of;
use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`Adagrad`]; the defaults are PyTorch's.
    #[derive(PartialEq)]
    AdagradOptions {
        /// The learning rate: how far the first step goes.
        lr: f64 = 1e-2,
        /// By how much the rate falls with each step.
        lr_decay: f64 = 0.0,
        /// How much of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
        /// What sums of squares begin with.
        initial_accumulator_value: f64 = 0.0,
        /// Added to the divisor.
        eps: f64 = 1e-10,
        /// Climbs instead of descending.
        maximize: bool = false,
    }
}

impl Hyper for AdagradOptions {
    fn check(&self) -> Result<()> {
        check_at_least_zero("lr", self.lr)?;
        check_at_least_zero("lr_decay", self.lr_decay)?;
        check_at_least_zero("weight_decay", self.weight_decay)?;
        check_at_least_zero("initial_accumulator_value", self.initial_accumulator_value)?;
        check_at_least_zero("eps", self.eps)
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("lr_decay", Field::Number(&mut self.lr_decay)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("initial_accumulator_value", Field::Number(&mut self.initial_accumulator_value)),
            ("eps", Field::Number(&mut self.eps)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn lr(&mut self) -> &mut f64 {
        &mut self.lr
    }
}

const STATE_NAMES: [&str; 2] = ["step", "sum"];

const NEEDS: Needs<AdagradOptions> = Needs {
    state_names: |_| &STATE_NAMES[1..],
    scratch_count: |options| 1 + usize::from(options.maximize || options.weight_decay != 0.0),
};

fn update(
    options: &AdagradOptions,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    scratch: &Scratch,
) -> Result<()> {
    let sparse = rows_of(&grad, options.maximize, options.weight_decay)?;
    let rate = options.lr / (1.0 + (advance(state)? - 1.0) * options.lr_decay);
    let sum = state_tensor(state, "sum")?;
    if scratch.is_created(&sum) {
        ops::fill__scalar(&sum, options.initial_accumulator_value.into())?;
    }
    if let Some((index, values)) = sparse {
        ops::index_put_(&sum, &index, &ops::mul_tensor(&values, &values)?, true)?;
        let divisor = ops::sqrt(&ops::index_tensor(&sum, &index)?)?;
        let divisor = ops::add_scalar(&divisor, options.eps.into(), 1.into())?;
        let change = ops::mul_scalar(&ops::div_tensor(&values, &divisor)?, (-rate).into())?;
        return ops::index_put_(param, &index, &change, true);
    }
    let grad = scratch.gradient(param, grad, options.maximize, options.weight_decay)?;
    ops::addcmul_(&sum, &grad, &grad, 1.into())?;
    let divisor = scratch.buffer(param, (NEEDS.scratch_count)(options) - 1)?;
    ops::sqrt_out(&sum, &divisor)?;
    ops::add__scalar(&divisor, options.eps.into(), 1.into())?;
    ops::addcdiv_(param, &grad, &divisor, (-rate).into())
}

optimizer! {
    /// Steps by the gradient over the root of the sum of its squares so far: Duchi, Hazan and Singer, "Adaptive subgradient methods",
    /// 2011.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{Adagrad, AdagradOptions, Optimizer};
    /// use flambeau_ops::Tensor;
    /// let x = Tensor::from([4.0f64]);
    /// x.requires_grad_(true)?;
    /// let mut adagrad = Adagrad::new(vec![x.clone()], AdagradOptions::default().lr(0.5))?;
    /// x.mul(&x)?.sum()?.backward()?;
    /// adagrad.step()?;
    /// assert!((x.item::<f64>()? - 3.5).abs() < 1e-9);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Adagrad<AdagradOptions>, NEEDS, &STATE_NAMES, update
}
