//! Bessel functions of the first and second kind, modified ones of the second, and the Airy function.
//!
//! Near 0 Chebyshev series, to which the logarithmic term of functions of the second kind is added; far from 0 Chebyshev series of the
//! amplitudes in Hankel's expansions (Abramowitz and Stegun, 9.2.5, 9.7.2 and 10.4.59). Errors are at most 5 ulp of the maximum of
//! result and amplitude.

use super::bessel_coefficients as c;
use super::modified_bessel::{i0_of, i1_of};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, PI};

/// The sum of `c[k] T_k(t)`, by Clenshaw's recurrence.
fn chebyshev(c: &[f64], t: f64) -> f64 {
    let (mut next, mut last) = (0.0, 0.0);
    for c in c.iter().skip(1).rev() {
        (next, last) = (2.0 * t * next - last + c, next);
    }
    t * next - last + c.first().copied().unwrap_or(0.0)
}

/// A series in `x^2`, for `x` up to `M`.
fn near<const M: i32>(c: &[f64], x: f64) -> f64 {
    let t = x / f64::from(M);
    chebyshev(c, 2.0 * t * t - 1.0)
}

/// `(P, Q)` of Hankel's expansion, for `x` from 8 on, times the amplitude.
fn far(p: &[f64], q: &[f64], x: f64) -> (f64, f64) {
    let t = 8.0 / x;
    let (u, amplitude) = (2.0 * t * t - 1.0, (FRAC_2_PI / x).sqrt());
    (amplitude * chebyshev(p, u), amplitude * t * chebyshev(q, u))
}

/// Sine and cosine of `x - pi / 4`.
fn sin_cos_shifted(x: f64) -> (f64, f64) {
    let (sin, cos) = x.sin_cos();
    ((sin - cos) * FRAC_1_SQRT_2, (sin + cos) * FRAC_1_SQRT_2)
}

/// The first kind, of order 0.
pub(super) fn j0(x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 / 128.0 {
        // The series, whose next term is below half an ulp: no result exceeds 1.
        let t = x * x / 4.0;
        return 1.0 - t * (1.0 - t / 4.0 * (1.0 - t / 9.0));
    }
    if x <= 8.0 {
        return near::<8>(&c::J0_NEAR, x);
    }
    let ((p, q), (sin, cos)) = (far(&c::P0, &c::Q0, x), sin_cos_shifted(x));
    p * cos - q * sin
}

/// The first kind, of order 1, where sine and cosine are those of `x - 3 pi / 4`.
pub(super) fn j1(x: f64) -> f64 {
    let size = x.abs();
    if size <= 8.0 {
        return x * near::<8>(&c::J1_NEAR, x);
    }
    let ((p, q), (sin, cos)) = (far(&c::P1, &c::Q1, size), sin_cos_shifted(size));
    (p * sin + q * cos) * x.signum()
}

/// `value(x)` for positive `x`, `at_zero` at 0, NaN for negative `x`.
fn of_positive(x: f64, at_zero: f64, value: impl Fn(f64) -> f64) -> f64 {
    match x {
        0.0 => at_zero,
        x if x > 0.0 => value(x),
        _ => f64::NAN,
    }
}

/// The second kind, of order 0.
pub(super) fn y0(x: f64) -> f64 {
    of_positive(x, f64::NEG_INFINITY, |x| {
        if x <= 8.0 {
            return FRAC_2_PI * x.ln() * j0(x) + near::<8>(&c::Y0_NEAR, x);
        }
        let ((p, q), (sin, cos)) = (far(&c::P0, &c::Q0, x), sin_cos_shifted(x));
        p * sin + q * cos
    })
}

/// The second kind, of order 1.
pub(super) fn y1(x: f64) -> f64 {
    of_positive(x, f64::NEG_INFINITY, |x| {
        if x <= 8.0 {
            return FRAC_2_PI * (x.ln() * j1(x) - 1.0 / x) + x * near::<8>(&c::Y1_NEAR, x);
        }
        let ((p, q), (sin, cos)) = (far(&c::P1, &c::Q1, x), sin_cos_shifted(x));
        q * sin - p * cos
    })
}

