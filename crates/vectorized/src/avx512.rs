//! Vectors of AVX-512, in 512-bit registers: sixteen f32 or eight f64, and half types converted to f32.
#![expect(unsafe_code, reason = "intrinsics, and loads and stores through raw pointers")]

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::transmute;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use half::{bf16, f16};

use super::array::{Array, load_bools, padded};
use super::isa::Avx512;
use super::lanes::{Bits, Float, Lanes, Mask, Number, Ordered, Vector};
use super::register::{bits_register, float_register, half_lanes, on_registers, operators};
use super::scalar::{bool_lanes, native_lanes, round_to_bf16, widen_bf16};

float_register! {
    /// Sixteen f32.
    F32x16(__m512), Mask16, Bits32x16, [f32; 16];
    splat _mm512_set1_ps; load _mm512_loadu_ps; store _mm512_storeu_ps; load_partial load_partial_f32;
    store_partial store_partial_f32; select select_f32;
    eq _mm512_cmp_ps_mask::<_CMP_EQ_OQ>; ne _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>;
    lt _mm512_cmp_ps_mask::<_CMP_LT_OQ>; le _mm512_cmp_ps_mask::<_CMP_LE_OQ>;
    add _mm512_add_ps; sub _mm512_sub_ps; mul _mm512_mul_ps; div _mm512_div_ps; neg neg_f32; abs _mm512_abs_ps;
    min _mm512_min_ps; max _mm512_max_ps; sqrt _mm512_sqrt_ps; mul_add _mm512_fmadd_ps;
    floor _mm512_roundscale_ps::<DOWN>; ceil _mm512_roundscale_ps::<UP>;
    round _mm512_roundscale_ps::<HALF_EVEN>; trunc _mm512_roundscale_ps::<TOWARDS_ZERO>;
    scale scale_f32; scale_floor scale_f32; exponent exponent_f32; significand significand_f32;
    look_up look_up_f32; slide_up slide_up_f32; slide_down slide_down_f32;
    even even_f32; odd odd_f32; zip_low zip_low_f32; zip_high zip_high_f32;
    to_bits _mm512_castps_si512; from_bits _mm512_castsi512_ps; bits_equal _mm512_cmpeq_epi32_mask;
}

float_register! {
    /// Eight f64.
    F64x8(__m512d), Mask8, Bits64x8, [f64; 8];
    splat _mm512_set1_pd; load _mm512_loadu_pd; store _mm512_storeu_pd; load_partial load_partial_f64;
    store_partial store_partial_f64; select select_f64;
    eq _mm512_cmp_pd_mask::<_CMP_EQ_OQ>; ne _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>;
    lt _mm512_cmp_pd_mask::<_CMP_LT_OQ>; le _mm512_cmp_pd_mask::<_CMP_LE_OQ>;
    add _mm512_add_pd; sub _mm512_sub_pd; mul _mm512_mul_pd; div _mm512_div_pd; neg neg_f64; abs _mm512_abs_pd;
    min _mm512_min_pd; max _mm512_max_pd; sqrt _mm512_sqrt_pd; mul_add _mm512_fmadd_pd;
    floor _mm512_roundscale_pd::<DOWN>; ceil _mm512_roundscale_pd::<UP>;
    round _mm512_roundscale_pd::<HALF_EVEN>; trunc _mm512_roundscale_pd::<TOWARDS_ZERO>;
    scale scale_f64; scale_floor scale_f64; exponent exponent_f64; significand significand_f64;
    look_up look_up_f64; slide_up slide_up_f64; slide_down slide_down_f64;
    even even_f64; odd odd_f64; zip_low zip_low_f64; zip_high zip_high_f64;
    to_bits _mm512_castpd_si512; from_bits _mm512_castsi512_pd; bits_equal _mm512_cmpeq_epi64_mask;
}

bits_register! {
    /// The bits of sixteen f32.
    Bits32x16(__m512i), i32; splat _mm512_set1_epi32; shl _mm512_sll_epi32; shr _mm512_srl_epi32; count _mm_cvtsi32_si128;
    add _mm512_add_epi32; sub _mm512_sub_epi32; and _mm512_and_si512; or _mm512_or_si512; xor _mm512_xor_si512;
}

bits_register! {
    /// The bits of eight f64.
    Bits64x8(__m512i), i64; splat _mm512_set1_epi64; shl _mm512_sll_epi64; shr _mm512_srl_epi64; count _mm_cvtsi32_si128;
    add _mm512_add_epi64; sub _mm512_sub_epi64; and _mm512_and_si512; or _mm512_or_si512; xor _mm512_xor_si512;
}

/// A bit for each of sixteen lanes.
#[derive(Clone, Copy, Debug)]
pub struct Mask16(__mmask16);

/// A bit for each of eight lanes.
#[derive(Clone, Copy, Debug)]
pub struct Mask8(__mmask8);

