//! Convolutions without columns: a block of the image lies padded in cache, and products read it at the places of the kernel.
//!
//! For outputs, pixels fill the lanes and each pixel that is read serves several filters; for the gradient of the weights, filters
//! fill the lanes. Columns would copy each pixel once for each place in the kernel, which takes longer than the products where
//! filters are few, and so do the transforms of Winograd's algorithm where both kinds of channels are.
//!
//! Source of the table of places: Dukhan, "The Indirect Convolution Algorithm" (2019).
#![expect(unsafe_code, reason = "raw operands")]

mod outputs;
mod products;

use outputs::FILTERS;
pub(super) use outputs::Outputs;
pub(super) use products::Products;

use super::gradient::add_parts;
use super::padded::{Fill, Padded};
use super::product::WORTH_A_THREAD;
use super::shape::Conv;
use super::unfold::{Images, inner};
use super::weights::Weights;
use super::winograd;
use crate::gemm::{GemmElement, Isa, Scratch, Shared, StridedRows, transpose_pack};
use crate::parallel::parallel_for;
use crate::scratch;
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Element, Scalar};
use std::ops::{Add, Range};

/// Elements of a block of the padded image: with the weights it stays in the second-level cache.
const TILE: usize = 1 << 15;
/// Multiply-adds of a block: some tens of microseconds, so that threads end together.
const WORK: usize = 1 << 23;
/// Pixels of the gradient that are summed before the sum is added to those of others.
const PIXELS: usize = 512;
/// Elements of one line of cache, which a row of sums is a number of: sixteen of four bytes.
const LINE: usize = 16;

/// Whether there is one group over two dimensions, of which a few rows fit a tile.
fn is_possible(conv: &Conv) -> bool {
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    let padded = conv.padding[2].saturating_mul(2).saturating_add(conv.input[2]);
    let rows = conv.stride[1].max(conv.kernel[1].saturating_mul(conv.dilation[1]));
    let fits = conv.channels.saturating_mul(rows).saturating_mul(padded) <= TILE && conv.stride[2] <= padded;
    let is_empty = conv.images == 0 || conv.depth() == 0 || conv.filters == 0 || conv.pixels() == 0;
    is_flat && fits && !is_empty && conv.groups == 1 && conv.places() > 1
}

/// Whether the output of a convolution is made so: rows fill half of their vectors at least, and transforms do not pay.
pub(super) fn suits(conv: &Conv) -> bool {
    let (width, padded) = (conv.output[2], conv.output[2].next_multiple_of(LINE));
    is_possible(conv) && 2 * width >= padded && is_less(conv, 9 * padded / width.max(1), [120, 70])
}

/// Whether the gradient of the weights is made so: filters fill a fourth of their vectors at least, and transforms do not pay.
pub(super) fn suits_weights(conv: &Conv) -> bool {
    is_possible(conv) && 4 * conv.filters >= LINE && is_less(conv, 9, [120, 70])
}

/// Whether this takes less than tiles that are transformed do, of which each product is four of the `products` here. What it takes
/// to transform a channel's pixel is measured in products: short rows take more, since they fill no vectors.
fn is_less(conv: &Conv, products: usize, [short, long]: [usize; 2]) -> bool {
    let (transformed, both) = (conv.channels + conv.filters, conv.channels.saturating_mul(conv.filters));
    let transform = if conv.output[2] < 2 * LINE { short } else { long };
    !winograd::suits(conv) || both.saturating_mul(products - 4) <= transformed.saturating_mul(transform)
}

/// How the rows of the output are cut into blocks, by sizes alone.
struct Blocks {
    rows: usize,
    height: usize,
}

impl Blocks {
    /// At most so many rows, and no more than a tile holds.
    fn new(conv: &Conv, most: usize) -> Self {
        let row = conv.channels * conv.stride[1] * Padded::new(conv).pitch;
        let (height, most) = (conv.output[1], most.min(TILE / row).max(1));
        // Three vectors are summed together.
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

    /// The tile of a block; all have the same size, and the last may hold more than is read.
    fn tile(&self, conv: &Conv, row: usize) -> Padded {
        Padded::of_rows(conv, row..row + self.rows)
    }
}

/// Where a tile has what each place in the kernel of each channel reads for the first pixel.
fn places(conv: &Conv, tile: Padded) -> Vec<usize> {
    let [_, down, across] = conv.kernel;
    let place = |c: usize, y: usize, x: usize| {
        c * tile.len() + y * conv.dilation[1] * tile.pitch + tile.column(x * conv.dilation[2])
    };
    let rows = (0..conv.channels).flat_map(|c| (0..down).map(move |y| (c, y)));
    scratch::collect(rows.flat_map(|(c, y)| (0..across).map(move |x| place(c, y, x))))
}

/// The output of a convolution.
///
/// # Safety
/// - `x`, `w` and `bias` are readable as `conv` says, `y` writable, and nobody else writes them meanwhile.
pub(super) unsafe fn forward<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(Shared<T>, isize)>,
    y: Images<T>,
) where
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> Outputs<'c, T>: EveryIsa,
{
    let row = conv.filters * conv.depth() * conv.output[2];
    let (blocks, count) = (Blocks::new(conv, WORK / row.max(1)), conv.filters.div_ceil(FILTERS));
    let size = FILTERS * conv.depth();
    let mut panels = Scratch::new::<T>(count * size);
    let panels = Shared(panels.as_mut_ptr::<T>());
    let offsets = places(conv, blocks.tile(conv, 0));
    parallel_for(0..count, (WORTH_A_THREAD / (16 * size)).max(1), |part| {
        for panel in part {
            // SAFETY: the caller's conditions; each panel is written by one thread.
            unsafe { fill_panel(conv, w, panel * FILTERS, panels.at().add(panel * size)) }
        }
    });
    let grain = (WORTH_A_THREAD / (row * blocks.rows).max(1)).max(1);
    parallel_for(0..conv.images * blocks.per_image(), grain, |part| {
        let mut room = blocks.tile(conv, 0).room::<T>(conv.channels);
        let from = room.as_mut_ptr::<T>();
        for block in part {
            let (image, rows) = blocks.get(block);
            let tile = blocks.tile(conv, rows.start);
            let strides = inner(&y);
            let to = y.channel(image, 0).wrapping_offset(rows.start as isize * strides[1]);
            // SAFETY: the caller's conditions; the tile has room, and blocks write different rows.
            unsafe {
                tile.fill(conv, conv.channels, x.channel(image, 0), inner(&x), from);
                let (offsets, panels) = (&offsets, panels.at().cast_const());
                dispatch(Outputs { conv, tile, rows: rows.len(), from, offsets, panels, bias, to, strides });
            }
        }
    });
}

