//! Vectors of AVX2, in 256-bit registers: eight f32 or four f64, and half types converted to f32.
#![expect(unsafe_code, reason = "intrinsics, and loads and stores through raw pointers")]

use std::arch::x86_64::*;
use std::mem::transmute;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use half::{bf16, f16};

use super::array::{Array, load_bools, padded};
use super::isa::Avx2;
use super::lanes::{Bits, Float, Lanes, Mask, Number, Ordered, Vector};
use super::math::{exponent_by_bits, scale_floored, scale_in_two_steps, significand_by_bits};
use super::register::{bits_register, float_register, half_lanes, on_registers, operators};
use super::scalar::{bool_lanes, native_lanes, round_to_bf16, widen_bf16};

float_register! {
    /// Eight f32.
    F32x8(__m256), Mask32x8, Bits32x8, [f32; 8];
    splat _mm256_set1_ps; load _mm256_loadu_ps; store _mm256_storeu_ps; load_partial load_partial_f32;
    store_partial store_partial_f32; select select_f32;
    eq _mm256_cmp_ps::<_CMP_EQ_OQ>; ne _mm256_cmp_ps::<_CMP_NEQ_UQ>;
    lt _mm256_cmp_ps::<_CMP_LT_OQ>; le _mm256_cmp_ps::<_CMP_LE_OQ>;
    add _mm256_add_ps; sub _mm256_sub_ps; mul _mm256_mul_ps; div _mm256_div_ps; neg neg_f32; abs abs_f32;
    min _mm256_min_ps; max _mm256_max_ps; sqrt _mm256_sqrt_ps; mul_add _mm256_fmadd_ps;
    floor _mm256_floor_ps; ceil _mm256_ceil_ps; round _mm256_round_ps::<HALF_EVEN>; trunc _mm256_round_ps::<TOWARDS_ZERO>;
    scale scale_in_two_steps; scale_floor scale_floored; exponent exponent_by_bits;
    significand significand_by_bits; look_up look_up_f32; slide_up slide_up_f32; slide_down slide_down_f32;
    even even_f32; odd odd_f32; zip_low zip_low_f32; zip_high zip_high_f32;
    to_bits _mm256_castps_si256; from_bits _mm256_castsi256_ps; bits_equal bits_equal_32;
}

float_register! {
    /// Four f64.
    F64x4(__m256d), Mask64x4, Bits64x4, [f64; 4];
    splat _mm256_set1_pd; load _mm256_loadu_pd; store _mm256_storeu_pd; load_partial load_partial_f64;
    store_partial store_partial_f64; select select_f64;
    eq _mm256_cmp_pd::<_CMP_EQ_OQ>; ne _mm256_cmp_pd::<_CMP_NEQ_UQ>;
    lt _mm256_cmp_pd::<_CMP_LT_OQ>; le _mm256_cmp_pd::<_CMP_LE_OQ>;
    add _mm256_add_pd; sub _mm256_sub_pd; mul _mm256_mul_pd; div _mm256_div_pd; neg neg_f64; abs abs_f64;
    min _mm256_min_pd; max _mm256_max_pd; sqrt _mm256_sqrt_pd; mul_add _mm256_fmadd_pd;
    floor _mm256_floor_pd; ceil _mm256_ceil_pd; round _mm256_round_pd::<HALF_EVEN>; trunc _mm256_round_pd::<TOWARDS_ZERO>;
    scale scale_in_two_steps; scale_floor scale_floored; exponent exponent_by_bits;
    significand significand_by_bits; look_up look_up_f64; slide_up slide_up_f64; slide_down slide_down_f64;
    even even_f64; odd odd_f64; zip_low zip_low_f64; zip_high zip_high_f64;
    to_bits _mm256_castpd_si256; from_bits _mm256_castsi256_pd; bits_equal bits_equal_64;
}

