//! Direct convolution: a padded tile of the input stays in L2, and multiply-adds read it at each kernel position.
//!
//! For the output, lanes are pixels, and each vector of pixels is used for several filters; for the weight gradient, lanes are
//! filters. It suits convolutions of few filters, for which im2col, which copies each pixel once for each kernel position, takes
//! longer than the multiplications, and of few channels and filters, for which the transforms of Winograd's algorithm take
//! longer.
//!
//! The table of offsets follows Dukhan, "The Indirect Convolution Algorithm" (2019).
#![expect(unsafe_code, reason = "raw operands")]

mod forward;
mod weight_gradient;

use forward::FILTERS;
pub(super) use forward::ForwardBlock;
pub(super) use weight_gradient::WeightGradient;

use super::gradient::add_parts;
use super::im2col_gemm::WORTH_A_THREAD;
use super::padded_tile::{Fill, PaddedTile};
use super::params::Conv;
use super::unfold::{Images, inner};
use super::weights::Weights;
use super::winograd;
use crate::gemm::{GemmElement, Isa, Scratch, SendPtr, StridedRows, transpose_pack};
use crate::parallel::parallel_for;
use crate::scratch;
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Element, Scalar};
use std::ops::{Add, Range};

/// Elements of a padded tile: with the weights it fits L2.
const TILE: usize = 1 << 15;
/// Multiply-adds of a block: some tens of microseconds, so that threads finish at about the same time.
const WORK: usize = 1 << 23;
/// Pixels of the output gradient whose products are summed in registers before they are added to the sums in memory.
const PIXELS: usize = 512;
/// Elements of four bytes in a cache line: rows of sums are a multiple of it.
const CACHE_LINE: usize = 16;

/// Whether this algorithm can be used: one group, two dimensions, and the rows for one row of the output fit a tile.
fn is_possible(conv: &Conv) -> bool {
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    let padded = conv.padding[2].saturating_mul(2).saturating_add(conv.input[2]);
    let rows = conv.stride[1].max(conv.kernel[1].saturating_mul(conv.dilation[1]));
    let fits = conv.channels.saturating_mul(rows).saturating_mul(padded) <= TILE && conv.stride[2] <= padded;
    let is_empty = conv.images == 0 || conv.depth() == 0 || conv.filters == 0 || conv.pixels() == 0;
    is_flat && fits && !is_empty && conv.groups == 1 && conv.kernel_numel() > 1
}

/// Whether to compute the output by this algorithm: rows fill at least half of their vectors, and Winograd's algorithm is not
/// faster.
pub(super) fn suits(conv: &Conv) -> bool {
    let (width, padded) = (conv.output[2], conv.output[2].next_multiple_of(CACHE_LINE));
    is_possible(conv)
        && 2 * width >= padded
        && is_faster_than_winograd(conv, 9 * padded / width.max(1), [120, 70])
}

/// Weights that stay in L2 while they are summed.
const WEIGHTS_IN_L2: usize = 1 << 16;
/// Pixels of an image from which on the products take longer than to read and write weights that do not stay there.
const PIXELS_FOR_WEIGHTS: usize = 64;

/// Whether to compute the weight gradient by this algorithm: filters fill at least a quarter of their vectors, images have enough pixels
/// for the accesses to the weights, and Winograd's algorithm is not faster.
pub(super) fn suits_weights(conv: &Conv) -> bool {
    let amortizes = conv.filters * conv.depth() <= WEIGHTS_IN_L2 || conv.pixels() >= PIXELS_FOR_WEIGHTS;
    is_possible(conv)
        && 4 * conv.filters >= CACHE_LINE
        && amortizes
        && is_faster_than_winograd(conv, 9, [120, 70])
}

/// Whether this algorithm takes less time than Winograd's, for each pixel in units of a multiply-add. `products` are those of
/// this algorithm for one channel and filter, of which Winograd's takes four. `short` and `long` estimate the transforms of a
/// channel where rows are short, so that they fill no vectors, and where they are long.
fn is_faster_than_winograd(conv: &Conv, products: usize, [short, long]: [usize; 2]) -> bool {
    let (transformed, both) = (conv.channels + conv.filters, conv.channels.saturating_mul(conv.filters));
    let transform = if conv.output[2] < 2 * CACHE_LINE { short } else { long };
    !winograd::suits(conv) || both.saturating_mul(products - 4) <= transformed.saturating_mul(transform)
}

