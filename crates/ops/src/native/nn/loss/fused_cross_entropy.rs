//! The cross entropy of scores and classes in one operator, which does not materialize the logarithms of the softmax.

use super::nll_loss::{ClassTargets, check, reduce, specs};
use super::reduction::reduction_of;
use crate::loops::reduce::log_sum_exp_parts;
use crate::loops::row_ops::{ScaledSoftmax, scaled_softmax_rows};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, ScalarType, ensure, fallible};

/// Whether [`cross_entropy_loss`](super::cross_entropy_loss) can be [`fused_cross_entropy`]: for a matrix of scores in f32 or
/// f64.
pub(super) fn can_fuse(self_: &Tensor, target: &Tensor) -> bool {
    self_.dim() == 2 && target.dim() == 1 && [ScalarType::F32, ScalarType::F64].contains(&self_.dtype())
}

fn check_matrix(self_: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    ensure!(
        self_.dim() == 2,
        Shape("_cross_entropy", "self"),
        "expected `self` of 2 dimensions but got {}",
        self_.signature()
    );
    ensure!(
        [ScalarType::F32, ScalarType::F64].contains(&self_.dtype()),
        NotImplemented,
        operator = "_cross_entropy",
        argument = "self",
        "\"_cross_entropy\" not implemented for '{}'",
        self_.dtype()
    );
    check(self_, target, weight)
}

type Specs = (TensorSpec, TensorSpec, TensorSpec, TensorSpec);

/// Shapes and types of [`fused_cross_entropy`].
pub fn fused_cross_entropy_meta(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    _ignore_index: i64,
) -> Result<Specs> {
    check_matrix(self_, target, weight)?;
    let (output, total) = specs(self_, target, reduction_of(reduction)?);
    let part = || TensorSpec::like(self_, target.sizes());
    Ok((output, total, part(), part()))
}

/// `weight[target] * (max_score + log_sum - self[target])`, reduced, and the sum of the weights; for each sample the maximum of
/// its scores, and `log(sum(e^(self - max_score)))`.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn fused_cross_entropy(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    output: &Tensor,
    total_weight: &Tensor,
    max_score: &Tensor,
    log_sum: &Tensor,
) -> Result<()> {
    let classes = ClassTargets::new(self_, target, weight, ignore_index)?;
    log_sum_exp_parts(self_, [max_score, log_sum], DimMask::new(Some(&[1]), 2)?)?;
    let (weights, parts) = (classes.weights(ignore_index)?, parts(max_score, log_sum)?);
    let losses = dispatch_all_types!(wide_floats, self_.dtype(), "_cross_entropy", T => {
        let scores = self_.accessor::<T, 2>()?;
        let loss = |(i, (t, w)): (usize, (&i64, &f64))| {
            let at = if *t == ignore_index { None } else { scores.get([i, *t as usize]) };
            at.map_or(0.0, |x| (parts[i][0] - x.to_scalar().to_f64() + parts[i][1]) * w)
        };
        fallible::collect(classes.targets.iter().zip(&weights).enumerate().map(loss))
    })?;
    reduce(losses, weights.iter().sum(), reduction_of(reduction)?, output, total_weight)
}

/// `[max_score, log_sum]` of each sample, whose sum is its log-sum-exp.
fn parts(max_score: &Tensor, log_sum: &Tensor) -> Result<Vec<[f64; 2]>> {
    let all = |t: &Tensor| as_dtype(t, ScalarType::F64)?.to_vec::<f64>();
    fallible::collect(all(max_score)?.into_iter().zip(all(log_sum)?).map(|(a, b)| [a, b]))
}

/// Shape and type of [`fused_cross_entropy_backward`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn fused_cross_entropy_backward_meta(
    _grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    _reduction: i64,
    _ignore_index: i64,
    _total_weight: &Tensor,
    max_score: &Tensor,
    log_sum: &Tensor,
) -> Result<TensorSpec> {
    check_matrix(self_, target, weight)?;
    for part in [max_score, log_sum] {
        ensure!(
            part.sizes() == target.sizes(),
            Shape("_cross_entropy_backward"),
            "expected one statistic for each of {} samples but got {}",
            target.numel(),
            part.signature()
        );
    }
    Ok(TensorSpec::like(self_, self_.sizes()))
}

/// The derivative of [`fused_cross_entropy`]: `weight[target] * (softmax(self) - one_hot(target))`, times the gradient.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn fused_cross_entropy_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
    max_score: &Tensor,
    log_sum: &Tensor,
    grad_input: &Tensor,
) -> Result<()> {
    let reduction = reduction_of(reduction)?;
    let classes = ClassTargets::new(self_, target, weight, ignore_index)?;
    let amounts =
        classes.amounts("_cross_entropy_backward", grad_output, reduction, total_weight, ignore_index)?;
    let logarithms = parts(max_score, log_sum)?;
    let samples = classes.targets.iter().zip(amounts).zip(logarithms);
    let row = |((t, amount), logarithm): ((&i64, f64), _)| ScaledSoftmax {
        logarithm,
        scale: amount,
        target: *t as usize,
    };
    let rows = fallible::collect(samples.map(row))?;
    scaled_softmax_rows(self_, grad_input, &rows)
}
