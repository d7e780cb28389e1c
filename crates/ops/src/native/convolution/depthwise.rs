//! Convolutions of each channel by itself, without columns: rows of the output are made of rows of the input, which lie padded in a
//! tile that stays in cache.
#![expect(unsafe_code, reason = "raw operands")]

use super::product::WORTH_A_THREAD;
use super::shape::Conv;
use super::unfold::Images;
use crate::gemm::{Scratch, Shared};
use crate::parallel::parallel_for;
use crate::vectorized::{EveryIsa, Float, FloatLanes, Isa, Kernel, Number, Placed, Vector, dispatch};
use flambeau_core::{Element, Scalar};
use std::mem::MaybeUninit;

/// Elements of a padded channel that a tile holds.
const TILE: usize = 1 << 20;

/// Whether a convolution is one of each channel, over one or two dimensions, of which a padded channel is no larger than a tile.
pub(super) fn suits(conv: &Conv) -> bool {
    let of_each = conv.groups > 1 && conv.channels == 1 && conv.pixels() > 0;
    let padded = |d: usize| conv.padding[d].saturating_mul(2).saturating_add(conv.input[d]);
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    of_each && is_flat && padded(1).saturating_mul(padded(2)) <= TILE && conv.stride[2] <= padded(2)
}

/// A channel with its padding. Pixels that the stride leaves apart lie side by side: a row has a part for each remainder of the column
/// by the stride, so that the pixels of one place in the kernel are dense.
#[derive(Clone, Copy)]
struct Padded {
    rows: usize,
    /// Elements of a part.
    part: usize,
    pitch: usize,
    stride: usize,
}

impl Padded {
    fn new(conv: &Conv) -> Self {
        let stride = conv.stride[2];
        let part = (conv.input[2] + 2 * conv.padding[2]).div_ceil(stride);
        Padded { rows: conv.input[1] + 2 * conv.padding[1], part, pitch: part * stride, stride }
    }

    fn len(self) -> usize {
        self.rows * self.pitch
    }

    /// Where the element of a padded column is in its row.
    #[inline(always)]
    fn column(self, x: usize) -> usize {
        if self.stride == 1 { x } else { x % self.stride * self.part + x / self.stride }
    }

    /// # Safety
    /// - `from` is readable as the input of `conv`, and `to` takes [`len`](Self::len) elements.
    unsafe fn fill<T: Element>(self, conv: &Conv, from: *const T, strides: [isize; 5], to: *mut T) {
        let zero = T::from_scalar(Scalar::Int(0));
        // SAFETY: by this function's conditions.
        unsafe {
            std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<T>>(), self.len())
                .fill(MaybeUninit::new(zero));
            for y in 0..conv.input[1] {
                let from = from.offset(y as isize * strides[3]);
                let to = to.add((y + conv.padding[1]) * self.pitch);
                if strides[4] == 1 && self.stride == 1 {
                    to.add(conv.padding[2]).copy_from_nonoverlapping(from, conv.input[2]);
                    continue;
                }
                for x in 0..conv.input[2] {
                    let value = *from.offset(x as isize * strides[4]);
                    to.add(self.column(x + conv.padding[2])).write(value);
                }
            }
        }
    }
}

/// The output of a convolution.
///
/// # Safety
/// - `x`, `w` (contiguous) and `bias` are readable as `conv` says, `y` writable, and nobody else writes them meanwhile.
pub(super) unsafe fn forward<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: Shared<T>,
    bias: Option<(Shared<T>, isize)>,
    y: Images<T>,
) where
    for<'c> Rows<'c, T>: EveryIsa,
{
    let tile = Padded::new(conv);
    let work = conv.filters * conv.pixels() * conv.places();
    parallel_for(0..conv.images * conv.groups, (WORTH_A_THREAD / work.max(1)).max(1), |part| {
        let mut scratch = Scratch::new::<T>(tile.len());
        let from = scratch.as_mut_ptr::<T>();
        for item in part {
            let (image, group) = (item / conv.groups, item % conv.groups);
            // SAFETY: the caller's conditions; the scratch has room, and items write different channels.
            unsafe {
                tile.fill(conv, x.channel(image, group), x.strides, from);
                for channel in group * conv.filters..(group + 1) * conv.filters {
                    let start = match bias {
                        Some((bias, step)) => *bias.at().offset(channel as isize * step),
                        None => T::from_scalar(Scalar::Int(0)),
                    };
                    let (weight, to) = (w.at().add(channel * conv.places()), y.channel(image, channel));
                    let strides = [y.strides[3], y.strides[4]];
                    dispatch(Rows { conv, tile, from, weight, start, to, strides });
                }
            }
        }
    });
}

/// One channel of the output.
pub(super) struct Rows<'c, T> {
    conv: &'c Conv,
    tile: Padded,
    from: *const T,
    weight: *const T,
    /// What the sums begin with.
    start: T,
    to: *mut T,
    strides: [isize; 2],
}

