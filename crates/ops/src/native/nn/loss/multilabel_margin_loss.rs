//! The margin loss of samples with several target classes each, and its derivative: for each target one pass over the other
//! classes.

use super::margin_loss::rows;
use super::reduction::{Reduction, reduced_losses, reduction_of, share};
use super::score::Score;
use crate::native::guarded_slices::{fill, fill_chunks, with_slices};
use crate::native::nn::pooling::{PoolElement, wide};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, ensure};

const NAME: &str = "multilabel_margin_loss";

/// The values of [`multilabel_margin_loss_forward`].
pub fn multilabel_margin_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    Ok(ops::multilabel_margin_loss_forward(self_, target, reduction)?.0)
}

/// The sum of `max(0, 1 - right + other)` over pairs of a target class and another class, divided by the number of classes; and
/// which classes are targets. Target classes are the elements of `target` before the first -1.
pub fn multilabel_margin_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<(Tensor, Tensor)> {
    let (x, target) = operands(self_, target)?;
    let (losses, is_target) =
        if x.device().is_cpu() { losses(&x, &target)? } else { Pairs::new(&x, &target)?.losses(&x)? };
    let losses = if self_.dim() <= 1 { losses.squeeze_dim(0)? } else { losses };
    Ok((reduced_losses(&losses, reduction)?, is_target.reshape(self_.sizes())?))
}

/// The derivative of [`multilabel_margin_loss_forward`]: for each class the number of pairs with a loss in which it is the other
/// class, less the number of those in which it is the target, times the gradient, divided by the number of classes.
pub fn multilabel_margin_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    is_target: &Tensor,
) -> Result<Tensor> {
    const NAME: &str = "multilabel_margin_loss_backward";
    let (x, target) = operands(self_, target)?;
    let reduction = reduction_of(reduction)?;
    let (samples, classes) = (x.size(0)?, x.size(1)?);
    let expected = if reduction == Reduction::None { samples } else { 1 };
    ensure!(
        grad_output.numel() == expected,
        Shape(NAME, "grad_output"),
        "expected {expected} gradients but got {}",
        grad_output.signature()
    );
    ensure!(
        is_target.sizes() == self_.sizes(),
        Shape(NAME, "is_target"),
        "expected a mark for each of {} but got {}",
        self_.signature(),
        is_target.signature()
    );
    let scale = share(reduction, samples) / classes as f64;
    let grad = grad_output.reshape(&[expected, 1])?;
    let gradient = if x.device().is_cpu() {
        gradient(&x, &target, &is_target.reshape(x.sizes())?, &grad, scale)?
    } else {
        let grad = ops::mul_scalar(&as_dtype(&grad, x.dtype())?, Scalar::Float(scale))?;
        Pairs::new(&x, &target)?.slopes(&x)?.mul(&grad)?
    };
    gradient.reshape(self_.sizes())
}

/// Scores and classes, as matrices of samples by classes.
fn operands(self_: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    let x = rows(NAME, self_)?;
    ensure!(
        target.sizes() == self_.sizes(),
        Shape(NAME, "target"),
        "inconsistent target size: {:?} for input of size: {:?}",
        target.sizes(),
        self_.sizes()
    );
    ensure!(
        target.dtype().is_integral(true),
        Dtype(NAME, "target"),
        "expected classes of an integer type but got {}",
        target.dtype()
    );
    let target = as_dtype(target, ScalarType::I64)?.reshape(x.sizes())?;
    Ok((x, target))
}

/// All pairs of an element of `target` and a class, as tensors of samples by targets by classes.
struct Pairs {
    /// The class of each target, or 0.
    indices: Tensor,
    /// Whether a class is a target.
    named: Tensor,
    /// `1 - right + other`.
    behind: Tensor,
    /// Whether the element is a target and the class is not.
    counted: Tensor,
}

impl Pairs {
    fn new(x: &Tensor, target: &Tensor) -> Result<Self> {
        let counts = target.ge_scalar(0)?.cumprod(1)?;
        let indices = target.mul(&counts)?;
        let named = counts.mul_scalar(0)?.scatter_add(1, &indices, &counts)?.gt_scalar(0)?;
        let right = x.gather(1, &indices)?.unsqueeze(2)?;
        let behind = x.unsqueeze(1)?.sub(&right)?.add_scalar(1)?;
        let counted = counts.gt_scalar(0)?.unsqueeze(2)?.logical_and(&named.logical_not()?.unsqueeze(1)?)?;
        Ok(Pairs { indices, named, behind, counted })
    }

    /// The loss of each sample, and which classes are targets.
    fn losses(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let each = self.behind.relu()?.mul(&self.counted.to(x.dtype())?)?;
        let losses = each.sum_dim([1, 2])?.div_scalar(x.size(1)?)?;
        Ok((losses, self.named.to(x.dtype())?))
    }

