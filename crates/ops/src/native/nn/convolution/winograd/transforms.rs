//! Tiles, weights and their gradients, transformed and back: sums and differences, many tiles or channels at a time.
#![expect(unsafe_code, reason = "raw operands")]
#![expect(
    clippy::needless_range_loop,
    reason = "iterators are not inlined into the shims reliably; plain loops are"
)]

use super::super::padded::AHEAD;
use super::super::pairs::split;
use super::super::shape::Conv;
use super::super::unfold::Images;
use super::piece::{GRADIENT, INPUT, PLACES, Piece};
use crate::vectorized::{Float, FloatLanes, Isa, Kernel, Mask, Number, CodegenAnchor, Vector};
use flambeau_core::{Element, Scalar};
use std::mem::MaybeUninit;

/// The rows of an image that some rows of tiles read, with their padding, each as its even pixels and its odd ones: so neighbouring
/// tiles lie side by side.
#[derive(Clone, Copy)]
pub(in super::super) struct Halves {
    piece: Piece,
    /// Where they are, among those of the block.
    room: usize,
    /// Rows read, of which the first is this row of the image, and the first pixel this one.
    rows: usize,
    first: [isize; 2],
    /// Sizes of the image.
    image: [usize; 2],
    /// Elements of a half.
    half: usize,
}

impl Halves {
    /// Those of tiles of `SIDE` pixels each way, from `room` on, which is moved past them.
    pub(super) fn new<const SIDE: usize>(conv: &Conv, piece: Piece, room: &mut usize) -> Self {
        // Pixels that a tile shares with the next.
        let more = SIDE - 2;
        let (sizes, padding) = if SIDE == INPUT { (conv.input, conv.padding) } else { (conv.output, [0; 3]) };
        let [first, end] = piece.rows;
        let halves = Halves {
            piece,
            room: *room,
            rows: 2 * (end - first) + more,
            first: [2 * first as isize - padding[1] as isize, -(padding[2] as isize)],
            image: [sizes[1], sizes[2]],
            half: piece.across + more / 2,
        };
        *room += halves.rows * 2 * halves.half;
        halves
    }

    /// Asks for the rows of the image at `from` before they are needed: they are too short for the processor to see them coming.
    #[inline(always)]
    fn prefetch<I: Isa, T>(self, from: *const T, [row, pixel]: [isize; 2]) {
        /// Elements of four bytes in a line.
        const LINE: usize = 16;
        for r in 0..self.rows as isize {
            for x in (0..self.image[1]).step_by(LINE) {
                I::prefetch(from.wrapping_offset((self.first[0] + r) * row + x as isize * pixel).cast());
            }
        }
    }

    /// Half `odd` of row `row`.
    #[inline(always)]
    fn at(self, row: usize, odd: usize) -> usize {
        (row * 2 + odd) * self.half
    }

