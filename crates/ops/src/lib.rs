//! The Tensor handle, the dispatcher, the iterator and the CPU kernels.

pub mod dispatch;
mod dispatch_types;
pub mod loops;
pub mod native;
#[path = "generated/mod.rs"]
pub mod ops;
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
