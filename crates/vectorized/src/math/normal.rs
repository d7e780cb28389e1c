//! The normal distribution, and `gelu`, which is made of it.

use super::super::lanes::{Float, Mask};
use super::erf::erfc;
use super::exp::{sixteenths, tiny_expm1};
use super::{FloatElement, Pair, polynomial};

/// Where the probability of more is nothing in f32.
const NORMAL_MAX: f64 = 14.7;

/// Where the tables end.
const TABLE_END: f64 = 63.0 / 16.0;

/// `1.5 * 2^20`: adding it to an f32 rounds to a multiple of 1/8, and the low bits hold how many.
const ROUND_EIGHTH: f64 = 1_572_864.0;

/// A function by a table of `normal_tables`, of `z` in 0 to `TABLE_END`.
#[inline(always)]
fn by_table<V: Float>(z: V, table: &'static [[V::Element; 32]; 5]) -> V {
    let shifted = z + V::constant(ROUND_EIGHTH);
    let distance = z - (shifted - V::constant(ROUND_EIGHTH));
    let index = shifted.to_bits();
    let [first @ .., last] = table;
    first.iter().rev().fold(V::look_up_32(last, index), |sum, coefficients| {
        sum.mul_add(distance, V::look_up_32(coefficients, index))
    })
}

/// `e^(-z^2 / 2)`, but for the second factor, `2^floor(n)`; of `z` in 0 to `NORMAL_MAX`, in f32.
#[inline(always)]
fn bell<V: Float>(z: V) -> (V, V) {
    let exponent = Pair::product(z * V::constant(-0.5), z);
    let (n, index) = sixteenths(exponent.high, V::splat(V::Element::LOG2_E));
    let first = n.neg_mul_add(V::splat(V::Element::LN_2), exponent.high);
    let s = tiny_expm1(first + n.neg_mul_add(V::splat(V::Element::LN_2_LOW), exponent.low));
    let power = V::look_up(V::Element::POWERS, index);
    (power.mul_add(s, power), n)
}

/// `e^(z^2 / 2)` times the probability that a normal variable is above `z`, from 0 on, in f32: a quotient of polynomials, of which
/// all coefficients are positive (as those of Hart et al., 1968).
#[inline(always)]
fn scaled_tail<V: Float>(z: V) -> V {
    let (dividend, divisor) = V::Element::NORMAL_TAIL;
    polynomial(z, dividend) / polynomial(z, divisor)
}

/// `below` where `x` is negative, else `1 - below`.
#[inline(always)]
fn mirrored<V: Float>(x: V, below: V) -> V {
    V::select(x.lt(V::zero()), below, V::one() - below)
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

/// `near` if a table has every lane, else `far` for those that it has not.
#[inline(always)]
fn by_table_or<V: Float>(z: V, near: V, far: impl FnOnce(V) -> V) -> V {
    let is_near = z.lt(V::constant(TABLE_END));
    if is_near.all() { near } else { V::select(is_near, near, far(V::constant(NORMAL_MAX).min(z))) }
}

/// `x` times the probability of less: `max(x, 0)` less `|x|` times the probability beyond `|x|`.
#[inline(always)]
pub(in super::super) fn gelu<V: Float>(x: V) -> V {
    let Some([table, _]) = V::Element::NORMAL_TABLES else {
        return x * normal_cdf(x);
    };
    let z = x.abs();
    let near = z.neg_mul_add(by_table(z, table), V::zero().max(x));
    by_table_or(
        z,
        near,
        #[inline(always)]
        |z| {
            let (power, n) = bell(z);
            x * mirrored(x, (power * scaled_tail(z)).scale_floor(n))
        },
    )
}

/// The derivative of [`gelu`]: the probability of less than `x`, and `x` times the density.
#[inline(always)]
pub(in super::super) fn gelu_slope<V: Float>(x: V) -> V {
    let Some([_, table]) = V::Element::NORMAL_TABLES else {
        return normal_cdf(x) + x * normal_density(x);
    };
    let z = x.abs();
    let near = mirrored(x, by_table(z, table));
    by_table_or(
        z,
        near,
        #[inline(always)]
        |z| {
            let (power, n) = bell(z);
            let of_density = z.neg_mul_add(V::constant(FRAC_1_SQRT_TAU), scaled_tail(z));
            mirrored(x, (power * of_density).scale_floor(n))
        },
    )
}