    /// # Safety
    /// - `from` is the first pixel of an image of these sizes, readable; `to` takes [`len`](Self::len) elements.
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
            // SAFETY: inside the halves and, where it is read, inside the image.
            unsafe {
                let (even, odd) = (to.add(self.at(r, 0)), to.add(self.at(r, 1)));
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

/// The reverse of [`split`].
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

/// `count` elements at each of `N` places, `step` apart.
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
fn of_input<V: Float>([a, b, c, d]: [V; 4]) -> [V; 4] {
    [a - c, b + c, c - b, b - d]
}

/// `A d`: a column of a tile of the output's gradient.
#[inline(always)]
fn of_gradient<V: Float>([a, b]: [V; 2]) -> [V; 4] {
    [a, a + b, a - b, -b]
}

/// `A' m`: a column of the products.
#[inline(always)]
fn to_output<V: Float>([a, b, c, d]: [V; 4]) -> [V; 2] {
    [a + b + c, b - c - d]
}

/// `G g`: a column of a kernel.
#[inline(always)]
fn of_weights<V: Float>([a, b, c]: [V; 3]) -> [V; 4] {
    let (half, ends) = (V::constant(0.5), a + c);
    [a, (ends + b) * half, (ends - b) * half, c]
}

/// `G' u`: a column of the gradient of transformed weights.
#[inline(always)]
fn to_weights<V: Float>([a, b, c, d]: [V; 4]) -> [V; 3] {
    let half = V::constant(0.5);
    let sum = (b + c) * half;
    [a + sum, (b - c) * half, sum + d]
}

/// A column of a tile, of the input or of the output's gradient.
#[inline(always)]
fn of_pixels<V: Float, const SIDE: usize>(column: [V; SIDE]) -> [V; 4] {
    const { assert!(SIDE == INPUT || SIDE == GRADIENT, "tiles are of the input or of the output's gradient") };
    let ([a, b], [c, d]) = ([column[0], column[1]], [column[SIDE - 2], column[SIDE - 1]]);
    if SIDE == INPUT { of_input([a, b, c, d]) } else { of_gradient([a, b]) }
}

/// One channel of a block, in tiles of `SIDE` pixels each way.
pub(in super::super) struct FromPixels<'p, T, const SIDE: usize> {
    pub(super) pieces: &'p [Halves],
    pub(super) x: Images<T>,
    pub(super) channel: usize,
    pub(super) room: *mut T,
    /// The first tile at the first place, and how far it is to the next place.
    pub(super) to: *mut T,
    pub(super) plane: usize,
}

impl<T, const SIDE: usize> CodegenAnchor for FromPixels<'_, T, SIDE> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element, const SIDE: usize> Kernel<I> for FromPixels<'_, T, SIDE> {
    #[inline(always)]
    unsafe fn run(self) {
        let FromPixels { pieces, x, channel, room, to, plane } = self;
        let strides = [x.strides[3], x.strides[4]];
        // SAFETY: the caller's pointers; halves do not overlap. All are filled before the first is read: what has just been
        // written in pieces cannot be read whole at once.
        unsafe {
            for halves in pieces {
                let from = x.channel(halves.piece.image, channel);
                halves.prefetch::<I, T>(from.wrapping_offset(x.strides[1]), strides);
                halves.fill(from, strides, room.add(halves.room));
            }
            for halves in pieces {
                let to = to.add(halves.piece.tile);
                from_halves::<I, T, SIDE>(halves, room.add(halves.room), to, plane);
            }
        }
    }
}

/// The transformed tiles of a piece.
///
/// # Safety
/// - `from` holds the halves, and `to` takes the tiles of each place.
#[inline(always)]
unsafe fn from_halves<I: Isa, T: FloatLanes<I> + Element, const SIDE: usize>(
    halves: &Halves,
    from: *const T,
    to: *mut T,
    plane: usize,
) {
    let (Piece { rows: [first, end], across, .. }, half) = (halves.piece, halves.half);
    for y in 0..end - first {
        let mut x = 0;
        while x < across {
            let count = T::Vector::LANES.min(across - x);
            // SAFETY: tiles `x..x + count` of a row are in the halves and in the result.
            unsafe {
                let from = from.add(halves.at(2 * y, 0) + x);
                let mut columns = [[T::Vector::zero(); 4]; SIDE];
                for (j, column) in columns.iter_mut().enumerate() {
                    let pixels = load::<I, T, SIDE>(from.add(j % 2 * half + j / 2), 2 * half, count);
                    *column = of_pixels(pixels);
                }
                let to = to.add(y * across + x);
                for i in 0..4 {
                    let mut row = [T::Vector::zero(); SIDE];
                    for (element, column) in row.iter_mut().zip(&columns) {
                        *element = column[i];
                    }
                    let row = of_pixels(row);
                    for j in 0..4 {
                        T::store_up_to(row[j], to.add((4 * i + j) * plane), count);
                    }
                }
            }
            x += count;
        }
    }
}

/// One filter of the output in a block; whether it is finite.
pub(in super::super) struct ToOutput<T> {
    pub(super) from: *const T,
    pub(super) plane: usize,
    /// The rows of tiles, from and to, and the tiles in a row.
    pub(super) rows: [usize; 2],
    pub(super) across: usize,
    /// What is added to all.
    pub(super) start: T,
    pub(super) to: *mut T,
    pub(super) strides: [isize; 2],
    pub(super) output: [usize; 2],
}

impl<T> CodegenAnchor for ToOutput<T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I, bool> for ToOutput<T> {
    #[inline(always)]
    unsafe fn run(self) -> bool {
        let ToOutput { from, plane, rows: [first, end], across, start, to, strides, output } = self;
        let start = T::Vector::splat(start.widen());
        let mut finite = T::Vector::zero();
        let mut halves = [[MaybeUninit::<u64>::uninit(); 64]; 4];
        let (tiles, mut at, mut x, mut y) = ((end - first) * across, 0, 0, first);
        // Tiles follow one another from row to row: a vector holds those of several short rows.
        while at < tiles {
            let count = T::Vector::LANES.min(tiles - at);
            // SAFETY: the caller's pointers, which have `count` tiles from `at` on.
            unsafe {
                let from = from.add(at);
                let a = to_output(load::<I, T, 4>(from, 4 * plane, count));
                let b = to_output(load::<I, T, 4>(from.add(plane), 4 * plane, count));
                let c = to_output(load::<I, T, 4>(from.add(2 * plane), 4 * plane, count));
                let d = to_output(load::<I, T, 4>(from.add(3 * plane), 4 * plane, count));
                for i in 0..2 {
                    let [even, odd] = to_output([a[i], b[i], c[i], d[i]]);
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
                    // SAFETY: `n` tiles of a row, and the pixels of theirs that are there.
                    unsafe {
                        let half = |h: usize| halves[h].as_ptr().cast::<T>().add(done);
                        let to = to.offset((2 * y + i) as isize * strides[0] + 2 * x as isize * strides[1]);
                        I::prefetch(to.cast::<u8>().wrapping_add(AHEAD));
                        interleave(half(2 * i), half(2 * i + 1), to, strides[1], pixels);
                    }
                }
                (done, x) = (done + n, x + n);
                if x == across {
                    (x, y) = (0, y + 1);
                }
            }
            at += count;
        }
        finite.eq(T::Vector::zero()).all()
    }
}

/// Writes `count` pixels, the even and the odd in turn.
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

/// Element `k` of each quad to column `k`.
#[inline(always)]
fn quads_to_columns<T: Copy, const N: usize>(quads: &[[T; 4]; N], [a, b, c, d]: [&mut [T; N]; 4]) {
    for i in 0..N {
        [a[i], b[i], c[i], d[i]] = quads[i];
    }
}

/// A row of the transformed weights: nine of each of `count` columns, `step` apart.
pub(in super::super) struct FromWeights<T> {
    pub(super) from: *const T,
    pub(super) step: usize,
    /// From back to front.
    pub(super) turned: bool,
    pub(super) count: usize,
    pub(super) to: *mut T,
    pub(super) plane: usize,
}

impl<T> CodegenAnchor for FromWeights<T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for FromWeights<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let FromWeights { from, step, turned, count, to, plane } = self;
        let lanes = T::Vector::LANES;
        let zero = T::from_scalar(Scalar::Int(0));
        // Several vectors of columns at a time: what has just been written in pieces cannot be read whole at once.
        let (mut quads, mut columns) = ([[[zero; 4]; 64]; 2], [[zero; 64]; 9]);
        // Turning a kernel exchanges the ends of what it becomes, and leaves the sums between them.
        let places = if turned { [3, 1, 2, 0] } else { [0, 1, 2, 3] };
        let mut x = 0;
        while x < count {
            let n = columns[0].len().min(count - x);
            // SAFETY: nine weights of each of `n` columns; places of the result in the same columns.
            unsafe {
                for i in 0..n {
                    let from = from.add((x + i) * step);
                    I::prefetch(from.cast::<u8>().wrapping_add(AHEAD));
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
                    let (a, b, c) = (of_weights([a, d, g]), of_weights([b, e, h]), of_weights([c, f, l]));
                    for p in 0..4 {
                        let line = of_weights([a[p], b[p], c[p]]);
                        for q in 0..4 {
                            let to = to.add(x + i + (4 * places[p] + places[q]) * plane);
                            T::store_up_to(line[q], to, lanes.min(n - i));
                        }
                    }
                    i += lanes;
                }
            }
            x += n;
        }
    }
}

