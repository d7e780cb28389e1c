//! The derivative of batch and group normalization: the sums of a set of rows that were normalized together, and then its rows, while they
//! are in L2.
#![expect(
    unsafe_code,
    reason = "reads and writes the rows of contiguous tensors under the guards taken here"
)]

use super::norm::with_parameters;
use super::norm_backward::{NormGradient, Sums};
use super::row::Shared;
use super::row::{row, write_row};
use crate::loops::reduce::computing_type;
use crate::loops::rows::Rows;
use crate::loops::streaming;
use crate::parallel::parallel_for;
use crate::snapshot::Snapshot;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::{dispatch, load_one};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar, fallible};

/// The smallest number of elements of a row that is worth two calls.
const MIN_ROW: usize = 32;

/// Contiguous images, and which of their channels were normalized together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelSets {
    pub(crate) images: usize,
    pub(crate) channels: usize,
    /// Elements of a channel of an image: a row.
    pub(crate) area: usize,
    /// How many adjacent channels of an image are a set; `None` for each channel of all images.
    pub(crate) group: Option<usize>,
}

/// The sums of a row: of the gradient, and of its products with the normalized elements.
pub(crate) type RowSums = [f64; 2];

impl ChannelSets {
    fn count(self) -> usize {
        self.group.map_or(self.channels, |group| self.images * self.channels / group)
    }

    /// The numbers of the rows of a set.
    fn rows(self, set: usize) -> impl Iterator<Item = usize> + Clone {
        let (first, step, count) = match self.group {
            Some(group) => (set * group, 1, group),
            None => (set, self.channels, self.images),
        };
        (0..count).map(move |i| first + i * step)
    }

    /// Elements of a set.
    fn numel(self) -> usize {
        self.area * self.group.unwrap_or(self.images)
    }

    /// Whether the tensors have these rows, of the type that is computed in.
    fn suits(self, tensors: [&Tensor; 2]) -> bool {
        let kernel = computing_type(tensors[0].dtype());
        let is_plain = |t: &Tensor| {
            t.is_contiguous() && t.dtype() == kernel && t.storage().is_host() && !t.was_resized()
        };
        self.area >= MIN_ROW && self.images > 0 && self.channels > 0 && tensors.into_iter().all(is_plain)
    }
}

/// The sums of each row, addressed by several threads.
struct SharedSums(*mut RowSums);

// SAFETY: each row belongs to one set, which one thread computes.
unsafe impl Sync for SharedSums {}

impl SharedSums {
    fn at(&self, row: usize) -> *mut RowSums {
        self.0.wrapping_add(row)
    }
}

/// Writes the gradient of the input to `to`, unless it is not needed, and returns the sums of each row. `mean` and `rstd` have an element for
/// each set, `weight` one for each channel, all contiguous and of the type of `input`. `None` where the tensors do not suit.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched; `OutOfMemory`.
pub(crate) fn channel_norm_backward(
    sets: ChannelSets,
    [grad, input]: [&Tensor; 2],
    [mean, rstd]: [&Tensor; 2],
    weight: Option<&Tensor>,
    to: Option<&Tensor>,
) -> Result<Option<Vec<RowSums>>> {
    if !sets.suits([grad, input]) {
        return Ok(None);
    }
    let mut sums = fallible::filled([0.0; 2], sets.images * sets.channels)
        .map_err(|e| e.in_operator("norm_backward"))?;
    let shared_sums = SharedSums(sums.as_mut_ptr());
    let written: &[&Tensor] = to.as_slice();
    let read = [Some(grad), Some(input), Some(mean), Some(rstd), weight];
    with_parameters("norm_backward", &read, written, |guarded| {
        let shared = |tensor| Shared::of(guarded, tensor);
        let [grads, inputs, means, rstds] = [grad, input, mean, rstd].map(shared);
        let (weights, to) = (weight.map(shared), to.map(shared));
        let streams = streaming::should_stream(input.numel() as usize * input.dtype().size(), || 2);
        dispatch_all_types!(wide_floats, input.dtype(), "norm_backward", T => {
            let one = T::from_scalar(Scalar::Int(1));
            let grain = (GRAIN / sets.numel()).max(1);
            parallel_for(0..sets.count(), grain, |range| for set in range {
                let at = |shared: &Shared, index: usize| shared.get().cast_const().cast::<T>().wrapping_add(index);
                // SAFETY: there is an element for each set and for each channel, and `area` for each row; rows are this thread's to write.
                unsafe {
                    let [mean, rstd] = [&means, &rstds].map(|of| load_one(at(of, set)).to_scalar().to_f64());
                    let (first, is_one) = match &weights {
                        Some(weights) => (at(weights, 0), false),
                        None => (&raw const one, true),
                    };
                    let weight = |row: usize| if is_one { first } else { first.wrapping_add(row % sets.channels) };
                    let mut totals = [0.0; 2];
                    for row in sets.rows(set) {
                        let (grad, x) = ((at(&grads, row * sets.area), false), at(&inputs, row * sets.area));
                        let own = dispatch(Sums { grad, x, weight: (&raw const one, true), n: sets.area, mean, rstd });
                        let factor = load_one(weight(row)).to_scalar().to_f64();
                        totals = [0, 1].map(|k| totals[k] + own[k] * factor);
                        shared_sums.at(row).write(own);
                    }
                    let Some(to) = &to else { continue };
                    let [a, b] = totals.map(|total| total / sets.numel() as f64);
                    for number in sets.rows(set) {
                        let start = number * sets.area;
                        let from = [at(&grads, start), at(&inputs, start), weight(number)];
                        let rows = row(from, to.get().cast::<T>().wrapping_add(start), sets.area);
                        let rows = Rows { repeated: [false, false, true], ..rows };
                        write_row::<T, _, 3>(rows, NormGradient(mean, rstd, a, b), streams);
                    }
                    streaming::fence(streams);
                }
            });
            Ok(())
        })
    })?;
    Ok(Some(sums))
}