/// How the rows of the output are split into blocks, by sizes alone.
struct Blocks {
    rows: usize,
    height: usize,
}

impl Blocks {
    /// Blocks of at most `most` rows, and of no more than fit a tile.
    fn new(conv: &Conv, most: usize) -> Self {
        let row = conv.channels * conv.stride[1] * PaddedTile::new(conv).pitch;
        let (height, most) = (conv.output[1], most.min(TILE / row).max(1));
        // A multiple of the three vectors that are summed at a time.
        let rows = height.div_ceil(height.div_ceil(most)).next_multiple_of(3);
        Blocks { rows: rows.min(height), height }
    }

    fn per_image(&self) -> usize {
        self.height.div_ceil(self.rows)
    }

    /// The image of a block, and its rows.
    fn get(&self, block: usize) -> (usize, Range<usize>) {
        let row = block % self.per_image() * self.rows;
        (block / self.per_image(), row..(row + self.rows).min(self.height))
    }

    /// The tile of a block. All tiles have the same size; the last may hold rows that are not read.
    fn tile(&self, conv: &Conv, row: usize) -> PaddedTile {
        PaddedTile::of_rows(conv, row..row + self.rows)
    }
}

/// For each channel and kernel position, the offset in a tile of what it reads for the first pixel.
fn kernel_offsets(conv: &Conv, tile: PaddedTile) -> Vec<usize> {
    let [_, down, across] = conv.kernel;
    let offset = |c: usize, y: usize, x: usize| {
        c * tile.len() + y * conv.dilation[1] * tile.pitch + tile.column(x * conv.dilation[2])
    };
    let rows = (0..conv.channels).flat_map(|c| (0..down).map(move |y| (c, y)));
    scratch::collect(rows.flat_map(|(c, y)| (0..across).map(move |x| offset(c, y, x))))
}

/// The output of a convolution.
///
/// # Safety
/// - `x`, `w` and `bias` are readable as `conv` says, `y` writable, and no other thread writes them during the call.
pub(super) unsafe fn forward<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) where
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> ForwardBlock<'c, T>: EveryIsa,
{
    let row = conv.filters * conv.depth() * conv.output[2];
    let (blocks, count) = (Blocks::new(conv, WORK / row.max(1)), conv.filters.div_ceil(FILTERS));
    let size = FILTERS * conv.depth();
    let mut panels = Scratch::new::<T>(count * size);
    let panels = SendPtr(panels.as_mut_ptr::<T>());
    let offsets = kernel_offsets(conv, blocks.tile(conv, 0));
    parallel_for(0..count, (WORTH_A_THREAD / (16 * size)).max(1), |part| {
        for panel in part {
            // SAFETY: the caller's conditions; each panel is written by one thread.
            unsafe { fill_panel(conv, w, panel * FILTERS, panels.at().add(panel * size)) }
        }
    });
    let grain = (WORTH_A_THREAD / (row * blocks.rows).max(1)).max(1);
    parallel_for(0..conv.images * blocks.per_image(), grain, |part| {
        let mut buffer = blocks.tile(conv, 0).allocate::<T>(conv.channels);
        let from = buffer.as_mut_ptr::<T>();
        for block in part {
            let (image, rows) = blocks.get(block);
            let tile = blocks.tile(conv, rows.start);
            let strides = inner(&y);
            let to = y.channel(image, 0).wrapping_offset(rows.start as isize * strides[1]);
            // SAFETY: the caller's conditions; the buffer takes a tile, and blocks write different rows.
            unsafe {
                tile.fill(conv, conv.channels, x.channel(image, 0), inner(&x), from);
                let (offsets, panels) = (&offsets, panels.at().cast_const());
                dispatch(ForwardBlock {
                    conv,
                    tile,
                    rows: rows.len(),
                    from,
                    offsets,
                    panels,
                    bias,
                    to,
                    strides,
                });
            }
        }
    });
}

