//! Element types as kernels of indexing meet them: bytes to move, numbers to add and to compare.

use bytemuck::{Pod, Zeroable};
use flambeau_core::{Element, Scalar};
use half::{bf16, f16};

/// An element type and what stands for it: any bytes are a value of these.
pub(super) trait Stored: Element {
    /// As many bytes, to be moved only.
    type Bits: Moved;
    /// The same as a number.
    type Number: Numeric;
}

/// What is moved from place to place: of a result all bytes but 0 and 1 are kept out where they stand for truth values.
pub(super) trait Moved: Pod + Send + Sync {
    /// The value as a result holds it.
    #[inline(always)]
    fn settled(self) -> Self {
        self
    }
    /// The same for elements that have been moved.
    #[inline(always)]
    fn settle(_moved: &mut [Self]) {}
}

/// What is added and multiplied.
pub(super) trait Numeric: Moved {
    /// The scalar, converted as a tensor of the type is filled.
    fn of(value: Scalar) -> Self;
    /// The sum; integers wrap, truth values are joined by `or`.
    fn plus(self, other: Self) -> Self;
    /// The product; truth values are joined by `and`.
    fn times(self, other: Self) -> Self;
    /// Whether it is zero.
    fn is_zero(self) -> bool;
}

/// What is compared and sorted.
pub(super) trait Sortable: Numeric {
    /// Whether some values are no numbers.
    const HAS_NAN: bool;
    /// A number that orders like the value, all NaN equal and greatest, both zeros equal; below 2^32 where the element has up
    /// to four bytes.
    fn order(self) -> u64;
}

/// A truth value: a byte, true unless it is 0.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Truth(u8);

impl Moved for Truth {
    #[inline(always)]
    fn settled(self) -> Self {
        Truth(u8::from(self.0 != 0))
    }
    #[inline(always)]
    fn settle(moved: &mut [Self]) {
        moved.iter_mut().for_each(|value| *value = value.settled());
    }
}

/// Numbers, and the bytes of all types but bool.
macro_rules! moved_as_they_are {
    ($($type:ty)*) => {$(
        impl Moved for $type {}
    )*};
}

moved_as_they_are! { u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 }

impl Numeric for Truth {
    fn of(value: Scalar) -> Self {
        Truth(u8::from(value.to_bool()))
    }
    fn plus(self, other: Self) -> Self {
        Truth(u8::from(self.0 | other.0 != 0))
    }
    fn times(self, other: Self) -> Self {
        Truth(u8::from(self.0 != 0 && other.0 != 0))
    }
    fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Sortable for Truth {
    const HAS_NAN: bool = false;
    fn order(self) -> u64 {
        u64::from(self.0 != 0)
    }
}

impl Stored for bool {
    type Bits = Truth;
    type Number = Truth;
}

macro_rules! integers {
    ($($rust:ty, $bits:ty;)*) => {$(
        impl Stored for $rust {
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
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
        }

        impl Sortable for $rust {
            const HAS_NAN: bool = false;
            #[inline(always)]
            fn order(self) -> u64 {
                // Moved up so that the least value is 0; of the upper bits only those of the type stay.
                (self.wrapping_sub(<$rust>::MIN) as $bits).into()
            }
        }
    )*};
}

integers! { u8, u8; i8, u8; i16, u16; i32, u32; i64, u64; }

macro_rules! floats {
    ($($rust:ty, $bits:ty, $signed:ty;)*) => {$(
        impl Stored for $rust {
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
            #[inline(always)]
            fn is_zero(self) -> bool {
                self.to_bits() << 1 == 0
            }
        }

        impl Sortable for $rust {
            const HAS_NAN: bool = true;
            #[inline(always)]
            fn order(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                // A sign and a magnitude, as one number that grows with the value: without a branch, since signs are anyhow.
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
