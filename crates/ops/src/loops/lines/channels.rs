//! Normalization of channels over a batch: each is normalized as soon as its moments are known, while a cache still has it.
#![expect(
    unsafe_code,
    reason = "reads and writes the rows of contiguous tensors under the guards taken here"
)]

use super::norm::{Affine, Normalize, Shared, parameter, with_parameters};
use super::row::{row, write_row};
use crate::loops::ahead::Asking;
use crate::loops::reduce::{Cascade, MomentElement, Moments, computing_type, moments_asking};
use crate::loops::rows::{Floats, RowKernel, Rows};
use crate::loops::streaming;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar, shape};

/// Bytes of a channel that a second cache holds beside the rows that are on their way.
const MOST: usize = 512 << 10;
/// Channels, so that there are some for each thread.
const LEAST_CHANNELS: usize = 16;
/// Elements of a row, so that it is worth two calls.
const LEAST_ROW: usize = 256;

/// Rows of `n` elements in memory, one for each channel of each image.
#[derive(Clone, Copy)]
struct Channels {
    images: usize,
    channels: usize,
    n: usize,
}

impl Channels {
    /// Of a contiguous tensor whose channels fit a cache.
    fn of(input: &Tensor, out: &Tensor) -> Option<Self> {
        let direct = [input, out].iter().all(|t| t.is_contiguous() && t.dtype() == computing_type(t.dtype()));
        let &[images, channels, ref rest @ ..] = input.sizes() else { return None };
        let n = shape::product(rest) as usize;
        let found = Channels { images: images as usize, channels: channels as usize, n };
        let fits = found.images * n * input.dtype().size() <= MOST;
        let suits = found.images > 0 && found.channels >= LEAST_CHANNELS && n >= LEAST_ROW;
        (direct && fits && suits).then_some(found)
    }

    /// The first element of the row of `channel` in `image`.
    fn start(self, image: usize, channel: usize) -> usize {
        (image * self.channels + channel) * self.n
    }

    /// How many elements after a row, or before, the one begins that is read next; the last one says its own.
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
            let ahead = self.next(image, channel) * size_of::<T>() as isize;
            // SAFETY: a row, by this function's condition.
            unsafe {
                moments_asking(from.add(self.start(image, channel)), self.n, Asking::near(ahead as usize))
            }
        };
        Cascade::of((0..self.images).map(of_row), Moments::join).unwrap_or_default()
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
/// tensors are contiguous, of f32 or f64, and channels neither few nor too long for a cache; else does nothing and returns false.
/// `mean`, `var` and `rstd` are contiguous, one element a channel, of the type of the input.
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
            let streams = streaming::pays(out.numel() as usize * out.dtype().size(), || 1);
            dispatch_all_types!(wide_floats, input.dtype(), "batch_norm", T => {
                let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
                let grain = (GRAIN / (all.images * all.n)).max(1);
                parallel_for(0..all.channels, grain, |range| for channel in range {
                    let (from, to): (*const T, *mut T) = (from.get().cast_const().cast(), to.get().cast());
                    // SAFETY: both tensors have all rows, and the others an element for this channel, which no other thread writes.
                    unsafe {
                        let found = all.moments(from, channel);
                        let variance = found.variance(0.0);
                        let spread = 1.0 / (variance + eps).sqrt();
                        for (to, value) in [(&means, found.mean), (&vars, variance), (&rstds, spread)] {
                            to.get().cast::<T>().add(channel).write(T::from_scalar(Scalar::Float(value)));
                        }
                        let parameters = [parameter(weight, &one), parameter(bias, &zero)]
                            .map(|(of, is_one)| if is_one { of } else { of.add(channel) });
                        all.write((from, to), channel, Normalize(found.mean, spread), parameters, streams);
                    }
                });
                Ok(true)
            })
        },
    )
}
