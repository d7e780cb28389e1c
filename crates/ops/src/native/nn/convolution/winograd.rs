//! Winograd's algorithm for 3x3 kernels: a tile of 2x2 output pixels takes 16 multiplications instead of 36.
//!
//! Tiles of the input (4x4 pixels, overlapping by two) and the weights are transformed. Then, for each of the 16 elements of a
//! tile, a matrix of filters by channels is multiplied by one of channels by tiles, and the products are transformed to output
//! pixels. An output pixel depends on its own window alone, but sums and differences of pixels and of weights are rounded, so the
//! error bound is that of a direct convolution whose pixels and weights all have the largest magnitude in the window. These sums
//! may also overflow where the convolution does not: functions report a result that is not finite, and the caller computes it by
//! another algorithm.
//!
//! Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), F(2x2, 3x3); the gradient of the weights
//! is its transpose.
#![expect(unsafe_code, reason = "raw operands")]

mod tile_rows;
mod transforms;

use super::im2col_gemm::{WORTH_A_THREAD, pitch};
use super::params::Conv;
use super::unfold::Images;
use super::weights::Weights;
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, SendPtr, gemm};
use crate::parallel::{num_threads, parallel_for};
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Element, Scalar};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
pub(super) use tile_rows::{GRADIENT_TILE, INPUT_TILE};
use tile_rows::{TILE_ELEMENTS, TileRows};
use transforms::EvenOddRows;
pub(super) use transforms::{OutputTransform, TileTransform, WeightGradientTransform, WeightTransform};

/// Tiles in a block: enough for efficient products, and few enough that blocks fit L2 where channels are few.
const TILES: usize = 128;
/// Tiles that fill the vectors of a product's microkernel.
const VECTOR: usize = 16;

/// With fewer tiles or channels the transforms take more time than they save: few tiles share the transformed weights.
const MIN_TILES: usize = VECTOR;
const MIN_CHANNELS: usize = 16;

/// Whether to use this algorithm: a 3x3 kernel over two dimensions, stride and dilation 1, one group, enough channels and tiles.
pub(super) fn suits(conv: &Conv) -> bool {
    let is_flat = conv.input[0] == 1 && conv.output[0] == 1 && conv.padding[0] == 0;
    let steps = conv.stride == [1; 3] && conv.dilation == [1; 3] && conv.groups == 1;
    let pads = conv.padding.iter().all(|&p| p <= 2);
    let channels = conv.channels.min(conv.filters);
    let tiles = conv.output[1].div_ceil(2).saturating_mul(conv.output[2].div_ceil(2));
    is_flat
        && conv.kernel == [1, 3, 3]
        && steps
        && pads
        && channels >= MIN_CHANNELS
        && conv.images.saturating_mul(tiles) >= MIN_TILES
}

/// How tiles are split into blocks, by sizes alone. Rows of tiles are numbered across all images, so small images share a block.
#[derive(Clone, Copy)]
struct Blocks {
    /// Rows of tiles of all images, and of one image.
    all: usize,
    down: usize,
    /// Tiles in a row.
    across: usize,
    /// Rows of tiles in one block.
    rows: usize,
}

impl Blocks {
    fn new(conv: &Conv) -> Self {
        let (down, across) = (conv.output[1].div_ceil(2), conv.output[2].div_ceil(2));
        let all = conv.images * down;
        let most = (TILES / across).clamp(1, all);
        // Blocks of whole vectors unless they would be smaller than half of the maximum; otherwise blocks of equal size.
        let whole = (most / 2 + 1..=most).rev().find(|rows| (rows * across).is_multiple_of(VECTOR));
        Blocks { all, down, across, rows: whole.unwrap_or(all.div_ceil(all.div_ceil(most))) }
    }

    fn count(&self) -> usize {
        self.all.div_ceil(self.rows)
    }

    fn get(&self, block: usize) -> Block {
        let first = block * self.rows;
        Block { rows: first..(first + self.rows).min(self.all), down: self.down, across: self.across }
    }

    /// The distance between rows of the matrices of a block.
    fn pitch(&self) -> usize {
        pitch(self.rows * self.across)
    }

    /// Whether there is a single block.
    fn is_one(&self) -> bool {
        self.count() == 1
    }
}

/// A range of rows of tiles, which may span several images.
#[derive(Clone)]
struct Block {
    rows: Range<usize>,
    down: usize,
    across: usize,
}

impl Block {
    fn tiles(&self) -> usize {
        self.rows.len() * self.across
    }

