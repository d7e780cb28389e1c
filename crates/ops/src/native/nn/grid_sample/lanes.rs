//! The sums of samples of small images with one channel in each lane, since a loop over the samples of each channel takes longer to
//! start than to run.
#![expect(unsafe_code, reason = "transposes rows of slices, and enters kernels for an instruction set")]

use super::interpolation::{NO_PIXEL, Pass, WeightedPixel};
use crate::loops::transposed::transpose;
use crate::loops::{Convert, RowOffsets};
use crate::native::element_bits::Numeric;
use crate::native::guarded_slices::fill;
use crate::scratch;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};
use bytemuck::Pod;
use flambeau_core::Scalar;

/// Channels that are computed at a time: those of a strip, four cache lines of f32.
const LANES: usize = RowOffsets::STRIP;
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

/// The channels of an image in memory, of any strides, and their conversion to the type of the sums and back.
pub(super) struct Channels<'a, B> {
    /// From the first element of the image on.
    pub(super) elements: &'a [B],
    /// How far apart channels are.
    pub(super) step: usize,
    /// The offset of each element of a channel.
    pub(super) offsets: &'a [usize],
    pub(super) convert: Option<[Convert; 2]>,
}

/// The elements of a channel that are gathered: all that the transposed sums read, and else the pixels that weights name, unless these are
/// most of adjacent ones. The weights then have their numbers in the list.
fn needed<N: Numeric>(pass: &Pass, weights: &mut [WeightedPixel<N>], is_dense: bool) -> Vec<usize> {
    let read = numels(pass)[0];
    if pass.transposed {
        return scratch::collect(0..read);
    }
    let mut numbers = scratch::filled(NO_PIXEL, read);
    for (pixel, _) in weights.iter().filter(|(pixel, _)| *pixel != NO_PIXEL) {
        numbers[*pixel as usize] = 0;
    }
    let needed = scratch::collect((0..read).filter(|pixel| numbers[*pixel] == 0));
    if is_dense && 2 * needed.len() > read {
        return scratch::collect(0..read);
    }
    needed.iter().zip(0..).for_each(|(pixel, number)| numbers[*pixel] = number);
    for (pixel, _) in weights.iter_mut().filter(|(pixel, _)| *pixel != NO_PIXEL) {
        *pixel = numbers[*pixel as usize];
    }
    needed
}

/// What [`Pass::run`] computes, in the same order, from elements in memory, of which those of `to` are contiguous.
pub(super) fn run<B: Pod + Send + Sync, N: Pod + Numeric>(
    pass: &Pass,
    weights: &mut [WeightedPixel<N>],
    from: &Channels<'_, B>,
    to: &mut [B],
) {
    let (written, size, zero) = (numels(pass)[1], size_of::<B>(), N::of(Scalar::Float(0.0)));
    let needed = needed(pass, weights, from.offsets.iter().enumerate().all(|(i, offset)| *offset == i));
    let elements = scratch::collect(needed.iter().map(|i| (from.offsets[*i] * size) as isize));
    let rows: [isize; LANES] = std::array::from_fn(|lane| (lane * from.step * size) as isize);
    let (weights, count) = (&*weights, elements.len() * LANES);
    fill(to, written, |range, part| {
        let (mut source, mut sums) = (scratch::filled(zero, count), scratch::filled(zero, written * LANES));
        let staged = if from.convert.is_some() { count.max(written * LANES) } else { 0 };
        let mut stage = scratch::filled(B::zeroed(), staged);
        let first = range.start / written;
        for (to, start) in part.chunks_mut(written * LANES).zip((first..).step_by(LANES)) {
            let rows = &rows[..to.len() / written];
            let base = from.elements.as_ptr().wrapping_add(start * from.step).cast();
            let offsets = RowOffsets { rows, elements: &elements, size };
            // SAFETY: as many channels as rows, each with the elements at these offsets, and as many lanes of the tiles, of whose types
            // the conversions are; the kernel has no conditions.
            unsafe {
                match from.convert {
                    Some([widen, _]) => {
                        offsets.gather(base, stage.as_mut_ptr().cast());
                        widen(stage.as_ptr().cast(), source.as_mut_ptr().cast(), count);
                    }
                    None => offsets.gather(base, source.as_mut_ptr().cast()),
                }
                dispatch(Strip { pass, weights, source: &source, sums: &mut sums });
                let mut tile = sums.as_ptr().cast();
                if let Some([_, narrow]) = from.convert {
                    narrow(tile, stage.as_mut_ptr().cast(), written * LANES);
                    tile = stage.as_ptr().cast();
                }
                let (pitch, shape) = ((LANES * size) as isize, [written, rows.len()]);
                transpose(tile, pitch, shape, size, to.as_mut_ptr().cast(), written * size);
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
