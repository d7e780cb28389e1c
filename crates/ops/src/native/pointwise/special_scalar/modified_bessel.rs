//! Modified Bessel functions of the first kind.
//!
//! Abramowitz and Stegun: the ascending series (9.6.10), all of whose terms are positive, up to 20, and the asymptotic series (9.7.1)
//! beyond, where its smallest term is below `e^-40`. Errors are at most 5 ulp.

/// Where the asymptotic series replaces the ascending one.
const FAR: f64 = 20.0;

/// The sum of `(x^2 / 4)^k / (k! (k + order)!)` over k, without the factorial of the first term.
fn ascending(x: f64, order: f64) -> f64 {
    let y = x * x / 4.0;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * (f64::EPSILON / 8.0) {
        term *= y / (k * (k + order));
        sum += term;
        k += 1.0;
    }
    sum
}

/// `sqrt(2 pi x) e^-x I(x)` for large `x`: the sum of `(1 - m)(9 - m)(25 - m) .. / (k! (8 x)^k)` with `m = 4 order^2`.
fn asymptotic(x: f64, order: f64) -> f64 {
    let m = 4.0 * order * order;
    let (mut sum, mut term, mut k) = (1.0, 1.0f64, 1.0);
    while term.abs() > f64::EPSILON / 8.0 && k < 40.0 {
        term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - m) / (k * 8.0 * x);
        sum += term;
        k += 1.0;
    }
    sum
}

/// `e^-x I(x)` beyond `FAR`.
fn scaled_far(x: f64, order: f64) -> f64 {
    asymptotic(x, order) / (std::f64::consts::TAU * x).sqrt()
}

/// `I(x)` beyond `FAR`: multiplied twice by `e^(x / 2)`, since `e^x` overflows before the result does.
fn far(x: f64, order: f64) -> f64 {
    let half = (x / 2.0).exp();
    half * scaled_far(x, order) * half
}

/// Order 0.
pub(super) fn i0(x: f64) -> f64 {
    let x = x.abs();
    if x < FAR { ascending(x, 0.0) } else { finite_or(x, far(x, 0.0), f64::INFINITY) }
}

/// Order 0, times `e^-|x|`.
pub(super) fn i0e(x: f64) -> f64 {
    let x = x.abs();
    if x < FAR { (-x).exp() * ascending(x, 0.0) } else { finite_or(x, scaled_far(x, 0.0), 0.0) }
}

/// Order 1.
pub(super) fn i1(x: f64) -> f64 {
    let size = x.abs();
    let value = if size < FAR {
        size / 2.0 * ascending(size, 1.0)
    } else {
        finite_or(size, far(size, 1.0), f64::INFINITY)
    };
    value.copysign(x)
}

/// Order 1, times `e^-|x|`.
pub(super) fn i1e(x: f64) -> f64 {
    let size = x.abs();
    let value = if size < FAR {
        (-size).exp() * (size / 2.0) * ascending(size, 1.0)
    } else {
        finite_or(size, scaled_far(size, 1.0), 0.0)
    };
    value.copysign(x)
}

/// `value`, or the limit at infinity.
fn finite_or(x: f64, value: f64, limit: f64) -> f64 {
    if x == f64::INFINITY { limit } else { value }
}
