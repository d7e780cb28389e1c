//! Pointwise operators with one argument.

use crate::loops::{self, ComplexFormula, FloatFormula, IntegerFormula, NumberFormula};
use crate::native::pointwise::complex;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Float, Integer, Number};
use crate::{Tensor, ops};
use flambeau_core::{Complex, Result, Scalar, ensure};

// Floating point numbers; integers are converted to the default floating point type first.
formulas! { half_kernel(FloatFormula, Float) -> V:
    /// The natural logarithm.
    fn log, log_meta = build_unary_float_op(self_: x) => x.log(), complex complex::log(x);
    /// The square root.
    fn sqrt, sqrt_meta = build_unary_float_op(self_: x) => x.sqrt(), complex complex::sqrt(x);
    /// 1 / sqrt(x).
    fn rsqrt, rsqrt_meta = build_unary_float_op(self_: x) => x.rsqrt(), complex complex::rsqrt(x);
    /// 1 / x.
    fn reciprocal, reciprocal_meta = build_unary_float_op(self_: x) => x.recip(), complex complex::reciprocal(x);
    /// The sine.
    fn sin, sin_meta = build_unary_float_op(self_: x) => x.sin(), complex complex::sin(x);
    /// The cosine.
    fn cos, cos_meta = build_unary_float_op(self_: x) => x.cos(), complex complex::cos(x);
    /// The hyperbolic tangent.
    fn tanh, tanh_meta = build_unary_float_op(self_: x) => x.tanh(), complex complex::tanh(x);
    /// 1 / (1 + e^-x).
    fn sigmoid, sigmoid_meta = build_unary_float_op(self_: x) => x.sigmoid(), complex complex::sigmoid(x);
}

/// e^x.
#[derive(Clone, Copy)]
struct Exponential;

impl FloatFormula<1> for Exponential {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        x.exp()
    }

    #[inline(always)]
    fn call_to_half<V: Float>(self, [x]: [V; 1]) -> (V, bool) {
        x.exp_to_half()
    }
}

impl ComplexFormula<1> for Exponential {
    #[inline(always)]
    fn call<V: Float>(self, [z]: [Complex<V>; 1]) -> Complex<V> {
        complex::exp(z)
    }
}

/// Shape and type of [`exp`].
pub fn exp_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_float_op(self_)
}

/// e^x.
pub fn exp(iter: &mut TensorIterator<'_>, _: &Tensor) -> Result<()> {
    loops::complex_or(iter, Exponential, |iter, formula| loops::half_kernel(iter, formula))
}

/// The error function.
#[derive(Clone, Copy)]
struct ErrorFunction;

impl FloatFormula<1> for ErrorFunction {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        x.erf()
    }

    #[inline(always)]
    fn call_to_half<V: Float>(self, [x]: [V; 1]) -> (V, bool) {
        x.erf_to_half()
    }
}

/// Shape and type of [`erf`].
pub fn erf_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_float_op(self_)
}

