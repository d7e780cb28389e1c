//! Polynomials on vectors, and functions of vectors as functions of a number.

use crate::vectorized::{Float, Lanes, Scalar, Vector};

/// A vector of one lane.
type OneLane = <f64 as Lanes<Scalar>>::Vector;

/// A function of vectors, of one number.
pub(super) fn of_number(function: impl Fn(OneLane) -> OneLane, x: f64) -> f64 {
    let mut lanes = [0.0; 16];
    function(OneLane::splat(x)).spill(&mut lanes);
    lanes[0]
}

/// The polynomial with these coefficients, from the constant on.
#[inline(always)]
pub(super) fn horner<V: Float>(x: V, coefficients: &[f64]) -> V {
    coefficients.iter().rev().fold(V::zero(), |sum, c| sum.mul_add(x, V::constant(*c)))
}
