//! Convolutions with kernels of three by three places by Winograd's algorithm: each tile of two by two output pixels takes sixteen
//! products where it would take thirty-six.
//!
//! Tiles of the input (four by four pixels, two apart) and the weights are transformed; what is multiplied then are sixteen
//! matrices, one for each place in a tile: weights by channels, channels by tiles. An output pixel depends on its own window alone,
//! but sums and differences of that window are rounded on the way: the error is that of a direct convolution for the largest
//! pixels and weights of the window. Where a result is not finite, which may be so on the way only, the caller computes it
//! directly.
//!
//! Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), F(2x2, 3x3); the gradient of the weights is
//! its transpose.
#![expect(unsafe_code, reason = "raw operands")]

mod piece;
mod transforms;

use super::product::{WORTH_A_THREAD, pitch};
use super::shape::Conv;
use super::unfold::Images;
use super::weights::Weights;
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, Shared, gemm};
use crate::parallel::{num_threads, parallel_for};
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Element, Scalar};
pub(super) use piece::{GRADIENT, INPUT};
use piece::{PLACES, Piece};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use transforms::Halves;
pub(super) use transforms::{FromPixels, FromWeights, ToOutput, ToWeights};

/// Tiles in a block: enough for the products, and few enough for the second-level cache where channels are few.
const TILES: usize = 128;
/// Tiles that fill the vectors of a product.
const VECTOR: usize = 16;

/// Tiles and channels from which on the transforms pay: those of the weights too, which few tiles share.
const LEAST_TILES: usize = VECTOR;
const LEAST_CHANNELS: usize = 16;

/// Whether a convolution is done so: three by three places one apart, over two dimensions, of many channels and tiles.
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
        && channels >= LEAST_CHANNELS
        && conv.images.saturating_mul(tiles) >= LEAST_TILES
}

/// How tiles are cut into blocks: by sizes alone. Rows of tiles are counted through all images, so small images share a block.
#[derive(Clone, Copy)]
struct Blocks {
    /// Rows of tiles of all images, and of one.
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
        // Whole vectors if that takes no small blocks, else equal ones.
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

    /// One block is all.
    fn is_one(&self) -> bool {
        self.count() == 1
    }
}

/// Some rows of tiles, of one image after another.
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

    /// What it has of each image.
    fn pieces(&self) -> impl Iterator<Item = Piece> {
        let Block { rows, down, across } = self.clone();
        (rows.start / down..rows.end.div_ceil(down)).map(move |image| {
            let [first, last] = [rows.start, rows.end].map(|row| row.clamp(image * down, (image + 1) * down));
            let tile = (first - rows.start) * across;
            Piece { image, rows: [first - image * down, last - image * down], across, tile }
        })
    }
}

