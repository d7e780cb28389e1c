//! Owners of leaves' accumulators that a dropped graph leaves to the next one of this thread.
//!
//! A step of training drops a graph and records another with edges to the same leaves. To give up an owner and to count a new one
//! are two atomic updates for each edge, a fifth of the time that recording a small call takes; to hand it over is none. A leaf that
//! goes takes its spare owner along; what other threads keep of it goes when they reuse the place, or end.

use super::node::NodePtr;
use flambeau_core::ThinPtr;
use std::cell::Cell;

/// Places, each for the accumulators whose addresses lead there.
const PLACES: usize = 16;

thread_local! {
    static SPARES: [Cell<Option<NodePtr>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
}

/// The place of an accumulator. Blocks are some hundred bytes apart.
#[inline]
fn place(node: &NodePtr) -> usize {
    let address = ThinPtr::address(node);
    (address >> 6 ^ address >> 10) % PLACES
}

/// An owner of `node`: the spare one, or a new one.
#[inline]
pub(crate) fn owner_of(node: &NodePtr) -> NodePtr {
    take(node).unwrap_or_else(|| node.clone())
}

#[inline]
fn take(node: &NodePtr) -> Option<NodePtr> {
    let taken = SPARES.try_with(|spares| {
        let place = &spares[place(node)];
        let spare = place.take();
        if spare.as_ref().is_some_and(|spare| ThinPtr::ptr_eq(spare, node)) {
            return spare;
        }
        place.set(spare);
        None
    });
    // An exiting thread has lost its spares.
    taken.ok().flatten()
}

/// Keeps an owner that somebody gives up.
#[inline]
pub(crate) fn keep(node: NodePtr) {
    let at = place(&node);
    let mut node = Some(node);
    // What was there, or has no place any more, is dropped here, when the place is nobody's concern.
    let _before = SPARES.try_with(|spares| spares[at].replace(node.take()));
}

/// Whether this thread has a spare owner of `node`.
pub(crate) fn has(node: &NodePtr) -> bool {
    let spare = take(node);
    let found = spare.is_some();
    spare.into_iter().for_each(keep);
    found
}

/// Gives up the spare owner of `node`.
pub(crate) fn give_up(node: &NodePtr) {
    drop(take(node));
}
