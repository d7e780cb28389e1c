//! Dual levels of forward mode, and the slots that hold their tangents until the level is closed.
//!
//! A node saves its result before the tangent of the result is known. So a tensor and its saved aliases share a slot, which is
//! filled later, and not the tangent itself.

use super::hooks::watch_saving;
use crate::spin_lock::SpinLock;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, ThreadKeysGuard, ensure};
use flambeau_ops::Tensor;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Holds the tangent of one tensor in one level, once it is known.
pub(crate) struct Slot {
    level: u64,
    tangent: SpinLock<Option<Tensor>>,
}

thread_local! {
    /// The number of the level that is open on this thread; 0 for none.
    static LEVEL: Cell<u64> = const { Cell::new(0) };
    /// The slots that were made in this level.
    static SLOTS: RefCell<Vec<Weak<Slot>>> = const { RefCell::new(Vec::new()) };
}

/// A list of at least so many slots is purged of those that were dropped before it grows.
const PURGE_FROM: usize = 1024;

impl Slot {
    pub(crate) fn new(tangent: Option<Tensor>) -> Arc<Slot> {
        let slot = Arc::new(Slot { level: LEVEL.get(), tangent: SpinLock::new(tangent) });
        SLOTS.with_borrow_mut(|slots| {
            // The capacity doubles, so the cost of purging is constant for each slot that is pushed.
            if slots.len() >= PURGE_FROM && slots.len() == slots.capacity() {
                slots.retain(|slot| slot.strong_count() > 0);
            }
            slots.push(Arc::downgrade(&slot));
        });
        slot
    }

    pub(crate) fn is_current(&self) -> bool {
        self.level == LEVEL.get()
    }

    pub(crate) fn get(&self) -> Option<Tensor> {
        if self.is_current() { self.tangent.lock().clone() } else { None }
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.tangent.lock().is_some()
    }

    /// Stores the tangent in an empty slot of the open level; returns it if the slot is full or of another level.
    pub(crate) fn fill(&self, tangent: Tensor) -> Option<Tensor> {
        let mut own = self.tangent.lock();
        if !self.is_current() || own.is_some() {
            return Some(tangent);
        }
        *own = Some(tangent);
        None
    }
}

/// Whether a dual level is open on this thread.
#[inline]
pub fn is_dual_level_open() -> bool {
    LEVEL.get() != 0
}

/// A dual level, open on this thread until the guard is dropped, which clears the tangents of the level.
#[must_use = "the level is open as long as the guard lives"]
pub struct DualLevel {
    _keys: ThreadKeysGuard,
    not_send: PhantomData<*const ()>,
}

/// Opens a level in which [`make_dual`](crate::forward::make_dual) attaches tangents to tensors, and operators propagate them.
///
/// # Errors
/// `Autograd` where one is open on this thread: levels do not nest.
pub fn dual_level() -> Result<DualLevel> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ensure!(!is_dual_level_open(), Autograd, "Nested forward mode AD is not supported at the moment");
    LEVEL.set(NEXT.fetch_add(1, Ordering::Relaxed));
    watch_saving(true);
    let keys = ThreadKeysGuard::include(DispatchKeySet::of(DispatchKey::ForwardGrad));
    Ok(DualLevel { _keys: keys, not_send: PhantomData })
}

impl Drop for DualLevel {
    fn drop(&mut self) {
        LEVEL.set(0);
        watch_saving(false);
        // A tangent may own a graph that owns its slot: such a cycle is broken only here. Nothing is dropped under a lock.
        let slots = SLOTS.try_with(RefCell::take).unwrap_or_default();
        for slot in slots.iter().filter_map(Weak::upgrade) {
            let tangent = slot.tangent.lock().take();
            drop(tangent);
        }
    }
}
