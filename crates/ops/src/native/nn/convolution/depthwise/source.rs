//! Where kernels read a channel with its padding: in a tile made for it, or where the channel lies.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded::{Fill, Padded, zeros};
use super::super::shape::Conv;
use super::super::unfold::{Images, inner};
use crate::gemm::Scratch;
use crate::vectorized::{CpuCapability, EveryIsa, Float, FloatLanes, Isa, Number, Vector, cpu_capability};
use flambeau_core::Element;

/// Output rows that meet the same rows of the input at a time.
pub(super) const BLOCK: usize = 4;

/// How the channels of an input are read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'c, T> {
    conv: &'c Conv,
    x: Images<T>,
    tile: Padded,
    is_bare: bool,
}

impl<'c, T: Element> Reader<'c, T> {
    /// Kernels of three by three places that move by one and reach one pixel past each edge need no tile: the padding is a row of
    /// zeros, and what slides into a row at its ends. Without the registers of AVX-512 slides take longer than the copy.
    pub(super) fn new(conv: &'c Conv, x: Images<T>) -> Self {
        let reaches_one = [conv.kernel, conv.stride, conv.dilation, conv.padding]
            .map(|list| [list[1], list[2]])
            == [[3, 3], [1, 1], [1, 1], [1, 1]];
        let is_bare = reaches_one && x.strides[4] == 1 && cpu_capability() == CpuCapability::Avx512;
        Self { conv, x, tile: Padded::new(conv), is_bare }
    }

    /// What [`channel`](Self::channel) needs beside the input.
    pub(super) fn room(&self) -> Scratch {
        if self.is_bare { zeros::<T>(self.conv.input[2]) } else { self.tile.room::<T>(1) }
    }

    /// A channel, until the next one is read into the same `room`.
    ///
    /// # Safety
    /// - The input is readable as the convolution says; `room` is from this reader.
    pub(super) unsafe fn channel(&self, image: usize, channel: usize, room: &mut Scratch) -> Channel<T>
    where
        for<'f> Fill<'f, T>: EveryIsa,
    {
        let (from, room) = (self.x.channel(image, channel), room.as_mut_ptr::<T>());
        if self.is_bare {
            let [_, height, width] = self.conv.input;
            return Channel::Bare(Bare { from, row: self.x.strides[3], zeros: room, height, width });
        }
        // SAFETY: by this function's condition.
        unsafe { self.tile.fill(self.conv, 1, from, inner(&self.x), room) };
        Channel::Tile(self.tile, room)
    }
}

/// A channel with its padding.
#[derive(Clone, Copy)]
pub(super) enum Channel<T> {
    /// Rows in a tile.
    Tile(Padded, *const T),
    /// Rows where they lie.
    Bare(Bare<T>),
}

/// Vectors of the rows of a channel with its padding.
pub(super) trait Source<I: Isa, T: FloatLanes<I>, const K: usize>: Copy {
    /// For `V` vectors of outputs from column `x` on, the pixels of the padded row `row` that each place in a row of the kernel
    /// meets. Lanes past the last output hold anything.
    ///
    /// # Safety
    /// - The channel has this row, and its outputs as many columns that the last vector has one of them.
    unsafe fn read<const V: usize>(self, row: usize, x: usize) -> [[T::Vector; K]; V];
}

/// Rows in a tile, and where in them the places of a row of the kernel begin.
#[derive(Clone, Copy)]
pub(super) struct InTile<T, const K: usize> {
    at: *const T,
    pitch: usize,
    columns: [usize; K],
}

impl<T, const K: usize> InTile<T, K> {
    #[inline(always)]
    pub(super) fn new(tile: Padded, at: *const T, conv: &Conv) -> Self {
        Self { at, pitch: tile.pitch, columns: tile.columns::<K>(conv.dilation[2]) }
    }
}

impl<I: Isa, T: FloatLanes<I>, const K: usize> Source<I, T, K> for InTile<T, K> {
    #[inline(always)]
    unsafe fn read<const V: usize>(self, row: usize, x: usize) -> [[T::Vector; K]; V] {
        let mut pixels = [[T::Vector::zero(); K]; V];
        for (v, pixels) in pixels.iter_mut().enumerate() {
            for (pixels, column) in pixels.iter_mut().zip(self.columns) {
                // SAFETY: a row of the tile, which has slack for what a vector reads past it.
                *pixels =
                    unsafe { T::load(self.at.add(row * self.pitch + x + v * T::Vector::LANES + column)) };
            }
        }
        pixels
    }
}

/// A channel where it lies, padded by one pixel on each side.
#[derive(Clone, Copy)]
pub(super) struct Bare<T> {
    from: *const T,
    /// From row to row; pixels are dense.
    row: isize,
    /// The rows above and below.
    zeros: *const T,
    height: usize,
    width: usize,
}

impl<I: Isa, T: FloatLanes<I>> Source<I, T, 3> for Bare<T> {
    #[inline(always)]
    unsafe fn read<const V: usize>(self, row: usize, x: usize) -> [[T::Vector; 3]; V] {
        let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
        let (is_inside, end) = (row.wrapping_sub(1) < self.height, x + V * lanes);
        // SAFETY: elements of a row of the channel, or of as many zeros.
        unsafe {
            let line = if is_inside { self.from.offset((row as isize - 1) * self.row) } else { self.zeros };
            let mut own = [zero; V];
            for (v, own) in own.iter_mut().enumerate() {
                let at = x + v * lanes;
                *own = T::load_up_to(line.add(at), lanes.min(self.width - at));
            }
            let before = if x > 0 { T::Vector::splat((*line.add(x - 1)).widen()) } else { zero };
            let after = if end < self.width { T::Vector::splat((*line.add(end)).widen()) } else { zero };
            let mut pixels = [[zero; 3]; V];
            for v in 0..V {
                let left = if v > 0 { own[v - 1] } else { before };
                let right = if v + 1 < V { own[v + 1] } else { after };
                pixels[v] = [own[v].slide_up(left), own[v], own[v].slide_down(right)];
            }
            pixels
        }
    }
}
