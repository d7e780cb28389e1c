//! A channel with its padding, laid out so that the pixels of one place in the kernel are dense.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::shape::Conv;
use crate::gemm::Scratch;
use crate::vectorized::{EveryIsa, FloatLanes, Isa, Kernel, Lanes, Placed, Vector, dispatch};
use flambeau_core::{Element, Scalar};
use std::mem::MaybeUninit;

/// Elements past the end that whole vectors may read.
const SLACK: usize = 64;

/// Output rows that meet the same rows of the input at a time.
pub(super) const BLOCK: usize = 4;

/// Pixels that the stride leaves apart lie side by side: a row has a part for each remainder of the column by the stride.
#[derive(Clone, Copy)]
pub(super) struct Padded {
    rows: usize,
    /// Elements of a part.
    part: usize,
    pub(super) pitch: usize,
    stride: usize,
}

impl Padded {
    pub(super) fn new(conv: &Conv) -> Self {
        let stride = conv.stride[2];
        let part = (conv.input[2] + 2 * conv.padding[2]).div_ceil(stride);
        Padded { rows: conv.input[1] + 2 * conv.padding[1], part, pitch: part * stride, stride }
    }

    /// Room for a channel, all zeros; filling it leaves the padding as it is.
    pub(super) fn room<T: Element>(self) -> Scratch {
        let len = self.rows * self.pitch + SLACK;
        let mut scratch = Scratch::new::<T>(len);
        let zero = MaybeUninit::new(T::from_scalar(Scalar::Int(0)));
        // SAFETY: the scratch has room for `len` elements.
        unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr::<MaybeUninit<T>>(), len) }.fill(zero);
        scratch
    }

    /// Where the element of a padded column is in its row.
    #[inline(always)]
    pub(super) fn column(self, x: usize) -> usize {
        if self.stride == 1 { x } else { x % self.stride * self.part + x / self.stride }
    }

    /// The same of each place in a row of the kernel.
    #[inline(always)]
    pub(super) fn columns<const K: usize>(self, dilation: usize) -> [usize; K] {
        let mut columns = [0; K];
        for (k, column) in columns.iter_mut().enumerate() {
            *column = self.column(k * dilation);
        }
        columns
    }

    /// Copies the pixels of a channel.
    ///
    /// # Safety
    /// - `from` is readable as an input of `conv` with these strides of rows and pixels, and `to` is such [`room`](Self::room).
    pub(super) unsafe fn fill<T>(self, conv: &Conv, from: *const T, strides: [isize; 2], to: *mut T)
    where
        for<'c> Fill<'c, T>: EveryIsa,
    {
        // SAFETY: by this function's condition.
        unsafe { dispatch(Fill { conv, tile: self, from, strides, to }) }
    }
}

/// The rows of one channel.
pub(in super::super) struct Fill<'c, T> {
    conv: &'c Conv,
    tile: Padded,
    from: *const T,
    strides: [isize; 2],
    to: *mut T,
}

impl<T> Placed for Fill<'_, T> {
    type Home = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for Fill<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Fill { conv, tile, from, strides: [row, pixel], to } = self;
        let [_, height, width] = conv.input;
        for y in 0..height {
            // SAFETY: a row of the input, and the one of the tile that is made of it.
            unsafe {
                let from = from.offset(y as isize * row);
                let to = to.add((y + conv.padding[1]) * tile.pitch);
                if pixel == 1 && tile.stride == 1 {
                    copy::<I, T>(from, to.add(conv.padding[2]), width);
                } else {
                    spread(tile, conv.padding[2], from, pixel, width, to);
                }
            }
        }
    }
}

/// # Safety
/// - `from` is valid for reading and `to` for writing `count` elements.
#[inline(always)]
unsafe fn copy<I: Isa, T: Lanes<I>>(from: *const T, to: *mut T, count: usize) {
    let lanes = T::Vector::LANES;
    let mut x = 0;
    while x < count {
        let left = lanes.min(count - x);
        // SAFETY: `left` elements from `x` on are among the `count`.
        unsafe { T::store_up_to(T::load_up_to(from.add(x), left), to.add(x), left) };
        x += lanes;
    }
}

/// The pixels of a row to the parts of the tile's row, one part after another.
///
/// # Safety
/// - `from` is valid for reading `width` elements `pixel` apart, and `to` is a row of the tile.
#[inline(always)]
unsafe fn spread<T: Copy>(
    tile: Padded,
    padding: usize,
    from: *const T,
    pixel: isize,
    width: usize,
    to: *mut T,
) {
    for first in 0..tile.stride.min(width) {
        let mut to = to.wrapping_add(tile.column(first + padding));
        for x in (first..width).step_by(tile.stride) {
            // SAFETY: a pixel, and the next element of its part.
            unsafe {
                to.write(*from.offset(x as isize * pixel));
                to = to.add(1);
            }
        }
    }
}
