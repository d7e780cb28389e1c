//! Dispatch: the kernel of a call is found by the union of the arguments' keys, the thread's changes to it, the highest key and one
//! table look-up.

mod boxed;
mod boxed_kernel;
mod kernel;
mod observed;
mod operator;
mod operator_macro;
mod registration;
mod schema;

pub use crate::{boxing, observed, operator, register};
pub use boxed::{Arguments, FromValue, FromValues, IntoValues, Parameter, Value};
pub use boxed_kernel::{BoxedKernel, BoxedRegistration, Call, register_fallback};
pub use flambeau_core::{DispatchKey, DispatchKeySet, ThreadKeysGuard};
#[doc(hidden)]
pub use inventory;
pub use kernel::{Kernel, KernelFn};
pub use observed::Observed;
pub use operator::{Operator, OperatorInfo};
pub use operator_macro::name_of;
pub use registration::Registration;
pub use schema::Argument;

use crate::Tensor;
use flambeau_core::Device;

/// An argument that has dispatch keys.
pub trait HasKeys {
    /// The union of the keys of its tensors.
    fn key_set(&self) -> DispatchKeySet;
}

impl HasKeys for Tensor {
    #[inline]
    fn key_set(&self) -> DispatchKeySet {
        Tensor::key_set(self)
    }
}

impl HasKeys for Option<&Tensor> {
    #[inline]
    fn key_set(&self) -> DispatchKeySet {
        self.map_or(DispatchKeySet::EMPTY, Tensor::key_set)
    }
}

impl HasKeys for [Tensor] {
    fn key_set(&self) -> DispatchKeySet {
        self.iter().fold(DispatchKeySet::EMPTY, |keys, t| keys | t.key_set())
    }
}

impl HasKeys for [Option<Tensor>] {
    fn key_set(&self) -> DispatchKeySet {
        self.iter().flatten().fold(DispatchKeySet::EMPTY, |keys, t| keys | t.key_set())
    }
}

/// The keys of a call that makes a tensor: those of its tensor arguments, with the backend of `device` where given, and
/// the CPU's where there is no backend.
#[inline]
pub fn factory_keys(keys: DispatchKeySet, device: Option<Device>) -> DispatchKeySet {
    match device {
        Some(device) => {
            keys.without(DispatchKeySet::BACKENDS) | DispatchKey::dense(device.device_type()).into()
        }
        None if keys.and(DispatchKeySet::BACKENDS).is_empty() => keys | DispatchKey::Cpu.into(),
        None => keys,
    }
}
