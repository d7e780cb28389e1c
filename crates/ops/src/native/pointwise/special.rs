//! Special functions that are composed of exponentials, logarithms and error functions, on vectors; `nan_to_num`, `nextafter`, `frexp`,
//! `float_power` and others.

use crate::loops::Argument;
use crate::native::pointwise::unary;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Bits, Float, FloatElement, Mask};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// sin(pi x) / (pi x), and 1 at 0.
    fn sinc, sinc_meta = build_unary_float_op(self_: x) => V::select(x.eq(V::zero()), V::one(), sin_pi(x) / (x * V::constant(PI)));
    /// x log(y), and 0 where x is 0.
    fn xlogy, xlogy_meta = build_binary_float_op(self_: x, other: y) => product_with_log(x, y, y.log());
    /// x log(1 + y), and 0 where x is 0.
    fn xlog1py, xlog1py_meta = build_binary_float_op(self_: x, other: y) => product_with_log(x, y, y.log1p());
    /// log(e^a + e^b), without intermediate overflow.
    fn logaddexp, logaddexp_meta = build_binary_op(self_: a, other: b) => {
        let sum = a.maximum(b) + (-(a - b).abs()).exp().log1p();
        V::select(is_one_infinity(a, b), a, sum)
    };
    /// log2(2^a + 2^b), without intermediate overflow.
    fn logaddexp2, logaddexp2_meta = build_binary_op(self_: a, other: b) => {
        let sum = a.maximum(b) + (-(a - b).abs()).exp2().log1p() * V::constant(1.0 / LN_2);
        V::select(is_one_infinity(a, b), a, sum)
    };
    /// -x log(x), 0 at 0 and -infinity for negative numbers.
    fn entr, entr_meta = build_unary_float_op(self_: x) => {
        let below = V::select(x.lt(V::zero()), V::constant(f64::NEG_INFINITY), x);
        V::select(x.gt(V::zero()), -(x * x.log()), V::select(x.eq(V::zero()), V::zero(), below))
    };
    /// The cumulative distribution function of the standard normal distribution.
    fn ndtr, ndtr_meta = build_unary_float_op(self_: x) => V::constant(0.5) * (x * V::constant(-FRAC_1_SQRT_2)).erfc();
    /// The logarithm of `ndtr`, which is finite even where `ndtr` underflows.
    fn log_ndtr, log_ndtr_meta = build_unary_float_op(self_: x) => {
        let t = x * V::constant(FRAC_1_SQRT_2);
        let far = ((-t).erfcx() * V::constant(0.5)).log() - x * x * V::constant(0.5);
        let near = (t.erfc() * V::constant(-0.5)).log1p();
        V::select(x.lt(-V::one()), far, near)
    };
    /// e^(x^2) erfc(x).
    fn erfcx, erfcx_meta = build_unary_float_op(self_: x) => x.erfcx();
    /// x 2^n, rounded once where n is an integer.
    fn ldexp, ldexp_meta = build_binary_float_op(self_: x, other: n) => {
        // In two steps, since `scale` accepts exponents of limited size. If the second step rounds, the first was exact.
        let max = V::constant(if size_of::<V::Element>() == 4 { 252.0 } else { 2044.0 });
        let near = n.minimum(max).maximum(-max).trunc();
        let rest = (n - near).minimum(max).maximum(-max).trunc();
        let whole = x.scale(rest).scale(near);
        V::select(n.eq(n.trunc()), whole, x * n.exp2())
    };
    /// log(x / (1 - x)).
    fn logit_of_floats, logit_of_floats_meta = build_unary_float_op(self_: x) => log_odds(x);
    /// log(x / (1 - x)) for x clamped to low to high; low if it is above high.
    fn logit_between, logit_between_meta = build_unary_float_op(self_: x; low: f64, high: f64) => {
        let (low, high) = (V::constant(low), V::constant(high));
        log_odds(V::select(x.lt(low), low, V::select(x.gt(high), high, x)))
    };
    /// NaN, infinity and -infinity replaced by the given numbers.
    fn replace_non_finite, replace_non_finite_meta = build_unary_op(self_: x; nan: f64, posinf: f64, neginf: f64) => {
        let infinity = V::constant(f64::INFINITY);
        let finite = V::select(x.eq(infinity), V::constant(posinf), V::select(x.eq(-infinity), V::constant(neginf), x));
        V::select(x.is_nan(), V::constant(nan), finite)
    };
    /// The number after x in the direction of y, in the elements' type.
    fn next_in_format, next_in_format_meta = build_binary_op(self_: x, other: y; format: FloatFormat) => format.next(x, y);
    /// x divided by the power of two that leaves 1/2 to 1.
    fn mantissa, mantissa_meta = build_unary_op(self_: x) => split(x).0;
    /// The exponent of that power.
    fn exponent, exponent_meta = build_unary_op(self_: x) => split(x).1;
}

