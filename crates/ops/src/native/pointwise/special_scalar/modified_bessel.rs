//! Modified Bessel functions of the first kind, in f64.
//!
//! Abramowitz and Stegun: the ascending series (9.6.10), all of whose terms are positive, up to 8, and polynomials for the factor of the
//! asymptotic form (9.7.1) beyond. Errors are at most 5 ulp.

use super::horner::horner;
use crate::vectorized::{Float, Mask};

/// Where the polynomials replace the ascending series.
const FAR: f64 = 8.0;

/// The coefficients of the ascending series in `x^2 / 4`, `1 / (k! (k + order)!)`: at 8 the next term is below `2^-53` of the sum.
const fn ascending(order: usize) -> [f64; 21] {
    let (mut coefficients, mut divisor, mut k) = ([1.0; 21], 1.0, 1);
    while k < coefficients.len() {
        divisor *= (k * (k + order)) as f64;
        coefficients[k] = 1.0 / divisor;
        k += 1;
    }
    coefficients
}

/// The series of both orders.
const ASCENDING: [[f64; 21]; 2] = [ascending(0), ascending(1)];

/// The function of a magnitude; times `e^-x` if `SCALED`.
#[inline(always)]
fn of_magnitude<V: Float, const ORDER: usize, const SCALED: bool>(x: V) -> V {
    let (far, half) = (x.ge(V::constant(FAR)), x * V::constant(0.5));
    let mut near = horner(half * half, &ASCENDING[ORDER]);
    if ORDER == 1 {
        near = near * half;
    }
    if SCALED {
        near = near * (-x).exp();
    }
    if !far.any() {
        return near;
    }
    let t = V::constant(2.0 * FAR) / x - V::one();
    let mut beyond = horner(t, &BEYOND[ORDER]) / x.sqrt();
    if !SCALED {
        // Twice, since e^x overflows before the result does.
        let power = half.exp();
        beyond = power * beyond * power;
    }
    let limit = V::constant(if SCALED { 0.0 } else { f64::INFINITY });
    V::select(far, V::select(x.eq(V::constant(f64::INFINITY)), limit, beyond), near)
}

/// Order 0.
#[inline(always)]
pub(super) fn i0<V: Float>(x: V) -> V {
    of_magnitude::<V, 0, false>(x.abs())
}

/// Order 0, times `e^-|x|`.
#[inline(always)]
pub(super) fn i0e<V: Float>(x: V) -> V {
    of_magnitude::<V, 0, true>(x.abs())
}

/// Order 1.
#[inline(always)]
pub(super) fn i1<V: Float>(x: V) -> V {
    of_magnitude::<V, 1, false>(x.abs()).copysign(x)
}

/// Order 1, times `e^-|x|`.
#[inline(always)]
pub(super) fn i1e<V: Float>(x: V) -> V {
    of_magnitude::<V, 1, true>(x.abs()).copysign(x)
}

/// `sqrt(x) e^-x` times the function of both orders, in `16 / x - 1`, for `x` from 8 on: the polynomial through values with 70 digits at
/// Chebyshev nodes. The omitted Chebyshev coefficients are below 4e-18.
const BEYOND: [[f64; 25]; 2] = [
    [
        0.4021765094450081,
        0.0033605519836678614,
        0.0001362160743919305,
        1.1143033790932038e-05,
        1.4838475658279249e-06,
        2.9735985885673923e-07,
        8.872219737904059e-08,
        3.932584334552951e-08,
        2.1548377974791112e-08,
        7.554691881248854e-09,
        -6.747657956104836e-09,
        -1.340891754008996e-08,
        -5.4047715675894285e-09,
        7.552583062124036e-09,
        7.430464650347439e-09,
        -3.5059665308805554e-09,
        -5.9535694382990935e-09,
        1.5200816953938937e-09,
        3.637954635936275e-09,
        -5.715843864213651e-10,
        -1.6189806836476387e-09,
        1.5279202695027498e-10,
        4.577087631729844e-10,
        -2.0260604287496793e-11,
        -6.06763157074485e-11,
    ],
    [
        0.38939845902587233,
        -0.009749577193235737,
        -0.00021923576383388928,
        -1.5038547200567216e-05,
        -1.8349101326980946e-06,
        -3.483855761044295e-07,
        -1.0001288294864889e-07,
        -4.312917729178348e-08,
        -2.3373928208142152e-08,
        -8.42776609373524e-09,
        6.734464815298894e-09,
        1.4034238782067446e-08,
        5.9744376080497635e-09,
        -7.642394134364322e-09,
        -7.88835150788415e-09,
        3.426234149009206e-09,
        6.2427412198207276e-09,
        -1.43872505330578e-09,
        -3.7946708962435706e-09,
        5.29562544117366e-10,
        1.6848984479935108e-09,
        -1.4011625179822362e-10,
        -4.758818838790199e-10,
        1.851511882894619e-11,
        6.30596519729207e-11,
    ],
];
