//! The text for one parameter: its entry in the table, the conversion of its value, and its argument in the call of the operator.

use crate::naming;
use crate::schema::{Argument, BaseType, Literal, Type};

/// The functions whose first argument may be a number, as in PyTorch. A number as the second argument has an overload of its own.
const NUMBERS_FIRST: &[&str] = &["add", "sub", "mul", "div", "true_divide", "floor_divide"];

/// The name in Python.
pub(super) fn name(argument: &Argument) -> &str {
    let is_tensor = *argument.ty.without_optional() == Type::Base(BaseType::Tensor);
    if argument.name == "self" && is_tensor { "input" } else { &argument.name }
}

/// `Tensor input`, `Number alpha=1`
pub(super) fn text(argument: &Argument) -> String {
    let default = argument
        .default
        .as_ref()
        .map_or(String::new(), |default| format!("={}", default_text(&default.value)));
    format!("{} {}{default}", type_text(&argument.ty), name(argument))
}

fn type_text(ty: &Type) -> String {
    match ty {
        Type::Optional(inner) => format!("{}?", type_text(inner)),
        Type::List(inner, Some(size)) => format!("{}[{size}]", type_text(inner)),
        Type::List(inner, None) => format!("{}[]", type_text(inner)),
        Type::Base(BaseType::Scalar) => "Number".to_owned(),
        Type::Base(BaseType::SymInt) => "int".to_owned(),
        Type::Base(BaseType::ScalarType) => "dtype".to_owned(),
        Type::Base(BaseType::Layout) => "layout".to_owned(),
        Type::Base(BaseType::Device) => "device".to_owned(),
        Type::Base(BaseType::MemoryFormat) => "memory_format".to_owned(),
        other => other.to_string(),
    }
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

/// `scalar("alpha").by_keyword().or("1")`: the entry in the table.
pub(super) fn entry(base: &str, argument: &Argument, keyword: bool) -> String {
    let mut entry = format!("{}({:?}{})", kind(&argument.ty), name(argument), size_argument(&argument.ty));
    let first = NUMBERS_FIRST.contains(&base) && argument.name == "self";
    if (first || (base, argument.name.as_str()) == ("copy_", "src")) && kind(&argument.ty) == "tensor" {
        entry += ".or_number()";
    }
    if keyword {
        entry += ".by_keyword()";
    }
    // PyTorch accepts None for an empty list: `stride=None`.
    let empty = argument.default.as_ref().is_some_and(|default| default.value == Literal::List(vec![]));
    if argument.ty.is_optional() || empty {
        entry += ".or_none()";
    }
    if let Some(default) = &argument.default {
        entry += &format!(".or({:?})", default_text(&default.value));
    }
    entry
}

/// The size of a list, to which a single number is expanded.
fn size_argument(ty: &Type) -> String {
    match list_size(ty) {
        Some(size) if kind(ty) == "ints" => format!(", {size}"),
        _ => String::new(),
    }
}

fn list_size(ty: &Type) -> Option<u32> {
    match ty.without_optional() {
        Type::List(_, size) => Some(size.unwrap_or(0)),
        _ => None,
    }
}

/// The name of the function that makes a table entry, and of the method that converts the value.
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

/// `a.scalar_or(2, Scalar::Int(1))`: the value, out of the parsed arguments.
pub(super) fn value(index: usize, argument: &Argument) -> String {
    let kind = kind(&argument.ty);
    let absent = argument.default.as_ref().is_some_and(|default| default.value == Literal::None);
    if argument.ty.is_optional() {
        let value = format!("a.optional_{kind}({index})?");
        return match naming::default(argument).filter(|_| !absent) {
            Some(default) => format!("{value}.or({default})"),
            None => value,
        };
    }
    match naming::default(argument) {
        Some(default) => format!("a.{kind}_or({index}, {default})?"),
        None => format!("a.{kind}({index})?"),
    }
}

/// The argument in the call of the operator: by reference if the operator borrows it.
pub(super) fn passed(argument: &Argument) -> String {
    let name = naming::identifier(&argument.name);
    let borrowed = matches!(
        kind(&argument.ty),
        "tensor" | "tensors" | "optional_tensors" | "ints" | "floats" | "scalars"
    );
    match (borrowed, argument.ty.is_optional()) {
        (true, true) => format!("{name}.as_deref()"),
        (true, false) => format!("&{name}"),
        _ => name,
    }
}
