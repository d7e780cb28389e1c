//! The greatest of each window, a row at a time, so that the inner loop is vector code; and what the input receives.
#![expect(unsafe_code, reason = "raw operands")]

use super::planes::{Channel, Channels, Pooled, each_channel, rows};
use super::squares;
use super::windows::{Pool, Window};
use crate::native::strided_gather::{every_second_of, gather};
use crate::scratch::{self, Scratch};
use crate::vectorized::{Isa, Kernel, CodegenAnchor, dispatch};
use std::ops::{AddAssign, Range};

/// No place in the kernel yet.
const UNSET: u32 = u32::MAX;

/// Places of the output that are looked at together.
const TOGETHER: usize = 16;

/// The greatest of each window, the first of equals, and where it is in its channel; NaN is greater than all, the last of
/// them counts.
///
/// # Safety
/// - `x` is readable as `pool` says, `y` and `at` writable, disjoint from it and from each other; nobody else uses them.
pub(super) unsafe fn max<T: Pooled>(pool: &Pool, x: &Channels<T>, y: &Channels<T>, at: &Channels<i64>) {
    // SAFETY: the caller's conditions.
    if unsafe { squares::max(pool, x, y, at) } {
        return;
    }
    let (places, offsets, spans) = (pool.output.iter().product::<i64>(), offsets(pool), spans(pool));
    let input = pool.input.map(|size| size as usize);
    each_channel(x.count, places.saturating_mul(pool.tap_count()) as usize, |i| {
        let (taps, x) = ([0, 1, 2].map(|d| pool.taps(d)), x.channel(i));
        let end = match x.even_step(input) {
            Some(1) => x.pixel([0; 3]).wrapping_add(input.iter().product()).cast_const(),
            _ => std::ptr::null(),
        };
        // SAFETY: the caller's conditions; channels are apart.
        unsafe {
            dispatch(Max {
                pool,
                taps,
                offsets: &offsets,
                spans: &spans,
                x,
                end,
                y: y.channel(i),
                at: at.channel(i),
            })
        }
    });
}

/// How far each place in the kernel that is of use is from the first, in elements of a channel of the input; and 0 for none.
fn offsets(pool: &Pool) -> Vec<i64> {
    let [_, height, width] = pool.input;
    let along =
        |d: usize, size: i64| (0..pool.taps(d).count() as i64).map(move |tap| tap * pool.dilation[d] * size);
    let rows = along(0, height * width).flat_map(|z| along(1, width).map(move |y| z + y));
    scratch::collect(rows.flat_map(|row| along(2, 1).map(move |x| row + x)).chain([0]))
}

/// The part of a row of the output that finds one column of the kernel inside the input.
struct Span {
    places: Range<usize>,
    /// What the first of them reads.
    from: usize,
}

/// A span for each column of the kernel that is of use.
fn spans(pool: &Pool) -> Vec<Span> {
    let span = |tap| {
        let ahead = source(pool, 2, 0, tap);
        // The first place that reads at or after `bound`.
        let first = |bound: i64| {
            let reached = if bound <= ahead { 0 } else { (bound - ahead - 1) / pool.stride[2] + 1 };
            reached.min(pool.output[2])
        };
        let (low, high) = (first(0), first(pool.input[2]));
        Span { places: low as usize..high as usize, from: source(pool, 2, low, tap).max(0) as usize }
    };
    scratch::collect(pool.taps(2).map(span))
}

/// The place of the input that an output place reads through a place in the kernel, along one dimension.
#[inline(always)]
fn source(pool: &Pool, d: usize, output: i64, tap: i64) -> i64 {
    output * pool.stride[d] - pool.padding[d] + tap * pool.dilation[d]
}

struct Max<'a, T> {
    pool: &'a Pool,
    /// The places in the kernel that are of use.
    taps: [Range<i64>; 3],
    offsets: &'a [i64],
    spans: &'a [Span],
    x: Channel<T>,
    /// The end of a channel of `x` whose pixels are adjacent, else null.
    end: *const T,
    y: Channel<T>,
    at: Channel<i64>,
}

impl<T> CodegenAnchor for Max<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: Pooled> Kernel<I> for Max<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let [depth, height, width] = self.pool.output.map(|size| size as usize);
        let padded = width + TOGETHER;
        let (mut best, mut taps) = (Scratch::new::<T::Sum>(padded), Scratch::new::<u32>(padded));
        let mut room = Scratch::new::<T>(padded);
        // SAFETY: the buffers have room for a row and as much as is looked at together. Zeros are elements of every type.
        unsafe {
            let line =
                Line::<T> { best: best.as_mut_ptr(), taps: taps.as_mut_ptr(), room: room.as_mut_ptr() };
            line.best.write_bytes(0, padded);
            line.room.write_bytes(0, padded);
            for row in rows(depth, height) {
                line.taps.write_bytes(0xff, padded);
                self.row(row, line);
                self.finish(row, line);
            }
        }
    }
}

