//! A thread's cache of references to leaves' `AccumulateGrad` nodes, which a dropped graph leaves for the next one.
//!
//! A step of training drops a graph and records another with edges to the same leaves. Dropping a reference and counting a new one
//! would be two atomic updates for each edge, a considerable part of recording a small call; reusing the reference takes none. When a
//! leaf is dropped, its thread's cached reference goes with it. References that other threads have cached are dropped when those
//! threads overwrite the slot, or exit.

use super::node::NodePtr;
use flambeau_core::ThinPtr;
use std::cell::Cell;

/// The number of slots. A node has one, by its address.
const SLOTS: usize = 16;

thread_local! {
    static CACHE: [Cell<Option<NodePtr>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
}

/// The slot of a node. Nodes are allocated some hundred bytes apart, so the lowest bits of their addresses say little.
#[inline]
fn slot(node: &NodePtr) -> usize {
    let address = ThinPtr::address(node);
    (address >> 6 ^ address >> 10) % SLOTS
}

/// A reference to `node`: the cached one, or a new one.
#[inline]
pub(crate) fn take_or_clone(node: &NodePtr) -> NodePtr {
    take(node).unwrap_or_else(|| node.clone())
}

#[inline]
fn take(node: &NodePtr) -> Option<NodePtr> {
    let taken = CACHE.try_with(|slots| {
        let slot = &slots[slot(node)];
        let cached = slot.take();
        if cached.as_ref().is_some_and(|cached| ThinPtr::ptr_eq(cached, node)) {
            return cached;
        }
        slot.set(cached);
        None
    });
    // A thread that is exiting has no cache any more.
    taken.ok().flatten()
}

/// Caches a reference that is given up.
#[inline]
pub(crate) fn put(node: NodePtr) {
    let at = slot(&node);
    let mut node = Some(node);
    // The former reference, or `node` on a thread that is exiting, is dropped here and not while the slot is accessed: its
    // destructor may come here again.
    let _before = CACHE.try_with(|slots| slots[at].replace(node.take()));
}

/// Whether this thread has cached a reference to `node`.
pub(crate) fn contains(node: &NodePtr) -> bool {
    let cached = take(node);
    let found = cached.is_some();
    cached.into_iter().for_each(put);
    found
}

/// Drops the cached reference to `node`, if there is one.
pub(crate) fn evict(node: &NodePtr) {
    drop(take(node));
}
