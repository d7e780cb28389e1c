//! tanh, sinh and cosh, from exponentials in two parts; tanh of f32 is piecewise polynomial.

use super::super::lanes::Float;
use super::exp::{Exponential, power_of_two};
use super::pieces::{by_pieces, in_pieces};
use super::{FloatElement, Pair, or_beyond};

#[inline(always)]
pub(in super::super) fn tanh<V: Float>(x: V) -> V {
    let Some(table) = V::Element::TANH else {
        return tanh_by_exponential(x);
    };
    let z = x.abs();
    let near = by_pieces(z, table);
    or_beyond(
        in_pieces(z),
        near,
        #[inline(always)]
        || V::one() - V::constant(2.0) / ((z + z).exp() + V::one()),
    )
    .copysign(x)
}

/// `m / (m + 2)` with `m = e^(2 |x|) - 1`.
#[inline(always)]
fn tanh_by_exponential<V: Float>(x: V) -> V {
    let double = V::splat(V::Element::NEGLIGIBLE).min(x.abs() * V::constant(2.0));
    let m = Exponential::of(double).minus_one(0).normalized();
    let divisor = Pair::sum(m.high, V::constant(2.0)).plus_low(m.low);
    m.divided_by(divisor, divisor.high.recip()).value().copysign(x)
}

/// `2 (q + q / (1 + 4 q))` with `q = (e^|x| - 1) / 4`, which overflows only where the result does.
#[inline(always)]
pub(in super::super) fn sinh<V: Float>(x: V) -> V {
    let magnitude = V::splat(V::Element::SINH_MAX).min(x.abs());
    let q = Exponential::of(magnitude).minus_one(2).normalized();
    let four = V::constant(4.0);
    let divisor = Pair::sum(q.high * four, V::one()).plus_low(q.low * four);
    let quotient = q.divided_by(divisor, divisor.high.recip());
    let matters = magnitude.lt(V::splat(V::Element::NEGLIGIBLE));
    let small = V::select(matters, quotient.high, V::zero());
    let smaller = V::select(matters, quotient.low, V::zero());
    let half = Pair::fast_sum(q.high, small).plus_low(q.low + smaller).value();
    // A quarter of a denormal is not exact.
    V::select(x.abs().lt(V::splat(V::Element::MIN_NORMAL) * four), x, (half * V::constant(2.0)).copysign(x))
}

/// `2 (q + 1 / (16 q))` with `q = e^|x| / 4`.
#[inline(always)]
pub(in super::super) fn cosh<V: Float>(x: V) -> V {
    let power = Exponential::of(V::splat(V::Element::SINH_MAX).min(x.abs()));
    let quarter = power_of_two(power.n - V::constant(2.0));
    let significand = power.significand().normalized();
    let q = Pair::new(significand.high * quarter, significand.low * quarter);
    let reciprocal = q.high.recip();
    let small = Pair::new(V::constant(1.0 / 16.0), V::zero()).divided_by(q, reciprocal);
    let half = Pair::fast_sum(q.high, small.high).plus_low(q.low + small.low).value();
    half * V::constant(2.0)
}
