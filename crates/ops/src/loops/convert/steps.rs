//! Conversions as types, so that two of them in sequence are a conversion too, with one function.
#![expect(unsafe_code, reason = "conversions are by address")]

use super::BLOCK;
use crate::vectorized::{Convert as ConvertElement, convert_slice, load_one};
use flambeau_core::float8::{F8E4M3FN, F8E5M2, F8E8M0FNU};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A conversion of dense elements.
pub(super) trait Step {
    /// Bytes of an element before and after.
    const SIZES: [usize; 2];

    /// Converts `count` elements.
    ///
    /// # Safety
    /// - `from` is valid for reading and `to` for writing `count` elements, aligned or not, and they do not overlap.
    unsafe fn run(from: *const u8, to: *mut u8, count: usize);
}

/// Between two types that have vectors.
pub(super) struct Direct<F, T>(PhantomData<(F, T)>);

impl<F: ConvertElement, T: ConvertElement> Step for Direct<F, T> {
    const SIZES: [usize; 2] = [size_of::<F>(), size_of::<T>()];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition.
        unsafe { convert_slice::<F, T>(from.cast(), to.cast(), count) }
    }
}

/// Part by part, between complex numbers with parts of two types.
pub(super) struct Parts<F, T>(PhantomData<(F, T)>);

impl<F: ConvertElement, T: ConvertElement> Step for Parts<F, T> {
    const SIZES: [usize; 2] = [2 * size_of::<F>(), 2 * size_of::<T>()];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition, for elements of two parts.
        unsafe { convert_slice::<F, T>(from.cast(), to.cast(), 2 * count) }
    }
}

/// Real numbers to parts of type `T`, beside imaginary parts of 0.
pub(super) struct ToComplex<F, T>(PhantomData<(F, T)>);

impl<F: ConvertElement, T: ConvertElement + Default> Step for ToComplex<F, T> {
    const SIZES: [usize; 2] = [size_of::<F>(), 2 * size_of::<T>()];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        let mut parts = [const { MaybeUninit::<T>::uninit() }; BLOCK];
        let (from, to) = (from.cast::<F>(), to.cast::<T>());
        for start in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the block takes `n`, which are then written.
            unsafe {
                convert_slice(from.add(start), parts.as_mut_ptr().cast::<T>(), n);
                for (i, part) in parts[..n].iter().enumerate() {
                    to.add(2 * (start + i)).write_unaligned(part.assume_init_read());
                    to.add(2 * (start + i) + 1).write_unaligned(T::default());
                }
            }
        }
    }
}

/// The real parts, of type `F`, converted; imaginary parts are dropped, as in PyTorch.
pub(super) struct RealPart<F, T>(PhantomData<(F, T)>);

impl<F: ConvertElement + Copy, T: ConvertElement> Step for RealPart<F, T> {
    const SIZES: [usize; 2] = [2 * size_of::<F>(), size_of::<T>()];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        let mut parts = [const { MaybeUninit::<F>::uninit() }; BLOCK];
        let (from, to) = (from.cast::<F>(), to.cast::<T>());
        for start in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the block takes `n`, which are then read.
            unsafe {
                for (i, part) in parts[..n].iter_mut().enumerate() {
                    part.write(load_one(from.add(2 * (start + i))));
                }
                convert_slice(parts.as_ptr().cast::<F>(), to.add(start), n);
            }
        }
    }
}

/// Whether either part, of type `F`, differs from 0.
pub(super) struct ToBool<F>(PhantomData<F>);

impl<F: ConvertElement + Copy> Step for ToBool<F> {
    const SIZES: [usize; 2] = [2 * size_of::<F>(), 1];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        let from = from.cast::<F>();
        for i in 0..count {
            // SAFETY: element `i` of both sides.
            unsafe {
                let (re, im) = (load_one(from.add(2 * i)), load_one(from.add(2 * i + 1)));
                to.add(i).write(u8::from(ConvertElement::to_bool(re) | ConvertElement::to_bool(im)));
            }
        }
    }
}

/// Two conversions, block by block; of the elements between them, those of a block are in L1.
pub(super) struct Then<A, B>(PhantomData<(A, B)>);

impl<A: Step, B: Step> Step for Then<A, B> {
    const SIZES: [usize; 2] = [A::SIZES[0], B::SIZES[1]];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        const { assert!(A::SIZES[1] == B::SIZES[0] && A::SIZES[1] <= size_of::<u64>()) };
        let mut between = [const { MaybeUninit::<u64>::uninit() }; BLOCK];
        let between = between.as_mut_ptr().cast::<u8>();
        for start in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the block takes `n` of up to eight bytes, which are then read.
            unsafe {
                A::run(from.add(start * A::SIZES[0]), between, n);
                B::run(between, to.add(start * B::SIZES[1]), n);
            }
        }
    }
}

/// A conversion of one element, for types without vectors.
pub(super) trait CastTo<T> {
    fn cast(self) -> T;
}

/// One by one.
pub(super) struct Each<F, T>(PhantomData<(F, T)>);

impl<F: CastTo<T>, T> Step for Each<F, T> {
    const SIZES: [usize; 2] = [size_of::<F>(), size_of::<T>()];

    unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
        let to = to.cast::<T>();
        for i in 0..count {
            // SAFETY: element `i` of both sides; any bytes are a value of the types that are cast, of which bool is none.
            unsafe {
                to.add(i).write_unaligned(from.add(i * size_of::<F>()).cast::<F>().read_unaligned().cast())
            };
        }
    }
}

/// A u64 as an i64 of the same order: the smallest is the smallest.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct InOrder(i64);

macro_rules! casts {
    ($($from:ty => $to:ty: |$value:ident| $cast:expr;)*) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let $value = self;
                $cast
            }
        }
    )*};
}

casts! {
    u16 => i64: |x| x.into();
    u32 => i64: |x| x.into();
    u64 => f32: |x| x as f32;
    u64 => f64: |x| x as f64;
    u64 => InOrder: |x| InOrder((x ^ SIGN) as i64);
    InOrder => u64: |x| x.0 as u64 ^ SIGN;
    f64 => u64: |x| truncated(x);
    F8E4M3FN => f32: |x| x.to_f32();
    F8E5M2 => f32: |x| x.to_f32();
    F8E8M0FNU => f32: |x| x.to_f32();
    f32 => F8E4M3FN: |x| F8E4M3FN::from_f32(x);
    f32 => F8E5M2: |x| F8E5M2::from_f32(x);
    f32 => F8E8M0FNU: |x| F8E8M0FNU::from_f32(x);
}

const SIGN: u64 = 1 << 63;

/// Truncated towards 0. Negative numbers wrap, and what no u64 and no i64 holds becomes what PyTorch has on x86: 0 above, and 2^63 for
/// NaN and below.
fn truncated(x: f64) -> u64 {
    const HALF: f64 = SIGN as f64;
    let signed = |x: f64| if (-HALF..HALF).contains(&x) { x as i64 as u64 } else { SIGN };
    if x >= HALF { signed(x - HALF) ^ SIGN } else { signed(x) }
}
