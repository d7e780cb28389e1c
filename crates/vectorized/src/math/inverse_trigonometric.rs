//! asin, acos and atan.

use super::super::lanes::Float;
use super::{FloatElement, Pair, polynomial};

/// pi/2.
#[inline(always)]
fn frac_pi_2<V: Float>() -> Pair<V> {
    Pair::new(V::splat(V::Element::FRAC_PI_2), V::splat(V::Element::FRAC_PI_2_LOW))
}

/// With `z` no more than tan(pi/8) in magnitude, `atan z` up to there, `pi/4 + atan z` for `z = (x - 1) / (x + 1)`
/// in the middle, and `pi/2 + atan z` for `z = -1 / x` beyond.
#[inline(always)]
pub(in super::super) fn atan<V: Float>(x: V) -> V {
    let (zero, one) = (V::zero(), V::one());
    let a = x.abs();
    let near = a.lt(V::constant(TAN_PI_8));
    let far = a.gt(V::constant(1.0 + std::f64::consts::SQRT_2));

    let (less, more) = (Pair::sum(a, -one), Pair::sum(a, one));
    let dividend = V::select(near, a, V::select(far, -one, less.high));
    let divisor = V::select(near, one, V::select(far, a, more.high));
    let middle = !(near | far);
    let dividend = Pair::new(dividend, V::select(middle, less.low, zero));
    let divisor = Pair::new(divisor, V::select(middle, more.low, zero));
    let quotient = dividend.divided_by(divisor, divisor.high.recip());
    // -1 / infinity is exact, but its remainder would be computed as NaN.
    let z = Pair::new(quotient.high, V::select(a.lt(V::constant(f64::INFINITY)), quotient.low, zero));

    let square = z.high * z.high;
    let arc = (square * z.high).mul_add(polynomial(square, V::Element::ATAN), z.low);
    let scaled_pi_2 = |scale: f64| {
        Pair::new(
            V::splat(V::Element::FRAC_PI_2) * V::constant(scale),
            V::splat(V::Element::FRAC_PI_2_LOW) * V::constant(scale),
        )
    };
    let (pi_4, pi_2) = (scaled_pi_2(0.5), scaled_pi_2(1.0));
    let base = V::select(near, zero, V::select(far, pi_2.high, pi_4.high));
    let base_low = V::select(near, zero, V::select(far, pi_2.low, pi_4.low));
    Pair::fast_sum(base, z.high).plus_low(base_low + arc).value().copysign(x)
}

const TAN_PI_8: f64 = std::f64::consts::SQRT_2 - 1.0;

/// The common part of asin and acos: `asin(root)` as a pair, where `root` is `|x|` up to 1/2 and `sqrt((1 - |x|) / 2)`
/// beyond, where `asin|x| = pi/2 - 2 asin(root)`.
#[inline(always)]
fn half_arc<V: Float>(magnitude: V, beyond: V::Mask) -> Pair<V> {
    let rest = (V::one() - magnitude) * V::constant(0.5);
    let root = rest.sqrt();
    let error = root.neg_mul_add(root, rest) / (root + root);
    let error = V::select(beyond & rest.gt(V::zero()), error, V::zero());
    let z = V::select(beyond, root, magnitude);
    let square = V::select(beyond, rest, magnitude * magnitude);
    Pair::new(z, (square * z).mul_add(polynomial(square, V::Element::ASIN), error))
}

#[inline(always)]
pub(in super::super) fn asin<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let beyond = magnitude.gt(V::constant(0.5));
    let arc = half_arc(magnitude, beyond);
    let (pi_2, two) = (frac_pi_2::<V>(), V::constant(2.0));
    let complement =
        Pair::fast_sum(pi_2.high, -(arc.high * two)).plus_low(arc.low.neg_mul_add(two, pi_2.low)).value();
    V::select(beyond, complement, arc.value()).copysign(x)
}

#[inline(always)]
pub(in super::super) fn acos<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let beyond = magnitude.gt(V::constant(0.5));
    let arc = half_arc(magnitude, beyond);
    let (pi_2, two) = (frac_pi_2::<V>(), V::constant(2.0));

    let negative = x.lt(V::zero());
    let low = V::select(negative, -arc.low, arc.low);
    let middle = Pair::fast_sum(pi_2.high, -arc.high.copysign(x)).plus_low(pi_2.low - low).value();

    let (pi, pi_low) = (V::splat(V::Element::PI), V::splat(V::Element::PI_LOW));
    let far = Pair::fast_sum(pi, -(arc.high * two)).plus_low(arc.low.neg_mul_add(two, pi_low)).value();
    let near = arc.value() * two;
    V::select(beyond, V::select(negative, far, near), middle)
}
