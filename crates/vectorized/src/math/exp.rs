//! Exponentials, functions made of them, and the sigmoid of f32, which is piecewise polynomial.

use super::super::lanes::{Bits, Float, Mask};
use super::pieces::Piece;
use super::{FloatElement, Pair, clamp, or_beyond, polynomial};

/// `e^x` as `2^n (1 + high + low)`, with `|high|` about `ln 2 / 2` at most.
pub(super) struct Exponential<V> {
    pub(super) n: V,
    pub(super) high: V,
    pub(super) low: V,
}

impl<V: Float> Exponential<V> {
    /// From `x` in `EXP_RANGE`.
    #[inline(always)]
    pub(super) fn of(x: V) -> Self {
        let n = nearest_product(x, V::splat(V::Element::LOG2_E));
        // Exact: a multiple of the last digit of `LN_2` or of `x`, and less than 1/2.
        let first = n.neg_mul_add(V::splat(V::Element::LN_2), x);
        let high = n.neg_mul_add(V::splat(V::Element::LN_2_LOW), first);
        let low = n.neg_mul_add(V::splat(V::Element::LN_2_LOW), first - high);
        Self::of_reduced(n, high, low)
    }

    /// From `x.high + x.low`.
    #[inline(always)]
    pub(super) fn of_pair(x: Pair<V>) -> Self {
        let n = nearest(x.high * V::splat(V::Element::LOG2_E));
        let first = n.neg_mul_add(V::splat(V::Element::LN_2), x.high);
        let low = n.neg_mul_add(V::splat(V::Element::LN_2_LOW), x.low);
        let reduced = Pair::sum(first, low);
        Self::of_reduced(n, reduced.high, reduced.low)
    }

    /// `2^x`.
    #[inline(always)]
    fn base_2(x: V) -> Self {
        let n = nearest(x);
        let rest = x - n;
        let product = Pair::product(rest, V::splat(V::Element::LN_2));
        let low = rest.mul_add(V::splat(V::Element::LN_2_LOW), product.low);
        let reduced = Pair::fast_sum(product.high, low);
        Self::of_reduced(n, reduced.high, reduced.low)
    }

    #[inline(always)]
    fn of_reduced(n: V, high: V, low: V) -> Self {
        let low = (high * high).mul_add(polynomial(high, V::Element::EXP), low);
        Self { n, high, low }
    }

    /// `e^x / 2^n`.
    #[inline(always)]
    pub(super) fn significand(&self) -> Pair<V> {
        Pair::fast_sum(V::one(), self.high).plus_low(self.low)
    }

    #[inline(always)]
    pub(super) fn value(&self) -> V {
        self.significand().value().scale(self.n)
    }

    /// `(e^x - 1) / 2^halvings`, not normalized, where `2^(n - halvings)` is a normal number.
    #[inline(always)]
    pub(super) fn minus_one(&self, halvings: u8) -> Pair<V> {
        let unit = V::constant(1.0 / f64::from(1u32 << halvings));
        let power = power_of_two(self.n - V::constant(f64::from(halvings)));
        let less = Pair::sum(power, -unit);
        Pair::fast_sum(less.high, power * self.high).plus_low(power.mul_add(self.low, less.low))
    }
}

/// The nearest integer, for arguments that are small beside `ROUND`.
#[inline(always)]
fn nearest<V: Float>(x: V) -> V {
    let round = V::splat(V::Element::ROUND);
    (x + round) - round
}

/// An integer near `x * factor`: the nearest one, or one that is farther by a rounding error.
#[inline(always)]
fn nearest_product<V: Float>(x: V, factor: V) -> V {
    let round = V::splat(V::Element::ROUND);
    x.mul_add(factor, round) - round
}

/// `2^n` for an integer `n` that gives a normal number.
#[inline(always)]
pub(super) fn power_of_two<V: Float>(n: V) -> V {
    shifted_power(n + V::splat(V::Element::ROUND))
}

/// `2^n`, given `n + ROUND`, which has `n` in its low bits.
#[inline(always)]
fn shifted_power<V: Float>(n: V) -> V {
    V::from_bits(n.to_bits().shl(V::Element::MANTISSA_BITS) + V::Bits::splat(V::Element::ONE_BITS))
}

/// `x * 2^n`: two factors, since `2^n` may be out of range where the product is not. `x` is near 1, so only the
/// second product can be inexact.
#[inline(always)]
pub(in super::super) fn scale_in_two_steps<V: Float>(x: V, n: V) -> V {
    let round = V::splat(V::Element::ROUND);
    let half = n.mul_add(V::constant(0.5), round);
    let rest = (n - (half - round)) + round;
    x * shifted_power(half) * shifted_power(rest)
}

/// `x * 2^floor(n)` where no instruction rounds down.
#[inline(always)]
pub(in super::super) fn scale_floored<V: Float>(x: V, n: V) -> V {
    x.scale(n.floor())
}

/// A multiple of 1/16 near `x * factor`, the nearest one up to a rounding error, and bits that end with its sixteenths.
#[inline(always)]
pub(super) fn sixteenths<V: Float>(x: V, factor: V) -> (V, V::Bits) {
    let round = V::splat(V::Element::ROUND_SIXTEENTH);
    let shifted = x.mul_add(factor, round);
    (shifted - round, shifted.to_bits())
}

/// `e^r - 1` for `r` about `ln 2 / 32` in magnitude at most.
#[inline(always)]
pub(super) fn tiny_expm1<V: Float>(r: V) -> V {
    (r * r).mul_add(polynomial(r, V::Element::SHORT_EXP), r)
}

#[inline(always)]
pub(in super::super) fn exp<V: Float>(x: V) -> V {
    let (n, index, rest) = reduced(clamp(x, V::Element::EXP_RANGE));
    scaled_exp(n, index, rest)
}

