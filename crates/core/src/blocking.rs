//! What surrounds a wait for another thread: a front end that holds a lock of its own, as Python's interpreter does, gives it up
//! meanwhile, since the other thread may want that lock before it lets go of what is waited for.

use std::sync::OnceLock;

/// Calls what it is given, once, with the front end's lock given up.
pub type WhileWaiting = fn(wait: &mut dyn FnMut());

static HOOK: OnceLock<WhileWaiting> = OnceLock::new();

/// Has all threads wait for elements that others hold inside of `hook`. The first hook of the process stays.
///
/// ```
/// flambeau_core::blocking::set_while_waiting(|wait| wait());
/// ```
pub fn set_while_waiting(hook: WhileWaiting) {
    let _ = HOOK.set(hook);
}

/// What `wait` comes to.
pub(crate) fn waiting<R>(wait: impl FnOnce() -> R) -> Option<R> {
    let (mut wait, mut result) = (Some(wait), None);
    let mut once = || result = wait.take().map(|wait| wait());
    match HOOK.get() {
        Some(hook) => hook(&mut once),
        None => once(),
    }
    result
}
