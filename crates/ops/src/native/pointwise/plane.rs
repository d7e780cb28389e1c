//! Angles and lengths in the plane, on vectors.

use crate::vectorized::Float;

/// `atan2(y, x)`, with the results of C at zeros and infinities. The rounding error of the quotient `t` is corrected to first order by
/// `atan'(t) = 1 / (1 + t^2)`, and pi is the sum of two numbers.
#[inline(always)]
pub(super) fn angle<V: Float>(y: V, x: V) -> V {
    let (zero, one, infinity) = (V::zero(), V::one(), V::constant(f64::INFINITY));
    let (height, width) = (y.abs(), x.abs());
    let steep = height.gt(width);
    let (above, below) = (V::select(steep, width, height), V::select(steep, height, width));
    let quotient = above / below;
    let t = V::select(below.eq(zero), zero, V::select(above.eq(infinity), one, quotient));
    let correction = t.neg_mul_add(below, above) / below / t.mul_add(t, one);
    let small = t.atan() + V::select(correction.is_nan(), zero, correction);

    let pi = std::f64::consts::PI;
    let low = |high: f64| {
        if size_of::<V::Element>() == 4 { high - f64::from(high as f32) } else { high / pi * PI_LOW }
    };
    let from = |high: f64, angle: V| V::constant(high) - (angle - V::constant(low(high)));
    let acute = V::select(steep, from(pi / 2.0, small), small);
    let left = one.copysign(x).lt(zero);
    let result = V::select(left, from(pi, acute), acute).copysign(y);
    V::select(y.ne(y), y, V::select(x.ne(x), x, result))
}

/// pi - f64(pi).
const PI_LOW: f64 = 1.224_646_799_147_353_2e-16;

/// `sqrt(a^2 + b^2)`: both are scaled by a power of two if a square would overflow or underflow. Infinite if either is, even if the
/// other is NaN, as in C.
#[inline(always)]
pub(super) fn length<V: Float>(a: V, b: V) -> V {
    let (a, b) = (a.abs(), b.abs());
    let infinity = V::constant(f64::INFINITY);
    let (long, short) = (V::select(a.lt(b), b, a), V::select(a.lt(b), a, b));
    let step = if size_of::<V::Element>() == 4 { 80 } else { 600 };
    let (big, small) = (V::constant(2f64.powi(step / 2 + 20)), V::constant(2f64.powi(-step / 2 - 10)));
    let up = V::constant(2f64.powi(step));
    let down = V::constant(2f64.powi(-step));
    let factor = V::select(long.gt(big), down, V::select(long.lt(small), up, V::one()));
    let back = V::select(long.gt(big), up, V::select(long.lt(small), down, V::one()));
    let (long, short) = (long * factor, short * factor);
    let root = long.mul_add(long, short * short).sqrt() * back;
    V::select(a.eq(infinity) | b.eq(infinity), infinity, root)
}
