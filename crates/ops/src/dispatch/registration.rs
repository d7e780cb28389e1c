//! Kernels that other crates register at link time, with no call by the user and no dependency upwards.
#![expect(unsafe_code, reason = "an operator is known by its address")]

use super::kernel::KernelEntry;
use flambeau_core::{DispatchKey, Result, bail};
use std::panic::Location;

/// A kernel for an operator, registered by another crate: [`register!`](crate::register).
///
/// It takes effect in every program that mentions the registering crate at all. The operator is known by its address, not by its
/// name: another one of the same name has kernels of its own.
pub struct Registration {
    pub(super) operator: TableAddress,
    pub(super) kernel: KernelEntry,
    /// Replaces another kernel for the same key.
    pub(super) overriding: bool,
    /// Where it was written.
    pub(super) location: &'static Location<'static>,
}

inventory::collect!(Registration);

/// Registers a kernel at link time, from any crate: `register!(flambeau_ops::ops::ADD_TENSOR, PrivateUse1, add)`.
#[macro_export]
macro_rules! register {
    ($operator:path, $key:ident, $kernel:expr) => {
        $crate::dispatch::inventory::submit! {
            $crate::dispatch::Registration::new(&$operator, $crate::dispatch::DispatchKey::$key, $kernel)
        }
    };
}

/// The address of an operator's table, by which the operator is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TableAddress(*const ());

// SAFETY: it is compared and never followed.
unsafe impl Sync for TableAddress {}
// SAFETY: as above.
unsafe impl Send for TableAddress {}

impl TableAddress {
    pub(super) const fn of<T>(table: &T) -> Self {
        TableAddress(std::ptr::from_ref(table).cast())
    }
}

/// The kernel for `key` among those of the operator itself, which was defined at `location`, and those that other crates registered
/// for it: the only one, or the only one that overrides others.
///
/// # Errors
/// `InvalidArgument` where there are several, with the source locations of two.
pub(super) fn find(
    operator: TableAddress,
    (name, location): (&str, &'static Location<'static>),
    own: &[KernelEntry],
    key: DispatchKey,
) -> Result<Option<*mut ()>> {
    let mut found: [Option<(*mut (), &Location<'_>)>; 2] = [None, None];
    let own = own.iter().find(|entry| entry.serves(key)).map(|entry| (false, entry.function, location));
    let registered = inventory::iter::<Registration>
        .into_iter()
        .filter(|r| r.operator == operator && r.kernel.serves(key))
        .map(|r| (r.overriding, r.kernel.function, r.location));
    for (overriding, function, location) in own.into_iter().chain(registered) {
        let slot = &mut found[usize::from(overriding)];
        if let Some((_, first)) = slot {
            bail!(
                InvalidArgument(name),
                "expected one kernel for {key} but there is one from {first} and one from {location}; \
                 `Registration::overriding` makes one replace the other"
            );
        }
        *slot = Some((function, location));
    }
    Ok(found[1].or(found[0]).map(|(function, _)| function))
}
