//! Batch normalization of channels: each is normalized right after its moments are computed, while it is in L2.
#![expect(
    unsafe_code,
    reason = "reads and writes the rows of contiguous tensors under the guards taken here"
)]

use super::norm::{Affine, Normalize, parameter, with_parameters};
use super::row::Shared;
use super::row::{row, write_row};
use crate::loops::prefetch::Prefetch;
use crate::loops::reduce::{Cascade, MomentElement, Moments, computing_type, moments_with_prefetch};
use crate::loops::rows::{Floats, RowKernel, Rows};
use crate::loops::streaming;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar, shape};

/// Bytes of a channel that L2 holds beside the rows that are being prefetched.
const MAX_CHANNEL_BYTES: usize = 512 << 10;
/// The smallest number of channels, so that there are some for each thread.
const MIN_CHANNELS: usize = 16;
/// The smallest number of elements of a row that is worth two calls.
const MIN_ROW: usize = 256;

/// A contiguous tensor of rows of `n` elements, one for each channel of each image.
#[derive(Clone, Copy)]
struct Channels {
    images: usize,
    channels: usize,
    n: usize,
}

impl Channels {
    /// The geometry of `input` and `out`, if both are contiguous, and channels fit L2 and are neither few nor of short rows.
    fn of(input: &Tensor, out: &Tensor) -> Option<Self> {
        let direct = [input, out].iter().all(|t| t.is_contiguous() && t.dtype() == computing_type(t.dtype()));
        let &[images, channels, ref rest @ ..] = input.sizes() else { return None };
        let n = shape::product(rest) as usize;
        let found = Channels { images: images as usize, channels: channels as usize, n };
        let fits = found.images * n * input.dtype().size() <= MAX_CHANNEL_BYTES;
        let suits = found.images > 0 && found.channels >= MIN_CHANNELS && n >= MIN_ROW;
        (direct && fits && suits).then_some(found)
    }

    /// The index of the first element of the row of `channel` in `image`.
    fn start(self, image: usize, channel: usize) -> usize {
        (image * self.channels + channel) * self.n
    }

    /// How many elements lie from the start of a row to the start of the row that is read next, which may be before it; 0 for the last.
    fn next(self, image: usize, channel: usize) -> isize {
        let next = match (image + 1 < self.images, channel + 1 < self.channels) {
            (true, _) => self.start(image + 1, channel),
            (false, true) => self.start(0, channel + 1),
            (false, false) => self.start(image, channel),
        };
        next as isize - self.start(image, channel) as isize
    }

    /// The moments of a channel.
    ///
    /// # Safety
    /// - `from` has all rows.
    unsafe fn moments<T: MomentElement>(self, from: *const T, channel: usize) -> Moments {
        let of_row = |image: usize| {
            let distance = self.next(image, channel) * size_of::<T>() as isize;
            // SAFETY: a row, by this function's condition.
            unsafe {
                moments_with_prefetch(
                    from.add(self.start(image, channel)),
                    self.n,
                    Prefetch::into_l1(distance as usize),
                )
            }
        };
        Cascade::of((0..self.images).map(of_row), Moments::combine).unwrap_or_default()
    }

    /// Writes the normalized rows of a channel.
    ///
    /// # Safety
    /// - `from` and `to` have all rows, and the parameters are those of the channel.
    unsafe fn write<T: Element>(
        self,
        (from, to): (*const T, *mut T),
        channel: usize,
        normalize: Normalize,
        [weight, bias]: [*const T; 2],
        streams: bool,
    ) where
        for<'r> RowKernel<'r, T, Floats<Normalize>, 3>: EveryIsa,
    {
        for image in 0..self.images {
            let start = self.start(image, channel);
            // SAFETY: a row of each, by this function's condition.
            unsafe {
                let rows = row([from.add(start), weight, bias], to.add(start), self.n);
                write_row::<T, _, 3>(Rows { repeated: [false, true, true], ..rows }, normalize, streams);
            }
        }
        streaming::fence(streams);
    }
}

/// Normalizes every channel, which is dimension 1, by its own mean and variance, and writes those and `1 / sqrt(var + eps)`, where the
/// tensors are contiguous, of f32 or f64, and channels neither few nor larger than L2; else does nothing and returns `false`.
/// `mean`, `var` and `rstd` are contiguous, with one element for each channel, of the type of the input.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn batch_norm_channels(
    input: &Tensor,
    affine: Affine<'_>,
    [out, mean, var, rstd]: [&Tensor; 4],
    eps: f64,
) -> Result<bool> {
    let Some(all) = Channels::of(input, out) else { return Ok(false) };
    with_parameters(
        "batch_norm",
        &[Some(input), affine.weight, affine.bias],
        &[out, mean, var, rstd],
        |guarded| {
            let shared = |tensor| Shared::of(guarded, tensor);
            let (weight, bias) = (affine.weight.map(shared), affine.bias.map(shared));
            let [from, to, means, vars, rstds] = [input, out, mean, var, rstd].map(shared);
            let streams = streaming::should_stream(out.numel() as usize * out.dtype().size(), || 1);
            dispatch_all_types!(wide_floats, input.dtype(), "batch_norm", T => {
                let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
                let grain = (GRAIN / (all.images * all.n)).max(1);
                parallel_for(0..all.channels, grain, |range| for channel in range {
                    let (from, to): (*const T, *mut T) = (from.get().cast_const().cast(), to.get().cast());
                    // SAFETY: both tensors have all rows, and the others an element for this channel, which no other thread writes.
                    unsafe {
                        let found = all.moments(from, channel);
                        let variance = found.variance(0.0);
                        let inverse_std = 1.0 / (variance + eps).sqrt();
                        for (to, value) in [(&means, found.mean), (&vars, variance), (&rstds, inverse_std)] {
                            to.get().cast::<T>().add(channel).write(T::from_scalar(Scalar::Float(value)));
                        }
                        let parameters = [parameter(weight, &one), parameter(bias, &zero)]
                            .map(|(of, is_one)| if is_one { of } else { of.add(channel) });
                        all.write((from, to), channel, Normalize(found.mean, inverse_std), parameters, streams);
                    }
                });
                Ok(true)
            })
        },
    )
}
