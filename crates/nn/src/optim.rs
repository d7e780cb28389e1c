//! Optimizers: update parameters by their gradients.

#[macro_use]
mod group;

mod adagrad;
mod adam;
mod clip;
mod plateau;
mod rms_prop;
mod schedule;
mod sgd;
mod sparse_adam;
mod sparse_rows;

pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions, AdamW};
pub use clip::{ClipGradNorm, clip_grad_norm_, clip_grad_value_};
pub use group::{Hyper, ParamGroup};
pub use plateau::{PlateauOptions, ReduceLrOnPlateau};
pub use rms_prop::{RmsProp, RmsPropOptions};
pub use schedule::*;
pub use sgd::{Sgd, SgdOptions};
pub use sparse_adam::{SparseAdam, SparseAdamOptions};

use crate::StateDict;
use flambeau_core::Result;

/// Moves parameters along their gradients. Parameters come in groups that may differ in their options.
pub trait Optimizer {
    /// Moves every parameter that has a gradient.
    ///
    /// # Errors
    /// Those of the operators, and then some parameters may have moved.
    fn step(&mut self) -> Result<()>;

    /// Forgets every parameter's gradient.
    ///
    /// # Errors
    /// None that a parameter can cause today.
    fn zero_grad(&self) -> Result<()>;

    /// The learning rate of each group.
    fn learning_rates(&self) -> Vec<f64>;

    /// Sets the learning rate of each group.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is one rate of at least 0 for each group.
    fn set_learning_rates(&mut self, rates: &[f64]) -> Result<()>;

    /// The state of its parameters, and the options of its groups: `"state.3.exp_avg"` of the fourth parameter, and
    /// `"group.0.lr"` as tensors of one f64. Tensors are shared, not copied.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn state_dict(&self) -> Result<StateDict>;

    /// Takes over another optimiser's state. Nothing has changed if it fails.
    ///
    /// # Errors
    /// `InvalidArgument` naming a key that is missing or unexpected, `Shape` and `Dtype` naming one that does not fit.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()>;
}
