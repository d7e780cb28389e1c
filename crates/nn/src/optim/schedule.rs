//! Schedules: learning rates that change from step to step.

use super::Optimizer;
use flambeau_core::{Result, ensure};
use std::f64::consts::PI;

/// A learning rate as a function of the number of steps taken: no state, so that any step can be resumed.
pub trait Schedule {
    /// The rate after `step` steps, where `base` was the rate at first.
    fn rate(&self, base: f64, step: u64) -> f64;
}

/// Multiplies the rate by `gamma` every `size` steps.
#[derive(Debug, Clone, Copy)]
pub struct StepLr {
    /// Steps between changes, at least 1.
    pub size: u64,
    /// The factor; 0.1 in PyTorch.
    pub gamma: f64,
}

impl Schedule for StepLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        base * self.gamma.powf((step / self.size.max(1)) as f64)
    }
}

/// Half a wave from the base down to `min` in `period` steps, and up again in as many: Loshchilov and Hutter, "SGDR", 2017,
/// without its restarts, as in PyTorch.
///
/// ```
/// use flambeau_nn::optim::{CosineAnnealing, Schedule};
/// let schedule = CosineAnnealing { period: 10, min: 0.0 };
/// assert_eq!(schedule.rate(1.0, 0), 1.0);
/// assert!((schedule.rate(1.0, 5) - 0.5).abs() < 1e-15);
/// assert!(schedule.rate(1.0, 10).abs() < 1e-15);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CosineAnnealing {
    /// Steps from the highest rate to the lowest, at least 1.
    pub period: u64,
    /// The lowest rate.
    pub min: f64,
}

impl Schedule for CosineAnnealing {
    fn rate(&self, base: f64, step: u64) -> f64 {
        let phase = PI * step as f64 / self.period.max(1) as f64;
        self.min + (base - self.min) * (1.0 + phase.cos()) / 2.0
    }
}

/// Rises in a straight line from 0 to the base in `warmup` steps, then falls along half a wave to `min` at step `total`, and
/// stays there.
#[derive(Debug, Clone, Copy)]
pub struct LinearWarmupCosine {
    /// Steps of rising.
    pub warmup: u64,
    /// Steps altogether.
    pub total: u64,
    /// The lowest rate at the end.
    pub min: f64,
}

impl Schedule for LinearWarmupCosine {
    fn rate(&self, base: f64, step: u64) -> f64 {
        if step < self.warmup {
            return base * step as f64 / self.warmup as f64;
        }
        let falling = self.total.saturating_sub(self.warmup).max(1);
        let done = (step - self.warmup).min(falling);
        CosineAnnealing { period: falling, min: self.min }.rate(base, done)
    }
}

/// The base times a function of the step.
#[derive(Debug, Clone, Copy)]
pub struct LambdaLr<F>(
    /// The factor after so many steps.
    pub F,
);

impl<F: Fn(u64) -> f64> Schedule for LambdaLr<F> {
    fn rate(&self, base: f64, step: u64) -> f64 {
        base * (self.0)(step)
    }
}

/// Multiplies the rate by `gamma` at each milestone.
#[derive(Debug, Clone)]
pub struct MultiStepLr {
    /// Steps at which the rate changes.
    pub milestones: Vec<u64>,
    /// The factor; 0.1 in PyTorch.
    pub gamma: f64,
}

impl Schedule for MultiStepLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        let passed = self.milestones.iter().filter(|milestone| **milestone <= step).count();
        base * self.gamma.powf(passed as f64)
    }
}

/// A share of the rate for the first steps.
#[derive(Debug, Clone, Copy)]
pub struct ConstantLr {
    /// The share.
    pub factor: f64,
    /// Steps until the rate is the base.
    pub total: u64,
}

impl Schedule for ConstantLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        if step < self.total { base * self.factor } else { base }
    }
}

/// From one share of the rate to another, in a straight line.
#[derive(Debug, Clone, Copy)]
pub struct LinearLr {
    /// The share at first.
    pub start: f64,
    /// The share at the end.
    pub end: f64,
    /// Steps from one to the other, at least 1.
    pub total: u64,
}

impl Schedule for LinearLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        base * (self.start + (self.end - self.start) * part(step, self.total))
    }
}

