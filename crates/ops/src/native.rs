//! The CPU kernels, in folders by kind; each file is named by its operators.

#[macro_use]
mod formulas;

mod element_bits;
pub mod factory;
pub(crate) mod features;
pub mod fft;
mod guarded_slices;
pub mod index;
pub mod linalg;
pub mod nn;
pub mod pointwise;
pub mod random;
pub mod reduce;
pub mod shape;
mod short_rows;
pub mod sparse;
mod strided_gather;
mod strided_iter;

pub(crate) use features::{with_fft, with_linalg};
