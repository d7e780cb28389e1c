//! The regularized incomplete gamma functions.
//!
//! The ascending series (DLMF 8.11.4), the continued fraction of Legendre (8.9.2) by its recurrences, for the upper part of small
//! arguments a series without cancellation (8.7.3), and Temme's uniform expansion (8.12) from 1e5 on. Relative errors are below 1e-14, and
//! below 1e-13 in far tails.
//!
//! Lanes of a vector are in different regions, and converge after different numbers of steps: a lane that is done keeps its value, so
//! that it does not depend on the others.

use super::gamma::{ln_gamma, remainder};
use crate::vectorized::{Float, Mask};
use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// Above this value Temme's expansion is as precise as the series and the fraction, whose number of terms grows with `a`.
const LARGE: f64 = 1e5;
/// Up to here the ascending series is fast even where it is not the shorter one.
const FAST_SERIES: f64 = 8.0;
/// Up to here the terms of the alternating series of the upper function cancel little, and twenty of them are enough.
const SMALL: f64 = 1.0;
/// Terms and steps between questions whether a sum has converged.
const BLOCK: usize = 4;

/// The lower function: the integral from 0 to `x`.
#[inline(always)]
pub(super) fn lower<V: Float>(a: V, x: V) -> V {
    let (one, regions) = (V::one(), Regions::of(a, x));
    let by_series = regions.moderate & (x.le(V::constant(FAST_SERIES)) | x.le(a));
    let (series, fraction) = parts(a, x, by_series, regions.moderate & !by_series);
    let moderate = V::select(by_series, series, one - fraction);
    let limit = regions.limit(a, x);
    let inside = V::select(regions.moderate, moderate, limit);
    if !regions.large.any() {
        return inside;
    }
    V::select(regions.large, uniform(a, x, -one), inside)
}

/// The upper function: the integral from `x` to infinity.
#[inline(always)]
pub(super) fn upper<V: Float>(a: V, x: V) -> V {
    let (one, regions) = (V::one(), Regions::of(a, x));
    let is_small = regions.moderate & x.le(V::constant(SMALL));
    let by_series = regions.moderate & !is_small & x.le(a);
    let (series, fraction) = parts(a, x, by_series, regions.moderate & !is_small & !by_series);
    let moderate = V::select(by_series, one - series, fraction);
    let mut result = V::select(regions.moderate, moderate, one - regions.limit(a, x));
    if is_small.any() {
        result = V::select(is_small, small(a, x), result);
    }
    if regions.large.any() {
        result = V::select(regions.large, uniform(a, x, one), result);
    }
    result
}

/// Where both arguments are positive and finite: `a` up to [`LARGE`] and above it.
struct Regions<V: Float> {
    moderate: V::Mask,
    large: V::Mask,
}

impl<V: Float> Regions<V> {
    #[inline(always)]
    fn of(a: V, x: V) -> Self {
        let (zero, infinity) = (V::zero(), V::constant(f64::INFINITY));
        let inside = a.gt(zero) & a.lt(infinity) & x.gt(zero) & x.lt(infinity);
        let above = a.gt(V::constant(LARGE));
        Regions { moderate: inside & !above, large: inside & above }
    }

    /// The lower function at 0, infinity and NaN, and for negative arguments.
    #[inline(always)]
    fn limit(&self, a: V, x: V) -> V {
        let (zero, infinity) = (V::zero(), V::constant(f64::INFINITY));
        let undefined = (a.eq(zero) & x.eq(zero)) | (a.eq(infinity) & x.eq(infinity));
        let defined = a.ge(zero) & x.ge(zero) & !undefined;
        let value = V::select(x.eq(zero) | a.eq(infinity), zero, V::one());
        V::select(defined, value, V::constant(f64::NAN))
    }
}

/// The lower function by its series and the upper one by its fraction, each where it is requested.
#[inline(always)]
fn parts<V: Float>(a: V, x: V, of_series: V::Mask, of_fraction: V::Mask) -> (V, V) {
    let (one, requested) = (V::one(), of_series | of_fraction);
    // Elsewhere arguments for which nothing overflows.
    let (a, x) = (V::select(requested, a, one), V::select(requested, x, one));
    let factor = factor(a, x);
    let (mut lower, mut upper) = (factor, factor);
    if of_series.any() {
        lower = factor * series(a, x, of_series);
    }
    if of_fraction.any() {
        upper = factor * a * fraction(a, x, of_fraction);
    }
    (lower, upper)
}

/// `x^a e^-x / gamma(a + 1)`. For large `a` that is `(x / a)^a e^(a - x)`, or `e^(-a (u - ln(1 + u)))` with `u = (x - a) / a`, which
/// has no cancellation near 0, and Stirling's formula.
#[inline(always)]
fn factor<V: Float>(a: V, x: V) -> V {
    let (zero, above) = (V::zero(), a.ge(V::constant(10.0)));
    let ratio = x / a;
    let power = V::select(above, ratio, x).pow(a);
    let exponential = (V::select(above, a, zero) - x).exp();
    let mut result = power * exponential;
    if !above.all() {
        let next = V::select(above, V::one(), a + V::one());
        result = V::select(above, result, result / ln_gamma(next).exp());
    }
    if above.any() {
        let (smallest, infinity) = (V::constant(f64::MIN_POSITIVE), V::constant(f64::INFINITY));
        let in_range =
            power.gt(smallest) & power.lt(infinity) & exponential.gt(smallest) & exponential.lt(infinity);
        let direct = (ratio - V::one()).abs().gt(V::constant(0.25)) & in_range;
        let bell = V::select(direct, result, (-a * excess(a, x)).exp());
        let scale = (-remainder(a)).exp() / (a * V::constant(TAU)).sqrt();
        result = V::select(above, scale * bell, result);
    }
    result
}

