//! What a fork does to the locks here: they are held across it, so that the child finds them free and what they guard whole.
//!
//! Whoever has such a lock [registers](Hooks::register) what is to be done; this module knows none of them. The locks are the
//! standard library's, a word each. `parking_lot` keeps its waiting threads in a table of the process, which a fork may copy
//! while another thread is changing it.
//!
//! A storage's lock cannot be held across: an operator may hold it on another thread, which the child does not have. So a
//! thread of a child waits for such a lock only [for a while](PATIENCE), and then has an error.

#![expect(
    unsafe_code,
    reason = "registers handlers with the C library, and keeps locks from one to the next"
)]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::Duration;

/// How long a thread of a forked child waits for a storage's lock.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

static CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from one that had used this library.
pub(crate) fn in_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Says that a fork is under way on this thread, and on no other.
#[cfg_attr(any(not(unix), loom, miri), allow(dead_code, reason = "made by the handlers alone"))]
pub(crate) struct Forking(PhantomData<*const ()>);

/// What is done before a fork, and after it in the parent and in the child.
#[cfg_attr(any(not(unix), loom, miri), allow(dead_code, reason = "called by the handlers alone"))]
pub(crate) struct Hooks {
    before: fn(&Forking),
    parent: fn(&Forking),
    child: fn(&Forking),
    registered: Once,
}

/// All that are registered. Held across a fork itself, so that there is one fork at a time.
static HOOKS: Mutex<Vec<&'static Hooks>> = Mutex::new(Vec::new());

impl Hooks {
    /// They only lock and unlock, or what is as short; none may register.
    pub(crate) const fn new(before: fn(&Forking), parent: fn(&Forking), child: fn(&Forking)) -> Self {
        Hooks { before, parent, child, registered: Once::new() }
    }

    /// Has forks call them from now on. Like the C library's, those registered last are called first before a fork and last
    /// after it: so whoever takes locks of another module while holding its own registers that module first.
    pub(crate) fn register(&'static self) {
        self.registered.call_once(|| {
            watch();
            lock(&HOOKS).push(self);
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place for a guard during a fork.
pub(crate) struct Kept<T>(UnsafeCell<Option<T>>);

// SAFETY: reached only by `put` and `take`, with the proof that no other thread does so. What is put is taken on the same
// thread, or by the child's copy of it, so that it need not be `Send`.
unsafe impl<T> Sync for Kept<T> {}
// SAFETY: one that is moved is empty, since only what is borrowed for ever is ever filled.
unsafe impl<T> Send for Kept<T> {}

impl<T> Kept<T> {
    pub(crate) const fn new() -> Self {
        Kept(UnsafeCell::new(None))
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

/// A lock that is held across forks, of a static: by its module's [`Hooks`].
pub(crate) struct HeldAcross<T: 'static> {
    mutex: Mutex<T>,
    kept: Kept<MutexGuard<'static, T>>,
}

impl<T> HeldAcross<T> {
    pub(crate) const fn new(value: T) -> Self {
        HeldAcross { mutex: Mutex::new(value), kept: Kept::new() }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.mutex)
    }

    /// Before a fork, with what is done once nobody else sees the value.
    pub(crate) fn hold(&'static self, forking: &Forking, change: impl FnOnce(&mut T)) {
        let mut guard = self.lock();
        change(&mut guard);
        self.kept.put(forking, guard);
    }

    /// After it, with what is done before others see the value again.
    pub(crate) fn release(&'static self, forking: &Forking, change: impl FnOnce(&mut T)) {
        if let Some(mut guard) = self.kept.take(forking) {
            change(&mut guard);
        }
    }

    /// Whether nobody holds it, at some moment of the call.
    pub(crate) fn is_free(&self) -> bool {
        !matches!(self.mutex.try_lock(), Err(TryLockError::WouldBlock))
    }
}

impl<T: fmt::Debug> fmt::Debug for HeldAcross<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutex.fmt(f)
    }
}

/// Where processes do not fork, or there is no telling.
#[cfg(not(all(unix, not(loom), not(miri))))]
fn watch() {}

#[cfg(all(unix, not(loom), not(miri)))]
use handlers::watch;

#[cfg(all(unix, not(loom), not(miri)))]
mod handlers {
    use super::*;

    static HELD: Kept<MutexGuard<'static, Vec<&'static Hooks>>> = Kept::new();

    pub(super) fn watch() {
        static ONCE: Once = Once::new();
        // SAFETY: the handlers are functions for ever, and take nothing. Want of memory leaves forks unnoticed, as they were.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(Some(before), Some(parent), Some(child));
        });
    }

    extern "C" fn before() {
        let hooks = lock(&HOOKS);
        // No other thread is here, nor in `parent` or `child`, for as long as the list is locked.
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
