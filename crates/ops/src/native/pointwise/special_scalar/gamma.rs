//! The logarithm of the gamma function, and its derivative, in f64.
//!
//! Abramowitz and Stegun, "Handbook of Mathematical Functions": the series about 2 (6.1.33), Stirling's (6.1.40 and 6.3.18),
//! recurrence (6.1.15 and 6.3.5) and reflection (6.1.17 and 6.3.7). Errors are at most 5 ulp of the maximum of result and 1.

use super::horner::{horner, of_number};
use crate::vectorized::{Float, Mask};
use std::f64::consts::{FRAC_1_PI, PI};

/// From here on Stirling's series are precise.
const LARGE: f64 = 10.0;
/// `(ln(2 pi) - 1) / 2`.
const STIRLING_CONSTANT: f64 = 0.418_938_533_204_672_7;

/// `sin(pi x)` and `cos(pi x)` up to a common sign; the difference from the nearest integer is exact.
#[inline(always)]
fn sin_cos_pi<V: Float>(x: V) -> (V, V) {
    let angle = V::constant(PI) * (x - x.round());
    (angle.sin(), angle.cos())
}

/// The logarithm of the absolute value of the gamma function; infinite at 0 and at negative integers.
#[inline(always)]
pub(super) fn ln_gamma<V: Float>(x: V) -> V {
    let (size, infinity, negative) = (x.abs(), V::constant(f64::INFINITY), x.lt(V::zero()));
    let mut result = ln_gamma_of_positive(size);
    if negative.any() {
        // Two logarithms, since the product of both arguments may underflow.
        let sine = (sin_cos_pi(x).0.abs() * V::constant(FRAC_1_PI)).log();
        result = V::select(negative, -sine - size.log() - result, result);
    }
    let is_pole = x.le(V::zero()) & x.eq(x.trunc());
    V::select(is_pole | size.eq(infinity), infinity, result)
}

#[inline(always)]
fn ln_gamma_of_positive<V: Float>(x: V) -> V {
    let (one, large) = (V::one(), x.ge(V::constant(LARGE)));
    // By recurrence down to a number in 3/2 to 5/2.
    let (mut z, mut product) = (x, one);
    for _ in 0..LARGE as usize - 2 {
        let is_above = z.ge(V::constant(2.5)) & !large;
        z = V::select(is_above, z - one, z);
        product = V::select(is_above, product * z, product);
    }
    // By recurrence up to a number of that range, which divides.
    let (below, tiny) = (x.lt(V::constant(1.5)), x.lt(V::constant(0.5)));
    let divisor = V::select(tiny, x * (x + one), x);
    let log = V::select(large, x, V::select(below, divisor, product)).log();
    let t = V::select(tiny, x, V::select(below, x - one, z - V::constant(2.0)));
    let near = V::select(below, -log, log) + t * horner(t, &SERIES);
    if !large.any() {
        return near;
    }
    let far = (x - V::constant(0.5)) * (log - one) + (V::constant(STIRLING_CONSTANT) + remainder(x));
    V::select(large, far, near)
}

/// The remainder of Stirling's formula for `ln(gamma(x))`, for `x` from [`LARGE`] on.
#[inline(always)]
pub(super) fn remainder<V: Float>(x: V) -> V {
    horner((x * x).recip(), &STIRLING) / x
}

/// The derivative of the logarithm of the gamma function.
#[inline(always)]
pub(super) fn digamma<V: Float>(x: V) -> V {
    let negative = x.lt(V::zero());
    let mut result = digamma_of_positive(V::select(negative, V::one() - x, x));
    if negative.any() {
        let (sin, cos) = sin_cos_pi(x);
        let reflected = result - V::constant(PI) * cos / sin;
        let reflected = V::select(x.eq(x.trunc()), V::constant(f64::NAN), reflected);
        result = V::select(negative, reflected, result);
    }
    V::select(x.eq(V::zero()), V::constant(f64::INFINITY).copysign(-x), result)
}