/// The output of a convolution, `bias + weights * x`; `false` if an element is not finite, which it may be on the way only.
///
/// # Safety
/// - `x`, `w` and `bias` are readable as `conv` says, `y` writable, and nobody else writes them meanwhile.
pub(super) unsafe fn forward<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(Shared<T>, isize)>,
    y: Images<T>,
) -> bool
where
    FromWeights<T>: EveryIsa,
    for<'p> FromPixels<'p, T, INPUT>: EveryIsa,
    ToOutput<T>: EveryIsa<bool>,
{
    let (c, f) = (conv.channels, conv.filters);
    let blocks = Blocks::new(conv);
    if blocks.is_one() {
        // SAFETY: the caller's conditions.
        return unsafe { forward_by_filters(conv, x, w, bias, &blocks, y) };
    }
    // The distance between places: an odd number of lines, so that they do not compete for the same sets.
    let (pitch, plane) = (blocks.pitch(), pitch(f * c));
    let mut u = Scratch::new::<T>(PLACES * plane);
    let u = Planes { at: Shared(u.as_mut_ptr::<T>()), plane };
    let finite = AtomicBool::new(true);
    // SAFETY: the caller's conditions; rows of matrices, and blocks, are written by one thread each.
    unsafe {
        parallel_for(0..f, (WORTH_A_THREAD / (9 * PLACES * c)).max(1), |filters| {
            from_weights(conv, w, filters.clone(), u.below(filters.start, c));
        });
        let work = PLACES * f * c * pitch;
        parallel_for(0..blocks.count(), (WORTH_A_THREAD / work).max(1), |part| {
            let mut room = Matrices::new([c, f], pitch);
            let [v, m] = room.planes();
            for block in part.map(|block| blocks.get(block)) {
                from_images::<T, INPUT>(conv, c, x, &block, v, pitch);
                multiply([f, block.tiles(), c], u, v, m, pitch);
                if !to_images(conv, 0..f, m, pitch, bias, &block, y) {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
    }
    finite.into_inner()
}

/// The same where one block is all: threads share the filters, and each transforms the weights of some just before it uses them.
///
/// # Safety
/// - As [`forward`].
unsafe fn forward_by_filters<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(Shared<T>, isize)>,
    blocks: &Blocks,
    y: Images<T>,
) -> bool
where
    FromWeights<T>: EveryIsa,
    for<'p> FromPixels<'p, T, INPUT>: EveryIsa,
    ToOutput<T>: EveryIsa<bool>,
{
    /// Filters of a part at most: a fraction of a thread's share, so that one on a slower core takes fewer.
    const MOST: usize = 64;
    /// And at least, where threads are many.
    const LEAST: usize = 48;
    let (c, f, pitch, block) = (conv.channels, conv.filters, blocks.pitch(), blocks.get(0));
    let mut tiles = Matrices::new([c, 0], pitch);
    let [v, _] = tiles.planes();
    let finite = AtomicBool::new(true);
    let parts = f.div_ceil(MOST).max(num_threads().min(f / LEAST));
    let most = f.div_ceil(parts);
    // SAFETY: the caller's conditions; each part writes its own filters.
    unsafe {
        from_images::<T, INPUT>(conv, c, x, &block, v, pitch);
        let work = PLACES * most * c * pitch;
        parallel_for(0..parts, (WORTH_A_THREAD / work).max(1), |range| {
            let (mut weights, mut products) = (Matrices::new([most, 0], c), Matrices::new([most, 0], pitch));
            let ([u, _], [m, _]) = (weights.planes(), products.planes());
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

/// A matrix for each place.
#[derive(Clone, Copy)]
struct Planes<T> {
    at: Shared<T>,
    /// From one place to the next: an odd number of lines, so that places do not compete for the same sets.
    plane: usize,
}

impl<T> Planes<T> {
    fn place(self, place: usize) -> *mut T {
        self.at.at().wrapping_add(place * self.plane)
    }

    /// From this row on, of rows of `width` elements.
    fn below(self, row: usize, width: usize) -> Self {
        Planes { at: Shared(self.at.at().wrapping_add(row * width)), ..self }
    }
}

/// Room for two matrices of each place, of so many rows.
struct Matrices<T> {
    room: Scratch,
    planes: [usize; 2],
    element: PhantomData<T>,
}

impl<T> Matrices<T> {
    fn new(rows: [usize; 2], width: usize) -> Self {
        let planes = rows.map(|rows| pitch(rows * width));
        let room = Scratch::new::<T>(PLACES * (planes[0] + planes[1]));
        Matrices { room, planes, element: PhantomData }
    }

    fn planes(&mut self) -> [Planes<T>; 2] {
        let [first, second] = self.planes;
        let at = self.room.as_mut_ptr::<T>();
        let both = [(at, first), (at.wrapping_add(PLACES * first), second)];
        both.map(|(at, plane)| Planes { at: Shared(at), plane })
    }
}

/// The transformed weights of some filters, `to[place][filter][channel]`.
///
/// # Safety
/// - `w` is readable as `conv` says, and `to` has room.
unsafe fn from_weights<T: Element>(conv: &Conv, w: Weights<T>, filters: Range<usize>, to: Planes<T>)
where
    FromWeights<T>: EveryIsa,
{
    let c = conv.channels;
    for (row, filter) in filters.enumerate() {
        // SAFETY: the weights of a filter, and its row of each matrix.
        unsafe {
            let from = w.at.at().add(filter * w.strides[0]);
            dispatch(FromWeights {
                from,
                step: w.strides[1],
                turned: w.turned,
                count: c,
                to: to.below(row, c).place(0),
                plane: to.plane,
            });
        }
    }
}

/// The products of all places, of `m` by `n` elements.
///
/// # Safety
/// - The matrices hold `m` rows of `k` elements, `k` of `n` and `m` of `n`, the last two with rows `pitch` apart.
unsafe fn multiply<T: GemmElement>(
    [m, n, k]: [usize; 3],
    a: Planes<T>,
    b: Planes<T>,
    c: Planes<T>,
    pitch: usize,
) {
    let strides = [pitch as isize, 1];
    for place in 0..PLACES {
        let plain = Gemm::contiguous(m, n, k, a.place(place), b.place(place), c.place(place));
        // SAFETY: by this function's condition.
        unsafe { gemm(Isa::detected(), &Gemm { b_strides: strides, c_strides: strides, ..plain }) };
    }
}

/// The transformed tiles of a block, `to[place][channel][tile]`: of the input by four pixels each way, or of the output's gradient
/// by two.
///
/// # Safety
/// - `x` is readable, with so many channels and images as the block is of, and `to` has room.
unsafe fn from_images<T: Element, const SIDE: usize>(
    conv: &Conv,
    channels: usize,
    x: Images<T>,
    block: &Block,
    to: Planes<T>,
    pitch: usize,
) where
    for<'p> FromPixels<'p, T, SIDE>: EveryIsa,
{
    let mut len = 0;
    let pieces: SmallVec<[Halves; 8]> =
        block.pieces().map(|piece| Halves::new::<SIDE>(conv, piece, &mut len)).collect();
    let grain = (WORTH_A_THREAD / (8 * PLACES * block.tiles())).max(1);
    parallel_for(0..channels, grain, |channels| {
        let mut room = Scratch::new::<T>(len);
        for channel in channels {
            // SAFETY: the caller's conditions; channels are written by one thread each.
            unsafe {
                dispatch(FromPixels::<T, SIDE> {
                    pieces: &pieces,
                    x,
                    channel,
                    room: room.as_mut_ptr(),
                    to: to.below(channel, pitch).place(0),
                    plane: to.plane,
                });
            }
        }
    });
}

/// The output of some filters in a block, from `from[place][filter][tile]`; whether it is finite.
///
/// # Safety
/// - `from` holds the products, `bias` is readable, and `y` writable as the output of `conv`.
unsafe fn to_images<T: Element>(
    conv: &Conv,
    filters: Range<usize>,
    from: Planes<T>,
    pitch: usize,
    bias: Option<(Shared<T>, isize)>,
    block: &Block,
    y: Images<T>,
) -> bool
where
    ToOutput<T>: EveryIsa<bool>,
{
    let grain = (WORTH_A_THREAD / (8 * PLACES * block.tiles())).max(1);
    let finite = AtomicBool::new(true);
    parallel_for(0..filters.len(), grain, |rows| {
        for row in rows {
            let filter = filters.start + row;
            for piece in block.pieces() {
                // SAFETY: the caller's conditions; filters are written by one thread each.
                let is_finite = unsafe {
                    let start = match bias {
                        Some((bias, step)) => *bias.at().offset(filter as isize * step),
                        None => T::from_scalar(Scalar::Int(0)),
                    };
                    dispatch(ToOutput {
                        from: from.at.at().add(row * pitch + piece.tile).cast_const(),
                        plane: from.plane,
                        rows: piece.rows,
                        across: piece.across,
                        start,
                        to: y.channel(piece.image, filter),
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

/// The gradient of the weights, contiguous; `false` if an element is not finite.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` writable; nobody else writes them meanwhile.
pub(super) unsafe fn weight<T: GemmElement + Element>(
    conv: &Conv,
    gy: Images<T>,
    x: Images<T>,
    to: Shared<T>,
) -> bool
where
    for<'p> FromPixels<'p, T, INPUT>: EveryIsa,
    for<'p> FromPixels<'p, T, GRADIENT>: EveryIsa,
    ToWeights<T>: EveryIsa<bool>,
{
    /// Elements of all parts.
    const MOST: usize = 1 << 22;
    let (c, f) = (conv.channels, conv.filters);
    let (blocks, plane) = (Blocks::new(conv), pitch(f * c));
    let size = PLACES * plane;
    let count = blocks.count().min(8).min(MOST / size).max(1);
    let mut sums = Scratch::new::<T>(count * size);
    let (sums, finite) = (Shared(sums.as_mut_ptr::<T>()), AtomicBool::new(true));
    // SAFETY: the caller's conditions; parts have room of their own, and rows are written by one thread each.
    unsafe {
        parallel_for(0..count, 1, |parts| {
            let pitch = blocks.pitch();
            let mut room = Matrices::new([c, f], pitch);
            let [v, z] = room.planes();
            for part in parts {
                let first = part * blocks.count() / count;
                for index in first..(part + 1) * blocks.count() / count {
                    let block = blocks.get(index);
                    from_images::<T, INPUT>(conv, c, x, &block, v, pitch);
                    from_images::<T, GRADIENT>(conv, f, gy, &block, z, pitch);
                    for place in 0..PLACES {
                        let (a, b) = (z.place(place), v.place(place));
                        let sum = sums.at().add(part * size + place * plane);
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
        parallel_for(0..f, (WORTH_A_THREAD / (PLACES * count * c)).max(1), |filters| {
            for filter in filters {
                let from = sums.at().add(filter * c).cast_const();
                let to = to.at().add(filter * c * 9);
                if !dispatch(ToWeights { from, plane, parts: count, part: size, count: c, to }) {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
    }
    finite.into_inner()
}