macro_rules! bit_mask {
    ($mask:ident($register:ident), $lanes:literal, $store:path) => {
        impl BitAnd for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }
        impl BitOr for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
        impl Not for $mask {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Self(!self.0)
            }
        }

        impl Mask for $mask {
            const LANES: usize = $lanes;

            #[inline(always)]
            fn first(count: usize) -> Self {
                Self(((1u32 << count) - 1) as $register)
            }
            #[inline(always)]
            unsafe fn load_bool(from: *const bool, count: usize) -> Self {
                let lanes = Self::first(count).0 as __mmask16;
                // SAFETY: the set is there, and `from` is valid for `count <= LANES` bytes, the ones unmasked.
                Self(unsafe {
                    let bytes = _mm_maskz_loadu_epi8(lanes, from.cast());
                    _mm_test_epi8_mask(bytes, bytes) as $register
                })
            }
            #[inline(always)]
            unsafe fn store_bool(self, to: *mut bool, count: usize) {
                let lanes = Self::first(count).0 as __mmask16;
                // SAFETY: the set is there, and `to` is valid for `count <= LANES` bytes: all that are stored, or the ones unmasked.
                unsafe {
                    let ones = _mm_maskz_set1_epi8(self.0 as __mmask16, 1);
                    if count == $lanes {
                        // A masked store takes many instructions of the processor.
                        $store(to.cast(), ones)
                    } else {
                        _mm_mask_storeu_epi8(to.cast(), lanes, ones)
                    }
                }
            }
            #[inline(always)]
            fn any(self) -> bool {
                self.0 != 0
            }
            #[inline(always)]
            fn all(self) -> bool {
                self.0 == $register::MAX
            }
        }
    };
}

bit_mask!(Mask16(__mmask16), 16, _mm_storeu_si128);
bit_mask!(Mask8(__mmask8), 8, _mm_storel_epi64);

// Integers have 256 bits: LLVM does not vectorise loops over longer arrays, which are ten times slower then.
native_lanes!(Avx512:
    u8 => Array<u8, 32>, i8 => Array<i8, 32>, i16 => Array<i16, 16>, i32 => Array<i32, 8>, i64 => Array<i64, 4>,
    f32 => F32x16, f64 => F64x8,
);
bool_lanes!(Avx512: 32);

half_lanes! {
    Avx512, f16 => F32x16, 16; widen f16::to_f32, widen_f16_lanes; narrow f16::from_f32, narrow_f16_lanes;
}
half_lanes! {
    Avx512, bf16 => F32x16, 16; widen widen_bf16, widen_bf16_lanes; narrow round_to_bf16, narrow_bf16_lanes;
    normal narrow_normal_bf16_lanes;
}

const HALF_EVEN: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
const TOWARDS_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// `x * 2^floor(n)` by the one instruction for it.
#[inline(always)]
fn scale_f32(x: F32x16, n: F32x16) -> F32x16 {
    // SAFETY: the set is there: note "Soundness".
    F32x16(unsafe { _mm512_scalef_ps(x.0, n.0) })
}

/// `x * 2^floor(n)` by the one instruction for it.
#[inline(always)]
fn scale_f64(x: F64x8, n: F64x8) -> F64x8 {
    // SAFETY: the set is there: note "Soundness".
    F64x8(unsafe { _mm512_scalef_pd(x.0, n.0) })
}

/// Functions of one vector, each one instruction.
macro_rules! of_one {
    ($(fn $name:ident($vector:ident) = $f:expr;)*) => {$(
        #[inline(always)]
        fn $name(x: $vector) -> $vector {
            // SAFETY: the set is there: note "Soundness".
            $vector(unsafe { $f(x.0) })
        }
    )*};
}

of_one! {
    fn exponent_f32(F32x16) = _mm512_getexp_ps;
    fn exponent_f64(F64x8) = _mm512_getexp_pd;
    fn significand_f32(F32x16) = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>;
    fn significand_f64(F64x8) = _mm512_getmant_pd::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>;
}

