//! Depthwise convolutions, where each group has one input channel: vectors of pixels of an output row are summed from rows of the
//! input, which are read in place, or from a padded tile that stays in the caches.
#![expect(unsafe_code, reason = "raw operands")]

mod forward;
mod source;
mod weight_gradient;

pub(super) use forward::{ForwardRows, store};
pub(super) use weight_gradient::WeightGradient;

use super::im2col_gemm::WORTH_A_THREAD;
use super::padded_tile::{Fill, PaddedTile};
use super::params::Conv;
use super::unfold::{Images, inner};
use crate::gemm::SendPtr;
use crate::parallel::parallel_for;
use crate::scratch;
use crate::vectorized::{EveryIsa, dispatch};
use flambeau_core::{Element, Scalar};
use source::Reader;

/// Channels whose weight gradients one task computes.
const CHANNELS: usize = 8;

/// Elements of a padded channel that a tile holds.
const TILE: usize = 1 << 20;

/// Whether a convolution is depthwise, over one or two dimensions, and a padded channel fits a tile.
pub(super) fn suits(conv: &Conv) -> bool {
    let is_depthwise = conv.groups > 1 && conv.channels == 1 && conv.pixels() > 0;
    let padded = |d: usize| conv.padding[d].saturating_mul(2).saturating_add(conv.input[d]);
    let is_flat = conv.input[0] == 1 && conv.kernel[0] == 1 && conv.padding[0] == 0;
    is_depthwise && is_flat && padded(1).saturating_mul(padded(2)) <= TILE && conv.stride[2] <= padded(2)
}

/// The output of a convolution.
///
/// # Safety
/// - `x`, `w` (contiguous) and `bias` are readable as `conv` says, `y` writable, and no other thread writes them during the call.
pub(super) unsafe fn forward<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) where
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> ForwardRows<'c, T>: EveryIsa,
{
    let reader = Reader::new(conv, x);
    let work = conv.filters * conv.pixels() * conv.kernel_numel();
    parallel_for(0..conv.images * conv.groups, (WORTH_A_THREAD / work.max(1)).max(1), |part| {
        let mut buffer = reader.allocate();
        for item in part {
            let (image, group) = (item / conv.groups, item % conv.groups);
            // SAFETY: the caller's conditions; items write different channels.
            unsafe {
                let from = reader.channel(image, group, &mut buffer);
                for channel in group * conv.filters..(group + 1) * conv.filters {
                    let start = match bias {
                        Some((bias, step)) => *bias.at().offset(channel as isize * step),
                        None => T::from_scalar(Scalar::Int(0)),
                    };
                    let (weight, to) = (w.at().add(channel * conv.kernel_numel()), y.channel(image, channel));
                    let strides = [y.strides[3], y.strides[4]];
                    dispatch(ForwardRows { conv, from, weight, start, to, strides });
                }
            }
        }
    });
}

/// The weight gradient: for each weight the products of the output gradient and the input pixels that the weight multiplied,
/// summed in lanes over an image, and in f64 over the images.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` takes the weights, and no other thread writes them during the call.
pub(super) unsafe fn weight<T: Element>(conv: &Conv, gy: Images<T>, x: Images<T>, to: SendPtr<T>)
where
    for<'c> Fill<'c, T>: EveryIsa,
    for<'c> WeightGradient<'c, T>: EveryIsa,
{
    let (reader, positions) = (Reader::new(conv, x), conv.kernel_numel());
    // A gradient whose pixels are not adjacent is copied.
    let pixels = Conv { input: conv.output, padding: [0; 3], kernel: [1; 3], stride: [1; 3], ..*conv };
    let (copied, is_dense) = (PaddedTile::new(&pixels), gy.strides[4] == 1);
    let channels = conv.groups * conv.filters;
    parallel_for(0..channels, CHANNELS, |part| {
        let (mut buffer, mut grads) = (reader.allocate(), (!is_dense).then(|| copied.allocate::<T>(1)));
        let size = positions * weight_gradient::LANES;
        let mut sums = scratch::filled(0.0, part.len() * size);
        // Images are the outer loop, since channels of an image are adjacent.
        for item in 0..conv.images * part.len() {
            let (image, channel) = (item / part.len(), part.start + item % part.len());
            let sums = &mut sums[(channel - part.start) * size..][..size];
            // SAFETY: the caller's conditions; the buffers are from `reader` and `copied`.
            unsafe {
                let from = reader.channel(image, channel / conv.filters, &mut buffer);
                let (mut grad, mut row) = (gy.channel(image, channel).cast_const(), gy.strides[3]);
                if let Some(copy) = &mut grads {
                    let copy = copy.as_mut_ptr::<T>();
                    copied.fill(&pixels, 1, grad, inner(&gy), copy);
                    (grad, row) = (copy, copied.pitch as isize);
                }
                dispatch(WeightGradient { conv, from, grad, row, sums });
            }
        }
        for (k, lanes) in sums.chunks_exact(weight_gradient::LANES).enumerate() {
            let sum = lanes.iter().sum();
            // SAFETY: a weight of these channels, which no other task writes.
            unsafe { *to.at().add(part.start * positions + k) = T::from_scalar(Scalar::Float(sum)) };
        }
    });
}
