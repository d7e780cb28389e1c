//! The logarithm of the gamma function, and its derivative.
//!
//! Abramowitz and Stegun, "Handbook of Mathematical Functions": the series about 2 (6.1.33), Stirling's (6.1.40 and 6.3.18),
//! recurrence (6.1.15 and 6.3.5) and reflection (6.1.17 and 6.3.7). Errors are at most 5 ulp of the maximum of result and 1.

use std::f64::consts::{PI, TAU};

/// `sin(pi x)` and `cos(pi x)` up to a common sign; the difference from the nearest integer is exact.
pub(super) fn sin_cos_pi(x: f64) -> (f64, f64) {
    (PI * (x - x.round())).sin_cos()
}

/// The logarithm of the absolute value of the gamma function; infinite at 0 and at negative integers.
pub(super) fn ln_gamma(x: f64) -> f64 {
    match x {
        x if x.is_infinite() => f64::INFINITY,
        x if x <= 0.0 && x == x.trunc() => f64::INFINITY,
        x if x < 0.0 => (PI / (x * sin_cos_pi(x).0).abs()).ln() - ln_gamma(-x),
        x if x < 0.5 => about_two(x) - x.ln_1p() - x.ln(),
        x if x < 1.5 => about_two(x - 1.0) - (x - 1.0).ln_1p(),
        x if x < 10.0 => by_recurrence(x),
        x => (x - 0.5) * (x.ln() - 1.0) - 0.5 + 0.5 * TAU.ln() + stirling(x),
    }
}

/// `ln(gamma(x))` by recurrence to a number in 1.5 to 2.5.
fn by_recurrence(x: f64) -> f64 {
    let (mut z, mut product) = (x, 1.0);
    while z >= 2.5 {
        z -= 1.0;
        product *= z;
    }
    about_two(z - 2.0) + product.ln()
}

/// The remainder of Stirling's formula for `ln(gamma(x))`, for `x` from 10 on.
pub(super) fn stirling(x: f64) -> f64 {
    bernoulli_sum(1.0 / (x * x), |k| 2.0 * k * (2.0 * k - 1.0)) / x
}

/// `B2 / f(1) + B4 y / f(2) + B6 y^2 / f(3) + ..` with the first eight of the Bernoulli numbers.
fn bernoulli_sum(y: f64, f: impl Fn(f64) -> f64) -> f64 {
    (1..9).rev().fold(0.0, |sum, k| sum * y + BERNOULLI[k - 1] / f(k as f64))
}

/// `ln(gamma(2 + t))` for `|t| <= 1/2`.
fn about_two(t: f64) -> f64 {
    t * SERIES.iter().rev().fold(0.0f64, |sum, c| sum.mul_add(t, *c))
}

/// The derivative of the logarithm of the gamma function.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        let (sin, cos) = sin_cos_pi(x);
        return if x == x.trunc() { f64::NAN } else { digamma(1.0 - x) - PI * cos / sin };
    }
    let (mut z, mut sum) = (x, 0.0);
    while z < 10.0 {
        sum -= 1.0 / z;
        z += 1.0;
    }
    let y = 1.0 / (z * z);
    let rest = y * bernoulli_sum(y, |k| 2.0 * k);
    sum + (z.ln() - 0.5 / z - rest)
}

/// The Bernoulli numbers of even order, from the second on.
pub(super) const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
    854513.0 / 138.0,
    -236364091.0 / 2730.0,
];

/// The coefficients of `ln(gamma(2 + t)) / t`: `1 - gamma`, then `(-1)^k (zeta(k) - 1) / k` for k from 2.
const SERIES: [f64; 29] = [
    0.42278433509846713,
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357939,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.050721277567069e-05,
    -9.439488275268397e-06,
    4.374866789907488e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554665e-07,
    -1.0043224823968099e-07,
    4.7698101693639804e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
    1.330476437424449e-10,
    -6.4229645638381e-11,
];
