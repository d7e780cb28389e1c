//! What a tensor is, before any operator exists: the values that describe it, the memory that holds it, and the
//! seams where operators and gradients attach.

pub mod allocator;
pub mod autograd_meta;
pub mod backend;
mod barrier;
pub mod blocking;
mod data_ptr;
pub mod device;
pub mod dispatch_key;
pub mod error;
pub mod fallible;
mod fork;
pub mod generator;
pub mod intrusive_ptr;
pub mod layout;
pub mod profiler;
pub mod scalar;
pub mod scalar_type;
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
pub use device::{Device, DeviceType};
pub use dispatch_key::{DispatchKey, DispatchKeySet, ThreadKeysGuard, apply_thread_keys, creation_keys};
pub use error::{Error, ErrorKind, Result};
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
