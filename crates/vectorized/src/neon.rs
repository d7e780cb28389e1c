//! Vectors of NEON on AArch64, in 128-bit registers: four f32 or two f64, and half types converted to f32.
#![expect(unsafe_code, reason = "intrinsics, and loads and stores through raw pointers")]

use std::arch::aarch64::*;
use std::mem::transmute;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use half::{bf16, f16};

use super::array::{Array, load_bools, padded};
use super::isa::Neon;
use super::lanes::{Bits, Float, Lanes, Mask, Number, Ordered, Vector};
use super::math::{exponent_by_bits, scale_floored, scale_in_two_steps, significand_by_bits};
use super::register::{bits_register, float_register, half_lanes, on_registers, operators};
use super::scalar::{bool_lanes, native_lanes, round_to_bf16, widen_bf16};

float_register! {
    /// Four f32.
    F32x4(float32x4_t), Mask32x4, Bits32x4, [f32; 4];
    splat vdupq_n_f32; load vld1q_f32; store vst1q_f32; load_partial load_partial_f32;
    store_partial store_partial_f32; select vbslq_f32;
    eq vceqq_f32; ne ne_f32; lt vcltq_f32; le vcleq_f32;
    add vaddq_f32; sub vsubq_f32; mul vmulq_f32; div vdivq_f32; neg vnegq_f32; abs vabsq_f32;
    min min_f32; max max_f32; sqrt vsqrtq_f32; mul_add mul_add_f32;
    floor vrndmq_f32; ceil vrndpq_f32; round vrndnq_f32; trunc vrndq_f32; scale scale_in_two_steps;
    scale_floor scale_floored; exponent exponent_by_bits;
    significand significand_by_bits; look_up look_up_f32; slide_up slide_up_f32; slide_down slide_down_f32;
    even vuzp1q_f32; odd vuzp2q_f32; zip_low vzip1q_f32; zip_high vzip2q_f32;
    to_bits vreinterpretq_u32_f32; from_bits vreinterpretq_f32_u32; bits_equal vceqq_u32;
}

float_register! {
    /// Two f64.
    F64x2(float64x2_t), Mask64x2, Bits64x2, [f64; 2];
    splat vdupq_n_f64; load vld1q_f64; store vst1q_f64; load_partial load_partial_f64;
    store_partial store_partial_f64; select vbslq_f64;
    eq vceqq_f64; ne ne_f64; lt vcltq_f64; le vcleq_f64;
    add vaddq_f64; sub vsubq_f64; mul vmulq_f64; div vdivq_f64; neg vnegq_f64; abs vabsq_f64;
    min min_f64; max max_f64; sqrt vsqrtq_f64; mul_add mul_add_f64;
    floor vrndmq_f64; ceil vrndpq_f64; round vrndnq_f64; trunc vrndq_f64; scale scale_in_two_steps;
    scale_floor scale_floored; exponent exponent_by_bits;
    significand significand_by_bits; look_up look_up_f64; slide_up slide_up_f64; slide_down slide_down_f64;
    even vuzp1q_f64; odd vuzp2q_f64; zip_low vzip1q_f64; zip_high vzip2q_f64;
    to_bits vreinterpretq_u64_f64; from_bits vreinterpretq_f64_u64; bits_equal vceqq_u64;
}

bits_register! {
    /// The bits of four f32.
    Bits32x4(uint32x4_t), u32; splat vdupq_n_u32; shl vshlq_u32; shr shr_32; count vdupq_n_s32;
    add vaddq_u32; sub vsubq_u32; and vandq_u32; or vorrq_u32; xor veorq_u32;
}

bits_register! {
    /// The bits of two f64.
    Bits64x2(uint64x2_t), u64; splat vdupq_n_u64; shl vshlq_u64; shr shr_64; count count_64;
    add vaddq_u64; sub vsubq_u64; and vandq_u64; or vorrq_u64; xor veorq_u64;
}

/// A truth value for each of four lanes: all bits of the lane, or none.
#[derive(Clone, Copy, Debug)]
pub struct Mask32x4(uint32x4_t);

