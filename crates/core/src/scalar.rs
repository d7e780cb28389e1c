//! One number that is not a tensor: the `2.5` in `x * 2.5`.

use crate::{Complex, Element, Result, ScalarType, bail};
use std::fmt;

/// 2^64, to which the conversion rounds; `powi` may be inexact.
const TWO_TO_64: f64 = u64::MAX as f64;

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
    /// An integer above those of [`Int`](Scalar::Int), which only uint64 has.
    UInt(u64),
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
            Scalar::UInt(_) => ScalarType::U64,
            Scalar::Float(_) => ScalarType::F64,
            Scalar::Complex(..) => ScalarType::Complex128,
        }
    }

    /// The value as an f64, rounded to nearest; the real part of a complex number.
    #[inline]
    pub fn to_f64(self) -> f64 {
        let whole = self.whole() as f64;
        let float = match self {
            Scalar::Float(f) | Scalar::Complex(f, _) => f,
            Scalar::UInt(u) => u as f64,
            _ => 0.0,
        };
        f64::from_bits(whole.to_bits() | float.to_bits())
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

    /// The value of a bool or an integer, and 0 for others and for integers above i64. This and the functions that use it have no branches,
    /// so that the compiler can hoist them out of loops over elements.
    #[inline]
    fn whole(self) -> i64 {
        let int = if let Scalar::Int(i) = self { i } else { 0 };
        int | i64::from(matches!(self, Scalar::Bool(true)))
    }

    /// The value as an i64: floats are truncated towards zero, and saturate; of a complex number, the real part. Integers above i64
    /// saturate too.
    #[inline]
    pub fn to_i64(self) -> i64 {
        let other = match self {
            Scalar::Float(f) | Scalar::Complex(f, _) => f as i64,
            Scalar::UInt(_) => i64::MAX,
            _ => 0,
        };
        self.whole() | other
    }

    /// The value as a u64: floats are truncated towards zero, and saturate above; of a complex number, the real part. Negative numbers
    /// wrap.
    #[inline]
    pub fn to_u64(self) -> u64 {
        match self {
            Scalar::UInt(u) => u,
            Scalar::Float(f) | Scalar::Complex(f, _) if f >= 0.0 => f as u64,
            other => other.to_i64() as u64,
        }
    }

    /// Whether it differs from zero; NaN does.
    #[inline]
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::UInt(u) => u != 0,
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
            Scalar::Int(_) | Scalar::UInt(_) => true,
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
    /// PyTorch; infinities and NaN fit floating point types only. As bool, every number but 0 is true.
    ///
    /// # Errors
    /// `InvalidArgument` naming the value and the type.
    pub fn check_range(self, dtype: ScalarType) -> Result<()> {
        let wraps = match (dtype, self) {
            (ScalarType::Bool, _) => true,
            (ScalarType::U8, Scalar::Int(i)) => i.unsigned_abs() <= u8::MAX.into(),
            (ScalarType::U16, Scalar::Int(i)) => i.unsigned_abs() <= u16::MAX.into(),
            (ScalarType::U32, Scalar::Int(i)) => i.unsigned_abs() <= u32::MAX.into(),
            (ScalarType::U64, Scalar::Int(_)) => true,
            _ => false,
        };
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
            ScalarType::I64 if matches!(self, Scalar::UInt(_)) => return false,
            ScalarType::I64 => (i64::MIN as f64, i64::MAX as f64),
            ScalarType::U16 => (0.0, u16::MAX.into()),
            ScalarType::U32 => (0.0, u32::MAX.into()),
            ScalarType::U64 if matches!(self, Scalar::UInt(_)) => return true,
            ScalarType::U64 => (0.0, TWO_TO_64.next_down()),
            ScalarType::F16 | ScalarType::Complex32 => (-65504.0, 65504.0),
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
            Scalar::UInt(u) => write!(f, "{u}"),
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

/// As an [`Int`](Scalar::Int) where it is one.
impl From<u64> for Scalar {
    #[inline]
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Scalar::UInt(value), Scalar::Int)
    }
}

