//! The samples of a negative log likelihood: one pass over their targets, which checks them, looks up scores and adds up losses.

use super::score::Score;
use crate::native::guarded_slices::{Slices, fill, fill_chunks, with_slices};
use crate::native::nn::pooling::PoolElement;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view::reshape;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, ScalarType, bail};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Samples whose losses are added up one after another: the sums of blocks do not depend on the number of threads.
const BLOCK: usize = 4096;

/// Sums of a block that do not wait for one another: with one of each the loop takes four times as long.
const LANES: usize = 8;

/// Elements of a gradient that are set to zero before those of targets are written, while they are in the cache.
const CACHED: usize = 4096;

/// Targets, which are a class for each member of a batch and each position in it, and the weights of classes.
pub(super) struct NllSamples {
    /// Batch by positions.
    targets: Tensor,
    /// In f64; without elements if all are 1.
    weights: Tensor,
    classes: usize,
    ignore_index: i64,
}

impl NllSamples {
    /// The targets of scores whose classes are in dimension 1, or in the only one.
    pub(super) fn new(
        scores: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
    ) -> Result<Self> {
        let [batch, classes, positions] = batch_classes_positions(scores);
        let targets = reshape(&as_dtype(target, ScalarType::I64)?, &[batch, positions])?;
        let weights = match weight {
            Some(weight) => ops::contiguous(&as_dtype(weight, ScalarType::F64)?, MemoryFormat::Contiguous)?,
            None => Tensor::from_vec(Vec::<f64>::new(), &[0])?,
        };
        Ok(NllSamples { targets, weights, classes: classes as usize, ignore_index })
    }

    /// Writes the loss of each sample to `output`, which is contiguous.
    pub(super) fn write_losses<T: PoolElement<Sum: Score> + Pod>(
        &self,
        scores: &Tensor,
        output: &Tensor,
    ) -> Result<()> {
        self.with_losses::<T, _>(scores, &[output], |losses, s| {
            fill_chunks(s.write::<T>(0)?, 1, GRAIN, |range, part| {
                let first = range.start;
                losses.for_each(range, |sample, loss, _| {
                    part[sample - first] = T::narrow(Score::from_f64(loss));
                });
            });
            Ok(())
        })
    }

    /// The sum of the losses, and that of their weights.
    pub(super) fn sums<T: PoolElement<Sum: Score> + Pod>(&self, scores: &Tensor) -> Result<[f64; 2]> {
        self.with_losses::<T, _>(scores, &[], |losses, _| {
            let count = losses.layout.count();
            let mut blocks = scratch::filled([0.0; 2], count.div_ceil(BLOCK));
            fill_chunks(&mut blocks, 1, GRAIN / BLOCK, |range, part| {
                for (sums, first) in part.iter_mut().zip(range.map(|block| block * BLOCK)) {
                    let (mut loss_sums, mut weight_sums) = ([0.0; LANES], [0.0; LANES]);
                    losses.for_each(first..count.min(first + BLOCK), |sample, loss, weight| {
                        loss_sums[sample % LANES] += loss;
                        weight_sums[sample % LANES] += weight;
                    });
                    *sums = [loss_sums.iter().sum::<f64>(), weight_sums.iter().sum::<f64>()];
                }
            });
            Ok(blocks.iter().fold([0.0; 2], |total, sums| [total[0] + sums[0], total[1] + sums[1]]))
        })
    }

    /// Calls `body`, and refuses targets that it found to be no classes.
    fn with_losses<T: PoolElement<Sum: Score> + Pod, R>(
        &self,
        scores: &Tensor,
        writes: &[&Tensor],
        body: impl for<'g> FnOnce(&Losses<'g, T>, &Slices<'g>) -> Result<R>,
    ) -> Result<R> {
        let scores = reshape(scores, &batch_classes_positions(scores))?;
        with_slices("nll_loss", &[&scores, &self.targets, &self.weights], writes, |s| {
            let losses = Losses::<T> {
                scores: s.read(0)?,
                targets: s.read(1)?,
                rule: self.rule(s.read(2)?),
                layout: Layout::new(&scores, &self.targets),
                wrong: Wrong::none(),
            };
            let made = body(&losses, s)?;
            losses.wrong.check(|sample| losses.targets[losses.layout.target(sample)])?;
            Ok(made)
        })
    }

