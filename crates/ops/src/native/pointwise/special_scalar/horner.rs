//! Polynomials on vectors, functions of vectors as functions of a number, functions of numbers on the lanes of vectors, and rounding to f32.

use crate::vectorized::{Float, FloatElement, Lanes, Scalar, Vector};
use flambeau_core::Element;

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
    horner_from(V::zero(), x, coefficients)
}

/// The polynomial with these coefficients, and `rest` times the next power.
#[inline(always)]
pub(super) fn horner_from<V: Float>(rest: V, x: V, coefficients: &[f64]) -> V {
    coefficients.iter().rev().fold(rest, |sum, c| sum.mul_add(x, V::constant(*c)))
}

/// A number rounded to f32, which is that of the tensor, by Veltkamp's splitting; those that f32 has no number for stay as they are.
#[inline(always)]
pub(super) fn rounded<V: Float>(x: V) -> V {
    let product = x * V::constant((1u64 << 29) as f64 + 1.0);
    V::select(x.abs().lt(V::constant(f64::from(f32::MAX))), product - (product - x), x)
}

/// Applies `function` to the first `count` lanes. Not inlined, so that one copy serves all instruction sets.
#[inline(never)]
pub(super) fn map_lanes<E: Element + FloatElement, const N: usize>(
    lanes: &[[E; 16]; N],
    count: usize,
    function: impl Fn([f64; N]) -> f64,
) -> [E; 16] {
    let mut results = [E::from_f64(0.0); 16];
    for (i, result) in results.iter_mut().take(count).enumerate() {
        *result = E::from_f64(function(lanes.map(|lane| lane[i].to_scalar().to_f64())));
    }
    results
}
