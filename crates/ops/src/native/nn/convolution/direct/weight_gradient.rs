//! A block's share of the gradient of the weights: some places of the kernel and one or two vectors of filters at a time, in
//! registers while all pixels are summed.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded::Padded;
use super::super::shape::Conv;
use crate::vectorized::{Float, FloatLanes, Isa, Kernel, Number, CodegenAnchor, Vector};

/// Places that are summed together: those of a kernel of three by three.
const PLACES: usize = 9;

/// The products of some rows of the output's gradient with what they were multiplied with, of all places and filters.
pub(in super::super) struct Products<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) tile: Padded,
    pub(super) rows: usize,
    /// The padded input.
    pub(super) from: *const T,
    /// What each place in the kernel of each channel reads first.
    pub(super) offsets: &'c [usize],
    /// `[pixel][filter]`, with rows of `pitch`.
    pub(super) grads: *const T,
    /// `[place][filter]`, with rows of `pitch`, a number of vectors.
    pub(super) to: *mut T,
    pub(super) pitch: usize,
    /// Whether what `to` holds does not count.
    pub(super) is_first: bool,
}

impl<T> CodegenAnchor for Products<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for Products<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = T::Vector::LANES;
        for first in (0..self.offsets.len()).step_by(PLACES) {
            let mut filter = 0;
            // SAFETY: by this function's condition. Small registers are fewer.
            unsafe {
                while size_of::<T::Vector>() >= 64 && filter + 2 * lanes <= self.pitch {
                    self.places::<I, 2>(first, filter);
                    filter += 2 * lanes;
                }
                while filter < self.pitch {
                    self.places::<I, 1>(first, filter);
                    filter += lanes;
                }
            }
        }
    }
}

impl<T> Products<'_, T> {
    /// Adds the sums of some places, from `first` on, and of `V` vectors of filters.
    #[inline(always)]
    unsafe fn places<I: Isa, const V: usize>(&self, first: usize, filter: usize)
    where
        T: FloatLanes<I>,
    {
        let (lanes, count) = (T::Vector::LANES, PLACES.min(self.offsets.len() - first));
        // Where places are fewer the last one is summed again.
        let mut from = [self.from; PLACES];
        for (r, from) in from.iter_mut().enumerate() {
            *from = from.wrapping_add(self.offsets[first + r.min(count - 1)]);
        }
        // SAFETY: the operands of the block, and the sums of these places and filters.
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
        from: [*const T; PLACES],
        mut grads: *const T,
    ) -> [[T::Vector; V]; PLACES]
    where
        T: FloatLanes<I>,
    {
        let (lanes, width) = (T::Vector::LANES, self.conv.output[2]);
        let mut sums = [[T::Vector::zero(); V]; PLACES];
        for y in 0..self.rows {
            let mut line = from;
            for line in &mut line {
                *line = line.wrapping_add(y * self.conv.stride[1] * self.tile.pitch);
            }
            for x in 0..width {
                let mut grad = [T::Vector::zero(); V];
                // SAFETY: the pixel of a row, and what it was multiplied with.
                unsafe {
                    for (v, grad) in grad.iter_mut().enumerate() {
                        *grad = T::load(grads.add(v * lanes));
                    }
                    for r in 0..PLACES {
                        let pixel = T::Vector::splat((*line[r].add(x)).widen());
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