/// A row of the output: the best so far, the places in the kernel where they were found, and room for what is looked at next.
struct Line<T: Pooled> {
    best: *mut T::Sum,
    taps: *mut u32,
    room: *mut T,
}

impl<T: Pooled> Clone for Line<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Pooled> Copy for Line<T> {}

impl<T: Pooled> Max<'_, T> {
    #[inline(always)]
    unsafe fn row(&self, [z, y]: [usize; 2], line: Line<T>) {
        let input = self.pool.input;
        for kz in self.taps[0].clone() {
            for ky in self.taps[1].clone() {
                let from = [source(self.pool, 0, z as i64, kz), source(self.pool, 1, y as i64, ky)];
                if !(0..input[0]).contains(&from[0]) || !(0..input[1]).contains(&from[1]) {
                    continue;
                }
                let rows = self.taps[1].end - self.taps[1].start;
                let row = ((kz - self.taps[0].start) * rows + ky - self.taps[1].start) as usize;
                // SAFETY: a row of the input.
                unsafe { self.columns(from.map(|place| place as usize), row * self.spans.len(), line) }
            }
        }
    }

    /// Looks at one row of the input, whose first place in the kernel has the number `first_tap`.
    #[inline(always)]
    unsafe fn columns(&self, [z, y]: [usize; 2], first_tap: usize, line: Line<T>) {
        // Nobody goes by it where there is one pixel, whose stride may be any number.
        let step = (self.pool.stride[2] as isize).wrapping_mul(self.x.strides[2]);
        for (tap, span) in (first_tap as u32..).zip(self.spans) {
            let (low, count) = (span.places.start, span.places.len());
            let from = self.x.pixel([z, y, span.from]);
            // SAFETY: pixels inside the channel, and places of the row.
            unsafe {
                let (best, taps) = (line.best.add(low), line.taps.add(low));
                match step {
                    1 if self.reaches(from, count, 1) => take::<T, 1>(from, best, taps, count, tap),
                    2 if self.reaches(from, count, 2) => take::<T, 2>(from, best, taps, count, tap),
                    _ => {
                        gather(from, step, line.room, count);
                        take::<T, 1>(line.room, best, taps, count, tap);
                    }
                }
            }
        }
    }

    /// Whether as much as is looked at together for `count` places is all inside the channel, whose pixels are adjacent.
    #[inline(always)]
    fn reaches(&self, from: *const T, count: usize, step: usize) -> bool {
        let bytes = count.next_multiple_of(TOGETHER) * step * size_of::<T>();
        self.end.addr().checked_sub(from.addr()).is_some_and(|left| left >= bytes)
    }

    #[inline(always)]
    unsafe fn finish(&self, [z, y]: [usize; 2], line: Line<T>) {
        let ([_, height, width], count) = (self.pool.input, self.pool.output[2] as usize);
        let tap = |d: usize| self.taps[d].start;
        let [plane, row] = [(0, z), (1, y)].map(|(d, place)| source(self.pool, d, place as i64, tap(d)));
        let first = (plane * height + row) * width + source(self.pool, 2, 0, tap(2));
        // SAFETY: the places of the row, and the output's.
        unsafe {
            let (y, at) = (self.y.pixel([z, y, 0]), self.at.pixel([z, y, 0]));
            match (self.y.strides[2], self.at.strides[2]) {
                (1, 1) => self.write(line, first, (y, 1), (at, 1), count),
                (y_step, at_step) => self.write(line, first, (y, y_step), (at, at_step), count),
            }
        }
    }

    /// # Safety
    /// - `count` places of a row that is finished, and of the results, each so far from the one before.
    #[inline(always)]
    unsafe fn write(
        &self,
        line: Line<T>,
        first: i64,
        (y, y_step): (*mut T, isize),
        (at, at_step): (*mut i64, isize),
        count: usize,
    ) {
        let (offsets, none) = (self.offsets.as_ptr(), self.offsets.len() - 1);
        for x in 0..count {
            // SAFETY: this function's condition; the last offset is that of no place in the kernel.
            unsafe {
                let offset = *offsets.add((*line.taps.add(x) as usize).min(none));
                *y.wrapping_offset(x as isize * y_step) = T::narrow(*line.best.add(x));
                *at.wrapping_offset(x as isize * at_step) = first + x as i64 * self.pool.stride[2] + offset;
            }
        }
    }
}

