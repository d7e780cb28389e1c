//! The margin loss of samples with one target class each, and its derivative: one pass over the scores.

use super::margin_loss::rows;
use super::reduction::reduced_losses;
use super::score::Score;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::native::nn::pooling::{PoolElement, wide};
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{DispatchKey, DispatchKeySet, MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

const NAME: &str = "multi_margin_loss";

/// The mean over classes of `max(0, margin - right + other)^p`, where `right` is the score of the target class, times the weight
/// of that class.
pub fn multi_margin_loss(
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let x = rows(NAME, self_)?;
    let samples = x.size(0)?;
    ensure!(
        target.dim() <= 1 && target.numel() == samples && (target.dim() == 1 || self_.dim() <= 1),
        Shape(NAME, "target"),
        "inconsistent target size, expected {samples} but got {:?}",
        target.sizes()
    );
    check_weight(&x, weight)?;
    let alone = self_.dim() <= 1 && target.dim() == 0;
    let losses = if suits_kernel(&x, target, p, margin, weight) {
        ops::_multi_margin_losses(&x, &target.reshape(&[samples])?, p, margin, weight)?
    } else {
        composed(&x, target, p, margin, weight)?
    };
    reduced_losses(&if alone { losses.squeeze_dim(0)? } else { losses }, reduction)
}

fn check_weight(x: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    let classes = x.size(1)?;
    ensure!(
        weight.is_none_or(|weight| weight.sizes() == [classes]),
        Shape(NAME, "weight"),
        "inconsistent weight size, expected {classes} but got {:?}",
        weight.map(Tensor::sizes)
    );
    Ok(())
}

/// Whether the kernel computes the losses: not for weights that require a gradient, and not where other rules than that of the gradient
/// apply, which are those of operators.
fn suits_kernel(x: &Tensor, target: &Tensor, p: Scalar, margin: Scalar, weight: Option<&Tensor>) -> bool {
    let recorded = x.key_set().without(DispatchKeySet::of(DispatchKey::Autograd));
    let keys = recorded | target.key_set() | weight.map_or(recorded, Tensor::key_set);
    target.dtype() == ScalarType::I64
        && weight.is_none_or(|weight| weight.dtype() == x.dtype())
        && [1.0, 2.0].contains(&p.to_f64())
        && !margin.is_complex()
        && dispatches_to_cpu(keys)
}

/// How far the target of each sample is behind each class, or 0, from targets in a column.
fn behind_each(x: &Tensor, indices: &Tensor, margin: Scalar) -> Result<Tensor> {
    x.sub(&x.gather(1, indices)?)?.add_scalar(margin)?.relu()
}

/// The loss of each sample, by operators that have derivatives.
fn composed(
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    let indices = target.reshape(&[x.size(0)?, 1])?;
    let behind = behind_each(x, &indices, margin)?;
    let behind = if are_squared(p)? { behind.square()? } else { behind };
    let mut losses = behind.scatter_value(1, &indices, 0)?.sum_dim(1)?;
    if let Some(weight) = weight {
        losses = losses.mul(&weight.index_select(0, &indices.squeeze_dim(1)?)?)?;
    }
    losses.div_scalar(x.size(1)?)
}

/// Whether the exponent is 2 rather than 1.
fn are_squared(p: Scalar) -> Result<bool> {
    match p.to_f64() {
        1.0 => Ok(false),
        2.0 => Ok(true),
        _ => bail!(InvalidArgument(NAME, "p"), "only p == 1 and p == 2 supported"),
    }
}

/// The losses of the rows of a matrix of scores, whose target classes are a vector: see [`multi_margin_loss`].
pub fn multi_margin_losses(
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    let samples = Samples::new(self_, target, p, margin, weight)?;
    let losses = TensorSpec::like(self_, target.sizes()).allocate(NAME)?;
    if !losses.device().is_meta() && losses.numel() > 0 {
        dispatch_all_types!(floats, losses.dtype(), NAME, T => samples.write_losses::<T>(&losses))?;
    }
    Ok(losses)
}

/// The derivative of [`multi_margin_losses`], times the gradients of the losses.
pub fn multi_margin_losses_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    let samples = Samples::new(self_, target, p, margin, weight)?;
    check_gradient(grad_output, target)?;
    let gradient = TensorSpec::like(self_, self_.sizes()).allocate(NAME)?;
    if !gradient.device().is_meta() && gradient.numel() > 0 {
        let grad = dense(&as_dtype(grad_output, gradient.dtype())?)?;
        dispatch_all_types!(floats, gradient.dtype(), NAME, T => samples.write_gradient::<T>(&grad, &gradient))?;
    }
    Ok(gradient)
}

