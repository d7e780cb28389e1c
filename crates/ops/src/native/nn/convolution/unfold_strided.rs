//! Columns of kernels that step over pixels: the rows of a channel are split by the remainder of their columns first, after which
//! every run of a column is dense.
#![expect(unsafe_code, reason = "raw operands")]

use super::pairs::split;
use super::shape::Conv;
use crate::vectorized::{Isa, Kernel, CodegenAnchor};
use std::ops::Range;

/// Whether a convolution over two dimensions steps over columns, and reads each pixel so often that splitting pays.
pub(super) fn suits(conv: &Conv) -> bool {
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    let steps = conv.stride[1].saturating_mul(conv.stride[2]);
    is_flat
        && conv.stride[2] > 1
        && conv.places() >= steps.saturating_mul(4)
        && conv.stride[2] <= conv.input[2]
}

/// The columns of one channel for the output pixels `pixels`.
pub(super) struct Columns<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) from: *const T,
    /// Of rows and pixels.
    pub(super) strides: [isize; 2],
    pub(super) pixels: Range<usize>,
    /// Takes [`room`] elements.
    pub(super) room: *mut T,
    /// Rows of columns, one for each place in the kernel, `pitch` apart.
    pub(super) to: *mut T,
    pub(super) pitch: usize,
}

/// Elements of a part of a row: the padded columns that leave the same remainder.
fn part(conv: &Conv) -> usize {
    (conv.input[2] + 2 * conv.padding[2]).div_ceil(conv.stride[2])
}

/// The first row of the input, counted from the padding, and the number of rows that output pixels read.
fn rows(conv: &Conv, pixels: &Range<usize>) -> (usize, usize) {
    let [first, last] = [pixels.start, pixels.end - 1].map(|pixel| pixel / conv.output[2]);
    let reach = (conv.kernel[1] - 1) * conv.dilation[1];
    (first * conv.stride[1], (last - first) * conv.stride[1] + reach + 1)
}

/// Elements of the rows that are split.
pub(super) fn room(conv: &Conv, pixels: &Range<usize>) -> usize {
    rows(conv, pixels).1 * part(conv) * conv.stride[2]
}

impl<T> CodegenAnchor for Columns<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: Copy> Kernel<I> for Columns<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Columns { conv, from, strides, ref pixels, room, to, pitch } = self;
        let (first, rows) = rows(conv, pixels);
        let line = part(conv) * conv.stride[2];
        // SAFETY: the caller's pointers. Zero bytes are the number zero.
        unsafe {
            room.write_bytes(0, rows * line);
            for row in 0..rows {
                let y = (first + row).wrapping_sub(conv.padding[1]);
                if y < conv.input[1] {
                    split_row(conv, from.offset(y as isize * strides[0]), strides[1], room.add(row * line));
                }
            }
            for ky in 0..conv.kernel[1] {
                for kx in 0..conv.kernel[2] {
                    let to = to.add((ky * conv.kernel[2] + kx) * pitch);
                    let from = room.add(ky * conv.dilation[1] * line + column(conv, kx * conv.dilation[2]));
                    copy_runs(conv, pixels, from, line, to);
                }
            }
        }
    }
}

/// Where a padded column is in a row that is split.
#[inline(always)]
fn column(conv: &Conv, x: usize) -> usize {
    x % conv.stride[2] * part(conv) + x / conv.stride[2]
}

/// Writes the columns of a row that leave the same remainder side by side, one remainder after another.
///
/// # Safety
/// - `from` is a row of the input, and `to` one that is split.
#[inline(always)]
pub(super) unsafe fn split_row<T: Copy>(conv: &Conv, from: *const T, pixel: isize, to: *mut T) {
    let (width, padding) = (conv.input[2], conv.padding[2]);
    // SAFETY: pixels of the row, and their places.
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

/// The column of one place: what `from` holds from each row of output pixels on.
///
/// # Safety
/// - The rows are split, and `to` takes an element for each pixel.
#[inline(always)]
unsafe fn copy_runs<T: Copy>(
    conv: &Conv,
    pixels: &Range<usize>,
    from: *const T,
    line: usize,
    mut to: *mut T,
) {
    let width = conv.output[2];
    let (mut x, mut left, mut row) = (pixels.start % width, pixels.len(), 0);
    while left > 0 {
        let count = (width - x).min(left);
        // SAFETY: by this function's condition.
        unsafe {
            copy(from.add(row * conv.stride[1] * line + x), to, count);
            to = to.add(count);
        }
        (x, left, row) = (0, left - count, row + 1);
    }
}

/// Copies short runs, for which a call takes too long.
///
/// # Safety
/// - `from` has `count` readable elements, and `to` takes them.
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    const TOGETHER: usize = 16;
    let mut i = 0;
    // SAFETY: by this function's condition.
    unsafe {
        while i + TOGETHER <= count {
            let some = from.add(i).cast::<[T; TOGETHER]>().read_unaligned();
            to.add(i).cast::<[T; TOGETHER]>().write_unaligned(some);
            i += TOGETHER;
        }
        while i < count {
            to.add(i).write(from.add(i).read());
            i += 1;
        }
    }
}
