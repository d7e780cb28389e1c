//! Images to columns (im2col) and back (col2im): a row for each channel and kernel position, a column for each output pixel.
#![expect(unsafe_code, reason = "raw operands")]

use super::params::Conv;
use super::unfold_strided::{self, Columns};
use crate::gemm::{Scratch, SendPtr};
use crate::native::strided_gather::gather;
use crate::parallel::parallel_for;
use crate::vectorized::dispatch;
use half::{bf16, f16};
use std::ops::Range;

/// Images as raw memory; strides of image, channel, plane, row and pixel.
pub(super) struct Images<T> {
    pub(super) ptr: *mut T,
    pub(super) strides: [isize; 5],
}

impl<T> Clone for Images<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Images<T> {}
// SAFETY: an address only; each access through it is justified where it is made.
unsafe impl<T: Sync> Sync for Images<T> {}

impl<T> Images<T> {
    /// The first pixel of a channel.
    pub(super) fn channel(&self, image: usize, channel: usize) -> *mut T {
        self.ptr.wrapping_offset(image as isize * self.strides[0] + channel as isize * self.strides[1])
    }

    /// The images without the channels before this one.
    pub(super) fn channels_from(&self, channel: usize) -> Self {
        Images { ptr: self.channel(0, channel), ..*self }
    }

    /// A pixel of a channel by its row-major index: pixels must be at a constant stride, see
    /// [`has_constant_pixel_stride`](Self::has_constant_pixel_stride).
    pub(super) fn pixel(&self, image: usize, channel: usize, pixel: usize) -> *mut T {
        self.channel(image, channel).wrapping_offset(pixel as isize * self.strides[4])
    }

    /// Whether all pixels of a channel of these sizes are at a constant stride, across rows and planes too.
    pub(super) fn has_constant_pixel_stride(&self, [depth, height, width]: [usize; 3]) -> bool {
        let [.., plane, row, pixel] = self.strides;
        let follows =
            |count: usize, stride: isize, inner: usize| count <= 1 || stride == pixel * inner as isize;
        follows(height, row, width) && follows(depth, plane, width * height)
    }
}

/// The strides of channels, rows and pixels of images over two dimensions.
pub(super) fn inner<T>(images: &Images<T>) -> [isize; 3] {
    [images.strides[1], images.strides[3], images.strides[4]]
}

/// Columns of one row that belong to one row of output pixels: `before` in the padding, `inside` that read the image from
/// `offset` on, and `after` in the padding.
struct Run {
    column: usize,
    before: usize,
    inside: usize,
    after: usize,
    offset: isize,
}

/// The runs of the output pixels `pixels` for one kernel position.
#[inline(always)]
fn runs(
    conv: &Conv,
    position: [usize; 3],
    pixels: &Range<usize>,
    strides: [isize; 5],
    mut f: impl FnMut(Run),
) {
    let [_, height, width] = conv.output;
    let shift = |d: usize| (position[d] * conv.dilation[d]) as isize - conv.padding[d] as isize;
    // The first output pixel that reads at or after `bound`. No overflow: `ConvParams::output_sizes` bounds the padded sizes.
    let first = |bound: isize| {
        let ahead = bound - shift(2);
        let reached = if ahead <= 0 { 0 } else { (ahead as usize - 1) / conv.stride[2] + 1 };
        reached.min(width)
    };
    let (low, high) = (first(0), first(conv.input[2] as isize));
    if pixels.is_empty() {
        return;
    }
    // Row and plane are updated incrementally: divisions take longer than a short row.
    let (row, mut x) = (pixels.start / width, pixels.start % width);
    let (mut z, mut y, mut column) = (row / height, row % height, 0);
    while column < pixels.len() {
        let count = (width - x).min(pixels.len() - column);
        let source = |d: usize, output: usize| (output * conv.stride[d]) as isize + shift(d);
        let (from_z, from_y) = (source(0, z), source(1, y));
        let outside = |d: usize, from: isize| from < 0 || from >= conv.input[d] as isize;
        let (start, end) = if outside(0, from_z) || outside(1, from_y) {
            (x + count, x + count)
        } else {
            (low.clamp(x, x + count), high.clamp(x, x + count))
        };
        let end = end.max(start);
        // Unused, and possibly out of range, where no column is inside the image: hence the wrapping arithmetic.
        let from_x = (start.wrapping_mul(conv.stride[2]) as isize).wrapping_add(shift(2));
        let row_offset = from_z.wrapping_mul(strides[2]).wrapping_add(from_y.wrapping_mul(strides[3]));
        let offset = row_offset.wrapping_add(from_x.wrapping_mul(strides[4]));
        f(Run { column, before: start - x, inside: end - start, after: x + count - end, offset });
        column += count;
        (x, y) = (0, y + 1);
        if y == height {
            (z, y) = (z + 1, 0);
        }
    }
}

