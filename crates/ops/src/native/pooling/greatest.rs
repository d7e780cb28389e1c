//! The greatest of each window, a row at a time, so that the inner loop is vector code; and what the input receives.
#![expect(unsafe_code, reason = "raw operands")]

use super::planes::{Channel, Channels, Pooled, each_channel, rows};
use super::windows::{Pool, Window};
use crate::gemm::Scratch;
use crate::native::strided::gather;
use crate::vectorized::{Isa, Kernel, Placed, dispatch};
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
    let (places, offsets) = (pool.output.iter().product::<i64>(), offsets(pool));
    each_channel(x.count, places.saturating_mul(pool.tap_count()) as usize, |i| {
        let taps = [0, 1, 2].map(|d| pool.taps(d));
        // SAFETY: the caller's conditions; channels are apart.
        unsafe {
            dispatch(Max {
                pool,
                taps,
                offsets: &offsets,
                x: x.channel(i),
                y: y.channel(i),
                at: at.channel(i),
            })
        }
    });
}

/// How far each place in the kernel that is of use is from the first, in elements of a channel of the input.
fn offsets(pool: &Pool) -> Vec<i64> {
    let [_, height, width] = pool.input;
    let along =
        |d: usize, size: i64| (0..pool.taps(d).count() as i64).map(move |tap| tap * pool.dilation[d] * size);
    let mut offsets = Vec::new();
    for z in along(0, height * width) {
        for y in along(1, width) {
            offsets.extend(along(2, 1).map(|x| z + y + x));
        }
    }
    offsets
}

struct Max<'a, T> {
    pool: &'a Pool,
    taps: [Range<i64>; 3],
    offsets: &'a [i64],
    x: Channel<T>,
    y: Channel<T>,
    at: Channel<i64>,
}

impl<T> Placed for Max<'_, T> {
    type Home = Self;
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
    fn source(&self, d: usize, output: usize, tap: i64) -> i64 {
        output as i64 * self.pool.stride[d] - self.pool.padding[d] + tap * self.pool.dilation[d]
    }

    fn wide(&self, d: usize) -> i64 {
        self.taps[d].end - self.taps[d].start
    }

    #[inline(always)]
    unsafe fn row(&self, [z, y]: [usize; 2], line: Line<T>) {
        let input = self.pool.input;
        for kz in self.taps[0].clone() {
            for ky in self.taps[1].clone() {
                let from = [self.source(0, z, kz), self.source(1, y, ky)];
                if !(0..input[0]).contains(&from[0]) || !(0..input[1]).contains(&from[1]) {
                    continue;
                }
                let row = (kz - self.taps[0].start) * self.wide(1) + ky - self.taps[1].start;
                // SAFETY: a row of the input.
                unsafe { self.columns(from.map(|place| place as usize), row * self.wide(2), line) }
            }
        }
    }

    /// Looks at one row of the input, whose first place in the kernel has the number `first_tap`.
    #[inline(always)]
    unsafe fn columns(&self, [z, y]: [usize; 2], first_tap: i64, line: Line<T>) {
        let p = self.pool;
        for kx in self.taps[2].clone() {
            // The first output places that read at or after the beginning, and at or after the end.
            let first = |bound: i64| {
                let ahead = bound - self.source(2, 0, kx);
                let reached = if ahead <= 0 { 0 } else { (ahead - 1) / p.stride[2] + 1 };
                reached.min(p.output[2]) as usize
            };
            let (low, high) = (first(0), first(p.input[2]));
            if low >= high {
                continue;
            }
            let from = self.x.pixel([z, y, self.source(2, low, kx) as usize]);
            let tap = (first_tap + kx - self.taps[2].start) as u32;
            let (step, count) = (p.stride[2] as isize * self.x.strides[2], high - low);
            // SAFETY: pixels inside the channel, and places of the row.
            unsafe {
                gather(from, step, line.room, count);
                take(line.room, line.best.add(low), line.taps.add(low), count, tap);
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(&self, [z, y]: [usize; 2], line: Line<T>) {
        let [_, height, width] = self.pool.input;
        let first = |d: usize, output: usize| self.source(d, output, self.taps[d].start);
        let row = (first(0, z) * height + first(1, y)) * width;
        for x in 0..self.pool.output[2] as usize {
            // SAFETY: a place of the row, and the output's.
            unsafe {
                let offset = self.offsets.get(*line.taps.add(x) as usize).copied().unwrap_or(0);
                *self.y.pixel([z, y, x]) = T::narrow(*line.best.add(x));
                *self.at.pixel([z, y, x]) = row + first(2, x) + offset;
            }
        }
    }
}

/// Takes the elements of `from` that are greater than the best so far, many at a time: of the last ones as many as there are.
///
/// # Safety
/// - All have `count` elements, and [`TOGETHER`] more that may be touched.
#[inline(always)]
unsafe fn take<T: Pooled>(from: *const T, best: *mut T::Sum, taps: *mut u32, count: usize, tap: u32) {
    for start in (0..count).step_by(TOGETHER) {
        // SAFETY: by this function's condition.
        unsafe {
            let values = from.add(start).cast::<[T; TOGETHER]>().read_unaligned();
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

/// Adds each element of `gy` to the place in `gx` that it came from; places outside are left out.
///
/// # Safety
/// - `gy` and `at` are readable and of `output` sizes, `gx` is writable, of `input` sizes, and disjoint from them.
pub(super) unsafe fn max_backward<T: Pooled + AddAssign>(
    [input, output]: [[i64; 3]; 2],
    gy: &Channels<T>,
    at: &Channels<i64>,
    gx: &Channels<T>,
) {
    let places = input.iter().product::<i64>();
    let (input, [depth, height, width]) = (input.map(|size| size as usize), output.map(|size| size as usize));
    each_channel(gy.count, depth * height * width, |i| {
        let (gy, at, gx) = (gy.channel(i), at.channel(i), gx.channel(i));
        for [z, y] in rows(depth, height) {
            for x in 0..width {
                // SAFETY: places inside the channels; the index is checked.
                unsafe {
                    let index = *at.pixel([z, y, x]);
                    if (0..places).contains(&index) {
                        *gx.pixel(unravelled(index as usize, input)) += *gy.pixel([z, y, x]);
                    }
                }
            }
        }
    });
}