    /// The rows of each image in the block.
    fn tile_rows(&self) -> impl Iterator<Item = TileRows> {
        let Block { rows, down, across } = self.clone();
        (rows.start / down..rows.end.div_ceil(down)).map(move |image| {
            let [first, last] = [rows.start, rows.end].map(|row| row.clamp(image * down, (image + 1) * down));
            let tile = (first - rows.start) * across;
            TileRows { image, rows: [first - image * down, last - image * down], across, tile }
        })
    }
}

/// The output of a convolution, `bias + weights * x`; `false` if an element is not finite, though that of the convolution may be.
///
/// # Safety
/// - `x`, `w` and `bias` are readable as `conv` says, `y` writable, and no other thread writes them during the call.
pub(super) unsafe fn forward<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) -> bool
where
    WeightTransform<T>: EveryIsa,
    for<'p> TileTransform<'p, T, INPUT_TILE>: EveryIsa,
    OutputTransform<T>: EveryIsa<bool>,
{
    let (c, f) = (conv.channels, conv.filters);
    let blocks = Blocks::new(conv);
    if blocks.is_one() {
        // SAFETY: the caller's conditions.
        return unsafe { forward_by_filters(conv, x, w, bias, &blocks, y) };
    }
    // The distance between matrices is an odd number of cache lines, so that they do not map to the same cache sets.
    let (pitch, matrix_stride) = (blocks.pitch(), pitch(f * c));
    let mut u = Scratch::new::<T>(TILE_ELEMENTS * matrix_stride);
    let u = ElementMatrices { ptr: SendPtr(u.as_mut_ptr::<T>()), matrix_stride };
    let finite = AtomicBool::new(true);
    // SAFETY: the caller's conditions; rows of matrices, and blocks, are written by one thread each.
    unsafe {
        parallel_for(0..f, (WORTH_A_THREAD / (9 * TILE_ELEMENTS * c)).max(1), |filters| {
            from_weights(conv, w, filters.clone(), u.below(filters.start, c));
        });
        let work = TILE_ELEMENTS * f * c * pitch;
        parallel_for(0..blocks.count(), (WORTH_A_THREAD / work).max(1), |part| {
            let mut buffer = MatrixPair::new([c, f], pitch);
            let [v, m] = buffer.matrices();
            for block in part.map(|block| blocks.get(block)) {
                from_images::<T, INPUT_TILE>(conv, c, x, &block, v, pitch);
                multiply([f, block.tiles(), c], u, v, m, pitch);
                if !to_images(conv, 0..f, m, pitch, bias, &block, y) {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
    }
    finite.into_inner()
}

/// [`forward`] with a single block: threads divide the filters, and each transforms the weights of its filters just before it
/// multiplies by them.
///
/// # Safety
/// - As [`forward`].
unsafe fn forward_by_filters<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(SendPtr<T>, isize)>,
    blocks: &Blocks,
    y: Images<T>,
) -> bool
where
    WeightTransform<T>: EveryIsa,
    for<'p> TileTransform<'p, T, INPUT_TILE>: EveryIsa,
    OutputTransform<T>: EveryIsa<bool>,
{
    /// The most filters of a part: a fraction of a thread's share, so that a slower core can take fewer parts.
    const MAX_FILTERS: usize = 64;
    /// The fewest filters of a part, where there are many threads.
    const MIN_FILTERS: usize = 48;
    let (c, f, pitch, block) = (conv.channels, conv.filters, blocks.pitch(), blocks.get(0));
    let mut tiles = MatrixPair::new([c, 0], pitch);
    let [v, _] = tiles.matrices();
    let finite = AtomicBool::new(true);
    let parts = f.div_ceil(MAX_FILTERS).max(num_threads().min(f / MIN_FILTERS));
    let most = f.div_ceil(parts);
    // SAFETY: the caller's conditions; each part writes its own filters.
    unsafe {
        from_images::<T, INPUT_TILE>(conv, c, x, &block, v, pitch);
        let work = TILE_ELEMENTS * most * c * pitch;
        parallel_for(0..parts, (WORTH_A_THREAD / work).max(1), |range| {
            let (mut weights, mut products) =
                (MatrixPair::new([most, 0], c), MatrixPair::new([most, 0], pitch));
            let ([u, _], [m, _]) = (weights.matrices(), products.matrices());
            for part in range {
                let filters = part * f / parts..(part + 1) * f / parts;
                from_weights(conv, w, filters.clone(), u);
                multiply([filters.len(), block.tiles(), c], u, v, m, pitch);
                if !to_images(conv, filters, m, pitch, bias, &block, y) {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
    }
    finite.into_inner()
}

/// A matrix for each element of a tile.
#[derive(Clone, Copy)]
struct ElementMatrices<T> {
    ptr: SendPtr<T>,
    /// From one matrix to the next: an odd number of cache lines, so that they do not map to the same cache sets.
    matrix_stride: usize,
}

impl<T> ElementMatrices<T> {
    fn matrix(self, element: usize) -> *mut T {
        self.ptr.at().wrapping_add(element * self.matrix_stride)
    }

    /// The matrices without the rows before `row`; rows have `width` elements.
    fn below(self, row: usize, width: usize) -> Self {
        ElementMatrices { ptr: SendPtr(self.ptr.at().wrapping_add(row * width)), ..self }
    }
}

/// Scratch for two matrices for each element of a tile.
struct MatrixPair<T> {
    buffer: Scratch,
    matrices: [usize; 2],
    element: PhantomData<T>,
}

impl<T> MatrixPair<T> {
    fn new(rows: [usize; 2], width: usize) -> Self {
        let matrices = rows.map(|rows| pitch(rows * width));
        let buffer = Scratch::new::<T>(TILE_ELEMENTS * (matrices[0] + matrices[1]));
        MatrixPair { buffer, matrices, element: PhantomData }
    }

    fn matrices(&mut self) -> [ElementMatrices<T>; 2] {
        let [first, second] = self.matrices;
        let ptr = self.buffer.as_mut_ptr::<T>();
        let both = [(ptr, first), (ptr.wrapping_add(TILE_ELEMENTS * first), second)];
        both.map(|(ptr, matrix_stride)| ElementMatrices { ptr: SendPtr(ptr), matrix_stride })
    }
}

/// The transformed weights of some filters, `to[element][filter][channel]`.
///
/// # Safety
/// - `w` is readable as `conv` says, and `to` takes the matrices.
unsafe fn from_weights<T: Element>(conv: &Conv, w: Weights<T>, filters: Range<usize>, to: ElementMatrices<T>)
where
    WeightTransform<T>: EveryIsa,
{
    let c = conv.channels;
    for (row, filter) in filters.enumerate() {
        // SAFETY: the weights of a filter, and its row of each matrix.
        unsafe {
            let from = w.ptr.at().add(filter * w.strides[0]);
            dispatch(WeightTransform {
                from,
                step: w.strides[1],
                flipped: w.flipped,
                count: c,
                to: to.below(row, c).matrix(0),
                matrix_stride: to.matrix_stride,
            });
        }
    }
}

/// The products for all elements of a tile, of `m` by `n` elements.
///
/// # Safety
/// - The matrices hold `m` rows of `k` elements, `k` of `n` and `m` of `n`, the last two with rows `pitch` apart.
unsafe fn multiply<T: GemmElement>(
    [m, n, k]: [usize; 3],
    a: ElementMatrices<T>,
    b: ElementMatrices<T>,
    c: ElementMatrices<T>,
    pitch: usize,
) {
    let strides = [pitch as isize, 1];
    for element in 0..TILE_ELEMENTS {
        let plain = Gemm::contiguous(m, n, k, a.matrix(element), b.matrix(element), c.matrix(element));
        // SAFETY: by this function's condition.
        unsafe { gemm(Isa::detected(), &Gemm { b_strides: strides, c_strides: strides, ..plain }) };
    }
}

/// The transformed tiles of a block, `to[element][channel][tile]`: of the input (`SIDE` is 4) or of the output gradient (2).
///
/// # Safety
/// - `x` is readable, with `channels` channels and the images of the block, and `to` takes the matrices.
unsafe fn from_images<T: Element, const SIDE: usize>(
    conv: &Conv,
    channels: usize,
    x: Images<T>,
    block: &Block,
    to: ElementMatrices<T>,
    pitch: usize,
) where
    for<'p> TileTransform<'p, T, SIDE>: EveryIsa,
{
    let mut len = 0;
    let tile_rows: SmallVec<[EvenOddRows; 8]> =
        block.tile_rows().map(|tile_rows| EvenOddRows::new::<SIDE>(conv, tile_rows, &mut len)).collect();
    let grain = (WORTH_A_THREAD / (8 * TILE_ELEMENTS * block.tiles())).max(1);
    parallel_for(0..channels, grain, |channels| {
        let mut buffer = Scratch::new::<T>(len);
        for channel in channels {
            // SAFETY: the caller's conditions; channels are written by one thread each.
            unsafe {
                dispatch(TileTransform::<T, SIDE> {
                    tile_rows: &tile_rows,
                    x,
                    channel,
                    buffer: buffer.as_mut_ptr(),
                    to: to.below(channel, pitch).matrix(0),
                    matrix_stride: to.matrix_stride,
                });
            }
        }
    });
}

/// The output of some filters in a block, from the products `from[element][filter][tile]`; whether it is finite.
///
/// # Safety
/// - `from` holds the products, `bias` is readable, and `y` writable as the output of `conv`.
unsafe fn to_images<T: Element>(
    conv: &Conv,
    filters: Range<usize>,
    from: ElementMatrices<T>,
    pitch: usize,
    bias: Option<(SendPtr<T>, isize)>,
    block: &Block,
    y: Images<T>,
) -> bool
where
    OutputTransform<T>: EveryIsa<bool>,
{
    let grain = (WORTH_A_THREAD / (8 * TILE_ELEMENTS * block.tiles())).max(1);
    let finite = AtomicBool::new(true);
    parallel_for(0..filters.len(), grain, |rows| {
        for row in rows {
            let filter = filters.start + row;
            for tile_rows in block.tile_rows() {
                // SAFETY: the caller's conditions; filters are written by one thread each.
                let is_finite = unsafe {
                    let start = match bias {
                        Some((bias, step)) => *bias.at().offset(filter as isize * step),
                        None => T::from_scalar(Scalar::Int(0)),
                    };
                    dispatch(OutputTransform {
                        from: from.ptr.at().add(row * pitch + tile_rows.tile).cast_const(),
                        matrix_stride: from.matrix_stride,
                        rows: tile_rows.rows,
                        across: tile_rows.across,
                        start,
                        to: y.channel(tile_rows.image, filter),
                        strides: [y.strides[3], y.strides[4]],
                        output: [conv.output[1], conv.output[2]],
                    })
                };
                if !is_finite {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        }
    });
    finite.into_inner()
}

/// The weight gradient, contiguous; `false` if an element is not finite.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` writable, and no other thread writes them during the call.
pub(super) unsafe fn weight<T: GemmElement + Element>(
    conv: &Conv,
    gy: Images<T>,
    x: Images<T>,
    to: SendPtr<T>,
) -> bool
where
    for<'p> TileTransform<'p, T, INPUT_TILE>: EveryIsa,
    for<'p> TileTransform<'p, T, GRADIENT_TILE>: EveryIsa,
    WeightGradientTransform<T>: EveryIsa<bool>,
{
    /// Elements of all partial sums.
    const MAX_ELEMENTS: usize = 1 << 22;
    let (c, f) = (conv.channels, conv.filters);
    let (blocks, matrix_stride) = (Blocks::new(conv), pitch(f * c));
    let size = TILE_ELEMENTS * matrix_stride;
    let count = blocks.count().min(8).min(MAX_ELEMENTS / size).max(1);
    let mut sums = Scratch::new::<T>(count * size);
    let (sums, finite) = (SendPtr(sums.as_mut_ptr::<T>()), AtomicBool::new(true));
    // SAFETY: the caller's conditions; each part has sums of its own, and rows are written by one thread each.
    unsafe {
        parallel_for(0..count, 1, |parts| {
            let pitch = blocks.pitch();
            let mut buffer = MatrixPair::new([c, f], pitch);
            let [v, z] = buffer.matrices();
            for part in parts {
                let first = part * blocks.count() / count;
                for index in first..(part + 1) * blocks.count() / count {
                    let block = blocks.get(index);
                    from_images::<T, INPUT_TILE>(conv, c, x, &block, v, pitch);
                    from_images::<T, GRADIENT_TILE>(conv, f, gy, &block, z, pitch);
                    for element in 0..TILE_ELEMENTS {
                        let (a, b) = (z.matrix(element), v.matrix(element));
                        let sum = sums.at().add(part * size + element * matrix_stride);
                        let plain = Gemm::contiguous(f, c, block.tiles(), a, b, sum);
                        let product = Gemm {
                            a_strides: [pitch as isize, 1],
                            b_strides: [1, pitch as isize],
                            beta: if index == first { plain.beta } else { plain.alpha },
                            ..plain
                        };
                        gemm(Isa::detected(), &product);
                    }
                }
            }
        });
        parallel_for(0..f, (WORTH_A_THREAD / (TILE_ELEMENTS * count * c)).max(1), |filters| {
            for filter in filters {
                let from = sums.at().add(filter * c).cast_const();
                let to = to.at().add(filter * c * 9);
                if !dispatch(WeightGradientTransform {
                    from,
                    matrix_stride,
                    parts: count,
                    part: size,
                    count: c,
                    to,
                }) {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
    }
    finite.into_inner()
}
