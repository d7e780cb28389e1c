//! One number that is not a tensor: the `2.5` in `x * 2.5`.

use crate::{Complex, Element, Result, ScalarType, bail};
use std::fmt;

/// A bool, an integer, a floating point or a complex number, at full width. PyTorch's `Scalar`.
///
/// ```
/// use flambeau_core::{Scalar, ScalarType};
/// let s: Scalar = 3.into();
/// assert_eq!(s.scalar_type(), ScalarType::I64);
/// assert_eq!(s.to_f64(), 3.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// A complex number: its real and its imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// The type it has in promotion, where it ranks below any tensor of the same category.
    pub fn scalar_type(self) -> ScalarType {
        match self {
            Scalar::Bool(_) => ScalarType::Bool,
            Scalar::Int(_) => ScalarType::I64,
            Scalar::Float(_) => ScalarType::F64,
            Scalar::Complex(..) => ScalarType::Complex128,
        }
    }

    /// The value as an f64, rounded to nearest; the real part of a complex number.
    #[inline]
    pub fn to_f64(self) -> f64 {
        let whole = self.whole() as f64;
        let float = if let Scalar::Float(f) | Scalar::Complex(f, _) = self { f.to_bits() } else { 0 };
        f64::from_bits(whole.to_bits() | float)
    }

    /// The real and the imaginary part.
    #[inline]
    pub fn to_complex(self) -> (f64, f64) {
        let im = if let Scalar::Complex(_, im) = self { im } else { 0.0 };
        (self.to_f64(), im)
    }

    /// The conjugate; other numbers are their own.
    #[inline]
    #[must_use]
    pub fn conj(self) -> Scalar {
        if let Scalar::Complex(re, im) = self { Scalar::Complex(re, -im) } else { self }
    }

    /// The value of a bool or an integer, and 0 for others. This and the functions that use it have no branches, so that the compiler can
    /// hoist them out of loops over elements.
    #[inline]
    fn whole(self) -> i64 {
        let int = if let Scalar::Int(i) = self { i } else { 0 };
        int | i64::from(matches!(self, Scalar::Bool(true)))
    }

    /// The value as an i64: floats are truncated towards zero, and saturate; of a complex number, the real part.
    #[inline]
    pub fn to_i64(self) -> i64 {
        let float = if let Scalar::Float(f) | Scalar::Complex(f, _) = self { f as i64 } else { 0 };
        self.whole() | float
    }

    /// Whether it differs from zero; NaN does.
    #[inline]
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
            Scalar::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    /// Whether it is a floating point number.
    pub fn is_floating_point(self) -> bool {
        matches!(self, Scalar::Float(_))
    }

    /// Whether it is a complex number.
    #[inline]
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(..))
    }

    /// Whether it is an integer; bool counts only if `include_bool`.
    pub fn is_integral(self, include_bool: bool) -> bool {
        match self {
            Scalar::Int(_) => true,
            Scalar::Bool(_) => include_bool,
            Scalar::Float(_) | Scalar::Complex(..) => false,
        }
    }

    /// The value as an element of type `T`.
    ///
    /// # Errors
    /// `InvalidArgument` where the value is outside the range of `T` (PyTorch's "cannot be converted without overflow").
    pub fn to<T: Element>(self) -> Result<T> {
        self.check_range(T::SCALAR_TYPE)?;
        Ok(T::from_scalar(self))
    }

    /// Whether the value lies in the range of `dtype`. Negative integers fit unsigned types modulo their size, as in
    /// PyTorch; infinities and NaN fit floating point types only.
    ///
    /// # Errors
    /// `InvalidArgument` naming the value and the type.
    pub fn check_range(self, dtype: ScalarType) -> Result<()> {
        let wraps = dtype == ScalarType::U8 && (-255.0..=255.0).contains(&self.to_f64());
        if !wraps && !self.is_in_range(dtype) {
            bail!(InvalidArgument, "value {self} cannot be converted to type {dtype} without overflow");
        }
        Ok(())
    }

    /// Whether the value lies in the range of `dtype`, even if it must be rounded: infinities and NaN are in the range of floating point
    /// types. A complex number is in the range of real types if its imaginary part is 0.
    pub fn is_in_range(self, dtype: ScalarType) -> bool {
        if let Scalar::Complex(re, im) = self {
            let part = dtype.to_real();
            let fits = |value: f64| Scalar::Float(value).is_in_range(part);
            return if dtype.is_complex() { fits(re) && fits(im) } else { im == 0.0 && fits(re) };
        }
        let (low, high) = match dtype {
            ScalarType::U8 => (0.0, 255.0),
            ScalarType::I8 => (-128.0, 127.0),
            ScalarType::I16 => (-32768.0, 32767.0),
            ScalarType::I32 => (i32::MIN as f64, i32::MAX as f64),
            ScalarType::I64 => (i64::MIN as f64, i64::MAX as f64),
            ScalarType::F16 => (-65504.0, 65504.0),
            ScalarType::BF16 => (-3.389_531_389_251_535_5e38, 3.389_531_389_251_535_5e38),
            ScalarType::F32 | ScalarType::Complex64 => (f32::MIN as f64, f32::MAX as f64),
            _ => return true,
        };
        let value = self.to_f64();
        if value.is_finite() { (low..=high).contains(&value) } else { dtype.is_differentiable() }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
            Scalar::Complex(re, im) => write!(f, "({})", Complex::new(re, im)),
        }
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident),*) => {$(
        impl From<$rust> for Scalar {
            #[inline]
            fn from(value: $rust) -> Self {
                Scalar::$variant(value.into())
            }
        }
    )*};
}

from!(bool => Bool, u8 => Int, i8 => Int, i16 => Int, u16 => Int, i32 => Int, u32 => Int, i64 => Int);
from!(f32 => Float, f64 => Float, half::f16 => Float, half::bf16 => Float);

impl<T: Into<f64>> From<Complex<T>> for Scalar {
    #[inline]
    fn from(value: Complex<T>) -> Self {
        Scalar::Complex(value.re.into(), value.im.into())
    }
}
