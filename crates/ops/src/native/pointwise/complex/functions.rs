//! Quotients, exponentials, logarithms, powers and trigonometric functions of complex vectors, with the special values of C99, Annex G.

use crate::native::pointwise::plane::{angle, length};
use crate::vectorized::{Float, FloatElement, Vector};
use flambeau_core::Complex;
use std::f64::consts::{LN_2, LN_10};

/// By the size of the element: a number for f32, and one for f64.
#[inline(always)]
pub(super) fn by_type<V: Float>(of_f32: f64, of_f64: f64) -> V {
    V::constant(if size_of::<V::Element>() == 4 { of_f32 } else { of_f64 })
}

#[inline(always)]
pub(super) fn infinity<V: Float>() -> V {
    V::constant(f64::INFINITY)
}

#[inline(always)]
pub(in crate::native::pointwise) fn is_infinite<V: Float>(x: V) -> V::Mask {
    x.abs().eq(infinity())
}

/// Infinite or NaN; then its product with 0 is NaN.
#[inline(always)]
fn is_non_finite<V: Float>(x: V) -> V::Mask {
    (x * V::zero()).ne(V::zero())
}

/// The product with a real number.
#[inline(always)]
fn times<V: Float>(factor: V, z: Complex<V>) -> Complex<V> {
    Complex::new(factor * z.re, factor * z.im)
}

/// `i z`.
#[inline(always)]
pub(super) fn times_i<V: Float>(z: Complex<V>) -> Complex<V> {
    Complex::new(-z.im, z.re)
}

/// `-i z`.
#[inline(always)]
pub(super) fn over_i<V: Float>(z: Complex<V>) -> Complex<V> {
    Complex::new(z.im, -z.re)
}

/// `grad * conj(derivative)`, but `grad` where that is 0: the gradient of a function of a complex variable.
#[inline(always)]
pub(in crate::native::pointwise) fn chain_rule<V: Float>(grad: Complex<V>, slope: Complex<V>) -> Complex<V> {
    Vector::select(is_zero(grad), grad, grad * slope.conj())
}

/// `grad / conj(divisor)`, but `grad` where that is 0.
#[inline(always)]
pub(in crate::native::pointwise) fn chain_div<V: Float>(grad: Complex<V>, divisor: Complex<V>) -> Complex<V> {
    Vector::select(is_zero(grad), grad, quotient(grad, divisor.conj()))
}

#[inline(always)]
fn is_zero<V: Float>(z: Complex<V>) -> V::Mask {
    z.re.eq(V::zero()) & z.im.eq(V::zero())
}

/// `a / b`. Both are scaled by a power of two that makes `b` about 1/4, so that no square over- or underflows. A zero divides the parts;
/// a finite number divided by an infinite one is 0.
#[inline(always)]
pub(in crate::native::pointwise) fn quotient<V: Float>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    let (zero, one) = (V::zero(), V::one());
    // Before the largest part, which does not show that the other one is NaN.
    let by_zero = is_zero(b);
    let largest = b.re.abs().max(b.im.abs());
    let normal = largest.max(V::splat(V::Element::MIN_NORMAL));
    let normal = V::select(is_non_finite(normal), one, normal);
    let scale = -(normal.exponent() + V::constant(2.0));
    let (a, b) = (scaled(a, scale), scaled(b, scale));
    let (ends_re, ends_im) = (is_infinite(b.re), is_infinite(b.im));
    // Of an infinite divisor only the signs of infinite parts count, and the quotient is multiplied by 0.
    let end = |ends: V::Mask, part: V| V::select(ends, one.copysign(part), part * zero);
    let ends = ends_re | ends_im;
    let b =
        Complex::new(V::select(ends, end(ends_re, b.re), b.re), V::select(ends, end(ends_im, b.im), b.im));
    let norm = b.re * b.re + b.im * b.im;
    let re = (a.re * b.re + a.im * b.im) / norm;
    let im = (a.im * b.re - a.re * b.im) / norm;
    let (re, im) = (V::select(ends, re * zero, re), V::select(ends, im * zero, im));
    Complex::new(V::select(by_zero, a.re / zero, re), V::select(by_zero, a.im / zero, im))
}

/// `z 2^n`, where a part of `z` that is not finite stays as it is.
#[inline(always)]
fn scaled<V: Float>(z: Complex<V>, n: V) -> Complex<V> {
    #[inline(always)]
    fn part<V: Float>(x: V, n: V) -> V {
        V::select(is_non_finite(x), x, x.scale(n))
    }
    Complex::new(part(z.re, n), part(z.im, n))
}

/// `1 / z`.
#[inline(always)]
pub(in crate::native::pointwise) fn reciprocal<V: Float>(z: Complex<V>) -> Complex<V> {
    quotient(Complex::new(V::one(), V::zero()), z)
}

