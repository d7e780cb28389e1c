//! Whether a tensor holds the values it should.

use crate::array::Array;
use crate::call::array;
use flambeau_core::ScalarType;
use flambeau_ops::Tensor;

/// The distance from `x` to the next number of `dtype` away from zero; 0 for integers.
pub fn ulp(x: f64, dtype: ScalarType) -> f64 {
    let (digits, least) = match dtype {
        ScalarType::F16 => (10, -24),
        ScalarType::BF16 => (7, -133),
        ScalarType::F32 => (23, -149),
        ScalarType::F64 => (52, -1074),
        _ => return 0.0,
    };
    if x == 0.0 || !x.is_finite() {
        return 2f64.powi(least);
    }
    2f64.powi((x.abs().log2().floor() as i32 - digits).max(least))
}

/// The largest finite number of `dtype`.
fn largest(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::F16 => 65504.0,
        ScalarType::BF16 => 3.389_531_389_251_535_5e38,
        ScalarType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}

/// How far a result may be from its reference.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// In units in the last place of its type,
    pub ulps: f64,
    /// of a number that is at least this large: what is added has errors of its own.
    pub terms: f64,
}

impl Bound {
    /// In units in the last place of the result itself.
    pub fn of(ulps: f64) -> Self {
        Bound { ulps, terms: 0.0 }
    }
}

/// Whether `got` is `wanted` within a bound. Half an ulp more is the rounding of `wanted` itself.
pub fn close(got: f64, wanted: f64, dtype: ScalarType, bound: Bound) -> bool {
    if wanted.is_nan() || got.is_nan() {
        return wanted.is_nan() && got.is_nan();
    }
    let limit = largest(dtype);
    if dtype.is_floating_point() && wanted.abs() > limit * (1.0 - ulp(1.0, dtype) * bound.ulps) {
        return got.signum() == wanted.signum()
            && got.abs() >= limit * (1.0 - 2.0 * ulp(1.0, dtype) * bound.ulps);
    }
    got == wanted || (got - wanted).abs() <= (bound.ulps + 0.5) * ulp(wanted.abs().max(bound.terms), dtype)
}

/// The first place where a tensor differs from what it should be, in words.
pub fn difference(got: &Tensor, wanted: &Array, bound: Bound) -> Option<String> {
    let values = array(got);
    if values.sizes != wanted.sizes {
        return Some(format!("expected sizes {:?} but got {:?}", wanted.sizes, values.sizes));
    }
    let wrong = |i: &usize| !close(values.data[*i], wanted.data[*i], got.dtype(), bound);
    let at = (0..values.data.len()).find(wrong)?;
    let (got_value, wanted_value) = (values.data[at], wanted.data[at]);
    let error = (got_value - wanted_value).abs() / ulp(wanted_value, got.dtype());
    Some(format!("element {at}: expected {wanted_value:e} but got {got_value:e} ({error:.1} ulp)"))
}

/// The first place where two tensors differ in a bit (any NaN equals any NaN), in words.
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
