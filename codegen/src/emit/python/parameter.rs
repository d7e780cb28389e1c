//! The text for one parameter: its name, type and default.

use crate::naming;
use crate::schema::{Argument, BaseType, Literal, Type};

/// The functions whose first argument may be a number, as in PyTorch. A number as the second argument has an overload of its own.
const NUMBERS_FIRST: &[&str] = &["add", "sub", "mul", "div", "true_divide", "floor_divide"];

/// The name in Python.
pub(super) fn name(argument: &Argument) -> &str {
    let is_tensor = *argument.ty.without_optional() == Type::Base(BaseType::Tensor);
    if argument.name == "self" && is_tensor { "input" } else { &argument.name }
}

/// The name in Rust.
pub(super) fn identifier(argument: &Argument) -> String {
    naming::identifier(name(argument))
}

/// A default in Python's syntax.
pub(super) fn default_text(value: &Literal) -> String {
    match value {
        Literal::None => "None".to_owned(),
        Literal::Bool(true) => "True".to_owned(),
        Literal::Bool(false) => "False".to_owned(),
        Literal::Int(value) => value.to_string(),
        Literal::Float(value) => format!("{value:?}"),
        Literal::Str(value) => format!("'{value}'"),
        Literal::Name(name) => match name.as_str() {
            "Mean" => "1".to_owned(),
            "Sum" => "2".to_owned(),
            "long" => "int64".to_owned(),
            other => other.to_owned(),
        },
        Literal::List(items) => {
            let items: Vec<String> = items.iter().map(default_text).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// `alpha: keyword scalar = "1" Scalar::Int(1)`: the declaration of a parameter.
pub(super) fn entry(base: &str, argument: &Argument, keyword: bool) -> String {
    let keyword = if keyword { "keyword " } else { "" };
    let optional = if argument.ty.is_optional() { "optional " } else { "" };
    let name = identifier(argument);
    let default = argument.default.as_ref().map(|default| default_text(&default.value));
    let default = default.map_or(String::new(), |text| format!(" = {text:?} {}", default_value(argument)));
    format!("{name}: {keyword}{optional}{}{}{default}", kind_of(base, argument), size_argument(&argument.ty))
}

fn kind_of(base: &str, argument: &Argument) -> &'static str {
    let first = NUMBERS_FIRST.contains(&base) && argument.name == "self";
    match kind(&argument.ty) {
        "tensor" if first || (base, argument.name.as_str()) == ("copy_", "src") => "tensor_or_number",
        kind => kind,
    }
}

/// The default in Rust, as the operator's accessor gives a value.
fn default_value(argument: &Argument) -> String {
    let default = naming::default(argument).unwrap_or_default();
    match default.strip_prefix('&') {
        Some("[]") => "DimVec::new()".to_owned(),
        Some(_) => format!("DimVec::from_slice({default})"),
        None => default,
    }
}

/// The size of a list, to which a single number is expanded.
fn size_argument(ty: &Type) -> String {
    match list_size(ty) {
        Some(size) if kind(ty) == "ints" => format!("({size})"),
        _ => String::new(),
    }
}

fn list_size(ty: &Type) -> Option<u32> {
    match ty.without_optional() {
        Type::List(_, size) => Some(size.unwrap_or(0)),
        _ => None,
    }
}

/// The name of the function that makes the parameter, and of the method that converts the value.
fn kind(ty: &Type) -> &'static str {
    match ty.without_optional() {
        Type::List(inner, _) => match inner.as_ref() {
            Type::Base(BaseType::Tensor) => "tensors",
            Type::Optional(_) => "optional_tensors",
            Type::Base(BaseType::Int | BaseType::SymInt) => "ints",
            Type::Base(BaseType::Float | BaseType::SymFloat) => "floats",
            Type::Base(BaseType::Scalar) => "scalars",
            // Only operators without a name in Python have others, such as masks of gradients.
            _ => "no_form_in_python",
        },
        Type::Base(base) => match base {
            BaseType::Tensor => "tensor",
            BaseType::Scalar => "scalar",
            BaseType::Int | BaseType::SymInt => "int",
            BaseType::Float | BaseType::SymFloat => "float",
            BaseType::Bool | BaseType::SymBool => "boolean",
            BaseType::Str => "string",
            BaseType::ScalarType => "dtype",
            BaseType::Layout => "layout",
            BaseType::Device => "device",
            BaseType::MemoryFormat => "memory_format",
            BaseType::Generator => "generator",
            _ => "no_form_in_python",
        },
        Type::Optional(_) | Type::Class(_) => "no_form_in_python",
    }
}
