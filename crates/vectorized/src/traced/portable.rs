//! The mathematical functions of an expression replaced by the sums, products and tables that they consist of on the host, so that a device
//! which rounds each operation as the host does computes the host's bits.

use super::super::lanes::{Float, Vector};
use super::super::math::{self, FloatElement};
use super::TracedLane;
use super::tape::{Node, NodeId, Tape, trace};
use std::ptr;

/// The next input of the expression that is being traced.
fn input<T: FloatElement>() -> TracedLane<T> {
    // SAFETY: vectors that write operations down read nothing.
    unsafe { TracedLane::load(ptr::null()) }
}

fn finish<T: FloatElement>(result: TracedLane<T>) {
    // SAFETY: as above, and they write nothing.
    unsafe { result.store(ptr::null_mut()) }
}

/// Declares the functions of one and of two vectors, which have the names of their nodes. `fmod` is exact on every device.
macro_rules! functions {
    ($($unary:ident)*; $($binary:ident)*) => {
        /// What a function consists of; `None` where a node is another operation.
        fn body<T: FloatElement>(name: &str) -> Option<Tape>
        where
            TracedLane<T>: Float<Element = T>,
        {
            Some(match name {
                $(stringify!($unary) => trace(|| finish(math::$unary(input::<T>()))),)*
                $(stringify!($binary) => trace(|| {
                    let (a, b) = (input::<T>(), input::<T>());
                    finish(math::$binary(a, b));
                }),)*
                _ => return None,
            })
        }
    };
}

functions! {
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc erfcx gelu gelu_slope;
    pow
}

impl Tape {
    /// The same expression without mathematical functions, of numbers of f64 or else of f32.
    #[must_use]
    pub fn portable(&self, is_f64: bool) -> Self {
        let mut made = Tape::default();
        (made.scalars, made.inputs, made.fault) = (self.scalars.clone(), self.inputs, self.fault);
        let positions = append(&mut made, self, None, is_f64);
        let at = |node: Option<NodeId>| node.and_then(|node| positions.get(usize::from(node)).copied());
        (made.output, made.imaginary) = (at(self.output), at(self.imaginary));
        made
    }
}

/// Appends the nodes of an expression, whose inputs are `arguments` where it is a function; returns where each node is.
fn append(to: &mut Tape, from: &Tape, arguments: Option<&[NodeId]>, is_f64: bool) -> Vec<NodeId> {
    to.fault = to.fault.or(from.fault);
    let mut positions: Vec<NodeId> = Vec::with_capacity(from.nodes.len());
    for node in &from.nodes {
        let mut args = node.args;
        let args = &mut args[..usize::from(node.count)];
        args.iter_mut().for_each(|arg| *arg = positions.get(usize::from(*arg)).copied().unwrap_or_default());
        let given = arguments.and_then(|all| all.get(node.payload as usize)).filter(|_| node.name == "input");
        let position = match given {
            Some(argument) => *argument,
            None => append_node(to, node, args, from, is_f64),
        };
        positions.push(position);
    }
    positions
}

/// Appends what a node of an expression stands for; returns where its value is.
fn append_node(to: &mut Tape, node: &Node, args: &[NodeId], from: &Tape, is_f64: bool) -> NodeId {
    let function = if is_f64 { body::<f64>(node.name) } else { body::<f32>(node.name) };
    if let Some(function) = function {
        let positions = append(to, &function, Some(args), is_f64);
        return function.output.and_then(|at| positions.get(usize::from(at)).copied()).unwrap_or_default();
    }
    let Ok(position) = NodeId::try_from(to.nodes.len()) else {
        to.fault = Some("it has too many operations");
        return 0;
    };
    let mut node = *node;
    node.args[..args.len()].copy_from_slice(args);
    if let ("look_up", Some(table)) = (node.name, from.tables.get(node.payload as usize)) {
        node.payload = to.table(*table);
    }
    to.nodes.push(node);
    position
}