impl<T: Into<f64>> From<Complex<T>> for Scalar {
    #[inline]
    fn from(value: Complex<T>) -> Self {
        Scalar::Complex(value.re.into(), value.im.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Scalar::{self, Bool, Float, Int, UInt};
    use super::TWO_TO_64;
    use crate::ScalarType::*;
    use crate::{Element, float8};

    const ABOVE: u64 = i64::MAX as u64 + 1;

    #[test]
    fn integers_above_i64_keep_their_value() {
        assert_eq!((Scalar::from(7u64), Scalar::from(u64::MAX)), (Int(7), UInt(u64::MAX)));
        let largest = UInt(u64::MAX);
        assert_eq!((largest.scalar_type(), largest.to_f64()), (U64, TWO_TO_64));
        assert_eq!((largest.to_u64(), largest.to_i64(), largest.to_bool()), (u64::MAX, i64::MAX, true));
        assert_eq!(
            (u64::from_scalar(largest).to_scalar(), largest.to_string()),
            (largest, "18446744073709551615".to_string())
        );
        assert!(largest.is_integral(false) && !largest.is_floating_point());
    }

    #[test]
    fn floats_become_u64_by_truncation_and_negative_numbers_wrap() {
        let of = |number: Scalar| u64::from_scalar(number);
        assert_eq!(
            [of(Float(1e19)), of(Float(3.9)), of(Float(1e30))],
            [10_000_000_000_000_000_000, 3, u64::MAX]
        );
        assert_eq!([of(Int(-1)), of(Float(-2.5)), of(Bool(true))], [u64::MAX, u64::MAX - 1, 1]);
    }

    #[test]
    fn unsigned_types_have_the_ranges_of_pytorch() {
        let fits = |number: Scalar, dtype| number.check_range(dtype).is_ok();
        assert!(
            fits(Int(-1), U16) && fits(Int(65535), U16) && !fits(Int(65536), U16) && !fits(Int(-65536), U16)
        );
        assert!(
            fits(Int(-1), U8) && fits(Float(255.0), U8) && !fits(Float(-0.5), U8) && !fits(Int(-256), U8)
        );
        assert!(fits(Int(-70000), U32) && !fits(Float(-1.0), U32) && !fits(Float(1e10), U32));
        assert!(
            fits(UInt(ABOVE), U64)
                && fits(Int(i64::MIN), U64)
                && fits(Float(1e19), U64)
                && !fits(Float(2e19), U64)
        );
        assert!(!fits(UInt(ABOVE), I64) && fits(Int(i64::MAX), I64) && !fits(UInt(ABOVE), U32));
        assert!(!fits(Float(f64::NAN), U64) && !fits(Float(f64::INFINITY), U16));
        assert!(UInt(ABOVE).is_in_range(U64) && !Int(-1).is_in_range(U64) && !Int(-1).is_in_range(U16));
    }

    #[test]
    fn an_imaginary_part_fits_complex_types_and_bool() {
        for dtype in [U8, U16, I8, I64, F16, F32, F64] {
            assert!(Scalar::Complex(1.0, 2.0).check_range(dtype).is_err(), "{dtype}");
            assert!(Scalar::Complex(1.0, 0.0).check_range(dtype).is_ok(), "{dtype}");
        }
        for dtype in [crate::ScalarType::Bool, Complex64] {
            assert!(Scalar::Complex(0.0, 2.0).check_range(dtype).is_ok(), "{dtype}");
        }
        assert!(
            Scalar::Complex(0.0, 2.0).to::<bool>().unwrap()
                && !Scalar::Complex(0.0, 0.0).to::<bool>().unwrap()
        );
    }

    #[test]
    fn floats_of_eight_bits_take_every_real_number() {
        for dtype in [F8E4M3FN, F8E5M2, F8E8M0FNU] {
            assert!(
                [1e10, f64::INFINITY, f64::NAN, -1.0].map(Float).iter().all(|x| x.check_range(dtype).is_ok())
            );
            assert!(Scalar::Complex(1.0, 2.0).check_range(dtype).is_err());
        }
        assert_eq!(float8::F8E4M3FN::from_scalar(Int(1000)).to_scalar(), Float(448.0));
        assert_eq!(float8::F8E8M0FNU::from_scalar(Float(-3.0)).to_scalar(), Float(4.0));
    }
}