/// sin(pi x). The difference from the nearest integer is exact; the sign is inverted if that integer is odd.
#[inline(always)]
fn sin_pi<V: Float>(x: V) -> V {
    let whole = x.round();
    let sine = ((x - whole) * V::constant(PI)).sin();
    let half = whole * V::constant(0.5);
    V::select(half.eq(half.trunc()), sine, -sine)
}

/// `x log`, but 0 where `x` is 0; NaN where `y` is.
#[inline(always)]
fn product_with_log<V: Float>(x: V, y: V, log: V) -> V {
    V::select(y.is_nan(), y, V::select(x.eq(V::zero()), V::zero(), x * log))
}

/// Whether both are the same infinity, whose difference would be NaN.
#[inline(always)]
fn is_one_infinity<V: Float>(a: V, b: V) -> V::Mask {
    a.eq(b) & a.abs().eq(V::constant(f64::INFINITY))
}

/// `log(x / (1 - x))` as `log1p((2 x - 1) / (1 - x))`, or with `x` and `1 - x` exchanged if the latter is larger. Near 1/2, where there is
/// cancellation, both differences are exact.
#[inline(always)]
fn log_odds<V: Float>(x: V) -> V {
    let (zero, one) = (V::zero(), V::one());
    let rest = one - x;
    let low = x.lt(rest);
    let (distance, smaller) = (x + x - one, V::select(low, x + zero, rest));
    let log = (V::select(low, -distance, distance) / smaller).log1p();
    let odds = V::select(low, -log, log);
    // For very small numbers the quotient would overflow, and `1 - x` is 1.
    let tiny = x.abs().lt(V::splat(V::Element::MIN_NORMAL) * V::constant(16.0));
    if tiny.any() { V::select(tiny, x.log(), odds) } else { odds }
}

/// Shape and type of [`logit`].
pub fn logit_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, _: Option<f64>) -> Result<()> {
    iter.build_unary_float_op(self_)
}

/// log(x / (1 - x)), with x clamped to eps to 1 - eps if `eps` is given and not negative.
pub fn logit(iter: &mut TensorIterator<'_>, self_: &Tensor, eps: Option<f64>) -> Result<()> {
    match eps {
        Some(eps) if eps >= 0.0 => logit_between(iter, self_, eps, 1.0 - eps),
        _ => logit_of_floats(iter, self_),
    }
}

/// Shape and type of [`nan_to_num`].
pub fn nan_to_num_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    _: Option<f64>,
    _: Option<f64>,
    _: Option<f64>,
) -> Result<()> {
    crate::native::formulas::build_unary_op(iter, self_)
}

/// Replaces NaN and infinities by the given numbers; by default NaN by 0, and infinities by the maximum and minimum of the type.
pub fn nan_to_num(
    iter: &mut TensorIterator<'_>,
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<()> {
    let Some((_, max)) = limits(iter.common_dtype()) else { return unary::copy_any(iter) };
    replace_non_finite(iter, self_, nan.unwrap_or(0.0), posinf.unwrap_or(max), neginf.unwrap_or(-max))
}

/// The smallest positive normal and the maximum finite number of a floating point type.
fn limits(dtype: ScalarType) -> Option<(f64, f64)> {
    match dtype {
        ScalarType::F16 => Some((2f64.powi(-14), 65504.0)),
        ScalarType::BF16 => Some((f64::from(f32::MIN_POSITIVE), 255.0 * 2f64.powi(120))),
        ScalarType::F32 => Some((f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))),
        ScalarType::F64 => Some((f64::MIN_POSITIVE, f64::MAX)),
        _ => None,
    }
}

/// A floating point type, whose numbers are held in lanes of f32 or f64.
#[derive(Clone, Copy)]
pub struct FloatFormat {
    /// The distance of consecutive normal numbers, in ulp of the lane's type.
    step: u64,
    /// The distance of consecutive subnormal numbers, which is the smallest positive number.
    min_subnormal: f64,
    min_normal: f64,
    max: f64,
}

