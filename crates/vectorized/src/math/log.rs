//! Logarithms.

use super::super::lanes::{Bits, Float, Mask};
use super::{FloatElement, Pair, polynomial};

/// A positive finite number as `2^exponent * significand`, with a significand between the roots of 1/2 and 2.
pub(super) struct Decomposed<V: Float> {
    pub(super) exponent: V,
    pub(super) significand: V,
    /// Bits that end with the number of the sixteenth where the significand lies.
    sixteenth: V::Bits,
}

impl<V: Float> Decomposed<V> {
    #[inline(always)]
    pub(super) fn of(x: V) -> Self {
        let digits = V::Element::MANTISSA_BITS + 1;
        let denormal = x.lt(V::splat(V::Element::MIN_NORMAL));
        let lift = V::select(denormal, V::constant((1u64 << digits) as f64), V::one());
        let lowered = V::select(denormal, V::constant(f64::from(digits)), V::zero());
        let lifted = Self::of_normal(x * lift);
        Self { exponent: lifted.exponent - lowered, ..lifted }
    }

    /// By integer arithmetic on the bits of a positive normal number.
    #[inline(always)]
    fn of_normal(x: V) -> Self {
        let digits = V::Element::MANTISSA_BITS;
        let one = V::Bits::splat(V::Element::ONE_BITS);
        let least = V::Bits::splat(V::Element::LEAST_SIGNIFICAND_BITS);
        let shifted = x.to_bits() + (one - least);
        let significand = (shifted & V::Bits::splat((1 << digits) - 1)) + least;
        // The biased exponent below the leading digit of 2^digits: a float without a conversion from integers.
        let base = V::constant((1u64 << digits) as f64);
        let biased = V::from_bits(shifted.shr(digits) | base.to_bits());
        let bias = V::constant((V::Element::ONE_BITS >> digits) as f64);
        let exponent = biased - (base + bias);
        Self { exponent, significand: V::from_bits(significand), sixteenth: shifted.shr(digits - 4) }
    }
}

/// `ln significand` as `entry + rest + low`, where `entry` has few digits: with `c` near `1 / significand` it is
/// `-ln c + ln(1 + rest)`, and `rest = c significand - 1` is exact.
struct Parts<V> {
    entry: V,
    rest: V,
    low: V,
}

impl<V: Float> Parts<V> {
    #[inline(always)]
    fn of(x: &Decomposed<V>) -> Self {
        let rest = x.significand.mul_add(V::look_up(V::Element::INVERSES, x.sixteenth), -V::one());
        let low = V::look_up(V::Element::LOGS_LOW, x.sixteenth);
        let low = (rest * rest).mul_add(polynomial(rest, V::Element::LOG), low);
        Self { entry: V::look_up(V::Element::LOGS, x.sixteenth), rest, low }
    }
}

/// `ln significand`.
#[inline(always)]
fn log_of_significand<V: Float>(x: &Decomposed<V>) -> Pair<V> {
    let Parts { entry, rest, low } = Parts::of(x);
    Pair::fast_sum(entry, rest).plus_low(low)
}

/// `exponent ln 2 + ln significand`: the sum of the first with the entry is exact.
#[inline(always)]
fn log_of<V: Float>(x: &Decomposed<V>) -> Pair<V> {
    let Parts { entry, rest, low } = Parts::of(x);
    let high = x.exponent.mul_add(V::splat(V::Element::LN_2_SHORT), entry);
    Pair::fast_sum(high, rest).plus_low(x.exponent.mul_add(V::splat(V::Element::LN_2_SHORT_LOW), low))
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
    let parts = Decomposed::of_normal(x);
    // Of what is no positive normal number it makes exponents from the ends, and beyond.
    let end = V::constant((V::Element::ONE_BITS >> V::Element::MANTISSA_BITS) as f64 - 1.0);
    if parts.exponent.abs().lt(end).all() {
        log_of(&parts).value()
    } else {
        at_the_ends(x, log_of(&Decomposed::of(x)).value())
    }
}

/// The logarithm to another base: `ln(significand) / ln(base) + exponent * unit`.
#[inline(always)]
fn log_to_base<V: Float>(x: V, per_ln: (V::Element, V::Element), unit: (V::Element, V::Element)) -> V {
    let parts = Decomposed::of(x);
    let factor = V::splat(per_ln.0);
    let ln = log_of_significand(&parts);
    let product = Pair::product(ln.high, factor);
    let low = ln.high.mul_add(V::splat(per_ln.1), ln.low.mul_add(factor, product.low));
    at_the_ends(x, add_exponent(parts.exponent, unit, Pair::new(product.high, low)))
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
    let own = Decomposed::of(u);
    let logarithm = log_of(&Decomposed { exponent: own.exponent + exponent, ..own }).plus_low(correction);
    at_the_ends(u, logarithm.value())
}

/// `ln(u + c)` with `u + c = 1 + x` exactly.
#[inline(always)]
pub(in super::super) fn log1p<V: Float>(x: V) -> V {
    log_of_sum(Pair::sum(V::one(), x), V::zero()).copysign(x)
}
