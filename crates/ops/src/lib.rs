//! The Tensor handle, the dispatcher, the iterator and the CPU kernels.

pub mod gemm;
pub mod parallel;
pub mod vectorized;