#[inline(always)]
fn digamma_of_positive<V: Float>(x: V) -> V {
    // Few fractions, of which the first is subtracted last: the logarithm cancels most of their sum near the root.
    let mut z = x;
    let (first, second, third) = (reciprocals(&mut z, 1), reciprocals(&mut z, 4), reciprocals(&mut z, 5));
    let y = (z * z).recip();
    let rest = V::constant(0.5) / z + y * horner(y, &DIGAMMA) + third + second;
    z.log() - rest - first
}

/// The sum of `1 / z` for `z`, `z + 1`, .. below [`LARGE`], of at most `count` terms, as one fraction; `z` is moved behind them.
#[inline(always)]
fn reciprocals<V: Float>(z: &mut V, count: usize) -> V {
    let (mut dividend, mut divisor) = (V::zero(), V::one());
    for _ in 0..count {
        let is_small = z.lt(V::constant(LARGE));
        dividend = V::select(is_small, dividend.mul_add(*z, divisor), dividend);
        divisor = V::select(is_small, divisor * *z, divisor);
        *z = V::select(is_small, *z + V::one(), *z);
    }
    dividend / divisor
}

/// The derivative of [`digamma`].
#[inline(always)]
pub(super) fn trigamma<V: Float>(x: V) -> V {
    let negative = x.lt(V::zero());
    let result = trigamma_of_positive(V::select(negative, V::one() - x, x));
    if !negative.any() {
        return result;
    }
    let ratio = V::constant(PI) / sin_cos_pi(x).0;
    V::select(negative, ratio * ratio - result, result)
}

#[inline(always)]
fn trigamma_of_positive<V: Float>(x: V) -> V {
    // The sum of 1 / z^2 for z = x, x + 1, .. below `LARGE`, as a fraction.
    let (mut z, mut dividend, mut divisor) = (x, V::zero(), V::one());
    for _ in 0..LARGE as usize {
        let (is_small, square) = (z.lt(V::constant(LARGE)), z * z);
        dividend = V::select(is_small, dividend.mul_add(square, divisor), dividend);
        divisor = V::select(is_small, divisor * square, divisor);
        z = V::select(is_small, z + V::one(), z);
    }
    let inverse = z.recip();
    let y = inverse * inverse;
    dividend / divisor + (inverse + y * horner(y, &TRIGAMMA).mul_add(inverse, V::constant(0.5)))
}

/// [`ln_gamma`] of a number.
pub(super) fn ln_gamma_of(x: f64) -> f64 {
    of_number(ln_gamma, x)
}

/// The Bernoulli numbers `B2`, `B4`, .. each divided by the `order` largest factors of `(2 k)!`, of which the first is `2 k`.
const fn bernoulli_quotients(order: usize) -> [f64; 8] {
    let mut quotients = [0.0; 8];
    let mut i = 0;
    while i < quotients.len() {
        let k = 2.0 * (i + 1) as f64;
        quotients[i] = BERNOULLI[i] / [1.0, k, k * (k - 1.0)][order];
        i += 1;
    }
    quotients
}

/// The coefficients of Stirling's formula for `ln(gamma(x))`, in `1 / x^2`.
const STIRLING: [f64; 8] = bernoulli_quotients(2);
/// The coefficients of the asymptotic series of `digamma(x)`, in `1 / x^2`.
const DIGAMMA: [f64; 8] = bernoulli_quotients(1);
/// Those of `trigamma(x)`.
const TRIGAMMA: [f64; 8] = bernoulli_quotients(0);

/// The Bernoulli numbers of even order, from the second on.
pub(super) const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
    854513.0 / 138.0,
    -236364091.0 / 2730.0,
];

/// The coefficients of `ln(gamma(2 + t)) / t`: `1 - gamma`, then `(-1)^k (zeta(k) - 1) / k` for k from 2.
const SERIES: [f64; 29] = [
    0.42278433509846713,
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357939,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.050721277567069e-05,
    -9.439488275268397e-06,
    4.374866789907488e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554665e-07,
    -1.0043224823968099e-07,
    4.7698101693639804e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
    1.330476437424449e-10,
    -6.4229645638381e-11,
];