impl<T> Placed for Rows<'_, T> {
    type Home = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for Rows<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Rows { conv, tile, from, weight, start, to, strides: [row, pixel] } = self;
        let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
        for y in 0..height {
            let mut x = 0;
            while x < width {
                // Two vectors at a time, so that one sum need not wait for the other.
                let left = [lanes.min(width - x), lanes.min((width - x).saturating_sub(lanes))];
                let mut sums = [T::Vector::splat(start.widen()); 2];
                // SAFETY: the tile has these elements, the weights lie side by side, and the output has these pixels.
                unsafe {
                    for ky in 0..conv.kernel[1] {
                        let line = from.add((y * conv.stride[1] + ky * conv.dilation[1]) * tile.pitch + x);
                        for kx in 0..conv.kernel[2] {
                            let factor = *weight.add(ky * conv.kernel[2] + kx);
                            let factor = T::Vector::splat(factor.widen());
                            let line = line.add(tile.column(kx * conv.dilation[2]));
                            sums[0] = T::load_up_to(line, left[0]).mul_add(factor, sums[0]);
                            if left[1] > 0 {
                                sums[1] = T::load_up_to(line.add(lanes), left[1]).mul_add(factor, sums[1]);
                            }
                        }
                    }
                    let to = to.offset(y as isize * row + x as isize * pixel);
                    store::<I, T>(sums[0], to, pixel, left[0]);
                    if left[1] > 0 {
                        store::<I, T>(sums[1], to.offset(lanes as isize * pixel), pixel, left[1]);
                    }
                }
                x += 2 * lanes;
            }
        }
    }
}

/// # Safety
/// - `to` is valid for writing `count` elements, `step` apart.
#[inline(always)]
unsafe fn store<I: Isa, T: FloatLanes<I>>(vector: T::Vector, to: *mut T, step: isize, count: usize) {
    // SAFETY: by this function's condition; a vector has at most 64 lanes of at most eight bytes.
    unsafe {
        if step == 1 {
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

/// The gradient of the weights: for each the products of the output's gradient with what it was multiplied with, summed in lanes
/// over an image and in f64 over the images.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` takes the weights; nobody else writes them meanwhile.
pub(super) unsafe fn weight<T: Element>(conv: &Conv, gy: Images<T>, x: Images<T>, to: Shared<T>)
where
    for<'c> Products<'c, T>: EveryIsa,
{
    let (tile, places) = (Padded::new(conv), conv.places());
    // The gradient is copied too, so that its pixels are dense whatever its strides.
    let pixels = Conv { input: conv.output, padding: [0; 3], kernel: [1; 3], stride: [1; 3], ..*conv };
    let room = Padded::new(&pixels);
    parallel_for(0..conv.groups, 1, |part| {
        let (mut a, mut b) = (Scratch::new::<T>(tile.len()), Scratch::new::<T>(room.len()));
        let (from, grad) = (a.as_mut_ptr::<T>(), b.as_mut_ptr::<T>());
        for channel in part.start * conv.filters..part.end * conv.filters {
            let mut sums = vec![0.0; places];
            for image in 0..conv.images {
                // SAFETY: the caller's conditions; the scratches have room.
                unsafe {
                    tile.fill(conv, x.channel(image, channel / conv.filters), x.strides, from);
                    room.fill(&pixels, gy.channel(image, channel), gy.strides, grad);
                    dispatch(Products { conv, tile, from, grad, sums: &mut sums });
                }
            }
            for (k, sum) in sums.into_iter().enumerate() {
                // SAFETY: a weight of this channel, which no other task writes.
                unsafe { *to.at().add(channel * places + k) = T::from_scalar(Scalar::Float(sum)) };
            }
        }
    });
}

/// The share of one channel of an image.
pub(super) struct Products<'c, T> {
    conv: &'c Conv,
    tile: Padded,
    from: *const T,
    /// Dense rows.
    grad: *const T,
    sums: &'c mut [f64],
}

impl<T> Placed for Products<'_, T> {
    type Home = T;
}

impl<I: Isa, T: FloatLanes<I> + Element> Kernel<I> for Products<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Products { conv, tile, from, grad, sums } = self;
        let (lanes, [_, height, width]) = (T::Vector::LANES, conv.output);
        for (k, sum) in sums.iter_mut().enumerate() {
            let (ky, kx) = (k / conv.kernel[2], k % conv.kernel[2]);
            let mut products = T::Vector::zero();
            for y in 0..height {
                let mut x = 0;
                while x < width {
                    let left = lanes.min(width - x);
                    // SAFETY: both tiles have these elements.
                    unsafe {
                        let line = from.add((y * conv.stride[1] + ky * conv.dilation[1]) * tile.pitch + x);
                        let line = line.add(tile.column(kx * conv.dilation[2]));
                        let grad = T::load_up_to(grad.add(y * width + x), left);
                        // Lanes past the end hold zeros in both.
                        products = T::load_up_to(line, left).mul_add(grad, products);
                    }
                    x += lanes;
                }
            }
            let mut spread = [MaybeUninit::<u64>::uninit(); 64];
            let spread: *mut T = spread.as_mut_ptr().cast();
            // SAFETY: a vector has at most 64 lanes of at most eight bytes, and all are written.
            unsafe {
                T::store(products, spread);
                for i in 0..lanes {
                    *sum += spread.add(i).read().to_scalar().to_f64();
                }
            }
        }
    }
}
