//! Compares the elements of a tensor with expected values.

use crate::array::Array;
use crate::call::array;
use flambeau_core::ScalarType;
use flambeau_ops::Tensor;

/// The distance from `x` to the next number of `dtype` away from zero; 0 for integers.
pub fn ulp(x: f64, dtype: ScalarType) -> f64 {
    let (digits, min_exponent) = match dtype.to_real() {
        ScalarType::F16 => (10, -24),
        ScalarType::BF16 => (7, -133),
        ScalarType::F32 => (23, -149),
        ScalarType::F64 => (52, -1074),
        _ => return 0.0,
    };
    if x == 0.0 || !x.is_finite() {
        return 2f64.powi(min_exponent);
    }
    2f64.powi((x.abs().log2().floor() as i32 - digits).max(min_exponent))
}

/// The largest finite number of `dtype`.
fn largest(dtype: ScalarType) -> f64 {
    match dtype.to_real() {
        ScalarType::F16 => 65504.0,
        ScalarType::BF16 => 3.389_531_389_251_535_5e38,
        ScalarType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}

/// How far a result may be from its reference.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// In ulps of its type,
    pub ulps: f64,
    /// of a number that is at min_exponent this large: what is added has errors of its own.
    pub terms: f64,
}

impl Bound {
    /// In ulps of the result itself.
    pub fn of(ulps: f64) -> Self {
        Bound { ulps, terms: 0.0 }
    }
}

/// Whether `got` is `expected` within a bound. Half an ulp more is the rounding of `expected` itself.
pub fn close(got: f64, expected: f64, dtype: ScalarType, bound: Bound) -> bool {
    if expected.is_nan() || got.is_nan() {
        return expected.is_nan() && got.is_nan();
    }
    let limit = largest(dtype);
    if dtype.to_real().is_floating_point() && expected.abs() > limit * (1.0 - ulp(1.0, dtype) * bound.ulps) {
        return got.signum() == expected.signum()
            && got.abs() >= limit * (1.0 - 2.0 * ulp(1.0, dtype) * bound.ulps);
    }
    got == expected
        || (got - expected).abs() <= (bound.ulps + 0.5) * ulp(expected.abs().max(bound.terms), dtype)
}

/// Describes the first element in which a tensor differs from what it should be.
pub fn difference(got: &Tensor, expected: &Array, bound: Bound) -> Option<String> {
    let values = array(got);
    if values.sizes != expected.sizes {
        return Some(format!("expected sizes {:?} but got {:?}", expected.sizes, values.sizes));
    }
    let wrong = |i: &usize| !close(values.data[*i], expected.data[*i], got.dtype(), bound);
    let at = (0..values.data.len()).find(wrong)?;
    let (got_value, expected_value) = (values.data[at], expected.data[at]);
    let error = (got_value - expected_value).abs() / ulp(expected_value, got.dtype());
    Some(format!("element {at}: expected {expected_value:e} but got {got_value:e} ({error:.1} ulp)"))
}

/// Describes the first element in which two tensors differ in a bit (any NaN equals any NaN).
pub fn bit_difference(a: &Tensor, b: &Tensor) -> Option<String> {
    if a.dtype() != b.dtype() || a.sizes() != b.sizes() {
        return Some(format!("{a:?} is not {b:?}"));
    }
    let (a, b) = (array(a), array(b));
    let differs = |i: &usize| {
        a.data[*i].to_bits() != b.data[*i].to_bits() && !(a.data[*i].is_nan() && b.data[*i].is_nan())
    };
    let at = (0..a.data.len()).find(differs)?;
    Some(format!("element {at}: {:e} is not {:e}", a.data[at], b.data[at]))
}
