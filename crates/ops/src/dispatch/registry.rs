//! Kernels that other crates bring at link time, with no call by the user and no dependency upwards.
#![expect(unsafe_code, reason = "a registration carries a function pointer without its type")]

use super::operator::{Operator, to_pointer};
use flambeau_core::DispatchKey;

/// A kernel for an operator, brought by another crate: `inventory::submit!(Registration::new(&ADD_TENSOR, key, kernel));`.
///
/// It takes effect in every program that mentions the registering crate at all.
pub struct Registration {
    name: &'static str,
    key: DispatchKey,
    pointer: *const (),
}

// SAFETY: `pointer` is the address of a function, which any thread may call.
unsafe impl Sync for Registration {}
// SAFETY: as above.
unsafe impl Send for Registration {}

impl Registration {
    /// `function` for calls of `operator` whose highest key is `key`. The operator fixes the function's type.
    pub const fn new<F: Copy + Send + Sync + 'static>(
        operator: &'static Operator<F>,
        key: DispatchKey,
        function: F,
    ) -> Self {
        Registration { name: operator.table.name, key, pointer: to_pointer(function) }
    }
}

inventory::collect!(Registration);

/// The kernel that some crate registered for this operator and key.
pub(super) fn find(name: &str, key: DispatchKey) -> Option<*const ()> {
    inventory::iter::<Registration>.into_iter().find(|r| r.key == key && r.name == name).map(|r| r.pointer)
}
