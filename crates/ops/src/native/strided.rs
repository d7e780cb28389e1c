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
/// single elements.
///
/// # Safety
/// - As [`gather`].
#[inline(always)]
unsafe fn every_second<T: Copy>(from: *const T, to: *mut T, count: usize) {
    const TOGETHER: usize = 16;
    let mut i = 0;
    // SAFETY: by this function's condition; the last element that is read by sixteens lies before the last of `count`.
    unsafe {
        if size_of::<T>() == 4 && cfg!(target_endian = "little") {
            while i + TOGETHER < count {
                let pairs = from.add(2 * i).cast::<[u64; TOGETHER]>().read_unaligned();
                let mut low = [0; TOGETHER];
                for k in 0..TOGETHER {
                    low[k] = pairs[k] as u32;
                }
                to.add(i).cast::<[u32; TOGETHER]>().write_unaligned(low);
                i += TOGETHER;
            }
        }
        for i in i..count {
            *to.add(i) = *from.add(2 * i);
        }
    }
}
