//! Activation functions and their gradients: `relu`, `silu`, `gelu`, `softplus`, `elu`, `mish`, `hardtanh` and others.

use crate::enums::Approximate;
use crate::native::formulas::chain_rule;
use crate::native::pointwise::complex;
use crate::structured::ensure_same_device;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::Float;
use crate::{Tensor, ops};
use flambeau_core::{Complex, Element, Result, Scalar, ScalarType, bail, ensure};
use std::f64::consts::FRAC_1_SQRT_2;

formulas! { ordered_number_kernel(OrderedFormula, Ordered) -> V:
    /// max(x, 0); NaN is propagated.
    fn relu, relu_meta = build_converted_op(self_: x) => x.maximum(V::zero());
    /// x if it is above the threshold, else the value.
    fn threshold_of_numbers, threshold_converted_meta = build_converted_op(self_: x; threshold: Scalar, value: Scalar) =>
        V::select(x.le(V::scalar(threshold)), V::scalar(value), x);
    /// The gradient where x is above the threshold, else 0.
    fn threshold_backward, threshold_backward_meta = build_binary_op(grad_output: g, self_: x; threshold: Scalar) =>
        V::select(x.le(V::scalar(threshold)), V::zero(), g);
}

// A `Scalar` would be converted for each vector: its kind decides how, and the loop keeps the branch.
formulas! { integer_choice_kernel(OrderedFormula, Ordered) -> V:
    /// The same of integers.
    fn threshold_of_integers, threshold_of_integers_meta = build_converted_op(self_: x; threshold: i64, value: i64) =>
        V::select(x.le(V::scalar(Scalar::Int(threshold))), V::scalar(Scalar::Int(value)), x);
}

formulas! { half_kernel(FloatFormula, Float) -> V:
    /// x sigmoid(x).
    fn silu, silu_meta = build_unary_op(self_: x) => x * x.sigmoid();
    /// The gradient of `silu`.
    fn silu_backward, silu_backward_meta = build_binary_op(grad_output: g, self_: x) => {
        let s = x.sigmoid();
        chain_rule(g, s * (V::one() + x * (V::one() - s)))
    };
    /// The gradient of `sigmoid`, from its result.
    fn sigmoid_backward, sigmoid_backward_meta = build_binary_op(grad_output: g, output: y) => chain_rule(g, (V::one() - y) * y),
        complex complex::chain_rule(g, Complex::new(V::one() - y.re, -y.im) * y);
    /// The gradient of `tanh`, from its result.
    fn tanh_backward, tanh_backward_meta = build_binary_op(grad_output: g, output: y) => chain_rule(g, V::one() - y * y),
        complex complex::chain_rule(g, Complex::new(V::one(), V::zero()) - y * y);
    /// x times the cumulative distribution function of the standard normal distribution.
    fn gelu_exact, gelu_exact_meta = build_unary_op(self_: x) => x.gelu();
    /// `gelu` with the tanh approximation of the distribution function.
    fn gelu_tanh, gelu_tanh_meta = build_unary_op(self_: x) => x * tanh_cdf(x);
    /// The gradient of `gelu`.
    fn gelu_exact_backward, gelu_exact_backward_meta = build_binary_op(grad_output: g, self_: x) => {
        chain_rule(g, x.gelu_slope())
    };
    /// The gradient of `gelu` with the tanh approximation.
    fn gelu_tanh_backward, gelu_tanh_backward_meta = build_binary_op(grad_output: g, self_: x) => {
        let cdf = tanh_cdf(x);
        let slope = V::constant(TANH_SCALE) * (V::one() + V::constant(3.0 * TANH_CUBIC) * x * x);
        chain_rule(g, cdf + x * cdf * (V::one() - cdf) * slope)
    };
}

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// log(1 + e^(beta x)) / beta, and x above the threshold.
    fn softplus, softplus_meta = build_unary_op(self_: x; beta: Scalar, threshold: Scalar) => {
        let scaled = x * V::scalar(beta);
        V::select(scaled.gt(V::scalar(threshold)), x, scaled.exp().log1p() / V::scalar(beta))
    };
    /// The gradient of `softplus`.
    fn softplus_backward, softplus_backward_meta = build_binary_op(grad_output: g, self_: x; beta: Scalar, threshold: Scalar) => {
        let scaled = x * V::scalar(beta);
        V::select(scaled.gt(V::scalar(threshold)), g, chain_rule(g, scaled.sigmoid()))
    };
    /// x if it is above 0, else x times the slope.
    fn leaky_relu, leaky_relu_meta = build_unary_op(self_: x; negative_slope: Scalar) =>
        V::select(x.gt(V::zero()), x, x * V::scalar(negative_slope));
    /// The gradient of `leaky_relu`, from its input or from a result of the same sign.
    fn leaky_relu_backward, leaky_floats_meta = build_binary_op(grad_output: g, self_: x; negative_slope: Scalar, _self_is_result: bool) =>
        V::select(x.gt(V::zero()), g, g * V::scalar(negative_slope));
    /// scale x for x above 0, else scale alpha (e^(input_scale x) - 1).
    fn elu, elu_meta = build_unary_op(self_: x; alpha: Scalar, scale: Scalar, input_scale: Scalar) => {
        let below = (x * V::scalar(input_scale)).expm1() * (V::scalar(alpha) * V::scalar(scale));
        V::select(x.lt(V::zero()), below, x * V::scalar(scale))
    };
    /// x tanh(log(1 + e^x)).
    fn mish, mish_meta = build_unary_op(self_: x) => x * tanh_of_softplus(x);
    /// The gradient of `mish`.
    fn mish_backward, mish_backward_meta = build_binary_op(grad_output: g, self_: x) => {
        let t = tanh_of_softplus(x);
        chain_rule(g, t + x * x.sigmoid() * (V::one() - t * t))
    };
    /// log(1 / (1 + e^-x)).
    fn log_sigmoid_of_floats, log_sigmoid_of_floats_meta = build_unary_op(self_: x) =>
        x.minimum(V::zero()) - (-x.abs()).exp().log1p();
    /// The gradient of `log_sigmoid`, from its input.
    fn log_sigmoid_slope, log_sigmoid_slope_meta = build_binary_op(grad_output: g, self_: x) => chain_rule(g, (-x).sigmoid());
    /// The gradient of `hardtanh`: 0 outside and at the limits.
    fn hardtanh_backward, hardtanh_backward_meta = build_binary_op(grad_output: g, self_: x; min_val: Scalar, max_val: Scalar) =>
        V::select(x.le(V::scalar(min_val)) | x.ge(V::scalar(max_val)), V::zero(), g);
    /// The gradient of `elu`, from its input.
    fn elu_of_input, elu_of_input_meta = build_binary_op(grad_output: g, self_: x; alpha: Scalar, scale: Scalar, input_scale: Scalar) => {
        let below = V::scalar(input_scale) * V::scalar(alpha) * V::scalar(scale) * (x * V::scalar(input_scale)).exp();
        chain_rule(g, V::select(x.le(V::zero()), below, V::scalar(scale)))
    };
    /// The gradient of `elu`, from its result.
    fn elu_of_result, elu_of_result_meta = build_binary_op(grad_output: g, result: y; alpha: Scalar, scale: Scalar, input_scale: Scalar) => {
        let below = V::scalar(input_scale) * (y + V::scalar(alpha) * V::scalar(scale));
        chain_rule(g, V::select(y.le(V::zero()), below, V::scalar(scale)))
    };
}

