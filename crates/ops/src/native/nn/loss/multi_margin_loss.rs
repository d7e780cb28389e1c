//! The margin loss of samples with one target class each: one pass over the scores where nothing records it.

use super::margin_loss::rows;
use super::reduction::reduced_losses;
use super::score::Score;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, dispatch_all_types, ops};
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

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
    let (samples, classes) = (x.size(0)?, x.size(1)?);
    ensure!(
        target.dim() <= 1 && target.numel() == samples && (target.dim() == 1 || self_.dim() <= 1),
        Shape(NAME, "target"),
        "inconsistent target size, expected {samples} but got {:?}",
        target.sizes()
    );
    ensure!(
        weight.is_none_or(|weight| weight.sizes() == [classes]),
        Shape(NAME, "weight"),
        "inconsistent weight size, expected {classes} but got {:?}",
        weight.map(Tensor::sizes)
    );
    let alone = self_.dim() <= 1 && target.dim() == 0;
    let losses = match Samples::new(&x, target, weight, p, margin)? {
        Some(samples) => samples.losses()?,
        None => composed(&x, target, p, margin, weight)?,
    };
    reduced_losses(&if alone { losses.squeeze_dim(0)? } else { losses }, reduction)
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
    let behind = x.sub(&x.gather(1, &indices)?)?.add_scalar(margin)?.relu()?;
    let behind = match p.to_f64() {
        1.0 => behind,
        2.0 => behind.square()?,
        _ => bail!(InvalidArgument(NAME, "p"), "only p == 1 and p == 2 supported"),
    };
    let mut losses = behind.scatter_value(1, &indices, 0)?.sum_dim(1)?;
    if let Some(weight) = weight {
        losses = losses.mul(&weight.index_select(0, &indices.squeeze_dim(1)?)?)?;
    }
    losses.div_scalar(x.size(1)?)
}

/// Dense operands of the kernel.
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
    /// `None` for operands that are left to operators: those of other types, and where a gradient is recorded.
    fn new(
        x: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        p: Scalar,
        margin: Scalar,
    ) -> Result<Option<Self>> {
        let keys = x.key_set() | target.key_set() | weight.map_or(x.key_set(), Tensor::key_set);
        let suits = matches!(x.dtype(), ScalarType::F32 | ScalarType::F64)
            && target.dtype() == ScalarType::I64
            && weight.is_none_or(|weight| weight.dtype() == x.dtype())
            && [1.0, 2.0].contains(&p.to_f64())
            && !margin.is_complex()
            && dispatches_to_cpu(keys);
        if !suits {
            return Ok(None);
        }
        let weights = match weight {
            Some(weight) => dense(weight)?,
            None => TensorSpec::like(x, &[0]).allocate(NAME)?,
        };
        let (scores, targets) = (dense(x)?, dense(target)?);
        let (margin, squares) = (margin.to_f64(), p.to_f64() == 2.0);
        Ok(Some(Samples { scores, targets, weights, margin, squares }))
    }

    /// The loss of each sample.
    fn losses(&self) -> Result<Tensor> {
        let losses = TensorSpec::like(&self.scores, &self.scores.sizes()[..1]).allocate(NAME)?;
        dispatch_all_types!(wide_floats, losses.dtype(), NAME, T => self.write::<T>(&losses))?;
        Ok(losses)
    }

    fn write<T: Score + Pod>(&self, losses: &Tensor) -> Result<()> {
        let classes = self.scores.size(1)? as usize;
        let margin = T::from_f64(self.margin);
        with_slices(NAME, &[&self.scores, &self.targets, &self.weights], &[losses], |s| {
            let (scores, targets, weights) = (s.read::<T>(0)?, s.read::<i64>(1)?, s.read::<T>(2)?);
            check(targets, classes)?;
            fill_chunks(s.write::<T>(0)?, 1, GRAIN / classes, |range, part| {
                let rows = scores[range.start * classes..].chunks_exact(classes);
                for ((to, row), target) in part.iter_mut().zip(rows).zip(&targets[range]) {
                    let class = *target as usize;
                    let sum = match self.squares {
                        true => sum_behind(
                            row,
                            class,
                            margin,
                            #[inline(always)]
                            |x| x * x,
                        ),
                        false => sum_behind(
                            row,
                            class,
                            margin,
                            #[inline(always)]
                            |x| x,
                        ),
                    };
                    let weight = weights.get(class).map_or(1.0, |weight| (*weight).into());
                    *to = T::from_f64(sum * weight / classes as f64);
                }
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

/// `margin - right + other`, or 0 if that is negative; NaN remains.
#[inline(always)]
fn behind<F: Score>(other: F, right: F, margin: F) -> f64 {
    let behind = other - right + margin;
    if behind <= F::ZERO { 0.0 } else { behind.into() }
}

/// The sum over all classes but the target of a function of how far the target is [`behind`].
#[inline(always)]
fn sum_behind<F: Score>(row: &[F], target: usize, margin: F, f: impl Fn(f64) -> f64) -> f64 {
    let right = row[target];
    let mut sum = 0.0;
    if row.len() <= 2 * LANES {
        // No branch on the target, which could not be predicted.
        for (class, other) in row.iter().enumerate() {
            let term = f(behind(*other, right, margin));
            sum += if class == target { 0.0 } else { term };
        }
        return sum;
    }
    for others in [&row[..target], &row[target + 1..]] {
        let (groups, rest) = others.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for group in groups {
            for (lane, other) in lanes.iter_mut().zip(group) {
                *lane += f(behind(*other, right, margin));
            }
        }
        for (lane, other) in lanes.iter_mut().zip(rest) {
            *lane += f(behind(*other, right, margin));
        }
        sum += lanes.iter().sum::<f64>();
    }
    sum
}
