//! How nodes are dropped: a chain of a million must not be by a million nested calls.
//!
//! Whoever owns a node that may be the last reference to a long chain (a node's edges, a tensor's history, a saved tensor's)
//! gives it up through [`release`], which keeps a queue for each thread: nodes met while a node is being dropped wait there
//! until that one is gone.

use super::live;
use super::node::{NodeHeader, NodePtr};
use super::spares;
use flambeau_core::ThinPtr;
use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, take};

impl Drop for NodeHeader {
    #[inline]
    fn drop(&mut self) {
        for edge in &mut self.edges {
            if let Some(edge) = edge.take() {
                release(edge.node);
            }
        }
        if self.is_counted() {
            live::add(-1);
        }
    }
}

thread_local! {
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    // No destructor, so that it can be used while the thread's other locals are destroyed; it is empty between calls.
    static WAITING: ManuallyDrop<RefCell<Waiting>> =
        const { ManuallyDrop::new(RefCell::new(Waiting { first: None, others: Vec::new() })) };
}

/// Nodes that wait to be dropped. Along a chain there is never more than one, which takes no allocation.
struct Waiting {
    first: Option<NodePtr>,
    others: Vec<NodePtr>,
}

impl Waiting {
    #[inline]
    fn push(&mut self, node: NodePtr) {
        match self.first {
            None => self.first = Some(node),
            Some(_) => self.others.push(node),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<NodePtr> {
        if self.others.is_empty() { self.first.take() } else { self.others.pop() }
    }
}

/// Gives up one owner of `node`; see [above](self).
#[inline]
pub(crate) fn release(node: NodePtr) {
    if !ThinPtr::is_unique(&node) {
        // Even if another thread gives up the other owner at once, what this drops goes through the queue.
        if node.header().is_spared() {
            spares::keep(node);
        }
        return;
    }
    if DROPPING.get() {
        WAITING.with(|waiting| waiting.borrow_mut().push(node));
        return;
    }
    /// Also where a saved value's own destructor panics.
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            DROPPING.set(false);
        }
    }
    DROPPING.set(true);
    let _done = Done;
    drop(node);
    drop_waiting();
}

#[inline]
fn drop_waiting() {
    while let Some(node) = WAITING.with(|waiting| waiting.borrow_mut().pop()) {
        drop(node);
    }
    let room = WAITING.with(|waiting| take(&mut waiting.borrow_mut().others));
    drop(room);
}