/// [`multi_margin_losses`] by operators, on other devices.
pub fn multi_margin_losses_by_operators(
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    check_samples(self_, target, weight)?;
    composed(self_, target, p, margin, weight)
}

/// [`multi_margin_losses_backward`] by operators, on other devices.
pub fn multi_margin_losses_backward_by_operators(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    check_samples(self_, target, weight)?;
    check_gradient(grad_output, target)?;
    let indices = target.unsqueeze(1)?;
    let behind = behind_each(self_, &indices, margin)?;
    let slopes = if are_squared(p)? {
        behind.mul_scalar(2)?
    } else {
        // 1 also where it is NaN, as in the kernel.
        behind.le_scalar(0)?.logical_not()?.to(behind.dtype())?
    };
    let mut factors = as_dtype(grad_output, self_.dtype())?.div_scalar(self_.size(1)?)?;
    if let Some(weight) = weight {
        factors = factors.mul(&as_dtype(weight, self_.dtype())?.index_select(0, target)?)?;
    }
    let slopes = slopes.scatter_value(1, &indices, 0)?;
    let factors = ops::expand(&factors.unsqueeze(1)?, slopes.sizes(), false)?;
    let others = ops::_chain(&factors, &slopes)?.masked_fill(&slopes.eq_scalar(0)?, 0)?;
    let of_targets = ops::sum_dim_intlist(&others, Some(&[1]), true, None)?.neg()?;
    others.scatter(1, &indices, &of_targets)
}

fn check_samples(x: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    ensure!(
        x.dim() == 2 && target.sizes() == &x.sizes()[..1] && x.sizes()[1] > 0,
        Shape(NAME, "self"),
        "expected rows of scores, and a target for each, but got {} and {}",
        x.signature(),
        target.signature()
    );
    ensure!(
        x.is_floating_point() && target.dtype() == ScalarType::I64,
        Dtype(NAME, "self"),
        "expected scores of a floating point type and targets of {} but got {} and {}",
        ScalarType::I64,
        x.dtype(),
        target.dtype()
    );
    check_weight(x, weight)
}

fn check_gradient(grad_output: &Tensor, target: &Tensor) -> Result<()> {
    ensure!(
        grad_output.sizes() == target.sizes(),
        Shape(NAME, "grad_output"),
        "expected a gradient for each of {} samples but got {}",
        target.numel(),
        grad_output.signature()
    );
    Ok(())
}

/// Dense operands of the kernels.
struct Samples {
    /// Samples by classes.
    scores: Tensor,
    targets: Tensor,
    /// For each class; none if all are 1.
    weights: Tensor,
    margin: f64,
    squares: bool,
}

impl Samples {
    fn new(x: &Tensor, target: &Tensor, p: Scalar, margin: Scalar, weight: Option<&Tensor>) -> Result<Self> {
        check_samples(x, target, weight)?;
        let weights = match weight {
            Some(weight) => dense(&as_dtype(weight, x.dtype())?)?,
            None => TensorSpec::like(x, &[0]).allocate(NAME)?,
        };
        let (margin, squares) = (margin.to_f64(), are_squared(p)?);
        Ok(Samples { scores: dense(x)?, targets: dense(target)?, weights, margin, squares })
    }

    fn classes(&self) -> usize {
        self.scores.sizes()[1] as usize
    }

    fn write_losses<T: PoolElement<Sum: Score> + Pod>(&self, losses: &Tensor) -> Result<()> {
        let classes = self.classes();
        with_slices(NAME, &[&self.scores, &self.targets, &self.weights], &[losses], |s| {
            let (scores, targets, weights) = (s.read::<T>(0)?, s.read::<i64>(1)?, s.read::<T>(2)?);
            check(targets, classes)?;
            let rows = Rows { scores, targets, weights, margin: T::Sum::from_f64(self.margin), classes };
            fill_chunks(s.write::<T>(0)?, 1, GRAIN / classes, |range, part| {
                with_processor_vectors(
                    #[inline(always)]
                    || match self.squares {
                        true => rows.write_losses::<true>(range.start, part),
                        false => rows.write_losses::<false>(range.start, part),
                    },
                );
            });
            Ok(())
        })
    }

