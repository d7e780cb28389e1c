//! The maximum of 2x2 windows with stride 2, the most common pooling: code without a loop over kernel positions.
#![expect(unsafe_code, reason = "raw operands")]

use super::channels::{Channels, PoolElement, for_each_channel, rows};
use super::windows::Pool;
use crate::native::strided_gather::even_elements;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};
use std::ops::Range;

/// Windows that are computed at a time.
const CHUNK: usize = 16;

/// Whether windows are 2x2 with stride 2, and all inside the input.
fn suits(pool: &Pool) -> bool {
    let is_plain = pool.stride == [1, 2, 2] && pool.padding == [0; 3] && pool.dilation == [1; 3];
    let inside = (1..3).all(|d| 2 * pool.output[d] <= pool.input[d]);
    pool.kernel == [1, 2, 2] && is_plain && inside && pool.input[2] < i64::from(u32::MAX)
}

/// [`super::max_window::max`] for such windows and contiguous operands; otherwise returns `false` and writes nothing.
///
/// # Safety
/// - As [`super::max_window::max`].
pub(super) unsafe fn max<T: PoolElement>(
    pool: &Pool,
    x: &Channels<T>,
    y: &Channels<T>,
    indices: &Channels<i64>,
) -> bool {
    let [input, output] = [pool.input, pool.output].map(|sizes| sizes.map(|size| size as usize));
    let readable = x.dense(input);
    if !suits(pool) || readable.is_empty() || y.dense(output).is_empty() || indices.dense(output).is_empty() {
        return false;
    }
    for_each_channel(x.count, 4 * output.iter().product::<usize>(), |i| {
        let (x, y, indices) =
            (x.channel(i).pixel([0; 3]), y.channel(i).pixel([0; 3]), indices.channel(i).pixel([0; 3]));
        // SAFETY: the caller's conditions; channels are apart.
        unsafe { dispatch(MaxPool2x2 { input, output, readable: readable.clone(), x, y, indices }) }
    });
    true
}

/// One channel.
struct MaxPool2x2<T> {
    input: [usize; 3],
    output: [usize; 3],
    /// The addresses of all channels: loads may reach into the next channel.
    readable: Range<usize>,
    x: *const T,
    y: *mut T,
    indices: *mut i64,
}

impl<T> CodegenAnchor for MaxPool2x2<T> {
    type Anchor = Self;
}

/// The maxima of a chunk of windows, and their offsets from the first element of the window.
type Best<T> = ([<T as PoolElement>::Sum; CHUNK], [u32; CHUNK]);

impl<I: Isa, T: PoolElement> Kernel<I> for MaxPool2x2<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let ([_, down, across], [depth, height, width]) = (self.input, self.output);
        let output_numel = depth * height * width;
        for [z, row] in rows(depth, height) {
            for x in (0..width).step_by(CHUNK) {
                let (from, to) = ((z * down + 2 * row) * across + 2 * x, (z * height + row) * width + x);
                let end = from + across + 1 + 2 * CHUNK;
                // SAFETY: elements of the channels; what is read past the row is inside `readable`.
                unsafe {
                    let first = self.x.add(from);
                    let best = if self.x.wrapping_add(end).addr() <= self.readable.end {
                        max_2x2(first, across)
                    } else {
                        max_2x2_partial(first, across, CHUNK.min(width - x))
                    };
                    // Elements past the end of the row are overwritten by the next row.
                    let count = if output_numel - to >= CHUNK { CHUNK } else { CHUNK.min(width - x) };
                    self.write(best, from, to, count);
                }
            }
        }
    }
}

impl<T: PoolElement> MaxPool2x2<T> {
    #[inline(always)]
    unsafe fn write(&self, (best, offsets): Best<T>, from: usize, to: usize, count: usize) {
        let mut chunk = [0; CHUNK];
        for k in 0..CHUNK {
            chunk[k] = (from + 2 * k) as i64 + i64::from(offsets[k]);
        }
        // SAFETY: `count` elements of the results.
        unsafe {
            let (y, indices) = (self.y.add(to), self.indices.add(to));
            if count == CHUNK {
                for (k, best) in best.into_iter().enumerate() {
                    y.add(k).write(T::narrow(best));
                }
                return indices.cast::<[i64; CHUNK]>().write_unaligned(chunk);
            }
            for k in 0..count {
                y.add(k).write(T::narrow(best[k]));
                indices.add(k).write(chunk[k]);
            }
        }
    }
}

/// A chunk of windows, which begin at every second element of `from`.
///
/// # Safety
/// - Two elements for each window are readable from each of the four kernel positions on.
#[inline(always)]
unsafe fn max_2x2<T: PoolElement>(from: *const T, row: usize) -> Best<T> {
    // SAFETY: by this function's condition.
    unsafe {
        let (first, mut values) = (even_elements::<T, CHUNK>(from), [T::ZERO; CHUNK]);
        for k in 0..CHUNK {
            values[k] = first[k].widen();
        }
        let best = greater::<T>((values, [0; CHUNK]), even_elements(from.add(1)), 1);
        let best = greater::<T>(best, even_elements(from.add(row)), row as u32);
        greater::<T>(best, even_elements(from.add(row + 1)), row as u32 + 1)
    }
}

/// The first `count` windows of a chunk, with no reads outside of them.
///
/// # Safety
/// - The windows are readable.
#[inline(always)]
unsafe fn max_2x2_partial<T: PoolElement>(from: *const T, row: usize, count: usize) -> Best<T> {
    let (mut values, mut offsets) = ([T::ZERO; CHUNK], [0; CHUNK]);
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

/// Replaces the maxima so far by those of `values` that are greater or NaN.
#[inline(always)]
fn greater<T: PoolElement>((best, offsets): Best<T>, values: [T; CHUNK], offset: u32) -> Best<T> {
    let (mut maxima, mut new_offsets) = (best, offsets);
    for k in 0..CHUNK {
        let value = values[k].widen();
        #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
        let better = (value > best[k]) | (value != value);
        maxima[k] = if better { value } else { best[k] };
        new_offsets[k] = if better { offset } else { offsets[k] };
    }
    (maxima, new_offsets)
}
