//! Logarithms.

use super::super::lanes::{Bits, Float, Mask};
use super::{FloatElement, Pair, polynomial};

/// A positive finite number as `2^exponent * significand`, with a significand in 3/4 to 3/2.
pub(super) struct Decomposed<V: Float> {
    pub(super) exponent: V,
    pub(super) significand: V,
    /// Bits that end with the number of the sixteenth where the significand lies.
    sixteenth: V::Bits,
}

impl<V: Float> Decomposed<V> {
    /// Of any positive finite number, which is scaled so that it is far from both ends of the range.
    #[inline(always)]
    pub(super) fn of(x: V) -> Self {
        let digits = V::Element::MANTISSA_BITS + 1;
        let is_small = x.lt(V::one());
        let lift = V::select(is_small, V::constant((1u64 << digits) as f64), V::constant(0.5));
        let lifted = V::select(is_small, V::constant(f64::from(digits)), V::constant(-1.0));
        let moved = Self::of_middle(x * lift);
        Self { exponent: moved.exponent - lifted, ..moved }
    }

    /// Of a normal number that is less than half of the largest.
    #[inline(always)]
    fn of_middle(x: V) -> Self {
        let shifted = shifted_to_binade(x);
        let sixteenth = shifted.shr(V::Element::MANTISSA_BITS - 4);
        Self { exponent: V::from_bits(shifted).exponent(), significand: x.significand(), sixteenth }
    }
}

/// Bits of a float whose position in its binade is that of `x` in the range 3/4 to 3/2 times a power of two.
#[inline(always)]
fn shifted_to_binade<V: Float>(x: V) -> V::Bits {
    x.to_bits() + V::Bits::splat(V::Element::ONE_BITS - V::Element::MIN_SIGNIFICAND_BITS)
}

/// `floor(log2 x)` of a positive normal number, where no instruction computes it: the biased exponent is put into the low bits of
/// 2^digits, which makes it a float without a conversion from integers.
#[inline(always)]
pub(in super::super) fn exponent_by_bits<V: Float>(x: V) -> V {
    let digits = V::Element::MANTISSA_BITS;
    let base = V::constant((1u64 << digits) as f64);
    let bias = V::constant((V::Element::ONE_BITS >> digits) as f64);
    V::from_bits(x.to_bits().shr(digits) | base.to_bits()) - (base + bias)
}

/// [`Float::significand`] where no instruction computes it.
#[inline(always)]
pub(in super::super) fn significand_by_bits<V: Float>(x: V) -> V {
    let fraction = shifted_to_binade(x) & V::Bits::splat((1 << V::Element::MANTISSA_BITS) - 1);
    V::from_bits(fraction + V::Bits::splat(V::Element::MIN_SIGNIFICAND_BITS))
}

/// `ln significand` as `entry + entry_low + ln(1 + rest)`, where `entry` has few digits: with `c` near `1 / significand` it is
/// `-ln c`, and `rest = c significand - 1` is exact.
struct Parts<V> {
    entry: V,
    entry_low: V,
    rest: V,
}

impl<V: Float> Parts<V> {
    #[inline(always)]
    fn of(x: &Decomposed<V>) -> Self {
        let rest = x.significand.mul_add(V::look_up(V::Element::INVERSES, x.sixteenth), -V::one());
        let entry_low = V::look_up(V::Element::LOGS_LOW, x.sixteenth);
        Self { entry: V::look_up(V::Element::LOGS, x.sixteenth), entry_low, rest }
    }

    /// `ln(1 + rest) - rest`, added to `x`.
    #[inline(always)]
    fn add_bend(&self, x: V) -> V {
        (self.rest * self.rest).mul_add(polynomial(self.rest, V::Element::LOG), x)
    }
}

/// `ln significand`.
#[inline(always)]
fn log_of_significand<V: Float>(x: &Decomposed<V>) -> Pair<V> {
    let parts = Parts::of(x);
    Pair::fast_sum(parts.entry, parts.rest).plus_low(parts.add_bend(parts.entry_low))
}

