//! Text of parameters, arguments and result types, for all functions that are emitted.

use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

/// `self_: &Tensor, alpha: Scalar`
pub(super) fn parameters(schema: &FunctionSchema) -> String {
    schema.arguments().map(parameter).collect::<Vec<_>>().join(", ")
}

fn parameter(argument: &Argument) -> String {
    format!("{}: {}", name(argument), ty(argument))
}

/// The Rust type of a parameter. The model has checked that there is one.
pub(super) fn ty(argument: &Argument) -> String {
    naming::parameter(&argument.ty).unwrap_or_default()
}

pub(super) fn name(argument: &Argument) -> String {
    naming::identifier(&argument.name)
}

/// `self_, alpha`: all arguments, to be passed to another function.
pub(super) fn arguments(schema: &FunctionSchema) -> String {
    schema.arguments().map(name).collect::<Vec<_>>().join(", ")
}

/// The arguments a kernel of the functional operator takes: all but the `out=` group.
pub(super) fn inputs(schema: &FunctionSchema) -> Vec<String> {
    schema.inputs().map(name).collect()
}

/// A name for a local variable that no argument has: `target`, or `target_` if an argument is called `target`.
pub(super) fn local(schema: &FunctionSchema, base: &str) -> String {
    let mut local = base.to_owned();
    while schema.arguments().any(|argument| name(argument) == local) {
        local.push('_');
    }
    local
}

pub(super) fn returned(schema: &FunctionSchema) -> String {
    naming::returned(schema).unwrap_or_default()
}

/// A slice of every tensor that is read: `&[self_, mat2]`, or a longer form where some are optional or in lists.
pub(super) fn tensor_slice(schema: &FunctionSchema) -> String {
    slice(schema.inputs().filter(|argument| argument.ty.holds_tensors()).collect())
}

/// The same with the tensors that are written, and without lists of indices, which may be on another device.
pub(super) fn operand_slice(schema: &FunctionSchema) -> String {
    let is_index = |ty: &Type| matches!(ty, Type::List(inner, _) if inner.is_optional());
    let operands =
        schema.arguments().filter(|argument| argument.ty.holds_tensors() && !is_index(&argument.ty));
    slice(operands.collect())
}

fn slice(tensors: Vec<&Argument>) -> String {
    let plain = |argument: &&Argument| argument.ty == Type::Base(BaseType::Tensor);
    let single: Vec<String> =
        tensors.iter().filter(|argument| plain(argument)).map(|argument| name(argument)).collect();
    if single.len() == tensors.len() {
        return format!("&[{}]", single.join(", "));
    }
    let chained = tensors.iter().filter(|argument| !plain(argument)).map(|argument| match &argument.ty {
        Type::List(inner, _) if inner.is_optional() => format!(".chain({}.iter().flatten())", name(argument)),
        _ => format!(".chain({})", name(argument)),
    });
    format!("&[{}].into_iter(){}.collect::<Vec<&Tensor>>()", single.join(", "), chained.collect::<String>())
}
