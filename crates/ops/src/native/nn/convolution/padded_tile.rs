//! Rows of channels copied with their padding, laid out so that the pixels that one kernel position reads are contiguous.
#![expect(unsafe_code, reason = "raw operands")]

use super::params::Conv;
use super::unfold_strided::split_row;
use crate::gemm::Scratch;
use crate::vectorized::{CodegenAnchor, EveryIsa, FloatLanes, Isa, Kernel, Lanes, Vector, dispatch};
use flambeau_core::{Element, Scalar};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Elements past the end that loads of whole vectors may read.
const SLACK: usize = 64;

/// Prefetch distance in bytes. The rows of a channel are too short for the hardware prefetcher to follow.
pub(super) const PREFETCH_DISTANCE: usize = 3072;

/// The layout of a tile. A row has a part for each remainder of the column modulo the stride, so that pixels `stride` apart are
/// adjacent.
#[derive(Clone, Copy)]
pub(super) struct PaddedTile {
    /// The first row, as a row of the input; negative in the padding.
    first: isize,
    rows: usize,
    /// Whether it holds all rows of a channel: rows of padding are zeroed once and not written again.
    is_whole: bool,
    /// Elements of a part of a row.
    part: usize,
    pub(super) pitch: usize,
    stride: usize,
}

impl PaddedTile {
    /// A tile of all rows.
    pub(super) fn new(conv: &Conv) -> Self {
        let stride = conv.stride[2];
        let part = (conv.input[2] + 2 * conv.padding[2]).div_ceil(stride);
        let (first, rows) = (-(conv.padding[1] as isize), conv.input[1] + 2 * conv.padding[1]);
        PaddedTile { first, rows, is_whole: true, part, pitch: part * stride, stride }
    }

    /// A tile of the rows that some rows of the output read.
    pub(super) fn of_rows(conv: &Conv, rows: Range<usize>) -> Self {
        let reach = conv.dilation[1] * (conv.kernel[1] - 1);
        let first = (rows.start * conv.stride[1]) as isize - conv.padding[1] as isize;
        let rows = (rows.len() - 1) * conv.stride[1] + reach + 1;
        PaddedTile { first, rows, is_whole: false, ..Self::new(conv) }
    }

    /// Elements of a channel.
    pub(super) fn len(self) -> usize {
        self.rows * self.pitch
    }

    /// Zeroed scratch for so many channels.
    pub(super) fn allocate<T: Element>(self, channels: usize) -> Scratch {
        zeros::<T>(channels * self.len() + SLACK)
    }

    /// The index in a row of padded column `x`.
    #[inline(always)]
    pub(super) fn column(self, x: usize) -> usize {
        if self.stride == 1 { x } else { x % self.stride * self.part + x / self.stride }
    }

    /// The indices for the positions of a kernel row.
    #[inline(always)]
    pub(super) fn columns<const K: usize>(self, dilation: usize) -> [usize; K] {
        let mut columns = [0; K];
        for (k, column) in columns.iter_mut().enumerate() {
            *column = self.column(k * dilation);
        }
        columns
    }

    /// Copies the pixels of channels into a tile.
    ///
    /// # Safety
    /// - `from` is readable as so many channels of an input of `conv` with these strides of channels, rows and pixels, and `to`
    ///   is such a buffer as [`allocate`](Self::allocate) returns.
    pub(super) unsafe fn fill<T>(
        self,
        conv: &Conv,
        channels: usize,
        from: *const T,
        strides: [isize; 3],
        to: *mut T,
    ) where
        for<'c> Fill<'c, T>: EveryIsa,
    {
        // SAFETY: by this function's condition.
        unsafe { dispatch(Fill { conv, tile: self, channels, from, strides, to }) }
    }
}

/// Scratch of `len` zeros.
pub(super) fn zeros<T: Element>(len: usize) -> Scratch {
    let mut scratch = Scratch::new::<T>(len);
    let zero = MaybeUninit::new(T::from_scalar(Scalar::Int(0)));
    // SAFETY: the scratch has `len` elements.
    unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr::<MaybeUninit<T>>(), len) }.fill(zero);
    scratch
}

/// The kernel of [`PaddedTile::fill`].
pub(super) struct Fill<'c, T> {
    conv: &'c Conv,
    tile: PaddedTile,
    channels: usize,
    from: *const T,
    strides: [isize; 3],
    to: *mut T,
}

impl<T> CodegenAnchor for Fill<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for Fill<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Fill { conv, tile, channels, from, strides: [channel, row, pixel], to } = self;
        let [_, height, width] = conv.input;
        let outside = |y: isize| y < 0 || y >= height as isize;
        for c in 0..channels {
            let from = from.wrapping_offset(c as isize * channel);
            for r in 0..tile.rows {
                let y = tile.first + r as isize;
                // SAFETY: a row of the input, and its row of the tile.
                unsafe {
                    let to = to.add(c * tile.len() + r * tile.pitch);
                    if outside(y) {
                        if !tile.is_whole {
                            fill::<I, T>(T::from_scalar(Scalar::Int(0)), to, tile.pitch);
                        }
                        continue;
                    }
                    let from = from.offset(y * row);
                    match (pixel, tile.stride) {
                        (0, 1) => fill::<I, T>(*from, to.add(conv.padding[2]), width),
                        (1, 1) => copy::<I, T>(from, to.add(conv.padding[2]), width),
                        _ => split_row(conv, from, pixel, to),
                    }
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
        I::prefetch(from.wrapping_add(x).cast::<u8>().wrapping_add(PREFETCH_DISTANCE));
        // SAFETY: `left` elements from `x` on are among the `count`.
        unsafe { T::store_up_to(T::load_up_to(from.add(x), left), to.add(x), left) };
        x += lanes;
    }
}

/// # Safety
/// - `to` is valid for writing `count` elements.
#[inline(always)]
unsafe fn fill<I: Isa, T: FloatLanes<I>>(value: T, to: *mut T, count: usize) {
    let (lanes, value) = (T::Vector::LANES, T::Vector::splat(value.widen()));
    let mut x = 0;
    while x < count {
        // SAFETY: elements from `x` on, among the `count`.
        unsafe { T::store_up_to(value, to.add(x), lanes.min(count - x)) };
        x += lanes;
    }
}
