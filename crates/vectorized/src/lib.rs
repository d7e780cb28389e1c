//! SIMD vectors: arithmetic that is written once and compiled for every instruction set.
//!
//! A formula is generic over a vector, a kernel over an element type and an instruction set, and [`dispatch`] runs
//! the kernel inside one `#[target_feature]` function per set:
//!
//! ```
//! use flambeau_vectorized::{Float, FloatLanes, Isa, Kernel, CodegenAnchor, Vector, dispatch};
//!
//! /// y = exp(-x * x), on lanes.
//! #[inline(always)]
//! fn gaussian<V: Float>(x: V) -> V {
//!     (-(x * x)).exp()
//! }
//!
//! /// Applies it to the `count` elements at `from`.
//! struct Map<T> { from: *const T, to: *mut T, count: usize }
//!
//! impl<T> CodegenAnchor for Map<T> {
//!     type Anchor = Self;
//! }
//!
//! impl<I: Isa, T: FloatLanes<I>> Kernel<I> for Map<T> {
//!     #[inline(always)]
//!     unsafe fn run(self) {
//!         let Map { from, to, count } = self;
//!         let lanes = T::Vector::LANES;
//!         let whole = count - count % lanes;
//!         // SAFETY: both pointers are valid for `count` elements.
//!         unsafe {
//!             for i in (0..whole).step_by(lanes) {
//!                 T::store(gaussian(T::load(from.add(i))), to.add(i));
//!             }
//!             if whole < count {
//!                 let tail = T::load_partial(from.add(whole), count - whole);
//!                 T::store_partial(gaussian(tail), to.add(whole), count - whole);
//!             }
//!         }
//!     }
//! }
//!
//! let x: Vec<f32> = (0..37).map(|i| i as f32 / 10.0).collect();
//! let mut y = vec![0.0f32; 37];
//! // SAFETY: `x` and `y` hold 37 elements each.
//! unsafe { dispatch(Map { from: x.as_ptr(), to: y.as_mut_ptr(), count: 37 }) };
//! assert!((y[20] - (-4.0f32).exp()).abs() < 1e-8);
//! ```
//!
//! # Notes
//!
//! **One formula.** The tail goes through [`Lanes::load_partial`] and the scalar set is a vector of one lane, so a
//! value depends neither on its position nor on the instruction set: the same input gives the same bits. (The sign
//! and payload of a NaN are not part of that.)
//!
//! **Computing type.** f16 and bf16 are loaded into f32 vectors, computed there and rounded once, to nearest even,
//! when stored. `bool` is a lane type with logical arithmetic (`+` is or, `*` is and).
//!
//! **Soundness.** The methods of vectors are safe to call, though they execute instructions that only some
//! processors have. That is sound because a register type can be named only through a [`Lanes`] implementation for
//! its set, the sets' names are not public, and [`Kernel::run`], in which generic code uses them, is unsafe.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod array;
mod complex;
mod convert;
mod isa;
mod lane;
mod lanes;
mod math;
mod plain_loops;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod register;
mod scalar;
pub mod traced;

#[cfg(test)]
mod tests;

pub use convert::{Convert, convert_elements, convert_slice, load_one};
#[cfg(target_arch = "x86_64")]
pub use isa::Avx512;
pub use isa::{
    CapabilityOverride, CodegenAnchor, CpuCapability, EveryIsa, EveryLanes, Isa, Kernel, Scalar,
    cpu_capability, dispatch, override_cpu_capability, prefetch_cache_line,
};
pub use lanes::{
    Bits, ComplexLanes, Float, FloatLanes, Integer, IntegerLanes, Lanes, Mask, Number, Ordered, OrderedLanes,
    Vector,
};
pub use math::FloatElement;
pub use plain_loops::with_processor_vectors;
