//! Samples of small images of few channels, many images in a task, and the gradient of a grid: the weights of a point are applied
//! to all channels as soon as they are computed, and operands are read where they are, whatever their strides.

use super::interpolation::{
    Axis, AxisWeights, NO_PIXEL, Real, Sampling, WeightedPixel, combine, gathered, scatter,
};
use super::{NAME, lanes};
use crate::Tensor;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use flambeau_core::{Result, fallible};
use smallvec::SmallVec;

/// The largest number of weights, of all points and channels, of an image that one thread computes.
const MAX_WEIGHTS: usize = GRAIN / 4;
/// Spatial dimensions at most.
const DIMS: usize = 3;

/// Whether the weights of a point have a loop of their own: all but those of volumes with cubic interpolation.
pub(super) fn has_loop(how: &Sampling) -> bool {
    matches!(how.orders.len(), 2 | 3) && how.pixels_per_sample() <= 16
}

/// Whether whole images, of so many channels, are computed by one thread each.
pub(super) fn suit(how: &Sampling, pixels: usize, points: usize, channels: usize) -> bool {
    let weights = points.saturating_mul(channels).saturating_mul(how.pixels_per_sample());
    has_loop(how) && weights.saturating_add(pixels) <= MAX_WEIGHTS && !lanes::suit(pixels, points, channels)
}

/// Whether pixels have offsets in 32 bits.
pub(super) fn spans_few(image: &Tensor) -> bool {
    let sizes_and_strides = image.sizes().iter().zip(image.strides()).skip(2);
    let span = sizes_and_strides
        .fold(1i64, |span, (size, stride)| span.saturating_add((size - 1).saturating_mul(*stride)));
    span < i64::from(NO_PIXEL)
}

/// Where the channels of images of an operand are, or the coordinates of a grid, and the offset of each point.
pub(super) struct Points {
    pub(super) image: usize,
    pub(super) channel: usize,
    pub(super) offsets: Vec<usize>,
}

impl Points {
    /// Of a tensor with these dimensions of points, in row-major order.
    pub(super) fn new(tensor: &Tensor, channel: usize, first: usize, dims: usize) -> Result<Self> {
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        let count: i64 = sizes[first..first + dims].iter().product();
        let mut offsets = fallible::filled(0, count as usize).map_err(|e| e.in_operator(NAME))?;
        let mut done = 1;
        for d in first..first + dims {
            let (size, stride) = (sizes[d] as usize, strides[d] as usize);
            // In reverse order, so that no offset is overwritten before it is read.
            for old in (0..done).rev() {
                let start = offsets[old];
                for (i, offset) in offsets[old * size..][..size].iter_mut().enumerate() {
                    *offset = start + i * stride;
                }
            }
            done *= size;
        }
        Ok(Points { image: strides[0] as usize, channel: strides[channel] as usize, offsets })
    }

    fn of_grid(grid: &Tensor, dims: usize) -> Result<Self> {
        Self::new(grid, dims + 1, 1, dims)
    }

    #[inline(always)]
    fn at(&self, image: usize, channel: usize, point: usize) -> usize {
        image * self.image + channel * self.channel + self.offsets[point]
    }
}

/// Images in memory: how far apart they and their channels are, how many elements a channel spans, and its dimensions.
struct Pixels {
    image: usize,
    channel: usize,
    span: usize,
    axes: SmallVec<[Axis; 3]>,
}

impl Pixels {
    /// Of a tensor that [`spans_few`].
    fn new(tensor: &Tensor) -> Self {
        let strides = tensor.strides();
        let mut axes = SmallVec::new();
        let mut span = 1;
        for (size, stride) in tensor.sizes().iter().zip(strides).skip(2) {
            // The stride of one pixel has no meaning.
            let stride = if *size == 1 { 0 } else { *stride };
            span += ((size - 1) * stride) as usize;
            axes.push(Axis { size: *size as usize, stride: stride as u32 });
        }
        Pixels { image: strides[0] as usize, channel: strides[1] as usize, span, axes }
    }

