//! Columns of convolutions with a stride along rows. The rows of a channel are split first by their column modulo the stride;
//! then the pixels that one kernel position reads are contiguous, and each row of columns is copied in contiguous runs.
#![expect(unsafe_code, reason = "raw operands")]

use super::deinterleave::split;
use super::params::Conv;
use crate::vectorized::{CodegenAnchor, Isa, Kernel};
use std::ops::Range;

/// Whether a convolution over two dimensions has a stride along rows, and reads each pixel often enough to repay the splitting.
pub(super) fn suits(conv: &Conv) -> bool {
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    let steps = conv.stride[1].saturating_mul(conv.stride[2]);
    is_flat
        && conv.stride[2] > 1
        && conv.kernel_numel() >= steps.saturating_mul(4)
        && conv.stride[2] <= conv.input[2]
}

/// The columns of one channel for the output pixels `pixels`.
pub(super) struct Columns<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) from: *const T,
    /// Of rows and pixels.
    pub(super) strides: [isize; 2],
    pub(super) pixels: Range<usize>,
    /// Scratch of [`buffer_len`] elements for the split rows.
    pub(super) buffer: *mut T,
    /// Rows of columns, one for each kernel position, `pitch` apart.
    pub(super) to: *mut T,
    pub(super) pitch: usize,
}

/// Elements of a part of a split row: the padded columns with the same remainder modulo the stride.
fn part(conv: &Conv) -> usize {
    (conv.input[2] + 2 * conv.padding[2]).div_ceil(conv.stride[2])
}

/// The first padded row of the input that the output pixels read, and the number of such rows.
fn rows(conv: &Conv, pixels: &Range<usize>) -> (usize, usize) {
    let [first, last] = [pixels.start, pixels.end - 1].map(|pixel| pixel / conv.output[2]);
    let reach = (conv.kernel[1] - 1) * conv.dilation[1];
    (first * conv.stride[1], (last - first) * conv.stride[1] + reach + 1)
}

/// Elements of the split rows.
pub(super) fn buffer_len(conv: &Conv, pixels: &Range<usize>) -> usize {
    rows(conv, pixels).1 * part(conv) * conv.stride[2]
}

impl<T> CodegenAnchor for Columns<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: Copy> Kernel<I> for Columns<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Columns { conv, from, strides, ref pixels, buffer, to, pitch } = self;
        let (first, rows) = rows(conv, pixels);
        let row_len = part(conv) * conv.stride[2];
        // SAFETY: the caller's pointers. Zero bytes are the number zero.
        unsafe {
            buffer.write_bytes(0, rows * row_len);
            for row in 0..rows {
                let y = (first + row).wrapping_sub(conv.padding[1]);
                if y < conv.input[1] {
                    split_row(
                        conv,
                        from.offset(y as isize * strides[0]),
                        strides[1],
                        buffer.add(row * row_len),
                    );
                }
            }
            for ky in 0..conv.kernel[1] {
                for kx in 0..conv.kernel[2] {
                    let to = to.add((ky * conv.kernel[2] + kx) * pitch);
                    let from =
                        buffer.add(ky * conv.dilation[1] * row_len + column(conv, kx * conv.dilation[2]));
                    copy_runs(conv, pixels, from, row_len, to);
                }
            }
        }
    }
}

/// The index of padded column `x` in a split row.
#[inline(always)]
fn column(conv: &Conv, x: usize) -> usize {
    x % conv.stride[2] * part(conv) + x / conv.stride[2]
}

/// Splits a row: its columns ordered by their remainder modulo the stride, then by position.
///
/// # Safety
/// - `from` is a row of the input, readable, and `to` takes a split row.
#[inline(always)]
pub(super) unsafe fn split_row<T: Copy>(conv: &Conv, from: *const T, pixel: isize, to: *mut T) {
    let (width, padding) = (conv.input[2], conv.padding[2]);
    // SAFETY: pixels of the row, and their elements of the split row.
    unsafe {
        if conv.stride[2] == 2 {
            let (even, odd) = (to.add(column(conv, padding)), to.add(column(conv, padding + 1)));
            split(from, pixel, even, odd, width / 2);
            if width % 2 == 1 {
                even.add(width / 2).write(*from.offset((width - 1) as isize * pixel));
            }
            return;
        }
        for start in 0..conv.stride[2] {
            let to = to.add(column(conv, start + padding));
            for (i, x) in (start..width).step_by(conv.stride[2]).enumerate() {
                to.add(i).write(*from.offset(x as isize * pixel));
            }
        }
    }
}

/// Fills the row of columns of one kernel position, whose first pixel is at `from` in the split rows.
///
/// # Safety
/// - `from` points into split rows of `row_len` elements, and `to` takes an element for each pixel.
#[inline(always)]
unsafe fn copy_runs<T: Copy>(
    conv: &Conv,
    pixels: &Range<usize>,
    from: *const T,
    row_len: usize,
    mut to: *mut T,
) {
    let width = conv.output[2];
    let (mut x, mut left, mut row) = (pixels.start % width, pixels.len(), 0);
    while left > 0 {
        let count = (width - x).min(left);
        // SAFETY: by this function's condition.
        unsafe {
            copy(from.add(row * conv.stride[1] * row_len + x), to, count);
            to = to.add(count);
        }
        (x, left, row) = (0, left - count, row + 1);
    }
}

/// Copies short runs inline, for which a call of `memcpy` takes too long.
///
/// # Safety
/// - `from` has `count` readable elements, and `to` takes them.
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    const CHUNK: usize = 16;
    let mut i = 0;
    // SAFETY: by this function's condition.
    unsafe {
        while i + CHUNK <= count {
            let chunk = from.add(i).cast::<[T; CHUNK]>().read_unaligned();
            to.add(i).cast::<[T; CHUNK]>().write_unaligned(chunk);
            i += CHUNK;
        }
        while i < count {
            to.add(i).write(from.add(i).read());
            i += 1;
        }
    }
}
