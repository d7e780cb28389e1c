//! Arithmetic on one lane of an array: `+`, `<<` or a remainder of each element type.

use std::ops::{BitAnd, BitOr, BitXor, Not};

/// The arithmetic of one lane; the vector trait that uses a method documents it.
pub trait Lane: flambeau_core::Element {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn neg(self) -> Self;
}

/// A lane with an order.
pub trait OrderedLane: Lane + PartialOrd {
    fn abs(self) -> Self;
}

/// The integer operations of one lane.
pub trait IntegerLane:
    OrderedLane + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    fn shl(self, by: Self) -> Self;
    fn shr(self, by: Self) -> Self;
    fn div_trunc(self, other: Self) -> Self;
    fn div_floor(self, other: Self) -> Self;
    fn remainder(self, other: Self) -> Self;
    fn remainder_trunc(self, other: Self) -> Self;
}

macro_rules! integer_lane {
    ($($t:ident)*) => {$(
        impl Lane for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
        }

        impl OrderedLane for $t {
            #[inline(always)]
            #[allow(unused_comparisons, reason = "the unsigned type has no negative values")]
            fn abs(self) -> Self { if self < 0 { self.wrapping_neg() } else { self } }
        }

        impl IntegerLane for $t {
            #[inline(always)]
            #[allow(unused_comparisons, reason = "the unsigned type has no negative values")]
            fn shl(self, by: Self) -> Self {
                if by < 0 || by >= $t::BITS as $t { 0 } else { self.wrapping_shl(by as u32) }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "the unsigned type has no negative values")]
            fn shr(self, by: Self) -> Self {
                let last = $t::BITS as $t - 1;
                if by < 0 || by > last {
                    // The unsigned type has no sign to fill with.
                    if $t::MIN == 0 { 0 } else { self.wrapping_shr(last as u32) }
                } else {
                    self.wrapping_shr(by as u32)
                }
            }
            #[inline(always)]
            fn div_trunc(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "the unsigned type has no negative values")]
            fn div_floor(self, other: Self) -> Self {
                let quotient = IntegerLane::div_trunc(self, other);
                let rest = self.wrapping_sub(quotient.wrapping_mul(other));
                let down = other != 0 && rest != 0 && (rest < 0) != (other < 0);
                quotient.wrapping_sub(down as $t)
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "the unsigned type has no negative values")]
            fn remainder(self, other: Self) -> Self {
                let rest = IntegerLane::remainder_trunc(self, other);
                if rest != 0 && (rest < 0) != (other < 0) { rest.wrapping_add(other) } else { rest }
            }
            #[inline(always)]
            fn remainder_trunc(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
        }
    )*};
}

integer_lane!(u8 i8 i16 i32 i64);

impl Lane for bool {
    const ZERO: Self = false;
    const ONE: Self = true;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self | other
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn neg(self) -> Self {
        self
    }
}

impl OrderedLane for bool {
    #[inline(always)]
    fn abs(self) -> Self {
        self
    }
}

impl IntegerLane for bool {
    #[inline(always)]
    fn shl(self, by: Self) -> Self {
        self & !by
    }
    #[inline(always)]
    fn shr(self, by: Self) -> Self {
        self & !by
    }
    #[inline(always)]
    fn div_trunc(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn div_floor(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn remainder(self, _: Self) -> Self {
        false
    }
    #[inline(always)]
    fn remainder_trunc(self, _: Self) -> Self {
        false
    }
}

macro_rules! float_lane {
    ($($t:ident)*) => {$(
        impl Lane for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn neg(self) -> Self { -self }
        }

        impl OrderedLane for $t {
            #[inline(always)]
            fn abs(self) -> Self { $t::abs(self) }
        }
    )*};
}

float_lane!(f32 f64);
