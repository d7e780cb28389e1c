//! The error function and its complement.

use super::super::lanes::Float;
use super::exp::Exponential;
use super::{FloatElement, Pair, polynomial};

/// Where the formulas of `erfc` change: below, `1 - erf(x)` does not cancel much.
const ERFC_SMALL: f64 = 0.75;

/// Where the formulas of `erf` change.
const ERF_SMALL: f64 = 0.9;

/// `erf(x) - x` for `|x| <= 1`.
#[inline(always)]
fn small_low<V: Float>(x: V) -> V {
    x * polynomial(x * x, V::Element::ERF)
}

/// A polynomial whose first coefficient outweighs the rest, and comes in two parts.
#[inline(always)]
fn polynomial_pair<V: Float>(x: V, coefficients: &'static [V::Element], first_low: V::Element) -> Pair<V> {
    let low = x.mul_add(polynomial(x, &coefficients[1..]), V::splat(first_low));
    Pair::fast_sum(V::splat(coefficients[0]), low)
}

/// `x + x P(x^2)` up to 0.9, and `1 - e^-P(x - 1)` beyond: there a few ulp of `erfc` are not one of `erf`.
#[inline(always)]
pub(in super::super) fn erf<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let small = x + small_low(x);
    let beyond = V::splat(V::Element::ERF_MAX).min(magnitude) - V::one();
    let log = polynomial_pair(beyond, V::Element::NEG_LOG_ERFC, V::Element::NEG_LOG_ERFC_LOW);
    let erfc = Exponential::of_pair(Pair::new(-log.high, -log.low)).value();
    let large = (V::one() - erfc).copysign(x);
    V::select(magnitude.lt(V::constant(ERF_SMALL)), small, large)
}

/// `erfc(x)` for `x` in 3/4 to `ERFC_MAX`: `e^(-x^2) P(t) / (1 + 2 x)` with `t = (x - c) / (x + c)`
/// (the variable is that of Shepherd and Laframboise, 1981).
#[inline(always)]
fn erfc_large<V: Float>(x: V) -> V {
    let square = Pair::product(x, x);
    let power = Exponential::of_pair(Pair::new(-square.high, -square.low));
    let e = power.significand();

    // One division for both quotients.
    let divisor = Pair::fast_sum(x + x, V::one());
    let centre = V::splat(V::Element::ERFC_CENTRE);
    let inverse = ((x + centre) * divisor.high).recip();
    let t = (x - centre) * (divisor.high * inverse);

    let p = polynomial_pair(t, V::Element::ERFC, V::Element::ERFC_LOW);

    let product = Pair::product(e.high, p.high);
    let dividend = product.plus_low(e.high.mul_add(p.low, e.low * p.high));
    dividend.divided_by(divisor, (x + centre) * inverse).value().scale(power.n)
}

/// `1 - x - x P(x^2)` up to 3/4 in magnitude; `erfc(-x) = 2 - erfc(x)`.
#[inline(always)]
pub(in super::super) fn erfc<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let limit = V::constant(ERFC_SMALL);
    let small = Pair::fast_sum(V::one(), -x).plus_low(-small_low(x)).value();
    let positive = erfc_large(limit.max(V::splat(V::Element::ERFC_MAX).min(magnitude)));
    let large = V::select(x.lt(V::zero()), V::constant(2.0) - positive, positive);
    V::select(magnitude.lt(limit), small, large)
}
