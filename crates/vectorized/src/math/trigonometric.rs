//! sin, cos and tan, of arguments of any size.

use super::super::lanes::{Bits, Float, Mask};
use super::circle::Circle;
use super::{FloatElement, Pair, or_beyond, polynomial};

/// `x = n * pi/2 + rest` with `|rest|` about pi/4 at most; the low bits of `quadrant` are those of `n`.
struct Reduced<V: Float> {
    quadrant: V::Bits,
    rest: Pair<V>,
}

impl<V: Float> Reduced<V> {
    #[inline(always)]
    fn of(x: V) -> Self {
        let round = V::splat(V::Element::ROUND);
        let shifted = x.mul_add(V::splat(V::Element::FRAC_2_PI), round);
        let quarter = [V::Element::FRAC_PI_2, V::Element::FRAC_PI_2_LOW, V::Element::FRAC_PI_2_LOWEST];
        let rest = less_steps(x, shifted - round, quarter);
        let large = !x.abs().le(V::splat(V::Element::REDUCTION_MAX));
        if large.any() {
            Self::far(x, shifted, rest, large)
        } else {
            Self { quadrant: shifted.to_bits(), rest }
        }
    }

    /// The lanes where `large` is true are reduced however large they are.
    #[inline(always)]
    fn far(x: V, shifted: V, rest: Pair<V>, large: V::Mask) -> Self {
        let [n, far_high, far_low] = x.reduce_large();
        let n = V::select(large, n + V::splat(V::Element::ROUND), shifted);
        let high = V::select(large, far_high, rest.high);
        let low = V::select(large, far_low, rest.low);
        Self { quadrant: n.to_bits(), rest: Pair::new(high, low) }
    }
}

/// `x` less `n` steps, each the sum of three parts: the first exactly, since what is left is less than 1; the second as an exact product
/// and an exact sum, since `first` is a multiple of the last digit of the product.
#[inline(always)]
pub(super) fn less_steps<V: Float>(x: V, n: V, [step, low, lowest]: [V::Element; 3]) -> Pair<V> {
    let first = n.neg_mul_add(V::splat(step), x);
    let product = Pair::product(-n, V::splat(low));
    let second = Pair::fast_sum(first, product.high);
    Pair::new(second.high, n.neg_mul_add(V::splat(lowest), second.low + product.low))
}

/// `sin(r)` for `|r| <= pi/4`, where `low` counts with its factor `cos(r)`.
#[inline(always)]
fn sin_reduced<V: Float>(r: Pair<V>, square: V) -> V {
    let low = (square * r.low).mul_add(V::constant(-0.5), r.low);
    r.high + (square * r.high).mul_add(polynomial(square, V::Element::SIN), low)
}

/// `cos(r)` for `|r| <= pi/4`: `1 - r^2 / 2` exactly, then the rest.
#[inline(always)]
fn cos_reduced<V: Float>(r: Pair<V>, square: V) -> V {
    let half = V::constant(-0.5) * square;
    let first = Pair::fast_sum(V::one(), half);
    let low = r.high.neg_mul_add(r.low, first.low);
    first.high + (square * square).mul_add(polynomial(square, V::Element::COS), low)
}

/// The sine of the reduced argument plus `quadrants` times pi/2.
#[inline(always)]
fn sin_shifted<V: Float>(x: Reduced<V>, quadrants: u64) -> V {
    let quadrant = x.quadrant + V::Bits::splat(quadrants);
    let square = x.rest.high * x.rest.high;
    let odd = V::bits_equal(quadrant & V::Bits::splat(1), V::Bits::splat(1));
    let value = V::select(odd, cos_reduced(x.rest, square), sin_reduced(x.rest, square));
    let sign =
        quadrant.shl(V::Element::SIGN_MASK.trailing_zeros() - 1) & V::Bits::splat(V::Element::SIGN_MASK);
    V::from_bits(value.to_bits() ^ sign)
}

/// The sine of `x` and `quadrants`, by points of the circle where those have it.
#[inline(always)]
fn by_circle<V: Float>(x: V, quadrants: u64, circle: &'static Circle<V::Element>) -> V {
    or_beyond(
        x.abs().le(V::splat(V::Element::REDUCTION_MAX)),
        circle.sin_after(x, quadrants),
        #[inline(always)]
        || sin_shifted(Reduced::of(x), quadrants),
    )
}

#[inline(always)]
pub(in super::super) fn sin<V: Float>(x: V) -> V {
    match V::Element::CIRCLE {
        Some(circle) => by_circle(x, 0, circle),
        None => V::select(x.eq(V::zero()), x, sin_shifted(Reduced::of(x), 0)),
    }
}

#[inline(always)]
pub(in super::super) fn cos<V: Float>(x: V) -> V {
    match V::Element::CIRCLE {
        Some(circle) => by_circle(x, 1, circle),
        None => sin_shifted(Reduced::of(x), 1),
    }
}

/// With `t = tan(r / 2)`: `2 t / (1 - t^2)`, or minus its reciprocal in odd quadrants.
#[inline(always)]
pub(in super::super) fn tan<V: Float>(x: V) -> V {
    let Reduced { quadrant, rest } = Reduced::of(x);
    let half = V::constant(0.5);
    let (high, low) = (rest.high * half, rest.low * half);
    let square = high * high;
    let low = (square * high).mul_add(polynomial(square, V::Element::TAN), square.mul_add(low, low));
    let t = Pair::fast_sum(high, low);

    let of_low = (t.high + t.high) * t.low;
    let product = Pair::product(t.high, t.high).plus_low(of_low);
    let even = Pair::new(t.high + t.high, t.low + t.low);
    let odd = Pair::fast_sum(V::one(), -product.high).plus_low(-product.low);

    let is_odd = V::bits_equal(quadrant & V::Bits::splat(1), V::Bits::splat(1));
    let choose = |yes: V, no: V| V::select(is_odd, yes, no);
    let dividend = Pair::new(choose(-odd.high, even.high), choose(-odd.low, even.low));
    let divisor = Pair::new(choose(even.high, odd.high), choose(even.low, odd.low));
    let quotient = dividend.divided_by(divisor, divisor.high.recip()).value();
    // Half of a denormal is not exact.
    V::select(x.abs().lt(V::splat(V::Element::MIN_NORMAL) * V::constant(4.0)), x, quotient)
}