    fn rule<'a>(&self, weights: &'a [f64]) -> Rule<'a> {
        Rule { classes: self.classes, weights, ignore_index: self.ignore_index }
    }

    /// Writes the negated weights of the targets, times `grad` and divided by `total`, to `gradient`, which is contiguous, and zero
    /// for all other classes. `grad` has an element for each sample, or one for all.
    pub(super) fn write_gradient<T: PoolElement<Sum: Score> + Pod>(
        &self,
        grad: &Tensor,
        total: f64,
        gradient: &Tensor,
    ) -> Result<()> {
        let sizes = if grad.numel() == 1 { &[1, 1] } else { self.targets.sizes() };
        let grad = reshape(grad, sizes)?;
        let grad_strides = if grad.numel() == 1 { [0; 2] } else { strides(&grad, [0, 1]) };
        let positions = self.targets.sizes()[1] as usize;
        with_slices("nll_loss_backward", &[&self.targets, &self.weights, &grad], &[gradient], |s| {
            let slopes = Slopes::<T> {
                targets: s.read(0)?,
                rule: self.rule(s.read(1)?),
                grads: s.read(2)?,
                strides: [strides(&self.targets, [0, 1]), grad_strides],
                positions,
                total,
                wrong: Wrong::none(),
            };
            let unit = self.classes * positions;
            fill(s.write::<T>(0)?, unit, |range, part| slopes.write(range.start / unit, unit, part));
            slopes.wrong.check(|sample| slopes.target(sample / positions, sample % positions))
        })
    }
}

/// The sizes of scores, all dimensions after that of the classes in one.
fn batch_classes_positions(scores: &Tensor) -> [i64; 3] {
    match *scores.sizes() {
        [] => [1; 3],
        [classes] => [1, classes, 1],
        [batch, classes, ref rest @ ..] => [batch, classes, rest.iter().product()],
    }
}

fn strides<const N: usize>(tensor: &Tensor, dims: [usize; N]) -> [usize; N] {
    dims.map(|d| tensor.strides()[d] as usize)
}

/// The first sample found whose target is no class.
struct Wrong(AtomicUsize);

impl Wrong {
    fn none() -> Self {
        Wrong(AtomicUsize::new(usize::MAX))
    }

    #[cold]
    fn note(&self, sample: usize) {
        self.0.fetch_min(sample, Ordering::Relaxed);
    }

    fn check(&self, target: impl Fn(usize) -> i64) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            usize::MAX => Ok(()),
            sample => {
                bail!(Index("nll_loss", "target"), "Target {} is out of bounds.", target(sample))
            }
        }
    }
}

/// What a target counts.
enum Target {
    Ignored,
    /// It is no class.
    Wrong,
    Weight(f64),
}

#[derive(Clone, Copy)]
struct Rule<'a> {
    classes: usize,
    weights: &'a [f64],
    ignore_index: i64,
}

impl Rule<'_> {
    #[inline(always)]
    fn of(&self, target: i64) -> Target {
        match target as usize {
            _ if target == self.ignore_index => Target::Ignored,
            // A negative number is greater than every size.
            class if class >= self.classes => Target::Wrong,
            class => Target::Weight(self.weights.get(class).copied().unwrap_or(1.0)),
        }
    }
}

/// Where samples are: `inner` of them, one stride apart, in each of `outer` groups, one stride apart.
struct Layout {
    outer: usize,
    inner: usize,
    scores: [usize; 2],
    targets: [usize; 2],
    classes: usize,
}

impl Layout {
    /// Of batch by classes by positions, and batch by positions: in one group where strides allow that.
    fn new(scores: &Tensor, targets: &Tensor) -> Self {
        let [batch, positions] = [0, 1].map(|d| targets.sizes()[d] as usize);
        let ([classes], [x, t]) = (strides(scores, [1]), [strides(scores, [0, 2]), strides(targets, [0, 1])]);
        let (outer, inner, scores, targets) = if positions == 1 {
            (1, batch, [0, x[0]], [0, t[0]])
        } else if x[0] == positions * x[1] && t[0] == positions * t[1] {
            (1, batch * positions, [0, x[1]], [0, t[1]])
        } else {
            (batch, positions, x, t)
        };
        Layout { outer, inner, scores, targets, classes }
    }

