//! Conversion between any two element types, with the results PyTorch gives on x86.
#![expect(unsafe_code, reason = "loads and stores go through raw pointers")]

use std::mem::MaybeUninit;

use half::{bf16, f16};

use super::isa::{CodegenAnchor, EveryLanes, Isa, Kernel, Scalar, dispatch};
use super::lanes::{Lanes, Vector};
use super::scalar::{round_to_bf16, widen_bf16};

/// A type that elements are converted from and to: the ten scalar types.
///
/// - A float becomes an integer by truncation. Values that do not fit, and NaN, give the smallest i32 or i64; the narrower
///   integers take the low bits of an i32, and u8 those of an i64.
/// - An integer wraps to a narrower one.
/// - Anything but zero becomes `true`, NaN included.
/// - f16 and bf16 are converted through f32, rounding to nearest even.
///
/// ```
/// use flambeau_vectorized::Convert;
/// assert_eq!((-1.5f32).convert::<u8>(), 255);
/// assert_eq!(f64::NAN.convert::<i64>(), i64::MIN);
/// assert!(f32::NAN.convert::<bool>());
/// ```
pub trait Convert: EveryLanes {
    /// True for f16 and bf16, whose vectors hold f32.
    #[doc(hidden)]
    const IS_HALF: bool = false;

    /// True for f32, through which f16 and bf16 go.
    #[doc(hidden)]
    const IS_F32: bool = false;

    /// `self` as a `To`.
    #[inline(always)]
    #[must_use]
    fn convert<To: Convert>(self) -> To {
        To::of(self)
    }

    /// `value` as this type.
    fn of<From: Convert>(value: From) -> Self;
    /// Not zero.
    fn to_bool(self) -> bool;
    /// As u8.
    fn to_u8(self) -> u8;
    /// As i32, whose low bits i8 and i16 take.
    fn to_i32(self) -> i32;
    /// As i64.
    fn to_i64(self) -> i64;
    /// As f32.
    fn to_f32(self) -> f32;
    /// As f64.
    fn to_f64(self) -> f64;
}

