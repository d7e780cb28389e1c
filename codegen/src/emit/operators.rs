//! The function of an operator, which selects the kernel and calls it; and the module of all operators.

use std::collections::BTreeMap;

use super::{calls, comment, first_sentence};
use crate::model::Operator;
use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

pub(super) fn function(operator: &Operator<'_>) -> String {
    let schema = &operator.schema;
    let arguments: String =
        schema.arguments().map(|argument| format!(", {}", calls::name(argument))).collect();
    format!(
        "{doc}#[inline]\npub fn {function}({parameters}) -> Result<{returned}> {{\n\
         let ({local_keys}, {kernel}) = {operator}.select({keys})?;\n\
         {kernel}({local_keys}{arguments})\n}}",
        local_keys = calls::local(schema, "keys"),
        kernel = calls::local(schema, "kernel"),
        doc = comment(&doc(operator)),
        function = operator.function(),
        parameters = calls::parameters(schema),
        returned = calls::returned(schema),
        operator = naming::operator_static(&schema.name),
        keys = keys(schema),
    )
}

/// The whole documentation if there is no method that has it, and the first sentence otherwise.
fn doc(operator: &Operator<'_>) -> String {
    let doc = operator.entry.doc.as_deref().unwrap_or_default();
    let on_method = operator.method.is_some() || operator.derived.is_some();
    let doc = if on_method { first_sentence(doc) } else { doc.to_owned() };
    format!("{doc}\n\n`{}`", operator.schema)
}

/// The dispatch keys by which a kernel is selected: those of all tensors, and that of the device if there is such an argument.
fn keys(schema: &FunctionSchema) -> String {
    let tensors: Vec<String> = schema
        .arguments()
        .filter(|argument| argument.ty.holds_tensors())
        .map(|argument| format!("{}.key_set()", calls::name(argument)))
        .collect();
    let union = if tensors.is_empty() { "DispatchKeySet::EMPTY".to_owned() } else { tensors.join(" | ") };
    let device =
        schema.arguments().find(|argument| *argument.ty.without_optional() == Type::Base(BaseType::Device));
    match device {
        Some(device) if device.ty.is_optional() => format!("factory_keys({union}, {})", calls::name(device)),
        Some(device) => format!("factory_keys({union}, Some({}))", calls::name(device)),
        None if tensors.is_empty() => format!("factory_keys({union}, None)"),
        None => union,
    }
}

/// Whether the keys of optional tensors or lists are needed, which have them through a trait.
pub(super) fn needs_trait(operator: &Operator<'_>) -> bool {
    let through_trait =
        |argument: &Argument| argument.ty.holds_tensors() && argument.ty != Type::Base(BaseType::Tensor);
    operator.schema.arguments().any(through_trait)
}

pub(super) fn module(families: &BTreeMap<&str, Vec<&Operator<'_>>>) -> String {
    let doubled = |operator: &&Operator<'_>| operator.function().trim_matches('_').contains("__");
    let mut text =
        "//! Every operator: a static, a function that takes every argument, a method.\n\n".to_owned();
    if families.values().flatten().any(doubled) {
        text += "#![allow(clippy::too_many_arguments, reason = \"as many as the schema has\")]\n#![expect(non_snake_case, reason = \"`add_.Tensor` is `add__tensor`, so that names tell overloads apart\")]\n\n";
    }
    for (family, operators) in families {
        text += &format!("mod {family};\n");
        if operators.iter().any(|operator| operator.method.is_some()) {
            text += &format!("mod methods_{family};\n");
        }
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