/// The error function.
pub fn erf(iter: &mut TensorIterator<'_>, _: &Tensor) -> Result<()> {
    loops::half_kernel(iter, ErrorFunction)
}

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// Converts degrees to radians.
    fn deg2rad, deg2rad_meta = build_unary_float_op(self_: x) => x * V::constant(std::f64::consts::PI / 180.0);
    /// Converts radians to degrees.
    fn rad2deg, rad2deg_meta = build_unary_float_op(self_: x) => x * V::constant(180.0 / std::f64::consts::PI);
    /// 2^x.
    fn exp2, exp2_meta = build_unary_float_op(self_: x) => x.exp2(), complex complex::exp2(x);
    /// e^x - 1, without cancellation near 0.
    fn expm1, expm1_meta = build_unary_float_op(self_: x) => x.expm1(), complex complex::expm1(x);
    /// log(1 + x), without cancellation near 0.
    fn log1p, log1p_meta = build_unary_float_op(self_: x) => x.log1p(), complex complex::log1p(x);
    /// The logarithm to base 2.
    fn log2, log2_meta = build_unary_float_op(self_: x) => x.log2(), complex complex::log2(x);
    /// The logarithm to base 10.
    fn log10, log10_meta = build_unary_float_op(self_: x) => x.log10(), complex complex::log10(x);
    /// The tangent.
    fn tan, tan_meta = build_unary_float_op(self_: x) => x.tan(), complex complex::tan(x);
    /// The angle whose sine is x.
    fn asin, asin_meta = build_unary_float_op(self_: x) => x.asin(), complex complex::asin(x);
    /// The angle whose cosine is x.
    fn acos, acos_meta = build_unary_float_op(self_: x) => x.acos(), complex complex::acos(x);
    /// The angle whose tangent is x.
    fn atan, atan_meta = build_unary_float_op(self_: x) => x.atan(), complex complex::atan(x);
    /// The hyperbolic sine.
    fn sinh, sinh_meta = build_unary_float_op(self_: x) => x.sinh(), complex complex::sinh(x);
    /// The hyperbolic cosine.
    fn cosh, cosh_meta = build_unary_float_op(self_: x) => x.cosh(), complex complex::cosh(x);
    /// The number whose hyperbolic sine is x.
    fn asinh, asinh_meta = build_unary_float_op(self_: x) => x.asinh(), complex complex::asinh(x);
    /// The nonnegative number whose hyperbolic cosine is x.
    fn acosh, acosh_meta = build_unary_float_op(self_: x) => x.acosh(), complex complex::acosh(x);
    /// The number whose hyperbolic tangent is x.
    fn atanh, atanh_meta = build_unary_float_op(self_: x) => x.atanh(), complex complex::atanh(x);
    /// 1 - erf(x), without cancellation.
    fn erfc, erfc_meta = build_unary_float_op(self_: x) => x.erfc();
    /// The angle of a real number in the complex plane: 0, or pi if x is negative; NaN is propagated.
    fn angle_of_reals, angle_of_reals_meta = build_unary_float_op(self_: x) => {
        let zero = V::zero();
        V::select(x.lt(zero), V::constant(std::f64::consts::PI), V::select(x.ne(x), x, zero))
    };
    /// x - trunc(x), for floating point numbers only.
    fn frac, frac_meta = build_unary_op(self_: x) => x - x.trunc();
    /// Rounds to a number of decimals, or, if it is negative, to a power of ten; halves to even after scaling.
    fn round_decimals, round_decimals_meta = build_unary_op(self_: x; decimals: i64) => {
        let scale = V::constant(10f64.powf(decimals.unsigned_abs() as f64));
        if decimals < 0 { (x / scale).round() * scale } else { (x * scale).round() / scale }
    };
}

formulas! { number_kernel(NumberFormula, Number) -> V:
    /// -x, by arithmetic.
    fn neg_of_numbers, neg_meta = build_unary_op(self_: x) => -x;
}

formulas! { ordered_number_kernel(OrderedFormula, Ordered) -> V:
    /// The absolute value of real numbers, by arithmetic.
    fn abs_of_numbers, abs_of_reals_meta = build_unary_op(self_: x) => x.abs();
}

/// The bits of a number of 16 bits with the other sign.
#[derive(Clone, Copy)]
struct OtherSign;

impl IntegerFormula<1> for OtherSign {
    #[inline(always)]
    fn call<V: Integer>(self, [x]: [V; 1]) -> V {
        x ^ V::scalar(Scalar::Int(1 << 15))
    }
}

/// The bits of a number of 16 bits without its sign.
#[derive(Clone, Copy)]
struct WithoutSign;

impl IntegerFormula<1> for WithoutSign {
    #[inline(always)]
    fn call<V: Integer>(self, [x]: [V; 1]) -> V {
        x & V::scalar(Scalar::Int((1 << 15) - 1))
    }
}

