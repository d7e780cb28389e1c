//! Losses: a formula of prediction and target, and a reduction to the mean or the sum.

mod cross_entropy;
mod formulas;
mod fused_cross_entropy;
mod margin_loss;
mod multi_margin_loss;
mod multilabel_margin_loss;
mod nll_loss;
mod nll_samples;
mod reduction;
mod score;

pub use cross_entropy::*;
use formulas::*;
pub use fused_cross_entropy::*;
pub use multi_margin_loss::*;
pub use multilabel_margin_loss::*;
pub use nll_loss::*;

use crate::loops::reduce::{Epilogue, Sum, computing_type, sum_fold};
use crate::loops::{self, FloatFormula};
use crate::native::factory::empty_full::pointwise_strides;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::TensorSpec;
use crate::tensor_iterator::{Config, DimMask, TensorIterator, result_type};
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, ensure, shape};
use reduction::{Reduction, reduced_losses, reduction_of, share};

fn loss_meta(name: &str, args: &[&Tensor], reduction: i64) -> Result<TensorSpec> {
    let reduction = reduction_of(reduction).map_err(|e| e.in_operator(name))?;
    if let Some(spec) = spec_without_broadcast(args, reduction) {
        return Ok(spec);
    }
    let mut sizes = DimVec::new();
    for arg in args {
        sizes = shape::broadcast(&sizes, arg.sizes()).map_err(|e| e.in_operator(name))?;
    }
    let dtype = result_type(args.iter().copied())?;
    ensure!(
        dtype.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "self",
        "\"{name}\" not implemented for '{dtype}'"
    );
    if reduction != Reduction::None {
        return Ok(TensorSpec::new(&[], dtype, args[0].device()));
    }
    let spec = TensorSpec::new(&sizes, dtype, args[0].device());
    if args.iter().all(|arg| arg.is_contiguous()) {
        Ok(spec)
    } else {
        Ok(spec.with_strides(pointwise_strides(args)?))
    }
}

/// The result of [`loss_meta`] without broadcasting or type promotion: for scalars and contiguous tensors of one shape.
fn spec_without_broadcast(args: &[&Tensor], reduction: Reduction) -> Option<TensorSpec> {
    let first = args.iter().find(|t| t.dim() > 0)?;
    let (sizes, dtype) = (first.sizes(), first.dtype());
    let is_alike = |t: &&Tensor| {
        t.dtype() == dtype
            && t.device() == first.device()
            && t.is_contiguous()
            && !t.is_wrapped_number()
            && (t.dim() == 0 || shape::same(t.sizes(), sizes))
    };
    let alike = dtype.is_floating_point() && args.iter().all(is_alike);
    alike.then(|| TensorSpec::like(first, if reduction == Reduction::None { sizes } else { &[] }))
}

/// Evaluates a formula of broadcast arguments into `out`.
fn pointwise<const N: usize>(
    name: &'static str,
    args: [&Tensor; N],
    out: &Tensor,
    formula: impl FloatFormula<N>,
) -> Result<()> {
    let mut iter = TensorIterator::out(name, out);
    iter.build_from(&args, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::float_kernel(&iter, formula)?;
    }
    iter.finish_out()
}

/// Evaluates the formula of a loss and reduces it into `out`.
fn reduced<const N: usize>(
    name: &'static str,
    args: [&Tensor; N],
    reduction: i64,
    out: &Tensor,
    formula: impl FloatFormula<N>,
) -> Result<()> {
    let reduction = reduction_of(reduction)?;
    if reduction == Reduction::None {
        return pointwise(name, args, out, formula);
    }
    if loops::fused_map_sum(name, args, out, formula, epilogue(reduction, args[0].numel()))? {
        return Ok(());
    }
    let each = loss_meta(name, &args, 0)?.allocate(name)?;
    pointwise(name, args, &each, formula)?;
    reduce_into(&each, reduction, out)
}

fn reduce_into(each: &Tensor, reduction: Reduction, out: &Tensor) -> Result<()> {
    let epilogue = epilogue(reduction, each.numel());
    sum_fold(each, out, DimMask::new(None, each.dim())?, computing_type(out.dtype()), Sum, epilogue)
}

