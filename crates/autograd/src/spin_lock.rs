//! A lock for a few words that are read or replaced in nanoseconds: taking it is one atomic update and giving it back none,
//! half of what a mutex needs.
#![expect(unsafe_code, reason = "lends what is in the cell to the one who has set the flag")]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Never held while an operator or somebody else's code runs.
#[derive(Default)]
pub(crate) struct SpinLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only who has set `taken` reaches the value, so it is moved between threads but never shared.
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
        SpinGuard { lock: self, lent: PhantomData }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[cold]
    fn wait(&self) {
        let mut turns = 0u32;
        while self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            turns += 1;
            // Its holder may have been put aside by the system.
            if turns.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// The value, lent to one thread. Shared between threads it lends to several, so `T` itself decides who may do that.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    lent: PhantomData<&'a mut T>,
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

    /// Does not compile where a guard on what one thread may use could be used by two.
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
