//! The transforms of tiles, weights and gradients and their inverses: sums and differences, of a vector of tiles or channels at a
//! time.
#![expect(unsafe_code, reason = "raw operands")]
#![expect(
    clippy::needless_range_loop,
    reason = "iterators are not inlined into the shims reliably; plain loops are"
)]

use super::super::deinterleave::split;
use super::super::padded_tile::PREFETCH_DISTANCE;
use super::super::params::Conv;
use super::super::unfold::Images;
use super::tile_rows::{GRADIENT_TILE, INPUT_TILE, TILE_ELEMENTS, TileRows};
use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Mask, Number, Vector};
use flambeau_core::{Element, Scalar};
use std::mem::MaybeUninit;

/// A copy of the padded rows of an image that some rows of tiles read. The even pixels of a row precede its odd pixels, so that
/// the same pixel of neighbouring tiles, two apart in the image, is adjacent.
#[derive(Clone, Copy)]
pub(in super::super) struct EvenOddRows {
    tile_rows: TileRows,
    /// Their offset in the buffer of the block.
    buffer: usize,
    /// Rows, and the position of the first row and pixel in the image; negative in the padding.
    rows: usize,
    first: [isize; 2],
    /// Sizes of the image.
    image: [usize; 2],
    /// Elements of a half.
    half: usize,
}

impl EvenOddRows {
    /// Of tiles of `SIDE` by `SIDE` pixels, at offset `*buffer`, which is advanced past them.
    pub(super) fn new<const SIDE: usize>(conv: &Conv, tile_rows: TileRows, buffer: &mut usize) -> Self {
        // Pixels by which neighbouring tiles overlap.
        let more = SIDE - 2;
        let (sizes, padding) =
            if SIDE == INPUT_TILE { (conv.input, conv.padding) } else { (conv.output, [0; 3]) };
        let [first, end] = tile_rows.rows;
        let halves = EvenOddRows {
            tile_rows,
            buffer: *buffer,
            rows: 2 * (end - first) + more,
            first: [2 * first as isize - padding[1] as isize, -(padding[2] as isize)],
            image: [sizes[1], sizes[2]],
            half: tile_rows.across + more / 2,
        };
        *buffer += halves.rows * 2 * halves.half;
        halves
    }

    /// Prefetches the rows of the image at `from`: they are too short for the hardware prefetcher to follow.
    #[inline(always)]
    fn prefetch<I: Isa, T>(self, from: *const T, [row, pixel]: [isize; 2]) {
        /// Elements of four bytes in a cache line.
        const CACHE_LINE: usize = 16;
        for r in 0..self.rows as isize {
            for x in (0..self.image[1]).step_by(CACHE_LINE) {
                I::prefetch(from.wrapping_offset((self.first[0] + r) * row + x as isize * pixel).cast());
            }
        }
    }

    /// The offset of the even (`odd` is 0) or odd (1) pixels of a row.
    #[inline(always)]
    fn offset_of(self, row: usize, odd: usize) -> usize {
        (row * 2 + odd) * self.half
    }

    /// # Safety
    /// - `from` is the first pixel of an image of these sizes, readable; `to` takes the elements of all rows.
    #[inline(always)]
    unsafe fn fill<T: Element>(self, from: *const T, [row, pixel]: [isize; 2], to: *mut T) {
        let zero = T::from_scalar(Scalar::Int(0));
        let [height, width] = self.image.map(|size| size as isize);
        // Pairs of which both pixels are in the image.
        let start = self.first[1];
        let low = ((1 - start) / 2).clamp(0, self.half as isize);
        let high = ((width - start) / 2).clamp(low, self.half as isize);
        for r in 0..self.rows {
            let y = self.first[0] + r as isize;
            // SAFETY: writes are inside the rows, reads inside the image.
            unsafe {
                let (even, odd) = (to.add(self.offset_of(r, 0)), to.add(self.offset_of(r, 1)));
                if y < 0 || y >= height {
                    for i in 0..2 * self.half {
                        even.add(i).write(zero);
                    }
                    continue;
                }
                let from = from.wrapping_offset(y * row);
                for pair in 0..low {
                    even.offset(pair).write(pixel_or_zero(from, start + 2 * pair, width, pixel));
                    odd.offset(pair).write(pixel_or_zero(from, start + 2 * pair + 1, width, pixel));
                }
                let inside = from.wrapping_offset((start + 2 * low) * pixel);
                split(inside, pixel, even.offset(low), odd.offset(low), (high - low) as usize);
                for pair in high..self.half as isize {
                    even.offset(pair).write(pixel_or_zero(from, start + 2 * pair, width, pixel));
                    odd.offset(pair).write(pixel_or_zero(from, start + 2 * pair + 1, width, pixel));
                }
            }
        }
    }
}

