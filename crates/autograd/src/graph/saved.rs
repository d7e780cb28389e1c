//! The values that a node has saved: lent to its formula, and gone after a pass that does not keep the graph.
#![expect(unsafe_code, reason = "lends what is in the cell without a lock while operators and hooks run")]

use flambeau_core::Result;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Nothing is there any more.
const FREED: u32 = u32::MAX;
/// A pass that will free the values runs the formula.
const ALONE: u32 = u32::MAX - 1;

/// Values in a cell with a word that says who uses them: a number of passes that keep them, or one that will not.
pub(super) struct Saved<B> {
    users: AtomicU32,
    value: UnsafeCell<Option<B>>,
}

// SAFETY: the value is shared, or moved, only as a `B` may be; `users` sees to it that nobody changes what others see.
unsafe impl<B: Send + Sync> Sync for Saved<B> {}

impl<B> Saved<B> {
    #[inline(always)]
    pub(super) fn new(value: B) -> Self {
        Saved { users: AtomicU32::new(0), value: UnsafeCell::new(Some(value)) }
    }

    /// The values, which nobody will free.
    ///
    /// # Safety
    /// - (kept) [`lend`](Self::lend) is never called on this.
    #[inline]
    pub(super) unsafe fn kept(&self) -> Option<&B> {
        // SAFETY: (kept): nobody changes the value.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// Calls `formula` with the values, which are dropped afterwards unless `keep` is set, another pass is using them, or
    /// the formula failed. `None` if they are gone, or going.
    #[inline]
    pub(super) fn lend<R>(&self, keep: bool, formula: impl FnOnce(&B) -> Result<R>) -> Option<Result<R>> {
        let alone = self.enter(keep)?;
        let mut loan = Loan { saved: self, alone, spent: false };
        // SAFETY: nobody changes the value before the loan ends.
        let value = unsafe { &*self.value.get() }.as_ref()?;
        let result = formula(value);
        loan.spent = alone && result.is_ok();
        Some(result)
    }

    /// Counts a user; answers whether it is to free the values.
    #[inline]
    fn enter(&self, keep: bool) -> Option<bool> {
        let mut seen = self.users.load(Ordering::Relaxed);
        loop {
            let next = match seen {
                FREED | ALONE => return None,
                0 if !keep => ALONE,
                users => users + 1,
            };
            match self.users.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(next == ALONE),
                Err(now) => seen = now,
            }
        }
    }
}

/// Ends the use, even where the formula panics.
struct Loan<'a, B> {
    saved: &'a Saved<B>,
    alone: bool,
    spent: bool,
}

impl<B> Drop for Loan<'_, B> {
    #[inline]
    fn drop(&mut self) {
        let users = &self.saved.users;
        match (self.alone, self.spent) {
            (false, _) => {
                users.fetch_sub(1, Ordering::Release);
            }
            (true, false) => users.store(0, Ordering::Release),
            (true, true) => {
                // SAFETY: `ALONE`: no other user is there, and none can come.
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
    fn values_are_lent_until_a_pass_frees_them() {
        let saved = Saved::new(7);
        assert_eq!(saved.lend(true, |v| Ok(*v)).and_then(Result::ok), Some(7));
        let failed = saved.lend(false, |_| Err::<(), _>(Error::new(ErrorKind::Autograd, "no")));
        assert!(matches!(failed, Some(Err(_))), "a formula that fails leaves them");
        assert_eq!(saved.lend(false, |v| Ok(*v)).and_then(Result::ok), Some(7));
        assert!(saved.lend(true, |v| Ok(*v)).is_none());
    }

    #[test]
    fn nobody_frees_what_another_pass_uses() {
        let saved = Saved::new(String::from("kept"));
        let outer = saved.lend(true, |outer| {
            let inner = saved.lend(false, |inner| Ok(inner.len()));
            assert!(matches!(inner, Some(Ok(4))));
            Ok(outer.clone())
        });
        assert!(matches!(outer, Some(Ok(text)) if text == "kept"));
        let going = saved.lend(false, |_| Ok(saved.lend(true, |_| Ok(())).is_none()));
        assert!(matches!(going, Some(Ok(true))), "a second pass meanwhile is refused");
    }
}
