//! Powers.

use super::super::lanes::Float;
use super::exp::Exponential;
use super::log::Decomposed;
use super::{FloatElement, Pair, clamp, polynomial};

/// `log2(x)` of a positive finite `x`, to about 12 bits more than the working precision: with `s = f / (2 + f)`,
/// `ln(1 + f) = 2 (s + s^3 / 3 + s^5 P(s^2))`, of which all but the last term is carried as pairs.
#[inline(always)]
fn log2_pair<V: Float>(x: V) -> Pair<V> {
    let Decomposed { exponent, significand, .. } = Decomposed::of(x);
    let fraction = significand - V::one();
    let divisor = Pair::fast_sum(V::constant(2.0), fraction);
    let s = Pair::new(fraction, V::zero()).divided_by(divisor, divisor.high.recip());
    let s = Pair::fast_sum(s.high, s.low);

    let square = Pair::product(s.high, s.high).plus_low((s.high + s.high) * s.low);
    let cube = Pair::product(square.high, s.high).plus_low(square.low.mul_add(s.high, square.high * s.low));
    let third = V::constant(1.0 / 3.0);
    let third_low = V::splat(V::Element::THIRD_LOW);
    let part = Pair::product(cube.high, third).plus_low(cube.high.mul_add(third_low, cube.low * third));
    let tail = (cube.high * square.high) * polynomial(square.high, V::Element::ATANH);
    let half = Pair::fast_sum(s.high, part.high).plus_low(s.low + (part.low + tail));

    let factor = V::splat(V::Element::LOG2_E) * V::constant(2.0);
    let factor_low = V::splat(V::Element::LOG2_E_LOW) * V::constant(2.0);
    let product = Pair::product(half.high, factor).plus_low(half.high.mul_add(factor_low, half.low * factor));
    let sum = Pair::fast_sum(exponent, product.high).plus_low(product.low);
    Pair::fast_sum(sum.high, sum.low)
}

/// `|x|^y`.
#[inline(always)]
fn magnitude_pow<V: Float>(x: V, y: V) -> V {
    let infinity = V::constant(f64::INFINITY);
    let logarithm = log2_pair(x);
    let ordinary = x.gt(V::zero()) & x.lt(infinity);
    let limit = V::select(x.eq(V::zero()), -infinity, x);
    let high = V::select(ordinary, logarithm.high, limit);

    let product = Pair::product(y, high);
    let clamped = clamp(product.high, V::Element::EXP2_RANGE);
    // Out of range, or where the logarithm is infinite, the low part says nothing.
    let low = V::select(clamped.eq(product.high), y.mul_add(logarithm.low, product.low), V::zero());
    Exponential::base_2(Pair::new(clamped, low)).value()
}

/// As C's `pow` and IEEE 754: the magnitude, then sign and exceptions.
#[inline(always)]
pub(in super::super) fn pow<V: Float>(x: V, y: V) -> V {
    let (zero, one, infinity) = (V::zero(), V::one(), V::constant(f64::INFINITY));
    let magnitude = magnitude_pow(x.abs(), y);

    let half = y * V::constant(0.5);
    let integral = y.trunc().eq(y);
    let odd = integral & half.trunc().ne(half);
    let signed = V::select(odd, magnitude.copysign(x), magnitude);
    let undefined = x.lt(zero) & x.gt(-infinity) & !integral;
    let result = V::select(undefined, V::constant(f64::NAN), signed);

    let even_at_one = x.abs().eq(one) & y.abs().eq(infinity);
    V::select(y.eq(zero) | x.eq(one) | even_at_one, one, result)
}
