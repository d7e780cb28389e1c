//! The weights of a convolution, read as they are stored, or flipped for the input gradient.
#![expect(unsafe_code, reason = "raw operands")]

use super::params::Conv;
use crate::gemm::SendPtr;

/// Weights of `filters x channels` kernels, each with its positions contiguous.
#[derive(Clone, Copy)]
pub(super) struct Weights<T> {
    pub(super) ptr: SendPtr<T>,
    /// Of filters and of channels.
    pub(super) strides: [usize; 2],
    /// Whether kernel positions are read in reverse order.
    pub(super) flipped: bool,
}

impl<T: Copy> Weights<T> {
    /// The contiguous weights of `conv`.
    pub(super) fn new(conv: &Conv, ptr: SendPtr<T>) -> Self {
        Weights { ptr, strides: [conv.depth(), conv.kernel_numel()], flipped: false }
    }

    /// The weights of [`Conv::flipped`], which are those of `conv` with filters and channels exchanged.
    pub(super) fn flipped(conv: &Conv, ptr: SendPtr<T>) -> Self {
        Weights { ptr, strides: [conv.kernel_numel(), conv.depth()], flipped: true }
    }

    /// Those of a group of `conv`, or of its flipped form.
    pub(super) fn of_group(&self, conv: &Conv, group: usize) -> Self {
        Weights { ptr: SendPtr(self.ptr.at().wrapping_add(group * conv.filters * conv.depth())), ..*self }
    }

    /// One weight.
    ///
    /// # Safety
    /// - The weights are readable, and those of `conv`, which has this filter, channel and kernel position.
    pub(super) unsafe fn get(&self, conv: &Conv, filter: usize, channel: usize, position: usize) -> T {
        let position = if self.flipped { conv.kernel_numel() - 1 - position } else { position };
        // SAFETY: by this function's condition.
        unsafe { *self.ptr.at().add(filter * self.strides[0] + channel * self.strides[1] + position) }
    }
}
