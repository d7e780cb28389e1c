//! How nodes are dropped without recursion: nested destructors of a chain of a million nodes would overflow the stack.
//!
//! A reference to a node that may be the last one to a long chain (of a node's edges, a tensor's history, a saved tensor's
//! history) is given up through [`release`]. It keeps a queue for each thread: nodes whose last reference is given up while
//! another node is being dropped wait there, and are dropped after it.

use super::grad_accumulator_cache;
use super::live;
use super::node::{NodeHeader, NodePtr};
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
    // Without destructor, so that it can be used while the thread's other locals are destroyed. It is empty between calls.
    static WAITING: ManuallyDrop<RefCell<Waiting>> =
        const { ManuallyDrop::new(RefCell::new(Waiting { first: None, others: Vec::new() })) };
}

/// Nodes that wait to be dropped. Along a chain there is never more than one, which `first` holds without an allocation.
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

/// Gives up a reference to `node`; see the [module](self).
#[inline]
pub(crate) fn release(node: NodePtr) {
    if !ThinPtr::is_unique(&node) {
        // Even if another thread gives up the other reference at the same time, the node's edges go through the queue.
        if node.header().is_cacheable() {
            grad_accumulator_cache::put(node);
        }
        return;
    }
    if DROPPING.get() {
        WAITING.with(|waiting| waiting.borrow_mut().push(node));
        return;
    }
    /// Resets the flag even if the destructor of a saved value panics.
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
    let buffer = WAITING.with(|waiting| take(&mut waiting.borrow_mut().others));
    drop(buffer);
}
