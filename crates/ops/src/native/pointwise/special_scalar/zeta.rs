//! The Hurwitz zeta function, and the derivatives of the digamma function, which follow from it.
//!
//! The sum of the first terms, and the Euler-Maclaurin formula for the others (DLMF 25.11.5 and 25.2.9, 5.15.1). Errors are at most 5 ulp
//! of the largest term.
//!
//! Lanes of a vector have different numbers of first terms: one that has all of them keeps its sum, so that it does not depend on the
//! others.

use super::gamma::{BERNOULLI, ln_gamma_of};
use crate::vectorized::{Float, Mask};

/// The sum of `(k + q)^-s` over k from 0: infinite for `s = 1` and if a term is infinite, NaN for `s` below 1 and if terms are not real.
#[inline(always)]
pub(super) fn zeta<V: Float>(s: V, q: V) -> V {
    let (zero, one) = (V::zero(), V::one());
    let (infinity, nan) = (V::constant(f64::INFINITY), V::constant(f64::NAN));
    let negative = q.lt(zero);
    let is_pole = s.eq(one) | (q.le(zero) & q.eq(q.floor()));
    let is_real = s.ge(one) & q.eq(q) & (q.ge(zero) | s.eq(s.floor()) | is_pole);
    let is_sum = is_real & q.lt(infinity) & !is_pole;
    let mut result = zero;
    if is_sum.any() {
        // The other lanes sum as few terms as any.
        let (s, q) = (V::select(is_sum, s, V::constant(2.0)), V::select(is_sum, q, V::constant(FAR)));
        result = V::select(is_sum, sum_of_powers(s, q, negative & is_sum), zero);
    }
    let result = V::select(is_pole, infinity, result);
    V::select(is_real, result, nan)
}

/// A number from which few terms are summed.
const FAR: f64 = (1u64 << 50) as f64;

/// For negative `q` the terms with negative `k + q` are, up to their sign, the difference of two sums with positive terms.
#[inline(always)]
fn sum_of_powers<V: Float>(s: V, q: V, negative: V::Mask) -> V {
    let of_negative = |start: V, other: V| V::select(negative, start, other);
    let far = V::constant(FAR);
    let starts =
        [of_negative(q - q.floor(), q), of_negative(q.ceil() - q, far), of_negative(V::one() - q, far)];
    let mut sums = [V::zero(); 3];
    let count = if negative.any() { starts.len() } else { 1 };
    for (start, sum) in starts.into_iter().zip(&mut sums).take(count) {
        *sum = sum_of_positive(s, start);
    }
    let [above, from_below, beyond] = sums;
    let half = s * V::constant(0.5);
    let below = from_below - beyond;
    let below = V::select(half.eq(half.trunc()), below, -below);
    V::select(negative, above + below, above)
}

/// [`zeta`] for positive `q`.
#[inline(always)]
fn sum_of_positive<V: Float>(s: V, q: V) -> V {
    let (zero, one) = (V::zero(), V::one());
    // From here on the first omitted term of the formula is below `2^-53` of the sum of the others.
    let limit = s.mul_add(V::constant(0.75), V::constant(6.0));
    let negligible = (s - one) * V::constant(f64::EPSILON / 16.0);
    let (mut sum, mut w, mut goes_on) = (zero, q, q.lt(limit));
    let mut is_complete = V::Mask::first(0);
    loop {
        let power = w.pow(-s);
        if !goes_on.any() {
            let rest = V::select(is_complete | power.eq(zero), zero, power * tail(s, w));
            return sum + rest;
        }
        sum = V::select(goes_on, sum + power, sum);
        // The integral of what follows is `power w / (s - 1)`.
        let matters = (power * w).gt(sum * negligible);
        is_complete = is_complete | (goes_on & !matters);
        goes_on = goes_on & matters;
        w = V::select(goes_on, w + one, w);
        // Below the limit the first omitted term, relative to that integral, is greater by this power: it may be negligible beside the sum.
        let error = power_of_26(limit / w) * power * w;
        goes_on = goes_on & w.lt(limit) & error.gt(sum * (s - one));
    }
}

/// `x^26`.
#[inline(always)]
fn power_of_26<V: Float>(x: V) -> V {
    let square = x * x;
    let fourth = square * square;
    let eighth = fourth * fourth;
    eighth * eighth * eighth * square
}

/// The sum of `(k + w)^-s` over k from 0, divided by `w^-s`.
#[inline(always)]
fn tail<V: Float>(s: V, w: V) -> V {
    let inverse = w.recip();
    let (square, mut sum) = (inverse * inverse, V::zero());
    // The factors are s (s + 1) .. (s + 2 k - 2) w^(1 - 2 k).
    for (k, quotient) in QUOTIENTS.iter().enumerate().rev() {
        let n = (2 * k + 1) as f64;
        let factor = (s + V::constant(n)) * (s + V::constant(n + 1.0)) * square;
        sum = sum.mul_add(factor, V::constant(*quotient));
    }
    w / (s - V::one()) + (s * inverse).mul_add(sum, V::constant(0.5))
}

/// The Bernoulli numbers `B2`, `B4`, .. divided by `2!`, `4!`, ..
const QUOTIENTS: [f64; 12] = {
    let (mut quotients, mut factorial, mut i) = (BERNOULLI, 1.0, 0);
    while i < quotients.len() {
        factorial *= ((2 * i + 1) * (2 * i + 2)) as f64;
        quotients[i] /= factorial;
        i += 1;
    }
    quotients
};

/// The derivative of one order, from 1 on, of the digamma function.
#[derive(Clone, Copy)]
pub(super) struct Polygamma {
    exponent: f64,
    factorial: f64,
    log_factorial: f64,
    sign: f64,
}

impl Polygamma {
    /// Of the order `n`.
    pub(super) fn new(n: i64) -> Self {
        let exponent = n as f64 + 1.0;
        let factorial = if n <= 170 { (1..=n).map(|k| k as f64).product() } else { f64::INFINITY };
        let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
        Polygamma { exponent, factorial, log_factorial: ln_gamma_of(exponent), sign }
    }

    /// Its value.
    #[inline(always)]
    pub(super) fn at<V: Float>(self, x: V) -> V {
        let sum = zeta(V::constant(self.exponent), x);
        let mut size = V::constant(self.factorial) * sum;
        let in_range = size.abs().lt(V::constant(f64::MAX));
        if !in_range.all() {
            let by_logarithm = (V::constant(self.log_factorial) + sum.abs().log()).exp();
            size = V::select(in_range, size, by_logarithm.copysign(sum));
        }
        V::constant(self.sign) * size
    }
}
