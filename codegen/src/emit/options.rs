//! The options of methods: a struct for each, with a setter for each argument that has a default.

use std::collections::{BTreeMap, BTreeSet};

use super::own_and_other_imports;
use crate::model::Operator;
use crate::naming;
use crate::rust_interface::{enum_of, options, options_type};
use crate::schema::{Argument, BaseType, Type};

/// The files of options by family. Methods of several families may share options: the first one has them.
pub(super) fn files(families: &BTreeMap<&str, Vec<&Operator<'_>>>) -> BTreeMap<String, String> {
    let mut known = BTreeSet::new();
    let text = |(family, operators): (&&str, &Vec<&Operator<'_>>)| {
        let new = |operator: &&&Operator<'_>| {
            let method = operator.method.as_ref().filter(|_| options(operator).next().is_some());
            method.is_some_and(|method| known.insert(options_type(method)))
        };
        let declared: Vec<&Operator<'_>> = operators.iter().filter(new).copied().collect();
        (!declared.is_empty()).then(|| ((*family).to_owned(), file(family, &declared)))
    };
    families.iter().filter_map(text).collect()
}

fn file(family: &str, operators: &[&Operator<'_>]) -> String {
    let structs = operators
        .iter()
        .map(|operator| declaration(operator, operator.method.as_deref().unwrap_or_default()));
    let body = structs.collect::<Vec<_>>().join("\n");
    let enums = enums(operators);
    let enums = if enums.is_empty() {
        String::new()
    } else {
        format!("use crate::enums::{{{}}};\n", enums.join(", "))
    };
    let (own, other) = own_and_other_imports(&body);
    let doc = format!("//! The options of the methods of `{family}`.");
    format!("{doc}\n\n{own}{enums}use crate::method_options::options;\n{other}\noptions! {{\n{body}}}\n")
}

/// The module that gathers them.
pub(super) fn module(files: &BTreeMap<String, String>) -> String {
    let declared: String = files.keys().map(|family| format!("mod {family};\n")).collect();
    let exported: String = files.keys().map(|family| format!("pub use {family}::*;\n")).collect();
    format!(
        "//! The options of methods: `x.sum_with(SumOptions::new().keepdim(true))`, and the enums that they take.\n\n\
         {declared}\npub use crate::enums::*;\npub use crate::int_list::IntList;\n{exported}"
    )
}

/// The enums that the options of the methods have.
fn enums(operators: &[&Operator<'_>]) -> Vec<&'static str> {
    let found: BTreeSet<&str> = operators
        .iter()
        .flat_map(|operator| options(operator).filter_map(|argument| enum_of(&operator.schema, argument)))
        .map(|found| found.name)
        .collect();
    found.into_iter().collect()
}

/// Whether the options of a method borrow what they hold.
pub(super) fn borrows(operator: &Operator<'_>) -> bool {
    options(operator).any(|argument| ty(operator, argument).contains("&'a"))
}

/// The name of the field and of the setter.
pub(super) fn field(argument: &Argument) -> String {
    naming::identifier(&argument.name.to_lowercase())
}

fn ty(operator: &Operator<'_>, argument: &Argument) -> String {
    let optional = |ty: String| if argument.ty.is_optional() { format!("Option<{ty}>") } else { ty };
    match enum_of(&operator.schema, argument) {
        Some(found) => optional(found.name.to_owned()),
        None => naming::parameter(&argument.ty).unwrap_or_default().replace('&', "&'a "),
    }
}

fn default(operator: &Operator<'_>, argument: &Argument) -> String {
    match enum_of(&operator.schema, argument) {
        Some(found) if !argument.ty.is_optional() => format!("{}::{}", found.name, found.default),
        _ => naming::default(argument).unwrap_or_else(|| "None".to_owned()),
    }
}

fn declaration(operator: &Operator<'_>, method: &str) -> String {
    let name = options_type(method);
    let lifetime = if borrows(operator) { " <'a>" } else { "" };
    let with = with_name(method);
    let doc = format!("    /// Options of [`Tensor::{with}`](crate::Tensor::{with}).\n");
    let fields: String = options(operator).map(|argument| declared_field(operator, argument)).collect();
    format!("{doc}    {name}{lifetime} {{\n{fields}    }}\n")
}

/// A field with its default, and the word that says what its setter takes: an `Option` too of what is a single word in memory.
fn declared_field(operator: &Operator<'_>, argument: &Argument) -> String {
    let ty = ty(operator, argument);
    let inner = ty.strip_prefix("Option<").and_then(|ty| ty.strip_suffix('>'));
    let (takes, ty) = match (argument.ty.without_optional(), inner) {
        (Type::Base(BaseType::Scalar), Some(inner)) => ("some_into", inner),
        (Type::List(..), Some(inner)) => ("some", inner),
        (Type::Base(BaseType::Scalar), None) | (_, Some(_)) => ("into", ty.as_str()),
        (_, None) => ("is", ty.as_str()),
    };
    let doc = doc(operator, argument);
    format!(
        "        /// {doc}\n        {}: {takes} {ty} = {};\n",
        field(argument),
        default(operator, argument)
    )
}

fn with_name(method: &str) -> String {
    method.strip_suffix('_').map_or_else(|| format!("{method}_with"), |base| format!("{base}_with_"))
}

/// What the argument is, if its name always means the same, and its default.
fn doc(operator: &Operator<'_>, argument: &Argument) -> String {
    let meaning = MEANINGS.iter().find(|(name, _)| *name == argument.name).map(|(_, meaning)| *meaning);
    let default = default(operator, argument);
    let number = default.strip_prefix("Scalar::").and_then(|rest| rest.split(['(', ')']).nth(1));
    let default = match number.unwrap_or(default.trim_start_matches('&')) {
        "None" => "Not given by default.".to_owned(),
        other => format!("By default `{other}`."),
    };
    match meaning {
        Some(meaning) => format!("{meaning} {default}"),
        None => format!("The argument `{}` of the operator. {default}", argument.name),
    }
}

/// The arguments whose names mean the same in all operators.
const MEANINGS: &[(&str, &str)] = &[
    ("accumulate", "Whether values are added to those that are there."),
    ("align_corners", "Whether the centers of the corners stay at the corners."),
    ("alpha", "The factor of the other operand."),
    ("aweights", "The weight of each observation, not negative."),
    ("base", "The base of the powers."),
    ("beta", "The factor of `self`."),
    ("bias", "What is added to each output."),
    ("ceil_mode", "Whether output sizes are rounded up."),
    ("copy", "Whether the result is a copy in any case."),
    ("correction", "What is subtracted from the number of elements in the divisor."),
    ("density", "Whether the integral over the bins is 1."),
    ("descending", "Whether the largest come first."),
    ("diagonal", "Which diagonal: 0 is the main one, larger ones are above it."),
    ("dilation", "The distance between the elements of the kernel, in each dimension."),
    ("dim", "The dimension, or dimensions."),
    ("dim1", "The first dimension."),
    ("dim2", "The second dimension."),
    ("dims", "The dimensions."),
    ("dtype", "The type of the result."),
    ("dx", "The distance between neighbouring points."),
    ("eps", "What is added to, or bounds, a divisor."),
    ("equal_nan", "Whether two NaN are equal."),
    ("fill_value", "The value of elements that are left over."),
    ("fweights", "How often each observation was made."),
    ("generator", "The generator of random numbers; without one, that of the device."),
    ("groups", "The number of groups of channels: outputs of a group depend on its inputs only."),
    ("include_last_offset", "Whether the last offset is the number of indices."),
    ("include_self", "Whether the elements of `self` take part."),
    ("interpolation", "How quantiles between two elements are found."),
    ("keepdim", "Whether reduced dimensions stay, with size 1."),
    ("largest", "Whether the largest are found, and not the smallest."),
    ("mean", "The mean of the distribution."),
    ("memory_format", "The order of the dimensions in memory."),
    ("minlength", "The minimum number of bins."),
    ("mode", "How the rows of a bag are combined."),
    ("non_blocking", "Whether the call may return before the copy is done."),
    ("offset", "Which diagonal: 0 is the main one, larger ones are above it."),
    ("out_int32", "Whether indices are int32, and not int64."),
    ("output_padding", "What is added at one side of the output, in each dimension."),
    ("output_size", "The size of the result."),
    ("p", "The exponent of the norm."),
    ("padding", "What is added on both sides of the input, in each dimension."),
    ("padding_idx", "The index whose row is not trained."),
    ("per_sample_weights", "The weight of each index."),
    ("reduction", "What is made of the losses of all elements."),
    ("replacement", "Whether a category may be drawn more than once."),
    ("running_mean", "The running mean of each channel."),
    ("running_var", "The running variance of each channel."),
    ("scale", "The factor of the scores."),
    ("scale_factors", "How many times as large the result is, in each dimension."),
    ("scale_grad_by_freq", "Whether gradients are divided by how often an index occurs."),
    ("sorted", "Whether the result is sorted."),
    ("sparse", "Whether the gradient is sparse."),
    ("sparse_grad", "Whether the gradient is sparse."),
    ("stable", "Whether equal elements keep their order."),
    ("std", "The standard deviation of the distribution."),
    ("step", "The distance between neighbouring elements."),
    ("storage_offset", "The position of the first element in the storage."),
    ("stride", "The steps of the kernel, in each dimension."),
    ("unbiased", "Whether the divisor is the number of elements less 1."),
    ("value", "The factor of the product or quotient."),
    ("weight", "The weights."),
    ("weights", "The weight of each element."),
];
