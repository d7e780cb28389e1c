//! The atomics of the reference counts and the storage lock: the standard ones, or loom's when it explores interleavings.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(all(not(loom), any(miri, not(any(target_os = "linux", target_os = "android")))))]
pub(crate) use std::sync::atomic::fence;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
