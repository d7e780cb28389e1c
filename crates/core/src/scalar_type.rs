//! The types of elements, how they promote, and the Rust types that they correspond to.

use crate::{Complex, Error, Result, Scalar, error};
use half::{bf16, f16};
use std::fmt;

/// The type of a tensor's elements. PyTorch's `ScalarType` and `torch.dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ScalarType {
    /// `torch.bool`, one byte, 0 or 1.
    Bool,
    /// `torch.uint8`.
    U8,
    /// `torch.int8`.
    I8,
    /// `torch.int16`.
    I16,
    /// `torch.int32`.
    I32,
    /// `torch.int64`.
    I64,
    /// `torch.float16`: IEEE half precision.
    F16,
    /// `torch.bfloat16`: the upper half of an f32.
    BF16,
    /// `torch.float32`.
    F32,
    /// `torch.float64`.
    F64,
    /// `torch.complex64`: two f32.
    Complex64,
    /// `torch.complex128`: two f64.
    Complex128,
    /// `torch.uint16`; storage and conversion are still to come.
    U16,
    /// `torch.uint32`; storage and conversion are still to come.
    U32,
    /// `torch.uint64`; storage and conversion are still to come.
    U64,
    /// `torch.qint8`; still to come.
    QInt8,
    /// `torch.quint8`; still to come.
    QUInt8,
    /// `torch.qint32`; still to come.
    QInt32,
}

/// The rank of a type in promotion: a higher category wins over a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// `bool`.
    Boolean,
    /// Signed and unsigned integers.
    Integral,
    /// f16, bf16, f32, f64.
    Floating,
    /// Complex numbers.
    Complex,
    /// Quantized numbers, which promote with nothing.
    Quantized,
}

use ScalarType::*;

impl ScalarType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Bool | U8 | I8 | QInt8 | QUInt8 => 1,
            I16 | F16 | BF16 | U16 => 2,
            I32 | F32 | U32 | QInt32 => 4,
            I64 | F64 | U64 | Complex64 => 8,
            Complex128 => 16,
        }
    }

    /// Its rank in promotion.
    pub const fn category(self) -> Category {
        match self {
            Bool => Category::Boolean,
            U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 => Category::Integral,
            F16 | BF16 | F32 | F64 => Category::Floating,
            Complex64 | Complex128 => Category::Complex,
            QInt8 | QUInt8 | QInt32 => Category::Quantized,
        }
    }

    /// f16, bf16, f32 or f64.
    pub const fn is_floating_point(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Whether a tensor of it may carry a gradient or a tangent: floating point and complex types. PyTorch's `isDifferentiableType`.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        self.is_floating_point() || self.is_complex()
    }

    /// complex64 or complex128.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, Complex64 | Complex128)
    }

    /// The type of the parts of a complex type; other types stay. PyTorch's `toRealValueType`.
    #[inline]
    pub const fn to_real(self) -> ScalarType {
        match self {
            Complex64 => F32,
            Complex128 => F64,
            other => other,
        }
    }

    /// The complex type that holds the values of this type: complex128 for f64, and complex64 for all others, also for f16, since there is
    /// no complex type of halves. PyTorch's `toComplexType`.
    #[inline]
    pub const fn to_complex(self) -> ScalarType {
        match self {
            F64 | Complex128 => Complex128,
            _ => Complex64,
        }
    }

    /// An integer, bool excluded unless `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        matches!(self, U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64) || (include_bool && matches!(self, Bool))
    }

    /// Whether negative values can be held.
    pub const fn is_signed(self) -> bool {
        !matches!(self, Bool | U8 | U16 | U32 | U64 | QUInt8)
    }

    /// f16 and bf16, whose arithmetic is done in f32.
    pub const fn is_reduced_floating_point(self) -> bool {
        matches!(self, F16 | BF16)
    }

    /// The name that PyTorch prints after `torch.`: `float32`, `int64`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "uint8",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            Complex64 => "complex64",
            Complex128 => "complex128",
            QInt8 => "qint8",
            QUInt8 => "quint8",
            QInt32 => "qint32",
        }
    }

    /// The types that have storage and kernels today, lowest in promotion first.
    pub const WORKING: [ScalarType; 12] =
        [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, Complex64, Complex128];

    /// Whether it is one of [`WORKING`](Self::WORKING).
    #[inline]
    pub const fn is_working(self) -> bool {
        (self as u8) <= ScalarType::Complex128 as u8
    }

    /// Whether a result of type `self` may be written into a tensor of type `to`: categories never fall.
    ///
    /// ```
    /// use flambeau_core::ScalarType;
    /// assert!(ScalarType::F64.can_cast(ScalarType::F16));
    /// assert!(!ScalarType::F32.can_cast(ScalarType::I64));
    /// ```
    pub fn can_cast(self, to: ScalarType) -> bool {
        self.category() <= to.category()
    }

    /// The type in which elements of both types can be added: PyTorch's `promote_types`.
    ///
    /// `None` where there is none (quantized types, or unsigned types wider than a byte beside others).
    ///
    /// ```
    /// use flambeau_core::ScalarType::*;
    /// assert_eq!(U8.promote(I8), Some(I16));
    /// assert_eq!(F16.promote(BF16), Some(F32));
    /// assert_eq!(I64.promote(F16), Some(F16));
    /// ```
    pub fn promote(self, other: ScalarType) -> Option<ScalarType> {
        if self == other {
            return Some(self);
        }
        let (low, high) = if self.category() <= other.category() { (self, other) } else { (other, self) };
        match (low.category(), high.category()) {
            (_, Category::Quantized) => None,
            (Category::Boolean, _) => Some(high),
            (Category::Integral, Category::Integral) => promote_integers(low, high),
            (Category::Integral, _) => Some(high),
            (Category::Floating, Category::Floating) if low.size() == high.size() => Some(F32),
            (Category::Floating, Category::Complex) if low == F64 => Some(Complex128),
            (Category::Floating, Category::Complex) => Some(high),
            _ => Some(if low.size() > high.size() { low } else { high }),
        }
    }

    /// The type that an integer or bool is converted to for an operator with a floating point result; others stay.
    pub fn to_floating_point(self, default: ScalarType) -> ScalarType {
        if self.is_integral(true) { default } else { self }
    }
}

