//! Functions in f64 that the standard library lacks, by series and continued fractions.

/// The error function: its Taylor series.
pub(crate) fn erf(x: f64) -> f64 {
    if x.abs() >= 1.0 {
        return x.signum() * (1.0 - erfc(x.abs()));
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// `1 - erf(x)`: Laplace's continued fraction where the series cancels.
pub(crate) fn erfc(x: f64) -> f64 {
    if x < 1.0 {
        return 1.0 - erf(x);
    }
    let mut fraction = 0.0;
    for k in (1..2000).rev() {
        fraction = f64::from(k) / 2.0 / (x + fraction);
    }
    (-x * x).exp() / std::f64::consts::PI.sqrt() / (x + fraction)
}

/// The nearest integer, halves to even.
pub(crate) fn round(x: f64) -> f64 {
    x.round_ties_even()
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(crate) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The probability that a normal variable is below x.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x / 2f64.sqrt())
}

pub(crate) fn normal_pdf(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The remainder of the division rounded down.
pub(crate) fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// The quotient rounded down, by the exact remainder.
pub(crate) fn floor_divide(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let quotient = ((a - remainder(a, b)) / b).round();
    if quotient == 0.0 { 0f64.copysign(a / b) } else { quotient }
}

/// A gradient through a derivative: nothing, where no gradient comes, whatever the derivative.
pub(crate) fn chain(gradient: f64, derivative: f64) -> f64 {
    if gradient == 0.0 { 0.0 } else { gradient * derivative }
}