/// A row of the gradient of the weights, from that of the transformed ones, of which there are several parts; whether it is finite.
pub(in super::super) struct ToWeights<T> {
    pub(super) from: *const T,
    pub(super) plane: usize,
    pub(super) parts: usize,
    pub(super) part: usize,
    pub(super) count: usize,
    pub(super) to: *mut T,
}

impl<T> CodegenAnchor for ToWeights<T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I, bool> for ToWeights<T> {
    #[inline(always)]
    unsafe fn run(self) -> bool {
        let ToWeights { from, plane, parts, part, count, to } = self;
        let zero = T::from_scalar(Scalar::Int(0));
        let (mut columns, mut finite) = ([[zero; 64]; 9], T::Vector::zero());
        let mut x = 0;
        while x < count {
            let n = T::Vector::LANES.min(count - x);
            // SAFETY: `n` columns of each place of each part; nine weights of each column of the result.
            unsafe {
                let mut sums = [[T::Vector::zero(); 4]; 4];
                for p in 0..parts {
                    for (j, sums) in sums.iter_mut().enumerate() {
                        let more = load::<I, T, 4>(from.add(p * part + j * plane + x), 4 * plane, n);
                        for i in 0..4 {
                            sums[i] = sums[i] + more[i];
                        }
                    }
                }
                let [a, b, c, d] = sums;
                let (a, b, c, d) = (to_weights(a), to_weights(b), to_weights(c), to_weights(d));
                for i in 0..3 {
                    let row = to_weights([a[i], b[i], c[i], d[i]]);
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

const _: () = assert!(PLACES == 16);