/// Splits a row's index into channel and kernel position.
fn channel_and_position(conv: &Conv, row: usize) -> (usize, [usize; 3]) {
    let [depth, height, width] = conv.kernel;
    let (rest, kx) = (row / width, row % width);
    let (rest, ky) = (rest / height, rest % height);
    (rest / depth, [rest % depth, ky, kx])
}

/// Writes the columns of the output pixels `pixels` of one image and group, `to[row * pitch + column]`.
///
/// # Safety
/// - `from` is the first channel of the group in an image of `conv`, readable; `to` takes `conv.depth()` rows.
pub(super) unsafe fn unfold<T: Copy + Send + Sync>(
    conv: &Conv,
    from: *const T,
    strides: [isize; 5],
    pixels: Range<usize>,
    to: *mut T,
    pitch: usize,
) {
    let (from, to) = (SendPtr(from.cast_mut()), SendPtr(to));
    let grain = (1 << 16) / pixels.len().max(1);
    if unfold_strided::suits(conv) && !pixels.is_empty() {
        return parallel_for(0..conv.channels, (grain / conv.kernel_numel()).max(1), |channels| {
            let mut buffer = Scratch::new::<T>(unfold_strided::buffer_len(conv, &pixels));
            for channel in channels {
                // SAFETY: a channel of the input, and its rows of columns.
                unsafe {
                    dispatch(Columns {
                        conv,
                        from: from.at().wrapping_offset(channel as isize * strides[1]),
                        strides: [strides[3], strides[4]],
                        pixels: pixels.clone(),
                        buffer: buffer.as_mut_ptr(),
                        to: to.at().wrapping_add(channel * conv.kernel_numel() * pitch),
                        pitch,
                    });
                }
            }
        });
    }
    parallel_for(0..conv.depth(), grain.max(1), |rows| {
        for row in rows {
            let (channel, position) = channel_and_position(conv, row);
            let from = from.at().wrapping_offset(channel as isize * strides[1]);
            let to = to.at().wrapping_add(row * pitch);
            runs(conv, position, &pixels, strides, |run| {
                // SAFETY: the run is inside the row, and its source inside the image. Zero bytes are the number zero.
                unsafe {
                    let to = to.add(run.column);
                    // An empty `memset` takes as long as a short run.
                    if run.before > 0 {
                        to.write_bytes(0, run.before);
                    }
                    let inside = to.add(run.before);
                    gather(
                        from.wrapping_offset(run.offset),
                        // The stride of a single pixel may be any number; it is not used then.
                        (conv.stride[2] as isize).wrapping_mul(strides[4]),
                        inside,
                        run.inside,
                    );
                    if run.after > 0 {
                        inside.add(run.inside).write_bytes(0, run.after);
                    }
                }
            });
        }
    });
}

/// Addition that wraps for integers in every build profile, as sums in matrix products do.
pub(super) trait Accumulate: Copy {
    fn plus(self, other: Self) -> Self;
}

macro_rules! accumulate {
    ($plus:expr => $($t:ty)*) => {$(
        impl Accumulate for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                let plus: fn(Self, Self) -> Self = $plus;
                plus(self, other)
            }
        }
    )*};
}

accumulate!(Self::wrapping_add => u8 i8 i16 i32 i64);
accumulate!(|a, b| a + b => f16 bf16 f32 f64);

/// Adds columns to the pixels they were read from (col2im): the transpose of [`unfold`].
///
/// # Safety
/// - As [`unfold`], with `from` the columns and `to` an image that no other thread uses.
pub(super) unsafe fn fold<T: Accumulate + Send + Sync>(
    conv: &Conv,
    from: *const T,
    pitch: usize,
    pixels: Range<usize>,
    to: *mut T,
    strides: [isize; 5],
) {
    let (step, positions) = (conv.stride[2] as isize * strides[4], conv.kernel_numel());
    let (from, to) = (SendPtr(from.cast_mut()), SendPtr(to));
    let grain = (1 << 16) / (positions * pixels.len()).max(1);
    parallel_for(0..conv.channels, grain.max(1), |channels| {
        for row in channels.start * positions..channels.end * positions {
            let (channel, position) = channel_and_position(conv, row);
            let to = to.at().wrapping_offset(channel as isize * strides[1]);
            let from = from.at().cast_const().wrapping_add(row * pitch);
            runs(conv, position, &pixels, strides, |run| {
                let (to, from) = (to.wrapping_offset(run.offset), from.wrapping_add(run.column + run.before));
                for i in 0..run.inside {
                    let pixel = to.wrapping_offset(step * i as isize);
                    // SAFETY: inside the image and the row; no other thread writes this channel.
                    unsafe { *pixel = (*pixel).plus(*from.add(i)) }
                }
            });
        }
    });
}