    fn count(&self) -> usize {
        self.outer * self.inner
    }

    /// The offset of a sample's target.
    fn target(&self, sample: usize) -> usize {
        sample / self.inner * self.targets[0] + sample % self.inner * self.targets[1]
    }
}

/// The losses of samples.
struct Losses<'a, T> {
    scores: &'a [T],
    targets: &'a [i64],
    rule: Rule<'a>,
    layout: Layout,
    wrong: Wrong,
}

impl<T: PoolElement<Sum: Score>> Losses<'_, T> {
    /// Calls `f` with each sample of a range, its loss and its weight.
    #[inline(always)]
    fn for_each(&self, range: Range<usize>, mut f: impl FnMut(usize, f64, f64)) {
        if range.is_empty() {
            return;
        }
        let Layout { inner, scores, targets, classes, .. } = self.layout;
        // Copies, which stay in registers: what `wrong` is beside is read anew for each sample.
        let (all_scores, all_targets, rule) = (self.scores, self.targets, self.rule);
        let (mut group, mut from, mut sample) = (range.start / inner, range.start % inner, range.start);
        while sample < range.end {
            let mut score_at = group * scores[0] + from * scores[1];
            let mut target_at = group * targets[0] + from * targets[1];
            let end = range.end.min(sample + inner - from);
            while sample < end {
                let target = all_targets[target_at];
                let (loss, weight) = match rule.of(target) {
                    Target::Weight(weight) => {
                        let score: f64 = all_scores[score_at + target as usize * classes].widen().into();
                        (-score * weight, weight)
                    }
                    Target::Ignored => (0.0, 0.0),
                    Target::Wrong => {
                        self.wrong.note(sample);
                        (0.0, 0.0)
                    }
                };
                f(sample, loss, weight);
                (sample, score_at, target_at) = (sample + 1, score_at + scores[1], target_at + targets[1]);
            }
            (group, from) = (group + 1, 0);
        }
    }
}

/// The gradient of scores of batch by classes by positions.
struct Slopes<'a, T> {
    targets: &'a [i64],
    rule: Rule<'a>,
    grads: &'a [T],
    /// Of the targets, and of the gradients of losses.
    strides: [[usize; 2]; 2],
    positions: usize,
    total: f64,
    wrong: Wrong,
}

impl<T: PoolElement<Sum: Score>> Slopes<'_, T> {
    #[inline(always)]
    fn target(&self, member: usize, position: usize) -> i64 {
        self.targets[member * self.strides[0][0] + position * self.strides[0][1]]
    }

    /// Writes the gradients of members of the batch from `first` on, of `unit` elements each.
    fn write(&self, first: usize, unit: usize, part: &mut [T]) {
        let cached = CACHED / unit.max(1) + 1;
        for (part, first) in part.chunks_mut(cached * unit).zip((first..).step_by(cached)) {
            part.fill(T::narrow(T::ZERO));
            let (rule, positions) = (self.rule, self.positions);
            for (to, member) in part.chunks_exact_mut(unit).zip(first..) {
                for position in 0..positions {
                    let target = self.target(member, position);
                    match rule.of(target) {
                        Target::Weight(weight) => {
                            let amount = self.amount(member, position, weight);
                            to[target as usize * positions + position] = T::narrow(Score::from_f64(-amount));
                        }
                        Target::Ignored => {}
                        Target::Wrong => self.wrong.note(member * positions + position),
                    }
                }
            }
        }
    }

    /// The negated derivative with respect to a sample's score.
    #[inline(always)]
    fn amount(&self, member: usize, position: usize, weight: f64) -> f64 {
        let [_, strides] = self.strides;
        let grad: f64 = self.grads[member * strides[0] + position * strides[1]].widen().into();
        // A weight of 0 gives 0 even if the total weight is 0.
        if weight == 0.0 { 0.0 } else { grad * weight / self.total }
    }
}
