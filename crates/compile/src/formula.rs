//! Which formulas can be lowered: their types, their operations, and what their loops read.

use crate::functions;
use crate::traced_loops::{TracedLoop, TracedOperand};
use flambeau_core::{ScalarType, Storage};
use flambeau_ops::vectorized::traced::{Node, Tape, TracedType};

/// Operations that become instructions; functions of [`functions`] become calls.
const OPERATIONS: &[&str] = &[
    "input",
    "scalar",
    "float",
    "bits",
    "mask_constant",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "min",
    "max",
    "sqrt",
    "mul_add",
    "floor",
    "ceil",
    "round",
    "trunc",
    "copysign",
    "select",
    "eq",
    "ne",
    "lt",
    "le",
    "mask_and",
    "mask_or",
    "mask_not",
    "to_bits",
    "from_bits",
    "bits_equal",
    "bits_add",
    "bits_sub",
    "bits_and",
    "bits_or",
    "bits_xor",
    "bits_shl",
    "bits_shr",
];

/// Operations of bools, which are truth values in registers.
const OPERATIONS_OF_BOOLS: &[&str] = &[
    "input",
    "integer",
    "mask_constant",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bit_not",
    "eq",
    "ne",
    "mask_and",
    "mask_or",
    "mask_not",
];

/// The type to which each input of a tape is converted.
pub(crate) fn input_types(tape: &Tape, computing: ScalarType) -> Vec<ScalarType> {
    let mut types = vec![computing; tape.inputs as usize];
    for node in tape.nodes.iter().filter(|node| node.name == "input" && node.kind == TracedType::Mask) {
        types[node.payload as usize] = ScalarType::Bool;
    }
    types
}

/// Whether a loop can be lowered; it reads tensors of `known` only, each with its own geometry.
///
/// # Errors
/// Why not, in words.
pub(crate) fn check(made: &TracedLoop, known: &[(&Storage, &[i64], &[i64])]) -> Result<(), String> {
    let TracedLoop { operands, tape, computing, output, .. } = made;
    let is_bool = *computing == ScalarType::Bool;
    if !is_bool && !matches!(computing, ScalarType::F32 | ScalarType::F64) {
        return Err(format!("it computes in {computing}"));
    }
    let [result, inputs @ ..] = &operands[..] else { return Err("it has no result".to_owned()) };
    let Some(last) = tape.output.and_then(|node| tape.nodes.get(usize::from(node))) else {
        return Err("its formula has no result".to_owned());
    };
    let expected = if last.kind == TracedType::Mask || is_bool { ScalarType::Bool } else { *computing };
    if result.dtype != expected || *output != expected {
        return Err(format!("its result of {computing} is converted to {}", result.dtype));
    }
    if known.iter().any(|(storage, ..)| Storage::ptr_eq(storage, &result.storage)) {
        return Err("it writes one of its arguments".to_owned());
    }
    if inputs.len() as u64 != tape.inputs {
        return Err("it has other inputs than its formula".to_owned());
    }
    for (operand, dtype) in inputs.iter().zip(input_types(tape, *computing)) {
        check_operand(operand, dtype, known)?;
    }
    tape.nodes.iter().try_for_each(|node| check_node(node, *computing))
}

fn check_operand(
    operand: &TracedOperand,
    dtype: ScalarType,
    known: &[(&Storage, &[i64], &[i64])],
) -> Result<(), String> {
    if operand.number.is_some() {
        return Ok(());
    }
    let converts = operand.dtype == dtype || operand.dtype == ScalarType::Bool || dtype == ScalarType::Bool;
    let is_lane = matches!(operand.dtype, ScalarType::F32 | ScalarType::F64 | ScalarType::Bool);
    if !converts || !is_lane {
        return Err(format!("it converts an argument of {} to {dtype}", operand.dtype));
    }
    let is_known = |(storage, sizes, strides): &(&Storage, &[i64], &[i64])| {
        Storage::ptr_eq(storage, &operand.storage) && operand.sizes == *sizes && operand.strides == *strides
    };
    match operand.offset == 0 && known.iter().any(is_known) {
        true => Ok(()),
        false => Err("it reads a view that it makes itself".to_owned()),
    }
}

fn check_node(node: &Node, computing: ScalarType) -> Result<(), String> {
    let is_supported = match computing {
        ScalarType::Bool => OPERATIONS_OF_BOOLS.contains(&node.name),
        _ => OPERATIONS.contains(&node.name) || functions::takes(node.name).is_some(),
    };
    if is_supported { Ok(()) } else { Err(format!("its formula has the operation {}", node.name)) }
}
