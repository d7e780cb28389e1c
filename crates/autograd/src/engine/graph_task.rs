//! One backward pass over a graph: the nodes that it reaches, how many gradients each waits for, and which of them are needed.

use super::entries::{Entries, NO_TARGET};
use super::input_buffer;
use crate::graph::node::Edge;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use std::collections::BinaryHeap;

/// A gradient that the pass returns: that of output `output_nr` of an entry's operator.
pub(super) struct Capture {
    entry: u32,
    pub(super) output_nr: u32,
    pub(super) result: usize,
}

/// A priority queue of the nodes of which all gradients have arrived; the one that was recorded last comes first. Along a chain there
/// is never more than one, which `first` holds outside the heap.
#[derive(Default)]
struct Ready {
    first: Option<(u64, u32)>,
    others: BinaryHeap<(u64, u32)>,
}

impl Ready {
    #[inline]
    fn push(&mut self, node: (u64, u32)) {
        match self.first {
            None => self.first = Some(node),
            Some(first) => {
                self.first = Some(first.max(node));
                self.others.push(first.min(node));
            }
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, u32)> {
        let next = if self.others.is_empty() { None } else { self.others.pop() };
        std::mem::replace(&mut self.first, next)
    }
}

pub(super) struct GraphTask<'a> {
    pub(super) entries: Entries<'a>,
    ready: Ready,
    /// Sorted by entry.
    captures: Vec<Capture>,
    restricted: bool,
}

impl<'a> GraphTask<'a> {
    /// Traverses the graph below `roots` breadth-first, without recursion.
    pub(super) fn new(roots: &'a [Edge]) -> Self {
        let mut entries = Entries::new();
        for root in roots {
            entries.enter(&root.node);
        }
        let mut next = 0;
        while next < entries.len() {
            entries.enter_targets(next);
            next += 1;
        }
        GraphTask { entries, ready: Ready::default(), captures: Vec::new(), restricted: false }
    }

    /// Only nodes that lead to the edges of these inputs run. Where `capture` is set, the gradients that arrive there are results,
    /// and their nodes run only if they lead to other inputs.
    pub(super) fn restrict(&mut self, inputs: &[Option<Edge>], capture: bool) {
        self.restricted = true;
        self.entries.iter_mut().for_each(|entry| entry.needed = false);
        let mut is_input = vec![false; self.entries.len()];
        for (result, edge) in inputs.iter().enumerate() {
            let entry = edge.as_ref().and_then(|edge| self.entries.find(&edge.node));
            if let (Some(edge), Some(entry)) = (edge, entry) {
                is_input[entry as usize] = true;
                if capture {
                    self.captures.push(Capture { entry, output_nr: edge.input_nr, result });
                }
            }
        }
        self.captures.sort_by_key(|capture| capture.entry);
        for at in self.backwards_order() {
            let leads = self.entries.targets(at).iter().any(|target| {
                let is_used = |target: usize| is_input[target] || self.entries[target].needed;
                *target != NO_TARGET && is_used(*target as usize)
            });
            self.entries[at].needed = leads || (is_input[at] && !capture);
        }
    }

    /// All entries in topological order, each after those to which its edges lead.
    fn backwards_order(&self) -> Vec<usize> {
        let mut waiting: Vec<u32> = self.entries.iter().map(|entry| entry.waiting_for).collect();
        let mut order: Vec<usize> = (0..waiting.len()).filter(|at| waiting[*at] == 0).collect();
        let mut next = 0;
        while let Some(at) = order.get(next).copied() {
            for target in self.entries.targets(at).iter().filter(|target| **target != NO_TARGET) {
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

    /// Which edges of an entry need a gradient, one bit each; those past the 64th always do.
    #[inline]
    pub(super) fn needs(&self, at: u32) -> u64 {
        if !self.restricted {
            return !0;
        }
        let targets = self.entries.targets(at as usize).iter().take(64).enumerate();
        targets.fold(0, |bits, (i, target)| bits | u64::from(self.is_needed(*target)) << i)
    }

    fn is_needed(&self, target: u32) -> bool {
        target != NO_TARGET && (self.entries[target as usize].needed || !self.captures(target).is_empty())
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

    /// Stores the gradient of a root in the buffer of its node.
    pub(super) fn seed(&mut self, root: &Edge, grad: Tensor, create_graph: bool) -> Result<()> {
        if let Some(at) = self.entries.find(&root.node) {
            input_buffer::add(&mut self.entries[at as usize].buffer, root.input_nr, grad, create_graph)?;
        }
        Ok(())
    }

    /// Makes the nodes ready that wait for no gradient; only roots can be such.
    pub(super) fn start(&mut self, roots: usize) {
        for at in 0..self.entries.len().min(roots) as u32 {
            if self.entries[at as usize].waiting_for == 0 {
                self.make_ready(at);
            }
        }
    }

    #[inline]
    fn make_ready(&mut self, at: u32) {
        self.ready.push((self.entries[at as usize].node.header().sequence_nr(), at));
    }

    /// The next node to run.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.ready.pop().map(|(_, at)| at)
    }

    /// Sends a gradient along `edge`, which is edge `i` of an entry. `None` stands for zeros: it only counts as having arrived.
    #[inline]
    pub(super) fn send(
        &mut self,
        at: u32,
        i: usize,
        edge: Option<&Edge>,
        grad: Option<Tensor>,
        create_graph: bool,
    ) -> Result<()> {
        let Some(edge) = edge else { return Ok(()) };
        let target = self.entries.target(at, i);
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
