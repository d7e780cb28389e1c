//! Values left out at random.

use crate::{Module, Training, fields};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// In training, sets each value to zero with probability `p` and divides the rest by `1 - p`; in evaluation, does nothing:
/// Srivastava et al., "Dropout", 2014. Of every shape.
///
/// ```
/// use flambeau_nn::{Dropout, Module};
/// use flambeau_ops::Tensor;
/// let (dropout, x) = (Dropout::new(0.5)?, Tensor::ones(&[100], ())?);
/// let zeros = dropout.forward(&x)?.to_vec::<f32>()?.iter().filter(|x| **x == 0.0).count();
/// assert!(zeros > 20 && zeros < 80);
/// dropout.eval();
/// assert!(dropout.forward(&x)?.equal(&x)?);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Dropout {
    p: f64,
    training: Training,
}

impl Dropout {
    /// With this probability.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is from 0 to 1.
    pub fn new(p: f64) -> Result<Self> {
        ensure!((0.0..=1.0).contains(&p), InvalidArgument, "Dropout: expected p from 0 to 1 but got {p}");
        Ok(Dropout { p, training: Training::new() })
    }
}

impl Module for Dropout {
    fields!(training);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::dropout(input, self.p, self.training.is_training())
    }
}
