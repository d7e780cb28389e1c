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