/// 2 sqrt(2 / pi): `(1 + tanh(u)) / 2` is `sigmoid(2 u)`.
const TANH_SCALE: f64 = 2.0 * std::f64::consts::FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const TANH_CUBIC: f64 = 0.044_715;

/// `(1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`.
#[inline(always)]
fn tanh_cdf<V: Float>(x: V) -> V {
    (V::constant(TANH_SCALE) * (x + V::constant(TANH_CUBIC) * x * x * x)).sigmoid()
}

/// `tanh(log(1 + w)) = (w^2 + 2 w) / (w^2 + 2 w + 2)` with `w = e^x`, which rounds to 1 in f64 for `x` above 20.
#[inline(always)]
fn tanh_of_softplus<V: Float>(x: V) -> V {
    let (w, two) = (x.minimum(V::constant(20.0)).exp(), V::constant(2.0));
    let n = w * (w + two);
    n / (n + two)
}

/// Whether `approximate` selects the tanh approximation.
fn is_tanh(name: &str, approximate: &str) -> Result<bool> {
    match Approximate::from_text(approximate) {
        Some(approximate) => Ok(approximate == Approximate::Tanh),
        None => bail!(
            InvalidArgument(name, "approximate"),
            "approximate argument must be either none or tanh, but got {approximate}"
        ),
    }
}

/// Shape and type of [`threshold`], of whose numbers the dtype must hold those that are written or compared in it.
pub fn threshold_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    threshold: Scalar,
    value: Scalar,
) -> Result<()> {
    let dtype = self_.dtype();
    let compared = if dtype.is_integral(true) { threshold.check_range(dtype) } else { Ok(()) };
    compared.and_then(|()| value.check_range(dtype)).map_err(|e| e.in_operator(iter.name()))?;
    threshold_converted_meta(iter, self_, threshold, value)
}

/// x if it is above the threshold, else the value.
pub fn threshold(
    iter: &mut TensorIterator<'_>,
    self_: &Tensor,
    threshold: Scalar,
    value: Scalar,
) -> Result<()> {
    let dtype = iter.common_dtype();
    if dtype.is_integral(false) && dtype != ScalarType::U64 {
        return threshold_of_integers(iter, self_, i64::from_scalar(threshold), i64::from_scalar(value));
    }
    threshold_of_numbers(iter, self_, threshold, value)
}

/// Shape and type of [`gelu`].
pub fn gelu_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, approximate: &str) -> Result<()> {
    is_tanh(iter.name(), approximate)?;
    crate::native::formulas::build_unary_op(iter, self_)
}

