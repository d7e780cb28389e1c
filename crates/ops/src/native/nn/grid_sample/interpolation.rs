//! The pixels of samples and their interpolation weights, and the sums over them, one channel after another.

use crate::enums::{GridSampleMode as Interpolation, GridSamplePadding as Padding};
use crate::native::element_bits::Numeric;
use crate::native::guarded_slices::fill;
use flambeau_core::{Result, Scalar, bail};
use smallvec::SmallVec;

/// Floating point numbers in which samples are computed.
pub(super) trait Real: Numeric {
    /// As f64.
    fn wide(self) -> f64;
    /// `value`, rounded to nearest.
    fn narrow(value: f64) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

impl Real for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }
}

/// The parameters of sampling, and the order of the derivative along each dimension.
pub(super) struct Sampling {
    interpolation: Interpolation,
    padding: Padding,
    align_corners: bool,
    pub(super) orders: Vec<usize>,
}

/// A dimension of an image: its size, and how far apart neighbours are.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) size: usize,
    pub(super) stride: u32,
}

impl Axis {
    /// The dimensions of contiguous images of these sizes.
    pub(super) fn contiguous(sizes: &[usize]) -> SmallVec<[Axis; 3]> {
        let mut axes: SmallVec<[Axis; 3]> =
            sizes.iter().map(|size| Axis { size: *size, stride: 1 }).collect();
        for d in (1..sizes.len()).rev() {
            axes[d - 1].stride = axes[d].stride * sizes[d] as u32;
        }
        axes
    }
}

/// The indices along one dimension whose pixels a sample sums, `OUTSIDE` for those that do not exist, and their weights.
#[derive(Clone, Copy)]
pub(super) struct AxisWeights {
    count: usize,
    indices: [usize; 4],
    weights: [f64; 4],
}

/// The offset of one pixel of a sample, and its weight. Tables of these are read once for each channel, so they are kept small.
pub(super) type WeightedPixel<N> = (u32, N);

/// The offset of a pixel that is outside of the image and counts as zero.
pub(super) const NO_PIXEL: u32 = u32::MAX;

const OUTSIDE: usize = usize::MAX;

/// Points whose pixels are computed at once, one in each lane.
pub(super) const POINTS: usize = 32;

/// The indices along one dimension of the pixels of several points, or `NO_PIXEL`, and their weights.
pub(super) struct Along<const ALONG: usize> {
    pub(super) indices: [[u32; POINTS]; ALONG],
    pub(super) weights: [[f64; POINTS]; ALONG],
}

impl<const ALONG: usize> Along<ALONG> {
    /// No pixels.
    const NONE: Self = Along { indices: [[NO_PIXEL; POINTS]; ALONG], weights: [[0.0; POINTS]; ALONG] };
}

impl Sampling {
    pub(super) fn new(interpolation: i64, padding: i64, align_corners: bool, orders: &[i64]) -> Result<Self> {
        let Some(interpolation) = Interpolation::from_int(interpolation) else {
            bail!(
                InvalidArgument("grid_sampler", "interpolation_mode"),
                "grid_sampler(): expected interpolation_mode of 0, 1 or 2 but got {interpolation}"
            )
        };
        let Some(padding) = Padding::from_int(padding) else {
            bail!(
                InvalidArgument("grid_sampler", "padding_mode"),
                "grid_sampler(): expected padding_mode of 0, 1 or 2 but got {padding}"
            )
        };
        let orders = orders.iter().map(|order| (*order).clamp(0, 9) as usize).collect();
        Ok(Sampling { interpolation, padding, align_corners, orders })
    }

    /// Pixels for one sample.
    pub(super) fn pixels_per_sample(&self) -> usize {
        self.pixels_per_axis().pow(self.orders.len() as u32)
    }

    /// Pixels along one dimension.
    pub(super) fn pixels_per_axis(&self) -> usize {
        match self.interpolation {
            Interpolation::Nearest => 1,
            Interpolation::Linear => 2,
            Interpolation::Cubic => 4,
        }
    }

