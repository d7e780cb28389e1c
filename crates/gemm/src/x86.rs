//! Vectors of AVX2 and AVX-512, and the function that enters each of these instruction sets.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::x86_64::*;

use super::{
    amx,
    element::Pair,
    lanes::{Block, Body, Lanes, Shuffle, Strip, store_transposed, tiles, transpose},
    plan::Cut,
    portable::Shim,
    tile::{Tile, TileArgs},
    transpose_tile::CacheLineLanes,
};

/// Inside this shim AVX2, FMA and F16C are on.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(body: impl Body) {
    // SAFETY: the caller's conditions.
    unsafe { body.run() }
}

// SAFETY: the body is called once.
unsafe impl Shim for Avx2 {
    #[inline(always)]
    unsafe fn enter(body: impl Body) {
        // SAFETY: the caller's conditions.
        unsafe { avx2(body) }
    }
}

/// Inside this shim AVX-512 F, BW, DQ and VL are on.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512(body: impl Body) {
    // SAFETY: the caller's conditions.
    unsafe { body.run() }
}

// SAFETY: the body is called once.
unsafe impl Shim for Avx512 {
    #[inline(always)]
    unsafe fn enter(body: impl Body) {
        // SAFETY: the caller's conditions.
        unsafe { avx512(body) }
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn avx512_bf16(body: impl Body) {
    // SAFETY: the caller's conditions.
    unsafe { body.run() }
}

/// The methods that are one intrinsic each. `$mask` converts a number of lanes to the mask that the masked forms take.
macro_rules! register {
    ($lanes:ident, $register:ty, $acc:ty, $n:literal, $zero:ident $set:ident $mul:ident $fma:ident,
     $load:ident $store:ident, $mask:ident, $load_first:expr, $store_first:ident) => {
        const N: usize = $n;
        type Acc = $acc;

        #[inline(always)]
        unsafe fn transpose(
            block: &Block<Self::Unit>,
            to: *mut Self::Unit,
            stride: usize,
            groups: usize,
            lanes: usize,
        ) {
            // SAFETY: the caller's conditions.
            unsafe { transpose::<Self>(block, to, stride, groups, lanes) }
        }

        #[inline(always)]
        unsafe fn transpose_rows(
            row: impl Fn(usize) -> *const Self::Unit,
            to: *mut Self::Unit,
            stride: usize,
            groups: usize,
        ) {
            // SAFETY: the caller's conditions.
            unsafe { store_transposed::<Self>(row, to, stride, [groups, Self::N]) }
        }

        #[inline(always)]
        unsafe fn prefetch(at: *const u8) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn prefetch_l2(at: *const u8) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the CPU has the instruction.
            Self(unsafe { $zero() })
        }
        #[inline(always)]
        unsafe fn splat(value: $acc) -> Self {
            // SAFETY: the CPU has the instruction.
            Self(unsafe { $set(value) })
        }
        #[inline(always)]
        unsafe fn load(from: *const $acc) -> Self {
            // SAFETY: `N` elements are readable.
            Self(unsafe { $load(from) })
        }
        #[inline(always)]
        unsafe fn load_first(from: *const $acc, count: usize) -> Self {
            // SAFETY: `count` elements are readable, and the others masked.
            Self(unsafe { $load_first($mask(count), from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut $acc) {
            // SAFETY: `N` elements are writable.
            unsafe { $store(to, self.0) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut $acc, count: usize) {
            // SAFETY: `count` elements are writable, and the others masked.
            unsafe { $store_first(to, $mask(count), self.0) }
        }
        #[inline(always)]
        unsafe fn mul(self, by: Self) -> Self {
            // SAFETY: the CPU has the instruction.
            Self(unsafe { $mul(self.0, by.0) })
        }
        #[inline(always)]
        unsafe fn mul_add(self, by: Self, plus: Self) -> Self {
            // SAFETY: the CPU has the instruction.
            Self(unsafe { $fma(self.0, by.0, plus.0) })
        }
    };
}

/// A register whose operands are its accumulators.
macro_rules! float {
    ($lanes:ident, $register:ty, $shim:ident, $tiles:expr, $acc:ty, $set:ident $fma:ident $load:ident $interleave:ident,
     $($rest:tt)*) => {
        #[derive(Clone, Copy)]
        pub(super) struct $lanes($register);

        // SAFETY: each method is the intrinsic of its name, and needs what the trait requires.
        unsafe impl Lanes for $lanes {
            type Unit = $acc;
            type Operand = $register;
            const TILES: &'static [&'static [Tile<Self>]] = $tiles;

            #[inline(always)]
            unsafe fn enter(body: impl Body) {
                // SAFETY: the caller's conditions.
                unsafe { $shim(body) }
            }
            #[inline(always)]
            unsafe fn operand(from: *const $acc) -> $register {
                // SAFETY: `N` elements are readable.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn broadcast(from: *const $acc) -> $register {
                // SAFETY: one element is readable.
                unsafe { $set(from.read_unaligned()) }
            }
            #[inline(always)]
            unsafe fn accumulate(self, a: $register, b: $register) -> Self {
                // SAFETY: the CPU has the instruction.
                Self(unsafe { $fma(a, b, self.0) })
            }
            #[inline(always)]
            unsafe fn interleaved(self, other: Self) -> [Self; 2] {
                // SAFETY: the CPU has the instructions.
                let [lower, upper] = unsafe { $interleave(self.0, other.0) };
                [Self(lower), Self(upper)]
            }
            register!($lanes, $register, $acc, $($rest)*);
        }

        // SAFETY: as above.
        unsafe impl Shuffle for $lanes {
            #[inline(always)]
            unsafe fn store_units(units: $register, to: *mut $acc, count: usize) {
                // SAFETY: `count` units are writable.
                unsafe { if count == Self::N { Self(units).store(to) } else { Self(units).store_first(to, count) } }
            }
            #[inline(always)]
            unsafe fn interleave(a: $register, b: $register) -> [$register; 2] {
                // SAFETY: the CPU has the instructions.
                unsafe { $interleave(a, b) }
            }
        }
    };
}

float!(
    F32x16, __m512, avx512, tiles!(12 wide), f32, _mm512_set1_ps _mm512_fmadd_ps _mm512_loadu_ps interleave_ps,
    16, _mm512_setzero_ps _mm512_set1_ps _mm512_mul_ps _mm512_fmadd_ps,
    _mm512_loadu_ps _mm512_storeu_ps, mask16, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps
);
float!(
    F64x8, __m512d, avx512, tiles!(12 wide), f64, _mm512_set1_pd _mm512_fmadd_pd _mm512_loadu_pd interleave_pd,
    8, _mm512_setzero_pd _mm512_set1_pd _mm512_mul_pd _mm512_fmadd_pd,
    _mm512_loadu_pd _mm512_storeu_pd, mask8, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd
);
float!(
    F32x8, __m256, avx2, tiles!(6), f32, _mm256_set1_ps _mm256_fmadd_ps _mm256_loadu_ps interleave256_ps,
    8, _mm256_setzero_ps _mm256_set1_ps _mm256_mul_ps _mm256_fmadd_ps,
    _mm256_loadu_ps _mm256_storeu_ps, mask256x8, |mask, from| _mm256_maskload_ps(from, mask), _mm256_maskstore_ps
);
float!(
    F64x4, __m256d, avx2, tiles!(6), f64, _mm256_set1_pd _mm256_fmadd_pd _mm256_loadu_pd interleave256_pd,
    4, _mm256_setzero_pd _mm256_set1_pd _mm256_mul_pd _mm256_fmadd_pd,
    _mm256_loadu_pd _mm256_storeu_pd, mask256x4, |mask, from| _mm256_maskload_pd(from, mask), _mm256_maskstore_pd
);

/// Sixteen f32 sums of products of bf16 pairs, which a tile holds in AMX's registers or in vector registers. The instructions take
/// subnormal inputs and results as zero, and round to nearest even whatever the rounding mode.
#[derive(Clone, Copy)]
pub(super) struct Pairs<const AMX: bool>(__m512);

pub(super) type Bf16x32 = Pairs<false>;
pub(super) type Amx = Pairs<true>;

// SAFETY: each method is the intrinsic of its name, and needs what the trait requires.
unsafe impl<const AMX: bool> Lanes for Pairs<AMX> {
    type Unit = Pair;
    type Operand = __m512bh;
    const K_UNITS: usize = if AMX { amx::SIDE } else { 1 };
    const TILES: &'static [&'static [Tile<Self>]] = tiles!(12);
    const CUT: Cut = if AMX { Cut::TILES } else { Cut::VECTORS };
    const NARROW: Strip = Strip { vectors: 2, rows: if AMX { amx::ROWS } else { Self::TILES[1].len() } };

    #[inline(always)]
    unsafe fn tile(rows: usize, vectors: usize, args: &TileArgs<Self>) {
        // SAFETY: the caller's conditions; A and B of these lanes are packed as AMX requires.
        unsafe { if AMX { amx::tile(rows, args) } else { Self::TILES[vectors - 1][rows - 1](args) } }
    }
    #[inline(always)]
    fn release_registers() {
        if AMX {
            amx::release();
        }
    }

    #[inline(always)]
    unsafe fn enter(body: impl Body) {
        // SAFETY: the caller's conditions.
        unsafe { avx512_bf16(body) }
    }
    #[inline(always)]
    unsafe fn operand(from: *const Pair) -> __m512bh {
        // SAFETY: `N` units are readable; any 64 bytes are pairs of bf16.
        unsafe { from.cast::<__m512bh>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn broadcast(from: *const Pair) -> __m512bh {
        // SAFETY: one unit is readable; any 64 bytes are pairs of bf16.
        unsafe { std::mem::transmute(_mm512_set1_epi32(from.cast::<i32>().read_unaligned())) }
    }
    #[inline(always)]
    unsafe fn accumulate(self, a: __m512bh, b: __m512bh) -> Self {
        // SAFETY: the CPU has the instruction.
        Self(unsafe { _mm512_dpbf16_ps(self.0, a, b) })
    }
    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        // SAFETY: the CPU has the instructions.
        let [lower, upper] = unsafe { interleave_ps(self.0, other.0) };
        [Self(lower), Self(upper)]
    }
    register!(
        Pairs, __m512, f32, 16, _mm512_setzero_ps _mm512_set1_ps _mm512_mul_ps _mm512_fmadd_ps,
        _mm512_loadu_ps _mm512_storeu_ps, mask16, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps
    );
}

// SAFETY: as above.
unsafe impl<const AMX: bool> Shuffle for Pairs<AMX> {
    #[inline(always)]
    unsafe fn store_units(units: __m512bh, to: *mut Pair, count: usize) {
        // SAFETY: `count` units are writable, each of the size of an f32.
        unsafe { F32x16::store_units(as_ps(units), to.cast(), count) }
    }
    #[inline(always)]
    unsafe fn interleave(a: __m512bh, b: __m512bh) -> [__m512bh; 2] {
        // SAFETY: the registers are equal in size, and any bits are valid in each.
        unsafe { std::mem::transmute::<[__m512; 2], [__m512bh; 2]>(interleave_ps(as_ps(a), as_ps(b))) }
    }
}

#[inline(always)]
fn as_ps(pairs: __m512bh) -> __m512 {
    // SAFETY: equal in size, and any bits are valid.
    unsafe { std::mem::transmute(pairs) }
}

/// Implements [`CacheLineLanes`]; `$units` numbers the lanes.
macro_rules! cache_line_lanes {
    ($lanes:ty, $register:ty, $stream:ident, $mix:ident, $index:ty, $set:ident $add:ident $units:expr) => {
        // SAFETY: each method is its intrinsics, and needs what the trait requires.
        unsafe impl CacheLineLanes for $lanes {
            #[inline(always)]
            unsafe fn stream(units: $register, to: *mut Self::Unit) {
                // SAFETY: `to` is aligned to a cache line, which is writable.
                unsafe { $stream(to, units) }
            }
            #[inline(always)]
            unsafe fn joined(a: $register, b: $register, count: usize) -> $register {
                const UNITS: [$index; <$lanes>::N] = $units;
                // SAFETY: the CPU has the instructions.
                unsafe {
                    let first = $set((<$lanes>::N - count) as $index);
                    $mix(a, $add(first, _mm512_loadu_si512(UNITS.as_ptr().cast())), b)
                }
            }
        }
    };
}

cache_line_lanes!(
    F32x16, __m512, _mm512_stream_ps, _mm512_permutex2var_ps, i32,
    _mm512_set1_epi32 _mm512_add_epi32 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
);
cache_line_lanes!(
    F64x8, __m512d, _mm512_stream_pd, _mm512_permutex2var_pd, i64,
    _mm512_set1_epi64 _mm512_add_epi64 [0, 1, 2, 3, 4, 5, 6, 7]
);

#[inline(always)]
fn mask16(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

#[inline(always)]
fn mask8(count: usize) -> __mmask8 {
    ((1u32 << count) - 1) as __mmask8
}

/// The 8 words from index `8 - count` on are a mask of `count` lanes.
static MASK_WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn mask256x8(count: usize) -> __m256i {
    // SAFETY: `count` is at most 8, so the window lies inside.
    unsafe { _mm256_loadu_si256(MASK_WINDOW.as_ptr().add(8 - count).cast()) }
}

#[inline(always)]
unsafe fn mask256x4(count: usize) -> __m256i {
    // SAFETY: `count` is at most 4, so the half window lies inside.
    unsafe { _mm256_cvtepi32_epi64(_mm_loadu_si128(MASK_WINDOW.as_ptr().add(8 - count).cast())) }
}

#[inline(always)]
unsafe fn interleave_ps(a: __m512, b: __m512) -> [__m512; 2] {
    // SAFETY: the CPU has the instructions.
    unsafe {
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        [_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b)]
    }
}

#[inline(always)]
unsafe fn interleave_pd(a: __m512d, b: __m512d) -> [__m512d; 2] {
    // SAFETY: the CPU has the instructions.
    unsafe {
        let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        [_mm512_permutex2var_pd(a, low, b), _mm512_permutex2var_pd(a, high, b)]
    }
}

#[inline(always)]
unsafe fn interleave256_ps(a: __m256, b: __m256) -> [__m256; 2] {
    // SAFETY: the CPU has the instructions.
    unsafe {
        let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
    }
}

#[inline(always)]
unsafe fn interleave256_pd(a: __m256d, b: __m256d) -> [__m256d; 2] {
    // SAFETY: the CPU has the instructions.
    unsafe {
        let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        [_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high)]
    }
}
