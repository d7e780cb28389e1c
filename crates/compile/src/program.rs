//! A program: the formulas of several loops over the same elements as one expression, in which each operation occurs once.

use crate::functions;
use crate::graph::{Loop, Source, ValueId};
use flambeau_core::{Element, Scalar, ScalarType};
use flambeau_ops::vectorized::traced::{Node, NodeId, TracedType};
use std::collections::HashMap;

/// An input of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Input {
    /// Whether it is of bools.
    pub(crate) is_mask: bool,
    /// Whether one element serves all of a row.
    pub(crate) is_repeated: bool,
}

/// All that machine code depends on: programs that are equal share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    /// f32 or f64.
    pub(crate) element: ScalarType,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Input>,
    /// How many numbers are passed beside the inputs.
    pub(crate) numbers: usize,
    /// The nodes that are stored.
    pub(crate) outputs: Vec<NodeId>,
}

impl Program {
    /// Whether node `id` is of truth values.
    pub(crate) fn is_mask(&self, id: NodeId) -> bool {
        self.nodes[usize::from(id)].kind == TracedType::Mask
    }

    /// Bytes of an element.
    pub(crate) fn element_size(&self) -> usize {
        self.element.size()
    }

    /// Elements of a vector of 128 bits.
    pub(crate) fn lanes(&self) -> usize {
        16 / self.element_size()
    }
}

/// Makes a program of loops.
pub(crate) struct Builder {
    program: Program,
    known: HashMap<Node, NodeId>,
    /// The values that the inputs are.
    pub(crate) inputs: Vec<ValueId>,
    /// The numbers.
    pub(crate) numbers: Vec<f64>,
    /// The nodes of values that were computed.
    values: HashMap<ValueId, NodeId>,
}

impl Builder {
    pub(crate) fn new(element: ScalarType) -> Self {
        let program =
            Program { element, nodes: Vec::new(), inputs: Vec::new(), numbers: 0, outputs: Vec::new() };
        let (known, inputs) = (HashMap::new(), Vec::new());
        Builder { program, known, inputs, numbers: Vec::new(), values: HashMap::new() }
    }

    /// The node for an operation, which is there already if an equal one is.
    fn push(&mut self, name: &'static str, kind: TracedType, args: &[NodeId], payload: u64) -> NodeId {
        let mut node = Node { name, args: [0; 3], count: args.len() as u8, kind, payload };
        node.args[..args.len()].copy_from_slice(args);
        let Builder { program, known, .. } = self;
        *known.entry(node).or_insert_with(|| {
            program.nodes.push(node);
            (program.nodes.len() - 1) as NodeId
        })
    }

    fn constant(&mut self, value: f64) -> NodeId {
        self.push("float", TracedType::Element, &[], value.to_bits())
    }

    fn mask_constant(&mut self, value: bool) -> NodeId {
        self.push("mask_constant", TracedType::Mask, &[], u64::from(value))
    }

    /// A number that is passed beside the inputs, rounded to the element type.
    fn number(&mut self, value: Scalar) -> NodeId {
        let value = match self.program.element {
            ScalarType::F64 => f64::from_scalar(value),
            _ => f64::from(f32::from_scalar(value)),
        };
        let same = |known: &f64| known.to_bits() == value.to_bits();
        let index = self.numbers.iter().position(same).unwrap_or_else(|| {
            self.numbers.push(value);
            self.numbers.len() - 1
        });
        self.program.numbers = self.numbers.len();
        self.push("scalar", TracedType::Element, &[], index as u64)
    }

