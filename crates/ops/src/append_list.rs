//! A list that only grows and is read without a lock: for items that are registered while other threads call operators, and are never
//! freed.
#![expect(unsafe_code, reason = "the list grows while others read it")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Items, the newest first. They live until the process ends.
pub(crate) struct AppendList<T: 'static>(AtomicPtr<Node<T>>);

struct Node<T> {
    item: T,
    next: *mut Node<T>,
}

// SAFETY: items are shared between threads, and never moved or dropped.
unsafe impl<T: Send + Sync> Sync for AppendList<T> {}

impl<T: Send + Sync> AppendList<T> {
    pub(crate) const fn new() -> Self {
        AppendList(AtomicPtr::new(ptr::null_mut()))
    }

    /// Puts an item at the front.
    pub(crate) fn push(&self, item: T) -> &'static T {
        let mut next = self.0.load(Ordering::Acquire);
        let node = Box::into_raw(Box::new(Node { item, next }));
        while let Err(newer) = self.0.compare_exchange(next, node, Ordering::AcqRel, Ordering::Acquire) {
            next = newer;
            // SAFETY: nobody else has the node until it is in the list.
            unsafe { (*node).next = next };
        }
        // SAFETY: nodes are leaked, and do not change once they are in the list.
        unsafe { &(*node).item }
    }

    /// The items, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> {
        // SAFETY: nodes are leaked whole before they are in the list, and do not change there.
        let node = |at: *mut Node<T>| unsafe { at.as_ref::<'static>() };
        let first = node(self.0.load(Ordering::Acquire));
        std::iter::successors(first, move |before| node(before.next)).map(|node| &node.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_push_what_all_see() {
        static LIST: AppendList<usize> = AppendList::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for i in 0..50 {
                        assert_eq!(*LIST.push(thread * 50 + i), thread * 50 + i);
                    }
                });
            }
        });
        let mut seen: Vec<usize> = LIST.iter().copied().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
    }
}
