//! The gradients of a convolution as matrix products.
#![expect(unsafe_code, reason = "raw operands")]

use super::im2col_gemm::{Tiles, WORTH_A_THREAD, pitch};
use super::params::Conv;
use super::unfold::{Accumulate, Images, fold, unfold};
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, SendPtr, gemm};
use crate::parallel::parallel_for;
use flambeau_core::Element;
use std::ops::{Add, Range};

/// Copies the weights `[group][filter][channel][kz][ky][kx]` as those of [`Conv::flipped`]: `[group][channel][filter]`, with
/// kernel positions in reverse order.
///
/// # Safety
/// - Both hold every weight of `conv`, `from` readable, `to` writable.
pub(super) unsafe fn flip<T: Copy>(conv: &Conv, from: *const T, to: *mut T) {
    let positions = conv.kernel_numel();
    for group in 0..conv.groups {
        for filter in 0..conv.filters {
            for channel in 0..conv.channels {
                let source = ((group * conv.filters + filter) * conv.channels + channel) * positions;
                let target = ((group * conv.channels + channel) * conv.filters + filter) * positions;
                for k in 0..positions {
                    // SAFETY: inside both.
                    unsafe { *to.add(target + k) = *from.add(source + positions - 1 - k) }
                }
            }
        }
    }
}

/// The input gradient: `weight^T * gy` as columns, which [`fold`] adds to `gx`. `gx` holds zeros before.
///
/// # Safety
/// - `gy` and the contiguous `w` are readable as `conv` says, `gx` is writable, and no other thread writes them during the call.
/// - `gy` has a constant pixel stride.
pub(super) unsafe fn input<T: GemmElement + Element + Accumulate>(
    conv: &Conv,
    gy: Images<T>,
    w: SendPtr<T>,
    gx: Images<T>,
) {
    let tiles = Tiles::new(conv);
    let work = conv.filters * conv.depth() * conv.pixels();
    parallel_for(0..conv.images * conv.groups, (WORTH_A_THREAD / work.max(1)).max(1), |part| {
        for item in part {
            let (image, group) = (item / conv.groups, item % conv.groups);
            let pitch = pitch(tiles.columns());
            let mut columns = Scratch::new::<T>(conv.depth() * pitch);
            let columns = columns.as_mut_ptr::<T>();
            for tile in 0..tiles.per_image() {
                let (_, pixels) = tiles.get(tile);
                let (m, n, k) = (conv.depth(), pixels.len(), conv.filters);
                let weights = w.at().wrapping_add(group * k * m);
                let b = gy.pixel(image, group * k, pixels.start);
                let product = Gemm {
                    a_strides: [1, m as isize],
                    b_strides: [gy.strides[1], gy.strides[4]],
                    c_strides: [pitch as isize, 1],
                    ..Gemm::contiguous(m, n, k, weights, b, columns)
                };
                // SAFETY: the caller's conditions; the buffer holds the rows; items write different channels or images.
                unsafe {
                    gemm(Isa::detected(), &product);
                    fold(conv, columns, pitch, pixels, gx.channel(image, group * conv.channels), gx.strides);
                }
            }
        }
    });
}

/// The number of partial sums over images. It depends on sizes alone, so results do not depend on the number of threads.
pub(super) fn parts(conv: &Conv) -> usize {
    const MAX_ELEMENTS: usize = 1 << 21;
    conv.images.min(8).min(MAX_ELEMENTS / weights(conv).max(1)).max(1)
}

fn weights(conv: &Conv) -> usize {
    conv.groups * conv.filters * conv.depth()
}

/// The weight gradient, summed over images. `partial` holds a partial sum for each of [`parts`]; the result is in the first.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `partial` writable, and no other thread writes them during the call.
/// - `gy` has a constant pixel stride.
pub(super) unsafe fn weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, partial: SendPtr<T>)
where
    T: GemmElement + Element + Add<Output = T>,
{
    let (count, size) = (parts(conv), weights(conv));
    parallel_for(0..count, 1, |part| {
        for index in part {
            let images = index * conv.images / count..(index + 1) * conv.images / count;
            // SAFETY: the caller's conditions; each part has a partial sum of its own.
            unsafe { weight_of(conv, gy, x, images, partial.at().add(index * size)) }
        }
    });
    // SAFETY: every part has been summed.
    unsafe { add_parts(count, size, partial) }
}

/// Adds the partial sums, of `size` elements each, to the first of them, in order.
///
/// # Safety
/// - The partial sums are readable and writable, and no other thread uses them during the call.
pub(super) unsafe fn add_parts<T: Element + Add<Output = T>>(count: usize, size: usize, parts: SendPtr<T>) {
    parallel_for(0..size, 1 << 14, |range| {
        for part in 1..count {
            for i in range.clone() {
                // SAFETY: inside the parts.
                unsafe { *parts.at().add(i) = *parts.at().add(i) + *parts.at().add(part * size + i) }
            }
        }
    });
}

/// # Safety
/// - As [`weight`], for some images and one part.
unsafe fn weight_of<T: GemmElement + Element>(
    conv: &Conv,
    gy: Images<T>,
    x: Images<T>,
    images: Range<usize>,
    to: *mut T,
) {
    let tiles = Tiles::new(conv);
    let pitch = pitch(tiles.columns());
    let (m, n) = (conv.filters, conv.depth());
    let mut columns = Scratch::new::<T>(n * pitch);
    let columns = columns.as_mut_ptr::<T>();
    for image in images.clone() {
        for item in 0..conv.groups * tiles.per_image() {
            let (group, tile) = (item / tiles.per_image(), item % tiles.per_image());
            let (_, pixels) = tiles.get(tile);
            let a = gy.pixel(image, group * m, pixels.start);
            let plain = Gemm::contiguous(m, n, pixels.len(), a, columns, to.wrapping_add(group * m * n));
            let product = Gemm {
                a_strides: [gy.strides[1], gy.strides[4]],
                b_strides: [1, pitch as isize],
                beta: if image == images.start && tile == 0 { plain.beta } else { plain.alpha },
                ..plain
            };
            // SAFETY: the caller's conditions.
            unsafe {
                unfold(conv, x.channel(image, group * conv.channels), x.strides, pixels, columns, pitch);
                gemm(Isa::detected(), &product);
            }
        }
    }
}

/// The bias gradient: the sums of `gy` over images and pixels, as a product with a vector of ones.
///
/// # Safety
/// - `gy` is readable, with a constant pixel stride; `ones` holds a one for each pixel, and `to` has an element for each filter.
pub(super) unsafe fn bias<T: GemmElement + Element>(conv: &Conv, gy: Images<T>, ones: *const T, to: *mut T) {
    let (m, k) = (conv.groups * conv.filters, conv.pixels());
    for image in 0..conv.images {
        let plain = Gemm::contiguous(m, 1, k, gy.pixel(image, 0, 0), ones, to);
        let beta = if image == 0 { plain.beta } else { plain.alpha };
        // SAFETY: the caller's conditions.
        unsafe { gemm(Isa::detected(), &Gemm { a_strides: [gy.strides[1], gy.strides[4]], beta, ..plain }) }
    }
}