/// The epilogue of the sum of `count` losses.
fn epilogue(reduction: Reduction, count: i64) -> Epilogue {
    if reduction == Reduction::Mean { Epilogue::Divide(count as f64) } else { Epilogue::Identity }
}

/// Shape and type of a gradient with respect to `self_`.
fn gradient_meta(name: &str, args: &[&Tensor]) -> Result<TensorSpec> {
    loss_meta(name, args, 0)
}

fn weight_or_one(weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(weight) => Ok(weight.clone()),
        None => Tensor::wrapped_number(Scalar::Float(1.0)),
    }
}

/// Shape and type of [`mse_loss`].
pub fn mse_loss_meta(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<TensorSpec> {
    loss_meta("mse_loss", &[self_, target], reduction)
}

/// `(self - target)^2`.
pub fn mse_loss(self_: &Tensor, target: &Tensor, reduction: i64, out: &Tensor) -> Result<()> {
    reduced("mse_loss", [self_, target], reduction, out, SquaredError {})
}

/// Shape and type of [`mse_loss_backward`].
pub fn mse_loss_backward_meta(grad: &Tensor, self_: &Tensor, target: &Tensor, _: i64) -> Result<TensorSpec> {
    gradient_meta("mse_loss_backward", &[grad, self_, target])
}

/// The derivative of [`mse_loss`].
pub fn mse_loss_backward(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    out: &Tensor,
) -> Result<()> {
    let factor = 2.0 * share(reduction_of(reduction)?, out.numel());
    pointwise("mse_loss_backward", [grad, self_, target], out, SquaredErrorGradient { factor })
}

/// `|self - target|`: the smooth L1 loss with `beta` 0, which only floating point numbers have.
pub fn l1_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    let dtypes = [self_.dtype(), target.dtype()];
    if dtypes.iter().any(|dtype| dtype.is_complex()) || dtypes.iter().all(|dtype| dtype.is_integral(true)) {
        let losses = ops::abs(&ops::sub_tensor(self_, target, Scalar::Int(1))?)?;
        return reduced_losses(&losses, reduction).map_err(|e| e.in_operator("l1_loss"));
    }
    ops::smooth_l1_loss(self_, target, reduction, 0.0)
}

/// Shape and type of [`smooth_l1_loss`].
pub fn smooth_l1_loss_meta(self_: &Tensor, target: &Tensor, reduction: i64, beta: f64) -> Result<TensorSpec> {
    ensure!(
        beta >= 0.0,
        InvalidArgument,
        operator = "smooth_l1_loss",
        argument = "beta",
        "smooth_l1_loss does not support negative values for beta."
    );
    loss_meta("smooth_l1_loss", &[self_, target], reduction)
}

/// `0.5 * d^2 / beta` where `d = |self - target|` is below `beta`, else `d - 0.5 * beta`.
pub fn smooth_l1_loss(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
    out: &Tensor,
) -> Result<()> {
    reduced("smooth_l1_loss", [self_, target], reduction, out, SmoothL1 { beta })
}

/// Shape and type of [`smooth_l1_loss_backward`].
pub fn smooth_l1_loss_backward_meta(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    _: i64,
    _: f64,
) -> Result<TensorSpec> {
    gradient_meta("smooth_l1_loss_backward", &[grad, self_, target])
}

/// The derivative of [`smooth_l1_loss`].
pub fn smooth_l1_loss_backward(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
    out: &Tensor,
) -> Result<()> {
    let factor = share(reduction_of(reduction)?, out.numel());
    pointwise("smooth_l1_loss_backward", [grad, self_, target], out, SmoothL1Gradient { beta, factor })
}

