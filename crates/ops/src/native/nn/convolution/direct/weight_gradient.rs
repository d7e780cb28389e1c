//! The weight gradient of one block: several kernel positions and one or two vectors of filters at a time stay in registers while
//! all pixels are summed.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded_tile::PaddedTile;
use super::super::params::Conv;
use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Number, Vector};

/// Kernel positions that are summed at a time: those of a 3x3 kernel.
const POSITIONS: usize = 9;

/// The sums of products of input pixels and some rows of the output gradient, for all channels, kernel positions and filters.
pub(in super::super) struct WeightGradient<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) tile: PaddedTile,
    pub(super) rows: usize,
    /// The padded input.
    pub(super) from: *const T,
    /// For each channel and kernel position, the offset of what it reads for the first pixel.
    pub(super) offsets: &'c [usize],
    /// `[pixel][filter]`, with rows of `pitch`.
    pub(super) grads: *const T,
    /// `[channel and kernel position][filter]`, with rows of `pitch`, a whole number of vectors.
    pub(super) to: *mut T,
    pub(super) pitch: usize,
    /// Whether to overwrite `to` rather than add to it.
    pub(super) is_first: bool,
}

impl<T> CodegenAnchor for WeightGradient<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for WeightGradient<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = T::Vector::LANES;
        for first in (0..self.offsets.len()).step_by(POSITIONS) {
            let mut filter = 0;
            // SAFETY: by this function's condition. Only AVX-512 has registers for two vectors of filters.
            unsafe {
                while size_of::<T::Vector>() >= 64 && filter + 2 * lanes <= self.pitch {
                    self.positions::<I, 2>(first, filter);
                    filter += 2 * lanes;
                }
                while filter < self.pitch {
                    self.positions::<I, 1>(first, filter);
                    filter += lanes;
                }
            }
        }
    }
}

impl<T> WeightGradient<'_, T> {
    /// Adds the sums of some kernel positions, from `first` on, and of `V` vectors of filters.
    #[inline(always)]
    unsafe fn positions<I: Isa, const V: usize>(&self, first: usize, filter: usize)
    where
        T: FloatLanes<I>,
    {
        let (lanes, count) = (T::Vector::LANES, POSITIONS.min(self.offsets.len() - first));
        // Where fewer positions are left, the last one is summed again.
        let mut from = [self.from; POSITIONS];
        for (r, from) in from.iter_mut().enumerate() {
            *from = from.wrapping_add(self.offsets[first + r.min(count - 1)]);
        }
        // SAFETY: the operands of the block, and the sums of these positions and filters.
        unsafe {
            let sums = self.sums::<I, V>(from, self.grads.add(filter));
            for (r, sums) in sums.into_iter().enumerate().take(count) {
                for (v, sum) in sums.into_iter().enumerate() {
                    let to = self.to.add((first + r) * self.pitch + filter + v * lanes);
                    T::store(if self.is_first { sum } else { T::load(to) + sum }, to);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<I: Isa, const V: usize>(
        &self,
        from: [*const T; POSITIONS],
        mut grads: *const T,
    ) -> [[T::Vector; V]; POSITIONS]
    where
        T: FloatLanes<I>,
    {
        let (lanes, width) = (T::Vector::LANES, self.conv.output[2]);
        let mut sums = [[T::Vector::zero(); V]; POSITIONS];
        for y in 0..self.rows {
            let mut pixels = from;
            for pixels in &mut pixels {
                *pixels = pixels.wrapping_add(y * self.conv.stride[1] * self.tile.pitch);
            }
            for x in 0..width {
                let mut grad = [T::Vector::zero(); V];
                // SAFETY: a pixel of the row of the gradient, and the input pixels that these positions read for it.
                unsafe {
                    for (v, grad) in grad.iter_mut().enumerate() {
                        *grad = T::load(grads.add(v * lanes));
                    }
                    for r in 0..POSITIONS {
                        let pixel = T::Vector::splat((*pixels[r].add(x)).widen());
                        for v in 0..V {
                            sums[r][v] = pixel.mul_add(grad[v], sums[r][v]);
                        }
                    }
                }
                grads = grads.wrapping_add(self.pitch);
            }
        }
        sums
    }
}
