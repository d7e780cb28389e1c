//! The element types of products: what they are summed in, how they are packed, and which lanes multiply them.
#![expect(unsafe_code, reason = "chooses lanes that only some CPUs have")]

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
use super::x86::{Amx, Avx2, Avx512, Bf16x32, F32x8, F32x16, F64x4, F64x8};
use super::{
    Gemm, GemmElement, StridedRows,
    convert::{narrow_bf16, narrow_f16, widen_bf16, widen_f16},
    isa::Isa,
    pack::{self, transpose_pack},
    portable::{Baseline, Portable},
    product::multiply,
};

/// What products are summed in.
pub trait Scalar: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;
    /// Its opposite.
    const MINUS_ONE: Self;
    /// Whether a sum is the same in any order.
    const IS_EXACT: bool;
    /// The product; integers wrap.
    fn mul(self, by: Self) -> Self;
    /// `self * by + plus`; integers wrap, floats round once or twice as the target does cheaply.
    fn mul_add(self, by: Self, plus: Self) -> Self;
}

macro_rules! float_scalar {
    ($($t:ty)*) => {$(
        impl Scalar for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const MINUS_ONE: Self = -1.0;
            const IS_EXACT: bool = false;
            #[inline(always)]
            fn mul(self, by: Self) -> Self {
                self * by
            }
            #[inline(always)]
            fn mul_add(self, by: Self, plus: Self) -> Self {
                // Without the instruction, `mul_add` is a call into the C library.
                if cfg!(target_arch = "aarch64") { <$t>::mul_add(self, by, plus) } else { self * by + plus }
            }
        }
    )*};
}
float_scalar!(f32 f64);

macro_rules! integer_scalar {
    ($($t:ty)*) => {$(
        impl Scalar for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MINUS_ONE: Self = -1;
            const IS_EXACT: bool = true;
            #[inline(always)]
            fn mul(self, by: Self) -> Self {
                self.wrapping_mul(by)
            }
            #[inline(always)]
            fn mul_add(self, by: Self, plus: Self) -> Self {
                self.wrapping_mul(by).wrapping_add(plus)
            }
        }
    )*};
}
integer_scalar!(i32 i64);

/// Two bf16 that follow each other along k, the first in the low half.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Pair(u32);

/// An element that packs into units of type `U`.
///
/// # Safety
/// - `RAW` only if `DEPTH` adjacent elements are a unit, bit for bit.
pub(crate) unsafe trait Pack<U>: Copy {
    /// Elements a unit, along k.
    const DEPTH: usize;
    /// Whether elements that are adjacent along k are units without conversion, so that they can be copied bytewise.
    const RAW: bool;
    /// Whether an element is a unit, so that an operand may also be read without packing.
    const IS_UNIT: bool = Self::RAW && Self::DEPTH == 1;
    /// The padding element, which adds 0 to a sum.
    const PAD: Self;
    /// The unit of one element, and of the one after it where a unit holds two.
    fn unit(first: Self, second: Self) -> U;
}

macro_rules! packs {
    ($($t:ty => $u:ty: $raw:literal, $zero:expr, |$x:ident| $unit:expr;)*) => {$(
        // SAFETY: `RAW` is written where the types are equal.
        unsafe impl Pack<$u> for $t {
            const DEPTH: usize = 1;
            const RAW: bool = $raw;
            const PAD: Self = $zero;
            #[inline(always)]
            fn unit($x: Self, _: Self) -> $u {
                $unit
            }
        }
    )*};
}
packs! {
    f32 => f32: true, 0.0, |x| x;
    f64 => f64: true, 0.0, |x| x;
    i32 => i32: true, 0, |x| x;
    i64 => i64: true, 0, |x| x;
    i8 => i32: false, 0, |x| x.into();
    u8 => i32: false, 0, |x| x.into();
    i16 => i32: false, 0, |x| x.into();
    bf16 => f32: false, bf16::ZERO, |x| widen_bf16(x);
    f16 => f32: false, f16::ZERO, |x| widen_f16(x);
}

// SAFETY: the first of two elements is the low half of a little-endian word.
unsafe impl Pack<Pair> for bf16 {
    const DEPTH: usize = 2;
    const RAW: bool = cfg!(target_endian = "little");
    const PAD: Self = Self::ZERO;
    #[inline(always)]
    fn unit(first: Self, second: Self) -> Pair {
        Pair(u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16)
    }
}

