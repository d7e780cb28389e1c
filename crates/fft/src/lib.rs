//! Discrete Fourier transforms along one dimension of an array, on slices, without tensors.
//!
//! A complex number is a pair of its parts. The input may have any strides; the output is row-major. Each function transforms all rows of
//! one dimension; a transform of several dimensions is one call for each, the first from the input to the output and the others in place
//! ([`complex_in_place`]). Sums are multiplied by a factor when they are stored, so that normalization takes no pass of its own.
//!
//! Threads take whole rows, and the arithmetic of a row depends on nothing but its length. So results have the same bits for every number
//! of threads, and a row has the same bits alone as among others, whatever its neighbours contain.
//!
//! The transform of a complex row is that of the crate `rustfft`, which only the module `plan` names. Transforms of real rows are made of
//! complex ones here: see `real`. Rows of few elements are transformed side by side, one in each lane of vectors: see `short`.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod buffer;
mod cache;
mod error;
mod float;
mod kinds;
mod plan;
mod real;
mod rows;
mod shape;
mod short;
mod small;
#[cfg(test)]
mod tests;
mod transforms;
mod transpose;

pub use error::OutOfMemory;
pub use float::Float;
pub use plan::Direction;
pub use shape::Shape;
pub use transforms::{complex_in_place, complex_to_complex, complex_to_real, real_to_complex};