    /// The pixels around coordinate `at` of the grid, which is -1 at one end of the image and 1 at the other.
    #[inline(always)]
    pub(super) fn weights(&self, at: f64, size: usize, order: usize) -> AxisWeights {
        let n = size as f64;
        let scale = if self.align_corners { scale::<true>(n) } else { scale::<false>(n) };
        let position = if self.align_corners { position::<true>(at, n) } else { position::<false>(at, n) };
        if self.interpolation == Interpolation::Cubic {
            return self.cubic(position, size, order, scale);
        }
        let (position, slope) = self.padded(position, size);
        let inside =
            |position: f64| if position >= 0.0 && position < n { position as usize } else { OUTSIDE };
        if self.interpolation == Interpolation::Nearest {
            let count = usize::from(order == 0);
            let indices = [inside(position.round_ties_even()), OUTSIDE, OUTSIDE, OUTSIDE];
            return AxisWeights { count, indices, weights: [1.0, 0.0, 0.0, 0.0] };
        }
        let first = position.floor();
        let (t, slope) = (position - first, slope * scale);
        let (count, weights) = match order {
            0 => (2, [1.0 - t, t]),
            1 => (2, [-slope, slope]),
            _ => (0, [0.0; 2]),
        };
        let indices = [inside(first), inside(first + 1.0), OUTSIDE, OUTSIDE];
        AxisWeights { count, indices, weights: [weights[0], weights[1], 0.0, 0.0] }
    }

    /// [`weights`](Self::weights) of several points, `ALONG` pixels each.
    #[inline(always)]
    pub(super) fn along<const ALONG: usize>(
        &self,
        at: &[f64; POINTS],
        size: usize,
        order: usize,
    ) -> Along<ALONG> {
        let (n, differentiated) = (size as f64, order > 0);
        match (self.align_corners, self.padding) {
            _ if order > 1 || (differentiated && ALONG != 2) => self.along_one_by_one(at, size, order),
            (_, Padding::Reflection) => self.along_one_by_one(at, size, order),
            (false, Padding::Zeros) => along::<ALONG, false, false>(at, n, differentiated),
            (false, Padding::Border) => along::<ALONG, false, true>(at, n, differentiated),
            (true, Padding::Zeros) => along::<ALONG, true, false>(at, n, differentiated),
            (true, Padding::Border) => along::<ALONG, true, true>(at, n, differentiated),
        }
    }

    #[inline(always)]
    fn along_one_by_one<const ALONG: usize>(
        &self,
        at: &[f64; POINTS],
        size: usize,
        order: usize,
    ) -> Along<ALONG> {
        let mut along = Along::NONE;
        for (lane, at) in at.iter().enumerate() {
            let own = self.weights(*at, size, order);
            for k in (0..own.count.min(ALONG)).filter(|k| own.indices[*k] != OUTSIDE) {
                along.indices[k][lane] = own.indices[k] as u32;
                along.weights[k][lane] = own.weights[k];
            }
        }
        along
    }

    #[inline]
    fn cubic(&self, position: f64, size: usize, order: usize, scale: f64) -> AxisWeights {
        let first = position.floor();
        let mut indices = [OUTSIDE; 4];
        for (k, to) in indices.iter_mut().enumerate() {
            let (position, _) = self.padded(first - 1.0 + k as f64, size);
            if position >= 0.0 && position < size as f64 {
                *to = position as usize;
            }
        }
        let factor = scale.powi(order as i32);
        AxisWeights {
            count: 4,
            indices,
            weights: keys(position - first, order).map(|weight| weight * factor),
        }
    }

    /// A position moved into the image as the padding says, and the derivative of that map.
    #[inline(always)]
    fn padded(&self, position: f64, size: usize) -> (f64, f64) {
        let last = size as f64 - 1.0;
        let (position, slope) = match (self.padding, self.align_corners) {
            (Padding::Zeros, _) => return (position, 1.0),
            (Padding::Border, _) => (position, 1.0),
            (Padding::Reflection, true) => reflected(position, 0.0, last),
            (Padding::Reflection, false) => reflected(position, -0.5, last + 0.5),
        };
        match () {
            // NaN and infinity are outside of the image, as in PyTorch.
            () if !position.is_finite() => (-100.0, 0.0),
            () if position <= 0.0 => (0.0, 0.0),
            () if position >= last => (last, 0.0),
            () => (position, slope),
        }
    }
}