/// With one product for the reduction and a polynomial of degree 2, whose slope at 0 compensates for most of the terms that it leaves
/// out. The bits of the sixteenths, taken as those of a float, are a piecewise linear approximation of the power; a table holds the
/// differences from the exact powers.
#[inline(always)]
pub(in super::super) fn exp_to_half<V: Float>(x: V) -> (V, bool) {
    const LARGEST: f64 = std::f64::consts::LN_2 / 32.0;
    const SLOPE: f64 = 1.0 + LARGEST * LARGEST / 8.0;
    let (n, index) = sixteenths(x, V::splat(V::Element::LOG2_E));
    let r = n.neg_mul_add(V::splat(V::Element::LN_2), x);
    let residual = V::look_up(V::Element::POWER_RESIDUALS, index).to_bits();
    let power = V::from_bits(residual + index.shl(V::Element::MANTISSA_BITS - 4));
    let slope = r.mul_add(V::constant(0.5), V::constant(SLOPE));
    let near = power * slope.mul_add(r, V::one());
    // Where the argument and its power are normal numbers.
    let is_near = x.abs().lt(V::constant(87.0));
    if is_near.all() { (near, true) } else { (V::select(is_near, near, exp(x)), false) }
}

/// `e^(x.high + x.low)`, with `x.high` in `EXP_RANGE`.
#[inline(always)]
pub(super) fn exp_of_pair<V: Float>(x: Pair<V>) -> V {
    let (n, index, rest) = reduced(x.high);
    scaled_exp(n, index, rest + x.low)
}

/// [`sixteenths`] of `x log2(e)`, and the rest of `x`.
#[inline(always)]
fn reduced<V: Float>(x: V) -> (V, V::Bits, V) {
    let (n, index) = sixteenths(x, V::splat(V::Element::LOG2_E));
    let first = n.neg_mul_add(V::splat(V::Element::LN_2), x);
    (n, index, n.neg_mul_add(V::splat(V::Element::LN_2_LOW), first))
}

/// `2^n e^r`. A table holds `2^(n - floor(n))`; the polynomial is small beside it, so that their sum is nearly exact.
#[inline(always)]
fn scaled_exp<V: Float>(n: V, index: V::Bits, r: V) -> V {
    let s = tiny_expm1(r);
    let power = V::look_up(V::Element::POWERS, index);
    let low = power.mul_add(s, V::look_up(V::Element::POWERS_LOW, index));
    (power + low).scale_floor(n)
}

#[inline(always)]
pub(in super::super) fn exp2<V: Float>(x: V) -> V {
    Exponential::base_2(clamp(x, V::Element::EXP2_RANGE)).value()
}

#[inline(always)]
pub(in super::super) fn expm1<V: Float>(x: V) -> V {
    let low = -V::splat(V::Element::NEGLIGIBLE);
    let x = low.max(V::splat(V::Element::EXP_RANGE.1).min(x));
    // Half of the result overflows only if the result does; but half of a denormal is not exact.
    let result = (Exponential::of(x).minus_one(1).value() * V::constant(2.0)).copysign(x);
    V::select(x.abs().lt(V::splat(V::Element::MIN_NORMAL) * V::constant(4.0)), x, result)
}

/// In f32 it is 1/2, plus the table's value at the nearest point with the sign of `x`, plus the polynomial in the distance, which is the
/// smallest term and is added last.
#[inline(always)]
pub(in super::super) fn sigmoid<V: Float>(x: V) -> V {
    let Some([points, values, slopes @ ..]) = V::Element::SIGMOID else {
        return sigmoid_by_exponential(x);
    };
    let z = x.abs();
    let piece = Piece::of(z, 2.0, points);
    let at_point = V::constant(0.5) + piece.look_up(values).copysign(x);
    let distance = V::from_bits(piece.distance.to_bits() ^ sign_of(x));
    let near = piece.polynomial(slopes).mul_add(distance, at_point);
    or_beyond(
        z.lt(V::constant(15.5 / 2.0)),
        near,
        #[inline(always)]
        || sigmoid_by_exponential(x),
    )
}

/// The bit of the sign.
#[inline(always)]
fn sign_of<V: Float>(x: V) -> V::Bits {
    x.to_bits() & V::Bits::splat(V::Element::SIGN_MASK)
}

/// With `n` a multiple of 1/16 near `x log2(e)`, `p = 2^(floor(n) + 1)` and `e^-x = t / p` it is `p / (p + t)`. A table holds `t` but
/// for a small part, so that only the quotient needs more than working precision; its remainder is summed from the largest term on.
#[inline(always)]
fn sigmoid_by_exponential<V: Float>(x: V) -> V {
    let x = clamp(x, (V::Element::EXP_RANGE.0, V::Element::NEGLIGIBLE));
    let (n, index) = sixteenths(x, V::splat(V::Element::LOG2_E));
    let first = n.mul_add(V::splat(V::Element::LN_2), -x);
    let s = tiny_expm1(n.mul_add(V::splat(V::Element::LN_2_LOW), first));
    let root = V::look_up(V::Element::ROOTS, index);
    let small = root.mul_add(s, V::look_up(V::Element::ROOTS_LOW, index));
    // It is doubled, so that it is 0 only if the result is.
    let p = V::constant(2.0).scale_floor(n);
    // Without its last two digits, its product with a power of two can be subtracted from 1 exactly.
    let near = ((p + root) + small).recip().to_bits() & V::Bits::splat(!3);
    let near = V::from_bits(near);
    let rest = near.neg_mul_add(p.max(root), V::one());
    let rest = near.neg_mul_add(small, near.neg_mul_add(p.min(root), rest));
    near.mul_add(rest, near) * p
}
