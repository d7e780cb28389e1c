//! A hook around waits for another thread: a front end that holds a lock of its own, such as Python's global interpreter lock, releases
//! it meanwhile, since the other thread may need that lock before it can release what is waited for.

use std::sync::OnceLock;

/// Calls its argument once, while the front end's lock is released.
pub type WhileWaiting = fn(wait: &mut dyn FnMut());

static HOOK: OnceLock<WhileWaiting> = OnceLock::new();

/// Makes all waits for guards that other threads hold run inside of `hook`. Only the first call in a process has an effect.
///
/// ```
/// flambeau_core::blocking::set_while_waiting(|wait| wait());
/// ```
pub fn set_while_waiting(hook: WhileWaiting) {
    let _ = HOOK.set(hook);
}

/// Runs `wait` inside of the hook, and returns its result.
pub(crate) fn waiting<R>(wait: impl FnOnce() -> R) -> Option<R> {
    let (mut wait, mut result) = (Some(wait), None);
    let mut once = || result = wait.take().map(|wait| wait());
    match HOOK.get() {
        Some(hook) => hook(&mut once),
        None => once(),
    }
    result
}