/// The modified function of the second kind times `e^x`, from its value up to 2 and its series beyond.
fn scaled(x: f64, near: fn(f64) -> f64, far: &[f64]) -> f64 {
    of_positive(x, f64::INFINITY, |x| {
        if x <= 2.0 { near(x) * x.exp() } else { chebyshev(far, 4.0 / x - 1.0) / x.sqrt() }
    })
}

/// The modified function of the second kind, from its value up to 2 and its series beyond.
fn unscaled(x: f64, near: fn(f64) -> f64, far: &[f64]) -> f64 {
    of_positive(x, f64::INFINITY, |x| if x <= 2.0 { near(x) } else { (-x).exp() * scaled(x, near, far) })
}

fn k0_near(x: f64) -> f64 {
    near::<2>(&c::K0_NEAR, x) - (x / 2.0).ln() * i0_of(x)
}

fn k1_near(x: f64) -> f64 {
    1.0 / x + (x / 2.0).ln() * i1_of(x) + x * near::<2>(&c::K1_NEAR, x)
}

/// The modified second kind, of order 0.
pub(super) fn k0(x: f64) -> f64 {
    unscaled(x, k0_near, &c::K0_FAR)
}

/// The modified second kind, of order 1.
pub(super) fn k1(x: f64) -> f64 {
    unscaled(x, k1_near, &c::K1_FAR)
}

/// Order 0, times `e^x`.
pub(super) fn k0e(x: f64) -> f64 {
    scaled(x, k0_near, &c::K0_FAR)
}

/// Order 1, times `e^x`.
pub(super) fn k1e(x: f64) -> f64 {
    scaled(x, k1_near, &c::K1_FAR)
}

/// `sin(x) / x`.
pub(super) fn spherical_j0(x: f64) -> f64 {
    match x.abs() {
        0.0 => 1.0,
        f64::INFINITY => 0.0,
        _ => x.sin() / x,
    }
}

/// `2 / 3 x^(3/2)`.
fn phase(x: f64) -> f64 {
    2.0 / 3.0 * x * x.sqrt()
}

/// The phase as the sum of two numbers, for `x` so large that the rounding of the first one changes sine and cosine.
fn exact_phase(x: f64) -> (f64, f64) {
    /// `2 / 3` less the number that stands for it.
    const TWO_THIRDS_LOW: f64 = 3.700743415417188e-17;
    let root = x.sqrt();
    let root_low = (-root).mul_add(root, x) / (2.0 * root);
    let product = x * root;
    let product_low = x.mul_add(root, -product) + x * root_low;
    let z = 2.0 / 3.0 * product;
    let z_low = (2.0f64 / 3.0).mul_add(product, -z) + 2.0 / 3.0 * product_low + TWO_THIRDS_LOW * product;
    (z, z_low)
}

/// The Airy function.
pub(super) fn airy(x: f64) -> f64 {
    match x {
        x if x == f64::INFINITY => 0.0,
        x if x > 2.0 => {
            let z = phase(x);
            let amplitude = 2.0 * PI.sqrt() * x.sqrt().sqrt();
            (-z).exp() * chebyshev(&c::AIRY_FAR, 2.0 * phase(2.0) / z - 1.0) / amplitude
        }
        x if x >= -4.0 => chebyshev(&c::AIRY_MIDDLE, (x + 1.0) / 3.0),
        x => {
            let (z, z_low) = exact_phase(-x);
            let t = phase(4.0) / z;
            let u = 2.0 * t * t - 1.0;
            let (sin, cos) = sin_cos_shifted(z);
            let (sin, cos) = (sin + z_low * cos, cos - z_low * sin);
            // Sine and cosine of `z + pi / 4` are the cosine and the negative sine of `z - pi / 4`.
            let value = chebyshev(&c::AIRY_P, u) * cos + chebyshev(&c::AIRY_Q, u) / z * sin;
            value / (PI.sqrt() * (-x).sqrt().sqrt())
        }
    }
}