/// The square root with a real part of at least 0: the larger of its parts is `sqrt((|z.re| + |z|) / 2)`.
#[inline(always)]
pub(in crate::native::pointwise) fn sqrt<V: Float>(z: Complex<V>) -> Complex<V> {
    let (zero, one, half) = (V::zero(), V::one(), V::constant(0.5));
    let (width, height) = (z.re.abs(), z.im.abs());
    let largest = width.max(height);
    let (is_big, is_small) = (largest.gt(by_type(1e37, 1e307)), largest.lt(by_type(1e-30, 1e-290)));
    let by_size = |big: f64, small: V| V::select(is_big, V::constant(big), V::select(is_small, small, one));
    let factor = by_size(2f64.powi(-4), by_type(2f64.powi(60), 2f64.powi(400)));
    let back = by_size(4.0, by_type(2f64.powi(-30), 2f64.powi(-200)));
    let (x, y) = (width * factor, height * factor);
    let root = ((x + length(x, y)) * half).sqrt();
    let other = V::select(root.eq(zero), zero, y / (root + root)) * back;
    let root = root * back;
    let left = one.copysign(z.re).lt(zero);
    let (re, im) = (V::select(left, other, root), V::select(left, root, other));
    let re = V::select(is_infinite(z.im), infinity(), re);
    Complex::new(re, V::select(is_infinite(z.im), z.im, im.copysign(z.im)))
}

/// `1 / sqrt(z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn rsqrt<V: Float>(z: Complex<V>) -> Complex<V> {
    reciprocal(sqrt(z))
}

/// `e^z = e^x (cos y + i sin y)`. Where `e^x` would overflow, a part of `x` is applied as a power of two, at the end.
#[inline(always)]
pub(in crate::native::pointwise) fn exp<V: Float>(z: Complex<V>) -> Complex<V> {
    let zero = V::zero();
    let (x, y) = (z.re, z.im);
    let doublings: V = by_type(128.0, 1024.0);
    let reduced =
        (x - doublings * V::splat(V::Element::LN_2_SHORT)) - doublings * V::splat(V::Element::LN_2_SHORT_LOW);
    let is_big = x.gt(by_type(88.0, 709.0)) & x.lt(infinity());
    let size = V::select(is_big, reduced, x).exp();
    let scaled = |part: V| V::select(is_big, part.scale(doublings), part);
    let (re, im) = (scaled(size * y.cos()), scaled(size * y.sin()));
    // Angles without sine and cosine matter at the ends of the real axis only.
    let no_angle = is_non_finite(y);
    let at_start = no_angle & x.eq(-infinity::<V>());
    let re = V::select(at_start, zero, V::select(no_angle & x.eq(infinity()), x, re));
    let im = V::select(y.eq(zero), y, V::select(at_start, zero, im));
    Complex::new(re, im)
}

/// `2^z`.
#[inline(always)]
pub(in crate::native::pointwise) fn exp2<V: Float>(z: Complex<V>) -> Complex<V> {
    exp(times(V::constant(LN_2), z))
}

/// `e^z - 1 = expm1(x) cos y - 2 sin(y/2)^2 + i e^x sin y`, without cancellation near 0.
#[inline(always)]
pub(in crate::native::pointwise) fn expm1<V: Float>(z: Complex<V>) -> Complex<V> {
    let half_sine = (z.im * V::constant(0.5)).sin();
    let near = z.re.expm1() * z.im.cos() - V::constant(2.0) * half_sine * half_sine;
    let far = exp(z);
    let is_near = z.re.abs().lt(V::one());
    Complex::new(V::select(is_near, near, far.re - V::one()), far.im)
}

/// `log |z|`. The larger part is scaled to 2/3 to 4/3 by a power of two; the square of the absolute value less 1 is then computed in double
/// words, so that nothing is lost where the logarithm is near 0.
#[inline(always)]
fn log_abs<V: Float>(z: Complex<V>) -> V {
    let (zero, one) = (V::zero(), V::one());
    let (width, height) = (z.re.abs(), z.im.abs());
    let (long, short) = (width.max(height), V::select(width.lt(height), width, height));
    let normal = long.max(V::splat(V::Element::MIN_NORMAL)).min(by_type(2f64.powi(127), 2f64.powi(1023)));
    let exponent = (normal * V::constant(0.75)).exponent() + one;
    let (a, b) = (long.scale(-exponent), short.scale(-exponent));
    // (a - 1) (a + 1) + b^2, where a - 1 is exact.
    let (below, above) = (a - one, a + one);
    let above_low = (a - (above - one)) + (one - (above - (above - one)));
    let product = below * above;
    let product_low = below.mul_add(above, -product) + below * above_low;
    let square = b * b;
    let square_low = b.mul_add(b, -square);
    let sum = product + square;
    let rest = sum - product;
    let sum_low = (product - (sum - rest)) + (square - rest);
    let excess = sum + (sum_low + product_low + square_low);
    let scaled = V::constant(0.5) * excess.log1p();
    let log = exponent.mul_add(
        V::splat(V::Element::LN_2_SHORT),
        exponent.mul_add(V::splat(V::Element::LN_2_SHORT_LOW), scaled),
    );
    let log = V::select(long.eq(zero), -infinity::<V>(), log);
    let log = V::select(z.re.is_nan(), z.re, V::select(z.im.is_nan(), z.im, log));
    V::select(is_infinite(z.re) | is_infinite(z.im), infinity(), log)
}