/// # Safety
/// - `from` is a row of `width` readable pixels, `step` apart.
#[inline(always)]
unsafe fn pixel_or_zero<T: Element>(from: *const T, x: isize, width: isize, step: isize) -> T {
    // SAFETY: by this function's condition.
    if x < 0 || x >= width { T::from_scalar(Scalar::Int(0)) } else { unsafe { *from.offset(x * step) } }
}

/// The inverse of [`split`]: interleaves even and odd pixels.
///
/// # Safety
/// - `to` takes `2 * count` pixels, `step` apart; the others have `count`.
#[inline(always)]
unsafe fn join<T: Copy>(even: *const T, odd: *const T, to: *mut T, step: isize, count: usize) {
    let mut i = 0;
    // SAFETY: by this function's condition.
    unsafe {
        if step == 1 && size_of::<T>() == 4 && cfg!(target_endian = "little") {
            let (even, odd, pairs) = (even.cast::<u32>(), odd.cast::<u32>(), to.cast::<u64>());
            while i + 8 <= count {
                join_pairs::<8>(even.add(i), odd.add(i), pairs.add(i));
                i += 8;
            }
            while i + 2 <= count {
                join_pairs::<2>(even.add(i), odd.add(i), pairs.add(i));
                i += 2;
            }
        }
        while i < count {
            *to.offset(2 * i as isize * step) = even.add(i).read();
            *to.offset((2 * i + 1) as isize * step) = odd.add(i).read();
            i += 1;
        }
    }
}

/// # Safety
/// - `to` takes `N` elements, and the others have as many.
#[inline(always)]
unsafe fn join_pairs<const N: usize>(even: *const u32, odd: *const u32, to: *mut u64) {
    let mut pairs = [0; N];
    // SAFETY: by this function's condition.
    unsafe {
        let (low, high) = (even.cast::<[u32; N]>().read_unaligned(), odd.cast::<[u32; N]>().read_unaligned());
        for k in 0..N {
            pairs[k] = u64::from(low[k]) | u64::from(high[k]) << 32;
        }
        to.cast::<[u64; N]>().write_unaligned(pairs);
    }
}

/// `N` vectors of `count` elements, `step` apart.
///
/// # Safety
/// - They are readable, and `count` is at most the number of lanes.
#[inline(always)]
unsafe fn load<I: Isa, T: FloatLanes<I>, const N: usize>(
    from: *const T,
    step: usize,
    count: usize,
) -> [T::Vector; N] {
    let mut loaded = [T::Vector::zero(); N];
    for (i, vector) in loaded.iter_mut().enumerate() {
        // SAFETY: by this function's condition.
        *vector = unsafe { T::load_up_to(from.add(i * step), count) };
    }
    loaded
}

/// `B' d`: a column of a tile of the input.
#[inline(always)]
fn transform_input<V: Float>([a, b, c, d]: [V; 4]) -> [V; 4] {
    [a - c, b + c, c - b, b - d]
}

/// `A d`: a column of a tile of the output gradient.
#[inline(always)]
fn transform_gradient<V: Float>([a, b]: [V; 2]) -> [V; 4] {
    [a, a + b, a - b, -b]
}

/// `A' m`: a column of the products.
#[inline(always)]
fn transform_output<V: Float>([a, b, c, d]: [V; 4]) -> [V; 2] {
    [a + b + c, b - c - d]
}

/// `G g`: a column of a kernel.
#[inline(always)]
fn transform_weights<V: Float>([a, b, c]: [V; 3]) -> [V; 4] {
    let (half, ends) = (V::constant(0.5), a + c);
    [a, (ends + b) * half, (ends - b) * half, c]
}

