//! Functions of each element, and the softmax family. Those without options are operators: `x.relu()?`, `x.tanh()?`.

use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

pub use flambeau_ops::ops::options::Approximate;

/// `x Φ(x)`, where `Φ` is the normal distribution function: Hendrycks and Gimpel, 2016.
///
/// # Errors
/// `NotImplemented` unless of floating point.
///
/// ```
/// use flambeau_nn::functional::{Approximate, gelu};
/// use flambeau_ops::Tensor;
/// let x = Tensor::from([1.0f64]);
/// let (exact, near) = (gelu(&x, Approximate::None)?, gelu(&x, Approximate::Tanh)?);
/// assert!((exact.item::<f64>()? - 0.8413447460685429).abs() < 1e-14);
/// assert!((near.item::<f64>()? - exact.item::<f64>()?).abs() < 1e-3);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn gelu(input: &Tensor, approximate: Approximate) -> Result<Tensor> {
    ops::gelu(input, approximate.as_str())
}

/// Functions of one tensor that are operators without options.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `NotImplemented` for types that the operator does not take.
        pub fn $name(input: &Tensor) -> Result<Tensor> {
            ops::$name(input)
        }
    )*};
}

operators! {
    /// `max(x, 0)`.
    relu;
    /// `min(max(x, 0), 6)`.
    relu6;
    /// `1 / (1 + exp(-x))`.
    sigmoid;
    /// The logarithm of the sigmoid.
    log_sigmoid;
    /// The hyperbolic tangent.
    tanh;
    /// `x sigmoid(x)`.
    silu;
    /// `x tanh(softplus(x))`.
    mish;
    /// `elu`, scaled so that mean 0 and variance 1 stay: Klambauer et al., 2017.
    selu;
    /// `min(max(x + 3, 0), 6) / 6`.
    hardsigmoid;
    /// `x hardsigmoid(x)`.
    hardswish;
}

/// Functions of one tensor and one number.
macro_rules! operators_of_a_number {
    ($($(#[$doc:meta])* $name:ident($number:ident) = |$input:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `NotImplemented` for types that the operator does not take.
        pub fn $name($input: &Tensor, $number: f64) -> Result<Tensor> {
            $call
        }
    )*};
}

operators_of_a_number! {
    /// `x` above 0, `negative_slope x` below.
    leaky_relu(negative_slope) = |input| ops::leaky_relu(input, negative_slope.into());
    /// `x` above 0, `alpha (exp(x) - 1)` below.
    elu(alpha) = |input| ops::elu(input, alpha.into(), 1.into(), 1.into());
    /// `x` above 0, `alpha (exp(x / alpha) - 1)` below.
    celu(alpha) = |input| ops::celu(input, alpha.into());
    /// `x`, but 0 between `-lambda` and `lambda`.
    hardshrink(lambda) = |input| ops::hardshrink(input, lambda.into());
    /// `x`, nearer to 0 by `lambda`.
    softshrink(lambda) = |input| ops::softshrink(input, lambda.into());
}

/// `x / (1 + |x|)`.
///
/// # Errors
/// `NotImplemented` for types that division does not take.
pub fn softsign(input: &Tensor) -> Result<Tensor> {
    input / (ops::abs(input)? + 1.0)
}

/// `x - tanh(x)`.
///
/// # Errors
/// `NotImplemented` for types that the operators do not take.
pub fn tanhshrink(input: &Tensor) -> Result<Tensor> {
    input - ops::tanh(input)?
}

/// `x` above 0, `weight x` below, with one weight or one for each channel (dimension 1).
///
/// # Errors
/// `Shape` for another number of weights.
pub fn prelu(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    ops::prelu(input, weight)
}

/// The first half along `dim`, times the sigmoid of the second: Dauphin et al., 2017.
///
/// # Errors
/// `Shape` for an odd size, `Index` for a dimension that is none.
pub fn glu(input: &Tensor, dim: i64) -> Result<Tensor> {
    ops::glu(input, dim)
}

module_options! {
    /// Options of [`hardtanh`].
    Hardtanh {
        /// The lowest value.
        min: f64 = -1.0,
        /// The highest value.
        max: f64 = 1.0,
    }
}

/// `x` no lower than `min` and no higher than `max`.
///
/// # Errors
/// `InvalidArgument` unless `min <= max`.
pub fn hardtanh(input: &Tensor, options: Hardtanh) -> Result<Tensor> {
    let Hardtanh { min, max } = options;
    ensure!(min <= max, InvalidArgument, "hardtanh: expected min <= max but got {min} and {max}");
    ops::hardtanh(input, min.into(), max.into())
}

module_options! {
    /// Options of [`softplus`].
    Softplus {
        /// How sharply it bends.
        beta: f64 = 1.0,
        /// Where `beta x` is above it, the result is `x` itself.
        threshold: f64 = 20.0,
    }
}

/// `log(1 + exp(beta x)) / beta`.
///
/// # Errors
/// `NotImplemented` for types that the operator does not take.
pub fn softplus(input: &Tensor, options: Softplus) -> Result<Tensor> {
    ops::softplus(input, options.beta.into(), options.threshold.into())
}

module_options! {
    /// Options of [`threshold`].
    Threshold {
        /// Up to it the result is `value`.
        threshold: f64 = 0.0,
        /// The result up to the threshold.
        value: f64 = 0.0,
    }
}

/// `x` above the threshold, else `value`.
///
/// # Errors
/// `NotImplemented` for types that the operator does not take.
pub fn threshold(input: &Tensor, options: Threshold) -> Result<Tensor> {
    ops::threshold(input, options.threshold.into(), options.value.into())
}

/// The softmax along `dim`: `exp(x)` over its sum.
///
/// # Errors
/// `Index` for a dimension that is none.
pub fn softmax(input: &Tensor, dim: i64) -> Result<Tensor> {
    ops::softmax_int(input, dim, None)
}

/// The softmax of `-x` along `dim`.
///
/// # Errors
/// `Index` for a dimension that is none.
pub fn softmin(input: &Tensor, dim: i64) -> Result<Tensor> {
    softmax(&ops::neg(input)?, dim)
}

/// The logarithm of the softmax along `dim`.
///
/// # Errors
/// `Index` for a dimension that is none.
pub fn log_softmax(input: &Tensor, dim: i64) -> Result<Tensor> {
    ops::log_softmax_int(input, dim, None)
}
