//! Which pixels a sample is made of, and what each counts; and the sums over them, one channel after another.

use crate::native::guarded_slices::fill;
use crate::native::element_bits::Numeric;
use flambeau_core::{Result, Scalar, bail};
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Interpolation {
    Linear,
    Nearest,
    Cubic,
}

/// What lies outside of the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// How a call samples, and how often it is derived along each dimension.
pub(super) struct Sampling {
    interpolation: Interpolation,
    padding: Padding,
    align_corners: bool,
    pub(super) orders: Vec<usize>,
}

/// The pixels that count along one dimension, and how much; `OUTSIDE` for those that do not exist.
struct Taps {
    count: usize,
    places: [usize; 4],
    weights: [f64; 4],
}

/// One pixel of a sample, counted through all rows, and what it counts. Tables of them are read once for each channel, so
/// they are kept small.
pub(super) type Tap<N> = (u32, N);

/// The place of a tap that has no pixel.
pub(super) const NOWHERE: u32 = u32::MAX;

const OUTSIDE: usize = usize::MAX;

impl Sampling {
    pub(super) fn new(interpolation: i64, padding: i64, align_corners: bool, orders: &[i64]) -> Result<Self> {
        let interpolation = match interpolation {
            0 => Interpolation::Linear,
            1 => Interpolation::Nearest,
            2 => Interpolation::Cubic,
            other => bail!(
                InvalidArgument,
                "grid_sampler(): expected interpolation_mode of 0, 1 or 2 but got {other}"
            ),
        };
        let padding = match padding {
            0 => Padding::Zeros,
            1 => Padding::Border,
            2 => Padding::Reflection,
            other => {
                bail!(InvalidArgument, "grid_sampler(): expected padding_mode of 0, 1 or 2 but got {other}")
            }
        };
        let orders = orders.iter().map(|order| (*order).clamp(0, 9) as usize).collect();
        Ok(Sampling { interpolation, padding, align_corners, orders })
    }

    /// Pixels for one sample.
    pub(super) fn taps_of_sample(&self) -> usize {
        self.taps_along().pow(self.orders.len() as u32)
    }

    /// Pixels along one dimension.
    fn taps_along(&self) -> usize {
        match self.interpolation {
            Interpolation::Nearest => 1,
            Interpolation::Linear => 2,
            Interpolation::Cubic => 4,
        }
    }

    /// The pixels around the coordinate `at` of the grid, which is -1 at one end of the image and 1 at the other.
    fn taps(&self, at: f64, size: usize, order: usize) -> Taps {
        let n = size as f64;
        let scale = if self.align_corners { (n - 1.0) / 2.0 } else { n / 2.0 };
        let place =
            if self.align_corners { (at + 1.0) / 2.0 * (n - 1.0) } else { ((at + 1.0) * n - 1.0) / 2.0 };
        if self.interpolation == Interpolation::Cubic {
            return self.cubic(place, size, order, scale);
        }
        let (place, slope) = self.padded(place, size);
        let inside = |place: f64| if place >= 0.0 && place < n { place as usize } else { OUTSIDE };
        if self.interpolation == Interpolation::Nearest {
            let count = usize::from(order == 0);
            let places = [inside(place.round_ties_even()), OUTSIDE, OUTSIDE, OUTSIDE];
            return Taps { count, places, weights: [1.0, 0.0, 0.0, 0.0] };
        }
        let first = place.floor();
        let (t, slope) = (place - first, slope * scale);
        let (count, weights) = match order {
            0 => (2, [1.0 - t, t]),
            1 => (2, [-slope, slope]),
            _ => (0, [0.0; 2]),
        };
        let places = [inside(first), inside(first + 1.0), OUTSIDE, OUTSIDE];
        Taps { count, places, weights: [weights[0], weights[1], 0.0, 0.0] }
    }

    fn cubic(&self, place: f64, size: usize, order: usize, scale: f64) -> Taps {
        let first = place.floor();
        let mut places = [OUTSIDE; 4];
        for (k, to) in places.iter_mut().enumerate() {
            let (place, _) = self.padded(first - 1.0 + k as f64, size);
            if place >= 0.0 && place < size as f64 {
                *to = place as usize;
            }
        }
        let factor = scale.powi(order as i32);
        Taps { count: 4, places, weights: keys(place - first, order).map(|weight| weight * factor) }
    }

    /// A place brought into the image as the padding says, and the derivative of that.
    fn padded(&self, place: f64, size: usize) -> (f64, f64) {
        let last = size as f64 - 1.0;
        let (place, slope) = match (self.padding, self.align_corners) {
            (Padding::Zeros, _) => return (place, 1.0),
            (Padding::Border, _) => (place, 1.0),
            (Padding::Reflection, true) => reflected(place, 0.0, last),
            (Padding::Reflection, false) => reflected(place, -0.5, last + 0.5),
        };
        match () {
            // Not a number, or no number of this world: outside, as in PyTorch.
            () if !place.is_finite() => (-100.0, 0.0),
            () if place <= 0.0 => (0.0, 0.0),
            () if place >= last => (last, 0.0),
            () => (place, slope),
        }
    }
}

/// A place mirrored at both ends until it lies between them, and the derivative.
fn reflected(place: f64, low: f64, high: f64) -> (f64, f64) {
    let span = high - low;
    if span <= 0.0 {
        return (0.0, 0.0);
    }
    let (distance, slope) = if place < low { (low - place, -1.0) } else { (place - low, 1.0) };
    let (turns, rest) = ((distance / span).floor(), distance % span);
    if turns % 2.0 == 0.0 { (low + rest, slope) } else { (high - rest, -slope) }
}

