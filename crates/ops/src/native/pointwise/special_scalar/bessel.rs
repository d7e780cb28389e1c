//! Bessel functions of the first and second kind, modified ones of the second, and the Airy function.
//!
//! Near 0 Chebyshev series, to which the logarithmic term of functions of the second kind is added; far from 0 Chebyshev series of the
//! amplitudes in Hankel's expansions (Abramowitz and Stegun, 9.2.5, 9.7.2 and 10.4.59). Errors are at most 5 ulp of the maximum of
//! result and amplitude.

use super::bessel_coefficients as c;
use super::modified_bessel::{i0, i1};
use crate::vectorized::{Float, Mask};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, PI, SQRT_2};

/// The sum of `c[k] T_k(t)`, by Clenshaw's recurrence.
#[inline(always)]
fn chebyshev<V: Float>(c: &[f64], t: V) -> V {
    let (mut next, mut last, twice) = (V::zero(), V::zero(), t + t);
    for k in (1..c.len()).rev() {
        // Each term waits for one operation of the one before.
        (next, last) = (twice.mul_add(next, V::constant(c[k]) - last), next);
    }
    t.mul_add(next, V::constant(c[0]) - last)
}

/// A series in `x^2`, for `x` up to `M`.
#[inline(always)]
fn near<V: Float, const M: i32>(c: &[f64], x: V) -> V {
    let t = x * V::constant(1.0 / f64::from(M));
    chebyshev(c, V::constant(2.0) * t * t - V::one())
}

/// `(P, Q)` of Hankel's expansion, for `x` from 8 on, times the amplitude.
#[inline(always)]
fn far<V: Float>(p: &[f64], q: &[f64], x: V) -> (V, V) {
    let t = V::constant(8.0) / x;
    let (u, amplitude) = (V::constant(2.0) * t * t - V::one(), (V::constant(FRAC_2_PI) / x).sqrt());
    (amplitude * chebyshev(p, u), amplitude * t * chebyshev(q, u))
}

/// Sine and cosine of `x - pi / 4`.
#[inline(always)]
fn sin_cos_shifted<V: Float>(x: V) -> (V, V) {
    let (sin, cos, factor) = (x.sin(), x.cos(), V::constant(FRAC_1_SQRT_2));
    ((sin - cos) * factor, (sin + cos) * factor)
}

/// Where the series near 0 end.
const NEAR: f64 = 8.0;

/// [`j0`] of up to 8.
#[inline(always)]
fn j0_near<V: Float>(x: V) -> V {
    // The series, whose next term is below half an ulp: no result exceeds 1.
    let (one, t) = (V::one(), x * x * V::constant(0.25));
    let tiny = one - t * (one - t * V::constant(0.25) * (one - t / V::constant(9.0)));
    V::select(x.lt(V::constant(1.0 / 128.0)), tiny, near::<V, 8>(&c::J0_NEAR, x))
}

/// The first kind, of order 0.
#[inline(always)]
pub(super) fn j0<V: Float>(x: V) -> V {
    let x = x.abs();
    let (is_near, value) = (x.le(V::constant(NEAR)), j0_near(x));
    if is_near.all() {
        return value;
    }
    let ((p, q), (sin, cos)) = (far(&c::P0, &c::Q0, x), sin_cos_shifted(x));
    V::select(is_near, value, p * cos - q * sin)
}

/// The first kind, of order 1, where sine and cosine are those of `x - 3 pi / 4`.
#[inline(always)]
pub(super) fn j1<V: Float>(x: V) -> V {
    let size = x.abs();
    let (is_near, value) = (size.le(V::constant(NEAR)), x * near::<V, 8>(&c::J1_NEAR, x));
    if is_near.all() {
        return value;
    }
    let ((p, q), (sin, cos)) = (far(&c::P1, &c::Q1, size), sin_cos_shifted(size));
    let beyond = p * sin + q * cos;
    V::select(is_near, value, V::select(x.lt(V::zero()), -beyond, beyond))
}

/// `value` for positive `x`, `at_zero` at 0, NaN for negative `x`.
#[inline(always)]
fn of_positive<V: Float>(x: V, at_zero: f64, value: V) -> V {
    let other = V::select(x.eq(V::zero()), V::constant(at_zero), V::constant(f64::NAN));
    V::select(x.gt(V::zero()), value, other)
}

/// The second kind, of order 0.
#[inline(always)]
pub(super) fn y0<V: Float>(x: V) -> V {
    let is_near = x.le(V::constant(NEAR));
    let mut value = V::constant(FRAC_2_PI) * x.log() * j0_near(x) + near::<V, 8>(&c::Y0_NEAR, x);
    if !is_near.all() {
        let ((p, q), (sin, cos)) = (far(&c::P0, &c::Q0, x), sin_cos_shifted(x));
        value = V::select(is_near, value, p * sin + q * cos);
    }
    of_positive(x, f64::NEG_INFINITY, value)
}

/// The second kind, of order 1.
#[inline(always)]
pub(super) fn y1<V: Float>(x: V) -> V {
    let is_near = x.le(V::constant(NEAR));
    let j1_near = x * near::<V, 8>(&c::J1_NEAR, x);
    let mut value =
        V::constant(FRAC_2_PI) * (x.log() * j1_near - x.recip()) + x * near::<V, 8>(&c::Y1_NEAR, x);
    if !is_near.all() {
        let ((p, q), (sin, cos)) = (far(&c::P1, &c::Q1, x), sin_cos_shifted(x));
        value = V::select(is_near, value, q * sin - p * cos);
    }
    of_positive(x, f64::NEG_INFINITY, value)
}