/// Two different integer types: the wider signed one, or one step up where u8 meets i8.
fn promote_integers(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
    if matches!(a, U16 | U32 | U64) || matches!(b, U16 | U32 | U64) {
        return None;
    }
    match (a, b) {
        (U8, I8) | (I8, U8) => Some(I16),
        _ => Some(if a.size() > b.size() { a } else { b }),
    }
}

/// By its [name](ScalarType::name), `float32`.
impl std::str::FromStr for ScalarType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = ScalarType::WORKING.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| {
            error!(Dtype, got = name, "expected the name of a type such as `float32` but got {got:?}")
        })
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensor elements can have: it can be stored, copied, compared for equality and converted from numbers. It need not
/// have an order, since complex numbers have none: code that compares requires `PartialOrd` too. Arithmetic is in the traits of lanes.
/// Sealed: its layout is that of [`SCALAR_TYPE`](Element::SCALAR_TYPE), which element access relies on.
pub trait Element:
    sealed::Sealed + bytemuck::NoUninit + PartialEq + Send + Sync + fmt::Debug + 'static
{
    /// The scalar type it stands for.
    const SCALAR_TYPE: ScalarType;

    /// Converts as PyTorch does when it fills a tensor: floats truncate towards zero, integers wrap.
    fn from_scalar(value: Scalar) -> Self;

    /// The value as a [`Scalar`], exactly.
    fn to_scalar(self) -> Scalar;
}

macro_rules! elements {
    ($($rust:ty, $name:ident, $variant:ident, $from:expr;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const SCALAR_TYPE: ScalarType = ScalarType::$name;

            #[inline]
            fn from_scalar(value: Scalar) -> Self {
                let from: fn(Scalar) -> $rust = $from;
                from(value)
            }

            #[inline]
            fn to_scalar(self) -> Scalar {
                Scalar::$variant(self.into())
            }
        }
    )*};
}

elements! {
    bool, Bool, Bool, |s| s.to_bool();
    u8, U8, Int, |s| s.to_i64() as u8;
    i8, I8, Int, |s| s.to_i64() as i8;
    i16, I16, Int, |s| s.to_i64() as i16;
    i32, I32, Int, |s| s.to_i64() as i32;
    i64, I64, Int, |s| s.to_i64();
    f16, F16, Float, |s| f16::from_f64(s.to_f64());
    bf16, BF16, Float, |s| bf16::from_f64(s.to_f64());
    f32, F32, Float, |s| s.to_f64() as f32;
    f64, F64, Float, |s| s.to_f64();
}

macro_rules! complex_elements {
    ($($part:ty, $name:ident;)*) => {$(
        impl sealed::Sealed for Complex<$part> {}
        impl Element for Complex<$part> {
            const SCALAR_TYPE: ScalarType = ScalarType::$name;

            #[inline]
            fn from_scalar(value: Scalar) -> Self {
                let (re, im) = value.to_complex();
                Complex::new(re as $part, im as $part)
            }

            #[inline]
            fn to_scalar(self) -> Scalar {
                Scalar::Complex(self.re.into(), self.im.into())
            }
        }
    )*};
}

complex_elements! {
    f32, Complex64;
    f64, Complex128;
}
