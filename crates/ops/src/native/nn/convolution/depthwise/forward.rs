//! The output of one channel, in blocks of four rows and a vector of columns, for which each vector of the input is loaded once.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded_tile::{PREFETCH_DISTANCE, PaddedTile};
use super::super::params::Conv;
use super::source::{BLOCK, Channel, InTile, Source};
use crate::vectorized::{CodegenAnchor, CpuCapability, Float, FloatLanes, Isa, Kernel, Number, Vector};
use flambeau_core::Element;
use std::mem::MaybeUninit;

/// Computes one channel of the output.
#[derive(Clone, Copy)]
pub(in super::super) struct ForwardRows<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) from: Channel<T>,
    pub(super) weight: *const T,
    /// The bias, with which the sums begin.
    pub(super) start: T,
    pub(super) to: *mut T,
    /// Of rows and pixels.
    pub(super) strides: [isize; 2],
}

impl<T> CodegenAnchor for ForwardRows<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for ForwardRows<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let conv = self.conv;
        let [_, ky, kx] = conv.kernel;
        // SAFETY: by this function's condition.
        unsafe {
            let (tile, ptr) = match self.from {
                Channel::Unpadded(unpadded) => return square_kernel::<I, T, 3, 1>(self, unpadded),
                Channel::Tile(tile, ptr) => (tile, ptr),
            };
            match (ky, kx, conv.stride[1], conv.dilation[1]) {
                (3, 3, 1, 1) => square_kernel::<I, T, 3, 1>(self, InTile::new(tile, ptr, conv)),
                (3, 3, 2, 1) => square_kernel::<I, T, 3, 2>(self, InTile::new(tile, ptr, conv)),
                (5, 5, 1, 1) => square_kernel::<I, T, 5, 1>(self, InTile::new(tile, ptr, conv)),
                (5, 5, 2, 1) => square_kernel::<I, T, 5, 2>(self, InTile::new(tile, ptr, conv)),
                _ => any_kernel::<I, T>(self, tile, ptr),
            }
        }
    }
}

/// Kernels of `K` by `K` positions with a vertical stride of `S`.
///
/// # Safety
/// - `from` is the input of the convolution, which has such a kernel; its weights are contiguous, and `to` takes the output.
#[inline(always)]
unsafe fn square_kernel<I: Isa, T: FloatLanes<I>, const K: usize, const S: usize>(
    rows: ForwardRows<'_, T>,
    from: impl Source<I, T, K>,
) {
    let (lanes, width, weight) = (T::Vector::LANES, rows.conv.output[2], rows.weight);
    let mut factors = [[T::Vector::zero(); K]; K];
    for k in 0..K {
        for (i, factors) in factors.iter_mut().enumerate() {
            // SAFETY: one of `K * K` weights.
            factors[k] = T::Vector::splat(unsafe { *weight.add(i * K + k) }.widen());
        }
    }
    // Whether there are enough registers for the sums of two vectors.
    let (fits_two, mut x) = (K == 3 && I::CAPABILITY == CpuCapability::Avx512, 0);
    while x < width {
        // SAFETY: by this function's condition.
        x += unsafe {
            if fits_two && x + lanes < width {
                columns::<I, T, K, S, 2>(rows, from, factors, x)
            } else {
                columns::<I, T, K, S, 1>(rows, from, factors, x)
            }
        };
    }
}

