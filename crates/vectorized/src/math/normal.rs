//! The normal distribution, and `gelu`, which is made of it.

use super::super::lanes::Float;
use super::erf::erfc;
use super::exp::{sixteenths, tiny_expm1};
use super::pieces::{by_pieces, in_pieces};
use super::{FloatElement, Pair, or_beyond, polynomial};

/// From here on the probability that a normal variable is above the argument rounds to 0 in f32.
const NORMAL_MAX: f64 = 14.7;

/// `e^(z^2 / 2)` times the probability that a normal variable is above `z`, from 0 on, in f32: a quotient of polynomials, of which
/// all coefficients are positive (as those of Hart et al., 1968).
#[inline(always)]
fn scaled_tail<V: Float>(z: V) -> V {
    let (dividend, divisor) = V::Element::NORMAL_TAIL;
    polynomial(z, dividend) / polynomial(z, divisor)
}

/// `left` where `x` is negative, else `1 - left`.
#[inline(always)]
fn mirrored<V: Float>(x: V, left: V) -> V {
    V::select(x.lt(V::zero()), left, V::one() - left)
}

/// `e^(-z^2 / 2) scaled` where `x` is negative, else 1 less that; of `z` in 0 to `NORMAL_MAX`, in f32.
#[inline(always)]
fn below<V: Float>(x: V, z: V, scaled: V) -> V {
    let exponent = Pair::product(z * V::constant(-0.5), z);
    let (n, index) = sixteenths(exponent.high, V::splat(V::Element::LOG2_E));
    let first = n.neg_mul_add(V::splat(V::Element::LN_2), exponent.high);
    let s = tiny_expm1(first + n.neg_mul_add(V::splat(V::Element::LN_2_LOW), exponent.low));
    let power = V::look_up(V::Element::POWERS, index);
    mirrored(x, (power.mul_add(s, power) * scaled).scale_floor(n))
}

/// The probability that a normal variable is below `x`, which does not cancel where `x` is negative.
#[inline(always)]
fn normal_cdf<V: Float>(x: V) -> V {
    V::constant(0.5) * erfc(x * V::constant(-std::f64::consts::FRAC_1_SQRT_2))
}

/// The density of the normal distribution.
#[inline(always)]
fn normal_density<V: Float>(x: V) -> V {
    V::constant(FRAC_1_SQRT_TAU) * (x * x * V::constant(-0.5)).exp()
}

/// `1 / sqrt(2 pi)`.
const FRAC_1_SQRT_TAU: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 / 2.0;

/// `x` times the probability that a normal variable is below `x`: `max(x, 0)` minus `|x|` times the probability that it is above `|x|`.
#[inline(always)]
pub(in super::super) fn gelu<V: Float>(x: V) -> V {
    let Some([table, _]) = V::Element::NORMAL_PIECES else {
        return x * normal_cdf(x);
    };
    let z = x.abs();
    let near = z.neg_mul_add(by_pieces(z, table), V::zero().max(x));
    or_beyond(
        in_pieces(z),
        near,
        #[inline(always)]
        || {
            let z = V::constant(NORMAL_MAX).min(z);
            x * below(x, z, scaled_tail(z))
        },
    )
}

/// The derivative of [`gelu`]: the probability that a normal variable is below `x`, plus `x` times the density.
#[inline(always)]
pub(in super::super) fn gelu_slope<V: Float>(x: V) -> V {
    let Some([_, table]) = V::Element::NORMAL_PIECES else {
        return normal_cdf(x) + x * normal_density(x);
    };
    let z = x.abs();
    let near = mirrored(x, by_pieces(z, table));
    or_beyond(
        in_pieces(z),
        near,
        #[inline(always)]
        || {
            let z = V::constant(NORMAL_MAX).min(z);
            below(x, z, z.neg_mul_add(V::constant(FRAC_1_SQRT_TAU), scaled_tail(z)))
        },
    )
}