/// The derivative of [`position`].
#[inline(always)]
fn scale<const ALIGNED: bool>(n: f64) -> f64 {
    if ALIGNED { (n - 1.0) / 2.0 } else { n / 2.0 }
}

/// Where coordinate `at` of the grid is in a dimension of `n` pixels.
#[inline(always)]
fn position<const ALIGNED: bool>(at: f64, n: f64) -> f64 {
    if ALIGNED { (at + 1.0) / 2.0 * (n - 1.0) } else { ((at + 1.0) * n - 1.0) / 2.0 }
}

/// [`Sampling::along`] without reflections: without branches, so that the loop vectorizes. One pixel is the nearest one, two are for linear
/// and four for cubic interpolation; the weights of two may be those of the derivative.
#[inline(always)]
fn along<const ALONG: usize, const ALIGNED: bool, const BORDER: bool>(
    at: &[f64; POINTS],
    n: f64,
    differentiated: bool,
) -> Along<ALONG> {
    let mut along = Along::NONE;
    for (lane, at) in at.iter().enumerate() {
        let position = position::<ALIGNED>(*at, n);
        let inner = if ALONG == 4 { position } else { padded::<BORDER>(position, n) };
        let first = if ALONG == 1 { inner.round_ties_even() } else { inner.floor() };
        let t = inner - first;
        for k in 0..ALONG {
            let neighbor = match ALONG {
                4 => padded::<BORDER>(first - 1.0 + k as f64, n),
                _ => first + k as f64,
            };
            along.indices[k][lane] = index(neighbor, n);
            along.weights[k][lane] = match ALONG {
                1 => 1.0,
                2 => [1.0 - t, t][k % 2],
                _ => keys(t, 0)[k % 4],
            };
        }
    }
    if differentiated {
        for (lane, at) in at.iter().enumerate() {
            let position = position::<ALIGNED>(*at, n);
            let moves = !BORDER | ((position > 0.0) & (position < n - 1.0));
            let slope = if moves { scale::<ALIGNED>(n) } else { 0.0 };
            for (weights, slope) in along.weights.iter_mut().zip([-slope, slope]) {
                weights[lane] = slope;
            }
        }
    }
    along
}

/// A position moved into the image where `BORDER` says so.
#[inline(always)]
fn padded<const BORDER: bool>(position: f64, n: f64) -> f64 {
    if !BORDER {
        return position;
    }
    let last = n - 1.0;
    let inner = if position >= last { last } else { position };
    let inner = if position <= 0.0 { 0.0 } else { inner };
    // As of `Sampling::padded`.
    if position.abs() < f64::INFINITY { inner } else { -100.0 }
}

/// The index of a pixel, or `NO_PIXEL` outside of the image.
#[inline(always)]
fn index(position: f64, n: f64) -> u32 {
    let is_inside = (position >= 0.0) & (position < n);
    let index = if is_inside { position } else { 0.0 } as u32;
    if is_inside { index } else { NO_PIXEL }
}

/// A position reflected at both ends until it is between them, and the derivative.
fn reflected(position: f64, low: f64, high: f64) -> (f64, f64) {
    let span = high - low;
    if span <= 0.0 {
        return (0.0, 0.0);
    }
    let (distance, slope) = if position < low { (low - position, -1.0) } else { (position - low, 1.0) };
    let (reflections, rest) = ((distance / span).floor(), distance % span);
    if reflections % 2.0 == 0.0 { (low + rest, slope) } else { (high - rest, -slope) }
}

/// The weights of four neighbours at `t` between the middle two, differentiated `order` times: Keys, "Cubic convolution
/// interpolation" (1981), a = -3/4.
#[inline(always)]
fn keys(t: f64, order: usize) -> [f64; 4] {
    const A: f64 = -0.75;
    // Coefficients, highest power first: for the inner neighbours as a polynomial in the distance; for the outer ones in 2 minus
    // the distance, which avoids cancellation.
    let inner = [A + 2.0, -(A + 3.0), 0.0, 1.0];
    let outer = [-A, A, 0.0, 0.0];
    let derived = |c: [f64; 4]| [0.0, 3.0 * c[0], 2.0 * c[1], c[2]];
    let (inner, outer) =
        (0..order).fold((inner, outer), |(inner, outer), _| (derived(inner), derived(outer)));
    let value = |c: [f64; 4], x: f64| ((c[0] * x + c[1]) * x + c[2]) * x + c[3];
    // The chain rule: the derivative of 1 - t is -1.
    let mirrored_sign = if order.is_multiple_of(2) { 1.0 } else { -1.0 };
    [
        mirrored_sign * value(outer, 1.0 - t),
        value(inner, t),
        mirrored_sign * value(inner, 1.0 - t),
        value(outer, t),
    ]
}

