//! The loops over the terms of each result, with an image in each lane.
#![expect(unsafe_code, reason = "raw operands")]

use super::LANES;
use super::terms::{Pairs, Pixel, Term, Terms};
use crate::vectorized::{CodegenAnchor, Convert, Float, FloatLanes, Isa, Kernel, Number, Vector, dispatch};
use flambeau_core::Element;
use half::{bf16, f16};

/// Vectors of images that are summed together: their multiply-adds are independent, so the latency of one hides that of the others.
const VECTORS: usize = 4;

/// An element of images, and the type in which it is summed.
pub(in super::super) trait ImageElement: Element + Convert {
    type Sum: Sum;
    /// Whether that is the same type.
    const IS_SUM: bool;
}

macro_rules! image_elements {
    ($($t:ty: $sum:ty, $is_sum:literal;)*) => {$(
        impl ImageElement for $t {
            type Sum = $sum;
            const IS_SUM: bool = $is_sum;
        }
    )*};
}
image_elements! {
    f32: f32, true;
    f64: f64, true;
    f16: f32, false;
    bf16: f32, false;
}

/// A type of sums, and the kernels that sum it.
pub(in super::super) trait Sum: Element + Convert {
    /// # Safety
    /// - Those of [`Sums`].
    unsafe fn sums(kernel: Sums<'_, Self>);

    /// # Safety
    /// - Those of [`Products`].
    unsafe fn products(kernel: Products<'_, Self>);
}

macro_rules! sum_types {
    ($($t:ty)*) => {$(
        impl Sum for $t {
            unsafe fn sums(kernel: Sums<'_, Self>) {
                // SAFETY: this function's condition.
                unsafe { dispatch(kernel) }
            }

            unsafe fn products(kernel: Products<'_, Self>) {
                // SAFETY: this function's condition.
                unsafe { dispatch(kernel) }
            }
        }
    )*};
}
sum_types!(f32 f64);

/// The sums over terms of weights times rows of a tile, for a strip of `count` images.
///
/// - `source` and `to` have [`LANES`] elements for each row, those of `source` initialized; `weights` and `starts`, with which the sums
///   begin, are those of the convolution.
pub(in super::super) struct Sums<'a, S> {
    pub(super) terms: &'a Terms,
    pub(super) count: usize,
    pub(super) source: *const S,
    pub(super) weights: &'a [S],
    pub(super) starts: &'a [S],
    pub(super) to: *mut S,
}

impl<S> CodegenAnchor for Sums<'_, S> {
    type Anchor = Self;
}

impl<I: Isa, S: FloatLanes<I>> Kernel<I> for Sums<'_, S> {
    #[inline(always)]
    unsafe fn run(self) {
        let terms = self.terms;
        for first in (0..self.count).step_by(VECTORS * S::Vector::LANES) {
            for group in 0..terms.groups {
                let mut start = 0;
                for pixel in &terms.pixels {
                    // SAFETY: the condition of the type.
                    unsafe { self.pixel::<I>(group, first, pixel, &terms.terms[start..pixel.end]) };
                    start = pixel.end;
                }
            }
        }
    }
}

impl<S> Sums<'_, S> {
    /// A pixel of all channels of a group, two channels at a time, which share what is loaded.
    ///
    /// # Safety
    /// - That of the type; the pixel has these terms.
    #[inline(always)]
    unsafe fn pixel<I: Isa>(&self, group: usize, first: usize, pixel: &Pixel, terms: &[Term])
    where
        S: FloatLanes<I>,
    {
        let all = self.terms;
        let mut channel = 0;
        while channel < all.channels {
            let index = group * all.channels + channel;
            // SAFETY: this function's condition.
            unsafe {
                let source = self.source.add(group * all.source_group + first);
                let weights =
                    self.weights.as_ptr().add(group * all.weight_group + channel * all.weight_channel);
                let to = self.to.add(index * all.result_channel + pixel.row + first);
                if channel + 1 < all.channels {
                    self.sum::<I, 2>(source, weights, index, to, terms);
                } else {
                    self.sum::<I, 1>(source, weights, index, to, terms);
                }
            }
            channel += 2;
        }
    }

    /// The sums of `C` channels from channel `index` on, whose weights begin at `weights`.
    ///
    /// # Safety
    /// - As [`pixel`](Self::pixel).
    #[inline(always)]
    unsafe fn sum<I: Isa, const C: usize>(
        &self,
        source: *const S,
        weights: *const S,
        index: usize,
        to: *mut S,
        terms: &[Term],
    ) where
        S: FloatLanes<I>,
    {
        let (lanes, next) = (S::Vector::LANES, self.terms.weight_channel);
        let mut sums = [[S::Vector::splat(self.starts[index].widen()); VECTORS]; C];
        if C == 2 {
            sums[C - 1] = [S::Vector::splat(self.starts[index + 1].widen()); VECTORS];
        }
        // SAFETY: this function's condition.
        unsafe {
            for term in terms {
                let (row, weight) = (source.add(term.row as usize), weights.add(term.weight as usize));
                for v in 0..VECTORS {
                    let elements = S::load(row.add(v * lanes));
                    for (c, sums) in sums.iter_mut().enumerate() {
                        let weight = S::Vector::splat((*weight.add(c * next)).widen());
                        sums[v] = elements.mul_add(weight, sums[v]);
                    }
                }
            }
            for (c, sums) in sums.into_iter().enumerate() {
                let to = to.add(c * self.terms.result_channel);
                for (v, sum) in sums.into_iter().enumerate() {
                    S::store(sum, to.add(v * lanes));
                }
            }
        }
    }
}

