//! Writes that do not count: those through PyTorch's `x.data`, which saved variables do not notice.
//!
//! Such a write leaves the version as it is. A count that was taken back afterwards would be seen meanwhile: another thread could save a
//! tensor with the higher version, and a later write would reach that version again and go unnoticed.

use crate::storage::{Storage, StorageImpl};
use std::cell::Cell;

#[cfg(not(loom))]
thread_local! {
    /// The address of the storage whose writes by this thread do not count, or 0.
    static UNCOUNTED: Cell<usize> = const { Cell::new(0) };
}

#[cfg(loom)]
loom::thread_local! {
    static UNCOUNTED: Cell<usize> = Cell::new(0);
}

/// Calls `body`, whose writes to `storage` on this thread do not advance its version. Writes of other threads count as ever.
///
/// ```
/// use flambeau_core::{Device, storage::Storage, storage_guards::{WriteGuard, uncounted}};
///
/// let storage = Storage::new(64, Device::CPU)?;
/// uncounted(&storage, || WriteGuard::acquire(&storage).map(drop))?;
/// assert_eq!(storage.version(), 0);
/// drop(WriteGuard::acquire(&storage)?);
/// assert_eq!(storage.version(), 1);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn uncounted<R>(storage: &Storage, body: impl FnOnce() -> R) -> R {
    storage.ask_what_counts();
    let _scope = Scope { before: UNCOUNTED.with(|address| address.replace(storage.address())) };
    body()
}

/// Ends a call of [`uncounted`], also by a panic.
struct Scope {
    before: usize,
}

impl Drop for Scope {
    fn drop(&mut self) {
        UNCOUNTED.with(|address| address.set(self.before));
    }
}

/// Whether this thread's writes to a storage advance its version.
pub(crate) fn counts(storage: &StorageImpl) -> bool {
    // While a thread exits nothing is uncounted.
    UNCOUNTED.try_with(|address| address.get() != storage.address()).unwrap_or(true)
}

/// Counts a write, if it counts. The caller holds the exclusive lock.
pub(super) fn count_write(storage: &StorageImpl) {
    if storage.is_plain() || counts(storage) {
        storage.advance_version();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
