//! Memory of kernels that runs out, as an error: they unwind with it, and are caught where the guards are taken.

pub use crate::gemm::scratch::{OutOfMemory, Scratch, collect, filled, push, to_vec, with_capacity};
use flambeau_core::allocator::CpuAllocator;
use flambeau_core::{Allocator, Error, Result, fallible};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `kernel`, which may ask for scratch.
///
/// # Errors
/// `OutOfMemory` if there was none, and the kernel's.
pub fn catch<R>(kernel: impl FnOnce() -> Result<R>) -> Result<R> {
    // Nobody sees a value half changed: the kernel's own are dropped, and the guards are given back as by a return.
    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(|payload| match error_of(&*payload) {
        Some(error) => Err(error),
        None => resume_unwind(payload),
    })
}

/// The error for what a kernel unwound with, if it was for want of memory.
#[cold]
pub fn error_of(payload: &(dyn Any + Send)) -> Option<Error> {
    let OutOfMemory { bytes } = payload.downcast_ref()?;
    CpuAllocator.empty_cache(); // For whoever tries again.
    Some(fallible::no_memory(*bytes))
}