/// Adds the products of rows of output gradients and inputs to the sums of each weight, for a strip of `count` images.
///
/// - All three have [`LANES`] elements for each row or weight, initialized. Lanes after `count` are zeros in the first two.
pub(in super::super) struct Products<'a, S> {
    pub(super) pairs: &'a Pairs,
    pub(super) count: usize,
    pub(super) gradients: *const S,
    pub(super) inputs: *const S,
    pub(super) sums: *mut S,
}

impl<S> CodegenAnchor for Products<'_, S> {
    type Anchor = Self;
}

impl<I: Isa, S: FloatLanes<I>> Kernel<I> for Products<'_, S> {
    #[inline(always)]
    unsafe fn run(self) {
        let pairs = self.pairs;
        for first in (0..self.count).step_by(VECTORS * S::Vector::LANES) {
            for channel in 0..pairs.groups * pairs.channels {
                let mut start = 0;
                for (position, &end) in pairs.ends.iter().enumerate() {
                    // SAFETY: the condition of the type.
                    unsafe { self.position::<I>(channel, first, position, &pairs.pairs[start..end]) };
                    start = end;
                }
            }
        }
    }
}

impl<S> Products<'_, S> {
    /// The weights of an input channel at a kernel position, two filters at a time, which share what is loaded.
    ///
    /// # Safety
    /// - That of the type; the position has these pairs.
    #[inline(always)]
    unsafe fn position<I: Isa>(&self, channel: usize, first: usize, position: usize, pairs: &[[u32; 2]])
    where
        S: FloatLanes<I>,
    {
        let all = self.pairs;
        let (group, positions) = (channel / all.channels, all.ends.len());
        let mut filter = 0;
        while filter < all.filters {
            let index = group * all.filters + filter;
            let weight = (index * all.channels + channel % all.channels) * positions + position;
            // SAFETY: this function's condition.
            unsafe {
                let gradients = self.gradients.add(index * all.gradient_channel + first);
                let inputs = self.inputs.add(channel * all.input_channel + first);
                let sums = self.sums.add(weight * LANES + first);
                if filter + 1 < all.filters {
                    self.add::<I, 2>(gradients, inputs, sums, pairs);
                } else {
                    self.add::<I, 1>(gradients, inputs, sums, pairs);
                }
            }
            filter += 2;
        }
    }

    /// Adds the products of `F` filters.
    ///
    /// # Safety
    /// - As [`position`](Self::position).
    #[inline(always)]
    unsafe fn add<I: Isa, const F: usize>(
        &self,
        gradients: *const S,
        inputs: *const S,
        to: *mut S,
        pairs: &[[u32; 2]],
    ) where
        S: FloatLanes<I>,
    {
        let (lanes, all) = (S::Vector::LANES, self.pairs);
        let next = all.channels * all.ends.len() * LANES;
        let mut sums = [[S::Vector::zero(); VECTORS]; F];
        // SAFETY: this function's condition.
        unsafe {
            for (f, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = S::load(to.add(f * next + v * lanes));
                }
            }
            for &[gradient, input] in pairs {
                let (gradient, input) = (gradients.add(gradient as usize), inputs.add(input as usize));
                for v in 0..VECTORS {
                    let elements = S::load(input.add(v * lanes));
                    for (f, sums) in sums.iter_mut().enumerate() {
                        let gradient = S::load(gradient.add(f * all.gradient_channel + v * lanes));
                        sums[v] = elements.mul_add(gradient, sums[v]);
                    }
                }
            }
            for (f, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    S::store(sum, to.add(f * next + v * lanes));
                }
            }
        }
    }
}