/// The part of [`super::GemmElement`] that only this crate uses.
pub trait Element: Copy + Send + Sync + 'static {
    /// What products are summed in, and scaled by.
    type Acc: Scalar;
    /// Whether an element is an accumulator, so that sums may be kept in C itself.
    const IS_ACCUMULATOR: bool;

    /// The element as an accumulator; exact.
    fn widen(self) -> Self::Acc;
    /// The accumulator rounded to nearest even, or truncated to the low bits of an integer.
    fn narrow(acc: Self::Acc) -> Self;
}

macro_rules! elements {
    ($($t:ty: $acc:ty, $direct:literal, |$x:ident| $widen:expr, |$y:ident| $narrow:expr,
       [$scalar:ty, $avx2:ty, $avx512:ty, $bf16:ty, $amx:ty];)*) => {$(
        impl Element for $t {
            type Acc = $acc;
            const IS_ACCUMULATOR: bool = $direct;
            #[inline(always)]
            fn widen(self) -> $acc {
                let $x = self;
                $widen
            }
            #[inline(always)]
            fn narrow($y: $acc) -> Self {
                $narrow
            }
        }

        impl GemmElement for $t {
            type Scalar = $acc;

            unsafe fn multiply(isa: Isa, g: &Gemm<Self>) {
                // SAFETY: the CPU has `isa`, and each arm's lanes are of it.
                unsafe {
                    match isa {
                        Isa::Scalar => multiply::<$t, $scalar>(g),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => multiply::<$t, $avx2>(g),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => multiply::<$t, $avx512>(g),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512Bf16 => multiply::<$t, $bf16>(g),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Amx => multiply::<$t, $amx>(g),
                        #[cfg(not(target_arch = "x86_64"))]
                        _ => multiply::<$t, $scalar>(g),
                    }
                }
            }

            unsafe fn transpose_pack(isa: Isa, rows: &StridedRows<Self>, to: *mut $acc, pitch: usize) {
                // SAFETY: as above.
                unsafe {
                    match isa {
                        Isa::Scalar => transpose_pack::<$t, $scalar>(rows, to, pitch),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => transpose_pack::<$t, $avx2>(rows, to, pitch),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => transpose_pack::<$t, $avx512>(rows, to, pitch),
                        #[cfg(not(target_arch = "x86_64"))]
                        _ => transpose_pack::<$t, $scalar>(rows, to, pitch),
                    }
                }
            }

            unsafe fn transpose(isa: Isa, rows: &StridedRows<Self>, to: *mut $acc, pitch: usize) {
                // SAFETY: as above.
                unsafe {
                    match isa {
                        Isa::Scalar => pack::transpose::<$t, $scalar>(rows, to, pitch),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => pack::transpose::<$t, $avx2>(rows, to, pitch),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => pack::transpose::<$t, $avx512>(rows, to, pitch),
                        #[cfg(not(target_arch = "x86_64"))]
                        _ => pack::transpose::<$t, $scalar>(rows, to, pitch),
                    }
                }
            }
        }
    )*};
}

type F32 = Portable<Baseline, f32, 8>;
type F64 = Portable<Baseline, f64, 4>;
type I32 = Portable<Baseline, i32, 8>;
type I64 = Portable<Baseline, i64, 4>;
#[cfg(target_arch = "x86_64")]
type I32x8 = Portable<Avx2, i32, 8>;
#[cfg(target_arch = "x86_64")]
type I64x4 = Portable<Avx2, i64, 4>;
#[cfg(target_arch = "x86_64")]
type I32x16 = Portable<Avx512, i32, 16>;
#[cfg(target_arch = "x86_64")]
type I64x8 = Portable<Avx512, i64, 8>;

elements! {
    f32: f32, true, |x| x, |x| x, [F32, F32x8, F32x16, F32x16, F32x16];
    f64: f64, true, |x| x, |x| x, [F64, F64x4, F64x8, F64x8, F64x8];
    bf16: f32, false, |x| widen_bf16(x), |x| narrow_bf16(x), [F32, F32x8, F32x16, Bf16x32, Amx];
    f16: f32, false, |x| widen_f16(x), |x| narrow_f16(x), [F32, F32x8, F32x16, F32x16, F32x16];
    i8: i32, false, |x| x.into(), |x| x as Self, [I32, I32x8, I32x16, I32x16, I32x16];
    u8: i32, false, |x| x.into(), |x| x as Self, [I32, I32x8, I32x16, I32x16, I32x16];
    i16: i32, false, |x| x.into(), |x| x as Self, [I32, I32x8, I32x16, I32x16, I32x16];
    i32: i32, true, |x| x, |x| x, [I32, I32x8, I32x16, I32x16, I32x16];
    i64: i64, true, |x| x, |x| x, [I64, I64x4, I64x8, I64x8, I64x8];
}
