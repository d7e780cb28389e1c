//! Inverse trigonometric and hyperbolic functions of complex vectors, after Hull, Fairgrieve, Tang: *Implementing the complex arcsine and
//! arccosine functions using exception handling*, 1997.

use super::functions::{by_type, is_infinite, log, over_i, times_i};
use crate::native::pointwise::plane::{angle, length};
use crate::vectorized::Float;
use flambeau_core::Complex;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// The absolute value of the imaginary part of `asin z` and of `acos z`, and the legs whose angle is the real part of either: the real part
/// of `z`, and `sqrt((a + x) (a - x))` where `x` is its absolute value and `a` the mean distance of `z` from 1 and -1.
#[inline(always)]
fn arc<V: Float>(z: Complex<V>) -> (V, V) {
    let (zero, one, half) = (V::zero(), V::one(), V::constant(0.5));
    let (x, y) = (z.re.abs(), z.im.abs());
    let (right, left) = (length(x + one, y), length(x - one, y));
    let mean = half * (right + left);
    let square = y * y;
    // right - (x + 1) and left - |x - 1|, each as a quotient without cancellation.
    let from_right = square / (right + (x + one));
    let is_inside = x.lt(one);
    let from_left = square / (left + (x - one).abs());
    let from_left = V::select(left.eq(zero), zero, from_left);
    let mean_less_one = half * (from_right + V::select(is_inside, from_left, left + (x - one)));
    let mean_less_x = half * (from_right + V::select(x.gt(one), from_left, left + (one - x)));
    let near = (mean_less_one + (mean_less_one * (mean + one)).sqrt()).log1p();
    // So small a square underflows.
    let tiny = y.lt(by_type(2f64.powi(-40), 2f64.powi(-200))) & is_inside;
    let near = V::select(tiny, y / ((one - x) * (one + x)).sqrt(), near);
    let far = log(Complex::new(x, y)).re + V::constant(LN_2);
    // With a real part of NaN that holds at infinity only.
    let is_known = x.eq(x) | is_infinite(y);
    let is_far = x.gt(by_type(1e9, 1e18)) | (y.gt(by_type(1e9, 1e18)) & is_known);
    (V::select(is_far, far, near), V::select(is_far, y, ((mean + x) * mean_less_x).sqrt()))
}

/// The angle whose sine is `z`.
#[inline(always)]
pub(in crate::native::pointwise) fn asin<V: Float>(z: Complex<V>) -> Complex<V> {
    let (height, leg) = arc(z);
    let re = V::select(z.re.eq(V::zero()), z.re, angle(z.re, leg));
    Complex::new(re, height.copysign(z.im))
}

/// The angle whose cosine is `z`.
#[inline(always)]
pub(in crate::native::pointwise) fn acos<V: Float>(z: Complex<V>) -> Complex<V> {
    let (height, leg) = arc(z);
    let re = V::select(z.re.eq(V::zero()), V::constant(FRAC_PI_2), angle(leg, z.re));
    Complex::new(re, -height.copysign(z.im))
}

/// The number whose hyperbolic sine is `z`: `-i asin(i z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn asinh<V: Float>(z: Complex<V>) -> Complex<V> {
    over_i(asin(times_i(z)))
}

/// The number whose hyperbolic cosine is `z`: `acos z` rotated so that its real part is not negative.
#[inline(always)]
pub(in crate::native::pointwise) fn acosh<V: Float>(z: Complex<V>) -> Complex<V> {
    let rotated = acos(z);
    Complex::new(rotated.im.abs(), rotated.re.copysign(z.im))
}

/// The number whose hyperbolic tangent is `z`: `log1p(4 x / ((1 - x)^2 + y^2)) / 4 + i angle(2 y, (1 - x) (1 + x) - y^2) / 2`.
#[inline(always)]
pub(in crate::native::pointwise) fn atanh<V: Float>(z: Complex<V>) -> Complex<V> {
    let (zero, one, half) = (V::zero(), V::one(), V::constant(0.5));
    let (x, y) = (z.re.abs(), z.im.abs());
    let square = y * y;
    let rest = one - x;
    let near = V::constant(0.25) * (V::constant(4.0) * x / (rest * rest + square)).log1p();
    // Beside 1 the square underflows.
    let beside = x.eq(one) & y.lt(by_type(2f64.powi(-40), 2f64.powi(-200)));
    let near = V::select(beside, half * (V::constant(LN_2) - y.log()), near);
    let rotation = half * angle(y + y, rest * (one + x) - square);
    // Far from 0 it is 1 / z, and a right angle.
    // With a real part of NaN that holds at infinity only.
    let is_known = x.eq(x) | is_infinite(y);
    let is_far = x.gt(by_type(1e9, 1e18)) | (y.gt(by_type(1e9, 1e18)) & is_known);
    let (long, short) = (x.max(y), V::select(x.lt(y), x, y));
    let ratio = short / long;
    let far = (V::select(x.lt(y), ratio, one) / long) / (one + ratio * ratio);
    let far = V::select(is_infinite(x) | is_infinite(y), zero, far);
    let is_lost = is_far & z.im.is_nan();
    let re = V::select(is_far, far, V::select(x.eq(zero), zero, near));
    let im = V::select(is_lost, z.im, V::select(is_far, V::constant(FRAC_PI_2), rotation));
    let im = V::select(z.im.eq(zero) & x.lt(one), zero, im);
    Complex::new(re.copysign(z.re), im.copysign(z.im))
}

/// The angle whose tangent is `z`: `-i atanh(i z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn atan<V: Float>(z: Complex<V>) -> Complex<V> {
    over_i(atanh(times_i(z)))
}
