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
    /// The quotient rounded towards 0; 0 where `other` is 0.
    fn quotient(self, other: Self) -> Self;
    /// Whether [`near_quotient`](Self::near_quotient) takes it.
    fn is_near(self) -> bool;
    /// [`quotient`](Self::quotient) by a division of floats, which vectors have. It is rounded to nearest, and so off by one at most, which
    /// the sign of the rest shows.
    fn near_quotient(self, other: Self) -> Self;
    /// The quotient rounded down, by [`quotient`](Self::quotient).
    fn floor(self, other: Self, quotient: Self) -> Self;
    /// The rest of a quotient rounded towards 0; 0 where `other` is 0.
    fn rest(self, other: Self, quotient: Self) -> Self;
    /// The rest of a quotient rounded down; 0 where `other` is 0.
    fn floor_rest(self, other: Self, quotient: Self) -> Self;
    /// The magnitude divided by 2 until it is odd, as an unsigned number; 0 for 0.
    fn odd_part(self) -> Self;
    /// The smaller one of two unsigned numbers, but `self` where `other` is 0.
    fn smaller_odd(self, other: Self) -> Self;
    /// The [odd part](Self::odd_part) of the difference of two unsigned numbers, but 0 where `other` is 0.
    fn odd_difference(self, other: Self) -> Self;
    /// The product with the largest power of 2 that divides `of`, which is 0 only where `self` is.
    fn times_twos_of(self, of: Self) -> Self;
}

/// A sum with this number has the integer nearest to the other in its low bits: 1.5 times the power of two whose last bit counts 1.
const NEAREST_F64: f64 = 6_755_399_441_055_744.0;
/// The same of f32.
const NEAREST_F32: f32 = 12_582_912.0;

/// The nearest integer to the quotient of two integers by a division of f64, of which the low bits are right.
#[inline(always)]
fn nearest_of_i32(a: i32, b: i32) -> i32 {
    (f64::from(a) / f64::from(b) + NEAREST_F64).to_bits() as i32
}

/// That of integers of up to 16 bits.
#[inline(always)]
fn nearest_of_short(a: i32, b: i32) -> i32 {
    (a as f32 / b as f32 + NEAREST_F32).to_bits().wrapping_sub(NEAREST_F32.to_bits()) as i32
}

/// That of integers of up to 52 bits.
#[inline(always)]
fn nearest_of_i64(a: i64, b: i64) -> i64 {
    // The bits of a sum of this number and an integer are the sum of its bits and the integer.
    let bits = NEAREST_F64.to_bits() as i64;
    let float = |n: i64| f64::from_bits(n.wrapping_add(bits) as u64) - NEAREST_F64;
    ((float(a) / float(b) + NEAREST_F64).to_bits() as i64).wrapping_sub(bits)
}

/// [`IntegerLane::near_quotient`] in the integers `$wide`, by the nearest integer to the quotient.
macro_rules! near_quotient {
    ($a:expr, $b:expr, $wide:ident, $nearest:ident) => {{
        let (a, b) = ($a as $wide, $b as $wide);
        let divisor = if b == 0 { 1 } else { b };
        let nearest: $wide = $nearest(a, divisor);
        let rest = a.wrapping_sub(nearest.wrapping_mul(divisor));
        let exceeds = rest != 0 && (rest < 0) != (a < 0);
        let back: $wide = if (a < 0) == (divisor < 0) { -1 } else { 1 };
        let quotient = if exceeds { nearest.wrapping_add(back) } else { nearest };
        (if b == 0 { 0 } else { quotient }) as _
    }};
}

/// Whether a rest is not 0 and its sign differs from that of the divisor.
macro_rules! is_opposite {
    ($rest:ident, $divisor:ident) => {{
        #[allow(unused_comparisons, reason = "the unsigned type has no negative values")]
        let differ = ($rest < 0) != ($divisor < 0);
        $rest != 0 && differ
    }};
}

macro_rules! integer_lane {
    ($($t:ident $unsigned:ident $wide:ident $nearest:ident;)*) => {$(
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
            fn quotient(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn is_near(self) -> bool {
                const LIMIT: i64 = 1 << 51;
                $t::BITS < 64 || (self as i64).wrapping_add(LIMIT) as u64 <= 2 * LIMIT as u64
            }
            #[inline(always)]
            fn near_quotient(self, other: Self) -> Self {
                near_quotient!(self, other, $wide, $nearest)
            }
            #[inline(always)]
            fn floor(self, other: Self, quotient: Self) -> Self {
                let rest = self.rest(other, quotient);
                quotient.wrapping_sub(is_opposite!(rest, other) as $t)
            }
            #[inline(always)]
            fn rest(self, other: Self, quotient: Self) -> Self {
                let rest = self.wrapping_sub(quotient.wrapping_mul(other));
                if other == 0 { 0 } else { rest }
            }
            #[inline(always)]
            fn floor_rest(self, other: Self, quotient: Self) -> Self {
                let rest = self.rest(other, quotient);
                if is_opposite!(rest, other) { rest.wrapping_add(other) } else { rest }
            }
            #[inline(always)]
            fn odd_part(self) -> Self {
                // Of 0, all bits are trailing zeros, and the shift by so many is one by none.
                (OrderedLane::abs(self) as $unsigned).wrapping_shr(self.trailing_zeros()) as $t
            }
            #[inline(always)]
            fn smaller_odd(self, other: Self) -> Self {
                if other == 0 || (self as $unsigned) < (other as $unsigned) { self } else { other }
            }
            #[inline(always)]
            fn odd_difference(self, other: Self) -> Self {
                let twos = self.wrapping_sub(other).trailing_zeros();
                let odd = (self as $unsigned).abs_diff(other as $unsigned).wrapping_shr(twos) as $t;
                if other == 0 { 0 } else { odd }
            }
            #[inline(always)]
            fn times_twos_of(self, of: Self) -> Self {
                self.wrapping_shl(of.trailing_zeros())
            }
        }
    )*};
}

integer_lane! {
    u8 u8 i32 nearest_of_short;
    i8 u8 i32 nearest_of_short;
    i16 u16 i32 nearest_of_short;
    i32 u32 i32 nearest_of_i32;
    i64 u64 i64 nearest_of_i64;
}

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
    fn quotient(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn is_near(self) -> bool {
        true
    }
    #[inline(always)]
    fn near_quotient(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn floor(self, _: Self, quotient: Self) -> Self {
        quotient
    }
    #[inline(always)]
    fn rest(self, _: Self, _: Self) -> Self {
        false
    }
    #[inline(always)]
    fn floor_rest(self, _: Self, _: Self) -> Self {
        false
    }
    #[inline(always)]
    fn odd_part(self) -> Self {
        self
    }
    #[inline(always)]
    fn smaller_odd(self, _: Self) -> Self {
        self
    }
    #[inline(always)]
    fn odd_difference(self, _: Self) -> Self {
        false
    }
    #[inline(always)]
    fn times_twos_of(self, _: Self) -> Self {
        self
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
