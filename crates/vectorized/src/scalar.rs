//! Element types on arrays: every type on the scalar set, and the macro that implements the integers of the other sets.
#![expect(unsafe_code, reason = "loads and stores go through raw pointers")]

use half::{bf16, f16};

use super::array::{Array, load_bools};
use super::isa::Scalar;
use super::lanes::{Lanes, Vector};

/// Implements `Lanes` for a type that is loaded as it is, into the given vector.
macro_rules! native_lanes {
    ($isa:ty: $($element:ty => $vector:ty),* $(,)?) => {$(
        impl Lanes<$isa> for $element {
            type Vector = $vector;
            #[inline(always)]
            fn widen(self) -> $element { self }
            #[inline(always)]
            fn narrow(value: $element) -> Self { value }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> $vector {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { <$vector>::load(from) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const Self, count: usize) -> $vector {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { <$vector>::load_partial(from, count) }
            }
            #[inline(always)]
            unsafe fn store(vector: $vector, to: *mut Self) {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { vector.store(to) }
            }
            #[inline(always)]
            unsafe fn store_partial(vector: $vector, to: *mut Self, count: usize) {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { vector.store_partial(to, count) }
            }
        }
    )*};
}

/// Implements `Lanes` for bool on an array of the given length.
macro_rules! bool_lanes {
    ($isa:ty: $lanes:literal) => {
        impl Lanes<$isa> for bool {
            type Vector = Array<bool, $lanes>;
            #[inline(always)]
            fn widen(self) -> bool {
                self
            }
            #[inline(always)]
            fn narrow(value: bool) -> Self {
                value
            }
            #[inline(always)]
            unsafe fn load_one(from: *const Self) -> Self {
                // SAFETY: `from` is valid for reading a byte, whatever it holds.
                unsafe { from.cast::<u8>().read() != 0 }
            }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> Self::Vector {
                // SAFETY: `from` is valid for reading `LANES` elements.
                unsafe { load_bools(from, $lanes) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const Self, count: usize) -> Self::Vector {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { load_bools(from, count) }
            }
            #[inline(always)]
            unsafe fn store(vector: Self::Vector, to: *mut Self) {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { vector.store(to) }
            }
            #[inline(always)]
            unsafe fn store_partial(vector: Self::Vector, to: *mut Self, count: usize) {
                // SAFETY: the vector's function has the same conditions as this one.
                unsafe { vector.store_partial(to, count) }
            }
        }
    };
}

#[allow(unused_imports, reason = "the register sets use them where there is one")]
pub(super) use {bool_lanes, native_lanes};

native_lanes!(Scalar:
    u8 => Array<u8, 1>, i8 => Array<i8, 1>, i16 => Array<i16, 1>, i32 => Array<i32, 1>, i64 => Array<i64, 1>,
    f32 => Array<f32, 1>, f64 => Array<f64, 1>,
);
bool_lanes!(Scalar: 1);

/// bf16 nearest to `value`, ties to even; NaN becomes the NaN that PyTorch writes.
#[inline(always)]
pub(super) fn round_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    bf16::from_bits(if value.is_nan() { 0x7fc0 } else { rounded as u16 })
}

/// The value of a bf16, exactly.
#[inline(always)]
pub(super) fn widen_bf16(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

macro_rules! scalar_half {
    ($($element:ident $widen:path, $narrow:path;)*) => {$(
        impl Lanes<Scalar> for $element {
            type Vector = Array<f32, 1>;
            #[inline(always)]
            fn widen(self) -> f32 { $widen(self) }
            #[inline(always)]
            fn narrow(value: f32) -> Self { $narrow(value) }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> Self::Vector {
                // SAFETY: `from` is valid for reading one element.
                Vector::splat($widen(unsafe { from.read_unaligned() }))
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const Self, count: usize) -> Self::Vector {
                let mut value = $element::from_bits(0);
                // SAFETY: `from` is valid for reading `count` elements, and `count` is at most 1.
                unsafe { (&raw mut value).copy_from_nonoverlapping(from, count) };
                Vector::splat($widen(value))
            }
            #[inline(always)]
            unsafe fn store(vector: Self::Vector, to: *mut Self) {
                // SAFETY: the conditions are the same, for one element.
                unsafe { <Self as Lanes<Scalar>>::store_partial(vector, to, 1) }
            }
            #[inline(always)]
            unsafe fn store_partial(vector: Self::Vector, to: *mut Self, count: usize) {
                let value = $narrow(vector.first_lane());
                // SAFETY: `to` is valid for writing `count` elements, and `count` is at most 1.
                unsafe { to.copy_from_nonoverlapping(&raw const value, count) };
            }
        }
    )*};
}

scalar_half! {
    f16 f16::to_f32, f16::from_f32;
    bf16 widen_bf16, round_to_bf16;
}