/// The share of `total` that `step` is.
fn part(step: u64, total: u64) -> f64 {
    step.min(total) as f64 / total.max(1) as f64
}

/// Multiplies the rate by `gamma` every step.
#[derive(Debug, Clone, Copy)]
pub struct ExponentialLr {
    /// The factor.
    pub gamma: f64,
}

impl Schedule for ExponentialLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        base * self.gamma.powf(step as f64)
    }
}

/// Down to 0 by a power of the share of steps that are left.
#[derive(Debug, Clone, Copy)]
pub struct PolynomialLr {
    /// Steps until 0, at least 1.
    pub total: u64,
    /// The power; 1 is a straight line.
    pub power: f64,
}

impl Schedule for PolynomialLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        base * (1.0 - part(step, self.total)).powf(self.power)
    }
}

/// Half a wave from the base down to `min`, again and again: Loshchilov and Hutter, "SGDR", 2017.
#[derive(Debug, Clone, Copy)]
pub struct CosineWarmRestarts {
    /// Steps of the first half wave, at least 1.
    pub period: u64,
    /// How many times as long each is as the one before, at least 1.
    pub factor: u64,
    /// The lowest rate.
    pub min: f64,
}

impl Schedule for CosineWarmRestarts {
    fn rate(&self, base: f64, step: u64) -> f64 {
        let (mut step, mut period) = (step, self.period.max(1));
        while step >= period {
            step -= period;
            period = period.saturating_mul(self.factor.max(1));
        }
        CosineAnnealing { period, min: self.min }.rate(base, step)
    }
}

/// How a rate goes from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anneal {
    /// Along half a wave.
    #[default]
    Cosine,
    /// In a straight line.
    Linear,
}

impl Anneal {
    fn between(self, from: f64, to: f64, part: f64) -> f64 {
        match self {
            Anneal::Cosine => to + (from - to) / 2.0 * ((PI * part).cos() + 1.0),
            Anneal::Linear => from + (to - from) * part,
        }
    }
}

/// Up to the base, then down far below where it began: Smith and Topin, "Super-convergence", 2019. In PyTorch the base is `max_lr`.
#[derive(Debug, Clone, Copy)]
pub struct OneCycleLr {
    /// Steps altogether, more than 1.
    pub total: u64,
    /// The share of steps that rise; 0.3 in PyTorch.
    pub rising: f64,
    /// By what the base is divided to begin with; 25 in PyTorch.
    pub div_factor: f64,
    /// By what the first rate is divided at the end; 10,000 in PyTorch.
    pub final_div_factor: f64,
    /// How it goes up and down.
    pub anneal: Anneal,
    /// Whether it goes down as long as up, and only then below where it began.
    pub three_phase: bool,
}

impl OneCycleLr {
    /// PyTorch's, for so many steps.
    pub fn new(total: u64) -> Self {
        let (rising, div_factor, final_div_factor) = (0.3, 25.0, 1e4);
        OneCycleLr { total, rising, div_factor, final_div_factor, anneal: Anneal::Cosine, three_phase: false }
    }
}

impl Schedule for OneCycleLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        let (first, total) = (base / self.div_factor, self.total as f64);
        let last = first / self.final_div_factor;
        let top = (self.rising * total - 1.0, base);
        let end = (total - 1.0, last);
        let ends = match self.three_phase {
            true => vec![(0.0, first), top, (2.0 * self.rising * total - 2.0, first), end],
            false => vec![(0.0, first), top, end],
        };
        let step = (step as f64).min(total - 1.0);
        let phase = ends.windows(2).find(|phase| step <= phase[1].0);
        let Some([(from, low), (to, high)]) = phase else { return last };
        self.anneal.between(*low, *high, (step - from) / (to - from))
    }
}

/// The base times a product of a function of each step so far.
#[derive(Debug, Clone, Copy)]
pub struct MultiplicativeLr<F>(
    /// The factor of a step, from 1.
    pub F,
);

impl<F: Fn(u64) -> f64> Schedule for MultiplicativeLr<F> {
    fn rate(&self, base: f64, step: u64) -> f64 {
        (1..=step).fold(base, |rate, step| rate * (self.0)(step))
    }
}

