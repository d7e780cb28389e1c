//! The gradients of a convolution as matrix products.
#![expect(unsafe_code, reason = "raw operands")]

use super::im2col_gemm::{Tiles, each_item, pitch};
use super::params::Conv;
use super::unfold::{Accumulate, Images, fold, unfold};
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, SendPtr, gemm};
use crate::native::strided_gather::gather;
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
    let tiles = Tiles::new(conv).sharing();
    let work = conv.filters * conv.depth() * tiles.columns();
    let run = |items: Range<usize>| {
        for item in items {
            let (images, group) = (tiles.images(item / conv.groups), item % conv.groups);
            // SAFETY: the caller's conditions; items write different channels or images.
            unsafe { input_of(conv, gy, w, gx, &tiles, images, group) }
        }
    };
    each_item(tiles.sharings() * conv.groups, work, run);
}

/// The input gradient of some images and one group.
///
/// # Safety
/// - As [`input`].
unsafe fn input_of<T: GemmElement + Element + Accumulate>(
    conv: &Conv,
    gy: Images<T>,
    w: SendPtr<T>,
    gx: Images<T>,
    tiles: &Tiles,
    images: Range<usize>,
    group: usize,
) {
    let pitch = pitch(tiles.columns());
    let mut columns = Scratch::new::<T>(conv.depth() * pitch);
    let columns = columns.as_mut_ptr::<T>();
    let (m, k) = (conv.depth(), conv.filters);
    let weights = w.at().wrapping_add(group * k * m);
    for tile in 0..tiles.per_image() {
        let pixels = tiles.pixels(tile);
        let width = pixels.len();
        // SAFETY: the caller's conditions; the buffer holds the rows.
        unsafe {
            let gradient = Gradients::new(conv, gy, images.clone(), group, pixels.clone());
            let product = Gemm {
                a_strides: [1, m as isize],
                b_strides: gradient.strides,
                c_strides: [pitch as isize, 1],
                ..Gemm::contiguous(m, images.len() * width, k, weights, gradient.first, columns)
            };
            gemm(Isa::detected(), &product);
            for (i, image) in images.clone().enumerate() {
                let (from, to) = (columns.add(i * width), gx.channel(image, group * conv.channels));
                fold(conv, from, pitch, pixels.clone(), to, gx.strides);
            }
        }
    }
}

/// Output gradients of some images and one group as a matrix: a row for each filter, a column for each pixel of each image. That of one
/// image is read where it is, those of several are copied.
struct Gradients<T> {
    first: *const T,
    strides: [isize; 2],
    _copy: Option<Scratch>,
}

impl<T: Copy> Gradients<T> {
    /// # Safety
    /// - As [`input`].
    unsafe fn new(
        conv: &Conv,
        gy: Images<T>,
        images: Range<usize>,
        group: usize,
        pixels: Range<usize>,
    ) -> Self {
        let (filters, width) = (conv.filters, pixels.len());
        if images.len() == 1 {
            let first = gy.pixel(images.start, group * filters, pixels.start).cast_const();
            return Gradients { first, strides: [gy.strides[1], gy.strides[4]], _copy: None };
        }
        let pitch = images.len() * width;
        let mut copy = Scratch::new::<T>(filters * pitch);
        let to = copy.as_mut_ptr::<T>();
        for filter in 0..filters {
            for (i, image) in images.clone().enumerate() {
                let from = gy.pixel(image, group * filters + filter, pixels.start);
                // SAFETY: the pixels of a channel, and room for them.
                unsafe { gather(from, gy.strides[4], to.add(filter * pitch + i * width), width) };
            }
        }
        Gradients { first: to, strides: [pitch as isize, 1], _copy: Some(copy) }
    }
}

/// The number of partial sums over images. It depends on sizes alone, so results do not depend on the number of threads.
pub(super) fn parts(conv: &Conv) -> usize {
    const MAX_ELEMENTS: usize = 1 << 21;
    /// Pixels of a part: those of fewer are too few for the products, and their sum takes as long as to write it.
    const MIN_PIXELS: usize = 128;
    let worth = conv.images.saturating_mul(conv.pixels()) / MIN_PIXELS;
    conv.images.min(8).min(worth).min(MAX_ELEMENTS / weights(conv).max(1)).max(1)
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
    let tiles = Tiles::new(&Conv { images: images.len(), ..*conv }).sharing();
    let pitch = pitch(tiles.columns());
    let (m, n) = (conv.filters, conv.depth());
    let mut columns = Scratch::new::<T>(n * pitch);
    let columns = columns.as_mut_ptr::<T>();
    for item in 0..tiles.count() * conv.groups {
        let (group, tile) = (item / tiles.count(), item % tiles.count());
        let (some, pixels) = tiles.get(tile);
        let (some, width) = (images.start + some.start..images.start + some.end, pixels.len());
        // SAFETY: the caller's conditions; the buffer holds the rows.
        unsafe {
            let gradient = Gradients::new(conv, gy, some.clone(), group, pixels.clone());
            for (i, image) in some.clone().enumerate() {
                let (from, to) = (x.channel(image, group * conv.channels), columns.add(i * width));
                unfold(conv, from, x.strides, pixels.clone(), to, pitch);
            }
            let to = to.wrapping_add(group * m * n);
            let plain = Gemm::contiguous(m, n, some.len() * width, gradient.first, columns, to);
            let product = Gemm {
                a_strides: gradient.strides,
                b_strides: [1, pitch as isize],
                beta: if tile == 0 { plain.beta } else { plain.alpha },
                ..plain
            };
            gemm(Isa::detected(), &product);
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
