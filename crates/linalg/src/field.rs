//! The numbers of matrices: what the algorithms need of an element and of its magnitude.
#![expect(unsafe_code, reason = "says how numbers are stored")]

use flambeau_core::Complex;
use flambeau_gemm::GemmElement;
use std::{
    fmt::Debug,
    iter::Sum,
    ops::{Add, Div, Mul, Neg, RangeInclusive, Sub},
};

/// An element of a matrix. Formulas take the conjugate where complex numbers need it, which is the number itself for real ones.
///
/// # Safety
/// - In memory an element is its real part, followed by its imaginary part if [`IS_COMPLEX`](Field::IS_COMPLEX).
pub unsafe trait Field:
    Copy
    + Debug
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Sum
    + Send
    + Sync
    + 'static
{
    /// The type of a part, and of a magnitude.
    type Real: Real;
    /// The complex type with parts of the same type, which is that of eigenvalues.
    type Complex: Field<Real = Self::Real, Complex = Self::Complex>;
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;
    /// Whether there is an imaginary part.
    const IS_COMPLEX: bool;
    /// The complex conjugate.
    fn conj(self) -> Self;
    /// The real part.
    fn re(self) -> Self::Real;
    /// The imaginary part, which is 0 for real numbers.
    fn im(self) -> Self::Real;
    /// A number of these parts, of which a real one takes the first.
    fn from_parts(re: Self::Real, im: Self::Real) -> Self;
    /// A real number as an element.
    fn from_real(value: Self::Real) -> Self;
    /// The product with a real number, part by part.
    fn scaled(self, by: Self::Real) -> Self;
    /// The quotient by a real number, part by part.
    fn divided(self, by: Self::Real) -> Self;
    /// The magnitude.
    fn magnitude(self) -> Self::Real;
    /// What pivots are compared by: LAPACK's `|re| + |im|`, which needs no root.
    fn pivot_size(self) -> Self::Real;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Whether it is NaN, or a part of it is.
    fn is_nan(self) -> bool;
}

/// A magnitude: f32 or f64.
pub trait Real: Field<Real = Self> + GemmElement<Scalar = Self> + PartialOrd {
    /// Half of the distance from 1 to the next number.
    const EPSILON: Self;
    /// The smallest number whose reciprocal is finite.
    const SAFE_MIN: Self;
    /// Bunch and Kaufman's threshold of pivots, `(1 + sqrt(17)) / 8`.
    const PIVOT_RATIO: Self;
    /// Magnitudes of the largest element of a matrix between which spectral decompositions do not scale it.
    const UNSCALED: RangeInclusive<f64>;
    /// The largest power of two by which a row or column is balanced, as an exponent: products with it do not overflow later.
    const LARGEST_EXPONENT: i32;
    /// The largest element of an eigenvector while it is computed.
    const LARGEST_ELEMENT: Self;
    /// Its value.
    fn to_f64(self) -> f64;
    /// The nearest number.
    fn from_f64(value: f64) -> Self;
    /// The larger one of two numbers.
    fn larger(self, other: Self) -> Self;
    /// The smaller one of two numbers.
    fn smaller(self, other: Self) -> Self;
    /// The root.
    fn sqrt(self) -> Self;
    /// The magnitude of this with the sign of `other`.
    fn with_sign_of(self, other: Self) -> Self;
}

macro_rules! real {
    ($($t:ident: $unscaled:expr, $exponent:expr, $element:expr;)*) => {$(
        // SAFETY: it is its real part.
        unsafe impl Field for $t {
            type Real = $t;
            type Complex = Complex<$t>;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const IS_COMPLEX: bool = false;
            fn conj(self) -> Self {
                self
            }
            fn re(self) -> Self {
                self
            }
            fn im(self) -> Self {
                0.0
            }
            fn from_parts(re: Self, _: Self) -> Self {
                re
            }
            fn from_real(value: Self) -> Self {
                value
            }
            fn scaled(self, by: Self) -> Self {
                self * by
            }
            fn divided(self, by: Self) -> Self {
                self / by
            }
            fn magnitude(self) -> Self {
                self.abs()
            }
            fn pivot_size(self) -> Self {
                self.abs()
            }
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }

        impl Real for $t {
            const EPSILON: Self = $t::EPSILON / 2.0;
            const SAFE_MIN: Self = $t::MIN_POSITIVE;
            const PIVOT_RATIO: Self = 0.640_388_203_202_208_f64 as $t;
            const UNSCALED: RangeInclusive<f64> = $unscaled;
            const LARGEST_EXPONENT: i32 = $exponent;
            const LARGEST_ELEMENT: Self = $element;
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            fn with_sign_of(self, other: Self) -> Self {
                self.copysign(other)
            }
        }

        // SAFETY: `Complex` is declared so: two parts, the real one first.
        unsafe impl Field for Complex<$t> {
            type Real = $t;
            type Complex = Complex<$t>;
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            const IS_COMPLEX: bool = true;
            fn conj(self) -> Self {
                Complex::conj(self)
            }
            fn re(self) -> $t {
                self.re
            }
            fn im(self) -> $t {
                self.im
            }
            fn from_parts(re: $t, im: $t) -> Self {
                Complex::new(re, im)
            }
            fn from_real(value: $t) -> Self {
                Complex::new(value, 0.0)
            }
            fn scaled(self, by: $t) -> Self {
                Complex::new(self.re * by, self.im * by)
            }
            fn divided(self, by: $t) -> Self {
                Complex::new(self.re / by, self.im / by)
            }
            fn magnitude(self) -> $t {
                self.re.hypot(self.im)
            }
            fn pivot_size(self) -> $t {
                self.re.abs() + self.im.abs()
            }
            fn is_finite(self) -> bool {
                self.re.is_finite() && self.im.is_finite()
            }
            fn is_nan(self) -> bool {
                self.re.is_nan() || self.im.is_nan()
            }
        }
    )*};
}
real! {
    f32: 1e-12..=1e12, 24, 1e8;
    f64: 1e-120..=1e120, 200, 1e60;
}