/// The weights of some filters, place by place; zeros for those past the last.
///
/// # Safety
/// - `w` is readable as `conv` says, and `to` takes a panel.
unsafe fn fill_panel<T: Element>(conv: &Conv, w: Weights<T>, first: usize, to: *mut T) {
    let places = (0..conv.channels).flat_map(|channel| (0..conv.places()).map(move |place| (channel, place)));
    for (k, (channel, place)) in places.enumerate() {
        for r in 0..FILTERS {
            // SAFETY: a weight that is there, and its place in the panel.
            unsafe {
                let value = match first + r < conv.filters {
                    true => w.get(conv, first + r, channel, place),
                    false => T::from_scalar(Scalar::Int(0)),
                };
                to.add(k * FILTERS + r).write(value);
            }
        }
    }
}

/// The gradient of the weights, contiguous.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` writable; nobody else writes them meanwhile.
/// - The rows of `gy` are even.
pub(super) unsafe fn weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, to: Shared<T>)
where
    T: GemmElement + Element + Add<Output = T>,
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> Products<'c, T>: EveryIsa,
{
    /// Parts of the sums, and elements of all.
    const PARTS: usize = 16;
    const MOST: usize = 1 << 22;
    let (depth, pitch) = (conv.depth(), conv.filters.next_multiple_of(LINE));
    let (blocks, size) = (Blocks::new(conv, PIXELS / conv.output[2]), depth * pitch);
    let all = conv.images * blocks.per_image();
    let count = all.min(PARTS).min(MOST / size).max(1);
    let mut sums = Scratch::new::<T>(count * size);
    let sums = Shared(sums.as_mut_ptr::<T>());
    let offsets = places(conv, blocks.tile(conv, 0));
    parallel_for(0..count, 1, |part| {
        let mut room = blocks.tile(conv, 0).room::<T>(conv.channels);
        let mut grads = Scratch::new::<T>(blocks.rows * conv.output[2] * pitch);
        let (from, grads) = (room.as_mut_ptr::<T>(), grads.as_mut_ptr::<T>());
        for index in part {
            let own = index * all / count..(index + 1) * all / count;
            for block in own.clone() {
                let (image, rows) = blocks.get(block);
                let tile = blocks.tile(conv, rows.start);
                // SAFETY: the caller's conditions; the scratches have room, and each part has sums of its own.
                unsafe {
                    tile.fill(conv, conv.channels, x.channel(image, 0), inner(&x), from);
                    turn_gradient(conv, &gy, image, &rows, grads, pitch);
                    let (offsets, to) = (&offsets, sums.at().add(index * size));
                    let is_first = block == own.start;
                    dispatch(Products {
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
    // SAFETY: the parts hold sums.
    unsafe { add_parts(count, size, sums) }
    parallel_for(0..conv.filters, (WORTH_A_THREAD / (8 * depth)).max(1), |filters| {
        for filter in filters {
            // SAFETY: the sums of a filter, and its weights, which one thread writes.
            let set = |k| unsafe { *to.at().add(filter * depth + k) = *sums.at().add(k * pitch + filter) };
            (0..depth).for_each(set);
        }
    });
}

/// Some rows of the output's gradient, `to[pixel][filter]`.
///
/// # Safety
/// - `gy` is readable as the output of `conv`, with even rows, and `to` has room.
unsafe fn turn_gradient<T: GemmElement>(
    conv: &Conv,
    gy: &Images<T>,
    image: usize,
    rows: &Range<usize>,
    to: *mut T,
    pitch: usize,
) {
    let width = conv.output[2];
    let lines = StridedRows {
        from: gy.pixel(image, 0, rows.start * width).cast_const(),
        rows: conv.filters,
        row_stride: gy.strides[1],
        len: rows.len() * width,
        stride: gy.strides[4],
    };
    // SAFETY: by this function's condition; wide floats are what they are summed in.
    unsafe { transpose_pack(Isa::detected(), &lines, to.cast(), pitch) }
}