/// A truth value for each of two lanes: all bits of the lane, or none.
#[derive(Clone, Copy, Debug)]
pub struct Mask64x2(uint64x2_t);

operators! { Mask32x4: BitAnd bitand vandq_u32, BitOr bitor vorrq_u32; Not not vmvnq_u32; }
operators! { Mask64x2: BitAnd bitand vandq_u64, BitOr bitor vorrq_u64; Not not not_64; }

macro_rules! lane_mask {
    ($mask:ident($register:ty), [$lane:ty; $lanes:literal]) => {
        impl $mask {
            #[inline(always)]
            fn lanes(self) -> [$lane; $lanes] {
                // SAFETY: both are as many lanes of as many bits, and any bits are valid in either.
                unsafe { transmute::<$register, [$lane; $lanes]>(self.0) }
            }

            #[inline(always)]
            fn from_lanes(lane: impl Fn(usize) -> bool) -> Self {
                let lanes: [$lane; $lanes] = std::array::from_fn(
                    #[inline(always)]
                    |i| if lane(i) { <$lane>::MAX } else { 0 },
                );
                // SAFETY: both are as many lanes of as many bits, and any bits are valid in either.
                Self(unsafe { transmute::<[$lane; $lanes], $register>(lanes) })
            }
        }

        impl Mask for $mask {
            const LANES: usize = $lanes;

            #[inline(always)]
            fn first(count: usize) -> Self {
                Self::from_lanes(
                    #[inline(always)]
                    |i| i < count,
                )
            }
            #[inline(always)]
            unsafe fn load_bool(from: *const bool, count: usize) -> Self {
                // SAFETY: `from` is valid for `count <= LANES` bytes.
                let bytes: [u8; $lanes] = unsafe { padded(from.cast(), count) };
                Self::from_lanes(
                    #[inline(always)]
                    |i| bytes[i] != 0,
                )
            }
            #[inline(always)]
            unsafe fn store_bool(self, to: *mut bool, count: usize) {
                let bytes = self.lanes().map(
                    #[inline(always)]
                    |lane| lane != 0,
                );
                // SAFETY: `to` is valid for `count <= LANES` bytes.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), count) }
            }
            #[inline(always)]
            fn any(self) -> bool {
                self.lanes().iter().fold(
                    0,
                    #[inline(always)]
                    |any, lane| any | lane,
                ) != 0
            }
            #[inline(always)]
            fn all(self) -> bool {
                self.lanes().iter().fold(
                    <$lane>::MAX,
                    #[inline(always)]
                    |all, lane| all & lane,
                ) != 0
            }
        }
    };
}

lane_mask!(Mask32x4(uint32x4_t), [u32; 4]);
lane_mask!(Mask64x2(uint64x2_t), [u64; 2]);

native_lanes!(Neon:
    u8 => Array<u8, 16>, i8 => Array<i8, 16>, i16 => Array<i16, 8>, i32 => Array<i32, 4>, i64 => Array<i64, 2>,
    f32 => F32x4, f64 => F64x2,
);
bool_lanes!(Neon: 16);

half_lanes! {
    Neon, f16 => F32x4, 4; widen f16::to_f32, widen_f16_lanes; narrow f16::from_f32, narrow_f16_lanes;
}
half_lanes! {
    Neon, bf16 => F32x4, 4; widen widen_bf16, widen_bf16_lanes; narrow round_to_bf16, narrow_bf16_lanes;
}

