//! Gathering strided elements into dense memory, for loops over dense rows.
#![expect(unsafe_code, reason = "raw elements, which the callers guarantee to be valid")]

use std::mem::MaybeUninit;

/// Copies `count` elements of `from` with a stride of `step` to dense memory at `to`.
///
/// # Safety
/// - The elements are valid for reading, and `to` for writing as many.
#[inline(always)]
pub(super) unsafe fn gather<T: Copy>(from: *const T, step: isize, to: *mut T, count: usize) {
    // SAFETY: by this function's condition.
    unsafe {
        match step {
            1 => to.copy_from_nonoverlapping(from, count),
            2 => gather_stride_2(from, to, count),
            _ => (0..count).for_each(|i| *to.add(i) = *from.wrapping_offset(step * i as isize)),
        }
    }
}

/// [`gather`] with a stride of two. Elements of four bytes are read in blocks, which the compiler loads as vectors and shuffles, where it
/// would load element by element otherwise.
///
/// # Safety
/// - As [`gather`].
#[inline(always)]
unsafe fn gather_stride_2<T: Copy>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: this function's condition.
    unsafe {
        match count {
            _ if size_of::<T>() != 4 => one_by_one(from, to, count),
            17.. => in_blocks::<T, 16>(from, to, count),
            9.. => in_blocks::<T, 8>(from, to, count),
            5.. => in_blocks::<T, 4>(from, to, count),
            _ => one_by_one(from, to, count),
        }
    }
}

/// # Safety
/// - As [`gather`], with a stride of two.
#[inline(always)]
unsafe fn one_by_one<T: Copy>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: this function's condition.
    (0..count).for_each(|i| unsafe { *to.add(i) = *from.add(2 * i) });
}

/// More than `N` elements of four bytes, `N` at a time; the last block overlaps the one before if `N` does not divide the count. The
/// last element is copied by itself, since the memory behind it may not be readable.
///
/// # Safety
/// - As [`gather`], with a stride of two.
#[inline(always)]
unsafe fn in_blocks<T: Copy, const N: usize>(from: *const T, to: *mut T, count: usize) {
    let last = count - 1;
    for start in (0..last).step_by(N) {
        let start = start.min(last - N);
        // SAFETY: this function's condition; the pairs that are read end before the last element.
        unsafe {
            to.add(start).cast::<[T; N]>().write_unaligned(even_elements(from.add(2 * start)));
        }
    }
    // SAFETY: this function's condition.
    unsafe { *to.add(last) = *from.add(2 * last) };
}

/// The elements at even indices of `2 * N` elements; those at odd indices may be uninitialized.
///
/// # Safety
/// - `from` is valid for reading `2 * N` elements, of which those at even indices are initialized.
#[inline(always)]
pub(super) unsafe fn even_elements<T: Copy, const N: usize>(from: *const T) -> [T; N] {
    // SAFETY: this function's condition.
    unsafe {
        let pairs = from.cast::<[[MaybeUninit<T>; 2]; N]>().read_unaligned();
        let mut even = [MaybeUninit::<T>::uninit(); N];
        for k in 0..N {
            even[k] = pairs[k][0];
        }
        std::mem::transmute_copy::<[MaybeUninit<T>; N], [T; N]>(&even)
    }
}
