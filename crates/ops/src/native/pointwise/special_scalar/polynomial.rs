//! Orthogonal polynomials by their recurrences (Abramowitz and Stegun, 22.7). The order is truncated to an integer; for negative orders
//! the result is 0.

/// Above this order Chebyshev polynomials are computed from cosines, and the others are NaN, since the recurrence would take too long.
const MAX_ORDER: f64 = 1e5;

/// The order as an integer, or the result where no recurrence is needed.
fn order(x: f64, n: f64) -> Result<u32, f64> {
    match n.trunc() {
        _ if x.is_nan() || n.is_nan() => Err(f64::NAN),
        n if n < 0.0 => Err(0.0),
        n if n > MAX_ORDER => Err(f64::NAN),
        n => Ok(n as u32),
    }
}

/// The polynomial of order `n`, where order 0 is 1, order 1 is `first`, and order `k + 1` is `step(k, p[k], p[k - 1])`.
fn recurrence(x: f64, n: f64, first: f64, step: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let n = match order(x, n) {
        Ok(n) => n,
        Err(value) => return value,
    };
    let (mut last, mut value) = (1.0, first);
    for k in 1..n {
        (last, value) = (value, step(f64::from(k), value, last));
    }
    if n == 0 { 1.0 } else { value }
}

/// Chebyshev polynomials of one of four kinds, which differ in order 1 and in the formula `far` for high orders.
fn chebyshev(x: f64, n: f64, first: f64, far: impl Fn(f64) -> f64) -> f64 {
    if n.trunc() > MAX_ORDER && n.is_finite() && x.abs() <= 1.0 {
        return far(x.acos());
    }
    recurrence(x, n, first, |_, p, last| 2.0 * x * p - last)
}

/// Chebyshev polynomials of the first kind, cos(n t) with x = cos(t).
pub(super) fn chebyshev_t(x: f64, n: f64) -> f64 {
    chebyshev(x, n, x, |t| (n.trunc() * t).cos())
}

/// Chebyshev polynomials of the second kind, sin((n + 1) t) / sin(t).
pub(super) fn chebyshev_u(x: f64, n: f64) -> f64 {
    chebyshev(x, n, 2.0 * x, |t| ((n.trunc() + 1.0) * t).sin() / t.sin())
}

/// Chebyshev polynomials of the third kind, cos((n + 1/2) t) / cos(t / 2).
pub(super) fn chebyshev_v(x: f64, n: f64) -> f64 {
    chebyshev(x, n, 2.0 * x - 1.0, |t| ((n.trunc() + 0.5) * t).cos() / (t / 2.0).cos())
}

/// Chebyshev polynomials of the fourth kind, sin((n + 1/2) t) / sin(t / 2).
pub(super) fn chebyshev_w(x: f64, n: f64) -> f64 {
    chebyshev(x, n, 2.0 * x + 1.0, |t| ((n.trunc() + 0.5) * t).sin() / (t / 2.0).sin())
}

/// Physicist's Hermite polynomials.
pub(super) fn hermite_h(x: f64, n: f64) -> f64 {
    recurrence(x, n, 2.0 * x, |k, p, last| 2.0 * (x * p - k * last))
}

/// Probabilist's Hermite polynomials.
pub(super) fn hermite_he(x: f64, n: f64) -> f64 {
    recurrence(x, n, x, |k, p, last| x * p - k * last)
}

/// Laguerre polynomials.
pub(super) fn laguerre_l(x: f64, n: f64) -> f64 {
    recurrence(x, n, 1.0 - x, |k, p, last| ((2.0 * k + 1.0 - x) * p - k * last) / (k + 1.0))
}

/// Legendre polynomials.
pub(super) fn legendre_p(x: f64, n: f64) -> f64 {
    recurrence(x, n, x, |k, p, last| ((2.0 * k + 1.0) * x * p - k * last) / (k + 1.0))
}
