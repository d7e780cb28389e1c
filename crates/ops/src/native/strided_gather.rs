//! Elements that lie apart, written side by side: for loops over dense rows.
#![expect(unsafe_code, reason = "raw elements, which the callers know to be there")]

/// Writes `count` elements of `from`, `step` apart, to `to`.
///
/// # Safety
/// - The elements are readable, and `to` takes them.
#[inline(always)]
pub(super) unsafe fn gather<T: Copy>(from: *const T, step: isize, to: *mut T, count: usize) {
    // SAFETY: by this function's condition.
    unsafe {
        match step {
            1 => to.copy_from_nonoverlapping(from, count),
            2 => every_second(from, to, count),
            _ => (0..count).for_each(|i| *to.add(i) = *from.wrapping_offset(step * i as isize)),
        }
    }
}

/// Every second element. Of four bytes, several are halves of numbers of eight, which the compiler shuffles where it would gather
/// single elements: as many at a time as there are, the last of them again if need be.
///
/// # Safety
/// - As [`gather`].
#[inline(always)]
unsafe fn every_second<T: Copy>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: this function's condition.
    unsafe {
        match count {
            _ if size_of::<T>() != 4 || cfg!(target_endian = "big") => one_by_one(from, to, count),
            17.. => halves::<T, 16>(from, to, count),
            9.. => halves::<T, 8>(from, to, count),
            5.. => halves::<T, 4>(from, to, count),
            _ => one_by_one(from, to, count),
        }
    }
}

/// # Safety
/// - As [`gather`], with a step of two.
#[inline(always)]
unsafe fn one_by_one<T: Copy>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: this function's condition.
    (0..count).for_each(|i| unsafe { *to.add(i) = *from.add(2 * i) });
}

/// More than `N` elements of four bytes, `N` at a time. The very last one stands alone: what lies beside it may be anything.
///
/// # Safety
/// - As [`gather`], with a step of two.
#[inline(always)]
unsafe fn halves<T: Copy, const N: usize>(from: *const T, to: *mut T, count: usize) {
    let last = count - 1;
    for start in (0..last).step_by(N) {
        let start = start.min(last - N);
        // SAFETY: this function's condition; the elements that are read end before the last one.
        unsafe {
            to.add(start).cast::<[T; N]>().write_unaligned(every_second_of(from.add(2 * start)));
        }
    }
    // SAFETY: this function's condition.
    unsafe { *to.add(last) = *from.add(2 * last) };
}

/// Every second of `2 * N` elements, those of four bytes as halves of numbers of eight.
///
/// # Safety
/// - All of them are readable.
#[inline(always)]
pub(super) unsafe fn every_second_of<T: Copy, const N: usize>(from: *const T) -> [T; N] {
    // SAFETY: this function's condition; four bytes of an element are one.
    unsafe {
        if size_of::<T>() != 4 || cfg!(target_endian = "big") {
            return std::array::from_fn(|k| *from.add(2 * k));
        }
        let pairs = from.cast::<[u64; N]>().read_unaligned();
        let mut low = [0; N];
        for k in 0..N {
            low[k] = pairs[k] as u32;
        }
        std::mem::transmute_copy::<[u32; N], [T; N]>(&low)
    }
}
