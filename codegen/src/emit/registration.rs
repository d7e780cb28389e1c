//! The static of an operator: its schema, the kernel for each dispatch key, and the boxed function.

use super::calls;
use super::kernels::wrapper;
use crate::model::Operator;
use crate::naming;
use crate::schema::Argument;

pub(super) fn emit(operator: &Operator<'_>) -> String {
    let schema = &operator.schema;
    let name = &schema.name;
    let (ty, types, returned) = (naming::kernel_type(name), calls::types(schema), calls::returned(schema));
    let kernel = |key: &str, function: &str| format!("Kernel::new(DispatchKey::{key}, {function} as {ty})");
    let kernels: Vec<String> = operator
        .kernels
        .iter()
        .flat_map(|k| k.keys.iter().map(|key| kernel(key, &wrapper(operator, k))).collect::<Vec<_>>())
        .chain([observed(operator), boxing(operator)])
        .collect();
    format!(
        "/// A kernel of `{name}`.\n\
         pub type {ty} = fn(DispatchKeySet{types}) -> Result<{returned}>;\n\n\
         /// The operator `{name}`.\n\
         pub static {static_name}: Operator<{ty}> = Operator::new(\n\
         {name:?},\n{text:?},\n&[{kernels}],\n{boxed},\n);",
        boxed = boxed_name(operator),
        static_name = naming::operator_static(name),
        name = name.to_string(),
        text = schema.to_string(),
        kernels = kernels.join(", "),
    )
}

fn boxed_name(operator: &Operator<'_>) -> String {
    format!("{}_boxed", operator.function())
}

/// The kernel that records the call for the profiler and calls the next one.
fn observed(operator: &Operator<'_>) -> String {
    let schema = &operator.schema;
    let tensors = schema.arguments().filter(|argument| argument.ty.holds_tensors());
    let tensors: Vec<String> = tensors.map(calls::name).collect();
    let arguments: String =
        schema.arguments().map(|argument| format!(", {}", calls::name(argument))).collect();
    format!(
        "observed!({}: {}, [{}]{arguments})",
        naming::operator_static(&schema.name),
        naming::kernel_type(&schema.name),
        tensors.join(", ")
    )
}

/// The function that packs the arguments for boxed kernels.
fn boxing(operator: &Operator<'_>) -> String {
    let schema = &operator.schema;
    let arguments: String =
        schema.arguments().map(|argument| format!(", {}", calls::name(argument))).collect();
    format!(
        "boxing!({}: {}{arguments})",
        naming::operator_static(&schema.name),
        naming::kernel_type(&schema.name)
    )
}

/// The boxed function, which takes the arguments as a list of values.
pub(super) fn boxed(operator: &Operator<'_>) -> String {
    let schema = &operator.schema;
    let take =
        |argument: &Argument| format!("arguments.{}()?", naming::boxed(&argument.ty).unwrap_or_default());
    let arguments: Vec<String> = schema.arguments().map(take).collect();
    format!(
        "fn {boxed}(given: &[Value]) -> Result<Vec<Value>> {{\n\
         {taken}Arguments::new({name:?}, given, {count})?;\n\
         {function}({arguments}).map(IntoValues::into_values)\n}}",
        boxed = boxed_name(operator),
        name = schema.name.to_string(),
        taken = if arguments.is_empty() { "" } else { "let mut arguments = " },
        count = arguments.len(),
        function = operator.function(),
        arguments = arguments.join(", "),
    )
}
