//! What precedes every spectral decomposition: one pass that finds numbers which are not finite, and a power of two by which a matrix
//! of extreme numbers is scaled, so that no square overflows or underflows.

use crate::field::{Field, Real};
use crate::matrix::MatrixMut;
use std::ops::RangeInclusive;

/// Why there is no decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An element is infinite or NaN.
    NotFinite,
    /// This many values were not found after the largest number of iterations.
    NotConverged(usize),
}

/// The power of two by which a matrix was divided, as two factors: that of a subnormal number has no reciprocal in f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale([f64; 2]);

impl Scale {
    /// Of a matrix that was not scaled.
    pub(crate) const NONE: Self = Self([1.0; 2]);

    /// What was computed of the scaled matrix, multiplied.
    pub(crate) fn undone<T: Field>(self, value: T) -> T {
        let [first, second] = self.0.map(T::Real::from_f64);
        value.scaled(first).scaled(second)
    }

    /// Multiplies what was computed of the scaled matrix.
    pub(crate) fn undo(self, values: &mut [f64]) {
        values.iter_mut().for_each(|value| *value = self.undone(*value));
    }
}

/// The largest power of two up to a positive number; 1 for 0 and subnormal numbers.
pub(crate) fn power_of_two(x: f64) -> f64 {
    if x.is_normal() { f64::from_bits(x.abs().to_bits() & f64::INFINITY.to_bits()) } else { 1.0 }
}

/// Divides `a` by a power of two if its largest number is extreme.
pub(crate) fn scale<T: Field>(a: &mut MatrixMut<'_, T>) -> Result<Scale, Failure> {
    scale_to_range(a, &T::Real::UNSCALED)
}

/// Divides `a` by a power of two if the magnitude of its largest number is out of a range around 1.
pub(crate) fn scale_to_range<T: Field>(
    a: &mut MatrixMut<'_, T>,
    range: &RangeInclusive<f64>,
) -> Result<Scale, Failure> {
    let mut largest = 0f64;
    for j in 0..a.columns() {
        for x in a.column(j).iter() {
            if !x.is_finite() {
                return Err(Failure::NotFinite);
            }
            largest = largest.max(x.pivot_size().to_f64().min(f64::MAX));
        }
    }
    if largest == 0.0 || range.contains(&largest) {
        return Ok(Scale::NONE);
    }
    let exponent = largest.log2().floor() as i32;
    let factors = [exponent / 2, exponent - exponent / 2].map(|half| f64::from(half).exp2());
    let down = factors.map(|factor| T::Real::from_f64(1.0 / factor));
    for j in 0..a.columns() {
        a.column(j).iter_mut().for_each(|x| *x = x.scaled(down[0]).scaled(down[1]));
    }
    Ok(Scale(factors))
}
