//! Functions in f64 that the standard library lacks, for references.

use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

/// The error function: its Taylor series near 0.
pub(super) fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() >= 0.5 {
        return if x < 0.0 { erfc(-x) - 1.0 } else { 1.0 - erfc(x) };
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * FRAC_2_SQRT_PI
}

/// `1 - erf(x)`: Laplace's continued fraction where the series cancels. The square in the exponent is taken in two parts,
/// of which the first is exact: its rounding error would be multiplied by `x^2`.
pub(super) fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 0.5 {
        return if x <= -0.5 { 2.0 - erfc(-x) } else { 1.0 - erf(x) };
    }
    if x > 30.0 {
        return 0.0;
    }
    let fraction = (1..2000).rev().fold(0.0, |fraction, k| f64::from(k) / 2.0 / (x + fraction));
    let head = f64::from(x as f32);
    (-head * head).exp() * (-(x - head) * (x + head)).exp() / PI.sqrt() / (x + fraction)
}

/// `e^(x^2) erfc(x)`, by the same fraction.
pub(super) fn erfcx(x: f64) -> f64 {
    if x.is_nan() || x < 0.5 {
        return (x * x).exp() * erfc(x);
    }
    let fraction = (1..2000).rev().fold(0.0, |fraction, k| f64::from(k) / 2.0 / (x + fraction));
    1.0 / PI.sqrt() / (x + fraction)
}

/// `log(e^a + e^b)`.
pub(super) fn log_of_sum(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a == b { a } else { greater(a, b) + (-(a - b).abs()).exp().ln_1p() }
}

/// `1 / (1 + e^-x)`.
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `log(1 + e^x)`.
pub(super) fn softplus(x: f64) -> f64 {
    if x > 40.0 { x } else { x.exp().ln_1p() }
}

/// The square root of 2, less its nearest f64.
const SQRT_2_REST: f64 = -9.667_293_313_452_913e-17;

/// The probability that a normal variable is below x. The rounding error of the argument of erfc is corrected to first
/// order: far from 0 it would be multiplied by `x^2`.
pub(super) fn normal_cdf(x: f64) -> f64 {
    let z = -x / SQRT_2;
    if !z.is_finite() {
        return 0.5 * erfc(z);
    }
    let rest = (z.mul_add(-SQRT_2, -x) - z * SQRT_2_REST) / SQRT_2;
    0.5 * (erfc(z) - FRAC_2_SQRT_PI * (-z * z).exp() * rest)
}

/// The density of a normal variable.
pub(super) fn normal_pdf(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}

/// The greater; NaN if either is.
pub(super) fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The lesser; NaN if either is.
pub(super) fn lesser(a: f64, b: f64) -> f64 {
    -greater(-a, -b)
}

/// The remainder of the division rounded down, as Python's `%`.
pub(super) fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// The quotient rounded down, by the exact remainder, as Python's `//`.
pub(super) fn floor_divide(a: f64, b: f64) -> f64 {
    ((a - remainder(a, b)) / b).round()
}

/// A sum that carries what rounding left out (Neumaier): as if rounded once.
pub(super) fn sum(x: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0);
    for x in x {
        let next = sum + x;
        rest += if sum.abs() >= x.abs() { sum - next + x } else { x - next + sum };
        sum = next;
    }
    if rest.is_finite() { sum + rest } else { sum }
}