bits_register! {
    /// The bits of eight f32.
    Bits32x8(__m256i), i32; splat _mm256_set1_epi32; shl _mm256_sll_epi32; shr _mm256_srl_epi32; count _mm_cvtsi32_si128;
    add _mm256_add_epi32; sub _mm256_sub_epi32; and _mm256_and_si256; or _mm256_or_si256; xor _mm256_xor_si256;
}

bits_register! {
    /// The bits of four f64.
    Bits64x4(__m256i), i64; splat _mm256_set1_epi64x; shl _mm256_sll_epi64; shr _mm256_srl_epi64; count _mm_cvtsi32_si128;
    add _mm256_add_epi64; sub _mm256_sub_epi64; and _mm256_and_si256; or _mm256_or_si256; xor _mm256_xor_si256;
}

/// A truth value for each of eight lanes: all bits of the lane, or none.
#[derive(Clone, Copy, Debug)]
pub struct Mask32x8(__m256);

/// A truth value for each of four lanes: all bits of the lane, or none.
#[derive(Clone, Copy, Debug)]
pub struct Mask64x4(__m256d);

operators! { Mask32x8: BitAnd bitand _mm256_and_ps, BitOr bitor _mm256_or_ps; Not not not_f32; }
operators! { Mask64x4: BitAnd bitand _mm256_and_pd, BitOr bitor _mm256_or_pd; Not not not_f64; }

impl Mask for Mask32x8 {
    const LANES: usize = 8;

    #[inline(always)]
    fn first(count: usize) -> Self {
        // SAFETY: the set is there: note "Soundness".
        Self(unsafe { _mm256_castsi256_ps(first_32(count)) })
    }
    #[inline(always)]
    unsafe fn load_bool(from: *const bool, count: usize) -> Self {
        // SAFETY: the set is there, and `from` is valid for `count <= LANES` bytes.
        Self(unsafe {
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(padded(from.cast::<u8>(), count)));
            let wide = _mm256_cvtepu8_epi32(bytes);
            _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256()))
        })
    }
    #[inline(always)]
    unsafe fn store_bool(self, to: *mut bool, count: usize) {
        // SAFETY: the set is there, and `to` is valid for `count <= LANES` bytes.
        unsafe {
            let ones = _pdep_u64(_mm256_movemask_ps(self.0) as u64, 0x0101_0101_0101_0101);
            to.cast::<u8>().copy_from_nonoverlapping(ones.to_le_bytes().as_ptr(), count);
        }
    }
    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: the set is there: note "Soundness".
        unsafe { _mm256_movemask_ps(self.0) != 0 }
    }
    #[inline(always)]
    fn all(self) -> bool {
        // SAFETY: the set is there: note "Soundness".
        unsafe { _mm256_movemask_ps(self.0) == 0xff }
    }
}

impl Mask for Mask64x4 {
    const LANES: usize = 4;

    #[inline(always)]
    fn first(count: usize) -> Self {
        // SAFETY: the set is there: note "Soundness".
        Self(unsafe { _mm256_castsi256_pd(first_64(count)) })
    }
    #[inline(always)]
    unsafe fn load_bool(from: *const bool, count: usize) -> Self {
        // SAFETY: the set is there, and `from` is valid for `count <= LANES` bytes.
        Self(unsafe {
            let bytes = _mm_cvtsi32_si128(i32::from_le_bytes(padded(from.cast::<u8>(), count)));
            let wide = _mm256_cvtepu8_epi64(bytes);
            _mm256_castsi256_pd(_mm256_cmpgt_epi64(wide, _mm256_setzero_si256()))
        })
    }
    #[inline(always)]
    unsafe fn store_bool(self, to: *mut bool, count: usize) {
        // SAFETY: the set is there, and `to` is valid for `count <= LANES` bytes.
        unsafe {
            let ones = _pdep_u32(_mm256_movemask_pd(self.0) as u32, 0x0101_0101);
            to.cast::<u8>().copy_from_nonoverlapping(ones.to_le_bytes().as_ptr(), count);
        }
    }
    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: the set is there: note "Soundness".
        unsafe { _mm256_movemask_pd(self.0) != 0 }
    }
    #[inline(always)]
    fn all(self) -> bool {
        // SAFETY: the set is there: note "Soundness".
        unsafe { _mm256_movemask_pd(self.0) == 0xf }
    }
}

