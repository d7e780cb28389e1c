//! The declaration of an operator: schema, function, and the kernels behind its keys; and the module that gathers them.

use std::collections::BTreeMap;

use super::{calls, comment, first_sentence, kernels, wrapped};
use crate::model::Operator;
use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

/// The declaration of an operator, which the macro `operator!` makes a static and a function of.
pub(super) fn declaration(operator: &Operator<'_>) -> String {
    let schema = &operator.schema;
    let head = format!(
        "    {}: {:?}, {}({}) -> {}, by [{}]{};",
        naming::operator_static(&schema.name),
        schema.to_string(),
        operator.function(),
        calls::parameters(schema),
        calls::returned(schema),
        tensors(schema).join(", "),
        device(schema),
    );
    let doc: String = comment(&doc(operator)).lines().map(|line| format!("    {line}\n")).collect();
    let kernels: Vec<String> = kernels::emit(operator);
    format!("operator! {{\n{doc}{}\n{}}}", wrapped(&head), kernels.concat())
}

/// The whole documentation if there is no method that has it, and the first sentence otherwise.
fn doc(operator: &Operator<'_>) -> String {
    let doc = operator.entry.doc.as_deref().unwrap_or_default();
    let on_method = operator.method.is_some() || operator.derived.is_some();
    if on_method { first_sentence(doc) } else { doc.to_owned() }
}

/// The arguments by whose keys a kernel is chosen.
fn tensors(schema: &FunctionSchema) -> Vec<String> {
    schema.arguments().filter(|argument| argument.ty.holds_tensors()).map(calls::name).collect()
}

/// The device of an operator that makes tensors.
fn device(schema: &FunctionSchema) -> String {
    let is_device = |argument: &&Argument| *argument.ty.without_optional() == Type::Base(BaseType::Device);
    match schema.arguments().find(is_device) {
        Some(device) if device.ty.is_optional() => format!(" on {}", calls::name(device)),
        Some(device) => format!(" on Some({})", calls::name(device)),
        None if tensors(schema).is_empty() => " on None".to_owned(),
        None => String::new(),
    }
}

pub(super) fn module(families: &BTreeMap<&str, Vec<&Operator<'_>>>) -> String {
    let doubled = |operator: &&Operator<'_>| operator.function().trim_matches('_').contains("__");
    let mut text =
        "//! Every operator: a static, a function that takes every argument, a method.\n\n".to_owned();
    if families.values().flatten().any(doubled) {
        text += "#![allow(clippy::too_many_arguments, reason = \"as many as the schema has\")]\n#![expect(non_snake_case, reason = \"`add_.Tensor` is `add__tensor`, so that names tell overloads apart\")]\n\n";
    }
    text += "mod methods;\npub mod options;\n\n";
    for family in families.keys() {
        text += &format!("mod {family};\n");
    }
    text += "\n";
    for family in families.keys() {
        text += &format!("pub use {family}::*;\n");
    }
    text += "\nuse crate::dispatch::OperatorInfo;\n\n/// Every operator, in the order of the file within each family.\n";
    let statics = families
        .values()
        .flatten()
        .map(|operator| format!("&{}", naming::operator_static(&operator.schema.name)));
    text += &format!(
        "pub static OPERATORS: &[&dyn OperatorInfo] = &[{}];\n",
        statics.collect::<Vec<_>>().join(", ")
    );
    text
}
