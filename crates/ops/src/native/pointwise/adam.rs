//! A step of Adam for a whole parameter, with the bits of the operators that it consists of.
#![expect(unsafe_code, reason = "promises that the operands share no memory")]

use super::ternary::interpolated;
use crate::loops::{Rounding, UpdateFormula, update_kernel};
use crate::structured::{ensure_same_device, ensure_written_once, overlaps_partially};
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::{Float, Number};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, Storage, ensure};

const NAME: &str = "_adam_step_";

/// Changes `self_` and its means by its gradient `grad`, in one pass over memory.
#[expect(clippy::too_many_arguments, reason = "the state and the options of an optimizer")]
pub fn adam_step_(
    self_: &Tensor,
    exp_avg: &Tensor,
    exp_avg_sq: &Tensor,
    grad: &Tensor,
    rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    correction: f64,
    kept: f64,
    decay: f64,
    maximize: bool,
) -> Result<()> {
    let operands = [self_, exp_avg, exp_avg_sq, grad];
    let step = AdamStep { rate, beta1, beta2, eps, correction, kept, decay, maximize };
    step.check(operands)?;
    if share_memory(operands)? {
        return step.by_operators(operands);
    }
    let mut iter = TensorIterator::in_place(NAME, self_);
    iter.add_output(Some(exp_avg));
    iter.add_output(Some(exp_avg_sq));
    iter.add_input(grad);
    iter.build(Config::SAME)?;
    if iter.is_meta() {
        return Ok(());
    }
    // SAFETY: three outputs and an input, whose types `check` and whose memory `share_memory` compared.
    unsafe { update_kernel::<AdamStep, 3, 1>(&iter, step) }
}

/// [`adam_step_`] by operators, on other devices and of tensors that share memory.
#[expect(clippy::too_many_arguments, reason = "the state and the options of an optimizer")]
pub fn by_operators(
    self_: &Tensor,
    exp_avg: &Tensor,
    exp_avg_sq: &Tensor,
    grad: &Tensor,
    rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    correction: f64,
    kept: f64,
    decay: f64,
    maximize: bool,
) -> Result<()> {
    let operands = [self_, exp_avg, exp_avg_sq, grad];
    let step = AdamStep { rate, beta1, beta2, eps, correction, kept, decay, maximize };
    step.check(operands)?;
    step.by_operators(operands)
}

/// Whether two of the operands may share memory, judged by the ranges of bytes that they span.
fn share_memory(operands: [&Tensor; 4]) -> Result<bool> {
    let views = operands.map(Tensor::strided_view);
    for (i, a) in views.iter().enumerate() {
        for b in &views[..i] {
            let are_same = || Storage::ptr_eq(a.storage(), b.storage()) && a.geometry() == b.geometry();
            if are_same() || overlaps_partially(*a, *b)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The options of a step, and what depends on its number.
#[derive(Clone, Copy)]
struct AdamStep {
    rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    correction: f64,
    kept: f64,
    decay: f64,
    maximize: bool,
}

impl AdamStep {
    /// Refuses operands of several kinds, before anything is written.
    fn check(&self, operands: [&Tensor; 4]) -> Result<()> {
        use ScalarType::{BF16, F16, F32, F64};
        let [self_, exp_avg, exp_avg_sq, grad] = operands;
        ensure!(
            matches!(self_.dtype(), F16 | BF16 | F32 | F64),
            Dtype(NAME, "self"),
            "expected a floating point tensor but got {}",
            self_.dtype()
        );
        for (argument, tensor) in [("exp_avg", exp_avg), ("exp_avg_sq", exp_avg_sq), ("grad", grad)] {
            ensure!(
                tensor.sizes() == self_.sizes(),
                Shape(NAME, argument),
                "expected the sizes of `self`, {:?}, but got {}",
                self_.sizes(),
                tensor.signature()
            );
            ensure!(
                tensor.dtype() == self_.dtype(),
                Dtype(NAME, argument),
                "expected the dtype of `self`, {}, but got {}",
                self_.dtype(),
                tensor.signature()
            );
        }
        for factor in [self.rate, self.beta1, self.beta2, self.eps, self.correction, self.kept, self.decay] {
            Scalar::Float(factor).check_range(self_.dtype()).map_err(|e| e.in_operator(NAME))?;
        }
        ensure_same_device(NAME, &operands)?;
        operands[..3].iter().try_for_each(|t| ensure_written_once(t).map_err(|e| e.in_operator(NAME)))
    }

    /// The step by an operator for each intermediate result. Of operands that share memory, each operator sees what those before it wrote.
    fn by_operators(&self, [self_, exp_avg, exp_avg_sq, grad]: [&Tensor; 4]) -> Result<()> {
        // First, so that nothing is written where there is no memory for it.
        let divisor = ops::empty_like(exp_avg_sq, None, None, None, None, None)?;
        let mut grad = if self.maximize { ops::neg(grad)? } else { grad.clone() };
        if self.decay != 0.0 {
            grad = ops::add_tensor(&grad, self_, self.decay.into())?;
        }
        if self.kept != 1.0 {
            ops::mul__scalar(self_, self.kept.into())?;
        }
        ops::lerp__scalar(exp_avg, &grad, (1.0 - self.beta1).into())?;
        ops::mul__scalar(exp_avg_sq, self.beta2.into())?;
        ops::addcmul_(exp_avg_sq, &grad, &grad, (1.0 - self.beta2).into())?;
        ops::sqrt_out(exp_avg_sq, &divisor)?;
        ops::div__scalar(&divisor, self.correction.into())?;
        ops::add__scalar(&divisor, self.eps.into(), 1.into())?;
        ops::addcdiv_(self_, exp_avg, &divisor, (-self.rate).into())
    }
}

/// A number in every lane.
#[inline(always)]
fn number<V: Number>(value: f64) -> V {
    V::scalar(Scalar::Float(value))
}

impl UpdateFormula<3, 1> for AdamStep {
    /// [`AdamStep::by_operators`]: the same operations in the same order, and their results rounded where an operator ends.
    #[inline(always)]
    fn call<V: Float, R: Rounding<V>>(self, [param, mean, square]: [V; 3], [grad]: [V; 1]) -> [V; 3] {
        let mut grad = if self.maximize { -grad } else { grad };
        if self.decay != 0.0 {
            grad = R::round(grad + number::<V>(self.decay) * param);
        }
        let param = R::round(param * number(self.kept));
        let mean = R::round(interpolated(mean, grad, number(1.0 - self.beta1)));
        let square = R::round(square * number(self.beta2));
        let square = R::round(square + number::<V>(1.0 - self.beta2) * grad * grad);
        let divisor = R::round(R::round(square.sqrt()) / number(self.correction));
        let divisor = R::round(divisor + R::round(number(self.eps)));
        let param = R::round(param + number::<V>(-self.rate) * (mean / divisor));
        [param, mean, square]
    }
}