/// Takes the elements of `from`, `STEP` apart, that are greater than the best so far, many at a time: of the last ones as many as
/// there are.
///
/// # Safety
/// - All have `count` elements, and so many more that may be touched that they are a multiple of [`TOGETHER`].
#[inline(always)]
unsafe fn take<T: Pooled, const STEP: usize>(
    from: *const T,
    best: *mut T::Sum,
    taps: *mut u32,
    count: usize,
    tap: u32,
) {
    for start in (0..count).step_by(TOGETHER) {
        // SAFETY: by this function's condition.
        unsafe {
            let values = if STEP == 1 {
                from.add(start).cast::<[T; TOGETHER]>().read_unaligned()
            } else {
                every_second_of::<T, TOGETHER>(from.add(STEP * start))
            };
            let before = best.add(start).cast::<[T::Sum; TOGETHER]>();
            let places = taps.add(start).cast::<[u32; TOGETHER]>();
            let (mut best, mut taps) = (before.read_unaligned(), places.read_unaligned());
            for k in 0..TOGETHER {
                let value = values[k].widen();
                #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
                let better = (taps[k] == UNSET) | (value > best[k]) | (value != value);
                let better = better & (k < count - start);
                best[k] = if better { value } else { best[k] };
                taps[k] = if better { tap } else { taps[k] };
            }
            before.write_unaligned(best);
            places.write_unaligned(taps);
        }
    }
}

/// The greatest of each of `windows`, and where it is in a channel of `input` sizes; ties and NaN as in [`max`].
///
/// # Safety
/// - As [`max`]; no window is empty.
pub(super) unsafe fn adaptive_max<T: Pooled>(
    windows: &[Vec<Window>; 3],
    input: [i64; 3],
    x: &Channels<T>,
    y: &Channels<T>,
    at: &Channels<i64>,
) {
    let work = input.iter().product::<i64>() as usize;
    let input = input.map(|size| size as usize);
    each_channel(x.count, work, |i| {
        let (x, y, at) = (x.channel(i), y.channel(i), at.channel(i));
        for [z, row] in rows(windows[0].len(), windows[1].len()) {
            for (column, window) in windows[2].iter().enumerate() {
                let part = [&windows[0][z], &windows[1][row], window];
                let place = [z, row, column];
                // SAFETY: places inside the channels.
                unsafe {
                    let index = greatest(&part, input, &x);
                    *y.pixel(place) = *x.pixel(unravelled(index, input));
                    *at.pixel(place) = index as i64;
                }
            }
        }
    });
}

/// Splits the number of a place into plane, row and column.
fn unravelled(index: usize, [_, height, width]: [usize; 3]) -> [usize; 3] {
    [index / width / height, index / width % height, index % width]
}

/// # Safety
/// - `x` is readable in `part`.
unsafe fn greatest<T: Pooled>(
    [planes, rows, columns]: &[&Window; 3],
    [_, height, width]: [usize; 3],
    x: &Channel<T>,
) -> usize {
    let first = [planes.inside.start, rows.inside.start, columns.inside.start];
    let mut index = (first[0] * height + first[1]) * width + first[2];
    // SAFETY: the caller's condition, here and below.
    let mut best = unsafe { *x.pixel(first) }.widen();
    for z in planes.inside.clone() {
        for y in rows.inside.clone() {
            for column in columns.inside.clone() {
                // SAFETY: as above.
                let value = unsafe { *x.pixel([z, y, column]) }.widen();
                #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
                let better = value > best || value != value;
                if better {
                    (best, index) = (value, (z * height + y) * width + column);
                }
            }
        }
    }
    index
}

/// Each element of `gy` added to the place in `gx` that it came from, and zeros elsewhere; places outside are left out.
///
/// # Safety
/// - `gy` and `at` are readable and of `output` sizes, `gx` is writable, of `input` sizes, and disjoint from them.
pub(super) unsafe fn max_backward<T: Pooled<Sum = T> + AddAssign>(
    [input, output]: [[i64; 3]; 2],
    gy: &Channels<T>,
    at: &Channels<i64>,
    gx: &Channels<T>,
) {
    let places = input.iter().product::<i64>();
    let (input, [depth, height, width]) = (input.map(|size| size as usize), output.map(|size| size as usize));
    each_channel(gy.count, depth * height * width, |i| {
        let (gy, at, gx) = (gy.channel(i), at.channel(i), gx.channel(i));
        let even = gx.even_step(input);
        // SAFETY: the caller's conditions.
        unsafe { gx.clear(input) };
        for [z, y] in rows(depth, height) {
            for x in 0..width {
                // SAFETY: places inside the channels; the index is checked.
                unsafe {
                    let index = *at.pixel([z, y, x]);
                    if (0..places).contains(&index) {
                        let to = match even {
                            Some(step) => gx.pixel([0; 3]).wrapping_offset(index as isize * step),
                            None => gx.pixel(unravelled(index as usize, input)),
                        };
                        *to += *gy.pixel([z, y, x]);
                    }
                }
            }
        }
    });
}
