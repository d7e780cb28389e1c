//! The types of elements, how they promote, and the Rust types that they correspond to.

use crate::{Complex, Error, Result, Scalar, error, float8};
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
    /// `torch.uint16`.
    U16,
    /// `torch.uint32`.
    U32,
    /// `torch.uint64`.
    U64,
    /// `torch.float8_e4m3fn`: four bits of exponent and three of mantissa.
    F8E4M3FN,
    /// `torch.float8_e5m2`: five bits of exponent and two of mantissa.
    F8E5M2,
    /// `torch.float8_e8m0fnu`: eight bits of exponent.
    F8E8M0FNU,
    /// `torch.complex32`: two f16.
    Complex32,
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
    /// f16, bf16, f32, f64, and those of eight bits.
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
            Bool | U8 | I8 | F8E4M3FN | F8E5M2 | F8E8M0FNU | QInt8 | QUInt8 => 1,
            I16 | F16 | BF16 | U16 => 2,
            I32 | F32 | U32 | Complex32 | QInt32 => 4,
            I64 | F64 | U64 | Complex64 => 8,
            Complex128 => 16,
        }
    }

    /// Its rank in promotion.
    pub const fn category(self) -> Category {
        match self {
            Bool => Category::Boolean,
            U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 => Category::Integral,
            F16 | BF16 | F32 | F64 | F8E4M3FN | F8E5M2 | F8E8M0FNU => Category::Floating,
            Complex32 | Complex64 | Complex128 => Category::Complex,
            QInt8 | QUInt8 | QInt32 => Category::Quantized,
        }
    }

    /// f16, bf16, f32, f64 or one of eight bits.
    pub const fn is_floating_point(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64) || self.is_float8()
    }

    /// A floating point type of eight bits, of which numbers are stored, converted and compared. PyTorch's `isFloat8Type`.
    pub const fn is_float8(self) -> bool {
        matches!(self, F8E4M3FN | F8E5M2 | F8E8M0FNU)
    }

    /// An unsigned integer wider than a byte. PyTorch's `isBarebonesUnsignedType`: few operators take them, and they promote with floating
    /// point types only.
    pub const fn is_barebones_unsigned(self) -> bool {
        matches!(self, U16 | U32 | U64)
    }

    /// Whether a tensor of it may carry a gradient or a tangent: floating point and complex types. PyTorch's `isDifferentiableType`.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        self.is_floating_point() || self.is_complex()
    }

    /// complex32, complex64 or complex128.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, Complex32 | Complex64 | Complex128)
    }

    /// The type of the parts of a complex type; other types stay. PyTorch's `toRealValueType`.
    #[inline]
    pub const fn to_real(self) -> ScalarType {
        match self {
            Complex32 => F16,
            Complex64 => F32,
            Complex128 => F64,
            other => other,
        }
    }

    /// The complex type in which complex numbers are computed from numbers of this type: complex128 for f64, and complex64 for all others,
    /// also for f16, since complex32 has no arithmetic. PyTorch's `toComplexType`.
    #[inline]
    pub const fn to_complex(self) -> ScalarType {
        match self {
            F64 | Complex128 => Complex128,
            Complex32 => Complex32,
            _ => Complex64,
        }
    }

    /// An integer, bool excluded unless `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        matches!(self, U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64) || (include_bool && matches!(self, Bool))
    }

    /// Whether negative values can be held.
    pub const fn is_signed(self) -> bool {
        !matches!(self, Bool | U8 | U16 | U32 | U64 | F8E8M0FNU | QUInt8)
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
            F8E4M3FN => "float8_e4m3fn",
            F8E5M2 => "float8_e5m2",
            F8E8M0FNU => "float8_e8m0fnu",
            Complex32 => "complex32",
            Complex64 => "complex64",
            Complex128 => "complex128",
            QInt8 => "qint8",
            QUInt8 => "quint8",
            QInt32 => "qint32",
        }
    }

    /// The types that tensors can have: first those of most kernels, lowest in promotion first, then those that are mainly stored,
    /// moved and converted.
    pub const WORKING: [ScalarType; 19] = [
        Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, Complex64, Complex128, U16, U32, U64, F8E4M3FN,
        F8E5M2, F8E8M0FNU, Complex32,
    ];

    /// The types that most kernels take.
    pub const COMPUTING: [ScalarType; 12] =
        [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, Complex64, Complex128];

    /// Whether it is one of [`WORKING`](Self::WORKING).
    #[inline]
    pub const fn is_working(self) -> bool {
        (self as u8) <= ScalarType::Complex32 as u8
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
    /// `None` where there is none: beside quantized types and floating point types of eight bits, and for unsigned types wider than a byte
    /// beside others that are not floating point types.
    ///
    /// ```
    /// use flambeau_core::ScalarType::*;
    /// assert_eq!(U8.promote(I8), Some(I16));
    /// assert_eq!(F16.promote(BF16), Some(F32));
    /// assert_eq!(I64.promote(F16), Some(F16));
    /// assert_eq!(U16.promote(F16), Some(F16));
    /// assert_eq!(U16.promote(I8), None);
    /// ```
    pub fn promote(self, other: ScalarType) -> Option<ScalarType> {
        if self == other {
            return Some(self);
        }
        let (low, high) = if self.category() <= other.category() { (self, other) } else { (other, self) };
        match (low.category(), high.category()) {
            (_, Category::Quantized) => None,
            _ if low.is_float8() || high.is_float8() => None,
            (_, Category::Floating) if low.is_barebones_unsigned() => Some(high),
            _ if low.is_barebones_unsigned() || high.is_barebones_unsigned() => None,
            (Category::Boolean, _) => Some(high),
            (Category::Integral, Category::Integral) => Some(promote_integers(low, high)),
            (Category::Integral, _) => Some(high),
            (Category::Floating, Category::Floating) if low.size() == high.size() => Some(F32),
            (Category::Floating, Category::Complex) if low == F64 => Some(Complex128),
            // The parts of complex32 hold the values of f16, and not those of the others.
            (Category::Floating, Category::Complex) if high == Complex32 && low != F16 => Some(Complex64),
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
fn promote_integers(a: ScalarType, b: ScalarType) -> ScalarType {
    match (a, b) {
        (U8, I8) | (I8, U8) => I16,
        _ if a.size() > b.size() => a,
        _ => b,
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
    u16, U16, Int, |s| s.to_i64() as u16;
    u32, U32, Int, |s| s.to_i64() as u32;
    f16, F16, Float, |s| f16::from_f64(s.to_f64());
    bf16, BF16, Float, |s| bf16::from_f64(s.to_f64());
    f32, F32, Float, |s| s.to_f64() as f32;
    f64, F64, Float, |s| s.to_f64();
    float8::F8E4M3FN, F8E4M3FN, Float, |s| float8::F8E4M3FN::from_f32(s.to_f64() as f32);
    float8::F8E5M2, F8E5M2, Float, |s| float8::F8E5M2::from_f32(s.to_f64() as f32);
    float8::F8E8M0FNU, F8E8M0FNU, Float, |s| float8::F8E8M0FNU::from_f32(s.to_f64() as f32);
}

impl sealed::Sealed for u64 {}
impl Element for u64 {
    const SCALAR_TYPE: ScalarType = ScalarType::U64;

    #[inline]
    fn from_scalar(value: Scalar) -> Self {
        value.to_u64()
    }

    #[inline]
    fn to_scalar(self) -> Scalar {
        self.into()
    }
}

macro_rules! complex_elements {
    ($($part:ty, $name:ident, $narrow:expr;)*) => {$(
        impl sealed::Sealed for Complex<$part> {}
        impl Element for Complex<$part> {
            const SCALAR_TYPE: ScalarType = ScalarType::$name;

            #[inline]
            fn from_scalar(value: Scalar) -> Self {
                let (narrow, (re, im)): (fn(f64) -> $part, _) = ($narrow, value.to_complex());
                Complex::new(narrow(re), narrow(im))
            }

            #[inline]
            fn to_scalar(self) -> Scalar {
                Scalar::Complex(self.re.into(), self.im.into())
            }
        }
    )*};
}

complex_elements! {
    f16, Complex32, f16::from_f64;
    f32, Complex64, |part| part as f32;
    f64, Complex128, |part| part;
}
