//! Window functions: weights that fall to the ends of a window, by which a signal is multiplied before a Fourier transform.

use crate::{Tensor, ops};
use flambeau_core::{Device, Layout, Result, Scalar, ScalarType, default_dtype, ensure};
use std::f64::consts::PI;

/// The type, layout, device and pinning of a new tensor.
#[derive(Clone, Copy)]
struct Options {
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
}

impl Options {
    /// The tensor of these weights, which are computed in f64.
    fn make(
        self,
        name: &str,
        length: i64,
        periodic: bool,
        weights: impl FnOnce(&Tensor, f64) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let dtype = self.dtype.unwrap_or_else(default_dtype);
        ensure!(
            dtype.is_floating_point() || dtype.is_complex(),
            Dtype,
            operator = name,
            argument = "dtype",
            got = dtype,
            "{name} expects floating point dtypes, got: {got}"
        );
        ensure!(
            length >= 0,
            InvalidArgument,
            operator = name,
            argument = "window_length",
            got = length,
            "{name} requires non-negative window_length, got window_length={got}"
        );
        if length <= 1 {
            return ops::ones(&[length], Some(dtype), self.layout, self.device, self.pin_memory);
        }
        // A periodic window is the symmetric one of one element more, without its last element.
        let steps = if periodic { length } else { length - 1 };
        let numbers =
            ops::arange(length.into(), Some(ScalarType::F64), self.layout, self.device, self.pin_memory)?;
        ops::to_dtype(&weights(&numbers, steps as f64)?, dtype, false, false, None)
    }
}

/// The cosine of multiples of an angle, times a factor.
fn cosine(numbers: &Tensor, angle: f64, factor: f64) -> Result<Tensor> {
    let cosine = ops::cos(&ops::mul_scalar(numbers, Scalar::Float(angle))?)?;
    ops::mul_scalar(&cosine, Scalar::Float(factor))
}

fn plus(weights: &Tensor, number: f64) -> Result<Tensor> {
    ops::add_scalar(weights, Scalar::Float(number), Scalar::Int(1))
}

/// A triangle: up to the middle and down again.
fn bartlett(numbers: &Tensor, steps: f64) -> Result<Tensor> {
    let from_middle = ops::abs(&plus(&ops::mul_scalar(numbers, Scalar::Float(2.0 / steps))?, -1.0)?)?;
    plus(&ops::neg(&from_middle)?, 1.0)
}

fn blackman(numbers: &Tensor, steps: f64) -> Result<Tensor> {
    let (once, twice) = (cosine(numbers, 2.0 * PI / steps, -0.5)?, cosine(numbers, 4.0 * PI / steps, 0.08)?);
    plus(&ops::add_tensor(&once, &twice, Scalar::Int(1))?, 0.42)
}

fn hamming(alpha: f64, beta: f64) -> impl Fn(&Tensor, f64) -> Result<Tensor> {
    move |numbers, steps| plus(&cosine(numbers, 2.0 * PI / steps, -beta)?, alpha)
}

fn kaiser(beta: f64) -> impl Fn(&Tensor, f64) -> Result<Tensor> {
    move |numbers, steps| {
        let from_middle = plus(&ops::mul_scalar(numbers, Scalar::Float(2.0 / steps))?, -1.0)?;
        let rest = plus(&ops::neg(&ops::mul_tensor(&from_middle, &from_middle)?)?, 1.0)?;
        let root = ops::sqrt(&ops::clamp_min(&rest, Scalar::Int(0))?)?;
        let bessel = ops::i0(&ops::mul_scalar(&root, Scalar::Float(beta))?)?;
        let largest =
            ops::i0(&ops::full_like(&from_middle, Scalar::Float(beta), None, None, None, None, None)?)?;
        ops::div_tensor(&bessel, &largest)
    }
}

macro_rules! windows {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $ty:ty),*) = $operator:literal, $periodic:expr, $weights:expr;)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the schema has as many")]
        pub fn $name(
            window_length: i64,
            $($argument: $ty,)*
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            Options { dtype, layout, device, pin_memory }.make($operator, window_length, $periodic, $weights)
        }
    )*};
}

windows! {
    /// Bartlett's window for a transform.
    bartlett_window() = "bartlett_window", true, bartlett;
    /// Bartlett's window, a triangle.
    bartlett_window_periodic(periodic: bool) = "bartlett_window", periodic, bartlett;
    /// Blackman's window for a transform.
    blackman_window() = "blackman_window", true, blackman;
    /// Blackman's window, a sum of two cosines.
    blackman_window_periodic(periodic: bool) = "blackman_window", periodic, blackman;
    /// Hamming's window for a transform.
    hamming_window() = "hamming_window", true, hamming(0.54, 0.46);
    /// Hamming's window, a cosine that does not fall to 0.
    hamming_window_periodic(periodic: bool) = "hamming_window", periodic, hamming(0.54, 0.46);
    /// `alpha - 0.46 cos`.
    hamming_window_periodic_alpha(periodic: bool, alpha: f64) = "hamming_window", periodic, hamming(alpha, 0.46);
    /// `alpha - beta cos`.
    hamming_window_periodic_alpha_beta(periodic: bool, alpha: f64, beta: f64) =
        "hamming_window", periodic, hamming(alpha, beta);
    /// Hann's window for a transform.
    hann_window() = "hann_window", true, hamming(0.5, 0.5);
    /// Hann's window, a cosine that falls to 0.
    hann_window_periodic(periodic: bool) = "hann_window", periodic, hamming(0.5, 0.5);
    /// Kaiser's window for a transform.
    kaiser_window() = "kaiser_window", true, kaiser(12.0);
    /// Kaiser's window with `beta` 12.
    kaiser_window_periodic(periodic: bool) = "kaiser_window", periodic, kaiser(12.0);
    /// Kaiser's window, Bessel functions of a half circle, whose width falls with `beta`.
    kaiser_window_beta(periodic: bool, beta: f64) = "kaiser_window", periodic, kaiser(beta);
}
