//! The operators against references of their own, family by family, in one program: linking one is quicker than a dozen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod accessor;
mod accumulate;
mod arithmetic;
mod boxed_kernels;
mod buffer_reuse;
mod convert;
mod convolution;
mod display;
mod exact;
mod few_indices;
mod gather_scatter;
mod index;
mod loss;
mod matmul;
mod memory;
mod normal;
mod out_of_memory;
mod pointwise;
mod pooling;
mod private;
mod random;
mod recurrent;
mod reduce;
mod registration;
mod row_ops;
mod small_images;
mod sort;
mod sparse;
mod stored_types;
mod streaming;
mod support;
mod transposed;
mod view_in_place;