/// All rows of `V` vectors of columns from `x` on; returns the number of columns.
///
/// # Safety
/// - As [`square_kernel`], and the last vector has a column.
#[inline(always)]
unsafe fn columns<I: Isa, T: FloatLanes<I>, const K: usize, const S: usize, const V: usize>(
    rows: ForwardRows<'_, T>,
    from: impl Source<I, T, K>,
    factors: [[T::Vector; K]; K],
    x: usize,
) -> usize {
    let ForwardRows { conv, start, to, strides: [row, pixel], .. } = rows;
    let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
    let (start, mut y) = (T::Vector::splat(start.widen()), 0);
    let mut left = [lanes; V];
    left[V - 1] = lanes.min(width - x - (V - 1) * lanes);
    while y < height {
        // SAFETY: rows of the input and of the output.
        unsafe {
            let to = to.offset(y as isize * row + x as isize * pixel);
            if y + BLOCK <= height {
                let sums = block::<I, T, K, S, V, BLOCK>(from, factors, start, [y * S, x]);
                for (r, sums) in sums.into_iter().enumerate() {
                    store_vectors::<I, T, V>(sums, to.offset(r as isize * row), pixel, left);
                }
                y += BLOCK;
            } else {
                let [sums] = block::<I, T, K, S, V, 1>(from, factors, start, [y * S, x]);
                store_vectors::<I, T, V>(sums, to, pixel, left);
                y += 1;
            }
        }
    }
    V * lanes
}

/// Stores `V` consecutive vectors.
///
/// # Safety
/// - As [`store`], of each.
#[inline(always)]
unsafe fn store_vectors<I: Isa, T: FloatLanes<I>, const V: usize>(
    vectors: [T::Vector; V],
    to: *mut T,
    step: isize,
    counts: [usize; V],
) {
    for (v, vector) in vectors.into_iter().enumerate() {
        // SAFETY: by this function's condition.
        unsafe { store::<I, T>(vector, to.offset((v * T::Vector::LANES) as isize * step), step, counts[v]) };
    }
}

/// `R` rows of `V` vectors of outputs.
///
/// # Safety
/// - The input has `S * (R - 1) + K` rows from `y` on, and each vector an output from `x` on.
#[inline(always)]
unsafe fn block<I: Isa, T: FloatLanes<I>, const K: usize, const S: usize, const V: usize, const R: usize>(
    from: impl Source<I, T, K>,
    factors: [[T::Vector; K]; K],
    start: T::Vector,
    [y, x]: [usize; 2],
) -> [[T::Vector; V]; R] {
    let mut sums = [[start; V]; R];
    for i in 0..S * (R - 1) + K {
        // SAFETY: by this function's condition.
        let pixels = unsafe { from.read::<V>(y + i, x) };
        for k in 0..K {
            for r in 0..R {
                if i >= S * r && i < S * r + K {
                    for v in 0..V {
                        sums[r][v] = pixels[v][k].mul_add(factors[i - S * r][k], sums[r][v]);
                    }
                }
            }
        }
    }
    sums
}

/// Any kernel, two vectors at a time: their multiply-adds are independent, so the latency of one hides that of the other.
///
/// # Safety
/// - As [`square_kernel`].
#[inline(always)]
unsafe fn any_kernel<I: Isa, T: FloatLanes<I>>(rows: ForwardRows<'_, T>, tile: PaddedTile, from: *const T) {
    let ForwardRows { conv, weight, start, to, strides: [row, pixel], .. } = rows;
    let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
    for y in 0..height {
        for x in (0..width).step_by(2 * lanes) {
            let left = [lanes.min(width - x), lanes.min((width - x).saturating_sub(lanes))];
            let mut sums = [T::Vector::splat(start.widen()); 2];
            // SAFETY: as for `square_kernel`; the second vector is read only where it has elements.
            unsafe {
                for ky in 0..conv.kernel[1] {
                    let pixels = from.add((y * conv.stride[1] + ky * conv.dilation[1]) * tile.pitch + x);
                    for kx in 0..conv.kernel[2] {
                        let factor = T::Vector::splat((*weight.add(ky * conv.kernel[2] + kx)).widen());
                        let pixels = pixels.add(tile.column(kx * conv.dilation[2]));
                        sums[0] = T::load(pixels).mul_add(factor, sums[0]);
                        if left[1] > 0 {
                            sums[1] = T::load(pixels.add(lanes)).mul_add(factor, sums[1]);
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

/// Stores the first `count` lanes.
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
            I::prefetch(to.cast::<u8>().wrapping_add(PREFETCH_DISTANCE));
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
