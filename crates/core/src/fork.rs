//! Locks across `fork`: the forking thread holds this crate's locks during a fork, so that the child finds them free and the data that
//! they guard consistent.
//!
//! A module that has such a lock [registers](Hooks::register) hooks; this module does not know which there are. The locks are the
//! standard library's, a word each. `parking_lot` keeps its waiting threads in a table of the process, which a fork may copy
//! while another thread is changing it.
//!
//! The lock of a storage cannot be held across a fork: an operator may hold it on another thread, which the child does not have. So a
//! thread of a child waits for such a lock for [`CHILD_LOCK_TIMEOUT`] at most, and then returns an error.

#![expect(
    unsafe_code,
    reason = "registers handlers with the C library, and passes lock guards from one handler to the next"
)]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::Duration;

/// How long a thread of a forked child waits for a storage's lock.
pub(crate) const CHILD_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

static CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from one that had used this library.
pub(crate) fn in_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Proof that this thread is forking, and no other thread is.
#[cfg_attr(any(not(unix), loom, miri), allow(dead_code, reason = "made by the handlers alone"))]
pub(crate) struct Forking(PhantomData<*const ()>);

/// Functions that are called before a fork, and after it in the parent and in the child, as `pthread_atfork` has them.
#[cfg_attr(any(not(unix), loom, miri), allow(dead_code, reason = "called by the handlers alone"))]
pub(crate) struct Hooks {
    before: fn(&Forking),
    parent: fn(&Forking),
    child: fn(&Forking),
    registered: Once,
}

/// All hooks that are registered. This lock is itself held across a fork, so that one thread forks at a time.
static HOOKS: Mutex<Vec<&'static Hooks>> = Mutex::new(Vec::new());

impl Hooks {
    /// The functions should only lock and unlock, or do something as short; they must not register hooks.
    pub(crate) const fn new(before: fn(&Forking), parent: fn(&Forking), child: fn(&Forking)) -> Self {
        Hooks { before, parent, child, registered: Once::new() }
    }

    /// Makes forks call these hooks from now on. As with the C library, those registered last are called first before a fork and last
    /// after it: so a module that takes another module's locks while it holds its own must register that module's hooks first.
    pub(crate) fn register(&'static self) {
        self.registered.call_once(|| {
            register_atfork();
            lock(&HOOKS).push(self);
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores a lock guard from the handler before a fork to the handler after it.
pub(crate) struct ForkSlot<T>(UnsafeCell<Option<T>>);

// SAFETY: accessed only by `put` and `take`, with the proof that no other thread does so. The value is taken by the thread that put
// it, or by the child's copy of that thread, so that it need not be `Send`.
unsafe impl<T> Sync for ForkSlot<T> {}
// SAFETY: a slot that can be moved is empty, since `put` needs a `'static` borrow.
unsafe impl<T> Send for ForkSlot<T> {}

impl<T> ForkSlot<T> {
    pub(crate) const fn new() -> Self {
        ForkSlot(UnsafeCell::new(None))
    }

    pub(crate) fn put(&'static self, _: &Forking, value: T) {
        // SAFETY: only one thread forks, and no reference from here outlives a call.
        unsafe { *self.0.get() = Some(value) };
    }

    pub(crate) fn take(&'static self, _: &Forking) -> Option<T> {
        // SAFETY: as for `put`.
        unsafe { (*self.0.get()).take() }
    }
}

/// A lock in a static that its module's [`Hooks`] hold across forks.
pub(crate) struct ForkSafeMutex<T: 'static> {
    mutex: Mutex<T>,
    slot: ForkSlot<MutexGuard<'static, T>>,
}

impl<T> ForkSafeMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        ForkSafeMutex { mutex: Mutex::new(value), slot: ForkSlot::new() }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.mutex)
    }

    /// Called before a fork: locks, and then applies `change` to the value.
    pub(crate) fn hold(&'static self, forking: &Forking, change: impl FnOnce(&mut T)) {
        let mut guard = self.lock();
        change(&mut guard);
        self.slot.put(forking, guard);
    }

    /// Called after a fork: applies `change` to the value, and then unlocks.
    pub(crate) fn release(&'static self, forking: &Forking, change: impl FnOnce(&mut T)) {
        if let Some(mut guard) = self.slot.take(forking) {
            change(&mut guard);
        }
    }

    /// Whether no thread held it, at some moment of the call.
    pub(crate) fn is_free(&self) -> bool {
        !matches!(self.mutex.try_lock(), Err(TryLockError::WouldBlock))
    }
}

impl<T: fmt::Debug> fmt::Debug for ForkSafeMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutex.fmt(f)
    }
}

/// On systems without `fork`, and under tools that do not support `pthread_atfork`.
#[cfg(not(all(unix, not(loom), not(miri))))]
fn register_atfork() {}

#[cfg(all(unix, not(loom), not(miri)))]
use handlers::register_atfork;

#[cfg(all(unix, not(loom), not(miri)))]
mod handlers {
    use super::*;

    static HELD: ForkSlot<MutexGuard<'static, Vec<&'static Hooks>>> = ForkSlot::new();

    pub(super) fn register_atfork() {
        static ONCE: Once = Once::new();
        // SAFETY: the handlers are functions of the program, without arguments. If registering fails for lack of memory, forks are not
        // handled, as before.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(Some(before), Some(parent), Some(child));
        });
    }

    extern "C" fn before() {
        let hooks = lock(&HOOKS);
        // While the list is locked, no other thread runs this function, `parent` or `child`.
        let forking = Forking(PhantomData);
        hooks.iter().rev().for_each(|hooks| (hooks.before)(&forking));
        HELD.put(&forking, hooks);
    }

    extern "C" fn parent() {
        after(|hooks| hooks.parent);
    }

    extern "C" fn child() {
        CHILD.store(true, Ordering::Relaxed);
        after(|hooks| hooks.child);
    }

    fn after(which: fn(&Hooks) -> fn(&Forking)) {
        let forking = Forking(PhantomData);
        if let Some(hooks) = HELD.take(&forking) {
            hooks.iter().for_each(|hooks| which(hooks)(&forking));
        }
    }
}
