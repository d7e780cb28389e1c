//! The values that a node has saved: its formula borrows them, and a pass that does not retain the graph frees them.
#![expect(
    unsafe_code,
    reason = "borrows what is in the cell without holding a lock, while operators and hooks run"
)]

use flambeau_core::Result;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The values were freed.
const FREED: u32 = u32::MAX;
/// A pass that will free the values runs the formula.
const EXCLUSIVE: u32 = u32::MAX - 1;

/// Values in a cell, with a counter of the passes that borrow them: a number of passes that retain the values, [`EXCLUSIVE`] for one
/// pass that will free them, or [`FREED`].
pub(super) struct Saved<B> {
    users: AtomicU32,
    value: UnsafeCell<Option<B>>,
}

// SAFETY: threads share the value only if `B: Sync` and move it out only if `B: Send`; `users` excludes writes while it is shared.
unsafe impl<B: Send + Sync> Sync for Saved<B> {}

impl<B> Saved<B> {
    #[inline(always)]
    pub(super) fn new(value: B) -> Self {
        Saved { users: AtomicU32::new(0), value: UnsafeCell::new(Some(value)) }
    }

    /// The values, of a node that never frees them.
    ///
    /// # Safety
    /// - (never freed) [`with`](Self::with) is never called on this.
    #[inline]
    pub(super) unsafe fn get(&self) -> Option<&B> {
        // SAFETY: (never freed): nobody changes the value.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// Calls `formula` with the values, which are dropped afterwards unless `keep` is set, another pass is using them, or
    /// the formula failed. `None` if they were freed, or if another pass is about to free them.
    #[inline]
    pub(super) fn with<R>(&self, keep: bool, formula: impl FnOnce(&B) -> Result<R>) -> Option<Result<R>> {
        let exclusive = self.enter(keep)?;
        let mut borrow = Borrow { saved: self, exclusive, consumed: false };
        // SAFETY: nobody changes the value before the borrow ends.
        let value = unsafe { &*self.value.get() }.as_ref()?;
        let result = formula(value);
        borrow.consumed = exclusive && result.is_ok();
        Some(result)
    }

    /// Counts a user; whether that is the one who frees the values.
    #[inline]
    fn enter(&self, keep: bool) -> Option<bool> {
        let mut seen = self.users.load(Ordering::Relaxed);
        loop {
            let next = match seen {
                FREED | EXCLUSIVE => return None,
                0 if !keep => EXCLUSIVE,
                users => users + 1,
            };
            match self.users.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(next == EXCLUSIVE),
                Err(now) => seen = now,
            }
        }
    }
}

/// Ends the use when it is dropped, even where the formula panics.
struct Borrow<'a, B> {
    saved: &'a Saved<B>,
    exclusive: bool,
    consumed: bool,
}

impl<B> Drop for Borrow<'_, B> {
    #[inline]
    fn drop(&mut self) {
        let users = &self.saved.users;
        match (self.exclusive, self.consumed) {
            (false, _) => {
                users.fetch_sub(1, Ordering::Release);
            }
            (true, false) => users.store(0, Ordering::Release),
            (true, true) => {
                // SAFETY: `users` is `EXCLUSIVE`: there is no other user, and `enter` admits none.
                let value = unsafe { (*self.saved.value.get()).take() };
                users.store(FREED, Ordering::Release);
                drop(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flambeau_core::{Error, ErrorKind};

    #[test]
    fn values_can_be_borrowed_until_a_pass_frees_them() {
        let saved = Saved::new(7);
        assert_eq!(saved.with(true, |v| Ok(*v)).and_then(Result::ok), Some(7));
        let failed = saved.with(false, |_| Err::<(), _>(Error::new(ErrorKind::Autograd, "no")));
        assert!(matches!(failed, Some(Err(_))), "a formula that fails leaves them");
        assert_eq!(saved.with(false, |v| Ok(*v)).and_then(Result::ok), Some(7));
        assert!(saved.with(true, |v| Ok(*v)).is_none());
    }

    #[test]
    fn nobody_frees_what_another_pass_uses() {
        let saved = Saved::new(String::from("kept"));
        let outer = saved.with(true, |outer| {
            let inner = saved.with(false, |inner| Ok(inner.len()));
            assert!(matches!(inner, Some(Ok(4))));
            Ok(outer.clone())
        });
        assert!(matches!(outer, Some(Ok(text)) if text == "kept"));
        let going = saved.with(false, |_| Ok(saved.with(true, |_| Ok(())).is_none()));
        assert!(matches!(going, Some(Ok(true))), "a second pass meanwhile is refused");
    }
}