    /// The node of a value that is read, as it is in memory.
    fn value(&mut self, id: ValueId, is_mask: bool) -> NodeId {
        if let Some(node) = self.values.get(&id) {
            return *node;
        }
        let index = self.inputs.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.inputs.push(id);
            self.program.inputs.push(Input { is_mask, is_repeated: false });
            self.inputs.len() - 1
        });
        let kind = if is_mask { TracedType::Mask } else { TracedType::Element };
        self.push("input", kind, &[], index as u64)
    }

    /// The node of a source, converted to the type in which it is computed.
    fn source(&mut self, source: &Source, to: ScalarType, memory: impl Fn(ValueId) -> ScalarType) -> NodeId {
        let is_mask = to == ScalarType::Bool;
        match source {
            Source::Number(number) if is_mask => self.mask_constant(number.to_bool()),
            Source::Number(number) => self.number(*number),
            Source::Value(id) => {
                let from_mask = memory(*id) == ScalarType::Bool;
                let node = self.value(*id, from_mask);
                match (from_mask, is_mask) {
                    (true, false) => {
                        let (one, zero) = (self.constant(1.0), self.constant(0.0));
                        self.push("select", TracedType::Element, &[node, one, zero], 0)
                    }
                    (false, true) => {
                        let zero = self.constant(0.0);
                        self.push("ne", TracedType::Mask, &[node, zero], 0)
                    }
                    _ => node,
                }
            }
        }
    }

    /// Appends a loop; `memory` says of which type a value is.
    pub(crate) fn append(&mut self, made: &Loop, memory: impl Fn(ValueId) -> ScalarType) {
        let mut map: Vec<NodeId> = Vec::with_capacity(made.tape.nodes.len());
        for node in &made.tape.nodes {
            let arg = |i: usize| map[usize::from(node.args[i])];
            let args: Vec<NodeId> = (0..usize::from(node.count)).map(arg).collect();
            let id = match node.name {
                "input" => {
                    let (source, to) = &made.inputs[node.payload as usize];
                    self.source(source, *to, &memory)
                }
                "scalar" => self.number(made.tape.scalars[node.payload as usize]),
                _ if made.computing == ScalarType::Bool => self.of_bools(node, &args),
                _ => self.push(node.name, node.kind, &args, node.payload),
            };
            map.push(id);
        }
        if let Some(node) = made.tape.output.and_then(|output| map.get(usize::from(output))) {
            self.values.insert(made.result, *node);
        }
    }

    /// An operation of bools, which are truth values here.
    fn of_bools(&mut self, node: &Node, args: &[NodeId]) -> NodeId {
        let mask = TracedType::Mask;
        match node.name {
            "integer" | "mask_constant" => self.mask_constant(node.payload != 0),
            "bit_and" | "mask_and" => self.push("mask_and", mask, args, 0),
            "bit_or" | "mask_or" => self.push("mask_or", mask, args, 0),
            "bit_not" | "mask_not" => self.push("mask_not", mask, args, 0),
            "eq" => {
                let differs = self.push("mask_xor", mask, args, 0);
                self.push("mask_not", mask, &[differs], 0)
            }
            _ => self.push("mask_xor", mask, args, 0),
        }
    }

    /// Stores a value that was computed; returns whether there is one.
    pub(crate) fn store(&mut self, id: ValueId) -> bool {
        let node = self.values.get(&id).copied();
        self.program.outputs.extend(node);
        node.is_some()
    }

    /// The program, given which inputs are repeated; and without the operations that no output needs.
    pub(crate) fn finish(mut self, is_repeated: impl Fn(usize) -> bool) -> Program {
        for (i, input) in self.program.inputs.iter_mut().enumerate() {
            input.is_repeated = is_repeated(i);
        }
        without_unused(self.program)
    }
}

fn without_unused(program: Program) -> Program {
    let mut used = vec![false; program.nodes.len()];
    program.outputs.iter().for_each(|output| used[usize::from(*output)] = true);
    for (i, node) in program.nodes.iter().enumerate().rev() {
        if used[i] {
            node.args[..usize::from(node.count)].iter().for_each(|arg| used[usize::from(*arg)] = true);
        }
    }
    let mut map = vec![0; program.nodes.len()];
    let mut nodes: Vec<Node> = Vec::new();
    for (i, node) in program.nodes.iter().enumerate().filter(|(i, _)| used[*i]) {
        let mut node = *node;
        node.args[..usize::from(node.count)].iter_mut().for_each(|arg| *arg = map[usize::from(*arg)]);
        map[i] = nodes.len() as NodeId;
        nodes.push(node);
    }
    let outputs = program.outputs.iter().map(|output| map[usize::from(*output)]).collect();
    Program { nodes, outputs, ..program }
}

/// For each node, the stage after which it is known: a call of a function on a tile ends a stage.
pub(crate) fn stages(program: &Program) -> Vec<usize> {
    let mut stages: Vec<usize> = Vec::with_capacity(program.nodes.len());
    for node in &program.nodes {
        let args = node.args[..usize::from(node.count)].iter().map(|arg| stages[usize::from(*arg)]);
        let last = args.max().unwrap_or(0);
        stages.push(last + usize::from(functions::takes(node.name).is_some()));
    }
    stages
}