/// x times the cumulative distribution function of the standard normal distribution, or its tanh approximation.
pub fn gelu(iter: &mut TensorIterator<'_>, self_: &Tensor, approximate: &str) -> Result<()> {
    if is_tanh(iter.name(), approximate)? { gelu_tanh(iter, self_) } else { gelu_exact(iter, self_) }
}

/// Shape and type of [`gelu_backward`].
pub fn gelu_backward_meta<'a>(
    iter: &mut TensorIterator<'a>,
    grad_output: &'a Tensor,
    self_: &'a Tensor,
    approximate: &str,
) -> Result<()> {
    is_tanh(iter.name(), approximate)?;
    iter.build_binary_op(grad_output, self_)
}

/// The gradient of [`gelu`].
pub fn gelu_backward(
    iter: &mut TensorIterator<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    approximate: &str,
) -> Result<()> {
    if is_tanh(iter.name(), approximate)? {
        gelu_tanh_backward(iter, grad_output, self_)
    } else {
        gelu_exact_backward(iter, grad_output, self_)
    }
}

/// Shape and type of [`leaky_relu_backward`].
pub fn leaky_relu_backward_meta<'a>(
    iter: &mut TensorIterator<'a>,
    grad_output: &'a Tensor,
    self_: &'a Tensor,
    negative_slope: Scalar,
    self_is_result: bool,
) -> Result<()> {
    ensure!(
        !self_is_result || negative_slope.to_f64() >= 0.0,
        InvalidArgument(iter.name(), "negative_slope"),
        "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is \
         caused by calling in-place forward function with a negative slope, please call out-of-place version instead."
    );
    iter.build_binary_op(grad_output, self_)
}

/// Shape and type of [`elu_backward`].
pub fn elu_backward_meta<'a>(
    iter: &mut TensorIterator<'a>,
    grad_output: &'a Tensor,
    alpha: Scalar,
    _: Scalar,
    _: Scalar,
    is_result: bool,
    self_or_result: &'a Tensor,
) -> Result<()> {
    ensure!(
        !is_result || alpha.to_f64() >= 0.0,
        InvalidArgument(iter.name(), "alpha"),
        "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused by \
         calling in-place forward function with a negative slope, please call out-of-place version instead."
    );
    iter.build_binary_op(grad_output, self_or_result)
}

/// The gradient of [`elu`], from its input or its result.
pub fn elu_backward(
    iter: &mut TensorIterator<'_>,
    grad_output: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    self_or_result: &Tensor,
) -> Result<()> {
    let formula = if is_result { elu_of_result } else { elu_of_input };
    formula(iter, grad_output, self_or_result, alpha, scale, input_scale)
}

/// The bounds of `hardtanh` as numbers of the type of `self_`.
fn hardtanh_limits(self_: &Tensor, min: Scalar, max: Scalar) -> Result<(Scalar, Scalar)> {
    ensure!(
        self_.dtype() != ScalarType::Bool,
        NotImplemented("hardtanh", "self"),
        "Bool inputs not supported for hardtanh"
    );
    Ok(if self_.is_floating_point() {
        (min, max)
    } else {
        (Scalar::Int(min.to_i64()), Scalar::Int(max.to_i64()))
    })
}

/// Each element clamped to `min_val..=max_val`; the type stays that of `self_`.
pub fn hardtanh(self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    let (min, max) = hardtanh_limits(self_, min_val, max_val)?;
    ops::clamp(self_, Some(min), Some(max))
}

/// [`hardtanh`] in place.
pub fn hardtanh_(self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<()> {
    let (min, max) = hardtanh_limits(self_, min_val, max_val)?;
    ops::clamp_(self_, Some(min), Some(max))
}

/// log(1 / (1 + e^-x)).
pub fn log_sigmoid(self_: &Tensor) -> Result<Tensor> {
    Ok(ops::log_sigmoid_forward(self_)?.0)
}

/// [`log_sigmoid`], and an empty buffer: the gradient is computed without one.
pub fn log_sigmoid_forward(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut iter = TensorIterator::functional("log_sigmoid_forward");
    log_sigmoid_of_floats_meta(&mut iter, self_)?;
    if !iter.is_meta() {
        log_sigmoid_of_floats(&mut iter, self_)?;
    }
    Ok((iter.take_result()?, Tensor::empty_contiguous(&[0], self_.dtype(), self_.device())?))
}

/// Shape and type of [`log_sigmoid_backward`].
pub fn log_sigmoid_backward_meta<'a>(
    iter: &mut TensorIterator<'a>,
    grad_output: &'a Tensor,
    self_: &'a Tensor,
    buffer: &Tensor,
) -> Result<()> {
    ensure_same_device("log_sigmoid_backward", &[self_, buffer])?;
    log_sigmoid_slope_meta(iter, grad_output, self_)
}

/// The gradient of [`log_sigmoid`].
pub fn log_sigmoid_backward(
    iter: &mut TensorIterator<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    _buffer: &Tensor,
) -> Result<()> {
    log_sigmoid_slope(iter, grad_output, self_)
}