on_registers! {
    fn load_partial_f32(from: *const f32, count: usize) -> float32x4_t {
        transmute::<[f32; 4], float32x4_t>(padded::<f32, 4>(from, count))
    }
    fn load_partial_f64(from: *const f64, count: usize) -> float64x2_t {
        transmute::<[f64; 2], float64x2_t>(padded::<f64, 2>(from, count))
    }
    fn store_partial_f32(to: *mut f32, count: usize, x: float32x4_t) -> () {
        to.copy_from_nonoverlapping(transmute::<float32x4_t, [f32; 4]>(x).as_ptr(), count)
    }
    fn store_partial_f64(to: *mut f64, count: usize, x: float64x2_t) -> () {
        to.copy_from_nonoverlapping(transmute::<float64x2_t, [f64; 2]>(x).as_ptr(), count)
    }
    fn ne_f32(a: float32x4_t, b: float32x4_t) -> uint32x4_t { vmvnq_u32(vceqq_f32(a, b)) }
    fn ne_f64(a: float64x2_t, b: float64x2_t) -> uint64x2_t { not_64(vceqq_f64(a, b)) }
    fn not_64(x: uint64x2_t) -> uint64x2_t { veorq_u64(x, vdupq_n_u64(u64::MAX)) }
    // `vminq_f32` would return NaN for either operand; `Ordered::min` returns the second.
    fn min_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(vcltq_f32(a, b), a, b) }
    fn max_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(vcgtq_f32(a, b), a, b) }
    fn min_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t { vbslq_f64(vcltq_f64(a, b), a, b) }
    fn max_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t { vbslq_f64(vcgtq_f64(a, b), a, b) }
    fn mul_add_f32(x: float32x4_t, factor: float32x4_t, term: float32x4_t) -> float32x4_t { vfmaq_f32(term, x, factor) }
    fn mul_add_f64(x: float64x2_t, factor: float64x2_t, term: float64x2_t) -> float64x2_t { vfmaq_f64(term, x, factor) }
    fn look_up_f32(table: &[f32; 16], index: uint32x4_t) -> float32x4_t {
        let index = transmute::<uint32x4_t, [u32; 4]>(index);
        transmute::<[f32; 4], float32x4_t>(index.map(|i| table[(i & 15) as usize]))
    }
    fn look_up_f64(table: &[f64; 16], index: uint64x2_t) -> float64x2_t {
        let index = transmute::<uint64x2_t, [u64; 2]>(index);
        transmute::<[f64; 2], float64x2_t>(index.map(|i| table[(i & 15) as usize]))
    }
    fn slide_up_f32(x: float32x4_t, before: float32x4_t) -> float32x4_t { vextq_f32::<3>(before, x) }
    fn slide_up_f64(x: float64x2_t, before: float64x2_t) -> float64x2_t { vextq_f64::<1>(before, x) }
    fn slide_down_f32(x: float32x4_t, after: float32x4_t) -> float32x4_t { vextq_f32::<1>(x, after) }
    fn slide_down_f64(x: float64x2_t, after: float64x2_t) -> float64x2_t { vextq_f64::<1>(x, after) }
    // A shift to the left by a negative count is one to the right.
    fn shr_32(x: uint32x4_t, count: int32x4_t) -> uint32x4_t { vshlq_u32(x, vnegq_s32(count)) }
    fn shr_64(x: uint64x2_t, count: int64x2_t) -> uint64x2_t { vshlq_u64(x, vnegq_s64(count)) }
    fn count_64(count: i32) -> int64x2_t { vdupq_n_s64(i64::from(count)) }

    // One by one: the vector conversions of f16 are not in stable Rust.
    fn widen_f16_lanes(lanes: [u16; 4]) -> float32x4_t {
        transmute::<[f32; 4], float32x4_t>(lanes.map(|x| f16::from_bits(x).to_f32()))
    }
    fn narrow_f16_lanes(x: float32x4_t) -> [u16; 4] {
        transmute::<float32x4_t, [f32; 4]>(x).map(|x| f16::from_f32(x).to_bits())
    }
    fn widen_bf16_lanes(lanes: [u16; 4]) -> float32x4_t {
        let wide = vmovl_u16(transmute::<[u16; 4], uint16x4_t>(lanes));
        vreinterpretq_f32_u32(vshlq_n_u32::<16>(wide))
    }
    // As `round_to_bf16`.
    fn narrow_bf16_lanes(x: float32x4_t) -> [u16; 4] {
        let bits = vreinterpretq_u32_f32(x);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        let wide = vbslq_u32(vceqq_f32(x, x), vshrq_n_u32::<16>(rounded), vdupq_n_u32(0x7fc0));
        transmute::<uint16x4_t, [u16; 4]>(vmovn_u32(wide))
    }
}
