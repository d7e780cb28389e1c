//! Orthogonal polynomials by their recurrences (Abramowitz and Stegun, 22.7). The order is truncated to an integer; for negative orders
//! the result is 0.

use super::horner::map_lanes;
use crate::vectorized::{Float, FloatElement, Mask};

/// Above this order Chebyshev polynomials are computed from cosines, and the others are NaN, since the recurrence would take too long.
const MAX_ORDER: f64 = 1e5;

/// The polynomial of order `n`, where order 0 is 1, order 1 is `first`, and order `k + 1` is `step(k, p[k], p[k - 1])`.
#[inline(always)]
fn recurrence<V: Float>(x: V, n: V, first: V, step: impl Fn(V, V, V) -> V) -> V {
    let (zero, one, nan) = (V::zero(), V::one(), V::constant(f64::NAN));
    let order = n.trunc();
    let is_possible = order.le(V::constant(MAX_ORDER));
    let last_step = V::select(is_possible, order, zero);
    let (mut k, mut last, mut value) = (one, one, first);
    loop {
        let goes_on = k.lt(last_step);
        if !goes_on.any() {
            break;
        }
        let next = step(k, value, last);
        last = V::select(goes_on, value, last);
        value = V::select(goes_on, next, value);
        k = k + one;
    }
    let value = V::select(order.eq(zero), one, value);
    let value = V::select(order.lt(zero), zero, value);
    V::select(is_possible & x.eq(x), value, nan)
}

/// Chebyshev polynomials of one of four kinds, which differ in order 1 and in the formula `far` of order and angle for high orders.
#[inline(always)]
fn chebyshev<V: Float>(x: V, n: V, first: V, far: fn(f64, f64) -> f64) -> V {
    let value = recurrence(
        x,
        n,
        first,
        #[inline(always)]
        |_, p, last| V::constant(2.0) * x * p - last,
    );
    let (order, most) = (n.trunc(), V::constant(MAX_ORDER));
    let is_finite = order.abs().lt(V::constant(f64::INFINITY));
    let is_far = most.lt(order) & is_finite & x.abs().le(V::one());
    if !is_far.any() {
        return value;
    }
    let mut lanes = [[V::Element::from_f64(0.0); 16]; 2];
    x.spill(&mut lanes[0]);
    order.spill(&mut lanes[1]);
    let by_angle = V::refill(&map_lanes(&lanes, V::LANES, |[x, n]| far(n, x.acos())));
    V::select(is_far, by_angle, value)
}

/// Chebyshev polynomials of the first kind, cos(n t) with x = cos(t).
#[inline(always)]
pub(super) fn chebyshev_t<V: Float>(x: V, n: V) -> V {
    chebyshev(x, n, x, |n, t| (n * t).cos())
}

/// Chebyshev polynomials of the second kind, sin((n + 1) t) / sin(t).
#[inline(always)]
pub(super) fn chebyshev_u<V: Float>(x: V, n: V) -> V {
    chebyshev(x, n, x + x, |n, t| ((n + 1.0) * t).sin() / t.sin())
}

/// Chebyshev polynomials of the third kind, cos((n + 1/2) t) / cos(t / 2).
#[inline(always)]
pub(super) fn chebyshev_v<V: Float>(x: V, n: V) -> V {
    chebyshev(x, n, x + x - V::one(), |n, t| ((n + 0.5) * t).cos() / (t / 2.0).cos())
}

/// Chebyshev polynomials of the fourth kind, sin((n + 1/2) t) / sin(t / 2).
#[inline(always)]
pub(super) fn chebyshev_w<V: Float>(x: V, n: V) -> V {
    chebyshev(x, n, x + x + V::one(), |n, t| ((n + 0.5) * t).sin() / (t / 2.0).sin())
}

/// `2 x - 1`, which moves the interval from 0 to 1 to that from -1 to 1.
#[inline(always)]
pub(super) fn shifted<V: Float>(x: V) -> V {
    x + x - V::one()
}

/// Physicist's Hermite polynomials.
#[inline(always)]
pub(super) fn hermite_h<V: Float>(x: V, n: V) -> V {
    recurrence(
        x,
        n,
        x + x,
        #[inline(always)]
        |k, p, last| V::constant(2.0) * (x * p - k * last),
    )
}

/// Probabilist's Hermite polynomials.
#[inline(always)]
pub(super) fn hermite_he<V: Float>(x: V, n: V) -> V {
    recurrence(
        x,
        n,
        x,
        #[inline(always)]
        |k, p, last| x * p - k * last,
    )
}

/// Laguerre polynomials.
#[inline(always)]
pub(super) fn laguerre_l<V: Float>(x: V, n: V) -> V {
    recurrence(
        x,
        n,
        V::one() - x,
        #[inline(always)]
        |k, p, last| ((k + k + V::one() - x) * p - k * last) / (k + V::one()),
    )
}

/// Legendre polynomials.
#[inline(always)]
pub(super) fn legendre_p<V: Float>(x: V, n: V) -> V {
    recurrence(
        x,
        n,
        x,
        #[inline(always)]
        |k, p, last| ((k + k + V::one()) * x * p - k * last) / (k + V::one()),
    )
}
