//! The list of the nodes that a pass reaches, with its data about each, and the mapping from nodes to indices in this list.
//!
//! One pass at a time may write the index into the node itself, which is fast. Other passes, inside it or on other threads, use a
//! hash map.

use crate::graph::gradients::Gradients;
use crate::graph::node::NodePtr;
use flambeau_core::ThinPtr;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// The target of an input without edge.
pub(super) const NO_TARGET: u32 = u32::MAX;

/// The initial capacity, in nodes.
const INITIAL_CAPACITY: usize = 16;

/// A node that the pass reaches. It can be borrowed for the whole pass: the roots own the graph, and edges never change.
pub(super) struct Entry<'a> {
    pub(super) node: &'a NodePtr,
    /// How many edges lead to it from nodes that have not run. PyTorch's `dependencies`.
    pub(super) waiting_for: u32,
    /// Whether the node has to run: its gradients are used for the inputs of the pass.
    pub(super) needed: bool,
    /// Where the targets of its edges start in `Entries::targets`.
    first_target: u32,
    pub(super) buffer: Gradients,
}

/// The entries of a pass, in the order in which it reached their nodes.
pub(super) struct Entries<'a> {
    list: Vec<Entry<'a>>,
    /// For each entry, and for each edge of its node, the index of the entry to which the edge leads.
    targets: Vec<u32>,
    index: Index,
}

enum Index {
    InNodes(NodeIndexLease),
    Map(HashMap<usize, u32, BuildHasherDefault<PointerHasher>>),
}

/// Permission to write indices into nodes, which one pass at a time has.
struct NodeIndexLease;

static NODE_INDEX_LEASED: AtomicBool = AtomicBool::new(false);

impl NodeIndexLease {
    fn take() -> Option<NodeIndexLease> {
        let free =
            !NODE_INDEX_LEASED.load(Ordering::Relaxed) && !NODE_INDEX_LEASED.swap(true, Ordering::Acquire);
        free.then_some(NodeIndexLease)
    }
}

impl Drop for NodeIndexLease {
    fn drop(&mut self) {
        NODE_INDEX_LEASED.store(false, Ordering::Release);
    }
}

impl<'a> Entries<'a> {
    pub(super) fn new() -> Self {
        let index = match NodeIndexLease::take() {
            Some(lease) => Index::InNodes(lease),
            None => Index::Map(HashMap::default()),
        };
        Entries {
            list: Vec::with_capacity(INITIAL_CAPACITY),
            targets: Vec::with_capacity(2 * INITIAL_CAPACITY),
            index,
        }
    }

    /// The index of the node's entry, if the pass has reached the node. The index may be that of an earlier pass; then it is out of
    /// bounds, or the entry there is that of another node.
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

    /// The index of the node's entry, which is added if there is none.
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

    /// Adds the nodes to which the edges of an entry lead. To be called once for each entry, in their order.
    #[inline]
    pub(super) fn enter_targets(&mut self, at: usize) {
        let entry = &mut self.list[at];
        entry.first_target = self.targets.len() as u32;
        let node = entry.node;
        for edge in node.header().edges() {
            let target = match edge {
                Some(edge) => self.enter(&edge.node),
                None => NO_TARGET,
            };
            if let Some(entry) = self.list.get_mut(target as usize) {
                entry.waiting_for += 1;
            }
            self.targets.push(target);
        }
    }

    /// The entry to which edge `i` of an entry leads.
    #[inline]
    pub(super) fn target(&self, at: u32, i: usize) -> u32 {
        self.targets[self.list[at as usize].first_target as usize + i]
    }

    /// The entries to which the edges of an entry lead; [`NO_TARGET`] for inputs without edge.
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

/// Hashes addresses of nodes, which are multiples of 8 or more and differ in their middle bits: one multiplication is enough.
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
        let product = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}