/// Packs the weights of [`FILTERS`] filters by channel and kernel position; zeros for filters past the last.
///
/// # Safety
/// - `w` is readable as `conv` says, and `to` takes a panel.
unsafe fn fill_panel<T: Element>(conv: &Conv, w: Weights<T>, first: usize, to: *mut T) {
    let positions = (0..conv.channels)
        .flat_map(|channel| (0..conv.kernel_numel()).map(move |position| (channel, position)));
    for (k, (channel, position)) in positions.enumerate() {
        for r in 0..FILTERS {
            // SAFETY: a weight of the convolution, and its element of the panel.
            unsafe {
                let value = match first + r < conv.filters {
                    true => w.get(conv, first + r, channel, position),
                    false => T::from_scalar(Scalar::Int(0)),
                };
                to.add(k * FILTERS + r).write(value);
            }
        }
    }
}

/// The weight gradient, contiguous.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` writable, and no other thread writes them during the call.
/// - `gy` has a constant pixel stride.
pub(super) unsafe fn weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, to: SendPtr<T>)
where
    T: GemmElement + Element + Add<Output = T>,
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> WeightGradient<'c, T>: EveryIsa,
{
    /// The most partial sums, and the most elements of all of them.
    const MAX_PARTS: usize = 16;
    const MAX_ELEMENTS: usize = 1 << 22;
    let (depth, pitch) = (conv.depth(), conv.filters.next_multiple_of(CACHE_LINE));
    let (blocks, size) = (Blocks::new(conv, PIXELS / conv.output[2]), depth * pitch);
    let all = conv.images * blocks.per_image();
    let count = all.min(MAX_PARTS).min(MAX_ELEMENTS / size).max(1);
    let mut sums = Scratch::new::<T>(count * size);
    let sums = SendPtr(sums.as_mut_ptr::<T>());
    let offsets = kernel_offsets(conv, blocks.tile(conv, 0));
    parallel_for(0..count, 1, |part| {
        let mut buffer = blocks.tile(conv, 0).allocate::<T>(conv.channels);
        let mut grads = Scratch::new::<T>(blocks.rows * conv.output[2] * pitch);
        let (from, grads) = (buffer.as_mut_ptr::<T>(), grads.as_mut_ptr::<T>());
        for index in part {
            let own = index * all / count..(index + 1) * all / count;
            for block in own.clone() {
                let (image, rows) = blocks.get(block);
                let tile = blocks.tile(conv, rows.start);
                // SAFETY: the caller's conditions; the buffers take a tile and its gradients, and each part has sums of its own.
                unsafe {
                    tile.fill(conv, conv.channels, x.channel(image, 0), inner(&x), from);
                    transpose_gradient(conv, &gy, image, &rows, grads, pitch);
                    let (offsets, to) = (&offsets, sums.at().add(index * size));
                    let is_first = block == own.start;
                    dispatch(WeightGradient {
                        conv,
                        tile,
                        rows: rows.len(),
                        from,
                        offsets,
                        grads,
                        to,
                        pitch,
                        is_first,
                    });
                }
            }
        }
    });
    // SAFETY: every part has been summed.
    unsafe { add_parts(count, size, sums) }
    parallel_for(0..conv.filters, (WORTH_A_THREAD / (8 * depth)).max(1), |filters| {
        for filter in filters {
            // SAFETY: the sums of a filter, and its weights, which one thread writes.
            let set = |k| unsafe { *to.at().add(filter * depth + k) = *sums.at().add(k * pitch + filter) };
            (0..depth).for_each(set);
        }
    });
}

/// Some rows of the output gradient, transposed: `to[pixel][filter]`.
///
/// # Safety
/// - `gy` is readable as the output of `conv`, with a constant pixel stride, and `to` takes a row of `pitch` for each pixel.
unsafe fn transpose_gradient<T: GemmElement>(
    conv: &Conv,
    gy: &Images<T>,
    image: usize,
    rows: &Range<usize>,
    to: *mut T,
    pitch: usize,
) {
    let width = conv.output[2];
    let source = StridedRows {
        from: gy.pixel(image, 0, rows.start * width).cast_const(),
        rows: conv.filters,
        row_stride: gy.strides[1],
        len: rows.len() * width,
        stride: gy.strides[4],
    };
    // SAFETY: by this function's condition; `T` is f32 or f64, which accumulates in its own type.
    unsafe { transpose_pack(Isa::detected(), &source, to.cast(), pitch) }
}
