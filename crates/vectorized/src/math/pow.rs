//! Powers.

use super::super::lanes::{Float, Mask};
use super::exp::exp_of_pair;
use super::log::{is_middle, log_to_pair, log_to_pair_of_middle};
use super::{FloatElement, Pair, clamp};

/// `e^(logarithm * y)`.
#[inline(always)]
fn exp_of_product<V: Float>(logarithm: Pair<V>, y: V) -> V {
    let product = Pair::product(y, logarithm.high);
    let clamped = clamp(product.high, V::Element::EXP_RANGE);
    // Out of range, or where the logarithm is infinite, the low part is meaningless.
    let low = V::select(clamped.eq(product.high), y.mul_add(logarithm.low, product.low), V::zero());
    exp_of_pair(Pair::new(clamped, low))
}

/// As C's `pow` and IEEE 754.
#[inline(always)]
pub(in super::super) fn pow<V: Float>(x: V, y: V) -> V {
    if (is_middle(x) & y.abs().lt(V::constant(f64::INFINITY))).all() {
        exp_of_product(log_to_pair_of_middle(x), y)
    } else {
        pow_of_any(x, y)
    }
}

/// The magnitude, then sign and exceptions.
#[inline(always)]
fn pow_of_any<V: Float>(x: V, y: V) -> V {
    let (zero, one, infinity) = (V::zero(), V::one(), V::constant(f64::INFINITY));
    let size = x.abs();
    let logarithm = log_to_pair(size);
    let ordinary = size.gt(zero) & size.lt(infinity);
    let limit = V::select(size.eq(zero), -infinity, size);
    let magnitude = exp_of_product(Pair::new(V::select(ordinary, logarithm.high, limit), logarithm.low), y);

    let half = y * V::constant(0.5);
    let integral = y.trunc().eq(y);
    let odd = integral & half.trunc().ne(half);
    let signed = V::select(odd, magnitude.copysign(x), magnitude);
    let undefined = x.lt(zero) & x.gt(-infinity) & !integral;
    let result = V::select(undefined, V::constant(f64::NAN), signed);

    let even_at_one = size.eq(one) & y.abs().eq(infinity);
    V::select(y.eq(zero) | x.eq(one) | even_at_one, one, result)
}
