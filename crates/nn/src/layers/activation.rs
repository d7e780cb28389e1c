//! Activations as modules, for [`Sequential`](crate::Sequential): none has parameters.

use crate::{Module, fields};
use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

/// Modules of one operator and no options: documentation, name, operator.
macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident = $operator:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        impl Module for $name {
            fields!();

            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                ops::$operator(input)
            }
        }
    )*};
}

activations! {
    /// `max(x, 0)`, of every shape.
    ///
    /// ```
    /// use flambeau_nn::{Module, Relu};
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Relu.forward(&Tensor::from([-1.0f32, 2.0]))?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Relu = relu;
    /// The hyperbolic tangent.
    Tanh = tanh;
    /// `1 / (1 + exp(-x))`.
    Sigmoid = sigmoid;
    /// `x · sigmoid(x)`.
    Silu = silu;
    /// `x · tanh(softplus(x))`.
    Mish = mish;
}

/// `x · Φ(x)`, where `Φ` is the normal distribution function.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gelu {
    /// Whether to approximate `Φ` by the hyperbolic tangent, as GPT-2 does.
    pub tanh: bool,
}

impl Module for Gelu {
    fields!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::gelu(input, if self.tanh { "tanh" } else { "none" })
    }
}

/// `max(x, 0) + slope · min(x, 0)`.
#[derive(Debug, Clone, Copy)]
pub struct LeakyRelu(
    /// The slope below zero.
    pub f64,
);

impl Default for LeakyRelu {
    fn default() -> Self {
        LeakyRelu(0.01)
    }
}

impl Module for LeakyRelu {
    fields!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::leaky_relu(input, self.0.into())
    }
}

/// `x` above zero, `alpha · (exp(x) - 1)` below.
#[derive(Debug, Clone, Copy)]
pub struct Elu(
    /// `alpha`.
    pub f64,
);

impl Default for Elu {
    fn default() -> Self {
        Elu(1.0)
    }
}

impl Module for Elu {
    fields!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::elu(input, self.0.into(), 1.into(), 1.into())
    }
}
