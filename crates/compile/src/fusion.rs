//! Which loops become one: loops over the same elements in the same type that follow one another, or read the same tensors.
//!
//! Every value has a phase. In a phase the loops run first, each group of them as one, and then the other operators. So a loop that reads
//! the result of an operator is in a later phase than that operator, and no two groups wait for each other.

use crate::graph::{Graph, Loop, Node, Source, ValueId};
use flambeau_core::ScalarType;

/// A group takes so many inputs and results, beyond which registers and the processor's prefetchers run out.
const MAX_OPERANDS: usize = 24;
/// And formulas of so many operations in all.
const MAX_OPERATIONS: usize = 2000;

/// Loops that become one.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Positions in [`Graph::nodes`], in order.
    pub(crate) nodes: Vec<usize>,
    pub(crate) sizes: Vec<i64>,
    pub(crate) element: ScalarType,
    phase: usize,
    reads: Vec<ValueId>,
    operations: usize,
}

/// What runs one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Group(Group),
    /// The position of a call.
    Call(usize),
}

/// The parts of a graph; nodes that no output needs are left out.
pub(crate) fn parts(graph: &Graph) -> Vec<Part> {
    let mut fusion = Fusion {
        graph,
        groups: Vec::new(),
        group_of: vec![None; graph.values.len()],
        phase_of: vec![0; graph.values.len()],
        calls: Vec::new(),
        random_phase: 0,
    };
    for (position, _) in needed(graph).iter().enumerate().filter(|(_, needed)| **needed) {
        match &graph.nodes[position] {
            Node::Loop(made) => fusion.add_loop(position, made),
            node => fusion.add_call(position, node),
        }
    }
    fusion.in_order()
}

/// Which nodes an output needs; those that draw random numbers are always needed, since later ones depend on how many were drawn.
pub(crate) fn needed(graph: &Graph) -> Vec<bool> {
    let mut requested = vec![false; graph.values.len()];
    graph.outputs.iter().flatten().for_each(|output| requested[*output] = true);
    let mut needed = vec![false; graph.nodes.len()];
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        let is_random = matches!(node, Node::Call(call) if call.is_random);
        needed[i] = is_random || node.makes().iter().any(|made| requested[*made]);
        if needed[i] {
            node.reads().iter().for_each(|read| requested[*read] = true);
        }
    }
    needed
}

struct Fusion<'g> {
    graph: &'g Graph,
    groups: Vec<Option<Group>>,
    /// For the result of a loop, its group.
    group_of: Vec<Option<usize>>,
    /// The first phase in which a value can be read; for the result of a loop, the phase of the loop.
    phase_of: Vec<usize>,
    /// Phase and position.
    calls: Vec<(usize, usize)>,
    /// The phase of the last operator that draws random numbers.
    random_phase: usize,
}

/// Where a part comes in the program: its phase, loops before calls, fewer dimensions and elements first, then the order of the function.
type Rank = (usize, usize, usize, i64, usize);

