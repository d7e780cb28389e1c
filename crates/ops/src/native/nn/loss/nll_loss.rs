//! The negative log likelihood of target classes.

use super::reduction::{Reduction, reduction_of};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view::reshape;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Element, Result, Scalar, ScalarType, ensure, fallible};

/// The input as samples by classes, with checked targets and weights.
pub(super) struct ClassTargets {
    /// Samples by classes.
    input: Tensor,
    pub(super) targets: Vec<i64>,
    weights: Option<Vec<f64>>,
}

pub(super) fn check(self_: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    ensure!(
        matches!(self_.dim(), 1 | 2) && target.dim() <= 1,
        Shape("nll_loss", "target"),
        "expected an input of 1 or 2 dimensions and a target of 0 or 1 but got {} and {}",
        self_.signature(),
        target.signature()
    );
    let samples = if self_.dim() == 2 { self_.sizes()[0] } else { 1 };
    ensure!(
        self_.dim() == target.dim() + 1 && target.numel() == samples,
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
    let classes = self_.sizes()[self_.dim() - 1];
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
        let input = reshape(self_, &[targets.len() as i64, classes])?;
        Ok(ClassTargets { input, targets, weights })
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
        let grads = as_dtype(grad_output, ScalarType::F64)?.to_vec::<f64>()?;
        ensure!(
            grads.len() == if reduction == Reduction::None { self.targets.len() } else { 1 },
            Shape(name, "grad_output"),
            "expected one gradient for each loss but got {}",
            grad_output.signature()
        );
        let total = match reduction {
            Reduction::Mean => as_dtype(total_weight, ScalarType::F64)?.item::<f64>()?,
            _ => 1.0,
        };
        let grad = |i: usize| grads.get(i).or(grads.first()).copied().unwrap_or(0.0);
        let weights = self.weights(ignore_index)?;
        // Ignored samples give 0 even if the total weight is 0.
        let amount = |(i, w): (usize, &f64)| if *w == 0.0 { 0.0 } else { grad(i) * w / total };
        fallible::collect(weights.iter().enumerate().map(amount))
    }

    /// `-weight * input` at each target, in f64.
    fn losses(&self, ignore_index: i64) -> Result<Vec<f64>> {
        let weights = self.weights(ignore_index)?;
        dispatch_all_types!(floats, self.input.dtype(), "nll_loss", T => {
            let input = self.input.accessor::<T, 2>()?;
            let loss = |(i, (t, w)): (usize, (&i64, &f64))| {
                let at = if *t == ignore_index { None } else { input.get([i, *t as usize]) };
                at.map_or(0.0, |x| -x.to_scalar().to_f64() * w)
            };
            fallible::collect(self.targets.iter().zip(&weights).enumerate().map(loss))
        })
    }
}

pub(super) fn specs(self_: &Tensor, target: &Tensor, reduction: Reduction) -> (TensorSpec, TensorSpec) {
    let none = reduction == Reduction::None && self_.dim() == 2;
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
    let classes = ClassTargets::new(self_, target, weight, ignore_index)?;
    let losses = classes.losses(ignore_index)?;
    let total: f64 = classes.weights(ignore_index)?.iter().sum();
    reduce(losses, total, reduction, output, total_weight)
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
        let sizes = output.sizes().to_vec();
        ops::fill__scalar(total_weight, Scalar::Int(0))?;
        return ops::copy_(output, &Tensor::from_vec(losses, &sizes)?, false);
    }
    let sum: f64 = losses.iter().sum();
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
    let classes = ClassTargets::new(self_, target, weight, ignore_index)?;
    let amounts = classes.amounts("nll_loss_backward", grad_output, reduction, total_weight, ignore_index)?;
    ops::zero_(grad_input)?;
    dispatch_all_types!(floats, grad_input.dtype(), "nll_loss_backward", T => {
        if self_.dim() == 1 {
            let mut to = grad_input.accessor_mut::<T, 1>()?;
            if let (Some(t), Some(amount)) = (classes.targets.first(), amounts.first())
                && *t != ignore_index
                && let Some(element) = to.get_mut([*t as usize])
            {
                *element = T::from_scalar(Scalar::Float(-amount));
            }
            return Ok(());
        }
        let mut to = grad_input.accessor_mut::<T, 2>()?;
        for (i, (t, amount)) in classes.targets.iter().zip(&amounts).enumerate() {
            if *t != ignore_index && let Some(element) = to.get_mut([i, *t as usize]) {
                *element = T::from_scalar(Scalar::Float(-amount));
            }
        }
        Ok(())
    })
}

/// The negative log likelihood of classes.
pub fn nll_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
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
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.remove(1);
    order.push(1);
    let rows = reshape(&ops::permute(self_, &order)?, &[target.numel(), sizes[1]])?;
    let flat = reshape(target, &[target.numel()])?;
    let loss = ops::nll_loss(&rows, &flat, weight, reduction, ignore_index)?;
    if reduction_of(reduction)? == Reduction::None { ops::view(&loss, target.sizes()) } else { Ok(loss) }
}
