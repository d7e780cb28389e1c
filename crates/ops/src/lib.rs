//! The Tensor handle, the dispatcher, the iterator and the CPU kernels.

pub mod dispatch;
mod dispatch_types;
pub mod gemm;
pub mod loops;
pub mod native;
#[path = "generated/mod.rs"]
pub mod ops;
pub mod parallel;
pub mod structured;
pub mod tensor;
pub mod tensor_iterator;
pub mod vectorized;

pub use flambeau_core::{Error, ErrorKind, Result};
pub use tensor::Tensor;
