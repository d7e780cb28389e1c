//! A learning rate that falls when a measurement no longer gets better.

use super::Optimizer;
use flambeau_core::{Result, ensure};

options! {
    /// Options of [`ReduceLrOnPlateau`]; the defaults are PyTorch's.
    PlateauOptions {
        /// Whether larger measurements are better.
        maximize: bool = false,
        /// What the rate is multiplied by.
        factor: f64 = 0.1,
        /// How many measurements in a row may be no better.
        patience: i64 = 10,
        /// By how much a measurement must be better to count.
        threshold: f64 = 1e-4,
        /// Whether the threshold is a share of the best measurement.
        relative: bool = true,
        /// For how many measurements after a change none is counted.
        cooldown: i64 = 0,
        /// The lowest rate.
        min_lr: f64 = 0.0,
        /// A change that is smaller is not made.
        eps: f64 = 1e-8,
    }
}

/// Multiplies the rates by a factor when measurements have not been better than the best for a while.
///
/// ```
/// # use flambeau_nn::{Linear, Module};
/// use flambeau_nn::optim::{Optimizer, PlateauOptions, ReduceLrOnPlateau, Sgd, SgdOptions};
/// # let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions::default().lr(1.0))?;
/// let mut plateau = ReduceLrOnPlateau::new(PlateauOptions::default().factor(0.5).patience(1))?;
/// for loss in [3.0, 2.0, 2.0, 2.0] {
///     plateau.step(loss, &mut optimizer)?;
/// }
/// assert_eq!(optimizer.learning_rates(), [0.5]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReduceLrOnPlateau {
    options: PlateauOptions,
    best: f64,
    /// Measurements in a row that were no better.
    bad: i64,
    /// Measurements that are not counted.
    cooling: i64,
}

impl ReduceLrOnPlateau {
    /// Before the first measurement.
    ///
    /// # Errors
    /// `InvalidArgument` unless the factor is from 0 to below 1, and for counts below 0.
    pub fn new(options: PlateauOptions) -> Result<Self> {
        ensure!(
            (0.0..1.0).contains(&options.factor),
            InvalidArgument,
            "ReduceLrOnPlateau: expected a factor from 0 to below 1 but got {}",
            options.factor
        );
        ensure!(
            options.patience >= 0 && options.cooldown >= 0,
            InvalidArgument,
            "ReduceLrOnPlateau: expected patience and cooldown of at least 0 but got {} and {}",
            options.patience,
            options.cooldown
        );
        let best = if options.maximize { f64::NEG_INFINITY } else { f64::INFINITY };
        Ok(ReduceLrOnPlateau { options, best, bad: 0, cooling: 0 })
    }

    /// Compares a measurement with the best so far, and changes the rates if it is time.
    ///
    /// # Errors
    /// None that valid rates can cause.
    pub fn step(&mut self, measurement: f64, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.count(measurement);
        if self.bad <= self.options.patience {
            return Ok(());
        }
        (self.bad, self.cooling) = (0, self.options.cooldown);
        let PlateauOptions { factor, min_lr, eps, .. } = self.options;
        let lower = |rate: &f64| {
            let next = (rate * factor).max(min_lr);
            if rate - next > eps { next } else { *rate }
        };
        let rates: Vec<f64> = optimizer.learning_rates().iter().map(lower).collect();
        optimizer.set_learning_rates(&rates)
    }

    fn count(&mut self, measurement: f64) {
        if self.is_better(measurement) {
            (self.best, self.bad) = (measurement, 0);
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            (self.cooling, self.bad) = (self.cooling - 1, 0);
        }
    }

    fn is_better(&self, measurement: f64) -> bool {
        let PlateauOptions { maximize, threshold, relative, .. } = self.options;
        let by = if maximize { threshold } else { -threshold };
        let bound = if relative { self.best * (1.0 + by) } else { self.best + by };
        if maximize { measurement > bound } else { measurement < bound }
    }

    /// The best measurement so far.
    pub fn best(&self) -> f64 {
        self.best
    }
}
