//! A block of the output: several filters and vectors of pixels at a time stay in registers while all kernel positions are
//! summed.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::depthwise::store;
use super::super::padded_tile::PaddedTile;
use super::super::params::Conv;
use crate::gemm::SendPtr;
use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Number, Vector};

/// Filters of a panel of weights.
pub(super) const FILTERS: usize = 8;

/// Vectors of pixels that are summed at a time.
const PIXEL_VECTORS: usize = 3;

/// Computes some rows of the output, for all filters.
pub(in super::super) struct ForwardBlock<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) tile: PaddedTile,
    pub(super) rows: usize,
    /// The padded input.
    pub(super) from: *const T,
    /// For each channel and kernel position, the offset of what it reads for the first pixel.
    pub(super) offsets: &'c [usize],
    pub(super) panels: *const T,
    pub(super) bias: Option<(SendPtr<T>, isize)>,
    pub(super) to: *mut T,
    /// Of filters, rows and pixels.
    pub(super) strides: [isize; 3],
}

impl<T> CodegenAnchor for ForwardBlock<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for ForwardBlock<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        for first in (0..self.conv.filters).step_by(FILTERS) {
            // SAFETY: by this function's condition. Before AVX-512 there are half as many registers: half as many filters at a
            // time.
            unsafe {
                if size_of::<T::Vector>() >= 64 {
                    self.filters::<I, FILTERS>(first);
                } else {
                    self.filters::<I, { FILTERS / 2 }>(first);
                    self.filters::<I, { FILTERS / 2 }>(first + FILTERS / 2);
                }
            }
        }
    }
}

impl<T> ForwardBlock<'_, T> {
    /// `R` filters of one panel, from `first` on.
    #[inline(always)]
    unsafe fn filters<I: Isa, const R: usize>(&self, first: usize)
    where
        T: FloatLanes<I>,
    {
        let (lanes, width) = (T::Vector::LANES, self.conv.output[2]);
        let row = self.conv.stride[1] * self.tile.pitch;
        let panel =
            self.panels.wrapping_add(first / FILTERS * FILTERS * self.offsets.len() + first % FILTERS);
        let mut next = [0, 0];
        while next[0] < self.rows {
            // Where no more vectors are left, the last one is computed again.
            let (mut positions, mut from) = ([next; PIXEL_VECTORS], [self.from; PIXEL_VECTORS]);
            for v in 0..PIXEL_VECTORS {
                positions[v] = if next[0] < self.rows { next } else { positions[v.max(1) - 1] };
                from[v] = self.from.wrapping_add(positions[v][0] * row + positions[v][1]);
                let x = next[1] + lanes;
                next = if x < width { [next[0], x] } else { [next[0] + 1, 0] };
            }
            // SAFETY: rows of the tile and of the output. Lanes past a row are not stored; the tile has slack for their loads.
            unsafe {
                let sums = sums::<I, T, R>(from, self.offsets, panel);
                for (r, sums) in sums.into_iter().enumerate() {
                    if first + r < self.conv.filters {
                        self.store_pixels::<I>(first + r, positions, sums);
                    }
                }
            }
        }
    }

    /// Stores the pixels of one filter, with its bias.
    #[inline(always)]
    unsafe fn store_pixels<I: Isa>(
        &self,
        filter: usize,
        positions: [[usize; 2]; PIXEL_VECTORS],
        sums: [T::Vector; PIXEL_VECTORS],
    ) where
        T: FloatLanes<I>,
    {
        let [channel, row, pixel] = self.strides;
        let to = self.to.wrapping_offset(filter as isize * channel);
        // SAFETY: a bias for each filter; the pixels are the output's.
        unsafe {
            let start = match self.bias {
                Some((bias, step)) => T::Vector::splat((*bias.at().offset(filter as isize * step)).widen()),
                None => T::Vector::zero(),
            };
            for v in 0..PIXEL_VECTORS {
                let [y, x] = positions[v];
                let to = to.offset(y as isize * row + x as isize * pixel);
                store::<I, T>(sums[v] + start, to, pixel, T::Vector::LANES.min(self.conv.output[2] - x));
            }
        }
    }
}

/// The sums over all channels and kernel positions, of `R` filters for vectors of pixels.
///
/// # Safety
/// - At each of `from`, a vector may be read at each offset; `panel` has a row of [`FILTERS`] for each, of which `R` are read.
#[inline(always)]
unsafe fn sums<I: Isa, T: FloatLanes<I>, const R: usize>(
    from: [*const T; PIXEL_VECTORS],
    offsets: &[usize],
    panel: *const T,
) -> [[T::Vector; PIXEL_VECTORS]; R] {
    let mut sums = [[T::Vector::zero(); PIXEL_VECTORS]; R];
    for (k, &offset) in offsets.iter().enumerate() {
        let mut pixels = [T::Vector::zero(); PIXEL_VECTORS];
        // SAFETY: by this function's condition.
        unsafe {
            for v in 0..PIXEL_VECTORS {
                pixels[v] = T::load(from[v].add(offset));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let factor = T::Vector::splat((*panel.add(k * FILTERS + r)).widen());
                for v in 0..PIXEL_VECTORS {
                    sums[v] = pixels[v].mul_add(factor, sums[v]);
                }
            }
        }
    }
    sums
}
