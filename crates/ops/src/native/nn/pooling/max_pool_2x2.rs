//! The greatest of windows of two by two places that lie side by side, the commonest of all: straight code, without a loop over
//! the places.
#![expect(unsafe_code, reason = "raw operands")]

use super::planes::{Channels, Pooled, each_channel, rows};
use super::windows::Pool;
use crate::native::strided_gather::every_second_of;
use crate::vectorized::{Isa, Kernel, CodegenAnchor, dispatch};
use std::ops::Range;

/// Windows that are looked at together.
const TOGETHER: usize = 16;

/// Whether windows are such, all of them inside the input.
fn are(pool: &Pool) -> bool {
    let apart = pool.stride == [1, 2, 2] && pool.padding == [0; 3] && pool.dilation == [1; 3];
    let inside = (1..3).all(|d| 2 * pool.output[d] <= pool.input[d]);
    pool.kernel == [1, 2, 2] && apart && inside && pool.input[2] < i64::from(u32::MAX)
}

/// [`super::greatest::max`], where windows are such and all operands dense; else `false`, and nothing is written.
///
/// # Safety
/// - As [`super::greatest::max`].
pub(super) unsafe fn max<T: Pooled>(
    pool: &Pool,
    x: &Channels<T>,
    y: &Channels<T>,
    at: &Channels<i64>,
) -> bool {
    let [input, output] = [pool.input, pool.output].map(|sizes| sizes.map(|size| size as usize));
    let readable = x.dense(input);
    if !are(pool) || readable.is_empty() || y.dense(output).is_empty() || at.dense(output).is_empty() {
        return false;
    }
    each_channel(x.count, 4 * output.iter().product::<usize>(), |i| {
        let (x, y, at) =
            (x.channel(i).pixel([0; 3]), y.channel(i).pixel([0; 3]), at.channel(i).pixel([0; 3]));
        // SAFETY: the caller's conditions; channels are apart.
        unsafe { dispatch(Squares { input, output, readable: readable.clone(), x, y, at }) }
    });
    true
}

/// One channel.
struct Squares<T> {
    input: [usize; 3],
    output: [usize; 3],
    /// The addresses of all channels, which may be read.
    readable: Range<usize>,
    x: *const T,
    y: *mut T,
    at: *mut i64,
}

impl<T> CodegenAnchor for Squares<T> {
    type Anchor = Self;
}

/// The greatest of some windows, and how far they are from the first place of a window.
type Best<T> = ([<T as Pooled>::Sum; TOGETHER], [u32; TOGETHER]);

impl<I: Isa, T: Pooled> Kernel<I> for Squares<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let ([_, down, across], [depth, height, width]) = (self.input, self.output);
        let places = depth * height * width;
        for [z, row] in rows(depth, height) {
            for x in (0..width).step_by(TOGETHER) {
                let (from, to) = ((z * down + 2 * row) * across + 2 * x, (z * height + row) * width + x);
                let end = from + across + 1 + 2 * TOGETHER;
                // SAFETY: places of the channels; what is read beyond the row is readable.
                unsafe {
                    let first = self.x.add(from);
                    let best = if self.x.wrapping_add(end).addr() <= self.readable.end {
                        squares(first, across)
                    } else {
                        some_squares(first, across, TOGETHER.min(width - x))
                    };
                    // What is written past the row is written again, by the next row.
                    let count = if places - to >= TOGETHER { TOGETHER } else { TOGETHER.min(width - x) };
                    self.write(best, from, to, count);
                }
            }
        }
    }
}

impl<T: Pooled> Squares<T> {
    #[inline(always)]
    unsafe fn write(&self, (best, offsets): Best<T>, from: usize, to: usize, count: usize) {
        let mut places = [0; TOGETHER];
        for k in 0..TOGETHER {
            places[k] = (from + 2 * k) as i64 + i64::from(offsets[k]);
        }
        // SAFETY: `count` places of the results.
        unsafe {
            let (y, at) = (self.y.add(to), self.at.add(to));
            if count == TOGETHER {
                for (k, best) in best.into_iter().enumerate() {
                    y.add(k).write(T::narrow(best));
                }
                return at.cast::<[i64; TOGETHER]>().write_unaligned(places);
            }
            for k in 0..count {
                y.add(k).write(T::narrow(best[k]));
                at.add(k).write(places[k]);
            }
        }
    }
}

/// The windows that begin at every second element of `from`.
///
/// # Safety
/// - Two elements for each window are readable from each of the four places on.
#[inline(always)]
unsafe fn squares<T: Pooled>(from: *const T, row: usize) -> Best<T> {
    // SAFETY: by this function's condition.
    unsafe {
        let (first, mut values) = (every_second_of::<T, TOGETHER>(from), [T::ZERO; TOGETHER]);
        for k in 0..TOGETHER {
            values[k] = first[k].widen();
        }
        let best = greater::<T>((values, [0; TOGETHER]), every_second_of(from.add(1)), 1);
        let best = greater::<T>(best, every_second_of(from.add(row)), row as u32);
        greater::<T>(best, every_second_of(from.add(row + 1)), row as u32 + 1)
    }
}

/// The same of `count` windows, of which no more is read than there is.
///
/// # Safety
/// - The windows are readable.
#[inline(always)]
unsafe fn some_squares<T: Pooled>(from: *const T, row: usize, count: usize) -> Best<T> {
    let (mut values, mut offsets) = ([T::ZERO; TOGETHER], [0; TOGETHER]);
    for k in 0..count {
        for offset in [0, 1, row, row + 1] {
            // SAFETY: by this function's condition.
            let value = unsafe { *from.add(2 * k + offset) }.widen();
            #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
            let better = value > values[k] || value != value;
            if better || offset == 0 {
                (values[k], offsets[k]) = (value, offset as u32);
            }
        }
    }
    (values, offsets)
}

/// The values that are greater, or NaN, in place of the others.
#[inline(always)]
fn greater<T: Pooled>((best, offsets): Best<T>, values: [T; TOGETHER], offset: u32) -> Best<T> {
    let (mut taken, mut places) = (best, offsets);
    for k in 0..TOGETHER {
        let value = values[k].widen();
        #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
        let better = (value > best[k]) | (value != value);
        taken[k] = if better { value } else { best[k] };
        places[k] = if better { offset } else { offsets[k] };
    }
    (taken, places)
}