    fn write_gradient<T: PoolElement<Sum: Score> + Pod>(&self, grad: &Tensor, to: &Tensor) -> Result<()> {
        let classes = self.classes();
        with_slices(NAME, &[&self.scores, &self.targets, &self.weights, grad], &[to], |s| {
            let (scores, targets, weights) = (s.read::<T>(0)?, s.read::<i64>(1)?, s.read::<T>(2)?);
            check(targets, classes)?;
            let rows = Rows { scores, targets, weights, margin: T::Sum::from_f64(self.margin), classes };
            let grads = s.read::<T>(3)?;
            fill_chunks(s.write::<T>(0)?, classes, GRAIN / classes, |range, part| {
                let grads = &grads[range.start / classes..];
                with_processor_vectors(
                    #[inline(always)]
                    || match self.squares {
                        true => rows.write_gradient::<true>(range.start / classes, grads, part),
                        false => rows.write_gradient::<false>(range.start / classes, grads, part),
                    },
                );
            });
            Ok(())
        })
    }
}

/// In contiguous memory; an alias of the tensor or a copy, whose sizes no other thread changes.
fn dense(tensor: &Tensor) -> Result<Tensor> {
    ops::contiguous(&alias(tensor)?, MemoryFormat::Contiguous)
}

/// Refuses targets that are no classes.
fn check(targets: &[i64], size: usize) -> Result<()> {
    for target in targets {
        ensure!(
            (*target as usize) < size,
            InvalidArgument(NAME, "target"),
            "index {target} is out of bounds for dimension 1 with size {size}"
        );
    }
    Ok(())
}

/// Partial sums that are independent of one another, so that the loop vectorizes.
const LANES: usize = 8;

/// What the loops over samples read. `SQUARES` says that the exponent is 2 rather than 1.
struct Rows<'a, T: PoolElement> {
    scores: &'a [T],
    targets: &'a [i64],
    weights: &'a [T],
    margin: T::Sum,
    classes: usize,
}

