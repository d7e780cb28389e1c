//! The negative log likelihood of target classes.

use super::nll_samples::NllSamples;
use super::reduction::{Reduction, reduction_of};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure, fallible};

/// The checked targets of a matrix of samples by classes, and their weights.
pub(super) struct ClassTargets {
    pub(super) targets: Vec<i64>,
    weights: Option<Vec<f64>>,
}

/// Refuses scores that are not samples by classes, and targets that are not samples.
fn check_dims(self_: &Tensor, target: &Tensor) -> Result<()> {
    ensure!(
        matches!(self_.dim(), 1 | 2) && target.dim() <= 1,
        Shape("nll_loss", "target"),
        "expected an input of 1 or 2 dimensions and a target of 0 or 1 but got {} and {}",
        self_.signature(),
        target.signature()
    );
    Ok(())
}

/// Checks scores with classes in dimension 1, or in the only one, and a target for each of the other dimensions.
pub(super) fn check(self_: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    if self_.dim() <= 2 {
        check_dims(self_, target)?;
    }
    let (classes, is_a_target_each) = match *self_.sizes() {
        [batch, classes, ref rest @ ..] => (
            classes,
            target.sizes().split_first().is_some_and(|(own, others)| *own == batch && others == rest),
        ),
        ref sizes => (sizes[0], target.dim() == 0),
    };
    ensure!(
        is_a_target_each,
        Shape,
        operator = "nll_loss",
        argument = "target",
        "size mismatch (got input: {:?}, target: {:?})",
        self_.sizes(),
        target.sizes()
    );
    ensure!(
        matches!(target.dtype(), ScalarType::I64 | ScalarType::U8),
        Dtype,
        operator = "nll_loss",
        argument = "target",
        "expected target dtype to be Long or Byte, but got {}",
        target.dtype()
    );
    ensure!(
        weight.is_none_or(|w| w.sizes() == [classes]),
        Shape,
        operator = "nll_loss",
        argument = "weight",
        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {:?}",
        weight.map(Tensor::sizes)
    );
    ensure!(
        self_.is_floating_point(),
        NotImplemented,
        operator = "nll_loss",
        argument = "self",
        "\"nll_loss_out_frame\" not implemented for '{}'",
        self_.dtype()
    );
    Ok(())
}

impl ClassTargets {
    pub(super) fn new(
        self_: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
    ) -> Result<Self> {
        check(self_, target, weight)?;
        let classes = self_.sizes()[self_.dim() - 1];
        let targets = as_dtype(target, ScalarType::I64)?.to_vec::<i64>()?;
        for t in targets.iter().filter(|t| **t != ignore_index) {
            ensure!(
                *t >= 0 && *t < classes,
                Index,
                operator = "nll_loss",
                argument = "target",
                "Target {t} is out of bounds."
            );
        }
        let weights = weight.map(|w| as_dtype(w, ScalarType::F64)?.to_vec::<f64>()).transpose()?;
        Ok(ClassTargets { targets, weights })
    }

    /// The weight of each sample's target; 0 for ignored ones.
    pub(super) fn weights(&self, ignore_index: i64) -> Result<Vec<f64>> {
        let weight = |t: &i64| match &self.weights {
            _ if *t == ignore_index => 0.0,
            Some(weights) => weights.get(*t as usize).copied().unwrap_or(0.0),
            None => 1.0,
        };
        fallible::collect(self.targets.iter().map(weight))
    }

    /// The negated derivative with respect to each sample's log probability: gradient times weight, divided by the total weight
    /// for a mean.
    pub(super) fn amounts(
        &self,
        name: &str,
        grad_output: &Tensor,
        reduction: Reduction,
        total_weight: &Tensor,
        ignore_index: i64,
    ) -> Result<Vec<f64>> {
        check_gradients(name, grad_output, reduction, self.targets.len() as i64)?;
        let grads = as_dtype(grad_output, ScalarType::F64)?.to_vec::<f64>()?;
        let total = total_of(reduction, total_weight)?;
        let grad = |i: usize| grads.get(i).or(grads.first()).copied().unwrap_or(0.0);
        let weights = self.weights(ignore_index)?;
        // Ignored samples give 0 even if the total weight is 0.
        let amount = |(i, w): (usize, &f64)| if *w == 0.0 { 0.0 } else { grad(i) * w / total };
        fallible::collect(weights.iter().enumerate().map(amount))
    }
}

pub(super) fn specs(self_: &Tensor, target: &Tensor, reduction: Reduction) -> (TensorSpec, TensorSpec) {
    let none = reduction == Reduction::None && self_.dim() >= 2;
    let output = TensorSpec::like(self_, if none { target.sizes() } else { &[] });
    (output, TensorSpec::like(self_, &[]))
}

/// Shapes and types of [`nll_loss_forward`].
pub fn nll_loss_forward_meta(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    _ignore_index: i64,
) -> Result<(TensorSpec, TensorSpec)> {
    check(self_, target, weight)?;
    Ok(specs(self_, target, reduction_of(reduction)?))
}