/// -x.
pub fn neg(iter: &mut TensorIterator<'_>, _: &Tensor) -> Result<()> {
    loops::sign_kernel(iter, neg_of_numbers::Formula {}, OtherSign)
}

/// The absolute value of real numbers; that of the minimum of an integer type is itself.
fn abs_of_reals(iter: &TensorIterator<'_>) -> Result<()> {
    loops::ordered_sign_kernel(iter, abs_of_numbers::Formula {}, WithoutSign)
}

formulas! { ordered_kernel(OrderedFormula, Ordered) -> V:
    /// 1, 0 or -1; 0 for NaN, as in PyTorch.
    fn sign, sign_meta = build_unary_op(self_: x) => {
        let (zero, one) = (V::zero(), V::one());
        V::select(x.gt(zero), one, V::select(x.lt(zero), -one, zero))
    };
}

/// Shape and type of [`abs`].
pub fn abs_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    if self_.dtype().is_complex() {
        complex::build_real_op(iter, self_)
    } else {
        abs_of_reals_meta(iter, self_)
    }
}

/// The absolute value; that of a complex number is real.
pub fn abs(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if self_.dtype().is_complex() { complex::abs(iter) } else { abs_of_reals(iter) }
}

/// Shape and type of [`angle`].
pub fn angle_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    if self_.dtype().is_complex() {
        complex::build_real_op(iter, self_)
    } else {
        angle_of_reals_meta(iter, self_)
    }
}

/// The angle in the complex plane, in -pi to pi.
pub fn angle(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if self_.dtype().is_complex() { complex::angle(iter) } else { angle_of_reals(iter, self_) }
}

/// Shape and type of [`sgn`].
pub fn sgn_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    sign_meta(iter, self_)
}

/// `self / |self|`, and 0 for 0; the sign of real numbers.
pub fn sgn(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if self_.dtype().is_complex() { complex::sgn(iter) } else { sign(iter, self_) }
}

/// Rounding operators, which return integers unchanged.
macro_rules! roundings {
    ($($(#[$doc:meta])* fn $name:ident, $meta:ident, $of_floats:ident = $method:ident;)*) => {$(
        formulas! { float_kernel(FloatFormula, Float) -> V:
            $(#[$doc])*
            fn $of_floats, $meta = build_unary_op(self_: x) => x.$method();
        }

        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
            if iter.common_dtype().is_floating_point() { $of_floats(iter, self_) } else { copy_integers(iter) }
        }
    )*};
}

roundings! {
    /// The largest integer less than or equal to x.
    fn floor, floor_meta, floor_of_floats = floor;
    /// The smallest integer greater than or equal to x.
    fn ceil, ceil_meta, ceil_of_floats = ceil;
    /// The nearest integer, halves to even.
    fn round, round_meta, round_of_floats = round;
    /// x rounded towards 0.
    fn trunc, trunc_meta, trunc_of_floats = trunc;
}

/// The identity.
#[derive(Clone, Copy)]
struct Identity;

impl NumberFormula<1> for Identity {
    #[inline(always)]
    fn call<V: Number>(self, [x]: [V; 1]) -> V {
        x
    }
}

/// A copy of integers; bool is refused.
fn copy_integers(iter: &TensorIterator<'_>) -> Result<()> {
    ensure!(
        !iter.common_dtype().is_complex(),
        NotImplemented(iter.name(), "self"),
        "{} is not supported for complex inputs",
        iter.name()
    );
    loops::number_kernel(iter, Identity)
}

/// A copy of any type.
pub(crate) fn copy_any(iter: &TensorIterator<'_>) -> Result<()> {
    loops::any_kernel(iter, Identity)
}

/// x * x.
pub fn square(self_: &Tensor) -> Result<Tensor> {
    ops::pow_tensor_scalar(self_, Scalar::Int(2))
}

/// x * x, in place.
pub fn square_(self_: &Tensor) -> Result<()> {
    ops::pow__scalar(self_, Scalar::Int(2))
}