/// `G' u`: a column of the gradient of transformed weights.
#[inline(always)]
fn transform_weight_gradient<V: Float>([a, b, c, d]: [V; 4]) -> [V; 3] {
    let half = V::constant(0.5);
    let sum = (b + c) * half;
    [a + sum, (b - c) * half, sum + d]
}

/// The transform of a column of a tile, of the input or of the output gradient.
#[inline(always)]
fn transform_pixels<V: Float, const SIDE: usize>(column: [V; SIDE]) -> [V; 4] {
    const {
        assert!(
            SIDE == INPUT_TILE || SIDE == GRADIENT_TILE,
            "tiles are of the input or of the output gradient"
        )
    };
    let ([a, b], [c, d]) = ([column[0], column[1]], [column[SIDE - 2], column[SIDE - 1]]);
    if SIDE == INPUT_TILE { transform_input([a, b, c, d]) } else { transform_gradient([a, b]) }
}

/// Transforms the tiles of one channel of a block, of `SIDE` by `SIDE` pixels.
pub(in super::super) struct TileTransform<'p, T, const SIDE: usize> {
    pub(super) tile_rows: &'p [EvenOddRows],
    pub(super) x: Images<T>,
    pub(super) channel: usize,
    pub(super) buffer: *mut T,
    /// The first tile in the first matrix, and the distance between matrices.
    pub(super) to: *mut T,
    pub(super) matrix_stride: usize,
}

impl<T, const SIDE: usize> CodegenAnchor for TileTransform<'_, T, SIDE> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element, const SIDE: usize> Kernel<I> for TileTransform<'_, T, SIDE> {
    #[inline(always)]
    unsafe fn run(self) {
        let TileTransform { tile_rows, x, channel, buffer, to, matrix_stride } = self;
        let strides = [x.strides[3], x.strides[4]];
        // SAFETY: the caller's pointers; halves do not overlap. All are filled before the first is read: a wide load of what
        // narrow stores have just written would fail store forwarding, and stall.
        unsafe {
            for halves in tile_rows {
                let from = x.channel(halves.tile_rows.image, channel);
                halves.prefetch::<I, T>(from.wrapping_offset(x.strides[1]), strides);
                halves.fill(from, strides, buffer.add(halves.buffer));
            }
            for halves in tile_rows {
                let to = to.add(halves.tile_rows.tile);
                from_halves::<I, T, SIDE>(halves, buffer.add(halves.buffer), to, matrix_stride);
            }
        }
    }
}

/// The transformed tiles of some rows of tiles of one image.
///
/// # Safety
/// - `from` holds the even and odd rows, and `to` takes the tiles in each matrix.
#[inline(always)]
unsafe fn from_halves<I: Isa, T: FloatLanes<I> + Element, const SIDE: usize>(
    halves: &EvenOddRows,
    from: *const T,
    to: *mut T,
    matrix_stride: usize,
) {
    let (TileRows { rows: [first, end], across, .. }, half) = (halves.tile_rows, halves.half);
    for y in 0..end - first {
        let mut x = 0;
        while x < across {
            let count = T::Vector::LANES.min(across - x);
            // SAFETY: tiles `x..x + count` of a row are in the halves and in the result.
            unsafe {
                let from = from.add(halves.offset_of(2 * y, 0) + x);
                let mut columns = [[T::Vector::zero(); 4]; SIDE];
                for (j, column) in columns.iter_mut().enumerate() {
                    let pixels = load::<I, T, SIDE>(from.add(j % 2 * half + j / 2), 2 * half, count);
                    *column = transform_pixels(pixels);
                }
                let to = to.add(y * across + x);
                for i in 0..4 {
                    let mut row = [T::Vector::zero(); SIDE];
                    for (element, column) in row.iter_mut().zip(&columns) {
                        *element = column[i];
                    }
                    let row = transform_pixels(row);
                    for j in 0..4 {
                        T::store_up_to(row[j], to.add((4 * i + j) * matrix_stride), count);
                    }
                }
            }
            x += count;
        }
    }
}

/// Transforms the products of one filter in a block to output pixels; whether these are finite.
pub(in super::super) struct OutputTransform<T> {
    pub(super) from: *const T,
    pub(super) matrix_stride: usize,
    /// First row of tiles and one past the last, and the tiles in a row.
    pub(super) rows: [usize; 2],
    pub(super) across: usize,
    /// What is added to all.
    pub(super) start: T,
    pub(super) to: *mut T,
    pub(super) strides: [isize; 2],
    pub(super) output: [usize; 2],
}

