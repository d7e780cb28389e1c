//! `x Wᵀ + b`, and modules that only change sizes.

use super::{parameter, parameter_if};
use crate::{Forward, Module, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// `input · weightᵀ + bias`, on the last dimension: `[.., in]` to `[.., out]`.
///
/// ```
/// use flambeau_nn::{Linear, Forward, Module};
/// use flambeau_ops::Tensor;
/// let layer = Linear::new(3, 2)?;
/// assert_eq!(layer.weight.sizes(), &[2, 3]);
/// assert_eq!(layer.forward(&Tensor::ones(&[4, 3], ())?)?.sizes(), &[4, 2]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
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
        let bias = parameter_if(bias, &[out_features])?;
        init::like_linear(&weight, bias.as_ref())?;
        Ok(Linear { weight, bias })
    }
}

impl Forward for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::linear(input, &self.weight, self.bias.as_ref())
    }
}

/// Two inputs multiplied by a form for each output: `firstᵀ weight second + bias`, `[.., first]` and `[.., second]` to `[.., out]`.
#[derive(Debug, Module)]
pub struct Bilinear {
    /// `[out, first, second]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Bilinear {
    /// Uniform between `±1/√first` from the default generator.
    ///
    /// # Errors
    /// `InvalidArgument` for sizes below 1, `OutOfMemory`.
    pub fn new(first: i64, second: i64, out_features: i64) -> Result<Self> {
        [first, second, out_features].iter().try_for_each(|size| super::check_positive("a size", *size))?;
        let (weight, bias) = (parameter(&[out_features, first, second])?, parameter(&[out_features])?);
        let bound = 1.0 / (first as f64).sqrt();
        init::uniform_(&weight, -bound, bound)?;
        init::uniform_(&bias, -bound, bound)?;
        Ok(Bilinear { weight, bias: Some(bias) })
    }

    /// The output for two inputs.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    pub fn forward(&self, first: &Tensor, second: &Tensor) -> Result<Tensor> {
        ops::bilinear(first, second, &self.weight, self.bias.as_ref())
    }
}

/// Its input.
#[derive(Debug, Clone, Copy, Default, Module)]
pub struct Identity;

impl Forward for Identity {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }
}

/// The dimensions from `start` to `end` as one; all but the first unless changed.
///
/// ```
/// use flambeau_nn::{Flatten, Forward};
/// use flambeau_ops::Tensor;
/// assert_eq!(Flatten::default().forward(&Tensor::ones(&[2, 3, 4], ())?)?.sizes(), &[2, 12]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Module)]
pub struct Flatten {
    /// The first.
    #[module(skip)]
    pub start: i64,
    /// The last.
    #[module(skip)]
    pub end: i64,
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten { start: 1, end: -1 }
    }
}

impl Forward for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.flatten(self.start, self.end)
    }
}
