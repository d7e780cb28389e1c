//! Complex tensors from outside: values against references that compute with pairs of f64, special values against C99, structure, errors
//! and derivatives.

mod arithmetic;
mod convolutions;
mod derivatives;
mod errors;
mod fourier;
mod functions;
mod linear_algebra;
mod structure;

use flambeau_core::{Complex, ScalarType};
use flambeau_ops::{Tensor, ops};

/// A complex number of the references.
pub type C = Complex<f64>;

/// Both complex types.
pub const COMPLEX: [ScalarType; 2] = [ScalarType::Complex64, ScalarType::Complex128];

/// `re + i im`.
pub fn c(re: f64, im: f64) -> C {
    Complex::new(re, im)
}

/// The unit roundoff of the parts of a type, times two.
pub fn eps(dtype: ScalarType) -> f64 {
    if dtype == ScalarType::Complex64 { f32::EPSILON.into() } else { f64::EPSILON }
}

/// A tensor of these numbers in a type.
pub fn tensor(values: &[C], sizes: &[i64], dtype: ScalarType) -> Tensor {
    let wide = Tensor::from_vec(values.to_vec(), sizes).unwrap();
    ops::to_dtype(&wide, dtype, false, false, None).unwrap()
}

/// The numbers of a complex tensor, in f64.
pub fn numbers(tensor: &Tensor) -> Vec<C> {
    ops::to_dtype(tensor, ScalarType::Complex128, false, false, None).unwrap().to_vec().unwrap()
}

/// The numbers of a real tensor, in f64.
pub fn reals(tensor: &Tensor) -> Vec<f64> {
    assert!(!tensor.is_complex(), "{tensor:?}");
    ops::to_dtype(tensor, ScalarType::F64, false, false, None).unwrap().to_vec().unwrap()
}

/// Numbers without a pattern, with parts in -2 to 2, that a f32 holds.
pub fn draw(count: usize, seed: u64) -> Vec<C> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut part = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((((state >> 33) as f64 / f64::from(1u32 << 31) - 0.5) * 4.0) as f32)
    };
    (0..count).map(|_| c(part(), part())).collect()
}

/// The absolute value.
pub fn abs(z: C) -> f64 {
    z.re.hypot(z.im)
}

/// Fails where a number is further than `ulps` units of `scale` (at least its own size) from what it should be.
pub fn expect_close(what: &str, got: &[C], expected: &[C], dtype: ScalarType, ulps: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = abs(*got - *expected) / (abs(*expected) * eps(dtype)).max(1e-300);
        assert!(
            error <= ulps,
            "{what} in {dtype}, number {i}: expected {expected} but got {got}, off by {error:.2}"
        );
    }
}

/// [`expect_close`] of real numbers.
pub fn expect_close_reals(what: &str, got: &[f64], expected: &[f64], dtype: ScalarType, ulps: f64) {
    let wide = |values: &[f64]| values.iter().map(|x| c(*x, 0.0)).collect::<Vec<_>>();
    expect_close(what, &wide(got), &wide(expected), dtype, ulps);
}
