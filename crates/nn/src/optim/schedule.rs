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

/// Sets the rates of an optimiser after each step.
///
/// ```
/// # use flambeau_nn::{Linear, Module};
/// use flambeau_nn::optim::{Optimizer, Scheduler, Sgd, SgdOptions, StepLr};
/// # let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 1.0, ..Default::default() })?;
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