impl<T> CodegenAnchor for OutputTransform<T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I, bool> for OutputTransform<T> {
    #[inline(always)]
    unsafe fn run(self) -> bool {
        let OutputTransform { from, matrix_stride, rows: [first, end], across, start, to, strides, output } =
            self;
        let start = T::Vector::splat(start.widen());
        let mut finite = T::Vector::zero();
        let mut halves = [[MaybeUninit::<u64>::uninit(); 64]; 4];
        let (tiles, mut tile, mut x, mut y) = ((end - first) * across, 0, 0, first);
        // Tiles are numbered across rows: a vector may hold tiles of several short rows.
        while tile < tiles {
            let count = T::Vector::LANES.min(tiles - tile);
            // SAFETY: the caller's pointers, which have `count` tiles from `at` on.
            unsafe {
                let from = from.add(tile);
                let a = transform_output(load::<I, T, 4>(from, 4 * matrix_stride, count));
                let b = transform_output(load::<I, T, 4>(from.add(matrix_stride), 4 * matrix_stride, count));
                let c =
                    transform_output(load::<I, T, 4>(from.add(2 * matrix_stride), 4 * matrix_stride, count));
                let d =
                    transform_output(load::<I, T, 4>(from.add(3 * matrix_stride), 4 * matrix_stride, count));
                for i in 0..2 {
                    let [even, odd] = transform_output([a[i], b[i], c[i], d[i]]);
                    let (even, odd) = (even + start, odd + start);
                    finite = finite + (even + odd) * T::Vector::zero();
                    T::store(even, halves[2 * i].as_mut_ptr().cast());
                    T::store(odd, halves[2 * i + 1].as_mut_ptr().cast());
                }
            }
            let mut done = 0;
            while done < count {
                let n = (across - x).min(count - done);
                let pixels = (2 * n).min(output[1] - 2 * x);
                for i in 0..(output[0] - 2 * y).min(2) {
                    // SAFETY: `n` tiles of a row, and those of their pixels that are inside the output.
                    unsafe {
                        let half = |h: usize| halves[h].as_ptr().cast::<T>().add(done);
                        let to = to.offset((2 * y + i) as isize * strides[0] + 2 * x as isize * strides[1]);
                        I::prefetch(to.cast::<u8>().wrapping_add(PREFETCH_DISTANCE));
                        interleave(half(2 * i), half(2 * i + 1), to, strides[1], pixels);
                    }
                }
                (done, x) = (done + n, x + n);
                if x == across {
                    (x, y) = (0, y + 1);
                }
            }
            tile += count;
        }
        finite.eq(T::Vector::zero()).all()
    }
}

/// Interleaves even and odd pixels to `count` pixels; an odd count ends with an even pixel.
///
/// # Safety
/// - `to` is valid for writing `count` elements, `step` apart; the halves hold as many.
#[inline(always)]
unsafe fn interleave<T: Copy>(even: *const T, odd: *const T, to: *mut T, step: isize, count: usize) {
    // SAFETY: by this function's condition.
    unsafe {
        join(even, odd, to, step, count / 2);
        if count % 2 == 1 {
            to.offset((count - 1) as isize * step).write(even.add(count / 2).read());
        }
    }
}

/// Transposes quads: element `k` of each goes to column `k`.
#[inline(always)]
fn quads_to_columns<T: Copy, const N: usize>(quads: &[[T; 4]; N], [a, b, c, d]: [&mut [T; N]; 4]) {
    for i in 0..N {
        [a[i], b[i], c[i], d[i]] = quads[i];
    }
}

/// Transforms the kernels of one filter: nine weights for each of `count` channels, which are `step` apart.
pub(in super::super) struct WeightTransform<T> {
    pub(super) from: *const T,
    pub(super) step: usize,
    /// Whether kernel positions are read in reverse order.
    pub(super) flipped: bool,
    pub(super) count: usize,
    pub(super) to: *mut T,
    pub(super) matrix_stride: usize,
}

