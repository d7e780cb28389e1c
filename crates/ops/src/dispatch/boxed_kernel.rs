//! Kernels that take their arguments in a list: one function may serve any operator, or all that a key has no kernel for.

use super::boxed::Value;
use super::operator::{Operator, OperatorInfo};
use super::registration::TableAddress;
use crate::append_list::AppendList;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, ThreadKeysGuard, bail};
use std::panic::Location;

/// A kernel for operators of any signature.
pub trait BoxedKernel: Send + Sync {
    /// The results of a call, one value for each; none where the operator returns what it wrote.
    ///
    /// # Errors
    /// The kernel's own.
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>>;

    /// Whether calls select it. A registered kernel is never freed; one that is no longer in force is skipped, once its operator has
    /// been [told](OperatorInfo::select_again).
    fn is_in_force(&self) -> bool {
        true
    }
}

impl<F: Fn(&Call<'_>) -> Result<Vec<Value>> + Send + Sync> BoxedKernel for F {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        self(call)
    }
}

/// A call of a [`BoxedKernel`].
pub struct Call<'c> {
    /// The operator that is called.
    pub operator: &'static dyn OperatorInfo,
    /// The key that the kernel serves.
    pub key: DispatchKey,
    /// Every argument in the order of the schema.
    pub arguments: &'c [Value],
}

impl Call<'_> {
    /// The results of the kernel of the next lower key for `arguments`: a redispatch.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn below(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        let lower = DispatchKeySet::FULL.below(self.key);
        let _below = ThreadKeysGuard::exclude(DispatchKeySet::FULL.without(lower));
        self.operator.call_boxed(arguments)
    }
}

/// A boxed kernel for a key, of one operator or of all that have no other, registered at link time.
pub struct BoxedRegistration {
    operator: Option<TableAddress>,
    key: DispatchKey,
    kernel: &'static dyn BoxedKernel,
    location: &'static Location<'static>,
}

inventory::collect!(BoxedRegistration);

impl BoxedRegistration {
    /// `kernel` for calls of `operator` whose highest key is `key`.
    #[track_caller]
    pub const fn new<F: Send + Sync>(
        operator: &'static Operator<F>,
        key: DispatchKey,
        kernel: &'static dyn BoxedKernel,
    ) -> Self {
        let operator = Some(TableAddress::of(&operator.table));
        BoxedRegistration { operator, key, kernel, location: Location::caller() }
    }

    /// `kernel` for calls whose highest key is `key`, of all operators that have no other kernel for it.
    #[track_caller]
    pub const fn fallback(key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Self {
        BoxedRegistration { operator: None, key, kernel, location: Location::caller() }
    }
}

/// The kernel that was registered at link time for `key` of `operator`, or as the key's fallback.
///
/// # Errors
/// `InvalidArgument` where there are two, with the source locations of both.
fn registered(
    operator: Option<TableAddress>,
    name: &str,
    key: DispatchKey,
) -> Result<Option<&'static dyn BoxedKernel>> {
    let all = inventory::iter::<BoxedRegistration>.into_iter();
    let mut found = all.filter(|kernel| kernel.operator == operator && kernel.key == key);
    let first = found.next();
    if let (Some(first), Some(second)) = (first, found.next()) {
        bail!(
            InvalidArgument(name),
            "expected one boxed kernel for {key} but there is one from {} and one from {}",
            first.location,
            second.location
        );
    }
    Ok(first.map(|kernel| kernel.kernel))
}

/// Boxed kernels that are registered at run time. None is removed: a thread may be running a kernel that has been replaced.
pub(super) struct BoxedKernels(AppendList<(DispatchKey, &'static dyn BoxedKernel)>);

impl BoxedKernels {
    pub(super) const fn new() -> Self {
        BoxedKernels(AppendList::new())
    }

    /// The newest kernel for `key`.
    pub(super) fn get(&self, key: DispatchKey) -> Option<&'static dyn BoxedKernel> {
        self.0.iter().find(|(of, kernel)| *of == key && kernel.is_in_force()).map(|(_, kernel)| *kernel)
    }

    pub(super) fn push(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) {
        self.0.push((key, kernel));
    }

    /// The kernel for `key`, registered at run time, or at link time for the operator of this address.
    pub(super) fn of_operator(
        &self,
        operator: TableAddress,
        name: &str,
        key: DispatchKey,
    ) -> Result<Option<&'static dyn BoxedKernel>> {
        match self.get(key) {
            Some(kernel) => Ok(Some(kernel)),
            None => registered(Some(operator), name, key),
        }
    }
}

static FALLBACKS: BoxedKernels = BoxedKernels::new();

/// The fallback of a key.
pub(crate) fn fallback(key: DispatchKey) -> Result<Option<&'static dyn BoxedKernel>> {
    match FALLBACKS.get(key) {
        Some(kernel) => Ok(Some(kernel)),
        None => registered(None, "fallback", key),
    }
}

/// Whether a key has a fallback: one that was registered at run time or at link time.
pub fn has_fallback(key: DispatchKey) -> bool {
    // Two of them are an error of each call.
    !matches!(fallback(key), Ok(None))
}

/// Makes `kernel` the fallback of `key`: it takes calls whose highest key that is, of operators that have no kernel for it. It replaces an
/// earlier fallback. An operator that was once called with a key above the backends, and had no kernel for it, skips the key from then
/// on: such fallbacks must be registered before, or [at link time](BoxedRegistration::fallback).
pub fn register_fallback(key: DispatchKey, kernel: &'static dyn BoxedKernel) {
    FALLBACKS.push(key, kernel);
}
