//! The gradient of one channel's weights: sums of products of the output gradient and the pixels that each weight multiplied.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::padded_tile::PaddedTile;
use super::super::params::Conv;
use super::source::{BLOCK, Channel, InTile, Source};
use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Lanes, Mask, Number, Vector};
use flambeau_core::Element;
use std::mem::MaybeUninit;

/// A bool for each lane.
type Inside<I, T> = <<T as Lanes<I>>::Vector as Vector>::Mask;

/// Elements of a sum before its lanes are added up; no vector has more lanes.
pub(super) const LANES: usize = 16;

/// Sums the products of one channel of an image in lanes and adds them to `sums`, of which each kernel position has [`LANES`].
pub(in super::super) struct WeightGradient<'c, T> {
    pub(super) conv: &'c Conv,
    pub(super) from: Channel<T>,
    /// Rows with adjacent elements, `row` apart.
    pub(super) grad: *const T,
    pub(super) row: isize,
    pub(super) sums: &'c mut [f64],
}

impl<T> CodegenAnchor for WeightGradient<'_, T> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for WeightGradient<'_, T> {
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
/// - Input and gradient are those of the convolution, which has such a kernel.
#[inline(always)]
unsafe fn square_kernel<I: Isa, T: FloatLanes<I> + Element, const K: usize, const S: usize>(
    kernel: WeightGradient<'_, T>,
    from: impl Source<I, T, K>,
) {
    let WeightGradient { conv, grad, row, sums, .. } = kernel;
    let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
    let mut vectors = [[T::Vector::zero(); K]; K];
    for x in (0..width).step_by(lanes) {
        let left = lanes.min(width - x);
        let mut y = 0;
        while y < height {
            let is_block = y + BLOCK <= height;
            // SAFETY: rows of the input and of the gradient.
            unsafe {
                let (position, grad) = ([y * S, x], grad.offset(y as isize * row).add(x));
                vectors = match (is_block, left == lanes) {
                    (true, true) => {
                        block::<I, T, K, S, BLOCK, true>(from, position, grad, row, left, vectors)
                    }
                    (true, false) => {
                        block::<I, T, K, S, BLOCK, false>(from, position, grad, row, left, vectors)
                    }
                    (false, _) => block::<I, T, K, S, 1, false>(from, position, grad, row, left, vectors),
                };
                y += if is_block { BLOCK } else { 1 };
            }
        }
    }
    for (i, vectors) in vectors.into_iter().enumerate() {
        for (k, vectors) in vectors.into_iter().enumerate() {
            add::<I, T>(vectors, &mut sums[(i * K + k) * LANES..][..LANES]);
        }
    }
}

/// Adds the products of `R` rows of the gradient, in the first `left` columns of a vector, to `sums`.
///
/// # Safety
/// - The input has `S * (R - 1) + K` rows from `y` on, and `left` outputs from `x` on; from `grad` on lie `R` rows, `row` apart,
///   of as many elements. `left` is the number of lanes where the vector is `WHOLE`.
#[inline(always)]
unsafe fn block<
    I: Isa,
    T: FloatLanes<I>,
    const K: usize,
    const S: usize,
    const R: usize,
    const WHOLE: bool,
>(
    from: impl Source<I, T, K>,
    [y, x]: [usize; 2],
    grad: *const T,
    row: isize,
    left: usize,
    mut sums: [[T::Vector; K]; K],
) -> [[T::Vector; K]; K] {
    let (zero, inside) = (T::Vector::zero(), Inside::<I, T>::first(left));
    let mut grads = [zero; R];
    // SAFETY: by this function's condition. Lanes past `left` are set to 0 in both factors, which may hold NaN there.
    unsafe {
        for (r, to) in grads.iter_mut().enumerate() {
            *to = load::<I, T, WHOLE>(grad.offset(r as isize * row), left);
        }
        for i in 0..S * (R - 1) + K {
            let [pixels] = from.read::<1>(y + i, x);
            for k in 0..K {
                let pixels = if WHOLE { pixels[k] } else { Vector::select(inside, pixels[k], zero) };
                for r in 0..R {
                    if i >= S * r && i < S * r + K {
                        sums[i - S * r][k] = pixels.mul_add(grads[r], sums[i - S * r][k]);
                    }
                }
            }
        }
    }
    sums
}

/// # Safety
/// - `from` is valid for reading `left` elements, a whole vector of them where it is `WHOLE`.
#[inline(always)]
unsafe fn load<I: Isa, T: FloatLanes<I>, const WHOLE: bool>(from: *const T, left: usize) -> T::Vector {
    // SAFETY: by this function's condition.
    unsafe { if WHOLE { T::load(from) } else { T::load_partial(from, left) } }
}

/// Any kernel, one position at a time.
///
/// # Safety
/// - As [`square_kernel`].
#[inline(always)]
unsafe fn any_kernel<I: Isa, T: FloatLanes<I> + Element>(
    kernel: WeightGradient<'_, T>,
    tile: PaddedTile,
    from: *const T,
) {
    let WeightGradient { conv, grad, row, sums, .. } = kernel;
    let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
    for (position, total) in sums.chunks_exact_mut(LANES).enumerate() {
        let (ky, kx) = (position / conv.kernel[2], position % conv.kernel[2]);
        let mut vectors = T::Vector::zero();
        for y in 0..height {
            for x in (0..width).step_by(lanes) {
                let left = lanes.min(width - x);
                // SAFETY: rows of both. `load_up_to` zeroes the lanes past the end.
                unsafe {
                    let pixels = from.add((y * conv.stride[1] + ky * conv.dilation[1]) * tile.pitch + x);
                    let pixels = pixels.add(tile.column(kx * conv.dilation[2]));
                    let grad = T::load_up_to(grad.offset(y as isize * row).add(x), left);
                    vectors = T::load_up_to(pixels, left).mul_add(grad, vectors);
                }
            }
        }
        add::<I, T>(vectors, total);
    }
}

/// Adds each lane of a vector to its element of `sums`.
#[inline(always)]
fn add<I: Isa, T: FloatLanes<I> + Element>(vector: T::Vector, sums: &mut [f64]) {
    const { assert!(T::Vector::LANES <= LANES) };
    let mut lanes = [MaybeUninit::<u64>::uninit(); LANES];
    let lanes: *mut T = lanes.as_mut_ptr().cast();
    // SAFETY: a vector has at most so many lanes, of at most eight bytes, and all are written.
    unsafe {
        T::store(vector, lanes);
        for (i, sum) in sums.iter_mut().enumerate().take(T::Vector::LANES) {
            *sum += lanes.add(i).read().to_scalar().to_f64();
        }
    }
}