impl Argument for FloatFormat {}

impl FloatFormat {
    fn of(dtype: ScalarType) -> Option<Self> {
        let (min_normal, max) = limits(dtype)?;
        let (step, digits) = match dtype {
            ScalarType::F16 => (1 << 13, 10),
            ScalarType::BF16 => (1 << 16, 7),
            ScalarType::F32 => (1, 23),
            _ => (1, 52),
        };
        Some(FloatFormat { step, min_subnormal: min_normal * 2f64.powi(-digits), min_normal, max })
    }

    #[inline(always)]
    fn next<V: Float>(self, x: V, y: V) -> V {
        let (zero, size, min_normal) = (V::zero(), x.abs(), V::constant(self.min_normal));
        let inwards = (x.gt(zero) & y.lt(x)) | (x.lt(zero) & y.gt(x));
        let step = V::Bits::splat(self.step);
        let bits = size.to_bits();
        let outer = V::from_bits(bits + step);
        let inner =
            V::select(size.gt(V::constant(self.max)), V::constant(self.max), V::from_bits(bits - step));
        let min_subnormal = V::constant(self.min_subnormal);
        let from_normal = V::select(inwards, inner, outer);
        let from_subnormal = V::select(inwards, size - min_subnormal, size + min_subnormal);
        let is_subnormal = size.lt(min_normal) | (size.eq(min_normal) & inwards);
        let next = V::select(is_subnormal, from_subnormal, from_normal).copysign(V::select(x.eq(zero), y, x));
        V::select(x.is_nan() | y.is_nan(), x + y, V::select(x.eq(y), y, next))
    }
}

/// Shape and type of [`nextafter`].
pub fn nextafter_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, other: &'a Tensor) -> Result<()> {
    iter.build_binary_op(self_, other)
}

/// The next number of the type after `self_` in the direction of `other`.
pub fn nextafter(iter: &mut TensorIterator<'_>, self_: &Tensor, other: &Tensor) -> Result<()> {
    let dtype = iter.common_dtype();
    match FloatFormat::of(dtype) {
        Some(format) => next_in_format(iter, self_, other, format),
        None => not_for(iter.name(), dtype),
    }
}

fn not_for(name: &str, dtype: ScalarType) -> Result<()> {
    flambeau_core::bail!(NotImplemented(name, "self"), "not implemented for {dtype}")
}

/// The mantissa in 1/2 to 1 and the exponent of a finite number; other numbers as they are, with an exponent of 0.
#[inline(always)]
fn split<V: Float>(x: V) -> (V, V) {
    let (zero, size) = (V::zero(), x.abs());
    let digits = V::Element::MANTISSA_BITS;
    let denormal = size.lt(V::splat(V::Element::MIN_NORMAL));
    let lift = f64::from(digits + 1);
    let bits = V::select(denormal, size * V::constant(2f64.powf(lift)), size).to_bits();
    // The exponent bits become the lowest digits of 2^digits: so they are converted to a float without an integer conversion.
    let base = V::constant((1u64 << digits) as f64);
    let bias = (V::Element::ONE_BITS >> digits) as f64 - 1.0;
    let biased = V::from_bits(bits.shr(digits) | base.to_bits()) - base;
    let exponent = biased - V::constant(bias) - V::select(denormal, V::constant(lift), zero);
    let rest = V::Bits::splat((1 << digits) - 1);
    let part = V::from_bits((bits & rest) | V::constant(0.5).to_bits()).copysign(x);
    let whole = x.eq(zero) | !size.lt(V::constant(f64::INFINITY));
    (V::select(whole, x, part), V::select(whole, zero, exponent))
}

/// The mantissa and the exponent of each element.
pub fn frexp(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(
        self_.is_floating_point(),
        InvalidArgument("frexp", "self"),
        "torch.frexp() only supports floating-point dtypes"
    );
    let (mut of_mantissa, mut of_exponent) =
        (TensorIterator::functional("frexp"), TensorIterator::functional("frexp"));
    mantissa_meta(&mut of_mantissa, self_)?;
    exponent_meta(&mut of_exponent, self_)?;
    if !of_mantissa.is_meta() {
        mantissa(&mut of_mantissa, self_)?;
        exponent(&mut of_exponent, self_)?;
    }
    let exponent = of_exponent.take_result()?;
    Ok((
        of_mantissa.take_result()?,
        ops::_to_copy(&exponent, Some(ScalarType::I32), None, None, None, false, None)?,
    ))
}

