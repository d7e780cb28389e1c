//! Runs plain loops as they are compiled for the vectors of the processor: without this they would use those that all processors of the
//! architecture have.
//!
//! Only the width of vectors changes. Products and sums are rounded separately and in the order in which they are written, so results
//! have the same bits for every instruction set.
#![expect(unsafe_code, reason = "enters functions of an instruction set")]

use crate::{CodegenAnchor, Isa, Kernel, dispatch};

/// Loops as a kernel.
struct Loops<F>(F);

impl<F> CodegenAnchor for Loops<F> {
    type Anchor = Self;
}

impl<I: Isa, R, F: FnOnce() -> R> Kernel<I, R> for Loops<F> {
    #[inline(always)]
    unsafe fn run(self) -> R {
        (self.0)()
    }
}

/// Calls `loops`, which is compiled for each instruction set: it, and the functions with loops that it calls, must be
/// `#[inline(always)]`. If they write by pointers, they should be `move`: what a closure borrows is in memory, which the compiler reads again
/// after each write that might have changed it, so that it makes no vectors.
///
/// ```
/// let mut x = [1.0f32, 2.0, 3.0];
/// flambeau_vectorized::with_processor_vectors(#[inline(always)] || x.iter_mut().for_each(|x| *x *= 2.0));
/// assert_eq!(x, [2.0, 4.0, 6.0]);
/// ```
#[inline]
pub fn with_processor_vectors<R>(loops: impl FnOnce() -> R) -> R {
    // SAFETY: the kernel has no conditions.
    unsafe { dispatch(Loops(loops)) }
}
