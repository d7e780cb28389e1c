//! Samples of small images of few channels, many images in a task, and the gradient of a grid: the weights of a point are applied
//! to all channels as soon as they are computed, and operands are read where they are, whatever their strides.

use super::blocks::{Block, Coordinates, DIMS};
use super::interpolation::{Axis, NO_PIXEL, POINTS, Real, Sampling, WeightedPixel, gathered, scatter};
use super::{NAME, lanes};
use crate::Tensor;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use flambeau_core::{Result, fallible};
use smallvec::SmallVec;
use std::ops::Range;

/// The largest number of weights, of all points and channels, of an image that one thread computes.
const MAX_WEIGHTS: usize = GRAIN / 4;

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
    /// The coordinates of `count` points from number `first` on, counted over all images.
    #[inline(always)]
    fn coordinates(&self, first: usize, count: usize) -> Coordinates {
        let (points, dims) = (self.points.offsets.len(), self.pixels.axes.len());
        let (mut at, mut n, mut point) = ([[f64::NAN; POINTS]; DIMS], first / points, first % points);
        for lane in 0..count {
            for (d, at) in at[..dims].iter_mut().enumerate() {
                // Coordinates in the grid begin with the innermost dimension.
                at[lane] = self.grid[self.points.at(n, dims - 1 - d, point)].wide();
            }
            point += 1;
            (n, point) = if point == points { (n + 1, 0) } else { (n, point) };
        }
        at
    }

    /// The sums of all channels of the images from `first` on, or the transposed sums. Points are taken in blocks, of whatever images
    /// they are.
    #[inline(always)]
    fn sum<const ALONG: usize, const EACH: usize>(&self, first: usize, to: &mut [N], image: usize) {
        let points = self.points.offsets.len();
        let (start, end) = (first * points, (first + to.len() / image) * points);
        for begin in (start..end).step_by(POINTS) {
            let count = POINTS.min(end - begin);
            let at = self.coordinates(begin, count);
            let block = Block::<N, EACH>::new::<ALONG>(self.how, &at, &self.pixels.axes, &self.how.orders);
            let mut done = 0;
            while done < count {
                let (n, point) = ((begin + done) / points, (begin + done) % points);
                let lanes = done..count.min(done + points - point);
                self.sum_of_block(&block, lanes.clone(), [n, point], &mut to[(n - first) * image..][..image]);
                done = lanes.end;
            }
        }
    }

    /// The sums of all channels of image `n` at the points in these lanes, of which the first one is number `point`.
    #[inline(always)]
    fn sum_of_block<const EACH: usize>(
        &self,
        block: &Block<N, EACH>,
        lanes: Range<usize>,
        [n, point]: [usize; 2],
        to: &mut [N],
    ) {
        let (points, pixels) = (self.points.offsets.len(), self.pixels);
        let Some(values) = self.values else {
            for (c, to) in to.chunks_exact_mut(points).enumerate() {
                let from = pixels.of(self.from, n, c);
                for (to, lane) in to[point..].iter_mut().zip(lanes.clone()) {
                    *to = gathered(&block.of(lane), from);
                }
            }
            return;
        };
        for (c, to) in to.chunks_exact_mut(pixels.span).enumerate() {
            for (point, lane) in (point..).zip(lanes.clone()) {
                scatter(self.from[values.at(n, c, point)], &block.of(lane), to);
            }
        }
    }

    /// The gradient of the coordinates of the points from `first` on, counted over all images: over the channels, the sum of
    /// `grad` times the samples differentiated once more along each dimension.
    #[inline(always)]
    fn gradient<const ALONG: usize, const EACH: usize>(&self, first: usize, to: &mut [N], grad: &[N]) {
        let axes = &self.pixels.axes;
        for (to, begin) in to.chunks_mut(POINTS * axes.len()).zip((first..).step_by(POINTS)) {
            let at = self.coordinates(begin, to.len() / axes.len());
            let blocks: [Block<N, EACH>; DIMS] = std::array::from_fn(
                #[inline(always)]
                |d| match d < axes.len() {
                    true => Block::new::<ALONG>(self.how, &at, axes, &self.steeper(d)),
                    false => Block::none(),
                },
            );
            for (lane, to) in to.chunks_exact_mut(axes.len()).enumerate() {
                self.gradient_of_point(blocks.each_ref().map(|block| block.of(lane)), begin + lane, to, grad);
            }
        }
    }

    /// How often weights are differentiated, once more along dimension `d`.
    #[inline(always)]
    fn steeper(&self, d: usize) -> [usize; DIMS] {
        let mut orders = [0; DIMS];
        for ((to, order), own) in orders.iter_mut().zip(&self.how.orders).zip(0..) {
            *to = (order + usize::from(own == d)).min(9);
        }
        orders
    }

    /// The gradient of the coordinates of point number `index`, given the pixels of the samples differentiated along each dimension.
    #[inline(always)]
    fn gradient_of_point<const EACH: usize>(
        &self,
        mut slopes: [[WeightedPixel<N>; EACH]; DIMS],
        index: usize,
        to: &mut [N],
        grad: &[N],
    ) {
        let (Some(values), dims) = (self.values, to.len()) else { return };
        let (n, point) = (index / self.points.offsets.len(), index % self.points.offsets.len());
        // Pixels outside of the image, and those that the gradient does not depend on, are left out.
        let mut counts = [0; DIMS];
        for (count, slopes) in counts.iter_mut().zip(&mut slopes).take(dims) {
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
