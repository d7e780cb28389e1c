//! One backward pass over a graph: which nodes it meets, how many gradients each waits for, and which of them matter.

use super::input_buffer;
use crate::node::{Edge, Gradients, Node};
use flambeau_core::Result;
use flambeau_ops::Tensor;
use smallvec::SmallVec;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Stands for "no edge".
const NOWHERE: u32 = u32::MAX;

/// Room for this many nodes from the start.
const SMALL: usize = 16;

/// A node that the pass meets. Borrowed: whoever holds the roots holds the graph, whose edges never change.
pub(super) struct Entry<'a> {
    pub(super) node: &'a Arc<dyn Node>,
    /// How many edges lead to it from nodes that have not run.
    waiting_for: u32,
    /// Whether it leads to something that was asked for.
    pub(super) needed: bool,
    /// The entries that its edges lead to.
    targets: SmallVec<[u32; 2]>,
    pub(super) buffer: Gradients,
}

/// A gradient that was asked for: that of output `output_nr` of an entry's operator.
pub(super) struct Capture {
    entry: u32,
    pub(super) output_nr: u32,
    pub(super) result: usize,
}

pub(super) struct GraphTask<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    index: HashMap<usize, u32, BuildHasherDefault<PointerHasher>>,
    /// Nodes of which all gradients have arrived, latest recorded first.
    ready: BinaryHeap<(u64, u32)>,
    /// Sorted by entry.
    captures: Vec<Capture>,
    restricted: bool,
}

impl<'a> GraphTask<'a> {
    /// Walks the graph below `roots`, with a stack and not by recursion.
    pub(super) fn new(roots: &'a [Edge]) -> Self {
        let mut task = GraphTask {
            entries: Vec::with_capacity(SMALL),
            index: HashMap::with_capacity_and_hasher(SMALL, BuildHasherDefault::default()),
            ready: BinaryHeap::new(),
            captures: Vec::new(),
            restricted: false,
        };
        for root in roots {
            task.enter(&root.node);
        }
        let mut next = 0;
        while let Some(entry) = task.entries.get(next) {
            let node = entry.node;
            let targets = node.header().edges().iter().map(|edge| task.enter_target(edge.as_ref())).collect();
            task.entries[next].targets = targets;
            next += 1;
        }
        task
    }

    fn enter(&mut self, node: &'a Arc<dyn Node>) -> u32 {
        let next = self.entries.len() as u32;
        let at = *self.index.entry(address(node)).or_insert(next);
        if at == next {
            let (targets, buffer) = (SmallVec::new(), Gradients::new());
            self.entries.push(Entry { node, waiting_for: 0, needed: true, targets, buffer });
        }
        at
    }

    fn enter_target(&mut self, edge: Option<&'a Edge>) -> u32 {
        let Some(edge) = edge else { return NOWHERE };
        let at = self.enter(&edge.node);
        self.entries[at as usize].waiting_for += 1;
        at
    }

    /// Only what leads to these edges matters. Where `capture` is set, the gradients that arrive there are results, and
    /// their nodes run only if they lead to others.
    pub(super) fn restrict(&mut self, wanted: &[Option<Edge>], capture: bool) {
        self.restricted = true;
        self.entries.iter_mut().for_each(|entry| entry.needed = false);
        let mut asked = vec![false; self.entries.len()];
        for (result, edge) in wanted.iter().enumerate() {
            let entry = edge.as_ref().and_then(|edge| self.index.get(&address(&edge.node)));
            if let (Some(edge), Some(entry)) = (edge, entry) {
                asked[*entry as usize] = true;
                if capture {
                    self.captures.push(Capture { entry: *entry, output_nr: edge.input_nr, result });
                }
            }
        }
        self.captures.sort_by_key(|capture| capture.entry);
        for at in self.backwards_order() {
            let leads = self.entries[at].targets.iter().any(|target| {
                *target != NOWHERE && (asked[*target as usize] || self.entries[*target as usize].needed)
            });
            self.entries[at].needed = leads || (asked[at] && !capture);
        }
    }

    /// All entries, each after those its edges lead to.
    fn backwards_order(&self) -> Vec<usize> {
        let mut waiting: Vec<u32> = self.entries.iter().map(|entry| entry.waiting_for).collect();
        let mut order: Vec<usize> = (0..waiting.len()).filter(|at| waiting[*at] == 0).collect();
        let mut next = 0;
        while let Some(at) = order.get(next).copied() {
            for target in self.entries[at].targets.iter().filter(|target| **target != NOWHERE) {
                let target = *target as usize;
                waiting[target] -= 1;
                if waiting[target] == 0 {
                    order.push(target);
                }
            }
            next += 1;
        }
        order.reverse();
        order
    }

    /// Which edges of an entry matter, one bit each; those past the 64th always do.
    #[inline]
    pub(super) fn needs(&self, at: u32) -> u64 {
        if !self.restricted {
            return !0;
        }
        let targets = self.entries[at as usize].targets.iter().take(64).enumerate();
        targets.fold(0, |bits, (i, target)| bits | u64::from(self.matters(*target)) << i)
    }

    fn matters(&self, target: u32) -> bool {
        target != NOWHERE && (self.entries[target as usize].needed || !self.captures(target).is_empty())
    }

    /// The results that are gradients arriving at this entry.
    #[inline]
    pub(super) fn captures(&self, at: u32) -> &[Capture] {
        if self.captures.is_empty() {
            return &[];
        }
        let start = self.captures.partition_point(|capture| capture.entry < at);
        let end = self.captures.partition_point(|capture| capture.entry <= at);
        &self.captures[start..end]
    }

    /// Puts the gradient of a root in place.
    pub(super) fn seed(&mut self, root: &Edge, grad: Tensor, create_graph: bool) -> Result<()> {
        if let Some(at) = self.index.get(&address(&root.node)) {
            input_buffer::add(&mut self.entries[*at as usize].buffer, root.input_nr, grad, create_graph)?;
        }
        Ok(())
    }

    /// Makes the nodes that wait for nothing ready; only roots can be such.
    pub(super) fn start(&mut self, roots: usize) {
        for at in 0..self.entries.len().min(roots) as u32 {
            if self.entries[at as usize].waiting_for == 0 {
                self.make_ready(at);
            }
        }
    }

    fn make_ready(&mut self, at: u32) {
        self.ready.push((self.entries[at as usize].node.header().sequence_nr(), at));
    }

    /// The next node to run.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.ready.pop().map(|(_, at)| at)
    }

    /// Sends a gradient along edge number `i` of an entry; `None` only tells that none will come.
    #[inline]
    pub(super) fn send(&mut self, at: u32, i: usize, grad: Option<Tensor>, create_graph: bool) -> Result<()> {
        let from = &self.entries[at as usize];
        let (Some(Some(edge)), target) = (from.node.header().edges().get(i), from.targets[i]) else {
            return Ok(());
        };
        let entry = &mut self.entries[target as usize];
        if let Some(grad) = grad {
            input_buffer::add(&mut entry.buffer, edge.input_nr, grad, create_graph)?;
        }
        entry.waiting_for -= 1;
        if entry.waiting_for == 0 {
            self.make_ready(target);
        }
        Ok(())
    }
}

#[inline]
fn address(node: &Arc<dyn Node>) -> usize {
    Arc::as_ptr(node).cast::<()>().addr()
}

/// Addresses of nodes are multiples of 8 or more, and differ in their middle bits: one multiplication spreads them.
#[derive(Default)]
pub(super) struct PointerHasher(u64);

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