formulas! { ordered_kernel(OrderedFormula, Ordered) -> V:
    /// 0 for negative numbers, 1 for positive ones, and the value at 0.
    fn heaviside, heaviside_of_one_type_meta = build_binary_op(self_: x, values: v) =>
        V::select(x.eq(V::zero()), v, V::select(x.gt(V::zero()), V::one(), V::zero()));
}

/// Shape and type of [`heaviside`].
pub fn heaviside_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    values: &'a Tensor,
) -> Result<()> {
    ensure!(
        self_.dtype() == values.dtype(),
        InvalidArgument(iter.name(), "values"),
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    iter.build_binary_op(self_, values)?;
    crate::native::formulas::check_out(iter, self_.dtype())
}

scalar_overloads! {
    xlogy_scalar, xlogy_scalar_() = xlogy_tensor, xlogy__tensor;
}

/// [`xlogy`] with a number for `self`.
pub fn xlogy_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::xlogy_tensor(&Tensor::wrapped_number(self_)?, other)
}

/// [`xlog1py`] with a number for `self`.
pub fn xlog1py_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::special_xlog1py(&Tensor::wrapped_number(self_)?, other)
}

/// [`xlog1py`] with a number for `other`.
pub fn xlog1py_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::special_xlog1py(self_, &Tensor::wrapped_number(other)?)
}

fn as_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    ops::to_dtype(tensor, dtype, false, false, None)
}

/// The type in which powers are computed: complex128 if either operand is complex, else float64.
fn type_of_float_power(operands_are_complex: bool) -> ScalarType {
    if operands_are_complex { ScalarType::Complex128 } else { ScalarType::F64 }
}

/// A number of such a type.
fn wide_number(number: Scalar) -> Scalar {
    if number.is_complex() { number } else { Scalar::Float(number.to_f64()) }
}

/// self to the power of exponent, in 64 bits.
pub fn float_power(self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let dtype = type_of_float_power(self_.dtype().is_complex() || exponent.dtype().is_complex());
    ops::pow_tensor_tensor(&as_dtype(self_, dtype)?, &as_dtype(exponent, dtype)?)
}

/// A number to the power of exponent, in 64 bits.
pub fn float_power_of_scalar(self_: Scalar, exponent: &Tensor) -> Result<Tensor> {
    let dtype = type_of_float_power(self_.is_complex() || exponent.dtype().is_complex());
    ops::pow_scalar(wide_number(self_), &as_dtype(exponent, dtype)?)
}

/// self to the power of a number, in 64 bits.
pub fn float_power_scalar(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let dtype = type_of_float_power(self_.dtype().is_complex() || exponent.is_complex());
    ops::pow_tensor_scalar(&as_dtype(self_, dtype)?, wide_number(exponent))
}

fn check_base(self_: &Tensor, dtype: ScalarType) -> Result<()> {
    ensure!(
        self_.dtype() == dtype,
        InvalidArgument("float_power_", "self"),
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {dtype}",
        self_.dtype()
    );
    Ok(())
}

/// `self_` to the power of exponent, in place; `self_` must be of the result's type.
pub fn float_power_(self_: &Tensor, exponent: &Tensor) -> Result<()> {
    let dtype = type_of_float_power(self_.dtype().is_complex() || exponent.dtype().is_complex());
    check_base(self_, dtype)?;
    ops::pow__tensor(self_, &as_dtype(exponent, dtype)?)
}

/// `self_` to the power of a number, in place; `self_` must be of the result's type.
pub fn float_power_scalar_(self_: &Tensor, exponent: Scalar) -> Result<()> {
    check_base(self_, type_of_float_power(self_.dtype().is_complex() || exponent.is_complex()))?;
    ops::pow__scalar(self_, wide_number(exponent))
}

/// True everywhere: all types are real.
pub fn isreal(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        return ops::eq_scalar(&ops::imag(self_)?, Scalar::Int(0));
    }
    ops::ones_like(
        self_,
        Some(ScalarType::Bool),
        None,
        None,
        None,
        Some(flambeau_core::MemoryFormat::Preserve),
    )
}

/// The tensor itself; bool is refused.
pub fn positive(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() != ScalarType::Bool,
        NotImplemented("positive", "self"),
        "The `+` operator, on a bool tensor is not supported."
    );
    Ok(self_.clone())
}
