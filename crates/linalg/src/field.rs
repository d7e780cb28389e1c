//! The numbers of matrices: what the algorithms need of an element and of its magnitude.

use flambeau_gemm::GemmElement;
use std::{
    fmt::Debug,
    iter::Sum,
    ops::{Add, Div, Mul, Neg, Sub},
};

/// An element of a matrix. Formulas take the conjugate where complex numbers need it, which is the number itself for real ones.
pub trait Field:
    GemmElement<Scalar = Self>
    + Copy
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
    /// The type of a magnitude.
    type Real: Real;
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;
    /// Whether [`conj`](Field::conj) changes numbers.
    const IS_COMPLEX: bool;
    /// The complex conjugate.
    fn conj(self) -> Self;
    /// The real part.
    fn re(self) -> Self::Real;
    /// A real number as an element.
    fn from_real(value: Self::Real) -> Self;
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
pub trait Real: Field<Real = Self> + PartialOrd {
    /// Half of the distance from 1 to the next number.
    const EPSILON: Self;
    /// The smallest number whose reciprocal is finite.
    const SAFE_MIN: Self;
    /// The root.
    fn sqrt(self) -> Self;
    /// The magnitude of this with the sign of `other`.
    fn with_sign_of(self, other: Self) -> Self;
}

macro_rules! real {
    ($($t:ident: $safe_min:expr;)*) => {$(
        impl Field for $t {
            type Real = $t;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const IS_COMPLEX: bool = false;
            fn conj(self) -> Self {
                self
            }
            fn re(self) -> Self {
                self
            }
            fn from_real(value: Self) -> Self {
                value
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
            const SAFE_MIN: Self = $safe_min;
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            fn with_sign_of(self, other: Self) -> Self {
                self.copysign(other)
            }
        }
    )*};
}
real! {
    f32: f32::MIN_POSITIVE;
    f64: f64::MIN_POSITIVE;
}
