//! Convolutions of each channel by itself, without columns: rows of the output are made of rows of the input, which are read where they
//! lie or from a tile that stays in cache.
#![expect(unsafe_code, reason = "raw operands")]

mod products;
mod rows;
mod source;

pub(super) use products::Products;
pub(super) use rows::{Rows, store};

use super::padded::{Fill, Padded};
use super::product::WORTH_A_THREAD;
use super::shape::Conv;
use super::unfold::{Images, inner};
use crate::gemm::Shared;
use crate::parallel::parallel_for;
use crate::scratch;
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Element, Scalar};
use source::Reader;

/// Channels whose weights have their gradients made together.
const CHANNELS: usize = 8;

/// Elements of a padded channel that a tile holds.
const TILE: usize = 1 << 20;

/// Whether a convolution is one of each channel, over one or two dimensions, of which a padded channel is no larger than a tile.
pub(super) fn suits(conv: &Conv) -> bool {
    let of_each = conv.groups > 1 && conv.channels == 1 && conv.pixels() > 0;
    let padded = |d: usize| conv.padding[d].saturating_mul(2).saturating_add(conv.input[d]);
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    of_each && is_flat && padded(1).saturating_mul(padded(2)) <= TILE && conv.stride[2] <= padded(2)
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
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> Rows<'c, T>: EveryIsa,
{
    let reader = Reader::new(conv, x);
    let work = conv.filters * conv.pixels() * conv.places();
    parallel_for(0..conv.images * conv.groups, (WORTH_A_THREAD / work.max(1)).max(1), |part| {
        let mut room = reader.room();
        for item in part {
            let (image, group) = (item / conv.groups, item % conv.groups);
            // SAFETY: the caller's conditions; items write different channels.
            unsafe {
                let from = reader.channel(image, group, &mut room);
                for channel in group * conv.filters..(group + 1) * conv.filters {
                    let start = match bias {
                        Some((bias, step)) => *bias.at().offset(channel as isize * step),
                        None => T::from_scalar(Scalar::Int(0)),
                    };
                    let (weight, to) = (w.at().add(channel * conv.places()), y.channel(image, channel));
                    let strides = [y.strides[3], y.strides[4]];
                    dispatch(Rows { conv, from, weight, start, to, strides });
                }
            }
        }
    });
}

/// The gradient of the weights: for each the products of the output's gradient with what it was multiplied with, summed in lanes
/// over an image and in f64 over the images.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` takes the weights; nobody else writes them meanwhile.
pub(super) unsafe fn weight<T: Element>(conv: &Conv, gy: Images<T>, x: Images<T>, to: Shared<T>)
where
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> Products<'c, T>: EveryIsa,
{
    let (reader, places) = (Reader::new(conv, x), conv.places());
    // Where pixels of the gradient are apart they are copied.
    let pixels = Conv { input: conv.output, padding: [0; 3], kernel: [1; 3], stride: [1; 3], ..*conv };
    let (copied, is_dense) = (Padded::new(&pixels), gy.strides[4] == 1);
    let channels = conv.groups * conv.filters;
    parallel_for(0..channels, CHANNELS, |part| {
        let (mut room, mut grads) = (reader.room(), (!is_dense).then(|| copied.room::<T>(1)));
        let size = places * products::LANES;
        let mut sums = scratch::filled(0.0, part.len() * size);
        // Images outside: channels lie side by side.
        for item in 0..conv.images * part.len() {
            let (image, channel) = (item / part.len(), part.start + item % part.len());
            let sums = &mut sums[(channel - part.start) * size..][..size];
            // SAFETY: the caller's conditions; the scratch has room.
            unsafe {
                let from = reader.channel(image, channel / conv.filters, &mut room);
                let (mut grad, mut row) = (gy.channel(image, channel).cast_const(), gy.strides[3]);
                if let Some(copy) = &mut grads {
                    let copy = copy.as_mut_ptr::<T>();
                    copied.fill(&pixels, 1, grad, inner(&gy), copy);
                    (grad, row) = (copy, copied.pitch as isize);
                }
                dispatch(Products { conv, from, grad, row, sums });
            }
        }
        for (k, lanes) in sums.chunks_exact(products::LANES).enumerate() {
            let sum = lanes.iter().sum();
            // SAFETY: a weight of these channels, which no other task writes.
            unsafe { *to.at().add(part.start * places + k) = T::from_scalar(Scalar::Float(sum)) };
        }
    });
}