/// `exponent ln 2 + entry`, exactly, and the low parts of these constants.
#[inline(always)]
fn log_of_entry<V: Float>(exponent: V, parts: &Parts<V>) -> Pair<V> {
    let high = exponent.mul_add(V::splat(V::Element::LN_2_SHORT), parts.entry);
    Pair::new(high, exponent.mul_add(V::splat(V::Element::LN_2_SHORT_LOW), parts.entry_low))
}

/// `ln x`.
#[inline(always)]
fn log_pair<V: Float>(x: &Decomposed<V>) -> Pair<V> {
    let parts = Parts::of(x);
    let entry = log_of_entry(x.exponent, &parts);
    Pair::fast_sum(entry.high, parts.rest).plus_low(parts.add_bend(entry.low))
}

/// `ln x` to about 9 bits more than the working precision, of a positive finite `x`.
#[inline(always)]
pub(super) fn log_to_pair<V: Float>(x: V) -> Pair<V> {
    long_log(&Decomposed::of(x))
}

/// The same where [`is_middle`] holds.
#[inline(always)]
pub(super) fn log_to_pair_of_middle<V: Float>(x: V) -> Pair<V> {
    long_log(&Decomposed::of_middle(x))
}

/// The series of `ln(1 + rest)`. The terms whose rounding errors would affect the result are pairs.
#[inline(always)]
fn long_log<V: Float>(x: &Decomposed<V>) -> Pair<V> {
    let parts = Parts::of(x);
    let (entry, rest) = (log_of_entry(x.exponent, &parts), parts.rest);
    let square = Pair::product(rest, rest * V::constant(-0.5));
    let first = Pair::fast_sum(entry.high, rest);
    let second = Pair::fast_sum(first.high, square.high);
    let low = entry.low + (first.low + (second.low + square.low));
    let (cube, bend) = (rest * rest * rest, polynomial(rest, V::Element::LONG_LOG));
    if !V::Element::LONG_LOG_HAS_THIRD {
        return Pair::fast_sum(second.high, cube.mul_add(bend, low));
    }
    let factor = Pair::product(rest, V::constant(-2.0 / 3.0));
    let factor_low = rest.mul_add(V::splat(V::Element::THIRD_LOW) * V::constant(-2.0), factor.low);
    let third = Pair::product(square.high, factor.high)
        .plus_low(square.high.mul_add(factor_low, square.low * factor.high));
    let sum = Pair::fast_sum(second.high, third.high);
    Pair::fast_sum(sum.high, (cube * rest).mul_add(bend, low + (sum.low + third.low)))
}

/// `ln x` to working precision. Where the sum is not much greater than `rest`, `entry` is 0.
#[inline(always)]
fn log_value<V: Float>(x: &Decomposed<V>) -> V {
    let parts = Parts::of(x);
    let entry = log_of_entry(x.exponent, &parts);
    entry.high + (parts.add_bend(parts.rest) + entry.low)
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

/// Whether `x` is far from both ends of the range of positive numbers.
#[inline(always)]
pub(super) fn is_middle<V: Float>(x: V) -> V::Mask {
    let end = V::constant((1u64 << 60) as f64);
    x.ge(end.recip()) & x.lt(end)
}

#[inline(always)]
pub(in super::super) fn log<V: Float>(x: V) -> V {
    if is_middle(x).all() {
        log_value(&Decomposed::of_middle(x))
    } else {
        at_the_ends(x, log_value(&Decomposed::of(x)))
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
    let logarithm = log_pair(&Decomposed { exponent: own.exponent + exponent, ..own }).plus_low(correction);
    at_the_ends(u, logarithm.value())
}

/// `ln(u + c)` with `u + c = 1 + x` exactly.
#[inline(always)]
pub(in super::super) fn log1p<V: Float>(x: V) -> V {
    log_of_sum(Pair::sum(V::one(), x), V::zero()).copysign(x)
}