macro_rules! convert_integer {
    ($($type:ident, $value:ident => $of:expr;)*) => {$(
        impl Convert for $type {
            #[inline(always)]
            fn of<From: Convert>($value: From) -> Self { $of }
            #[inline(always)]
            fn to_bool(self) -> bool { self != 0 }
            #[inline(always)]
            fn to_u8(self) -> u8 { self as u8 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}

convert_integer! {
    u8, x => x.to_u8();
    i8, x => x.to_i32() as i8;
    i16, x => x.to_i32() as i16;
    i32, x => x.to_i32();
    i64, x => x.to_i64();
}

/// Truncation to an integer, or the smallest integer if the result does not fit: the results of `cvttss2si` and similar instructions.
macro_rules! truncate {
    ($value:expr, $float:ty => $integer:ty) => {{
        const MIN: $float = <$integer>::MIN as $float;
        let value: $float = $value;
        if (MIN..-MIN).contains(&value) {
            // SAFETY: the value is not NaN, and its integer part is between `MIN` and `MAX`.
            unsafe { value.to_int_unchecked::<$integer>() }
        } else {
            <$integer>::MIN
        }
    }};
}

macro_rules! convert_float {
    ($float:ident, $of:ident, $through_for_u8:ty) => {
        impl Convert for $float {
            const IS_F32: bool = size_of::<Self>() == 4;
            #[inline(always)]
            fn of<From: Convert>(value: From) -> Self {
                value.$of()
            }
            #[inline(always)]
            fn to_bool(self) -> bool {
                self != 0.0
            }
            #[inline(always)]
            fn to_u8(self) -> u8 {
                truncate!(self, $float => $through_for_u8) as u8
            }
            #[inline(always)]
            fn to_i32(self) -> i32 {
                truncate!(self, $float => i32)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                truncate!(self, $float => i64)
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    };
}

// From f32 to u8 through i32 is the same: an f32 that fits only an i64 is a multiple of 256, and so is the smallest i32.
convert_float!(f32, to_f32, i32);
convert_float!(f64, to_f64, i64);

macro_rules! convert_half {
    ($half:ident, $widen:path, $narrow:path) => {
        impl Convert for $half {
            const IS_HALF: bool = true;
            #[inline(always)]
            fn of<From: Convert>(value: From) -> Self {
                $narrow(value.to_f32())
            }
            #[inline(always)]
            fn to_bool(self) -> bool {
                $widen(self).to_bool()
            }
            #[inline(always)]
            fn to_u8(self) -> u8 {
                $widen(self).to_u8()
            }
            #[inline(always)]
            fn to_i32(self) -> i32 {
                $widen(self).to_i32()
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                $widen(self).to_i64()
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $widen(self)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from($widen(self))
            }
        }
    };
}

convert_half!(f16, f16::to_f32, f16::from_f32);
convert_half!(bf16, widen_bf16, round_to_bf16);

impl Convert for bool {
    #[inline(always)]
    fn of<From: Convert>(value: From) -> Self {
        value.to_bool()
    }
    #[inline(always)]
    fn to_bool(self) -> bool {
        self
    }
    #[inline(always)]
    fn to_u8(self) -> u8 {
        self as u8
    }
    #[inline(always)]
    fn to_i32(self) -> i32 {
        i32::from(self)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self.to_u8())
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self.to_u8())
    }
}

/// Reads one element, aligned or not: [`Lanes::load_one`] outside of kernels.
///
/// # Safety
///
/// - `from` is valid for reading one element; for `bool`, of any byte.
#[inline(always)]
pub unsafe fn load_one<T: EveryLanes>(from: *const T) -> T {
    // SAFETY: this function's condition.
    unsafe { <T as Lanes<Scalar>>::load_one(from) }
}

/// Converts `count` adjacent elements.
///
/// ```
/// use flambeau_vectorized::convert_slice;
/// let (from, mut to) = ([1.9f32, -1.9, 300.0], [0u8; 3]);
/// // SAFETY: both hold three elements, and do not overlap.
/// unsafe { convert_slice(from.as_ptr(), to.as_mut_ptr(), 3) };
/// assert_eq!(to, [1, 255, 44]);
/// ```
///
/// # Safety
///
/// - `from` is valid for reading and `to` for writing `count` elements, and they do not overlap.
/// - A `bool` at `from` may be any byte: what is not 0 is true.
pub unsafe fn convert_slice<From: Convert, To: Convert>(from: *const From, to: *mut To, count: usize) {
    // SAFETY: the conditions are those of the kernel.
    unsafe { dispatch(Slice { from, to, count }) }
}

/// Converts as many elements as both slices have.
///
/// ```
/// let mut to = [0.0f32; 2];
/// flambeau_vectorized::convert_elements(&[1i32, 2], &mut to);
/// assert_eq!(to, [1.0, 2.0]);
/// ```
pub fn convert_elements<From: Convert, To: Convert>(from: &[From], to: &mut [To]) {
    // SAFETY: both slices have so many elements, and an exclusive one overlaps no other.
    unsafe { convert_slice(from.as_ptr(), to.as_mut_ptr(), from.len().min(to.len())) }
}

/// `count` elements at `from`, to be converted to `to`, where they do not overlap.
struct Slice<From, To> {
    from: *const From,
    to: *mut To,
    count: usize,
}

/// The number of f32 that conversions between a half type and another type buffer at a time: enough to amortise the loops, few enough
/// for L1, and a multiple of every number of lanes.
const BLOCK: usize = 256;

impl<From, To> CodegenAnchor for Slice<From, To> {
    type Anchor = Self;
}

impl<I: Isa, From: Convert + Lanes<I>, To: Convert + Lanes<I>> Kernel<I> for Slice<From, To> {
    #[inline(always)]
    unsafe fn run(self) {
        let Slice { from, to, count } = self;
        // SAFETY: the pointers are valid for `count` elements, those of the parts for as many as they hold; the buffer is read
        // where it was written, and a half type's vectors hold f32.
        unsafe {
            match (From::IS_HALF, To::IS_HALF) {
                (false, false) => each(from, to, count),
                (true, false) if To::IS_F32 => widen::<I, From>(from, to.cast(), count),
                (false, true) if From::IS_F32 => narrow::<I, To>(from.cast(), to, count),
                _ => {
                    let mut wide = [const { MaybeUninit::<f32>::uninit() }; BLOCK];
                    let wide = wide.as_mut_ptr().cast();
                    for start in (0..count).step_by(BLOCK) {
                        through_f32::<I, From, To>(
                            from.add(start),
                            wide,
                            to.add(start),
                            BLOCK.min(count - start),
                        );
                    }
                }
            }
        }
    }
}

/// Converts through f32.
///
/// # Safety
///
/// - The pointers are valid for `count` elements, and the lanes of half types are f32.
#[inline(always)]
unsafe fn through_f32<I: Isa, From, To>(from: *const From, wide: *mut f32, to: *mut To, count: usize)
where
    From: Convert + Lanes<I>,
    To: Convert + Lanes<I>,
{
    // SAFETY: by this function's condition.
    unsafe {
        if From::IS_HALF {
            widen::<I, From>(from, wide, count);
        } else {
            each(from, wide, count);
        }
        if To::IS_HALF {
            narrow::<I, To>(wide, to, count);
        } else {
            each(wide, to, count);
        }
    }
}

/// Converts one by one; LLVM vectorises the loop.
///
/// # Safety
///
/// - Both pointers are valid for `count` elements.
#[inline(always)]
unsafe fn each<From: Convert, To: Convert>(from: *const From, to: *mut To, count: usize) {
    for i in 0..count {
        // SAFETY: `i < count`.
        unsafe { to.add(i).write_unaligned(load_one(from.add(i)).convert()) };
    }
}

/// Widens through vectors.
///
/// # Safety
///
/// - Both pointers are valid for `count` elements, and the lanes of `T` are f32.
#[inline(always)]
unsafe fn widen<I: Isa, T: Lanes<I>>(from: *const T, to: *mut f32, count: usize) {
    let lanes = T::Vector::LANES;
    let whole = count - count % lanes;
    // SAFETY: `from` and `to` are valid for `count` elements, and `to`'s type is the lanes'.
    unsafe {
        for i in (0..whole).step_by(lanes) {
            T::load(from.add(i)).store(to.add(i).cast());
        }
        if whole < count {
            T::load_partial(from.add(whole), count - whole)
                .store_partial(to.add(whole).cast(), count - whole);
        }
    }
}

/// Narrows through vectors.
///
/// # Safety
///
/// - Both pointers are valid for `count` elements, and the lanes of `T` are f32.
#[inline(always)]
unsafe fn narrow<I: Isa, T: Lanes<I>>(from: *const f32, to: *mut T, count: usize) {
    let lanes = T::Vector::LANES;
    let whole = count - count % lanes;
    // SAFETY: `from` and `to` are valid for `count` elements, and `from`'s type is the lanes'.
    unsafe {
        for i in (0..whole).step_by(lanes) {
            T::store(T::Vector::load(from.add(i).cast()), to.add(i));
        }
        if whole < count {
            let tail = T::Vector::load_partial(from.add(whole).cast(), count - whole);
            T::store_partial(tail, to.add(whole), count - whole);
        }
    }
}
