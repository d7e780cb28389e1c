//! Orthogonal polynomials by their recurrences (Abramowitz and Stegun, 22.7), of an order that is cut to a whole number; below
//! order 0 they are 0.

/// Above this order Chebyshev's are cosines, and the others are not computed: NaN, as the result of a loop without end.
const MOST: f64 = 1e5;

/// The order as a count, or what comes out without a recurrence.
fn order(x: f64, n: f64) -> Result<u32, f64> {
    match n.trunc() {
        _ if x.is_nan() || n.is_nan() => Err(f64::NAN),
        n if n < 0.0 => Err(0.0),
        n if n > MOST => Err(f64::NAN),
        n => Ok(n as u32),
    }
}

/// From 1 and `first`, `step(k, p[k], p[k - 1])` being the next.
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

/// Chebyshev's of one of four kinds: they differ in the first.
fn chebyshev(x: f64, n: f64, first: f64, far: impl Fn(f64) -> f64) -> f64 {
    if n.trunc() > MOST && n.is_finite() && x.abs() <= 1.0 {
        return far(x.acos());
    }
    recurrence(x, n, first, |_, p, last| 2.0 * x * p - last)
}

/// Chebyshev's of the first kind, cos(n t) with x = cos(t).
pub(super) fn chebyshev_t(x: f64, n: f64) -> f64 {
    chebyshev(x, n, x, |t| (n.trunc() * t).cos())
}

/// Chebyshev's of the second kind, sin((n + 1) t) / sin(t).
pub(super) fn chebyshev_u(x: f64, n: f64) -> f64 {
    chebyshev(x, n, 2.0 * x, |t| ((n.trunc() + 1.0) * t).sin() / t.sin())
}

/// Chebyshev's of the third kind, cos((n + 1/2) t) / cos(t / 2).
pub(super) fn chebyshev_v(x: f64, n: f64) -> f64 {
    chebyshev(x, n, 2.0 * x - 1.0, |t| ((n.trunc() + 0.5) * t).cos() / (t / 2.0).cos())
}

/// Chebyshev's of the fourth kind, sin((n + 1/2) t) / sin(t / 2).
pub(super) fn chebyshev_w(x: f64, n: f64) -> f64 {
    chebyshev(x, n, 2.0 * x + 1.0, |t| ((n.trunc() + 0.5) * t).sin() / (t / 2.0).sin())
}

/// Hermite's, as physicists have them.
pub(super) fn hermite_h(x: f64, n: f64) -> f64 {
    recurrence(x, n, 2.0 * x, |k, p, last| 2.0 * (x * p - k * last))
}

/// Hermite's, as statisticians have them.
pub(super) fn hermite_he(x: f64, n: f64) -> f64 {
    recurrence(x, n, x, |k, p, last| x * p - k * last)
}

/// Laguerre's.
pub(super) fn laguerre_l(x: f64, n: f64) -> f64 {
    recurrence(x, n, 1.0 - x, |k, p, last| ((2.0 * k + 1.0 - x) * p - k * last) / (k + 1.0))
}

/// Legendre's.
pub(super) fn legendre_p(x: f64, n: f64) -> f64 {
    recurrence(x, n, x, |k, p, last| ((2.0 * k + 1.0) * x * p - k * last) / (k + 1.0))
}