/// `log |z| + i angle`.
#[inline(always)]
pub(in crate::native::pointwise) fn log<V: Float>(z: Complex<V>) -> Complex<V> {
    Complex::new(log_abs(z), angle(z.im, z.re))
}

/// The logarithm to base 2.
#[inline(always)]
pub(in crate::native::pointwise) fn log2<V: Float>(z: Complex<V>) -> Complex<V> {
    times(V::constant(1.0 / LN_2), log(z))
}

/// The logarithm to base 10.
#[inline(always)]
pub(in crate::native::pointwise) fn log10<V: Float>(z: Complex<V>) -> Complex<V> {
    times(V::constant(1.0 / LN_10), log(z))
}

/// `log(1 + z)`, without cancellation near 0: there the real part is `log1p(x (x + 2) + y^2) / 2`.
#[inline(always)]
pub(in crate::native::pointwise) fn log1p<V: Float>(z: Complex<V>) -> Complex<V> {
    let sum = Complex::new(z.re + V::one(), z.im);
    let excess = z.re.mul_add(z.re + V::constant(2.0), z.im * z.im);
    let near = V::constant(0.5) * excess.log1p();
    let half = V::constant(0.5);
    let is_near = z.re.abs().lt(half) & z.im.abs().lt(half);
    Complex::new(V::select(is_near, near, log_abs(sum)), angle(z.im, sum.re))
}

/// `z^w = e^(w log z)`; 1 where `w` is 0, and 0 where `z` is 0 and the real part of `w` is positive.
#[inline(always)]
pub(in crate::native::pointwise) fn pow<V: Float>(z: Complex<V>, w: Complex<V>) -> Complex<V> {
    let (zero, one) = (V::zero(), V::one());
    let power = exp(w * log(z));
    let nothing = Complex::new(zero, zero);
    let power = Vector::select(is_zero(z) & w.re.gt(zero), nothing, power);
    Vector::select(is_zero(w), Complex::new(one, zero), power)
}

/// `1 / (1 + e^-z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn sigmoid<V: Float>(z: Complex<V>) -> Complex<V> {
    let power = exp(-z);
    reciprocal(Complex::new(V::one() + power.re, power.im))
}

/// `sinh x cos y + i cosh x sin y`.
#[inline(always)]
pub(in crate::native::pointwise) fn sinh<V: Float>(z: Complex<V>) -> Complex<V> {
    let (x, y) = (z.re, z.im);
    let (re, im) = (x.sinh() * y.cos(), x.cosh() * y.sin());
    let re = V::select(is_non_finite(y) & (x.eq(V::zero()) | is_infinite(x)), x, re);
    Complex::new(re, V::select(y.eq(V::zero()), y, im))
}

/// `cosh x cos y + i sinh x sin y`.
#[inline(always)]
pub(in crate::native::pointwise) fn cosh<V: Float>(z: Complex<V>) -> Complex<V> {
    let (x, y) = (z.re, z.im);
    let (re, im) = (x.cosh() * y.cos(), x.sinh() * y.sin());
    let re = V::select(is_non_finite(y) & is_infinite(x), infinity(), re);
    let is_real = x.eq(V::zero()) | y.eq(V::zero());
    let zero = V::zero().copysign(x) * V::one().copysign(y);
    Complex::new(re, V::select(is_real, zero, im))
}

/// `(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y)`: a sum without cancellation. Where it would overflow the real part is 1 or -1.
#[inline(always)]
pub(in crate::native::pointwise) fn tanh<V: Float>(z: Complex<V>) -> Complex<V> {
    let (zero, one) = (V::zero(), V::one());
    let (x, y) = (z.re, z.im);
    let end: V = by_type(88.0, 709.0);
    let inside = V::select(x.gt(end), end, V::select(x.lt(-end), -end, x));
    let (sinh, cosh, sin, cos) = (inside.sinh(), inside.cosh(), y.sin(), y.cos());
    let far = x.abs().gt(by_type(20.0, 30.0));
    let norm = sinh * sinh + cos * cos;
    let re = V::select(far, one.copysign(x), sinh * cosh / norm);
    let im = V::select(far, (sin / sinh.abs()) * (cos / sinh.abs()), sin * cos / norm);
    let im = V::select(is_infinite(x) & is_non_finite(y), zero.copysign(y), im);
    let im = V::select(y.eq(zero), y, im);
    // An angle without sine and cosine: not a number beside a real part that counts.
    let lost = is_non_finite(y) & !is_infinite(x) & x.ne(zero);
    let re = V::select(lost, y * V::zero(), re);
    Complex::new(V::select(is_non_finite(y) & x.eq(zero), x, re), im)
}

/// `-i sinh(i z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn sin<V: Float>(z: Complex<V>) -> Complex<V> {
    over_i(sinh(times_i(z)))
}

/// `cosh(i z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn cos<V: Float>(z: Complex<V>) -> Complex<V> {
    cosh(times_i(z))
}

/// `-i tanh(i z)`.
#[inline(always)]
pub(in crate::native::pointwise) fn tan<V: Float>(z: Complex<V>) -> Complex<V> {
    over_i(tanh(times_i(z)))
}
