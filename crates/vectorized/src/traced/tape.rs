//! The tape: the nodes of an expression in the order in which they were made.

use flambeau_core::Scalar;
use std::cell::RefCell;

/// The position of a node on its tape.
pub type NodeId = u16;

/// A tape takes so many nodes.
const MAX_NODES: usize = 1024;
/// A formula may test so often whether any lane of a mask is true: loops that end by such a test never end.
const MAX_QUESTIONS: usize = 64;

/// What values a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TracedType {
    /// Elements of the type that is computed in.
    Element,
    /// Truth values.
    Mask,
    /// The bits of elements.
    Bits,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The operation: the method of the vector, or `input`, `scalar`, `float`, `integer` (constants) and `bits`.
    pub name: &'static str,
    /// The values it takes, of which `count` matter.
    pub args: [NodeId; 3],
    /// How many it takes.
    pub count: u8,
    /// What it gives.
    pub kind: TracedType,
    /// The number of an input, a scalar or a table, the value of a constant (an f64 by its bits), or the distance of a shift.
    pub payload: u64,
}

/// The expression of a formula.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The operations; arguments come before those that take them.
    pub nodes: Vec<Node>,
    /// Numbers that were given to the formula as arguments.
    pub scalars: Vec<Scalar>,
    /// Tables in which values are looked up by the low four bits of an index, as the bits of f64.
    pub tables: Vec<[u64; 16]>,
    /// The node of the result; of complex numbers, that of its real part.
    pub output: Option<NodeId>,
    /// The node of the imaginary part, if the result is complex.
    pub imaginary: Option<NodeId>,
    /// How many inputs there are.
    pub inputs: u64,
    /// Why the formula cannot be traced, if so.
    pub fault: Option<&'static str>,
    questions: usize,
}

impl Tape {
    /// The expression of one operation on inputs of these kinds, and after them on these numbers; of no operation, the first input.
    pub fn of(operation: Option<&'static str>, inputs: &[TracedType], numbers: &[Scalar]) -> Self {
        let mut tape = Tape { inputs: inputs.len() as u64, scalars: numbers.to_vec(), ..Tape::default() };
        let leaf = |name, kind, payload| Node { name, args: [0; 3], count: 0, kind, payload };
        tape.nodes.extend((0..).zip(inputs).map(|(i, kind)| leaf("input", *kind, i)));
        tape.nodes.extend((0..).zip(numbers).map(|(i, _)| leaf("scalar", TracedType::Element, i)));
        if let Some(name) = operation {
            let count = tape.nodes.len();
            tape.fault = (count > 3).then_some("its operation takes more than three values");
            let count = count.min(3) as u8;
            tape.nodes.push(Node { name, args: [0, 1, 2], count, kind: TracedType::Element, payload: 0 });
        }
        tape.output = tape.nodes.len().checked_sub(1).map(|last| last as NodeId);
        tape
    }

    /// The number of a table, which is added if it is not there.
    pub(super) fn table(&mut self, table: [u64; 16]) -> u64 {
        let known = self.tables.iter().position(|other| *other == table);
        known.unwrap_or_else(|| {
            self.tables.push(table);
            self.tables.len() - 1
        }) as u64
    }
}

thread_local! {
    static TAPE: RefCell<Tape> = RefCell::default();
}

/// The tape of what `formula` does on this thread.
pub fn trace(formula: impl FnOnce()) -> Tape {
    with(|tape| *tape = Tape::default());
    formula();
    with(std::mem::take)
}

/// Calls `body` with this thread's tape; an exiting thread has none.
fn with<R: Default>(body: impl FnOnce(&mut Tape) -> R) -> R {
    TAPE.try_with(|tape| body(&mut tape.borrow_mut())).unwrap_or_default()
}

/// Appends a node.
#[inline(never)]
pub(super) fn push(name: &'static str, kind: TracedType, args: &[NodeId], payload: u64) -> NodeId {
    with(|tape| {
        if tape.nodes.len() >= MAX_NODES {
            tape.fault = Some("it has too many operations");
            return 0;
        }
        let mut node = Node { name, args: [0; 3], count: args.len() as u8, kind, payload };
        node.args[..args.len()].copy_from_slice(args);
        tape.nodes.push(node);
        (tape.nodes.len() - 1) as NodeId
    })
}

/// Appends the next input.
#[inline(never)]
pub(super) fn push_input(kind: TracedType) -> NodeId {
    let index = with(|tape| {
        tape.inputs += 1;
        tape.inputs - 1
    });
    push("input", kind, &[], index)
}

/// Appends a number that the formula was given.
#[inline(never)]
pub(super) fn push_scalar(value: Scalar) -> NodeId {
    let index = with(|tape| {
        tape.scalars.push(value);
        tape.scalars.len() - 1
    });
    push("scalar", TracedType::Element, &[], index as u64)
}

/// The number of a table.
#[inline(never)]
pub(super) fn push_table(table: [u64; 16]) -> u64 {
    with(|tape| tape.table(table))
}

/// Notes the result, or after that its imaginary part.
#[inline(never)]
pub(super) fn set_output(node: NodeId) {
    with(|tape| match tape.output {
        None => tape.output = Some(node),
        Some(_) => tape.imaginary = Some(node),
    });
}

/// Notes that the formula cannot be traced.
#[inline(never)]
pub(super) fn set_fault(why: &'static str) {
    with(|tape| _ = tape.fault.get_or_insert(why));
}

/// Whether a loop that ends by a mask goes on: so often only.
#[inline(never)]
pub(super) fn ask() -> bool {
    with(|tape| {
        tape.questions += 1;
        if tape.questions > MAX_QUESTIONS {
            tape.fault = Some("it has a loop whose end depends on its elements");
        }
        tape.fault.is_none()
    })
}
