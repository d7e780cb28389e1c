//! Logarithms.

use super::super::lanes::{Bits, Float};
use super::{FloatElement, Pair, polynomial};

/// A positive finite number as `2^exponent * (1 + fraction)`, with `1 + fraction` between the roots of 1/2 and 2.
pub(super) struct Decomposed<V> {
    pub(super) exponent: V,
    pub(super) fraction: V,
}

impl<V: Float> Decomposed<V> {
    #[inline(always)]
    pub(super) fn of(x: V) -> Self {
        let digits = V::Element::MANTISSA_BITS + 1;
        let denormal = x.lt(V::splat(V::Element::MIN_NORMAL));
        let lift = V::select(denormal, V::constant((1u64 << digits) as f64), V::one());
        let lowered = V::select(denormal, V::constant(f64::from(digits)), V::zero());
        let (exponent, significand) = split(x * lift);
        Self { exponent: exponent - lowered, fraction: significand - V::one() }
    }
}

/// The exponent and the significand, by integer arithmetic on the bits of a positive normal number.
#[inline(always)]
fn split<V: Float>(x: V) -> (V, V) {
    let digits = V::Element::MANTISSA_BITS;
    let one = V::Bits::splat(V::Element::ONE_BITS);
    let least = V::Bits::splat(V::Element::SQRT_HALF_BITS);
    let shifted = x.to_bits() + (one - least);
    let significand = (shifted & V::Bits::splat((1 << digits) - 1)) + least;
    // The biased exponent below the leading digit of 2^digits: a float without a conversion from integers.
    let base = V::constant((1u64 << digits) as f64);
    let biased = V::from_bits(shifted.shr(digits) | base.to_bits());
    let bias = V::constant((V::Element::ONE_BITS >> digits) as f64);
    (biased - (base + bias), V::from_bits(significand))
}

/// `ln(1 + fraction)`: the square term is carried exactly, since it can be a fifth of the whole.
#[inline(always)]
fn log_of_fraction<V: Float>(fraction: V) -> Pair<V> {
    let half = Pair::product(fraction * V::constant(-0.5), fraction);
    let cube = (fraction * fraction) * fraction;
    let low = cube.mul_add(polynomial(fraction, V::Element::LOG), half.low);
    Pair::fast_sum(fraction, half.high).plus_low(low)
}

/// `exponent * unit + x`, rounded once; `unit` is short enough that the product is exact.
#[inline(always)]
fn add_exponent<V: Float>(exponent: V, (unit, unit_low): (V::Element, V::Element), x: Pair<V>) -> V {
    let sum = Pair::fast_sum(exponent * V::splat(unit), x.high);
    sum.plus_low(exponent.mul_add(V::splat(unit_low), x.low)).value()
}

/// `result` where `x` is positive and finite; the limits and NaN elsewhere.
#[inline(always)]
fn at_the_ends<V: Float>(x: V, result: V) -> V {
    let infinity = V::constant(f64::INFINITY);
    let ordinary = x.gt(V::zero()) & x.lt(infinity);
    let negative = V::select(x.lt(V::zero()), V::constant(f64::NAN), x);
    let other = V::select(x.eq(V::zero()), -infinity, negative);
    V::select(ordinary, result, other)
}

#[inline(always)]
pub(in super::super) fn log<V: Float>(x: V) -> V {
    let Decomposed { exponent, fraction } = Decomposed::of(x);
    let unit = (V::Element::LN_2_SHORT, V::Element::LN_2_SHORT_LOW);
    at_the_ends(x, add_exponent(exponent, unit, log_of_fraction(fraction)))
}

/// The logarithm to another base: `ln(1 + fraction) / ln(base) + exponent * unit`.
#[inline(always)]
fn log_to_base<V: Float>(x: V, per_ln: (V::Element, V::Element), unit: (V::Element, V::Element)) -> V {
    let Decomposed { exponent, fraction } = Decomposed::of(x);
    let factor = V::splat(per_ln.0);
    let ln = log_of_fraction(fraction);
    let product = Pair::product(ln.high, factor);
    let low = ln.high.mul_add(V::splat(per_ln.1), ln.low.mul_add(factor, product.low));
    at_the_ends(x, add_exponent(exponent, unit, Pair::new(product.high, low)))
}

#[inline(always)]
pub(in super::super) fn log2<V: Float>(x: V) -> V {
    let unit = (V::Element::from_f64(1.0), V::Element::from_f64(0.0));
    log_to_base(x, (V::Element::LOG2_E, V::Element::LOG2_E_LOW), unit)
}

#[inline(always)]
pub(in super::super) fn log10<V: Float>(x: V) -> V {
    let unit = (V::Element::LOG10_2_SHORT, V::Element::LOG10_2_SHORT_LOW);
    log_to_base(x, (V::Element::LOG10_E, V::Element::LOG10_E_LOW), unit)
}

/// `ln(x.high + x.low) + exponent ln 2` with `ln(u + c) = ln u + c / u`, for a `low` within the rounding error of `high`.
#[inline(always)]
pub(super) fn log_of_sum<V: Float>(x: Pair<V>, exponent: V) -> V {
    let u = x.high;
    let correction = V::select(u.lt(V::constant(f64::INFINITY)), x.low / u, V::zero());
    let Decomposed { exponent: own, fraction } = Decomposed::of(u);
    let unit = (V::Element::LN_2_SHORT, V::Element::LN_2_SHORT_LOW);
    let logarithm = log_of_fraction(fraction).plus_low(correction);
    at_the_ends(u, add_exponent(own + exponent, unit, logarithm))
}

/// `ln(u + c)` with `u + c = 1 + x` exactly.
#[inline(always)]
pub(in super::super) fn log1p<V: Float>(x: V) -> V {
    log_of_sum(Pair::sum(V::one(), x), V::zero()).copysign(x)
}
