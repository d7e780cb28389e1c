//! `x Wᵀ + b`.

use super::parameter;
use crate::{Module, fields, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// `input · weightᵀ + bias`, on the last dimension: `[.., in]` to `[.., out]`.
///
/// ```
/// use flambeau_nn::{Linear, Module};
/// use flambeau_ops::Tensor;
/// let layer = Linear::new(3, 2)?;
/// assert_eq!(layer.weight.sizes(), &[2, 3]);
/// assert_eq!(layer.forward(&Tensor::ones(&[4, 3], ())?)?.sizes(), &[4, 2]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// From `in_features` to `out_features`, uniform between `±1/√in` from the default generator, of the default type.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative number of features, `OutOfMemory`.
    pub fn new(in_features: i64, out_features: i64) -> Result<Self> {
        Self::with_bias(in_features, out_features, true)
    }

    /// The same without a bias.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn without_bias(in_features: i64, out_features: i64) -> Result<Self> {
        Self::with_bias(in_features, out_features, false)
    }

    /// With a bias, or without.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_bias(in_features: i64, out_features: i64, bias: bool) -> Result<Self> {
        ensure!(
            in_features >= 0 && out_features >= 0,
            InvalidArgument,
            "Linear: expected numbers of features of at least 0 but got {in_features} and {out_features}"
        );
        let weight = parameter(&[out_features, in_features])?;
        let bias = bias.then(|| parameter(&[out_features])).transpose()?;
        init::like_linear(&weight, bias.as_ref())?;
        Ok(Linear { weight, bias })
    }
}

impl Module for Linear {
    fields!(weight, bias);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::linear(input, &self.weight, self.bias.as_ref())
    }
}
