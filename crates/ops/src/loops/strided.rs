//! Copies between strided elements; elements of one size share code, whatever their type is.
#![expect(unsafe_code, reason = "moves elements of operands whose guards the callers hold")]

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
    for i in 0..count as i64 {
        // SAFETY: element `i` is inside both sides.
        unsafe {
            let value = from.offset((i * from_stride) as isize).cast::<Bits>().read_unaligned();
            to.offset((i * to_stride) as isize).cast::<Bits>().write_unaligned(value);
        }
    }
}