/// What four neighbours count at `t` between the middle two, derived `order` times: Keys, "Cubic convolution
/// interpolation" (1981), a = -3/4.
fn keys(t: f64, order: usize) -> [f64; 4] {
    const A: f64 = -0.75;
    // Highest power first. Of the inner neighbours by the distance; of the outer ones by what the distance lacks to 2, in
    // which nothing cancels.
    let inner = [A + 2.0, -(A + 3.0), 0.0, 1.0];
    let outer = [-A, A, 0.0, 0.0];
    let derived = |c: [f64; 4]| [0.0, 3.0 * c[0], 2.0 * c[1], c[2]];
    let (inner, outer) =
        (0..order).fold((inner, outer), |(inner, outer), _| (derived(inner), derived(outer)));
    let value = |c: [f64; 4], x: f64| ((c[0] * x + c[1]) * x + c[2]) * x + c[3];
    // What is taken at 1 - t shrinks as `t` grows.
    let turned = if order.is_multiple_of(2) { 1.0 } else { -1.0 };
    [turned * value(outer, 1.0 - t), value(inner, t), turned * value(inner, 1.0 - t), value(outer, t)]
}

/// For each sample of one image its pixels, counted through all rows, and what each counts.
pub(super) fn table<N: Numeric>(
    how: &Sampling,
    grid: &[N],
    sizes: &[usize],
    to: &mut [Tap<N>],
    value: fn(N) -> f64,
) {
    let (dims, each) = (sizes.len(), how.taps_of_sample());
    fill(to, each, |range: Range<usize>, part| {
        let mut made = vec![(NOWHERE, 0.0); each];
        for (taps, point) in part.chunks_mut(each).zip(range.start / each..) {
            let at = &grid[point * dims..][..dims];
            made[0] = (0, 1.0);
            let mut count = 1;
            for (d, size) in sizes.iter().enumerate() {
                // The grid's numbers begin with the innermost dimension.
                let along = how.taps(value(at[dims - 1 - d]), *size, how.orders[d]);
                count = combine(&mut made, count, &along, *size, how.taps_along());
            }
            for (to, (place, weight)) in taps.iter_mut().zip(&made) {
                *to = (*place, N::of(Scalar::Float(*weight)));
            }
        }
    });
}

/// Puts `along` taps of one more dimension, which is inside of those before, in the place of each of the first `count`.
fn combine(made: &mut [Tap<f64>], count: usize, axis: &Taps, size: usize, along: usize) -> usize {
    // From the back, so that none is overwritten before it was read.
    for old in (0..count).rev() {
        let (place, weight) = made[old];
        for k in 0..along {
            let exists = place != NOWHERE && k < axis.count && axis.places[k] != OUTSIDE;
            // The first of the new ones may lie where the old one was, which has been read.
            made[old * along + k] = match exists {
                true => (place * size as u32 + axis.places[k] as u32, weight * axis.weights[k]),
                false => (NOWHERE, 0.0),
            };
        }
    }
    count * along
}

/// What goes through a table: pixels of a channel, samples of a channel, and which way.
pub(super) struct Pass {
    pub(super) pixels: usize,
    pub(super) points: usize,
    pub(super) each: usize,
    pub(super) transposed: bool,
}

impl Pass {
    pub(super) fn run<N: Numeric>(&self, taps: &[Tap<N>], from: &[N], to: &mut [N]) {
        // Loops over so many taps are written out.
        match self.each {
            1 => self.run_each::<N, 1>(taps, from, to),
            4 => self.run_each::<N, 4>(taps, from, to),
            8 => self.run_each::<N, 8>(taps, from, to),
            _ => self.run_each::<N, 0>(taps, from, to),
        }
    }

    /// With `EACH` taps for a sample, or, where that is 0, as many as `self` says.
    fn run_each<N: Numeric, const EACH: usize>(&self, taps: &[Tap<N>], from: &[N], to: &mut [N]) {
        let each = if EACH == 0 { self.each } else { EACH };
        if self.transposed {
            return fill(to, self.pixels, |range, part| {
                for (to, channel) in part.chunks_mut(self.pixels).zip(range.start / self.pixels..) {
                    let from = &from[channel * self.points..][..self.points];
                    for (value, taps) in from.iter().zip(taps.chunks_exact(each)) {
                        spread(*value, taps, to);
                    }
                }
            });
        }
        fill(to, self.points, |range, part| {
            for (to, channel) in part.chunks_mut(self.points).zip(range.start / self.points..) {
                let from = &from[channel * self.pixels..][..self.pixels];
                for (to, taps) in to.iter_mut().zip(taps.chunks_exact(each)) {
                    *to = gathered(taps, from);
                }
            }
        });
    }
}

/// The sum of the pixels of one sample.
#[inline(always)]
fn gathered<N: Numeric>(taps: &[Tap<N>], from: &[N]) -> N {
    let add = |sum: N, (place, weight): &Tap<N>| match from.get(*place as usize) {
        Some(pixel) => sum.plus(pixel.times(*weight)),
        // Nowhere: past the last pixel.
        None => sum,
    };
    taps.iter().fold(N::of(Scalar::Float(0.0)), add)
}

/// Adds a value to the pixels of one sample.
#[inline(always)]
fn spread<N: Numeric>(value: N, taps: &[Tap<N>], to: &mut [N]) {
    for (place, weight) in taps {
        if let Some(pixel) = to.get_mut(*place as usize) {
            *pixel = pixel.plus(value.times(*weight));
        }
    }
}
