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
}

impl<F: Fn(&Call<'_>) -> Result<Vec<Value>> + Send + Sync> BoxedKernel for F {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        self(call)
    }
}

/// A call on its way to a [`BoxedKernel`].
pub struct Call<'c> {
    /// What is called.
    pub operator: &'static dyn OperatorInfo,
    /// The key that the kernel serves.
    pub key: DispatchKey,
    /// Every argument in the order of the schema.
    pub arguments: &'c [Value],
}

impl Call<'_> {
    /// What kernels of lower keys make of `arguments`.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn below(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        let lower = DispatchKeySet::FULL.below(self.key);
        let _below = ThreadKeysGuard::exclude(DispatchKeySet::FULL.without(lower));
        self.operator.call_boxed(arguments)
    }
}

/// A boxed kernel of a key, for one operator or for all that have no other, brought at link time.
pub struct BoxedRegistration {
    operator: Option<TableAddress>,
    key: DispatchKey,
    kernel: &'static dyn BoxedKernel,
    place: &'static Location<'static>,
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
        BoxedRegistration { operator, key, kernel, place: Location::caller() }
    }

    /// `kernel` for calls whose highest key is `key`, of all operators that have no other kernel for it.
    #[track_caller]
    pub const fn fallback(key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Self {
        BoxedRegistration { operator: None, key, kernel, place: Location::caller() }
    }
}

/// The kernel that was registered at link time for `key` of `operator`, or as the key's fallback.
///
/// # Errors
/// `InvalidArgument` where there are two, naming the places of both.
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
            InvalidArgument,
            "{name}: expected one boxed kernel for {key} but there is one from {} and one from {}",
            first.place,
            second.place
        );
    }
    Ok(first.map(|kernel| kernel.kernel))
}

/// Boxed kernels in force. Nothing leaves the list: others may be in a kernel that another has replaced.
pub(super) struct BoxedKernels(AppendList<(DispatchKey, &'static dyn BoxedKernel)>);

impl BoxedKernels {
    pub(super) const fn new() -> Self {
        BoxedKernels(AppendList::new())
    }

    /// The newest kernel for `key`.
    pub(super) fn get(&self, key: DispatchKey) -> Option<&'static dyn BoxedKernel> {
        self.0.iter().find(|(of, _)| *of == key).map(|(_, kernel)| *kernel)
    }

    pub(super) fn put(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) {
        self.0.push((key, kernel));
    }

    /// The kernel for `key`, in force or registered at link time for the operator of this address.
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
pub(super) fn fallback(key: DispatchKey) -> Result<Option<&'static dyn BoxedKernel>> {
    match FALLBACKS.get(key) {
        Some(kernel) => Ok(Some(kernel)),
        None => registered(None, "fallback", key),
    }
}

/// Has calls whose highest key is `key`, of operators that have no kernel for it, go to `kernel`. It comes before fallbacks that are
/// there. Keys above the backends are passed by for good once an operator has met one without a kernel: their fallbacks must
/// be registered before, or [at link time](BoxedRegistration::fallback).
pub fn register_fallback(key: DispatchKey, kernel: &'static dyn BoxedKernel) {
    FALLBACKS.put(key, kernel);
}
