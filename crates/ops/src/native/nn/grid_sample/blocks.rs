//! The pixels of the samples of several points at once, and their weights: each lane is a point.

use super::interpolation::{
    Along, Axis, AxisWeights, NO_PIXEL, POINTS, Real, Sampling, WeightedPixel, combine,
};
use crate::native::guarded_slices::fill;
use crate::vectorized::with_processor_vectors;
use std::ops::Range;

/// Spatial dimensions at most.
pub(super) const DIMS: usize = 3;

/// The coordinates of points along each dimension of an image, outermost first; NaN for points that do not exist.
pub(super) type Coordinates = [[f64; POINTS]; DIMS];

/// `EACH` pixels of the sample of each point: their offsets, or `NO_PIXEL`, and weights.
pub(super) struct Block<N, const EACH: usize> {
    offsets: [[u32; POINTS]; EACH],
    weights: [[N; POINTS]; EACH],
}

impl<N: Real, const EACH: usize> Block<N, EACH> {
    /// No pixels.
    #[inline(always)]
    pub(super) fn none() -> Self {
        Block { offsets: [[NO_PIXEL; POINTS]; EACH], weights: [[N::narrow(0.0); POINTS]; EACH] }
    }

    /// The pixels of points, `ALONG` of them along each dimension, with weights that are differentiated as often as `orders` says.
    #[inline(always)]
    pub(super) fn new<const ALONG: usize>(
        how: &Sampling,
        at: &Coordinates,
        axes: &[Axis],
        orders: &[usize],
    ) -> Self {
        let (mut offsets, mut weights, mut count) = ([[0; POINTS]; EACH], [[1.0; POINTS]; EACH], 1);
        for ((at, axis), order) in at.iter().zip(axes).zip(orders) {
            let along = how.along::<ALONG>(at, axis.size, *order);
            // In reverse order, so that no pixel is overwritten before it is read.
            for old in (0..count).rev() {
                let before = (offsets[old % EACH], weights[old % EACH]);
                for k in 0..ALONG {
                    let new = (old * ALONG + k) % EACH;
                    (offsets[new], weights[new]) = along.of_pixel(k, before, axis.stride);
                }
            }
            count *= ALONG;
        }
        let mut narrow = [[N::narrow(0.0); POINTS]; EACH];
        for (to, from) in narrow.iter_mut().zip(&weights) {
            for (to, weight) in to.iter_mut().zip(from) {
                *to = N::narrow(*weight);
            }
        }
        Block { offsets, weights: narrow }
    }

    /// The pixels of one point.
    #[inline(always)]
    pub(super) fn of(&self, lane: usize) -> [WeightedPixel<N>; EACH] {
        std::array::from_fn(
            #[inline(always)]
            |k| (self.offsets[k][lane], self.weights[k][lane]),
        )
    }
}

impl<const ALONG: usize> Along<ALONG> {
    /// The offsets of neighbours number `k` of pixels with these offsets and weights, and the products of the weights.
    #[inline(always)]
    fn of_pixel(
        &self,
        k: usize,
        (pixels, weights): ([u32; POINTS], [f64; POINTS]),
        stride: u32,
    ) -> ([u32; POINTS], [f64; POINTS]) {
        let (indices, factors) = (&self.indices[k], &self.weights[k]);
        let (mut offsets, mut products) = ([NO_PIXEL; POINTS], [0.0; POINTS]);
        for lane in 0..POINTS {
            let exists = (pixels[lane] != NO_PIXEL) & (indices[lane] != NO_PIXEL);
            let offset = pixels[lane].wrapping_add(indices[lane].wrapping_mul(stride));
            offsets[lane] = if exists { offset } else { NO_PIXEL };
            products[lane] = if exists { weights[lane] * factors[lane] } else { 0.0 };
        }
        (offsets, products)
    }
}

/// Fewer points are computed one by one.
const MIN_POINTS: usize = 4;

/// The row-major offsets of the pixels of each sample of one image, and their weights.
pub(super) fn table<N: Real>(how: &Sampling, grid: &[N], sizes: &[usize], to: &mut [WeightedPixel<N>]) {
    let (dims, each, axes) = (sizes.len(), how.pixels_per_sample(), Axis::contiguous(sizes));
    fill(to, each, |range: Range<usize>, part| {
        let (grid, points) = (&grid[range.start / each * dims..], part.len() / each);
        match (how.pixels_per_axis(), each) {
            _ if points < MIN_POINTS => fill_one_by_one(how, grid, &axes, part),
            (1, 1) => fill_in_blocks::<N, 1, 1>(how, grid, &axes, part),
            (2, 4) => fill_in_blocks::<N, 2, 4>(how, grid, &axes, part),
            (2, 8) => fill_in_blocks::<N, 2, 8>(how, grid, &axes, part),
            (4, 16) => fill_in_blocks::<N, 4, 16>(how, grid, &axes, part),
            _ => fill_one_by_one(how, grid, &axes, part),
        }
    });
}

fn fill_in_blocks<N: Real, const ALONG: usize, const EACH: usize>(
    how: &Sampling,
    grid: &[N],
    axes: &[Axis],
    to: &mut [WeightedPixel<N>],
) {
    with_processor_vectors(
        #[inline(always)]
        || {
            let dims = axes.len();
            for (to, grid) in to.chunks_mut(POINTS * EACH).zip(grid.chunks(POINTS * dims)) {
                let mut at = [[f64::NAN; POINTS]; DIMS];
                for (lane, point) in grid.chunks_exact(dims).enumerate() {
                    // Coordinates in the grid begin with the innermost dimension.
                    for (at, x) in at.iter_mut().zip(point.iter().rev()) {
                        at[lane] = x.wide();
                    }
                }
                let block = Block::<N, EACH>::new::<ALONG>(how, &at, axes, &how.orders);
                for (lane, to) in to.as_chunks_mut::<EACH>().0.iter_mut().enumerate() {
                    *to = block.of(lane);
                }
            }
        },
    );
}

fn fill_one_by_one<N: Real>(how: &Sampling, grid: &[N], axes: &[Axis], to: &mut [WeightedPixel<N>]) {
    let each = how.pixels_per_sample();
    let mut pixels = vec![(NO_PIXEL, 0.0); each];
    for (weights, at) in to.chunks_mut(each).zip(grid.chunks_exact(axes.len())) {
        pixels[0] = (0, 1.0);
        let mut count = 1;
        for ((axis, at), order) in axes.iter().zip(at.iter().rev()).zip(&how.orders) {
            let along: AxisWeights = how.weights(at.wide(), axis.size, *order);
            count = combine(&mut pixels, count, &along, axis.stride, how.pixels_per_axis());
        }
        for (to, (pixel, weight)) in weights.iter_mut().zip(&pixels) {
            *to = (*pixel, N::narrow(*weight));
        }
    }
}
