//! The cumulative distribution function of the standard normal distribution, its inverse, and the inverse of the error function.
//!
//! Rational functions of Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37
//! (1988): relative errors are about 1e-16, before rounding.

use super::horner::{horner, of_number};
use crate::vectorized::{Float, Mask};
use std::f64::consts::FRAC_1_SQRT_2;

/// The coefficients of numerator and denominator, from the constant on.
type Rational = [[f64; 8]; 2];

/// In `0.180625 - q^2` for `|q| <= 0.425`, where `q` is the probability minus 1/2.
const MIDDLE: Rational = [
    [
        3.3871328727963665,
        133.14166789178438,
        1971.5909503065513,
        13731.69376550946,
        45921.95393154987,
        67265.7709270087,
        33430.57558358813,
        2509.0809287301227,
    ],
    [
        1.0,
        42.31333070160091,
        687.1870074920579,
        5394.196021424751,
        21213.794301586597,
        39307.89580009271,
        28729.085735721943,
        5226.495278852854,
    ],
];

/// In `r - 1.6` for `r <= 5`, where `r` is `sqrt(-ln(tail))` for the probability of the tail.
const TAIL: Rational = [
    [
        1.4234371107496835,
        4.630337846156546,
        5.769497221460691,
        3.6478483247632045,
        1.2704582524523684,
        0.2417807251774506,
        0.022723844989269184,
        0.0007745450142783414,
    ],
    [
        1.0,
        2.053191626637759,
        1.6763848301838038,
        0.6897673349851,
        0.14810397642748008,
        0.015198666563616457,
        0.0005475938084995345,
        1.0507500716444169e-9,
    ],
];

/// In `r - 5` for `r > 5`.
const FAR_TAIL: Rational = [
    [
        6.657904643501103,
        5.463784911164114,
        1.7848265399172913,
        0.29656057182850487,
        0.026532189526576124,
        0.0012426609473880784,
        2.7115555687434876e-5,
        2.0103343992922881e-7,
    ],
    [
        1.0,
        0.599832206555888,
        0.1369298809227358,
        0.014875361290850615,
        0.0007868691311456133,
        1.8463183175100548e-5,
        1.421511758316446e-7,
        2.0442631033899397e-15,
    ],
];

#[inline(always)]
fn quotient<V: Float>(x: V, [above, below]: &Rational) -> V {
    horner(x, above) / horner(x, below)
}

/// The inverse of the distribution function at `1/2 + q`, given the smaller of the probabilities of the two tails.
#[inline(always)]
fn inverse<V: Float>(q: V, tail: V) -> V {
    let middle = q * quotient(V::constant(0.180_625) - q * q, &MIDDLE);
    let in_tail = q.abs().gt(V::constant(0.425));
    if !in_tail.any() {
        return middle;
    }
    let r = (-tail.log()).sqrt();
    let mut size = quotient(r - V::constant(1.6), &TAIL);
    let is_far = r.gt(V::constant(5.0));
    if is_far.any() {
        size = V::select(is_far, quotient(r - V::constant(5.0), &FAR_TAIL), size);
    }
    V::select(in_tail, size.copysign(q), middle)
}

/// The cumulative distribution function of the standard normal distribution, precise in both tails.
pub fn ndtr(x: f64) -> f64 {
    0.5 * of_number(|x| x.erfc(), -x * FRAC_1_SQRT_2)
}

/// The inverse of [`ndtr`]; NaN outside of 0 to 1.
pub fn ndtri(p: f64) -> f64 {
    of_number(quantile, p)
}

/// [`ndtri`] on vectors.
#[inline(always)]
pub(super) fn quantile<V: Float>(p: V) -> V {
    let (zero, one, infinity) = (V::zero(), V::one(), V::constant(f64::INFINITY));
    let inside = inverse(p - V::constant(0.5), p.min(one - p));
    let at_end = V::select(p.eq(one), infinity, V::select(p.eq(zero), -infinity, V::constant(f64::NAN)));
    V::select(p.gt(zero) & p.lt(one), inside, at_end)
}

/// The inverse of the error function; NaN outside of -1 to 1.
#[inline(always)]
pub(super) fn erfinv<V: Float>(x: V) -> V {
    let (half, one, size) = (V::constant(0.5), V::one(), x.abs());
    // For small numbers the tail is not used, and for others it is exact.
    let inside = V::constant(FRAC_1_SQRT_2) * inverse(x * half, (one - size) * half);
    let infinity = V::constant(f64::INFINITY).copysign(x);
    V::select(size.lt(one), inside, V::select(size.eq(one), infinity, V::constant(f64::NAN)))
}