native_lanes!(Avx2:
    u8 => Array<u8, 32>, i8 => Array<i8, 32>, i16 => Array<i16, 16>, i32 => Array<i32, 8>, i64 => Array<i64, 4>,
    f32 => F32x8, f64 => F64x4,
);
bool_lanes!(Avx2: 32);

half_lanes! {
    Avx2, f16 => F32x8, 8; widen f16::to_f32, widen_f16_lanes; narrow f16::from_f32, narrow_f16_lanes;
}
half_lanes! {
    Avx2, bf16 => F32x8, 8; widen widen_bf16, widen_bf16_lanes; narrow round_to_bf16, narrow_bf16_lanes;
}

const HALF_EVEN: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const TOWARDS_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

on_registers! {
    fn first_32(count: usize) -> __m256i {
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }
    fn first_64(count: usize) -> __m256i {
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3))
    }
    fn load_partial_f32(from: *const f32, count: usize) -> __m256 { _mm256_maskload_ps(from, first_32(count)) }
    fn load_partial_f64(from: *const f64, count: usize) -> __m256d { _mm256_maskload_pd(from, first_64(count)) }
    // Not by masked stores, each of which takes 15 cycles on AMD's processors without AVX-512.
    fn store_partial_f32(to: *mut f32, count: usize, x: __m256) -> () {
        if count >= 8 {
            return _mm256_storeu_ps(to, x);
        }
        let (mut to, mut rest) = (to, _mm256_castps256_ps128(x));
        if count & 4 != 0 {
            _mm_storeu_ps(to, rest);
            (to, rest) = (to.add(4), _mm256_extractf128_ps::<1>(x));
        }
        if count & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(rest));
            (to, rest) = (to.add(2), _mm_movehl_ps(rest, rest));
        }
        if count & 1 != 0 {
            _mm_store_ss(to, rest);
        }
    }
    fn store_partial_f64(to: *mut f64, count: usize, x: __m256d) -> () {
        if count >= 4 {
            return _mm256_storeu_pd(to, x);
        }
        let (mut to, mut rest) = (to, _mm256_castpd256_pd128(x));
        if count & 2 != 0 {
            _mm_storeu_pd(to, rest);
            (to, rest) = (to.add(2), _mm256_extractf128_pd::<1>(x));
        }
        if count & 1 != 0 {
            _mm_store_sd(to, rest);
        }
    }
    fn select_f32(mask: __m256, yes: __m256, no: __m256) -> __m256 { _mm256_blendv_ps(no, yes, mask) }
    fn select_f64(mask: __m256d, yes: __m256d, no: __m256d) -> __m256d { _mm256_blendv_pd(no, yes, mask) }
    fn neg_f32(x: __m256) -> __m256 { _mm256_xor_ps(x, _mm256_set1_ps(-0.0)) }
    fn neg_f64(x: __m256d) -> __m256d { _mm256_xor_pd(x, _mm256_set1_pd(-0.0)) }
    fn abs_f32(x: __m256) -> __m256 { _mm256_andnot_ps(_mm256_set1_ps(-0.0), x) }
    fn abs_f64(x: __m256d) -> __m256d { _mm256_andnot_pd(_mm256_set1_pd(-0.0), x) }
    fn not_f32(x: __m256) -> __m256 { _mm256_xor_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(-1))) }
    fn not_f64(x: __m256d) -> __m256d { _mm256_xor_pd(x, _mm256_castsi256_pd(_mm256_set1_epi64x(-1))) }
    // Two permutations and a blend cost a fifth of a gather.
    fn look_up_f32(table: &[f32; 16], index: __m256i) -> __m256 {
        let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), index);
        let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), index);
        _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index)))
    }
    fn look_up_f64(table: &[f64; 16], index: __m256i) -> __m256d {
        _mm256_i64gather_pd::<8>(table.as_ptr(), _mm256_and_si256(index, _mm256_set1_epi64x(15)))
    }
    // First the two halves in between: the element that moves from one half into the other is then beside it.
    fn slide_up_f32(x: __m256, before: __m256) -> __m256 {
        let (x, before) = (_mm256_castps_si256(x), _mm256_castps_si256(before));
        _mm256_castsi256_ps(_mm256_alignr_epi8::<12>(x, _mm256_permute2x128_si256::<0x21>(before, x)))
    }
    fn slide_up_f64(x: __m256d, before: __m256d) -> __m256d {
        _mm256_shuffle_pd::<0b0101>(_mm256_permute2f128_pd::<0x21>(before, x), x)
    }
    fn slide_down_f32(x: __m256, after: __m256) -> __m256 {
        let (x, after) = (_mm256_castps_si256(x), _mm256_castps_si256(after));
        _mm256_castsi256_ps(_mm256_alignr_epi8::<4>(_mm256_permute2x128_si256::<0x21>(x, after), x))
    }
    fn slide_down_f64(x: __m256d, after: __m256d) -> __m256d {
        _mm256_shuffle_pd::<0b0101>(x, _mm256_permute2f128_pd::<0x21>(x, after))
    }
    // Shuffles stay inside halves of 128 bits, whose middle quarters are then exchanged.
    fn even_f32(a: __m256, b: __m256) -> __m256 { middle_exchanged(_mm256_castps_pd(_mm256_shuffle_ps::<0x88>(a, b))) }
    fn odd_f32(a: __m256, b: __m256) -> __m256 { middle_exchanged(_mm256_castps_pd(_mm256_shuffle_ps::<0xdd>(a, b))) }
    fn middle_exchanged(x: __m256d) -> __m256 { _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11011000>(x)) }
    fn zip_low_f32(even: __m256, odd: __m256) -> __m256 {
        _mm256_permute2f128_ps::<0x20>(_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd))
    }
    fn zip_high_f32(even: __m256, odd: __m256) -> __m256 {
        _mm256_permute2f128_ps::<0x31>(_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd))
    }
    fn even_f64(a: __m256d, b: __m256d) -> __m256d { _mm256_permute4x64_pd::<0b11011000>(_mm256_unpacklo_pd(a, b)) }
    fn odd_f64(a: __m256d, b: __m256d) -> __m256d { _mm256_permute4x64_pd::<0b11011000>(_mm256_unpackhi_pd(a, b)) }
    fn zip_low_f64(even: __m256d, odd: __m256d) -> __m256d {
        _mm256_permute2f128_pd::<0x20>(_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd))
    }
    fn zip_high_f64(even: __m256d, odd: __m256d) -> __m256d {
        _mm256_permute2f128_pd::<0x31>(_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd))
    }
    fn bits_equal_32(a: __m256i, b: __m256i) -> __m256 { _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)) }
    fn bits_equal_64(a: __m256i, b: __m256i) -> __m256d { _mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b)) }

    fn widen_f16_lanes(lanes: [u16; 8]) -> __m256 { _mm256_cvtph_ps(transmute::<[u16; 8], __m128i>(lanes)) }
    fn narrow_f16_lanes(x: __m256) -> [u16; 8] {
        transmute::<__m128i, [u16; 8]>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x))
    }
    fn widen_bf16_lanes(lanes: [u16; 8]) -> __m256 {
        let wide = _mm256_cvtepu16_epi32(transmute::<[u16; 8], __m128i>(lanes));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    }
    // As `round_to_bf16`.
    fn narrow_bf16_lanes(x: __m256) -> [u16; 8] {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        let wide = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(rounded), _mm256_set1_epi32(0x7fc0), nan);
        let halves = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide));
        transmute::<__m128i, [u16; 8]>(halves)
    }
}
