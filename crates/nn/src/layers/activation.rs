//! Activations as modules, for [`Sequential`](crate::Sequential).

use super::parameter;
use crate::functional::{self, Approximate};
use crate::{Forward, Module, init};
use flambeau_core::Result;
use flambeau_ops::Tensor;

pub use functional::{Hardtanh, Softplus, Threshold};

/// Modules of one function without options: documentation, name, function.
macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, Module)]
        pub struct $name;

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                functional::$function(input)
            }
        }
    )*};
}

activations! {
    /// `max(x, 0)`, of every shape.
    ///
    /// ```
    /// use flambeau_nn::{Forward, Relu};
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Relu.forward(&Tensor::from([-1.0f32, 2.0]))?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Relu = relu;
    /// `min(max(x, 0), 6)`.
    Relu6 = relu6;
    /// The hyperbolic tangent.
    Tanh = tanh;
    /// `1 / (1 + exp(-x))`.
    Sigmoid = sigmoid;
    /// The logarithm of the sigmoid.
    LogSigmoid = log_sigmoid;
    /// `x · sigmoid(x)`.
    Silu = silu;
    /// `x · tanh(softplus(x))`.
    Mish = mish;
    /// `elu`, scaled so that mean 0 and variance 1 stay.
    Selu = selu;
    /// `min(max(x + 3, 0), 6) / 6`.
    Hardsigmoid = hardsigmoid;
    /// `x · hardsigmoid(x)`.
    Hardswish = hardswish;
    /// `x / (1 + |x|)`.
    Softsign = softsign;
    /// `x - tanh(x)`.
    Tanhshrink = tanhshrink;
}

/// Modules of one function and one value: documentation, name, function, what the value is, and its default.
macro_rules! activations_of_a_value {
    ($($(#[$doc:meta])* $name:ident = $function:ident($(#[$value_doc:meta])* $value:ty $(= $default:expr)?);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Module)]
        pub struct $name($(#[$value_doc])* #[module(skip)] pub $value);

        $(
            impl Default for $name {
                fn default() -> Self {
                    $name($default)
                }
            }
        )?

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                functional::$function(input, self.0)
            }
        }
    )*};
}

activations_of_a_value! {
    /// `x · Φ(x)`, where `Φ` is the normal distribution function.
    Gelu = gelu(
        /// How `Φ` is computed.
        Approximate = Approximate::None
    );
    /// `max(x, 0) + slope · min(x, 0)`.
    LeakyRelu = leaky_relu(
        /// The slope below zero.
        f64 = 0.01
    );
    /// `x` above zero, `alpha · (exp(x) - 1)` below.
    Elu = elu(
        /// `alpha`.
        f64 = 1.0
    );
    /// `x` above zero, `alpha · (exp(x / alpha) - 1)` below.
    Celu = celu(
        /// `alpha`.
        f64 = 1.0
    );
    /// `x`, but 0 between `-lambda` and `lambda`.
    Hardshrink = hardshrink(
        /// `lambda`.
        f64 = 0.5
    );
    /// `x`, nearer to 0 by `lambda`.
    Softshrink = softshrink(
        /// `lambda`.
        f64 = 0.5
    );
    /// The first half along a dimension, times the sigmoid of the second.
    Glu = glu(
        /// The dimension.
        i64 = -1
    );
    /// The softmax along a dimension.
    Softmax = softmax(
        /// The dimension.
        i64
    );
    /// The softmax of `-x` along a dimension.
    Softmin = softmin(
        /// The dimension.
        i64
    );
    /// The logarithm of the softmax along a dimension.
    LogSoftmax = log_softmax(
        /// The dimension.
        i64
    );
}

/// Modules that are their function's options.
macro_rules! activations_with_options {
    ($($options:ident = $function:ident;)*) => {$(
        impl Forward for $options {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                functional::$function(input, self.clone())
            }
        }
    )*};
}

activations_with_options! {
    Hardtanh = hardtanh;
    Softplus = softplus;
    Threshold = threshold;
}

/// `x` above zero, `weight · x` below, with trained weights: He et al., 2015.
#[derive(Debug, Module)]
pub struct Prelu {
    /// `[1]`, or `[channels]`.
    pub weight: Tensor,
}

impl Prelu {
    /// What PyTorch begins with.
    const FIRST: f64 = 0.25;

    /// One weight, or one for each of so many channels; 0.25 at first.
    ///
    /// # Errors
    /// `InvalidArgument` for less than one.
    pub fn new(count: i64) -> Result<Self> {
        super::check_positive("a number of weights", count).map_err(|e| e.context("Prelu"))?;
        let weight = parameter(&[count])?;
        init::constant_(&weight, Self::FIRST)?;
        Ok(Prelu { weight })
    }
}

impl Forward for Prelu {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        functional::prelu(input, &self.weight)
    }
}
