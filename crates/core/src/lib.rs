//! What a tensor is, before any operator exists: the values that describe it, the memory that holds it, and the interfaces by which
//! operators and gradients attach to it.
//!
//! # Note: store forwarding
//!
//! A processor keeps stores in a store buffer until they are written to L1. A load whose bytes are still in the buffer is served from
//! there, without delay, if a single store wrote all of them: store forwarding. A load that is wider than the stores, such as a 32-byte
//! load of four fields that 8-byte stores have just written, cannot be served, and stalls until the stores are in L1, which takes ten
//! to twenty cycles, as does everything that depends on it. (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Store
//! Forwarding"; AMD's software optimization guides say the same.)
//!
//! Compilers move a struct by wide loads. A value that is built field by field and then moved, to the heap or out of a function that is
//! not inlined, therefore stalls at the move. An operator on a small tensor takes some tens of nanoseconds, of which such a stall is a
//! large part. Code that every call runs avoids it:
//!
//! - values are built where they stay: `IntrusivePtr::new_in_place`, `AutogradMetaBox::new`, `TensorImpl`'s views;
//! - a struct that may just have been written is copied field by field: `Geometry::copy_from`;
//! - state that is written one word at a time is read one word at a time: `dispatch_key::ThreadKeys`.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod allocator;
pub mod autograd_meta;
pub mod backend;
mod barrier;
pub mod blocking;
pub mod complex;
mod data_ptr;
pub mod device;
pub mod dispatch_key;
pub mod error;
pub mod fallible;
pub mod float8;
mod fork;
pub mod generator;
pub mod intrusive_ptr;
pub mod layout;
pub mod profiler;
pub mod scalar;
pub mod scalar_type;
#[cfg(feature = "serde")]
mod serde_names;
pub mod shape;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod shared_memory;
pub mod sizes_and_strides;
pub mod storage;
pub mod storage_guards;
pub mod storage_lock;
pub mod strided_view;
mod sync;
pub mod tensor_impl;
pub mod tensor_options;

pub use allocator::{Allocator, DataPtr};
pub use autograd_meta::{AutogradMeta, AutogradMetaBox};
pub use complex::Complex;
pub use device::{Device, DeviceType};
pub use dispatch_key::{
    DispatchKey, DispatchKeySet, ThreadKeysGuard, apply_thread_keys, creation_keys, set_included,
};
pub use error::{Error, ErrorKind, Result};
pub use float8::{F8E4M3FN, F8E5M2, F8E8M0FNU};
pub use generator::{Generator, GeneratorState, Philox, manual_seed};
pub use intrusive_ptr::{IntrusivePtr, IntrusiveTarget, ThinPtr, WeakIntrusivePtr};
pub use layout::{Layout, MemoryFormat};
pub use scalar::Scalar;
pub use scalar_type::{Category, Element, ScalarType};
pub use shape::DimVec;
pub use sizes_and_strides::SizesAndStrides;
pub use storage::Storage;
pub use storage_guards::{DeviceGuards, Guarded, ReadGuard, StorageGuards, WriteGuard, with_guards};
pub use storage_lock::Access;
pub use strided_view::StridedView;
pub use tensor_impl::{Geometry, TensorImpl};
pub use tensor_options::{TensorOptions, default_dtype, set_default_dtype};
