//! The Tensor handle, the dispatcher, the iterator and the CPU kernels.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod append_list;
pub mod cpu_fallback;
pub mod dispatch;
mod dispatch_types;
mod host_copies;
pub mod loops;
pub mod native;
#[path = "generated/mod.rs"]
pub mod ops;
pub mod registry;
pub mod scratch;
mod snapshot;
pub mod structured;
pub mod tensor;
pub mod tensor_iterator;

pub use flambeau_gemm as gemm;
pub use flambeau_parallel as parallel;
pub use flambeau_vectorized as vectorized;

pub use flambeau_core::{Error, ErrorKind, Result};
pub use tensor::Tensor;
