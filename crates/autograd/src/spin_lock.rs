//! A spin lock for a few words that are read or replaced in nanoseconds. Locking takes one atomic read-modify-write and unlocking none,
//! where a mutex needs one for each.
#![expect(unsafe_code, reason = "the thread that has set the flag borrows what is in the cell")]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Never held while an operator or code of the user runs.
#[derive(Default)]
pub(crate) struct SpinLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has set `taken` accesses the value, so it is moved between threads but never shared.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    #[inline(always)]
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        if self.taken.swap(true, Ordering::Acquire) {
            self.wait();
        }
        SpinGuard { lock: self, borrow: PhantomData }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0u32;
        while self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            spins += 1;
            // The thread that holds the lock may have been preempted.
            if spins.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// A mutable borrow of the value. If threads share the guard they share the value, so the guard is `Sync` only if `T` is.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    borrow: PhantomData<&'a mut T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard's is the only access.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    trait AmbiguousIfSync<A> {
        fn check() {}
    }
    struct Shared;
    impl<T> AmbiguousIfSync<()> for T {}
    impl<T: Sync> AmbiguousIfSync<Shared> for T {}

    /// Does not compile if a guard of a value that is not `Sync` were `Sync`.
    const _: fn() = <SpinGuard<'static, Cell<u8>> as AmbiguousIfSync<_>>::check;
    const _: fn() = <SpinGuard<'static, u8> as AmbiguousIfSync<Shared>>::check;

    #[test]
    fn one_at_a_time() {
        let counter = SpinLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut value = counter.lock();
                        let seen = *value;
                        *value = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*counter.lock(), 40_000);
    }
}
