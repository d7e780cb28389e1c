//! Modified Bessel functions of the first kind, in f64.
//!
//! Abramowitz and Stegun: the ascending series (9.6.10), all of whose terms are positive, up to 20, and the asymptotic series (9.7.1)
//! beyond. Errors are at most 5 ulp.

use super::horner::{horner, horner_from};
use crate::vectorized::{Float, Mask};
use std::f64::consts::TAU;

/// Where the asymptotic series replaces the ascending one.
const FAR: f64 = 20.0;

/// Below, the first [`NEAR_TERMS`] of the ascending series suffice: at 5 the next term is below `2^-53` of the sum too.
const NEAR: f64 = 5.0;
const NEAR_TERMS: usize = 18;

/// The coefficients of the ascending series in `x^2 / 4`, `1 / (k! (k + order)!)`: at 20 the next term is below `2^-53` of the sum.
const fn ascending(order: usize) -> [f64; 36] {
    let (mut coefficients, mut divisor, mut k) = ([1.0; 36], 1.0, 1);
    while k < coefficients.len() {
        divisor *= (k * (k + order)) as f64;
        coefficients[k] = 1.0 / divisor;
        k += 1;
    }
    coefficients
}

/// The coefficients of the asymptotic series in `1 / x`, `(1 - m)(9 - m)(25 - m) .. / (k! 8^k)` with `m = 4 order^2`: at 20 the next term
/// is below `2^-53` of the sum.
const fn asymptotic(order: usize) -> [f64; 28] {
    let (mut coefficients, mut k) = ([1.0; 28], 1);
    while k < coefficients.len() {
        let odd = (2 * k - 1) as f64;
        coefficients[k] = coefficients[k - 1] * (odd * odd - (4 * order * order) as f64) / (8 * k) as f64;
        k += 1;
    }
    coefficients
}

/// The series of both orders.
const ASCENDING: [[f64; 36]; 2] = [ascending(0), ascending(1)];
const ASYMPTOTIC: [[f64; 28]; 2] = [asymptotic(0), asymptotic(1)];

/// The ascending series of `x`, up to 20.
#[inline(always)]
fn ascending_series<V: Float, const ORDER: usize>(x: V) -> V {
    let (half, is_near) = (x * V::constant(0.5), x.lt(V::constant(NEAR)));
    let (square, mut rest) = (half * half, V::zero());
    if !is_near.all() {
        rest = V::select(is_near, rest, horner(square, &ASCENDING[ORDER][NEAR_TERMS..]));
    }
    let sum = horner_from(rest, square, &ASCENDING[ORDER][..NEAR_TERMS]);
    if ORDER == 1 { sum * half } else { sum }
}

/// The function of a magnitude; times `e^-x` if `SCALED`.
#[inline(always)]
fn of_magnitude<V: Float, const ORDER: usize, const SCALED: bool>(x: V) -> V {
    let (far, mut near) = (x.ge(V::constant(FAR)), ascending_series::<V, ORDER>(x));
    if SCALED {
        near = near * (-x).exp();
    }
    if !far.any() {
        return near;
    }
    let mut beyond = horner(x.recip(), &ASYMPTOTIC[ORDER]) / (V::constant(TAU) * x).sqrt();
    if !SCALED {
        // Twice, since e^x overflows before the result does.
        let power = (x * V::constant(0.5)).exp();
        beyond = power * beyond * power;
    }
    let limit = V::constant(if SCALED { 0.0 } else { f64::INFINITY });
    V::select(far, V::select(x.eq(V::constant(f64::INFINITY)), limit, beyond), near)
}

/// Order 0.
#[inline(always)]
pub(super) fn i0<V: Float>(x: V) -> V {
    of_magnitude::<V, 0, false>(x.abs())
}

/// Order 0, times `e^-|x|`.
#[inline(always)]
pub(super) fn i0e<V: Float>(x: V) -> V {
    of_magnitude::<V, 0, true>(x.abs())
}

/// Order 1.
#[inline(always)]
pub(super) fn i1<V: Float>(x: V) -> V {
    of_magnitude::<V, 1, false>(x.abs()).copysign(x)
}

/// Order 1, times `e^-|x|`.
#[inline(always)]
pub(super) fn i1e<V: Float>(x: V) -> V {
    of_magnitude::<V, 1, true>(x.abs()).copysign(x)
}
