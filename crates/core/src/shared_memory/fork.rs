//! What a fork does to shared memory: the lock is held across it, and what the child sees stays.

#![expect(unsafe_code, reason = "registers handlers with the C library")]

use super::arena::{Locked, State};
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// The lock, from before the fork until after it, on the thread that forks.
    static HELD: RefCell<Option<Locked>> = const { RefCell::new(None) };
}

/// Has forks of this process noticed from now on.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    // SAFETY: the handlers are functions for ever, and take nothing. A failure for want of memory leaves forks unnoticed,
    // which matters to programs that fork, and they have more to worry about.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after), Some(in_child));
    });
}

extern "C" fn before() {
    let mut state = State::lock();
    state.seal();
    // An exiting thread has no place to keep it, and lets it go.
    let _ = HELD.try_with(|held| held.replace(Some(state)));
}

extern "C" fn after() {
    let _ = HELD.try_with(|held| held.take());
}

extern "C" fn in_child() {
    let _ = HELD.try_with(|held| {
        if let Some(mut state) = held.take() {
            state.begin_child();
        }
    });
}