/// One schedule after another, each from its own step 0.
///
/// ```
/// use flambeau_nn::optim::{ConstantLr, ExponentialLr, Schedule, SequentialLr};
/// let warm = SequentialLr::new(ConstantLr { factor: 0.5, total: 100 }).then(4, ExponentialLr { gamma: 0.9 });
/// assert_eq!((warm.rate(1.0, 3), warm.rate(1.0, 4), warm.rate(1.0, 5)), (0.5, 1.0, 0.9));
/// ```
pub struct SequentialLr {
    /// The step at which each begins.
    parts: Vec<(u64, Box<dyn Schedule>)>,
}

impl SequentialLr {
    /// Begins with this one.
    pub fn new(first: impl Schedule + 'static) -> Self {
        SequentialLr { parts: vec![(0, Box::new(first))] }
    }

    /// Goes on with this one from step `milestone`, which is later than those before.
    #[must_use]
    pub fn then(mut self, milestone: u64, next: impl Schedule + 'static) -> Self {
        self.parts.push((milestone, Box::new(next)));
        self
    }
}

impl Schedule for SequentialLr {
    fn rate(&self, base: f64, step: u64) -> f64 {
        let active = self.parts.iter().rfind(|(begin, _)| *begin <= step);
        active.map_or(base, |(begin, schedule)| schedule.rate(base, step - begin))
    }
}

/// A schedule applied to what another gives: `Chained(first, second)`.
#[derive(Debug, Clone, Copy)]
pub struct Chained<A, B>(
    /// What gives the rate.
    pub A,
    /// What changes it.
    pub B,
);

impl<A: Schedule, B: Schedule> Schedule for Chained<A, B> {
    fn rate(&self, base: f64, step: u64) -> f64 {
        self.1.rate(self.0.rate(base, step), step)
    }
}

/// Sets the rates of an optimiser after each step.
///
/// ```
/// # use flambeau_nn::{Linear, Module};
/// use flambeau_nn::optim::{Optimizer, Scheduler, Sgd, SgdOptions, StepLr};
/// # let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions::default().lr(1.0))?;
/// let mut scheduler = Scheduler::new(StepLr { size: 2, gamma: 0.5 }, &mut optimizer)?;
/// let mut rates = vec![];
/// for _ in 0..4 {
///     optimizer.step()?;
///     rates.push(optimizer.learning_rates()[0]);
///     scheduler.step(&mut optimizer)?;
/// }
/// assert_eq!(rates, [1.0, 1.0, 0.5, 0.5]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scheduler<S> {
    schedule: S,
    bases: Vec<f64>,
    step: u64,
}

impl<S: Schedule> Scheduler<S> {
    /// Begins at step 0 with the rates that `optimizer` has, and sets them to those of step 0.
    ///
    /// # Errors
    /// `InvalidArgument` where the schedule gives a negative rate.
    pub fn new(schedule: S, optimizer: &mut dyn Optimizer) -> Result<Self> {
        let bases = optimizer.learning_rates();
        Self::resume(schedule, bases, 0, optimizer)
    }

    /// Goes on after `step` steps, where the rates were `bases` at first.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is a base for each group, or where the schedule gives a negative rate.
    pub fn resume(schedule: S, bases: Vec<f64>, step: u64, optimizer: &mut dyn Optimizer) -> Result<Self> {
        let groups = optimizer.learning_rates().len();
        ensure!(
            bases.len() == groups,
            InvalidArgument,
            "Scheduler: expected {groups} base rates, one for each group, but got {}",
            bases.len()
        );
        let scheduler = Scheduler { schedule, bases, step };
        optimizer.set_learning_rates(&scheduler.rates())?;
        Ok(scheduler)
    }

    /// Counts a step, and sets the rates for the next.
    ///
    /// # Errors
    /// `InvalidArgument` where the schedule gives a negative rate.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.step += 1;
        optimizer.set_learning_rates(&self.rates())
    }

    /// The rate of each group now.
    pub fn rates(&self) -> Vec<f64> {
        self.bases.iter().map(|base| self.schedule.rate(*base, self.step)).collect()
    }

    /// The rate of each group at first.
    pub fn bases(&self) -> &[f64] {
        &self.bases
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.step
    }
}