/// `-weight[target] * self[target]`, reduced, and the sum of the weights.
pub fn nll_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    output: &Tensor,
    total_weight: &Tensor,
) -> Result<()> {
    let reduction = reduction_of(reduction)?;
    check(self_, target, weight)?;
    let samples = NllSamples::new(self_, target, weight, ignore_index)?;
    if reduction == Reduction::None {
        ops::fill__scalar(total_weight, Scalar::Int(0))?;
        return fill_contiguous(
            output,
            |output| dispatch_all_types!(floats, self_.dtype(), "nll_loss", T => samples.write_losses::<T>(self_, output)),
        );
    }
    let [sum, total] = dispatch_all_types!(floats, self_.dtype(), "nll_loss", T => samples.sums::<T>(self_))?;
    write_reduced(sum, total, reduction, output, total_weight)
}

/// Calls `fill` with `output`, or if that is not contiguous with a tensor that is copied to it then.
fn fill_contiguous(output: &Tensor, fill: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    if output.is_contiguous() {
        return fill(output);
    }
    let filled = TensorSpec::like(output, output.sizes()).allocate("nll_loss")?;
    fill(&filled)?;
    ops::copy_(output, &filled, false)
}

/// Writes the reduced losses and the sum of their weights, which is 0 without a reduction.
pub(super) fn reduce(
    losses: Vec<f64>,
    total: f64,
    reduction: Reduction,
    output: &Tensor,
    total_weight: &Tensor,
) -> Result<()> {
    if reduction == Reduction::None {
        ops::fill__scalar(total_weight, Scalar::Int(0))?;
        return ops::copy_(output, &Tensor::from_vec(losses, output.sizes())?, false);
    }
    write_reduced(losses.iter().sum(), total, reduction, output, total_weight)
}

/// Writes the mean or the sum of losses and the sum of their weights.
fn write_reduced(
    sum: f64,
    total: f64,
    reduction: Reduction,
    output: &Tensor,
    total_weight: &Tensor,
) -> Result<()> {
    let loss = if reduction == Reduction::Mean { sum / total } else { sum };
    ops::copy_(total_weight, &Tensor::from_vec(vec![total], &[])?, false)?;
    ops::copy_(output, &Tensor::from_vec(vec![loss], &[])?, false)
}

/// Shape and type of [`nll_loss_backward`].
pub fn nll_loss_backward_meta(
    _grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    _reduction: i64,
    _ignore_index: i64,
    _total_weight: &Tensor,
) -> Result<TensorSpec> {
    check(self_, target, weight)?;
    Ok(TensorSpec::like(self_, self_.sizes()))
}

/// The derivative of [`nll_loss_forward`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn nll_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
    grad_input: &Tensor,
) -> Result<()> {
    let reduction = reduction_of(reduction)?;
    check(self_, target, weight)?;
    check_gradients("nll_loss_backward", grad_output, reduction, target.numel())?;
    let total = total_of(reduction, total_weight)?;
    let samples = NllSamples::new(self_, target, weight, ignore_index)?;
    let grad = as_dtype(grad_output, grad_input.dtype())?;
    fill_contiguous(grad_input, |to| {
        dispatch_all_types!(floats, to.dtype(), "nll_loss_backward", T => {
            samples.write_gradient::<T>(&grad, total, to)
        })
    })
}

/// Refuses another number of gradients than one for each loss.
fn check_gradients(name: &str, grad_output: &Tensor, reduction: Reduction, losses: i64) -> Result<()> {
    ensure!(
        grad_output.numel() == if reduction == Reduction::None { losses } else { 1 },
        Shape(name, "grad_output"),
        "expected one gradient for each loss but got {}",
        grad_output.signature()
    );
    Ok(())
}

/// What the gradient of a loss is divided by.
fn total_of(reduction: Reduction, total_weight: &Tensor) -> Result<f64> {
    match reduction {
        Reduction::Mean => as_dtype(total_weight, ScalarType::F64)?.item::<f64>(),
        _ => Ok(1.0),
    }
}

/// The negative log likelihood of classes.
pub fn nll_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    check_dims(self_, target)?;
    Ok(ops::nll_loss_forward(self_, target, weight, reduction, ignore_index)?.0)
}

/// The same with the classes in dimension 1 and any number of dimensions after it.
pub fn nll_loss_nd(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    ensure!(
        self_.dim() >= 1,
        Shape,
        operator = "nll_loss_nd",
        argument = "self",
        "Expected 1 or more dimensions (got 0)"
    );
    if self_.dim() <= 2 {
        return ops::nll_loss(self_, target, weight, reduction, ignore_index);
    }
    let (sizes, rank) = (self_.sizes(), self_.dim());
    ensure!(
        target.dim() + 1 == rank && target.sizes()[0] == sizes[0] && target.sizes()[1..] == sizes[2..],
        Shape,
        operator = "nll_loss_nd",
        argument = "target",
        "Expected target size {:?}, got {:?}",
        [&sizes[..1], &sizes[2..]].concat(),
        target.sizes()
    );
    Ok(ops::nll_loss_forward(self_, target, weight, reduction, ignore_index)?.0)
}
