//! What a fork does to the locks here: they are held across it, so that the child finds them free and what they guard whole.
//!
//! They are locks of the standard library's, a word each. `parking_lot` keeps its waiting threads in a table of the process,
//! which a fork may copy while another thread is changing it.
//!
//! A storage's lock cannot be held across: an operator may hold it on another thread, which the child does not have. So a
//! thread of a child waits for such a lock only [for a while](PATIENCE), and then has an error.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How long a thread of a forked child waits for a storage's lock.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A lock that is held across forks: of a static, whose handlers are below.
#[derive(Debug)]
pub(crate) struct HeldAcross<T>(Mutex<T>);

/// What is reached under the lock.
pub(crate) type Guard<T> = MutexGuard<'static, T>;

impl<T> HeldAcross<T> {
    pub(crate) const fn new(value: T) -> Self {
        HeldAcross(Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody holds it, at some moment of the call.
    pub(crate) fn is_free(&self) -> bool {
        !matches!(self.0.try_lock(), Err(TryLockError::WouldBlock))
    }
}

#[cfg(all(unix, not(loom), not(miri)))]
pub(crate) use handlers::{in_child, watch};

#[cfg(all(unix, not(loom), not(miri)))]
mod handlers {
    #![expect(unsafe_code, reason = "registers handlers with the C library")]

    use super::Guard;
    use crate::allocator::LocksOfAllocator;
    use crate::generator::{Generator, GeneratorState};
    use crate::storage_lock::LocksOfSleepers;
    use std::cell::RefCell;
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    type Locks = (Guard<GeneratorState>, LocksOfAllocator, LocksOfSleepers);

    thread_local! {
        /// The locks, from before the fork until after it, on the thread that forks.
        static HELD: RefCell<Option<Locks>> = const { RefCell::new(None) };
    }

    static CHILD: AtomicBool = AtomicBool::new(false);

    /// Whether this process was forked from one that had used this library.
    pub(crate) fn in_child() -> bool {
        CHILD.load(Ordering::Relaxed)
    }

    /// Has forks of this process noticed from now on.
    pub(crate) fn watch() {
        static ONCE: Once = Once::new();
        // SAFETY: the handlers are functions for ever, and take nothing. Want of memory leaves forks unnoticed, as they were.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(Some(before), Some(after), Some(child));
        });
    }

    extern "C" fn before() {
        let locks = (Generator::lock_default(), LocksOfAllocator::take(), LocksOfSleepers::take());
        // An exiting thread has no place to keep them, and lets them go.
        let _ = HELD.try_with(|held| held.replace(Some(locks)));
    }

    extern "C" fn after() {
        let _ = HELD.try_with(|held| held.take());
    }

    extern "C" fn child() {
        CHILD.store(true, Ordering::Relaxed);
        let _ = HELD.try_with(|held| {
            if let Some((_generator, mut allocator, _sleepers)) = held.take() {
                allocator.begin_child();
            }
        });
    }
}

/// Where processes do not fork, or there is no telling.
#[cfg(not(all(unix, not(loom), not(miri))))]
pub(crate) fn in_child() -> bool {
    false
}

#[cfg(not(all(unix, not(loom), not(miri))))]
pub(crate) fn watch() {}
