//! The maximum of each window, with one channel in each lane.
#![expect(unsafe_code, reason = "raw operands")]

use super::channel_strips::{CHUNK, LANES, Strips, whole_chunks};
use super::channels::{Channel, Channels, PoolElement, rows};
use super::running_max::{UNSET, update};
use super::windows::Window;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};

/// The indices of the input along one dimension that an output reads.
pub(super) struct Reads {
    pub(super) start: usize,
    pub(super) count: usize,
    /// What contributes to the index of a maximum where nothing is read.
    pub(super) unread: i64,
}

impl Reads {
    /// A window whose elements are adjacent and not empty.
    pub(super) fn adjacent(window: &Window) -> Self {
        let start = window.inside.start;
        Reads { start, count: window.inside.len(), unread: start as i64 }
    }
}

/// What the outputs read along each dimension, and the steps from one index to the next.
pub(super) struct Windows {
    pub(super) along: [Vec<Reads>; 3],
    pub(super) steps: [usize; 3],
}

/// The maximum of each window and its index in the channel, for images of `input` sizes, which have less pixels than [`UNSET`].
///
/// # Safety
/// - `x` is readable as `windows` says; `y` and `indices` are writable, disjoint from `x` and from each other, and used by no
///   other thread.
pub(super) unsafe fn max<T: PoolElement>(
    strips: &Strips,
    windows: &Windows,
    input: [usize; 3],
    x: &Channels<T>,
    y: &Channels<T>,
    indices: &Channels<i64>,
) {
    let output = [0, 1, 2].map(|d| windows.along[d].len());
    let reads = |d: usize| windows.along[d].iter().map(|reads| reads.count).sum::<usize>();
    let work = reads(0).saturating_mul(reads(1)).saturating_mul(reads(2));
    strips.for_each_part(work, |part| {
        let (mut from, to, to_indices) =
            (strips.tile::<T>(input), strips.tile::<T>(output), strips.tile(output));
        for strip in part {
            // SAFETY: the caller's conditions; strips are apart, and the tiles take one.
            unsafe {
                from.gather(x, &strip);
                dispatch(MaxStrip {
                    windows,
                    input,
                    count: strip.len(),
                    padded: !strips.direct || strip.len().is_multiple_of(CHUNK),
                    x: from.lanes(x, &strip),
                    y: to.lanes(y, &strip),
                    indices: to_indices.lanes(indices, &strip),
                });
                to.scatter(y, &strip);
                to_indices.scatter(indices, &strip);
            }
        }
    });
}

/// A strip of `count` channels; the lanes of each pixel are adjacent. There are whole chunks of those of `x` if `padded`.
struct MaxStrip<'a, T> {
    windows: &'a Windows,
    input: [usize; 3],
    count: usize,
    padded: bool,
    x: Channel<T>,
    y: Channel<T>,
    indices: Channel<i64>,
}

impl<T> CodegenAnchor for MaxStrip<'_, T> {
    type Anchor = Self;
}

/// The maxima so far of a window in each lane, and their indices.
struct Best<T: PoolElement> {
    values: [T::Sum; LANES],
    positions: [u32; LANES],
    /// The lanes of a pixel, where these are no whole chunks.
    staging: [T; LANES],
}

impl<I: Isa, T: PoolElement> Kernel<I> for MaxStrip<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let along = &self.windows.along;
        let zero = T::narrow(T::ZERO);
        let mut best = Best { values: [T::ZERO; LANES], positions: [UNSET; LANES], staging: [zero; LANES] };
        for [z, y] in rows(along[0].len(), along[1].len()) {
            for x in 0..along[2].len() {
                // SAFETY: windows of the strip, and their results.
                unsafe {
                    self.window([&along[0][z], &along[1][y], &along[2][x]], &mut best);
                    self.write([z, y, x], &best);
                }
            }
        }
    }
}

impl<T: PoolElement> MaxStrip<'_, T> {
    /// # Safety
    /// - The window is inside the input.
    #[inline(always)]
    unsafe fn window(&self, [planes, rows, columns]: [&Reads; 3], best: &mut Best<T>) {
        let ([_, height, width], steps) = (self.input, self.windows.steps);
        best.values = [T::ZERO; LANES];
        best.positions = [UNSET; LANES];
        for z in 0..planes.count {
            let z = planes.start + z * steps[0];
            for y in 0..rows.count {
                let y = rows.start + y * steps[1];
                for x in 0..columns.count {
                    let x = columns.start + x * steps[2];
                    // SAFETY: the lanes of a pixel; the arrays have whole chunks of lanes.
                    unsafe {
                        let from = self.x.pixel([z, y, x]);
                        let from = whole_chunks(from, self.count, self.padded, &mut best.staging);
                        let (values, positions) = (best.values.as_mut_ptr(), best.positions.as_mut_ptr());
                        let count = self.count.next_multiple_of(CHUNK);
                        update::<T, 1>(from, values, positions, count, ((z * height + y) * width + x) as u32);
                    }
                }
            }
        }
    }

    /// # Safety
    /// - `output` is a pixel of the results.
    #[inline(always)]
    unsafe fn write(&self, output: [usize; 3], best: &Best<T>) {
        let [_, height, width] = self.input.map(|size| size as i64);
        let [z, y, x] = [0, 1, 2].map(|d| self.windows.along[d][output[d]].unread);
        let unread = (z * height + y) * width + x;
        let (values, indices) = (self.y.pixel(output), self.indices.pixel(output));
        for lane in 0..self.count.min(LANES) {
            let position = best.positions[lane];
            // SAFETY: this function's condition; results have as many lanes.
            unsafe {
                *values.add(lane) = T::narrow(best.values[lane]);
                *indices.add(lane) = if position == UNSET { unread } else { i64::from(position) };
            }
        }
    }
}
