//! Copies between strided elements; elements of one size share code, whatever their type is.
#![expect(unsafe_code, reason = "moves elements of operands whose guards the callers hold")]

use flambeau_vectorized::with_processor_vectors;
use std::mem::MaybeUninit;

/// Copies `count` elements of `size` bytes between strides in bytes.
///
/// # Safety
/// - Both sides are valid for `count` elements at their strides, and `size` is 1, 2, 4, 8 or 16.
pub(super) unsafe fn copy_strided(
    from: *const u8,
    from_stride: i64,
    to: *mut u8,
    to_stride: i64,
    count: usize,
    size: usize,
) {
    // SAFETY: by this function's conditions.
    unsafe {
        match size {
            1 => copy_bits::<u8>(from, from_stride, to, to_stride, count),
            2 => copy_bits::<u16>(from, from_stride, to, to_stride, count),
            4 => copy_bits::<u32>(from, from_stride, to, to_stride, count),
            8 => copy_bits::<u64>(from, from_stride, to, to_stride, count),
            _ => copy_bits::<[u64; 2]>(from, from_stride, to, to_stride, count),
        }
    }
}

/// Elements from which on those at small steps are copied in vectors.
const MIN_IN_VECTORS: usize = 32;

/// Copies every second, third or fourth element; `false` for another stride.
///
/// # Safety
/// - As [`copy_bits`], with dense elements at `to`.
#[inline(always)]
unsafe fn copy_at_step<Bits: Copy>(from: *const u8, from_stride: i64, to: *mut u8, count: usize) -> bool {
    let (size, from, to) = (size_of::<Bits>() as i64, from.cast::<Bits>(), to.cast::<Bits>());
    // SAFETY: this function's condition.
    unsafe {
        match from_stride {
            step if step == 2 * size => copy_every_nth::<Bits, 2>(from, to, count),
            step if step == 3 * size => copy_every_nth::<Bits, 3>(from, to, count),
            step if step == 4 * size => copy_every_nth::<Bits, 4>(from, to, count),
            _ => return false,
        }
    }
    true
}

/// Copies every element number `N`, which the compiler does by shuffles of whole vectors.
///
/// # Safety
/// - `to` is valid for `count` elements, and `from` for as many, `N` elements apart.
#[inline(never)]
unsafe fn copy_every_nth<Bits: Copy, const N: usize>(from: *const Bits, to: *mut Bits, count: usize) {
    with_processor_vectors(
        #[inline(always)]
        move || {
            for i in 0..count {
                // SAFETY: this function's condition.
                unsafe {
                    let element = from.add(N * i).cast::<MaybeUninit<Bits>>().read_unaligned();
                    to.add(i).cast::<MaybeUninit<Bits>>().write_unaligned(element);
                }
            }
        },
    );
}

/// # Safety
/// - As [`copy_strided`], with `size` that of `Bits`.
#[inline(always)]
unsafe fn copy_bits<Bits: Copy>(
    from: *const u8,
    from_stride: i64,
    to: *mut u8,
    to_stride: i64,
    count: usize,
) {
    if from_stride == 0 && to_stride == size_of::<Bits>() as i64 && count > 0 {
        // SAFETY: `from` is valid for one element, and `to` for `count`.
        unsafe {
            let value = from.cast::<Bits>().read_unaligned();
            for i in 0..count {
                to.cast::<Bits>().add(i).write_unaligned(value);
            }
        }
        return;
    }
    if to_stride == size_of::<Bits>() as i64 && count >= MIN_IN_VECTORS {
        // SAFETY: this function's conditions.
        let done = unsafe { copy_at_step::<Bits>(from, from_stride, to, count) };
        if done {
            return;
        }
    }
    for i in 0..count as i64 {
        // SAFETY: element `i` is inside both sides.
        unsafe {
            let value = from.offset((i * from_stride) as isize).cast::<Bits>().read_unaligned();
            to.offset((i * to_stride) as isize).cast::<Bits>().write_unaligned(value);
        }
    }
}