/// The modified function of the second kind from its value up to 2 and its series beyond, times `e^x` if `SCALED`.
#[inline(always)]
fn modified<V: Float, const SCALED: bool>(x: V, near: V, far: &[f64]) -> V {
    let beyond = chebyshev(far, V::constant(4.0) / x - V::one()) / x.sqrt();
    let (near, beyond) = if SCALED { (near * x.exp(), beyond) } else { (near, (-x).exp() * beyond) };
    of_positive(x, f64::INFINITY, V::select(x.le(V::constant(2.0)), near, beyond))
}

/// [`k0`] of up to 2.
#[inline(always)]
fn k0_near<V: Float>(x: V) -> V {
    let x = x.min(V::constant(2.0));
    near::<V, 2>(&c::K0_NEAR, x) - (x * V::constant(0.5)).log() * i0(x)
}

/// [`k1`] of up to 2.
#[inline(always)]
fn k1_near<V: Float>(x: V) -> V {
    let x = x.min(V::constant(2.0));
    x.recip() + (x * V::constant(0.5)).log() * i1(x) + x * near::<V, 2>(&c::K1_NEAR, x)
}

/// The modified second kind, of order 0.
#[inline(always)]
pub(super) fn k0<V: Float>(x: V) -> V {
    modified::<V, false>(x, k0_near(x), &c::K0_FAR)
}

/// The modified second kind, of order 1.
#[inline(always)]
pub(super) fn k1<V: Float>(x: V) -> V {
    modified::<V, false>(x, k1_near(x), &c::K1_FAR)
}

/// Order 0, times `e^x`.
#[inline(always)]
pub(super) fn k0e<V: Float>(x: V) -> V {
    modified::<V, true>(x, k0_near(x), &c::K0_FAR)
}

/// Order 1, times `e^x`.
#[inline(always)]
pub(super) fn k1e<V: Float>(x: V) -> V {
    modified::<V, true>(x, k1_near(x), &c::K1_FAR)
}

/// `sin(x) / x`.
#[inline(always)]
pub(super) fn spherical_j0<V: Float>(x: V) -> V {
    let (size, zero) = (x.abs(), V::zero());
    let value = V::select(size.eq(V::constant(f64::INFINITY)), zero, x.sin() / x);
    V::select(size.eq(zero), V::one(), value)
}

/// `2 / 3 x^(3/2)`.
#[inline(always)]
fn phase<V: Float>(x: V) -> V {
    V::constant(2.0 / 3.0) * x * x.sqrt()
}

/// The phase as the sum of two numbers, for `x` so large that the rounding of the first one changes sine and cosine.
#[inline(always)]
fn exact_phase<V: Float>(x: V) -> (V, V) {
    /// `2 / 3` less the number that stands for it.
    const TWO_THIRDS_LOW: f64 = 3.700743415417188e-17;
    let (root, two_thirds) = (x.sqrt(), V::constant(2.0 / 3.0));
    let root_low = root.neg_mul_add(root, x) / (root + root);
    let product = x * root;
    let product_low = x.mul_add(root, -product) + x * root_low;
    let z = two_thirds * product;
    let z_low =
        two_thirds.mul_add(product, -z) + two_thirds * product_low + V::constant(TWO_THIRDS_LOW) * product;
    (z, z_low)
}

/// Where the middle series of the Airy function begins and ends.
const AIRY_ENDS: (f64, f64) = (-4.0, 2.0);
/// `2 / 3 4^(3/2)`, the phase at the beginning.
const PHASE_AT_4: f64 = 16.0 / 3.0;
/// `2 / 3 2^(3/2)`, the phase at the end.
const PHASE_AT_2: f64 = 2.0 / 3.0 * 2.0 * SQRT_2;

/// The Airy function.
#[inline(always)]
pub(super) fn airy<V: Float>(x: V) -> V {
    let (begin, end) = (V::constant(AIRY_ENDS.0), V::constant(AIRY_ENDS.1));
    let (is_below, is_beyond, mut value) = (x.lt(begin), x.gt(end), V::zero());
    if !(is_below | is_beyond).all() {
        value = chebyshev(&c::AIRY_MIDDLE, (x + V::one()) / V::constant(3.0));
    }
    if is_beyond.any() {
        value = V::select(is_beyond, airy_beyond(x), value);
    }
    if is_below.any() {
        // Elsewhere a number whose sine is computed as fast.
        value = V::select(is_below, airy_below(V::select(is_below, -x, -begin)), value);
    }
    value
}

/// The Airy function of more than 2, which falls exponentially.
#[inline(always)]
fn airy_beyond<V: Float>(x: V) -> V {
    let (z, amplitude) = (phase(x), V::constant(2.0 * PI.sqrt()) * x.sqrt().sqrt());
    (-z).exp() * chebyshev(&c::AIRY_FAR, V::constant(2.0 * PHASE_AT_2) / z - V::one()) / amplitude
}

/// The Airy function of `-x`, for `x` from 4 on, which oscillates.
#[inline(always)]
fn airy_below<V: Float>(x: V) -> V {
    let (z, z_low) = exact_phase(x);
    let t = V::constant(PHASE_AT_4) / z;
    let u = V::constant(2.0) * t * t - V::one();
    let (sin, cos) = sin_cos_shifted(z);
    let (sin, cos) = (sin + z_low * cos, cos - z_low * sin);
    // Sine and cosine of `z + pi / 4` are the cosine and the negative sine of `z - pi / 4`.
    let value = chebyshev(&c::AIRY_P, u) * cos + chebyshev(&c::AIRY_Q, u) / z * sin;
    value / (V::constant(PI.sqrt()) * x.sqrt().sqrt())
}
