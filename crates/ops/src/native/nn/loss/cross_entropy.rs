//! The cross entropy of scores, with classes or their probabilities as the target, composed of other operators.

use super::fused_cross_entropy::can_fuse;
use super::reduction::{Reduction, reduction_of};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, bail, ensure};

/// The cross entropy of `softmax(self)` and classes, or probabilities of classes.
pub fn cross_entropy_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    ensure!(
        (0.0..=1.0).contains(&label_smoothing),
        InvalidArgument,
        operator = "cross_entropy_loss",
        argument = "label_smoothing",
        "label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
    );
    ensure!(
        self_.dim() >= 1,
        Shape,
        operator = "cross_entropy_loss",
        argument = "self",
        "Expected 1 or more dimensions (got 0)"
    );
    let dim = if self_.dim() == 1 { 0 } else { 1 };
    if label_smoothing == 0.0 && can_fuse(self_, target) {
        return Ok(ops::_cross_entropy(self_, target, weight, reduction, ignore_index)?.0);
    }
    let input = ops::_log_softmax(self_, dim, false)?;
    if self_.sizes() == target.sizes() {
        ensure!(
            ignore_index < 0,
            InvalidArgument("cross_entropy_loss", "ignore_index"),
            "ignore_index is not supported for floating point target, but got {ignore_index}"
        );
        return probabilities(&input, target, weight, reduction_of(reduction)?, dim, label_smoothing);
    }
    let nll = ops::nll_loss_nd(&input, target, weight, reduction, ignore_index)?;
    if label_smoothing == 0.0 {
        return Ok(nll);
    }
    let smooth = smooth_loss(&input, target, weight, reduction_of(reduction)?, ignore_index, dim)?;
    let share = label_smoothing / self_.sizes()[dim as usize] as f64;
    let nll_part = ops::mul_scalar(&nll, Scalar::Float(1.0 - label_smoothing))?;
    ops::add_tensor(&nll_part, &ops::mul_scalar(&smooth, Scalar::Float(share))?, Scalar::Int(1))
}

/// A vector with an element for each class, viewed so that it broadcasts against `input`.
fn across(classes: &Tensor, input: &Tensor, dim: i64) -> Result<Tensor> {
    let mut sizes = vec![1; input.dim()];
    sizes[dim as usize] = classes.numel();
    ops::view(classes, &sizes)
}

/// The loss of a target that has the same probability for every class, which label smoothing mixes in.
fn smooth_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
    ignore_index: i64,
    dim: i64,
) -> Result<Tensor> {
    let weighted = match weight {
        Some(weight) => ops::mul_tensor(input, &across(weight, input, dim)?)?,
        None => input.clone(),
    };
    let each = ops::neg(&ops::sum_dim_intlist(&weighted, Some(&[dim]), false, None)?)?;
    let not_ignored = ops::ne_scalar(target, Scalar::Int(ignore_index))?;
    // Filled rather than multiplied by zero: with all targets ignored, the gradient of a mean is infinite, and its product NaN.
    let each = ops::masked_fill_scalar(&each, &ops::logical_not(&not_ignored)?, Scalar::Int(0))?;
    match reduction {
        Reduction::None => Ok(each),
        Reduction::Sum => ops::sum(&each, None),
        Reduction::Mean => {
            let total = as_dtype(&weight_of_not_ignored(target, &not_ignored, weight)?, each.dtype())?;
            ops::div_tensor(&ops::sum(&each, None)?, &total)
        }
    }
}

/// The sum of the weights of the targets that are not ignored, in f64.
fn weight_of_not_ignored(target: &Tensor, not_ignored: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(weight) = weight else { return ops::sum(not_ignored, Some(ScalarType::F64)) };
    let classes = as_dtype(&ops::mul_tensor(target, not_ignored)?, ScalarType::I64)?;
    let weights = ops::take(&as_dtype(weight, ScalarType::F64)?, &classes)?;
    ops::sum(&ops::mul_tensor(&weights, not_ignored)?, None)
}

/// The cross entropy with probabilities as the target.
fn probabilities(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
    dim: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    if !target.is_floating_point() {
        bail!(
            Dtype,
            operator = "cross_entropy_loss",
            argument = "target",
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype()
        );
    }
    let classes = input.sizes()[dim as usize];
    let target = if label_smoothing > 0.0 {
        let scaled = ops::mul_scalar(target, Scalar::Float(1.0 - label_smoothing))?;
        ops::add_scalar(&scaled, Scalar::Float(label_smoothing / classes as f64), Scalar::Int(1))?
    } else {
        target.clone()
    };
    let mut product = ops::mul_tensor(input, &target)?;
    if let Some(weight) = weight {
        ensure!(
            weight.sizes() == [classes],
            Shape("cross_entropy_loss", "weight"),
            "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of \
             shape: {:?}",
            weight.sizes()
        );
        product = ops::mul_tensor(&product, &across(weight, input, dim)?)?;
    }
    match reduction {
        Reduction::None => ops::neg(&ops::sum_dim_intlist(&product, Some(&[dim]), false, None)?),
        Reduction::Sum => ops::neg(&ops::sum(&product, None)?),
        Reduction::Mean => {
            let samples = input.numel() as f64 / classes as f64;
            ops::mul_scalar(&ops::sum(&product, None)?, Scalar::Float(-1.0 / samples))
        }
    }
}
