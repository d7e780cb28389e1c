//! The cumulative distribution function of the standard normal distribution, its inverse, and the inverse of the error function.
//!
//! Rational functions of Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37
//! (1988): relative errors are about 1e-16, before rounding.

use crate::vectorized::{Float, Lanes, Scalar, Vector};
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

fn quotient(x: f64, [above, below]: &Rational) -> f64 {
    let value = |c: &[f64; 8]| c.iter().rev().fold(0.0f64, |sum, c| sum.mul_add(x, *c));
    value(above) / value(below)
}

/// The inverse of the distribution function at `1/2 + q`, given the smaller of the probabilities of the two tails.
fn inverse(q: f64, tail: f64) -> f64 {
    if q.abs() <= 0.425 {
        return q * quotient(0.180_625 - q * q, &MIDDLE);
    }
    let r = (-tail.ln()).sqrt();
    let size = if r <= 5.0 { quotient(r - 1.6, &TAIL) } else { quotient(r - 5.0, &FAR_TAIL) };
    size.copysign(q)
}

/// The cumulative distribution function of the standard normal distribution, precise in both tails.
pub fn ndtr(x: f64) -> f64 {
    let mut lanes = [0.0; 16];
    <f64 as Lanes<Scalar>>::Vector::splat(-x * FRAC_1_SQRT_2).erfc().spill(&mut lanes);
    0.5 * lanes[0]
}

/// The inverse of [`ndtr`]; NaN outside of 0 to 1.
pub fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        p if p > 0.0 && p < 1.0 => inverse(p - 0.5, p.min(1.0 - p)),
        _ => f64::NAN,
    }
}

/// The inverse of the error function; NaN outside of -1 to 1.
pub(super) fn erfinv(x: f64) -> f64 {
    match x.abs() {
        1.0 => f64::INFINITY.copysign(x),
        // For small numbers the tail is not used, and for others it is exact.
        size if size < 1.0 => FRAC_1_SQRT_2 * inverse(x / 2.0, (1.0 - size) / 2.0),
        _ => f64::NAN,
    }
}