impl<T: PoolElement<Sum: Score>> Rows<'_, T> {
    /// The scores of each sample from `first` on, and its target.
    #[inline(always)]
    fn from(&self, first: usize) -> impl Iterator<Item = (&[T], usize)> {
        let rows = self.scores[first * self.classes..].chunks_exact(self.classes);
        rows.zip(self.targets[first..].iter().map(|class| *class as usize))
    }

    #[inline(always)]
    fn write_losses<const SQUARES: bool>(&self, first: usize, to: &mut [T]) {
        for (to, (row, class)) in to.iter_mut().zip(self.from(first)) {
            let weight: f64 = self.weights.get(class).map_or(1.0, |weight| weight.widen().into());
            let sum = self.sum_behind::<SQUARES>(row, class);
            *to = T::narrow(T::Sum::from_f64(sum * weight / self.classes as f64));
        }
    }

    /// `margin - right + other`, or 0 if that is negative; NaN remains.
    #[inline(always)]
    fn behind(&self, other: T::Sum, right: T::Sum) -> T::Sum {
        let behind = other - right + self.margin;
        if behind <= T::ZERO { T::ZERO } else { behind }
    }

    /// The same to the power.
    #[inline(always)]
    fn term<const SQUARES: bool>(&self, other: T, right: T::Sum) -> f64 {
        let behind: f64 = self.behind(other.widen(), right).into();
        if SQUARES { behind * behind } else { behind }
    }

    /// The sum over all classes but the target of how far the target is [`behind`](Self::behind), to the power.
    #[inline(always)]
    fn sum_behind<const SQUARES: bool>(&self, row: &[T], target: usize) -> f64 {
        let right = row[target].widen();
        let mut sum = 0.0;
        if row.len() <= 2 * LANES {
            // No branch on the target, which could not be predicted.
            for (class, other) in row.iter().enumerate() {
                let term = self.term::<SQUARES>(*other, right);
                sum += if class == target { 0.0 } else { term };
            }
            return sum;
        }
        for others in [&row[..target], &row[target + 1..]] {
            let (groups, rest) = others.as_chunks::<LANES>();
            let mut lanes = [0.0; LANES];
            for group in groups {
                for (lane, other) in lanes.iter_mut().zip(group) {
                    *lane += self.term::<SQUARES>(*other, right);
                }
            }
            for (lane, other) in lanes.iter_mut().zip(rest) {
                *lane += self.term::<SQUARES>(*other, right);
            }
            sum += lanes.iter().sum::<f64>();
        }
        sum
    }

    /// The derivatives of the losses of the samples from `first` on, times their gradients.
    #[inline(always)]
    fn write_gradient<const SQUARES: bool>(&self, first: usize, grads: &[T], to: &mut [T]) {
        match self.classes {
            ..=4 => self.write_short_gradient::<SQUARES, 4>(first, grads, to),
            5..=8 => self.write_short_gradient::<SQUARES, 8>(first, grads, to),
            9..=16 => self.write_short_gradient::<SQUARES, 16>(first, grads, to),
            _ => self.write_long_gradient::<SQUARES>(first, grads, to),
        }
    }

    /// The factor of the derivative of a sample's loss: the gradient, times the weight of the target, by the number of classes, and the
    /// exponent.
    #[inline(always)]
    fn factor<const SQUARES: bool>(&self, grad: T, class: usize) -> f64 {
        let weight: f64 = self.weights.get(class).map_or(1.0, |weight| weight.widen().into());
        let (power, grad): (f64, f64) = (if SQUARES { 2.0 } else { 1.0 }, grad.widen().into());
        power * grad * (weight / self.classes as f64)
    }

    /// [`write_gradient`](Self::write_gradient) of at most `WIDTH` classes, of which loops over all lanes take a few instructions. Lanes
    /// past them are of the next row, which is written afterwards.
    #[inline(always)]
    fn write_short_gradient<const SQUARES: bool, const WIDTH: usize>(
        &self,
        first: usize,
        grads: &[T],
        to: &mut [T],
    ) {
        let samples = self.from(first).zip(grads).zip((0..to.len()).step_by(self.classes));
        for (((row, class), grad), at) in samples {
            let factor = self.factor::<SQUARES>(*grad, class);
            let scores = wide::<T, WIDTH>(self.scores, first * self.classes + at);
            let (right, mut slopes) = (row[class].widen(), [0.0; WIDTH]);
            for (lane, (slope, other)) in slopes.iter_mut().zip(scores).enumerate() {
                let own: f64 = self.slope::<SQUARES>(other, right).into();
                *slope = if (lane < self.classes) & (lane != class) { own } else { 0.0 };
            }
            let of_target = -sum_by_halves(slopes);
            for (lane, slope) in slopes.iter_mut().enumerate() {
                *slope = if lane == class { of_target } else { *slope };
            }
            let made = slopes.map(
                #[inline(always)]
                |slope| T::narrow(T::Sum::from_f64(chained(slope, factor))),
            );
            let to = &mut to[at..];
            match to.first_chunk_mut::<WIDTH>() {
                Some(to) => *to = made,
                None => to.iter_mut().zip(made).for_each(|(to, made)| *to = made),
            }
        }
    }

    /// [`write_gradient`](Self::write_gradient) of any number of classes.
    #[inline(always)]
    fn write_long_gradient<const SQUARES: bool>(&self, first: usize, grads: &[T], to: &mut [T]) {
        let mut slopes = scratch::filled(T::ZERO, self.classes);
        let rows = to.chunks_exact_mut(self.classes).zip(grads);
        for ((to, grad), (row, class)) in rows.zip(self.from(first)) {
            let (factor, right) = (self.factor::<SQUARES>(*grad, class), row[class].widen());
            for (slope, other) in slopes.iter_mut().zip(row) {
                *slope = self.slope::<SQUARES>(other.widen(), right);
            }
            slopes[class] = T::ZERO;
            let of_target = -sum_of(&slopes);
            for (to, slope) in to.iter_mut().zip(&slopes) {
                *to = T::narrow(T::Sum::from_f64(chained((*slope).into(), factor)));
            }
            to[class] = T::narrow(T::Sum::from_f64(chained(of_target, factor)));
        }
    }

    /// The derivative of the power of how far the target is [`behind`](Self::behind), by the exponent.
    #[inline(always)]
    fn slope<const SQUARES: bool>(&self, other: T::Sum, right: T::Sum) -> T::Sum {
        let behind = self.behind(other, right);
        // 1 also where it is NaN.
        if SQUARES || behind == T::ZERO { behind } else { Score::ONE }
    }
}

/// The product of a derivative and a gradient, which is 0 where one of them is, whatever the other.
#[inline(always)]
fn chained(slope: f64, grad: f64) -> f64 {
    if slope == 0.0 || grad == 0.0 { 0.0 } else { slope * grad }
}

/// The sum of all lanes, half of them at a time.
#[inline(always)]
fn sum_by_halves<const WIDTH: usize>(mut lanes: [f64; WIDTH]) -> f64 {
    let mut half = WIDTH / 2;
    while half > 0 {
        let (lower, upper) = lanes.split_at_mut(half);
        lower.iter_mut().zip(upper).for_each(|(sum, x)| *sum += *x);
        half /= 2;
    }
    lanes[0]
}

/// The sum of a row, in f64.
#[inline(always)]
fn sum_of<F: Score>(row: &[F]) -> f64 {
    let (groups, rest) = row.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for group in groups {
        for (lane, x) in lanes.iter_mut().zip(group) {
            *lane += (*x).into();
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += (*x).into();
    }
    lanes.iter().sum()
}
