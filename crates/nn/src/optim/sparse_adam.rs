//! Adam for sparse gradients, which moves the elements that a gradient has, and no others.

use super::group::{Field, Hyper, Needs, ParamState, Scratch, advance, check_at_least_zero, state_tensor};
use super::sparse_rows::rows_of;
use flambeau_core::{Layout, Result, ScalarType, bail, ensure};
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`SparseAdam`]; the defaults are PyTorch's.
    #[derive(PartialEq)]
    SparseAdamOptions {
        /// The learning rate: about how far a step moves each element.
        lr: f64 = 1e-3,
        /// How much of the moving mean of gradients is kept.
        beta1: f64 = 0.9,
        /// How much of the moving mean of squares is kept.
        beta2: f64 = 0.999,
        /// Added to the divisor.
        eps: f64 = 1e-8,
        /// Climbs instead of descending.
        maximize: bool = false,
        /// How much of a parameter is added to its gradient. It needs `lazy`, as rows without a gradient stay as they are.
        weight_decay: f64 = 0.0,
        /// Permits weight decay of the rows that a gradient has, and of no others.
        lazy: bool = false,
    }
}

impl Hyper for SparseAdamOptions {
    fn check(&self) -> Result<()> {
        check_at_least_zero("lr", self.lr)?;
        check_at_least_zero("eps", self.eps)?;
        check_at_least_zero("weight_decay", self.weight_decay)?;
        ensure!(
            self.lazy || self.weight_decay == 0.0,
            InvalidArgument,
            "weight decay changes all rows of a parameter, and a step those of the gradient; with lazy it is for these alone"
        );
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            ensure!((0.0..1.0).contains(&beta), InvalidArgument, "expected {name} in [0, 1) but got {beta}");
        }
        Ok(())
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.beta1)),
            ("beta2", Field::Number(&mut self.beta2)),
            ("eps", Field::Number(&mut self.eps)),
            ("maximize", Field::Flag(&mut self.maximize)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("lazy", Field::Flag(&mut self.lazy)),
        ]
    }

    fn lr(&mut self) -> &mut f64 {
        &mut self.lr
    }
}

const STATE_NAMES: [&str; 3] = ["step", "exp_avg", "exp_avg_sq"];

const NEEDS: Needs<SparseAdamOptions> = Needs { state_names: |_| &STATE_NAMES[1..], scratch_count: |_| 0 };

fn update(
    options: &SparseAdamOptions,
    param: &Tensor,
    grad: Tensor,
    state: &mut ParamState,
    _scratch: &Scratch,
) -> Result<()> {
    let Some((index, values)) = rows_of(&grad, options.maximize, 0.0)? else {
        bail!(InvalidArgument, "SparseAdam does not support dense gradients, please consider Adam instead")
    };
    let step = advance(state)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let (means, squares) = (state_tensor(state, "exp_avg")?, state_tensor(state, "exp_avg_sq")?);
    let SparseAdamOptions { lr, beta1, beta2, eps, weight_decay, .. } = *options;
    if let [Some(rows)] = &index[..]
        && [param, &means, &squares].iter().all(|t| is_updated_in_one_pass(t, &values))
    {
        return ops::_sparse_adam_(
            param,
            &means,
            &squares,
            rows,
            &values,
            lr,
            beta1,
            beta2,
            eps,
            weight_decay,
            step,
        );
    }
    let values = match weight_decay {
        0.0 => values,
        decay => ops::add_tensor(&values, &ops::index_tensor(param, &index)?, decay.into())?,
    };
    let mean = ops::lerp_scalar(&ops::index_tensor(&means, &index)?, &values, (1.0 - beta1).into())?;
    let square = ops::mul_tensor(&values, &values)?;
    let square = ops::lerp_scalar(&ops::index_tensor(&squares, &index)?, &square, (1.0 - beta2).into())?;
    ops::index_put_(&means, &index, &mean, false)?;
    ops::index_put_(&squares, &index, &square, false)?;
    let rate = lr * (1.0 - beta2.powf(step)).sqrt() / (1.0 - beta1.powf(step));
    let divisor = ops::add_scalar(&ops::sqrt(&square)?, eps.into(), 1.into())?;
    let change = ops::mul_scalar(&ops::div_tensor(&mean, &divisor)?, (-rate).into())?;
    ops::index_put_(param, &index, &change, true)
}

/// Whether one kernel can compute the step of rows of this tensor.
fn is_updated_in_one_pass(tensor: &Tensor, values: &Tensor) -> bool {
    let is_wide = matches!(tensor.dtype(), ScalarType::F32 | ScalarType::F64);
    let is_dense = tensor.layout() == Layout::Strided && tensor.is_contiguous();
    is_wide && is_dense && tensor.device().is_cpu() && tensor.dtype() == values.dtype()
}

optimizer! {
    /// Adam for sparse gradients, such as those of an embedding: means and parameter of an element change only in steps whose gradient has
    /// the element.
    ///
    /// ```
    /// use flambeau_autograd::Autograd;
    /// use flambeau_nn::optim::{Optimizer, SparseAdam, SparseAdamOptions};
    /// use flambeau_ops::{Tensor, ops};
    /// let table = Tensor::from([[1.0f64], [2.0]]);
    /// table.requires_grad_(true)?;
    /// let mut adam = SparseAdam::new(vec![table.clone()], SparseAdamOptions::default().lr(0.5))?;
    /// ops::embedding(&table, &Tensor::from([1i64]), -1, false, true)?.sum()?.backward()?;
    /// adam.step()?;
    /// let moved = table.detach()?.to_vec::<f64>()?;
    /// assert!(moved[0] == 1.0 && (moved[1] - 1.5).abs() < 2e-7);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    SparseAdam<SparseAdamOptions>, NEEDS, &STATE_NAMES, update
}
