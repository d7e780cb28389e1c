//! Padding and resampling as modules.

use crate::functional::{self, Interpolate, OutputSize, PadMode};
use crate::{Forward, Module};
use flambeau_core::Result;
use flambeau_ops::Tensor;

/// [`pad`](functional::pad) as a module: PyTorch's `ZeroPad2d`, `ReflectionPad1d` and all others.
#[derive(Debug, Clone, Module)]
pub struct Pad {
    /// Pairs of elements before and after, the last dimension's first.
    #[module(skip)]
    pub sizes: Vec<i64>,
    /// What padding consists of.
    #[module(skip)]
    pub mode: PadMode,
}

impl Forward for Pad {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        functional::pad(input, &self.sizes, self.mode)
    }
}

/// [`interpolate`](functional::interpolate) as a module.
#[derive(Debug, Clone, Module)]
pub struct Upsample {
    /// How large the result is.
    #[module(skip)]
    pub size: OutputSize,
    /// How elements between others are found.
    #[module(skip)]
    pub options: Interpolate,
}

impl Forward for Upsample {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        functional::interpolate(input, self.size.clone(), self.options.clone())
    }
}