/// `u - ln(1 + u)` with `u = (x - a) / a`.
#[inline(always)]
fn excess<V: Float>(a: V, x: V) -> V {
    let u = (x - a) / a;
    // With s = u / (2 + u): ln(1 + u) = 2 (s + s^3 / 3 + ..), and u - 2 s = u s.
    let s = u / (V::constant(2.0) + u);
    let square = s * s;
    let mut sum = V::zero();
    for k in (1..12).rev() {
        sum = (sum + V::constant(1.0 / f64::from(2 * k + 1))) * square;
    }
    let near = s * (u - V::constant(2.0) * sum);
    let is_far = u.abs().gt(V::constant(0.25));
    if !is_far.any() {
        return near;
    }
    V::select(is_far, u - (x / a).log(), near)
}

/// `1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..`, of which [`BLOCK`] terms are one fraction.
#[inline(always)]
fn series<V: Float>(a: V, x: V, requested: V::Mask) -> V {
    let one = V::one();
    let (mut sum, mut term, mut n, mut goes_on) = (one, one, a, requested);
    let square = x * x;
    let fourth = square * square;
    loop {
        let (first, second) = (n + one, n + V::constant(2.0));
        let (third, last) = (n + V::constant(3.0), n + V::constant(4.0));
        let dividend = x * (second * third * last + x * (third * last + x * (last + x)));
        let part = term / (first * second * third * last);
        sum = V::select(goes_on, sum + part * dividend, sum);
        term = part * fourth;
        n = last;
        goes_on = goes_on & term.gt(sum * V::constant(f64::EPSILON / 8.0));
        if !goes_on.any() {
            return sum;
        }
    }
}

/// `1 - x^a / gamma(a + 1) (1 + a (-x / (a + 1) + x^2 / (2 (a + 2)) - ..))`, for `x` up to [`SMALL`].
#[inline(always)]
fn small<V: Float>(a: V, x: V) -> V {
    let (mut sum, mut power) = (V::zero(), V::one());
    for pair in 0..10 {
        let n = f64::from(2 * pair + 1);
        let first = power * x * V::constant(-1.0 / n);
        power = first * x * V::constant(-1.0 / (n + 1.0));
        let (before, behind) = (a + V::constant(n), a + V::constant(n + 1.0));
        sum = sum + (first * behind + power * before) / (before * behind);
    }
    let log = a * x.log() - ln_gamma(V::one() + a);
    -log.expm1() - log.exp() * a * sum
}

/// `1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ..)))`: numerators and denominators by one recurrence.
#[inline(always)]
fn fraction<V: Float>(a: V, x: V, requested: V::Mask) -> V {
    const MAX_STEPS: usize = 100_000;
    let (one, two) = (V::one(), V::constant(2.0));
    // Where it is larger, the factor is 0.
    let mut b = x.minimum(V::constant(10.0 * LARGE)) + one - a;
    let (mut above, mut last_above) = (one, V::zero());
    let (mut below, mut last_below) = (b, one);
    let (mut value, mut n, mut goes_on) = (V::zero(), V::zero(), requested);
    for _ in 0..MAX_STEPS / BLOCK {
        for _ in 0..BLOCK {
            n = n + one;
            b = b + two;
            let step = n * (a - n);
            (above, last_above) = (b.mul_add(above, step * last_above), above);
            (below, last_below) = (b.mul_add(below, step * last_below), below);
        }
        let next = above / below;
        let change = (next - value).abs();
        value = V::select(goes_on, next, value);
        goes_on = goes_on & change.gt(value.abs() * V::constant(4.0 * f64::EPSILON));
        if !goes_on.any() {
            break;
        }
        // Both grow as a factorial; a power of two changes their size alone.
        let is_great = below.abs().gt(V::constant(2f64.powi(500)));
        let scale = V::select(is_great, V::constant(2f64.powi(-500)), one);
        (above, last_above) = (above * scale, last_above * scale);
        (below, last_below) = (below * scale, last_below * scale);
    }
    value
}

/// Temme's expansion: the tail of the normal distribution in `eta`, with `eta^2 / 2 = u - ln(1 + u)`, and two terms of the remainder.
/// `sign` is 1 for the upper function and -1 for the lower one.
#[inline(always)]
fn uniform<V: Float>(a: V, x: V, sign: V) -> V {
    let number = V::constant;
    let u = (x - a) / a;
    let half = excess(a, x);
    let eta = (half + half).sqrt().copysign(u);
    let near_first = number(-1.0 / 3.0)
        + eta
            * (number(1.0 / 12.0)
                + eta * (number(-2.0 / 135.0) + eta * (number(1.0 / 864.0) + eta * number(1.0 / 2835.0))));
    let near_second = number(-1.0 / 540.0) - eta * number(1.0 / 288.0) + eta * eta * number(25.0 / 12096.0);
    let (by_u, by_eta) = (u.recip(), eta.recip());
    let far_first = by_u - by_eta;
    let far_second = by_eta * by_eta * by_eta - by_u * by_u * by_u - by_u * by_u - by_u * number(1.0 / 12.0);
    let is_near = eta.abs().lt(number(0.02));
    let (first, second) =
        (V::select(is_near, near_first, far_first), V::select(is_near, near_second, far_second));
    let rest = (-a * half).exp() / (a * number(TAU)).sqrt() * (first + second / a);
    let tail = number(0.5) * (sign * eta * a.sqrt() * number(FRAC_1_SQRT_2)).erfc();
    tail + sign * rest
}