    /// The derivative of the sum of each sample's pairs.
    fn slopes(&self, x: &Tensor) -> Result<Tensor> {
        let has_loss = self.behind.le_scalar(0)?.logical_not()?;
        let pairs = has_loss.logical_and(&self.counted)?.to(x.dtype())?;
        pairs.sum_dim(1)?.scatter_add(1, &self.indices, &pairs.sum_dim(2)?.neg()?)
    }
}

/// In contiguous memory; an alias of the tensor or a copy, whose sizes no other thread changes.
fn dense(tensor: &Tensor) -> Result<Tensor> {
    ops::contiguous(&alias(tensor)?, MemoryFormat::Contiguous)
}

/// The loss of each sample, and which classes are targets.
fn losses(x: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    let losses = TensorSpec::like(x, &x.sizes()[..1]).allocate(NAME)?;
    let is_target = TensorSpec::like(x, x.sizes()).allocate(NAME)?;
    let (x, target) = (dense(x)?, dense(target)?);
    dispatch_all_types!(floats, x.dtype(), NAME, T => fill_losses::<T>(&x, &target, &losses, &is_target))?;
    Ok((losses, is_target))
}

fn fill_losses<T: PoolElement<Sum: Score> + Pod>(
    x: &Tensor,
    target: &Tensor,
    losses: &Tensor,
    is_target: &Tensor,
) -> Result<()> {
    let classes = x.size(1)? as usize;
    with_slices(NAME, &[x, target], &[losses, is_target], |s| {
        let samples = Samples::<T> { scores: s.read(0)?, targets: s.read(1)?, classes };
        samples.check()?;
        let marks = s.write::<T>(1)?;
        fill(marks, classes, |range, part| samples.mark(range.start / classes, part));
        fill_chunks(s.write::<T>(0)?, 1, GRAIN / classes, |range, part| {
            let mut others = scratch::filled(T::ZERO, classes);
            for (to, sample) in part.iter_mut().zip(range) {
                let loss = samples.loss(sample, samples.row(marks, sample), &mut others);
                *to = T::narrow(T::Sum::from_f64(loss / classes as f64));
            }
        });
        Ok(())
    })
}

/// `scale` times the gradient of each loss, or of their sum, times the derivative of the sum of a sample's pairs.
fn gradient(x: &Tensor, target: &Tensor, is_target: &Tensor, grad: &Tensor, scale: f64) -> Result<Tensor> {
    let gradient = TensorSpec::like(x, x.sizes()).allocate(NAME)?;
    let reads = [
        &dense(x)?,
        &dense(target)?,
        &dense(&as_dtype(is_target, x.dtype())?)?,
        &dense(&as_dtype(grad, ScalarType::F64)?)?,
    ];
    dispatch_all_types!(floats, x.dtype(), NAME, T => fill_gradient::<T>(reads, &gradient, scale))?;
    Ok(gradient)
}

fn fill_gradient<T: PoolElement<Sum: Score> + Pod>(
    reads: [&Tensor; 4],
    gradient: &Tensor,
    scale: f64,
) -> Result<()> {
    let classes = reads[0].size(1)? as usize;
    with_slices(NAME, &reads, &[gradient], |s| {
        let samples = Samples::<T> { scores: s.read(0)?, targets: s.read(1)?, classes };
        samples.check()?;
        let (marks, grads) = (s.read::<T>(2)?, s.read::<f64>(3)?);
        let grad_of = |sample: usize| grads[if grads.len() == 1 { 0 } else { sample }] * scale;
        fill(s.write::<T>(0)?, classes, |range, part| {
            let sample = range.start / classes;
            match classes {
                ..=4 => return short_gradients::<T, 4>(&samples, sample, marks, grad_of, part),
                5..=8 => return short_gradients::<T, 8>(&samples, sample, marks, grad_of, part),
                9..=16 => return short_gradients::<T, 16>(&samples, sample, marks, grad_of, part),
                _ => {}
            }
            let mut buffers = Buffers {
                others: scratch::filled(T::ZERO, classes),
                counts: scratch::filled(T::ZERO, classes),
                slopes: scratch::filled(0.0, classes),
            };
            for (row, sample) in part.chunks_mut(classes).zip(sample..) {
                let grad = grad_of(sample);
                samples.slopes(sample, samples.row(marks, sample), &mut buffers);
                for (to, slope) in row.iter_mut().zip(&buffers.slopes) {
                    *to = T::narrow(T::Sum::from_f64(slope * grad));
                }
            }
        });
        Ok(())
    })
}