impl Fusion<'_> {
    fn add_call(&mut self, position: usize, node: &Node) {
        let mut phase = node.reads().iter().map(|read| self.phase_of[*read]).max().unwrap_or(0);
        if matches!(node, Node::Call(call) if call.is_random) {
            // Random numbers are drawn in the order of the function.
            phase = phase.max(self.random_phase);
            self.random_phase = phase;
        }
        node.makes().iter().for_each(|made| self.phase_of[*made] = phase + 1);
        self.calls.push((phase, position));
    }

    /// The group that a value is computed in.
    fn group(&self, value: ValueId) -> Option<(usize, &Group)> {
        let index = self.group_of[value]?;
        self.groups[index].as_ref().map(|group| (index, group))
    }

    fn add_loop(&mut self, position: usize, made: &Loop) {
        let reads: Vec<ValueId> = made.inputs.iter().filter_map(|(source, _)| value_of(source)).collect();
        let element = self.element_of(made, &reads);
        let phase = self.phase_for(&reads, element);
        let mut group = Group {
            nodes: vec![position],
            sizes: self.graph.values[made.result].sizes.clone(),
            element,
            phase,
            reads: reads.clone(),
            operations: made.tape.nodes.len(),
        };
        let joined = self.groups_to_join(&group);
        if self.fits(&joined, &group) {
            group.reads = self.reads_of(&joined, &group);
            for index in joined {
                if let Some(other) = self.groups[index].take() {
                    group.nodes.extend(other.nodes);
                    group.operations += other.operations;
                }
            }
            group.nodes.sort_unstable();
        } else if reads.iter().any(|read| self.group(*read).is_some_and(|(_, other)| other.phase == phase)) {
            // It reads what another group computes in this phase, and begins a new one in the next.
            group.phase += 1;
        }
        let index = self.groups.len();
        self.phase_of[made.result] = group.phase;
        for node in &group.nodes {
            self.graph.nodes[*node].makes().iter().for_each(|result| self.group_of[*result] = Some(index));
        }
        self.groups.push(Some(group));
    }

    /// The type of a loop; bools are computed in the type of what they were compared in.
    fn element_of(&self, made: &Loop, reads: &[ValueId]) -> ScalarType {
        match made.computing {
            ScalarType::Bool => {
                let of_group = |read: &ValueId| self.group(*read).map(|(_, group)| group.element);
                let in_memory = |read: &ValueId| Some(self.graph.values[*read].dtype);
                let is_float = |dtype: &ScalarType| dtype.is_floating_point();
                let found = reads.iter().find_map(of_group);
                found.or_else(|| reads.iter().filter_map(in_memory).find(is_float)).unwrap_or(ScalarType::F32)
            }
            computing => computing,
        }
    }

    /// The phase of a loop that reads these values.
    fn phase_for(&self, reads: &[ValueId], element: ScalarType) -> usize {
        let after = |read: &ValueId| {
            let is_other = self.group(*read).is_some_and(|(_, group)| group.element != element);
            self.phase_of[*read] + usize::from(is_other)
        };
        reads.iter().map(after).max().unwrap_or(0)
    }

    /// The groups of its phase and elements that compute what it reads, or else one that reads the same tensor.
    fn groups_to_join(&self, group: &Group) -> Vec<usize> {
        let is_alike = |other: &Group| {
            other.phase == group.phase && other.sizes == group.sizes && other.element == group.element
        };
        let mut joined: Vec<usize> = Vec::new();
        for (index, _) in group.reads.iter().filter_map(|read| self.group(*read)).filter(|(_, g)| is_alike(g))
        {
            if !joined.contains(&index) {
                joined.push(index);
            }
        }
        if joined.is_empty() {
            let shares = |other: &Group| {
                let is_large = |read: &&ValueId| self.graph.values[**read].sizes == group.sizes;
                group.reads.iter().filter(is_large).any(|read| other.reads.contains(read))
            };
            let found = (0..self.groups.len()).find(|index| {
                let other = self.groups[*index].as_ref();
                other.is_some_and(|other| is_alike(other) && shares(other)) && self.fits(&[*index], group)
            });
            joined.extend(found);
        }
        joined.sort_unstable();
        joined
    }

    /// What `group` and the groups that it joins read, apart from what they compute.
    fn reads_of(&self, joined: &[usize], group: &Group) -> Vec<ValueId> {
        let others = joined.iter().filter_map(|index| self.groups[*index].as_ref());
        let mut reads: Vec<ValueId> =
            others.flat_map(|other| &other.reads).chain(&group.reads).copied().collect();
        reads.retain(|read| !self.group_of[*read].is_some_and(|index| joined.contains(&index)));
        reads.sort_unstable();
        reads.dedup();
        reads
    }

    /// Whether all of these are one group that is not too large.
    fn fits(&self, joined: &[usize], group: &Group) -> bool {
        let others = joined.iter().filter_map(|index| self.groups[*index].as_ref());
        let operations: usize = others.map(|other| other.operations).sum();
        self.reads_of(joined, group).len() <= MAX_OPERANDS && operations + group.operations <= MAX_OPERATIONS
    }

    fn in_order(self) -> Vec<Part> {
        let mut keyed: Vec<(Rank, Part)> = Vec::new();
        for group in self.groups.into_iter().flatten() {
            // Of groups of one phase, one of fewer elements may be read by one of more, to which it is broadcast.
            let count = group.sizes.iter().fold(1i64, |all, size| all.saturating_mul(*size));
            let first = group.nodes.first().copied().unwrap_or(0);
            keyed.push(((group.phase, 0, group.sizes.len(), count, first), Part::Group(group)));
        }
        for (phase, position) in self.calls {
            keyed.push(((phase, 1, 0, 0, position), Part::Call(position)));
        }
        keyed.sort_by_key(|(key, _)| *key);
        keyed.into_iter().map(|(_, part)| part).collect()
    }
}

fn value_of(source: &Source) -> Option<ValueId> {
    match source {
        Source::Value(id) => Some(*id),
        Source::Number(_) => None,
    }
}