/// Replaces each of the first `count` pixels by `along` pixels of another dimension, whose neighbours are `stride` apart.
#[inline(always)]
pub(super) fn combine(
    pixels: &mut [WeightedPixel<f64>],
    count: usize,
    axis: &AxisWeights,
    stride: u32,
    along: usize,
) -> usize {
    // In reverse order, so that no pixel is overwritten before it is read.
    for old in (0..count).rev() {
        let (pixel, weight) = pixels[old];
        for k in 0..along {
            let exists = pixel != NO_PIXEL && k < axis.count && axis.indices[k] != OUTSIDE;
            // The first new pixel may overwrite the old one, which has been read.
            pixels[old * along + k] = match exists {
                true => (pixel + axis.indices[k] as u32 * stride, weight * axis.weights[k]),
                false => (NO_PIXEL, 0.0),
            };
        }
    }
    count * along
}

/// Applies a table of weights: the pixels and samples of a channel, and whether to apply the transpose.
pub(super) struct Pass {
    pub(super) pixels: usize,
    pub(super) points: usize,
    pub(super) each: usize,
    pub(super) transposed: bool,
}

impl Pass {
    pub(super) fn run<N: Numeric>(&self, weights: &[WeightedPixel<N>], from: &[N], to: &mut [N]) {
        // Common numbers of weights are compile-time constants, so that loops over them are unrolled.
        match self.each {
            1 => self.run_each::<N, 1>(weights, from, to),
            4 => self.run_each::<N, 4>(weights, from, to),
            8 => self.run_each::<N, 8>(weights, from, to),
            _ => self.run_each::<N, 0>(weights, from, to),
        }
    }

    /// With `EACH` weights for a sample, or `self.each` of them if that is 0.
    fn run_each<N: Numeric, const EACH: usize>(
        &self,
        weights: &[WeightedPixel<N>],
        from: &[N],
        to: &mut [N],
    ) {
        let each = if EACH == 0 { self.each } else { EACH };
        if self.transposed {
            return fill(to, self.pixels, |range, part| {
                for (to, channel) in part.chunks_mut(self.pixels).zip(range.start / self.pixels..) {
                    let from = &from[channel * self.points..][..self.points];
                    for (value, weights) in from.iter().zip(weights.chunks_exact(each)) {
                        scatter(*value, weights, to);
                    }
                }
            });
        }
        fill(to, self.points, |range, part| {
            for (to, channel) in part.chunks_mut(self.points).zip(range.start / self.points..) {
                let from = &from[channel * self.pixels..][..self.pixels];
                for (to, weights) in to.iter_mut().zip(weights.chunks_exact(each)) {
                    *to = gathered(weights, from);
                }
            }
        });
    }
}

/// The sum of the pixels of one sample.
#[inline(always)]
pub(super) fn gathered<N: Numeric>(weights: &[WeightedPixel<N>], from: &[N]) -> N {
    let add = |sum: N, (index, weight): &WeightedPixel<N>| match from.get(*index as usize) {
        Some(pixel) => sum.plus(pixel.times(*weight)),
        // `NO_PIXEL`, which is past the last pixel.
        None => sum,
    };
    weights.iter().fold(N::of(Scalar::Float(0.0)), add)
}

/// Adds a value to the pixels of one sample.
#[inline(always)]
pub(super) fn scatter<N: Numeric>(value: N, weights: &[WeightedPixel<N>], to: &mut [N]) {
    for (index, weight) in weights {
        if let Some(pixel) = to.get_mut(*index as usize) {
            *pixel = pixel.plus(value.times(*weight));
        }
    }
}
