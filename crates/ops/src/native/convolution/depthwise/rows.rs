//! The output of one channel: blocks of four rows and a vector of columns, for which each vector of the input is read once.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded::{AHEAD, Padded};
use super::super::shape::Conv;
use super::BLOCK;
use crate::vectorized::{Float, FloatLanes, Isa, Kernel, Number, Placed, Vector};
use flambeau_core::Element;
use std::mem::MaybeUninit;

/// One channel of the output.
pub(in super::super) struct Rows<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) tile: Padded,
    /// The padded input.
    pub(super) from: *const T,
    pub(super) weight: *const T,
    /// What the sums begin with.
    pub(super) start: T,
    pub(super) to: *mut T,
    /// Of rows and pixels.
    pub(super) strides: [isize; 2],
}

impl<T> Placed for Rows<'_, T> {
    type Home = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for Rows<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let [_, ky, kx] = self.conv.kernel;
        // SAFETY: by this function's condition.
        unsafe {
            match (ky, kx, self.conv.stride[1], self.conv.dilation[1]) {
                (3, 3, 1, 1) => square::<I, T, 3, 1>(self),
                (3, 3, 2, 1) => square::<I, T, 3, 2>(self),
                (5, 5, 1, 1) => square::<I, T, 5, 1>(self),
                (5, 5, 2, 1) => square::<I, T, 5, 2>(self),
                _ => any::<I, T>(self),
            }
        }
    }
}

/// Kernels of `K` by `K` places that move `S` rows at a time.
///
/// # Safety
/// - The tile is the input of the convolution, which has such a kernel; the weights lie side by side, and `to` has its pixels.
#[inline(always)]
unsafe fn square<I: Isa, T: FloatLanes<I>, const K: usize, const S: usize>(rows: Rows<'_, T>) {
    let Rows { conv, tile, from, weight, start, to, strides: [row, pixel] } = rows;
    let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
    let mut factors = [[T::Vector::zero(); K]; K];
    let columns = tile.columns::<K>(conv.dilation[2]);
    for k in 0..K {
        for (i, factors) in factors.iter_mut().enumerate() {
            // SAFETY: one of `K * K` weights.
            factors[k] = T::Vector::splat(unsafe { *weight.add(i * K + k) }.widen());
        }
    }
    let start = T::Vector::splat(start.widen());
    for x in (0..width).step_by(lanes) {
        let left = lanes.min(width - x);
        let mut y = 0;
        while y < height {
            // SAFETY: rows of the tile and of the output; what vectors read past a row is not stored, and the tile has slack.
            unsafe {
                let from = from.add(y * S * tile.pitch + x);
                let to = to.offset(y as isize * row + x as isize * pixel);
                if y + BLOCK <= height {
                    let sums = block::<I, T, K, S, BLOCK>(from, tile.pitch, columns, factors, start);
                    for (r, sum) in sums.into_iter().enumerate() {
                        store::<I, T>(sum, to.offset(r as isize * row), pixel, left);
                    }
                    y += BLOCK;
                } else {
                    let [sum] = block::<I, T, K, S, 1>(from, tile.pitch, columns, factors, start);
                    store::<I, T>(sum, to, pixel, left);
                    y += 1;
                }
            }
        }
    }
}

/// `R` rows of a vector of outputs.
///
/// # Safety
/// - From `from` on lie `S * (R - 1) + K` rows, `pitch` apart, of which a vector may be read at each of `columns`.
#[inline(always)]
unsafe fn block<I: Isa, T: FloatLanes<I>, const K: usize, const S: usize, const R: usize>(
    from: *const T,
    pitch: usize,
    columns: [usize; K],
    factors: [[T::Vector; K]; K],
    start: T::Vector,
) -> [T::Vector; R] {
    let mut sums = [start; R];
    for i in 0..S * (R - 1) + K {
        for k in 0..K {
            // SAFETY: row `i`, by this function's condition.
            let pixels = unsafe { T::load(from.add(i * pitch + columns[k])) };
            for r in 0..R {
                if i >= S * r && i < S * r + K {
                    sums[r] = pixels.mul_add(factors[i - S * r][k], sums[r]);
                }
            }
        }
    }
    sums
}

/// Any kernel, two vectors at a time, so that one sum need not wait for the other.
///
/// # Safety
/// - As [`square`].
#[inline(always)]
unsafe fn any<I: Isa, T: FloatLanes<I>>(rows: Rows<'_, T>) {
    let Rows { conv, tile, from, weight, start, to, strides: [row, pixel] } = rows;
    let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
    for y in 0..height {
        for x in (0..width).step_by(2 * lanes) {
            let left = [lanes.min(width - x), lanes.min((width - x).saturating_sub(lanes))];
            let mut sums = [T::Vector::splat(start.widen()); 2];
            // SAFETY: as for `square`; the second vector is read only where it has elements.
            unsafe {
                for ky in 0..conv.kernel[1] {
                    let line = from.add((y * conv.stride[1] + ky * conv.dilation[1]) * tile.pitch + x);
                    for kx in 0..conv.kernel[2] {
                        let factor = T::Vector::splat((*weight.add(ky * conv.kernel[2] + kx)).widen());
                        let line = line.add(tile.column(kx * conv.dilation[2]));
                        sums[0] = T::load(line).mul_add(factor, sums[0]);
                        if left[1] > 0 {
                            sums[1] = T::load(line.add(lanes)).mul_add(factor, sums[1]);
                        }
                    }
                }
                let to = to.offset(y as isize * row + x as isize * pixel);
                store::<I, T>(sums[0], to, pixel, left[0]);
                if left[1] > 0 {
                    store::<I, T>(sums[1], to.offset(lanes as isize * pixel), pixel, left[1]);
                }
            }
        }
    }
}

/// Writes the first `count` lanes.
///
/// # Safety
/// - `to` is valid for writing `count` elements, `step` apart.
#[inline(always)]
pub(in super::super) unsafe fn store<I: Isa, T: FloatLanes<I>>(
    vector: T::Vector,
    to: *mut T,
    step: isize,
    count: usize,
) {
    // SAFETY: by this function's condition; a vector has at most 64 lanes of at most eight bytes.
    unsafe {
        if step == 1 {
            I::prefetch(to.cast::<u8>().wrapping_add(AHEAD));
            return T::store_up_to(vector, to, count);
        }
        let mut lanes = [MaybeUninit::<u64>::uninit(); 64];
        let lanes: *mut T = lanes.as_mut_ptr().cast();
        T::store(vector, lanes);
        for i in 0..count {
            to.offset(i as isize * step).write(lanes.add(i).read());
        }
    }
}
