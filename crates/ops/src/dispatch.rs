//! The dispatcher: selects the kernel of a call by the highest dispatch key of its arguments, with one table look-up.
//!
//! [`Operator::select`] applies the thread's inclusions and exclusions to the union of the arguments' key sets, and reads the slot of
//! the highest key in the operator's table. An empty slot is filled by the first of these that exists:
//!
//! 1. a kernel of the operator's own signature, from its declaration ([`operator!`](crate::operator)) or registered for it by another
//!    crate ([`register!`](crate::register));
//! 2. a boxed kernel for this operator and key ([`BoxedRegistration`]);
//! 3. a composite kernel;
//! 4. the boxed fallback of the key, which serves all operators.
//!
//! A key above the backends without any of these is skipped from then on. The keys of layouts and of batched tensors are exceptions:
//! such tensors have no strided elements of their own, so a call without a kernel is an error that names operator and key.
//!
//! An operator is identified by its address, so that an operator of another crate with the same name has kernels of its own. Names are
//! for look-up only: [`registry`](crate::registry). Two kernels for one key are an error that names both locations, unless one of them
//! is registered as [`overriding`](Registration::overriding).
//!
//! A boxed kernel takes its arguments as a list of values. For each operator one small function packs the list
//! ([`boxing!`](crate::boxing)); it is in the slot of keys whose kernel is boxed, so that other calls pay nothing.

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
pub(crate) use boxed_kernel::fallback;
pub use boxed_kernel::{BoxedKernel, BoxedRegistration, Call, has_fallback, register_fallback};
pub use flambeau_core::{DispatchKey, DispatchKeySet, ThreadKeysGuard};
pub use flambeau_schema::{Argument, BaseType, FunctionSchema, Type};
#[doc(hidden)]
pub use inventory;
pub use kernel::{Kernel, KernelFn};
pub use observed::Observed;
pub(crate) use operator::takes_composites_apart;
pub use operator::{Operator, OperatorInfo};
pub use operator_macro::name_of;
pub use registration::Registration;

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
