//! The mean of each window, with one channel in each lane, summed in the order of `mean_window`.
#![expect(unsafe_code, reason = "raw operands")]

use super::channel_strips::{CHUNK, LANES, Strips, whole_chunks};
use super::channels::{Channel, Channels, PoolElement};
use super::mean::{Mean, inside};
use super::windows::Window;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};

/// The mean of each window.
///
/// # Safety
/// - `x` is readable as `mean` says, `y` writable, disjoint from it, and used by no other thread.
pub(super) unsafe fn mean<T: PoolElement>(strips: &Strips, mean: &Mean, x: &Channels<T>, y: &Channels<T>) {
    let (input, output) = (mean.input, mean.output());
    strips.for_each_part(mean.work(), |part| {
        let (mut from, to) = (strips.tile::<T>(input), strips.tile::<T>(output));
        for strip in part {
            // SAFETY: the caller's conditions; strips are apart, and the tiles take one.
            unsafe {
                from.gather(x, &strip);
                dispatch(MeanStrip {
                    mean,
                    count: strip.len(),
                    padded: !strips.direct || strip.len().is_multiple_of(CHUNK),
                    x: from.lanes(x, &strip),
                    y: to.lanes(y, &strip),
                });
                to.scatter(y, &strip);
            }
        }
    });
}

/// A strip of `count` channels; the lanes of each pixel are adjacent. There are whole chunks of those of `x` if `padded`.
struct MeanStrip<'a, T> {
    mean: &'a Mean,
    count: usize,
    padded: bool,
    x: Channel<T>,
    y: Channel<T>,
}

impl<T> CodegenAnchor for MeanStrip<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: PoolElement> Kernel<I> for MeanStrip<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let mut staging = [T::narrow(T::ZERO); LANES];
        for ([z, y], row) in self.mean.rows() {
            for (x, column) in self.mean.windows[2].iter().enumerate() {
                // SAFETY: a window of the strip, and its result.
                unsafe {
                    let sums = self.sums(row, column, &mut staging);
                    self.write(self.y.pixel([z, y, x]), &sums, self.mean.count(row, column));
                }
            }
        }
    }
}

impl<T: PoolElement> MeanStrip<'_, T> {
    /// The sum of a window in each lane: of each column first.
    ///
    /// # Safety
    /// - The window is inside the input.
    #[inline(always)]
    unsafe fn sums(&self, row: [&Window; 2], column: &Window, staging: &mut [T; LANES]) -> [T::Sum; LANES] {
        let (mut sums, count) = ([T::ZERO; LANES], self.count.next_multiple_of(CHUNK).min(LANES));
        for x in column.inside.clone() {
            let mut of_column = [T::ZERO; LANES];
            for [z, y] in inside(row) {
                // SAFETY: the lanes of a pixel, with whole chunks.
                unsafe {
                    let from = whole_chunks(self.x.pixel([z, y, x]), self.count, self.padded, staging);
                    for start in (0..count).step_by(CHUNK) {
                        let values = from.add(start).cast::<[T; CHUNK]>().read_unaligned();
                        let to = of_column.as_mut_ptr().add(start);
                        for (k, value) in values.into_iter().enumerate() {
                            *to.add(k) = T::add(*to.add(k), value.widen());
                        }
                    }
                }
            }
            for lane in 0..count {
                sums[lane] = T::add(sums[lane], of_column[lane]);
            }
        }
        sums
    }

    /// # Safety
    /// - `to` is a pixel of the result.
    #[inline(always)]
    unsafe fn write(&self, to: *mut T, sums: &[T::Sum; LANES], counted: i64) {
        for (lane, sum) in sums.iter().enumerate().take(self.count) {
            // SAFETY: this function's condition; it has as many lanes.
            unsafe { *to.add(lane) = T::narrow(T::mean(*sum, counted)) };
        }
    }
}
