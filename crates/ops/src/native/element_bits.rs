//! Element types in indexing kernels: bits to copy, numbers to add, keys to sort by.
//!
//! Kernels that copy elements are instantiated for unsigned integers of the element's size, so that types of one size share code.

use bytemuck::{Pod, Zeroable};
use flambeau_core::{Complex, Element, Scalar};
use half::{bf16, f16};

/// The types that represent an element type in slices. Any bytes are a valid value of them, as those of `bool` are not.
pub(super) trait ElementBits: Element {
    /// An unsigned integer of the same size, for copies.
    type Bits: RawBits;
    /// A type of the same size with arithmetic.
    type Number: Numeric;
}

/// Elements that are copied. Results of `bool` must hold no byte other than 0 and 1, though memory from elsewhere may: see
/// [`BoolByte`].
pub(super) trait RawBits: Pod + Send + Sync {
    /// The value as it may be stored in a result: for `bool` 0 or 1, for other types the value itself.
    #[inline(always)]
    fn normalized(self) -> Self {
        self
    }
    /// [`RawBits::normalized`] of each element, after a copy of bytes.
    #[inline(always)]
    fn normalize_all(_copied: &mut [Self]) {}
}

/// Elements with addition and multiplication.
pub(super) trait Numeric: RawBits {
    /// The scalar, converted as `fill_` converts it.
    fn of(value: Scalar) -> Self;
    /// The sum; integers wrap, for `bool` it is logical or.
    fn plus(self, other: Self) -> Self;
    /// The product; integers wrap, for `bool` it is logical and.
    fn times(self, other: Self) -> Self;
}

/// Elements that can be sorted.
pub(super) trait Sortable: Numeric {
    /// Whether the type has NaN.
    const HAS_NAN: bool;
    /// Whether two values are different. NaN differs from everything.
    fn differs_from(self, other: Self) -> bool;
    /// An unsigned integer whose order is that of the values: NaN is the maximum, all NaN are equal, and so are both zeros. It is
    /// below 2^32 for elements of up to four bytes.
    fn sort_key(self) -> u64;
}

/// The byte of a `bool` element: true unless it is 0. Views of other types, files and foreign memory may hold any byte.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct BoolByte(u8);

impl RawBits for BoolByte {
    #[inline(always)]
    fn normalized(self) -> Self {
        BoolByte(u8::from(self.0 != 0))
    }
    #[inline(always)]
    fn normalize_all(copied: &mut [Self]) {
        copied.iter_mut().for_each(|value| *value = value.normalized());
    }
}

/// Numbers, and the bits of all types but `bool`: every value may be stored.
macro_rules! raw_bits {
    ($($type:ty)*) => {$(
        impl RawBits for $type {}
    )*};
}

raw_bits! { u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 [u32; 2] [u64; 2] Complex<f32> Complex<f64> }

macro_rules! complex {
    ($($part:ty, $bits:ty;)*) => {$(
        impl ElementBits for Complex<$part> {
            type Bits = $bits;
            type Number = Complex<$part>;
        }

        impl Numeric for Complex<$part> {
            fn of(value: Scalar) -> Self {
                Element::from_scalar(value)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

// Of parts, since complex numbers are aligned like these.
complex! { f32, [u32; 2]; f64, [u64; 2]; }

impl Numeric for BoolByte {
    fn of(value: Scalar) -> Self {
        BoolByte(u8::from(value.to_bool()))
    }
    fn plus(self, other: Self) -> Self {
        BoolByte(u8::from(self.0 | other.0 != 0))
    }
    fn times(self, other: Self) -> Self {
        BoolByte(u8::from(self.0 != 0 && other.0 != 0))
    }
}

impl Sortable for BoolByte {
    const HAS_NAN: bool = false;
    #[inline(always)]
    fn differs_from(self, other: Self) -> bool {
        (self.0 != 0) != (other.0 != 0)
    }
    #[inline(always)]
    fn sort_key(self) -> u64 {
        u64::from(self.0 != 0)
    }
}

impl ElementBits for bool {
    type Bits = BoolByte;
    type Number = BoolByte;
}

macro_rules! integers {
    ($($rust:ty, $bits:ty;)*) => {$(
        impl ElementBits for $rust {
            type Bits = $bits;
            type Number = $rust;
        }

        impl Numeric for $rust {
            fn of(value: Scalar) -> Self {
                <$rust as Element>::from_scalar(value)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Sortable for $rust {
            const HAS_NAN: bool = false;
            #[inline(always)]
            fn differs_from(self, other: Self) -> bool {
                self != other
            }
            #[inline(always)]
            fn sort_key(self) -> u64 {
                // Shifted so that the minimum becomes 0, then zero-extended.
                (self.wrapping_sub(<$rust>::MIN) as $bits).into()
            }
        }
    )*};
}

integers! { u8, u8; i8, u8; i16, u16; i32, u32; i64, u64; }

macro_rules! floats {
    ($($rust:ty, $bits:ty, $signed:ty;)*) => {$(
        impl ElementBits for $rust {
            type Bits = $bits;
            type Number = $rust;
        }

        impl Numeric for $rust {
            fn of(value: Scalar) -> Self {
                <$rust as Element>::from_scalar(value)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }

        impl Sortable for $rust {
            const HAS_NAN: bool = true;
            #[inline(always)]
            fn differs_from(self, other: Self) -> bool {
                self != other
            }
            #[inline(always)]
            fn sort_key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                // The bits of a float are a sign and a magnitude. For an unsigned integer of the same order all bits of negative
                // numbers are inverted, and only the sign bit of others. Without a branch: signs are not predictable.
                let bits = self.to_bits();
                let flipped = bits ^ (((bits as $signed) >> (<$bits>::BITS - 1)) as $bits | SIGN);
                let ordered = if bits == SIGN { SIGN } else { flipped };
                let ordered = if self.is_nan() { <$bits>::MAX } else { ordered };
                ordered.into()
            }
        }
    )*};
}

floats! { f16, u16, i16; bf16, u16, i16; f32, u32, i32; f64, u64, i64; }