    /// The channel of an image.
    #[inline(always)]
    fn of<'a, N>(&self, elements: &'a [N], image: usize, channel: usize) -> &'a [N] {
        &elements[image * self.image + channel * self.channel..][..self.span]
    }
}

/// The pixels of a sample with these weights along each dimension.
#[inline(always)]
fn combined<N: Real, const ALONG: usize, const EACH: usize>(
    along: &[AxisWeights],
    axes: &[Axis],
) -> [WeightedPixel<N>; EACH] {
    let (mut pixels, mut count) = ([(0, 1.0); EACH], 1);
    for (along, axis) in along.iter().zip(axes) {
        count = combine(&mut pixels, count, along, axis.stride, ALONG);
    }
    pixels.map(
        #[inline(always)]
        |(pixel, weight)| (pixel, N::narrow(weight)),
    )
}

/// Loops for common numbers of pixels along a dimension and of a sample, which are compile-time constants.
macro_rules! with_pixels {
    ($how:expr, $object:ident.$loops:ident($($argument:expr),*)) => {
        match ($how.pixels_per_axis(), $how.pixels_per_sample()) {
            (1, _) => with_processor_vectors(#[inline(always)] || $object.$loops::<1, 1>($($argument),*)),
            (2, 4) => with_processor_vectors(#[inline(always)] || $object.$loops::<2, 4>($($argument),*)),
            (2, 8) => with_processor_vectors(#[inline(always)] || $object.$loops::<2, 8>($($argument),*)),
            _ => with_processor_vectors(#[inline(always)] || $object.$loops::<4, 16>($($argument),*)),
        }
    };
}

/// What the loops over images, or over points, read.
struct Loops<'a, N> {
    how: &'a Sampling,
    grid: &'a [N],
    points: &'a Points,
    pixels: &'a Pixels,
    /// The points of the transposed sums' or the gradient's other operand.
    values: Option<&'a Points>,
    channels: usize,
    from: &'a [N],
}

impl<N: Real> Loops<'_, N> {
    /// The weights of a point along each dimension, differentiated `more` times more.
    #[inline(always)]
    fn along(&self, image: usize, point: usize, more: usize) -> [AxisWeights; DIMS] {
        let (mut along, axes) = ([AxisWeights::NONE; DIMS], &self.pixels.axes);
        for (d, axis) in axes.iter().enumerate() {
            // Coordinates in the grid begin with the innermost dimension.
            let at = self.grid[self.points.at(image, axes.len() - 1 - d, point)];
            along[d] = self.how.weights(at.wide(), axis.size, (self.how.orders[d] + more).min(9));
        }
        along
    }

    /// The sums of all channels of the images from `first` on, or the transposed sums.
    #[inline(always)]
    fn sum<const ALONG: usize, const EACH: usize>(&self, first: usize, to: &mut [N], image: usize) {
        let (points, pixels) = (self.points.offsets.len(), self.pixels);
        for (to, n) in to.chunks_exact_mut(image).zip(first..) {
            for point in 0..points {
                let weights = combined::<N, ALONG, EACH>(&self.along(n, point, 0), &pixels.axes);
                match self.values {
                    Some(values) => {
                        for (c, to) in to.chunks_exact_mut(pixels.span).enumerate() {
                            scatter(self.from[values.at(n, c, point)], &weights, to);
                        }
                    }
                    None => {
                        for (c, to) in to.iter_mut().skip(point).step_by(points).enumerate() {
                            *to = gathered(&weights, pixels.of(self.from, n, c));
                        }
                    }
                }
            }
        }
    }

    /// The gradient of the coordinates of the points from `first` on, counted over all images: over the channels, the sum of
    /// `grad` times the samples differentiated once more along each dimension.
    #[inline(always)]
    fn gradient<const ALONG: usize, const EACH: usize>(&self, first: usize, to: &mut [N], grad: &[N]) {
        let (Some(values), dims) = (self.values, self.pixels.axes.len()) else { return };
        for (to, index) in to.chunks_exact_mut(dims).zip(first..) {
            let (n, point) = (index / self.points.offsets.len(), index % self.points.offsets.len());
            let (plain, steeper) = (self.along(n, point, 0), self.along(n, point, 1));
            let mut slopes = [[(NO_PIXEL, N::narrow(0.0)); EACH]; DIMS];
            for (d, slopes) in slopes[..dims].iter_mut().enumerate() {
                let mut along = plain;
                along[d] = steeper[d];
                *slopes = combined::<N, ALONG, EACH>(&along, &self.pixels.axes);
            }
            // Pixels outside of the image, and those that the gradient does not depend on, are left out.
            let mut counts = [0; DIMS];
            for (count, slopes) in counts.iter_mut().zip(&mut slopes) {
                for i in 0..EACH {
                    if slopes[i].0 != NO_PIXEL {
                        slopes[*count] = slopes[i];
                        *count += 1;
                    }
                }
            }
            let mut sums = [0.0; DIMS];
            let channels = if counts == [0; DIMS] { 0 } else { self.channels };
            for c in 0..channels {
                let (grad, image) = (grad[values.at(n, c, point)].wide(), self.pixels.of(self.from, n, c));
                for ((sum, slopes), count) in sums[..dims].iter_mut().zip(&slopes).zip(counts) {
                    *sum += grad * gathered(&slopes[..count], image).wide();
                }
            }
            for (to, sum) in to.iter_mut().zip(sums[..dims].iter().rev()) {
                *to = N::narrow(*sum);
            }
        }
    }
}

/// Computes the samples of `from`, or the transposed sums, into `to`, which is contiguous and, for these, zero.
pub(super) fn run<N: Real>(how: &Sampling, [grid, from, to]: [&Tensor; 3], transposed: bool) -> Result<()> {
    let dims = how.orders.len();
    let (points, pixels) = (Points::of_grid(grid, dims)?, Pixels::new(if transposed { to } else { from }));
    let values = if transposed { Some(Points::new(from, 1, 2, dims)?) } else { None };
    let (batch, channels) = (to.sizes()[0] as usize, to.sizes()[1] as usize);
    let image = to.numel() as usize / batch;
    let weights = points.offsets.len() * channels.max(2) * how.pixels_per_sample();
    with_slices(NAME, &[grid, from], &[to], |s| {
        let (grid, from, to) = (s.read::<N>(0)?, s.read::<N>(1)?, s.write::<N>(0)?);
        let loops =
            Loops { how, grid, points: &points, pixels: &pixels, values: values.as_ref(), channels, from };
        fill_chunks(to, image, GRAIN / 4 / weights, |range, part| {
            with_pixels!(how, loops.sum(range.start / image, part, image))
        });
        Ok(())
    })
}

/// Computes the gradient of `grid` into `to`, which is contiguous.
pub(super) fn grid_gradient<N: Real>(how: &Sampling, [grad, input, grid, to]: [&Tensor; 4]) -> Result<()> {
    let dims = how.orders.len();
    let (points, pixels) = (Points::of_grid(grid, dims)?, Pixels::new(input));
    let (values, channels) = (Points::new(grad, 1, 2, dims)?, input.sizes()[1] as usize);
    let weights = dims * channels.max(4) * how.pixels_per_sample();
    with_slices(NAME, &[grad, input, grid], &[to], |s| {
        let (grad, from, grid) = (s.read::<N>(0)?, s.read::<N>(1)?, s.read::<N>(2)?);
        let loops =
            Loops { how, grid, points: &points, pixels: &pixels, values: Some(&values), channels, from };
        fill_chunks(s.write::<N>(0)?, dims, GRAIN / 4 / weights, |range, part| {
            with_pixels!(how, loops.gradient(range.start / dims, part, grad))
        });
        Ok(())
    })
}
