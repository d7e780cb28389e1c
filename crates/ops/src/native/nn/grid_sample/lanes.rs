//! The sums of samples of small images with one channel in each lane, since a loop over the samples of each channel takes longer to
//! start than to run.
#![expect(unsafe_code, reason = "transposes rows of slices, and enters kernels for an instruction set")]

use super::interpolation::{NO_PIXEL, Pass, WeightedPixel};
use crate::loops::transposed::transpose;
use crate::native::element_bits::Numeric;
use crate::native::guarded_slices::fill;
use crate::scratch;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};
use flambeau_core::{Element, Scalar};

/// Channels that are computed at a time: four cache lines of f32.
const LANES: usize = 64;
/// With fewer channels than this, lanes would be idle.
const MIN_CHANNELS: usize = 16;
/// The largest number of pixels and samples of a channel of which all lanes are gathered.
const MAX_NUMEL: usize = 512;

/// Whether lanes suit images of so many channels.
pub(super) fn suit(pixels: usize, points: usize, channels: usize) -> bool {
    pixels.saturating_add(points) <= MAX_NUMEL && channels >= MIN_CHANNELS
}

/// Elements of a channel that are read and written.
fn numels(pass: &Pass) -> [usize; 2] {
    if pass.transposed { [pass.points, pass.pixels] } else { [pass.pixels, pass.points] }
}

/// What [`Pass::run`] computes, in the same order.
pub(super) fn run<N: Element + Numeric>(pass: &Pass, weights: &[WeightedPixel<N>], from: &[N], to: &mut [N]) {
    let ([read, written], size) = (numels(pass), size_of::<N>());
    let (zero, pitch) = (N::of(Scalar::Float(0.0)), LANES * size);
    fill(to, written, |range, part| {
        let (mut source, mut sums) =
            (scratch::filled(zero, read * LANES), scratch::filled(zero, written * LANES));
        let first = range.start / written;
        for (to, start) in part.chunks_mut(written * LANES).zip((first..).step_by(LANES)) {
            let count = to.len() / written;
            let channels = &from[start * read..][..count * read];
            let (row, tile) = ((read * size) as isize, source.as_mut_ptr().cast());
            // SAFETY: `count` channels, and as many lanes of a tile; the kernel has no conditions.
            unsafe {
                transpose(channels.as_ptr().cast(), row, [count, read], size, tile, pitch);
                dispatch(Strip { pass, weights, source: &source, sums: &mut sums });
                let (tile, to) = (sums.as_ptr().cast(), to.as_mut_ptr().cast());
                transpose(tile, pitch as isize, [written, count], size, to, written * size);
            }
        }
    });
}

/// The sums of [`LANES`] channels; the lanes of each element are adjacent.
struct Strip<'a, N> {
    pass: &'a Pass,
    weights: &'a [WeightedPixel<N>],
    source: &'a [N],
    sums: &'a mut [N],
}

impl<N> CodegenAnchor for Strip<'_, N> {
    type Anchor = Self;
}

impl<I: Isa, N: Numeric> Kernel<I> for Strip<'_, N> {
    #[inline(always)]
    unsafe fn run(self) {
        let Strip { pass, weights, source, sums } = self;
        sums.fill(N::of(Scalar::Float(0.0)));
        for (point, weights) in weights.chunks_exact(pass.each).enumerate() {
            for (pixel, weight) in weights {
                if *pixel == NO_PIXEL {
                    continue;
                }
                let pixel = *pixel as usize;
                let (from, to) = if pass.transposed { (point, pixel) } else { (pixel, point) };
                let (from, to) = (&source[from * LANES..][..LANES], &mut sums[to * LANES..][..LANES]);
                for lane in 0..LANES {
                    to[lane] = to[lane].plus(from[lane].times(*weight));
                }
            }
        }
    }
}
