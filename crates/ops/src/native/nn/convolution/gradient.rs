//! The gradients of a convolution as products of matrices.
#![expect(unsafe_code, reason = "raw operands")]

use super::product::{Tiles, WORTH_A_THREAD, pitch};
use super::shape::Conv;
use super::unfold::{Accumulate, Images, fold, unfold};
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, Shared, gemm};
use crate::parallel::parallel_for;
use flambeau_core::Element;
use std::ops::{Add, Range};

/// The weights `[group][filter][channel][kz][ky][kx]` as those of the flipped convolution, `[group][channel][filter]` with the
/// kernel turned around in every dimension.
///
/// # Safety
/// - Both hold every weight of `conv`, `from` readable, `to` writable.
pub(super) unsafe fn flip<T: Copy>(conv: &Conv, from: *const T, to: *mut T) {
    let place = conv.places();
    for group in 0..conv.groups {
        for filter in 0..conv.filters {
            for channel in 0..conv.channels {
                let source = ((group * conv.filters + filter) * conv.channels + channel) * place;
                let target = ((group * conv.channels + channel) * conv.filters + filter) * place;
                for k in 0..place {
                    // SAFETY: inside both.
                    unsafe { *to.add(target + k) = *from.add(source + place - 1 - k) }
                }
            }
        }
    }
}

/// The gradient of the input, which holds zeros before: each pixel's share of the products, added where it was read.
///
/// # Safety
/// - `gy` and the contiguous `w` are readable as `conv` says, `gx` is writable; nobody else writes them meanwhile.
/// - The rows of `gy` are even.
pub(super) unsafe fn input<T: GemmElement + Element + Accumulate>(
    conv: &Conv,
    gy: Images<T>,
    w: Shared<T>,
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

/// In how many parts the images are summed before the parts are: by sizes alone.
pub(super) fn parts(conv: &Conv) -> usize {
    const MOST: usize = 1 << 21;
    conv.images.min(8).min(MOST / weights(conv).max(1)).max(1)
}

fn weights(conv: &Conv) -> usize {
    conv.groups * conv.filters * conv.depth()
}

/// The gradient of the weights, summed over the images: `partial` has room for them once for each of [`parts`], and the
/// result is in the first.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `partial` writable; nobody else writes them meanwhile.
/// - The rows of `gy` are even.
pub(super) unsafe fn weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, partial: Shared<T>)
where
    T: GemmElement + Element + Add<Output = T>,
{
    let (count, size) = (parts(conv), weights(conv));
    parallel_for(0..count, 1, |part| {
        for index in part {
            let images = index * conv.images / count..(index + 1) * conv.images / count;
            // SAFETY: the caller's conditions; each part has room of its own.
            unsafe { weight_of(conv, gy, x, images, partial.at().add(index * size)) }
        }
    });
    // SAFETY: each part has its sums.
    unsafe { add_parts(count, size, partial) }
}

/// Adds the sums of all parts, of `size` elements each, in the first, from the first to the last.
///
/// # Safety
/// - The parts are there, and nobody else uses them meanwhile.
pub(super) unsafe fn add_parts<T: Element + Add<Output = T>>(count: usize, size: usize, parts: Shared<T>) {
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

/// The gradient of the bias: the sums of `gy` over images and pixels, a product with ones.
///
/// # Safety
/// - `gy` is readable, with even rows; `ones` holds a one for each pixel, `to` room for each filter.
pub(super) unsafe fn bias<T: GemmElement + Element>(conv: &Conv, gy: Images<T>, ones: *const T, to: *mut T) {
    let (m, k) = (conv.groups * conv.filters, conv.pixels());
    for image in 0..conv.images {
        let plain = Gemm::contiguous(m, 1, k, gy.pixel(image, 0, 0), ones, to);
        let beta = if image == 0 { plain.beta } else { plain.alpha };
        // SAFETY: the caller's conditions.
        unsafe { gemm(Isa::detected(), &Gemm { a_strides: [gy.strides[1], gy.strides[4]], beta, ..plain }) }
    }
}
