//! Scratch memory of kernels. Where it runs out they unwind, and [`catch`] makes an error of that where the guards are taken.

pub use crate::gemm::scratch::{OutOfMemory, Scratch, collect, filled, push, to_vec, with_capacity};
use flambeau_core::allocator::CpuAllocator;
use flambeau_core::{Allocator, Error, Result, fallible};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `kernel`, which may allocate scratch memory.
///
/// # Errors
/// `OutOfMemory`, and the kernel's.
pub fn catch<R>(kernel: impl FnOnce() -> Result<R>) -> Result<R> {
    // No value is left in an inconsistent state: the kernel's own are dropped, and guards are released as by a return.
    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(|payload| match error_of(&*payload) {
        Some(error) => Err(error),
        None => resume_unwind(payload),
    })
}

/// The error for the payload of an unwound kernel, if memory ran out.
#[cold]
pub fn error_of(payload: &(dyn Any + Send)) -> Option<Error> {
    let OutOfMemory { bytes } = payload.downcast_ref()?;
    CpuAllocator.empty_cache(); // So that another try may succeed.
    Some(fallible::no_memory(*bytes))
}
