//! Weights as they lie, or turned around for the gradient of the input.
#![expect(unsafe_code, reason = "raw operands")]

use super::shape::Conv;
use crate::gemm::Shared;

/// Weights of `filters x channels`, each of all places of the kernel side by side.
#[derive(Clone, Copy)]
pub(super) struct Weights<T> {
    pub(super) at: Shared<T>,
    /// From one filter, and from one channel, to the next.
    pub(super) strides: [usize; 2],
    /// The kernel is taken from back to front.
    pub(super) turned: bool,
}

impl<T: Copy> Weights<T> {
    /// Contiguous ones of `conv`.
    pub(super) fn of(conv: &Conv, at: Shared<T>) -> Self {
        Weights { at, strides: [conv.depth(), conv.places()], turned: false }
    }

    /// Those of the convolution that gives the gradient of the input of `conv`.
    pub(super) fn turned(conv: &Conv, at: Shared<T>) -> Self {
        Weights { at, strides: [conv.places(), conv.depth()], turned: true }
    }

    /// One weight.
    ///
    /// # Safety
    /// - The weights are readable, and those of `conv`, which has this filter, channel and place.
    pub(super) unsafe fn get(&self, conv: &Conv, filter: usize, channel: usize, place: usize) -> T {
        let place = if self.turned { conv.places() - 1 - place } else { place };
        // SAFETY: by this function's condition.
        unsafe { *self.at.at().add(filter * self.strides[0] + channel * self.strides[1] + place) }
    }
}
