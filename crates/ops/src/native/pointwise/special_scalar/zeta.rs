//! The Hurwitz zeta function, and the derivatives of the digamma function, which follow from it.
//!
//! The sum of the first terms, and the Euler-Maclaurin formula for the others (DLMF 25.11.5 and 25.2.9, 5.15.1). Errors are at most 5 ulp.

use super::gamma::{BERNOULLI, ln_gamma_of};

/// The sum of `(k + q)^-s` over k from 0: infinite for `s = 1` and if a term is infinite, NaN for `s` below 1 and if terms are not real.
pub(super) fn zeta(s: f64, q: f64) -> f64 {
    match (s, q) {
        (s, q) if s.is_nan() || q.is_nan() || s < 1.0 => f64::NAN,
        (1.0, _) => f64::INFINITY,
        (_, q) if q <= 0.0 && q == q.floor() => f64::INFINITY,
        (s, q) if q < 0.0 && s != s.floor() => f64::NAN,
        (_, f64::INFINITY) => 0.0,
        (s, q) if q < 0.0 => below_zero(s, q),
        (s, q) => above_zero(s, q),
    }
}

/// For negative `q`: the terms with negative `k + q` are, up to their sign, the difference of two sums with positive terms.
fn below_zero(s: f64, q: f64) -> f64 {
    let above = q - q.floor();
    let below = above_zero(s, 1.0 - above) - above_zero(s, 1.0 - q);
    above_zero(s, above) + if s % 2.0 == 0.0 { below } else { -below }
}

fn above_zero(s: f64, q: f64) -> f64 {
    let (mut sum, mut w) = (0.0, q);
    // The formula converges for `w` above the exponent; the sum ends earlier if terms become negligible.
    while w < 10.0 + s {
        let term = w.powf(-s);
        sum += term;
        if term <= sum * f64::EPSILON / 16.0 {
            return sum;
        }
        w += 1.0;
    }
    let power = w.powf(-s);
    if power == 0.0 {
        return sum;
    }
    // The factor is s (s + 1) .. (s + 2 k - 2) / (2 k)! w^(1 - 2 k).
    let (mut tail, mut factor) = (w / (s - 1.0) + 0.5, s / (2.0 * w));
    for (b, k) in BERNOULLI.iter().zip(1..) {
        let term = b * factor;
        tail += term;
        if term.abs() <= tail.abs() * f64::EPSILON / 4.0 {
            break;
        }
        let n = 2.0 * f64::from(k);
        factor *= (s + n - 1.0) * (s + n) / ((n + 1.0) * (n + 2.0) * w * w);
    }
    sum + power * tail
}

/// The derivative of order `n` of the digamma function, for `n` from 1 on.
pub(super) fn polygamma(n: i64, x: f64) -> f64 {
    let sum = zeta(n as f64 + 1.0, x);
    let factorial = if n <= 170 { (1..=n).map(|k| k as f64).product() } else { f64::INFINITY };
    let size = if factorial * sum.abs() < f64::MAX {
        factorial * sum
    } else {
        (ln_gamma_of(n as f64 + 1.0) + sum.abs().ln()).exp().copysign(sum)
    };
    if n % 2 == 1 { size } else { -size }
}
