//! The mathematical functions, each written once for f32 and f64 and for every instruction set.
//!
//! Nearly all carry a result as an unevaluated sum of two numbers until the last operation, so that what remains is
//! little more than the final rounding. The means are the usual ones: an exact difference where a power of two, or
//! a constant with few digits, makes it so; `a * b` as a product and the error that `mul_add` reveals (Dekker,
//! Ogita-Rump-Oishi); polynomials on a reduced range. The methods of [`Float`] state the bounds.

mod circle;
mod element;
mod erf;
mod exp;
mod hyperbolic;
mod inverse_hyperbolic;
mod inverse_trigonometric;
mod log;
mod normal;
mod payne_hanek;
mod piece_tables;
mod pieces;
mod pow;
mod trigonometric;

pub use element::FloatElement;
pub(super) use erf::{erf, erf_to_half, erfc, erfcx};
pub(super) use exp::{exp, exp_to_half, exp2, expm1, scale_floored, scale_in_two_steps, sigmoid};
pub(super) use hyperbolic::{cosh, sinh, tanh};
pub(super) use inverse_hyperbolic::{acosh, asinh, atanh};
pub(super) use inverse_trigonometric::{acos, asin, atan};
pub(super) use log::{exponent_by_bits, log, log1p, log2, log10, significand_by_bits};
pub(super) use normal::{gelu, gelu_slope};
pub(super) use pow::pow;
pub(super) use trigonometric::{cos, sin, tan};

use super::lanes::{Float, Mask};

/// `c[0] + c[1] x + c[2] x^2 + ...`, by Horner's rule.
#[inline(always)]
fn polynomial<V: Float>(x: V, coefficients: &'static [V::Element]) -> V {
    let mut sum = V::zero();
    for (i, &coefficient) in coefficients.iter().rev().enumerate() {
        let coefficient = V::splat(coefficient);
        sum = if i == 0 { coefficient } else { sum.mul_add(x, coefficient) };
    }
    sum
}

/// `near` if that is right in every lane, else what `far` gives where it is not.
#[inline(always)]
fn or_beyond<V: Float>(is_near: V::Mask, near: V, far: impl FnOnce() -> V) -> V {
    if is_near.all() { near } else { V::select(is_near, near, far()) }
}

/// `from % by` for each lane. Not inlined: `%` calls the C library.
#[inline(never)]
pub(super) fn fmod_each<E: FloatElement>(from: &mut [E; 16], by: &[E; 16]) {
    for (a, b) in from.iter_mut().zip(by) {
        *a = E::from_f64(a.to_scalar().to_f64() % b.to_scalar().to_f64());
    }
}

/// An unevaluated sum: the value to working precision, and what that leaves out.
#[derive(Clone, Copy)]
struct Pair<V> {
    high: V,
    low: V,
}

impl<V: Float> Pair<V> {
    #[inline(always)]
    fn new(high: V, low: V) -> Self {
        Self { high, low }
    }

    /// `a + b` exactly, where `a` is zero or its exponent is at least that of `b`.
    #[inline(always)]
    fn fast_sum(a: V, b: V) -> Self {
        let high = a + b;
        Self { high, low: (a - high) + b }
    }

    /// `a + b` exactly.
    #[inline(always)]
    fn sum(a: V, b: V) -> Self {
        let high = a + b;
        let of_b = high - a;
        Self { high, low: (a - (high - of_b)) + (b - of_b) }
    }

    /// `a * b` exactly, but for underflow.
    #[inline(always)]
    fn product(a: V, b: V) -> Self {
        let high = a * b;
        Self { high, low: a.mul_add(b, -high) }
    }

    #[inline(always)]
    fn plus_low(self, low: V) -> Self {
        Self { high: self.high, low: self.low + low }
    }

    /// The quotient with `divisor`, given `1 / divisor.high` to a few ulp.
    #[inline(always)]
    fn divided_by(self, divisor: Self, reciprocal: V) -> Self {
        let high = self.high * reciprocal;
        let rest = high.neg_mul_add(divisor.high, self.high) + high.neg_mul_add(divisor.low, self.low);
        Self { high, low: rest * reciprocal }
    }

    /// The same sum with `low` no more than the rounding error of `high`, as a divisor must have it.
    #[inline(always)]
    fn normalized(self) -> Self {
        Self::fast_sum(self.high, self.low)
    }

    #[inline(always)]
    fn value(self) -> V {
        self.high + self.low
    }
}

/// `x` limited to `low..=high`; NaN stays.
#[inline(always)]
fn clamp<V: Float>(x: V, (low, high): (V::Element, V::Element)) -> V {
    V::splat(low).max(V::splat(high).min(x))
}