impl<T> CodegenAnchor for WeightTransform<T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for WeightTransform<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let WeightTransform { from, step, flipped, count, to, matrix_stride } = self;
        let lanes = T::Vector::LANES;
        let zero = T::from_scalar(Scalar::Int(0));
        // Several vectors of columns at a time, so that loads do not follow the stores to the same cache lines: wide loads of
        // what narrow stores have just written fail store forwarding.
        let (mut quads, mut columns) = ([[[zero; 4]; 64]; 2], [[zero; 64]; 9]);
        // Flipping a kernel exchanges the first and the last element of its transform, and leaves the two between them unchanged.
        let order = if flipped { [3, 1, 2, 0] } else { [0, 1, 2, 3] };
        let mut x = 0;
        while x < count {
            let n = columns[0].len().min(count - x);
            // SAFETY: nine weights for each of `n` columns; the same columns of each matrix of the result.
            unsafe {
                for i in 0..n {
                    let from = from.add((x + i) * step);
                    I::prefetch(from.cast::<u8>().wrapping_add(PREFETCH_DISTANCE));
                    quads[0][i] = from.cast::<[T; 4]>().read();
                    quads[1][i] = from.add(4).cast::<[T; 4]>().read();
                    columns[8][i] = from.add(8).read();
                }
                let [a, b, c, d, e, f, g, h, _] = &mut columns;
                quads_to_columns(&quads[0], [a, b, c, d]);
                quads_to_columns(&quads[1], [e, f, g, h]);
                let mut i = 0;
                while i < n {
                    let from = columns.as_ptr().cast::<T>().add(i);
                    let [a, b, c, d, e, f, g, h, l] = load::<I, T, 9>(from, columns[0].len(), lanes);
                    let (a, b, c) = (
                        transform_weights([a, d, g]),
                        transform_weights([b, e, h]),
                        transform_weights([c, f, l]),
                    );
                    for p in 0..4 {
                        let row = transform_weights([a[p], b[p], c[p]]);
                        for q in 0..4 {
                            let to = to.add(x + i + (4 * order[p] + order[q]) * matrix_stride);
                            T::store_up_to(row[q], to, lanes.min(n - i));
                        }
                    }
                    i += lanes;
                }
            }
            x += n;
        }
    }
}

/// Transforms the weight gradient of one filter, which is the sum of several parts, back to nine weights for each channel;
/// whether it is finite.
pub(in super::super) struct WeightGradientTransform<T> {
    pub(super) from: *const T,
    pub(super) matrix_stride: usize,
    pub(super) parts: usize,
    pub(super) part: usize,
    pub(super) count: usize,
    pub(super) to: *mut T,
}

impl<T> CodegenAnchor for WeightGradientTransform<T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I, bool> for WeightGradientTransform<T> {
    #[inline(always)]
    unsafe fn run(self) -> bool {
        let WeightGradientTransform { from, matrix_stride, parts, part, count, to } = self;
        let zero = T::from_scalar(Scalar::Int(0));
        let (mut columns, mut finite) = ([[zero; 64]; 9], T::Vector::zero());
        let mut x = 0;
        while x < count {
            let n = T::Vector::LANES.min(count - x);
            // SAFETY: `n` columns of each matrix of each part; nine weights for each column of the result.
            unsafe {
                let mut sums = [[T::Vector::zero(); 4]; 4];
                for p in 0..parts {
                    for (j, sums) in sums.iter_mut().enumerate() {
                        let more =
                            load::<I, T, 4>(from.add(p * part + j * matrix_stride + x), 4 * matrix_stride, n);
                        for i in 0..4 {
                            sums[i] = sums[i] + more[i];
                        }
                    }
                }
                let [a, b, c, d] = sums;
                let (a, b, c, d) = (
                    transform_weight_gradient(a),
                    transform_weight_gradient(b),
                    transform_weight_gradient(c),
                    transform_weight_gradient(d),
                );
                for i in 0..3 {
                    let row = transform_weight_gradient([a[i], b[i], c[i], d[i]]);
                    for j in 0..3 {
                        finite = finite + row[j] * T::Vector::zero();
                        T::store(row[j], columns[3 * i + j].as_mut_ptr());
                    }
                }
                for i in 0..n {
                    for k in 0..9 {
                        to.add((x + i) * 9 + k).write(columns[k][i]);
                    }
                }
            }
            x += n;
        }
        finite.eq(T::Vector::zero()).all()
    }
}

const _: () = assert!(TILE_ELEMENTS == 16);
