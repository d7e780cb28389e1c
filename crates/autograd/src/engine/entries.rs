//! What a pass notes about each node that it meets, and how it finds that again.
//!
//! One pass at a time may write the number of its note into the node itself. The others, inside it or on other threads, keep
//! a map.

use crate::graph::gradients::Gradients;
use crate::graph::node::NodePtr;
use flambeau_core::ThinPtr;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands for "no edge".
pub(super) const NOWHERE: u32 = u32::MAX;

/// Room for this many nodes from the start.
const SMALL: usize = 16;

/// A node that the pass meets. Borrowed: whoever holds the roots holds the graph, whose edges never change.
pub(super) struct Entry<'a> {
    pub(super) node: &'a NodePtr,
    /// How many edges lead to it from nodes that have not run.
    pub(super) waiting_for: u32,
    /// Whether it leads to something that was asked for.
    pub(super) needed: bool,
    /// Where the numbers of the entries that its edges lead to begin, in a list of all of them.
    first_target: u32,
    pub(super) buffer: Gradients,
}

/// The entries of a pass, in the order in which it met their nodes.
pub(super) struct Entries<'a> {
    list: Vec<Entry<'a>>,
    targets: Vec<u32>,
    index: Index,
}

enum Index {
    InNodes(Right),
    Map(HashMap<usize, u32, BuildHasherDefault<PointerHasher>>),
}

/// The right to write into nodes.
struct Right;

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Right {
    fn take() -> Option<Right> {
        let free = !TAKEN.load(Ordering::Relaxed) && !TAKEN.swap(true, Ordering::Acquire);
        free.then_some(Right)
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

impl<'a> Entries<'a> {
    pub(super) fn new() -> Self {
        let index = match Right::take() {
            Some(right) => Index::InNodes(right),
            None => Index::Map(HashMap::default()),
        };
        Entries { list: Vec::with_capacity(SMALL), targets: Vec::with_capacity(2 * SMALL), index }
    }

    /// The number of the node's entry, if it was met. What an earlier pass wrote into a node names no entry, or that of
    /// another node.
    #[inline]
    pub(super) fn find(&self, node: &NodePtr) -> Option<u32> {
        match &self.index {
            Index::InNodes(_) => {
                let at = node.header().entry.load(Ordering::Relaxed);
                let entry = self.list.get(at as usize)?;
                ThinPtr::ptr_eq(entry.node, node).then_some(at)
            }
            Index::Map(map) => map.get(&ThinPtr::address(node)).copied(),
        }
    }

    /// The number of the node's entry, made now if there was none.
    #[inline]
    pub(super) fn enter(&mut self, node: &'a NodePtr) -> u32 {
        if let Some(at) = self.find(node) {
            return at;
        }
        let at = self.list.len() as u32;
        match &mut self.index {
            Index::InNodes(_) => node.header().entry.store(at, Ordering::Relaxed),
            Index::Map(map) => {
                map.insert(ThinPtr::address(node), at);
            }
        }
        self.list.push(Entry {
            node,
            waiting_for: 0,
            needed: true,
            first_target: 0,
            buffer: Gradients::new(),
        });
        at
    }

    /// Enters what the edges of an entry lead to. Once for each entry, in their order.
    #[inline]
    pub(super) fn enter_targets(&mut self, at: usize) {
        let entry = &mut self.list[at];
        entry.first_target = self.targets.len() as u32;
        let node = entry.node;
        for edge in node.header().edges() {
            let target = match edge {
                Some(edge) => self.enter(&edge.node),
                None => NOWHERE,
            };
            if let Some(entry) = self.list.get_mut(target as usize) {
                entry.waiting_for += 1;
            }
            self.targets.push(target);
        }
    }

    /// The entry that edge number `i` of an entry leads to.
    #[inline]
    pub(super) fn target(&self, at: u32, i: usize) -> u32 {
        self.targets[self.list[at as usize].first_target as usize + i]
    }

    /// The entries that the edges of an entry lead to, or [`NOWHERE`].
    pub(super) fn targets(&self, at: usize) -> &[u32] {
        let entry = &self.list[at];
        let (first, count) = (entry.first_target as usize, entry.node.header().edges().len());
        &self.targets[first..first + count]
    }
}

impl<'a> Deref for Entries<'a> {
    type Target = [Entry<'a>];

    #[inline]
    fn deref(&self) -> &[Entry<'a>] {
        &self.list
    }
}

impl<'a> DerefMut for Entries<'a> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Entry<'a>] {
        &mut self.list
    }
}

/// Addresses of nodes are multiples of 8 or more, and differ in their middle bits: one multiplication spreads them.
#[derive(Default)]
struct PointerHasher(u64);

impl Hasher for PointerHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let spread = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}