/// Shape and type of [`huber_loss`].
pub fn huber_loss_meta(self_: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<TensorSpec> {
    ensure!(
        delta > 0.0,
        InvalidArgument,
        operator = "huber_loss",
        argument = "delta",
        "huber_loss does not support non-positive values for delta."
    );
    loss_meta("huber_loss", &[self_, target], reduction)
}

/// `0.5 * d^2` where `d = |self - target|` is at most `delta`, else `delta * (d - 0.5 * delta)`.
pub fn huber_loss(self_: &Tensor, target: &Tensor, reduction: i64, delta: f64, out: &Tensor) -> Result<()> {
    reduced("huber_loss", [self_, target], reduction, out, Huber { delta })
}

/// Shape and type of [`huber_loss_backward`].
pub fn huber_loss_backward_meta(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    _: i64,
    _: f64,
) -> Result<TensorSpec> {
    gradient_meta("huber_loss_backward", &[grad, self_, target])
}

/// The derivative of [`huber_loss`].
pub fn huber_loss_backward(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
    out: &Tensor,
) -> Result<()> {
    let factor = share(reduction_of(reduction)?, out.numel());
    pointwise("huber_loss_backward", [grad, self_, target], out, HuberGradient { delta, factor })
}

/// Shape and type of [`binary_cross_entropy`].
pub fn binary_cross_entropy_meta(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<TensorSpec> {
    let weight = weight_or_one(weight)?;
    loss_meta("binary_cross_entropy", &[self_, target, &weight], reduction)
}

/// `-weight * (target * log(self) + (1 - target) * log(1 - self))`, with logarithms of at least -100.
pub fn binary_cross_entropy(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    out: &Tensor,
) -> Result<()> {
    if self_.numel() > 0 {
        let (min, max) = ops::aminmax(self_, None, false)?;
        let inside = as_dtype(&min, ScalarType::F64)?.item::<f64>()? >= 0.0
            && as_dtype(&max, ScalarType::F64)?.item::<f64>()? <= 1.0;
        ensure!(
            inside,
            InvalidArgument,
            operator = "binary_cross_entropy",
            argument = "self",
            "all elements of input should be between 0 and 1"
        );
    }
    let weight = weight_or_one(weight)?;
    reduced("binary_cross_entropy", [self_, target, &weight], reduction, out, Bce {})
}

/// Shape and type of [`binary_cross_entropy_backward`].
pub fn binary_cross_entropy_backward_meta(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    _: i64,
) -> Result<TensorSpec> {
    let weight = weight_or_one(weight)?;
    gradient_meta("binary_cross_entropy_backward", &[grad, self_, target, &weight])
}

/// The derivative of [`binary_cross_entropy`].
pub fn binary_cross_entropy_backward(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    out: &Tensor,
) -> Result<()> {
    let factor = share(reduction_of(reduction)?, out.numel());
    let weight = weight_or_one(weight)?;
    let args = [grad, self_, target, &weight];
    pointwise("binary_cross_entropy_backward", args, out, BceGradient { factor })
}

/// Shape and type of [`binary_cross_entropy_with_logits`].
pub fn binary_cross_entropy_with_logits_meta(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<TensorSpec> {
    let (weight, positive) = (weight_or_one(weight)?, weight_or_one(pos_weight)?);
    loss_meta("binary_cross_entropy_with_logits", &[self_, target, &weight, &positive], reduction)
}

/// The cross entropy of `sigmoid(self)`, without overflow.
pub fn binary_cross_entropy_with_logits(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
    out: &Tensor,
) -> Result<()> {
    let (weight, positive) = (weight_or_one(weight)?, weight_or_one(pos_weight)?);
    let args = [self_, target, &weight, &positive];
    reduced("binary_cross_entropy_with_logits", args, reduction, out, BceWithLogits {})
}

/// Shape and type of [`kl_div`].
pub fn kl_div_meta(self_: &Tensor, target: &Tensor, reduction: i64, _log_target: bool) -> Result<TensorSpec> {
    loss_meta("kl_div", &[self_, target], reduction)
}

/// `target * (log(target) - self)`, where `target` is given by its logarithm if `log_target`.
pub fn kl_div(self_: &Tensor, target: &Tensor, reduction: i64, log_target: bool, out: &Tensor) -> Result<()> {
    if log_target {
        reduced("kl_div", [self_, target], reduction, out, Divergence::<true>)
    } else {
        reduced("kl_div", [self_, target], reduction, out, Divergence::<false>)
    }
}