/// [`Samples::short_gradients`] by the vectors of the processor.
fn short_gradients<T: PoolElement<Sum: Score>, const WIDTH: usize>(
    samples: &Samples<'_, T>,
    first: usize,
    marks: &[T],
    grad_of: impl Fn(usize) -> f64,
    to: &mut [T],
) {
    with_processor_vectors(
        #[inline(always)]
        || samples.short_gradients::<WIDTH>(first, marks, grad_of, to),
    );
}

/// Scores and targets of samples by classes, row-major.
struct Samples<'a, T> {
    scores: &'a [T],
    targets: &'a [i64],
    classes: usize,
}

/// Of one sample.
struct Buffers<F> {
    /// The scores of the classes that are no targets.
    others: Vec<F>,
    /// For each of them the number of targets that are less than the margin ahead.
    counts: Vec<F>,
    /// For each class the derivative of the sum of the pairs.
    slopes: Vec<f64>,
}

impl<T: PoolElement<Sum: Score>> Samples<'_, T> {
    /// The elements of a sample in a list of samples by classes.
    #[inline(always)]
    fn row<'a, E>(&self, elements: &'a [E], sample: usize) -> &'a [E] {
        &elements[sample * self.classes..][..self.classes]
    }

    /// The targets of a sample.
    #[inline(always)]
    fn targets(&self, sample: usize) -> impl Iterator<Item = usize> {
        self.row(self.targets, sample).iter().take_while(|class| **class >= 0).map(|class| *class as usize)
    }

    /// Refuses targets that are no classes.
    fn check(&self) -> Result<()> {
        let size = self.classes;
        for sample in 0..self.targets.len() / size {
            for class in self.targets(sample) {
                ensure!(
                    class < size,
                    InvalidArgument(NAME, "target"),
                    "index {class} is out of bounds for dimension 1 with size {size}"
                );
            }
        }
        Ok(())
    }

    /// Marks the targets of samples from `first` on by ones.
    fn mark(&self, first: usize, marks: &mut [T]) {
        marks.fill(T::narrow(T::ZERO));
        for (row, sample) in marks.chunks_mut(self.classes).zip(first..) {
            for class in self.targets(sample) {
                row[class] = T::narrow(Score::ONE);
            }
        }
    }

    /// Moves the scores of the classes without a mark to the front of `others`, and returns their number.
    #[inline(always)]
    fn collect_others(&self, sample: usize, marks: &[T], others: &mut [T::Sum]) -> usize {
        let mut count = 0;
        for (score, mark) in self.row(self.scores, sample).iter().zip(marks) {
            others[count] = score.widen();
            count += usize::from(mark.widen() == T::ZERO);
        }
        count
    }

    /// The sum of the pairs of a sample.
    fn loss(&self, sample: usize, marks: &[T], others: &mut [T::Sum]) -> f64 {
        if self.targets(sample).next().is_none() {
            return 0.0;
        }
        let (scores, count) = (self.row(self.scores, sample), self.collect_others(sample, marks, others));
        let mut sum = 0.0;
        for class in self.targets(sample) {
            sum += sum_behind(&others[..count], scores[class].widen());
        }
        sum
    }

    /// The derivative of the sum of the pairs of a sample.
    fn slopes(&self, sample: usize, marks: &[T], buffers: &mut Buffers<T::Sum>) {
        let scores = self.row(self.scores, sample);
        let Buffers { others, counts, slopes } = buffers;
        slopes.fill(0.0);
        if self.targets(sample).next().is_none() {
            return;
        }
        let count = self.collect_others(sample, marks, others);
        counts[..count].fill(T::ZERO);
        for class in self.targets(sample) {
            slopes[class] -= count_behind(&others[..count], scores[class].widen(), &mut counts[..count]);
        }
        let mut next = 0;
        for (slope, mark) in slopes.iter_mut().zip(marks) {
            // Read for targets too, and then not used: there is no pattern in the marks that a branch could follow.
            let (count, is_other) = (counts[next], mark.widen() == T::ZERO);
            *slope = if is_other { count.into() } else { *slope };
            next += usize::from(is_other);
        }
    }
}

/// The scores of a sample of at most `WIDTH` classes, and 1 for each class that is no target, else 0. Loops over all lanes are a few
/// instructions, whatever the number of classes; lanes past them hold any score, and do not count.
struct ShortSample<F, const WIDTH: usize> {
    scores: [F; WIDTH],
    counted: [i32; WIDTH],
}

impl<F: Score, const WIDTH: usize> ShortSample<F, WIDTH> {
    /// Counts each class that is no target and [`is_behind`], and returns how many.
    #[inline(always)]
    fn count_behind(&self, right: F, counts: &mut [i32; WIDTH]) -> i32 {
        let (ShortSample { scores, counted }, mut sum) = (self, 0);
        for lane in 0..WIDTH {
            let is_ahead = scores[lane] - right + F::ONE <= F::ZERO;
            let one = if is_ahead { 0 } else { counted[lane] };
            counts[lane] += one;
            sum += one;
        }
        sum
    }
}

