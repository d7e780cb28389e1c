//! Deinterleaving a row: its even and its odd elements, each contiguous.
#![expect(unsafe_code, reason = "raw operands")]

/// Copies the even pixels of `count` pairs to `even` and the odd ones to `odd`. A pair of f32 is read as one u64, so that the
/// compiler vectorizes the loop with shuffles rather than gathers.
///
/// # Safety
/// - `from` has `2 * count` readable pixels, `step` apart; the others take `count`.
#[inline(always)]
pub(super) unsafe fn split<T: Copy>(from: *const T, step: isize, even: *mut T, odd: *mut T, count: usize) {
    let mut i = 0;
    // SAFETY: by this function's condition.
    unsafe {
        if step == 1 && size_of::<T>() == 4 && cfg!(target_endian = "little") {
            let (pairs, even, odd) = (from.cast::<u64>(), even.cast::<u32>(), odd.cast::<u32>());
            while i + 16 <= count {
                split_pairs::<16>(pairs.add(i), even.add(i), odd.add(i));
                i += 16;
            }
            while i + 4 <= count {
                split_pairs::<4>(pairs.add(i), even.add(i), odd.add(i));
                i += 4;
            }
        }
        while i < count {
            even.add(i).write(*from.offset(2 * i as isize * step));
            odd.add(i).write(*from.offset((2 * i + 1) as isize * step));
            i += 1;
        }
    }
}

/// # Safety
/// - `from` has `N` readable elements, and the others take as many.
#[inline(always)]
unsafe fn split_pairs<const N: usize>(from: *const u64, even: *mut u32, odd: *mut u32) {
    let (mut low, mut high) = ([0; N], [0; N]);
    // SAFETY: by this function's condition.
    unsafe {
        let pairs = from.cast::<[u64; N]>().read_unaligned();
        for k in 0..N {
            low[k] = pairs[k] as u32;
            high[k] = (pairs[k] >> 32) as u32;
        }
        even.cast::<[u32; N]>().write_unaligned(low);
        odd.cast::<[u32; N]>().write_unaligned(high);
    }
}
