//! Whether this thread records operators: `no_grad`, `enable_grad` and inference mode, each until its guard is dropped.

use flambeau_core::{DispatchKey, DispatchKeySet, ThreadKeysGuard, creation_keys};
use std::cell::Cell;
use std::marker::PhantomData;

const AUTOGRAD: DispatchKeySet = DispatchKeySet::of(DispatchKey::Autograd);

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether operators on this thread record history.
///
/// ```
/// use flambeau_autograd::{is_grad_enabled, no_grad};
/// assert!(is_grad_enabled());
/// let guard = no_grad();
/// assert!(!is_grad_enabled());
/// drop(guard);
/// assert!(is_grad_enabled());
/// ```
#[inline]
pub fn is_grad_enabled() -> bool {
    ENABLED.get()
}

/// Whether this thread is in [`inference_mode`].
pub fn is_inference_mode_enabled() -> bool {
    !creation_keys().has(DispatchKey::ADInplaceOrView)
}

/// Restores the former mode when it is dropped. Guards must be dropped in the reverse order of their creation.
#[must_use = "the mode lasts as long as the guard"]
pub struct GradModeGuard {
    before: bool,
    // Dropped after `drop` below, in this order.
    _keys: ThreadKeysGuard,
    _creation: Option<ThreadKeysGuard>,
    not_send: PhantomData<*const ()>,
}

impl GradModeGuard {
    fn new(enabled: bool, keys: ThreadKeysGuard, creation: Option<ThreadKeysGuard>) -> Self {
        let before = ENABLED.replace(enabled);
        GradModeGuard { before, _keys: keys, _creation: creation, not_send: PhantomData }
    }
}

impl Drop for GradModeGuard {
    fn drop(&mut self) {
        ENABLED.set(self.before);
    }
}

/// Operators record nothing: results require no gradient, even if their inputs do.
pub fn no_grad() -> GradModeGuard {
    GradModeGuard::new(false, ThreadKeysGuard::exclude(AUTOGRAD), None)
}

/// Operators record again, inside [`no_grad`]. Inside [`inference_mode`] they still do not.
pub fn enable_grad() -> GradModeGuard {
    let keys = if is_inference_mode_enabled() {
        ThreadKeysGuard::exclude(AUTOGRAD)
    } else {
        ThreadKeysGuard::stop_excluding(AUTOGRAD)
    };
    GradModeGuard::new(true, keys, None)
}

/// [`enable_grad`] or [`no_grad`].
pub fn set_grad_enabled(enabled: bool) -> GradModeGuard {
    if enabled { enable_grad() } else { no_grad() }
}

/// Nothing is recorded, now or later: tensors created in this mode are inference tensors, which have no dispatch key above that of
/// their backend, so that calls on them skip the autograd kernels. They cannot be saved for a backward pass.
///
/// ```
/// use flambeau_autograd::{Autograd, inference_mode};
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from_vec(vec![1.0f32], &[1])?;
/// let guard = inference_mode();
/// let y = ops::exp(&x)?;
/// drop(guard);
/// assert!(y.is_inference() && !x.is_inference());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn inference_mode() -> GradModeGuard {
    // The guard that was created first is dropped last.
    let creation = ThreadKeysGuard::create_with(DispatchKeySet::EMPTY);
    GradModeGuard::new(false, ThreadKeysGuard::exclude(AUTOGRAD), Some(creation))
}