on_registers! {
    fn load_partial_f32(from: *const f32, count: usize) -> __m512 { _mm512_maskz_loadu_ps(Mask16::first(count).0, from) }
    fn load_partial_f64(from: *const f64, count: usize) -> __m512d { _mm512_maskz_loadu_pd(Mask8::first(count).0, from) }
    fn store_partial_f32(to: *mut f32, count: usize, x: __m512) -> () {
        _mm512_mask_storeu_ps(to, Mask16::first(count).0, x)
    }
    fn store_partial_f64(to: *mut f64, count: usize, x: __m512d) -> () {
        _mm512_mask_storeu_pd(to, Mask8::first(count).0, x)
    }
    fn select_f32(mask: __mmask16, yes: __m512, no: __m512) -> __m512 { _mm512_mask_blend_ps(mask, no, yes) }
    fn select_f64(mask: __mmask8, yes: __m512d, no: __m512d) -> __m512d { _mm512_mask_blend_pd(mask, no, yes) }
    fn look_up_f32(table: &[f32; 16], index: __m512i) -> __m512 {
        _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr()))
    }
    fn look_up_f64(table: &[f64; 16], index: __m512i) -> __m512d {
        _mm512_permutex2var_pd(_mm512_loadu_pd(table.as_ptr()), index, _mm512_loadu_pd(table.as_ptr().add(8)))
    }
    fn slide_up_f32(x: __m512, before: __m512) -> __m512 {
        _mm512_castsi512_ps(_mm512_alignr_epi32::<15>(_mm512_castps_si512(x), _mm512_castps_si512(before)))
    }
    fn slide_up_f64(x: __m512d, before: __m512d) -> __m512d {
        _mm512_castsi512_pd(_mm512_alignr_epi64::<7>(_mm512_castpd_si512(x), _mm512_castpd_si512(before)))
    }
    fn slide_down_f32(x: __m512, after: __m512) -> __m512 {
        _mm512_castsi512_ps(_mm512_alignr_epi32::<1>(_mm512_castps_si512(after), _mm512_castps_si512(x)))
    }
    fn slide_down_f64(x: __m512d, after: __m512d) -> __m512d {
        _mm512_castsi512_pd(_mm512_alignr_epi64::<1>(_mm512_castpd_si512(after), _mm512_castpd_si512(x)))
    }
    fn even_f32(a: __m512, b: __m512) -> __m512 {
        _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b)
    }
    fn odd_f32(a: __m512, b: __m512) -> __m512 {
        _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b)
    }
    fn zip_low_f32(a: __m512, b: __m512) -> __m512 {
        _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b)
    }
    fn zip_high_f32(a: __m512, b: __m512) -> __m512 {
        _mm512_permutex2var_ps(a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b)
    }
    fn even_f64(a: __m512d, b: __m512d) -> __m512d {
        _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b)
    }
    fn odd_f64(a: __m512d, b: __m512d) -> __m512d {
        _mm512_permutex2var_pd(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b)
    }
    fn zip_low_f64(a: __m512d, b: __m512d) -> __m512d {
        _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b)
    }
    fn zip_high_f64(a: __m512d, b: __m512d) -> __m512d {
        _mm512_permutex2var_pd(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b)
    }
    fn neg_f32(x: __m512) -> __m512 { _mm512_xor_ps(x, _mm512_set1_ps(-0.0)) }
    fn neg_f64(x: __m512d) -> __m512d { _mm512_xor_pd(x, _mm512_set1_pd(-0.0)) }

    fn widen_f16_lanes(lanes: [u16; 16]) -> __m512 { _mm512_cvtph_ps(transmute::<[u16; 16], __m256i>(lanes)) }
    fn narrow_f16_lanes(x: __m512) -> [u16; 16] {
        transmute::<__m256i, [u16; 16]>(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x))
    }
    fn widen_bf16_lanes(lanes: [u16; 16]) -> __m512 {
        let wide = _mm512_cvtepu16_epi32(transmute::<[u16; 16], __m256i>(lanes));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    }
    // As `round_to_bf16`. The instruction for it takes denormals for zero, and leaves NaN more of its bits.
    fn narrow_bf16_lanes(x: __m512) -> [u16; 16] {
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
        let raised = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
        let rounded = _mm512_mask_add_epi32(raised, odd, raised, _mm512_set1_epi32(1));
        let halves = _mm512_permutexvar_epi16(_mm512_loadu_si512(UPPER.as_ptr().cast()), rounded);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let halves = _mm512_castsi512_si256(halves);
        transmute::<__m256i, [u16; 16]>(_mm256_mask_blend_epi16(nan, halves, _mm256_set1_epi16(0x7fc0)))
    }
    fn narrow_normal_bf16_lanes(x: __m512) -> [u16; 16] {
        if is_x86_feature_detected!("avx512bf16") { transmute::<__m256i, [u16; 16]>(round_normal(x)) } else { narrow_bf16_lanes(x) }
    }
}

/// The nearest bf16, except for denormals and NaN. The instruction is inline assembly: with its intrinsic the function would need a
/// target feature that its callers lack, and could not be inlined into them.
///
/// # Safety
///
/// - The processor has AVX-512 BF16.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn round_normal(x: __m512) -> __m256i {
    let rounded;
    // SAFETY: the processor has the instruction, which accesses only its registers.
    unsafe {
        asm!("vcvtneps2bf16 {}, {}", out(ymm_reg) rounded, in(zmm_reg) x, options(pure, nomem, nostack, preserves_flags));
    }
    rounded
}

/// The indices of the upper halves of sixteen numbers, twice.
const UPPER: [u16; 32] = {
    let mut indices = [0; 32];
    let mut i = 0;
    while i < 32 {
        indices[i] = (2 * i as u16 + 1) % 32;
        i += 1;
    }
    indices
};