impl<T: PoolElement<Sum: Score>> Samples<'_, T> {
    #[inline(always)]
    fn short<const WIDTH: usize>(&self, sample: usize, marks: &[T]) -> ShortSample<T::Sum, WIDTH> {
        let first = sample * self.classes;
        let (scores, marks) = (wide(self.scores, first), wide::<T, WIDTH>(marks, first));
        let mut counted = [0; WIDTH];
        for lane in 0..WIDTH {
            counted[lane] = i32::from((marks[lane] == T::ZERO) & (lane < self.classes));
        }
        ShortSample { scores, counted }
    }

    /// The gradients of the samples from `first` on, of at most `WIDTH` classes: `grad_of(sample)` times the derivative of the sum of the
    /// pairs, which is an integer.
    #[inline(always)]
    fn short_gradients<const WIDTH: usize>(
        &self,
        first: usize,
        marks: &[T],
        grad_of: impl Fn(usize) -> f64,
        to: &mut [T],
    ) {
        for (to, sample) in to.chunks_exact_mut(self.classes).zip(first..) {
            let short = self.short::<WIDTH>(sample, marks);
            let (mut counts, mut ahead) = ([0; WIDTH], [0; WIDTH]);
            for class in self.targets(sample) {
                let right = self.row(self.scores, sample)[class].widen();
                let count = short.count_behind(right, &mut counts);
                for (lane, ahead) in ahead.iter_mut().enumerate() {
                    *ahead += if lane == class { count } else { 0 };
                }
            }
            let grad = grad_of(sample);
            let mut slopes = [0.0; WIDTH];
            for lane in 0..WIDTH {
                let slope = if short.counted[lane] == 0 { -ahead[lane] } else { counts[lane] };
                slopes[lane] = f64::from(slope) * grad;
            }
            for (to, slope) in to.iter_mut().zip(slopes) {
                *to = T::narrow(T::Sum::from_f64(slope));
            }
        }
    }
}

/// Partial sums that are independent of one another, so that the loops vectorize.
const LANES: usize = 16;

/// Elements that are summed in the type of the scores, before the sums are added in f64.
const BLOCK: usize = 32 * LANES;

/// `1 - right + other`, or 0 if that is negative; NaN remains.
#[inline(always)]
fn behind<F: Score>(other: F, right: F) -> F {
    let behind = other - right + F::ONE;
    if behind <= F::ZERO { F::ZERO } else { behind }
}

/// 1, or 0 where [`behind`] is 0.
#[inline(always)]
fn is_behind<F: Score>(other: F, right: F) -> F {
    if other - right + F::ONE <= F::ZERO { F::ZERO } else { F::ONE }
}

/// The sum of [`behind`] over `others`.
fn sum_behind<F: Score>(others: &[F], right: F) -> f64 {
    let mut sum = 0.0;
    if others.len() < LANES {
        for other in others {
            sum += behind(*other, right).into();
        }
        return sum;
    }
    for block in others.chunks(BLOCK) {
        let mut lanes = [F::ZERO; LANES];
        let groups = block.chunks_exact(LANES);
        for (lane, other) in lanes.iter_mut().zip(groups.remainder()) {
            *lane = behind(*other, right);
        }
        for group in groups {
            for (lane, other) in lanes.iter_mut().zip(group) {
                *lane = *lane + behind(*other, right);
            }
        }
        for lane in lanes {
            sum += lane.into();
        }
    }
    sum
}

/// The number of `others` for which [`behind`] is not 0, each of which is counted in `counts` too.
fn count_behind<F: Score>(others: &[F], right: F, counts: &mut [F]) -> f64 {
    let mut sum = 0.0;
    if others.len() < LANES {
        for (other, count) in others.iter().zip(counts) {
            let one = is_behind(*other, right);
            *count = *count + one;
            sum += one.into();
        }
        return sum;
    }
    // Counts of a block are exact in every type.
    for (block, counts) in others.chunks(BLOCK).zip(counts.chunks_mut(BLOCK)) {
        let mut lanes = [F::ZERO; LANES];
        for (group, counts) in block.chunks(LANES).zip(counts.chunks_mut(LANES)) {
            for ((lane, other), count) in lanes.iter_mut().zip(group).zip(counts) {
                let one = is_behind(*other, right);
                *lane = *lane + one;
                *count = *count + one;
            }
        }
        for lane in lanes {
            sum += lane.into();
        }
    }
    sum
}
