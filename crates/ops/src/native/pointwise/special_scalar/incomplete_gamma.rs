//! The regularized incomplete gamma functions.
//!
//! The ascending series (DLMF 8.11.4), the continued fraction of Legendre (8.9.2) by Lentz's method, for the upper part of small
//! arguments a series without cancellation (8.7.3), and Temme's uniform expansion (8.12) from 1e5 on. Relative errors are below 1e-14.

use super::gamma::{ln_gamma_of, stirling};
use super::normal::ndtr;
use std::f64::consts::TAU;

/// Above this value Temme's expansion is as precise as the series and the fraction, whose number of terms grows with `a`.
const LARGE: f64 = 1e5;

/// The lower function: the integral from 0 to `x`.
pub(super) fn lower(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(value) => value,
        None if a > LARGE => uniform(a, x, false),
        None if x <= 1.0 || x <= a => series(a, x),
        None => 1.0 - upper(a, x),
    }
}

/// The upper function: the integral from `x` to infinity.
pub(super) fn upper(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(value) => 1.0 - value,
        None if a > LARGE => uniform(a, x, true),
        None if x <= 1.0 => small(a, x),
        None if x <= a => 1.0 - series(a, x),
        None => fraction(a, x),
    }
}

/// The lower function at 0, infinity and NaN, and for negative arguments.
fn edge(a: f64, x: f64) -> Option<f64> {
    match (a, x) {
        (a, x) if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 => Some(f64::NAN),
        (0.0, x) => Some(if x > 0.0 { 1.0 } else { f64::NAN }),
        (_, 0.0) => Some(0.0),
        (f64::INFINITY, x) => Some(if x == f64::INFINITY { f64::NAN } else { 0.0 }),
        (_, f64::INFINITY) => Some(1.0),
        _ => None,
    }
}

/// `x^a e^-x / gamma(a)`. For large `a` that is `(x / a)^a e^(a - x)`, or `e^(-a (u - ln(1 + u)))` with `u = (x - a) / a`, which
/// has no cancellation near 0, and Stirling's formula.
fn factor(a: f64, x: f64) -> f64 {
    if a < 10.0 {
        return x.powf(a) * (-x).exp() / ln_gamma_of(a).exp();
    }
    let (power, exponential) = ((x / a).powf(a), (a - x).exp());
    let in_range = |value: f64| value > f64::MIN_POSITIVE && value < f64::INFINITY;
    let direct = (x / a - 1.0).abs() > 0.25 && in_range(power) && in_range(exponential);
    let bell = if direct { power * exponential } else { (-a * excess(a, x)).exp() };
    (a / TAU).sqrt() * (-stirling(a)).exp() * bell
}

/// `u - ln(1 + u)` with `u = (x - a) / a`.
fn excess(a: f64, x: f64) -> f64 {
    let u = (x - a) / a;
    if u.abs() > 0.25 {
        return u - (x / a).ln();
    }
    // With s = u / (2 + u): ln(1 + u) = 2 (s + s^3 / 3 + ..), and u - 2 s = u s.
    let s = u / (2.0 + u);
    let sum = (1..12).rev().fold(0.0, |sum, k| (sum + 1.0 / (2.0 * f64::from(k) + 1.0)) * s * s);
    s * (u - 2.0 * sum)
}

/// `factor / a (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..)`.
fn series(a: f64, x: f64) -> f64 {
    let (mut sum, mut term, mut n) = (1.0, 1.0, a);
    while term > sum * (f64::EPSILON / 8.0) {
        n += 1.0;
        term *= x / n;
        sum += term;
    }
    factor(a, x) / a * sum
}

/// `1 - x^a / gamma(a + 1) (1 + a (-x / (a + 1) + x^2 / (2 (a + 2)) - ..))`.
fn small(a: f64, x: f64) -> f64 {
    let (mut sum, mut power, mut n) = (0.0f64, 1.0f64, 0.0);
    while n < 40.0 && (n < 2.0 || power.abs() > f64::EPSILON / 8.0 * sum.abs()) {
        n += 1.0;
        power *= -x / n;
        sum += power / (a + n);
    }
    let log = a * x.ln() - ln_gamma_of(1.0 + a);
    -log.exp_m1() - log.exp() * a * sum
}

/// `factor / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ..)))`.
fn fraction(a: f64, x: f64) -> f64 {
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let (mut value, mut n) = (d, 1.0);
    while n < 1e5 {
        let step = n * (a - n);
        b += 2.0;
        d = 1.0 / (step * d + b);
        c = b + step / c;
        value *= c * d;
        if (c * d - 1.0).abs() < f64::EPSILON / 2.0 {
            break;
        }
        n += 1.0;
    }
    factor(a, x) * value
}

/// Temme's expansion: the tail of the normal distribution in `eta`, with `eta^2 / 2 = u - ln(1 + u)`, and two terms of the remainder.
fn uniform(a: f64, x: f64, upper: bool) -> f64 {
    let u = (x - a) / a;
    let half = excess(a, x);
    let eta = (2.0 * half).sqrt().copysign(u);
    let [first, second] = if eta.abs() < 0.02 {
        [
            -1.0 / 3.0 + eta * (1.0 / 12.0 + eta * (-2.0 / 135.0 + eta * (1.0 / 864.0 + eta / 2835.0))),
            -1.0 / 540.0 - eta / 288.0 + eta * eta * 25.0 / 12096.0,
        ]
    } else {
        [1.0 / u - 1.0 / eta, 1.0 / eta.powi(3) - 1.0 / u.powi(3) - 1.0 / (u * u) - 1.0 / (12.0 * u)]
    };
    let rest = (-a * half).exp() / (TAU * a).sqrt() * (first + second / a);
    let sign = if upper { 1.0 } else { -1.0 };
    ndtr(-sign * eta * a.sqrt()) + sign * rest
}
