//! The sources from which kernels read a padded channel: a padded tile, or the channel itself.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded_tile::{Fill, PaddedTile, zeros};
use super::super::params::Conv;
use super::super::unfold::{Images, inner};
use crate::gemm::Scratch;
use crate::vectorized::{CpuCapability, EveryIsa, Float, FloatLanes, Isa, Number, Vector, cpu_capability};
use flambeau_core::Element;

/// Output rows that are computed together from the same rows of the input.
pub(super) const BLOCK: usize = 4;

/// Reads the channels of an input.
#[derive(Clone, Copy)]
pub(super) struct Reader<'c, T> {
    conv: &'c Conv,
    x: Images<T>,
    tile: PaddedTile,
    is_unpadded: bool,
}

impl<'c, T: Element> Reader<'c, T> {
    /// 3x3 kernels with stride, dilation and padding 1 need no tile: a row of zeros serves as the padding above and below, and
    /// zeros are shifted into vectors at the ends of a row. Without the registers of AVX-512 these shifts take longer than a
    /// copy.
    pub(super) fn new(conv: &'c Conv, x: Images<T>) -> Self {
        let reaches_one = [conv.kernel, conv.stride, conv.dilation, conv.padding]
            .map(|list| [list[1], list[2]])
            == [[3, 3], [1, 1], [1, 1], [1, 1]];
        let is_unpadded = reaches_one && x.strides[4] == 1 && cpu_capability() == CpuCapability::Avx512;
        Self { conv, x, tile: PaddedTile::new(conv), is_unpadded }
    }

    /// The buffer that [`channel`](Self::channel) needs besides the input.
    pub(super) fn allocate(&self) -> Scratch {
        if self.is_unpadded { zeros::<T>(self.conv.input[2]) } else { self.tile.allocate::<T>(1) }
    }

    /// A channel. It is valid until the next one is read into the same `buffer`.
    ///
    /// # Safety
    /// - The input is readable as the convolution says; `buffer` is from this reader.
    pub(super) unsafe fn channel(&self, image: usize, channel: usize, buffer: &mut Scratch) -> Channel<T>
    where
        for<'f> Fill<'f, T>: EveryIsa,
    {
        let (from, buffer) = (self.x.channel(image, channel), buffer.as_mut_ptr::<T>());
        if self.is_unpadded {
            let [_, height, width] = self.conv.input;
            return Channel::Unpadded(Unpadded {
                from,
                row: self.x.strides[3],
                zeros: buffer,
                height,
                width,
            });
        }
        // SAFETY: by this function's condition.
        unsafe { self.tile.fill(self.conv, 1, from, inner(&self.x), buffer) };
        Channel::Tile(self.tile, buffer)
    }
}

/// A channel with its padding.
#[derive(Clone, Copy)]
pub(super) enum Channel<T> {
    /// Rows of a tile.
    Tile(PaddedTile, *const T),
    /// Rows of the input itself.
    Unpadded(Unpadded<T>),
}

/// Loads vectors of the rows of a padded channel.
pub(super) trait Source<I: Isa, T: FloatLanes<I>, const K: usize>: Copy {
    /// For `V` vectors of outputs from column `x` on, the pixels of padded row `row` that each position of a kernel row
    /// multiplies. Lanes past the last output are arbitrary.
    ///
    /// # Safety
    /// - The channel has this row, and the last vector has at least one column of the output.
    unsafe fn read<const V: usize>(self, row: usize, x: usize) -> [[T::Vector; K]; V];
}

/// Rows of a tile, and the offsets in them of the positions of a kernel row.
#[derive(Clone, Copy)]
pub(super) struct InTile<T, const K: usize> {
    ptr: *const T,
    pitch: usize,
    columns: [usize; K],
}

impl<T, const K: usize> InTile<T, K> {
    #[inline(always)]
    pub(super) fn new(tile: PaddedTile, ptr: *const T, conv: &Conv) -> Self {
        Self { ptr, pitch: tile.pitch, columns: tile.columns::<K>(conv.dilation[2]) }
    }
}

impl<I: Isa, T: FloatLanes<I>, const K: usize> Source<I, T, K> for InTile<T, K> {
    #[inline(always)]
    unsafe fn read<const V: usize>(self, row: usize, x: usize) -> [[T::Vector; K]; V] {
        let mut pixels = [[T::Vector::zero(); K]; V];
        for (v, pixels) in pixels.iter_mut().enumerate() {
            for (pixels, column) in pixels.iter_mut().zip(self.columns) {
                // SAFETY: a row of the tile, which has slack for loads past its end.
                *pixels =
                    unsafe { T::load(self.ptr.add(row * self.pitch + x + v * T::Vector::LANES + column)) };
            }
        }
        pixels
    }
}

/// A channel of the input, padded by one pixel on each side.
#[derive(Clone, Copy)]
pub(super) struct Unpadded<T> {
    from: *const T,
    /// The stride of rows; pixels are adjacent.
    row: isize,
    /// A row of zeros, which stands for those above and below.
    zeros: *const T,
    height: usize,
    width: usize,
}

impl<I: Isa, T: FloatLanes<I>> Source<I, T, 3> for Unpadded<T> {
    #[inline(always)]
    unsafe fn read<const V: usize>(self, row: usize, x: usize) -> [[T::Vector; 3]; V] {
        let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
        let (is_inside, end) = (row.wrapping_sub(1) < self.height, x + V * lanes);
        // SAFETY: elements of a row of the channel, or of as many zeros.
        unsafe {
            let pixels_of_row =
                if is_inside { self.from.offset((row as isize - 1) * self.row) } else { self.zeros };
            let mut own = [zero; V];
            for (v, own) in own.iter_mut().enumerate() {
                let column = x + v * lanes;
                *own = T::load_up_to(pixels_of_row.add(column), lanes.min(self.width - column));
            }
            let before = if x > 0 { T::Vector::splat((*pixels_of_row.add(x - 1)).widen()) } else { zero };
            let after =
                if end < self.width { T::Vector::splat((*pixels_of_row.add(end)).widen()) } else { zero };
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
