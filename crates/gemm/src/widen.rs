//! Elements of operands as accumulators without gaps, in buffers that stay in L1: loops over these need no case for each type and stride.
#![expect(unsafe_code, reason = "raw operands")]

use super::element::Element;

/// Writes `count` elements that lie `stride` apart.
///
/// # Safety
/// - They are readable, and as many accumulators are writable.
#[inline(always)]
pub(super) unsafe fn widen<T: Element>(from: *const T, stride: isize, to: *mut T::Acc, count: usize) {
    // SAFETY: the condition above. Common strides are constants, so that the compiler vectorises the loop.
    unsafe {
        match stride {
            1 => widen_each(from, 1, to, 1, count),
            2 => widen_each(from, 2, to, 1, count),
            _ => widen_each(from, stride, to, 1, count),
        }
    }
}

/// Writes rows of elements, row after row.
///
/// # Safety
/// - They are readable, and as many accumulators are writable.
#[inline(always)]
pub(super) unsafe fn widen_rows<T: Element>(
    from: *const T,
    strides: [isize; 2],
    [rows, columns]: [usize; 2],
    to: *mut T::Acc,
) {
    // SAFETY: the condition above.
    unsafe {
        if strides == [columns as isize, 1] {
            return widen_each(from, 1, to, 1, rows * columns);
        }
        // Rows are short, so the longer loop is inside.
        for column in 0..columns {
            let from = from.wrapping_offset(column as isize * strides[1]);
            widen_each(from, strides[0], to.add(column), columns, rows);
        }
    }
}

/// # Safety
/// - `count` elements are readable `stride` apart, and as many accumulators are writable `to_stride` apart.
#[inline(always)]
unsafe fn widen_each<T: Element>(
    from: *const T,
    stride: isize,
    to: *mut T::Acc,
    to_stride: usize,
    count: usize,
) {
    for i in 0..count {
        // SAFETY: the condition above.
        unsafe { to.add(i * to_stride).write(from.offset(i as isize * stride).read().widen()) }
    }
}
