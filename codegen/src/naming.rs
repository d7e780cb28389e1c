//! The mapping from names and types of schemas to those of Rust. All of it is here.

use crate::schema::{Argument, BaseType, Default, FunctionSchema, Literal, OperatorName, Return, Type};

/// Keywords of Rust, and `self`, which only methods have.
const KEYWORDS: &[&str] = &[
    "as", "async", "await", "box", "break", "const", "continue", "crate", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match",
    "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while",
    "yield", "abstract", "become",
];

/// A valid Rust identifier: `self_`, `type_`.
pub(crate) fn identifier(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// The function of an operator: `add_tensor`, `add__tensor`, `mm`.
pub(crate) fn function(name: &OperatorName) -> String {
    if name.overload.is_empty() {
        return identifier(&name.base);
    }
    format!("{}_{}", name.base, name.overload.to_lowercase())
}

/// The module in which generated code finds an operator: those with a namespace are another crate's, which are generated beside it.
pub(crate) fn module(name: &OperatorName) -> &'static str {
    if name.namespace.is_some() { "operators" } else { "ops" }
}

/// The static of an operator: `ADD_TENSOR`.
pub(crate) fn operator_static(name: &OperatorName) -> String {
    function(name).to_uppercase()
}

/// The variant of `DispatchKey`, if kernels of this project can be registered under the key.
pub(crate) fn dispatch_key(key: &str) -> Option<&'static str> {
    Some(match key {
        "CPU" => "Cpu",
        "CUDA" => "Cuda",
        "Meta" => "Meta",
        "PrivateUse1" => "PrivateUse1",
        "PrivateUse2" => "PrivateUse2",
        "PrivateUse3" => "PrivateUse3",
        "CompositeImplicitAutograd" => "CompositeImplicitAutograd",
        "CompositeExplicitAutograd" => "CompositeExplicitAutograd",
        _ => return None,
    })
}

/// The Rust type of a parameter, if it is supported.
pub(crate) fn parameter(ty: &Type) -> Option<String> {
    match ty {
        Type::Base(BaseType::Tensor) => Some("&Tensor".to_owned()),
        Type::Base(BaseType::Generator) => Some("&Generator".to_owned()),
        Type::Base(BaseType::Storage) => Some("&Storage".to_owned()),
        Type::Base(BaseType::Str) => Some("&str".to_owned()),
        Type::Base(base) => value(*base).map(str::to_owned),
        Type::Optional(inner) => parameter(inner).map(|inner| format!("Option<{inner}>")),
        Type::List(inner, size) => list(inner, *size),
        Type::Class(_) => None,
    }
}

fn list(element: &Type, size: Option<u32>) -> Option<String> {
    match (element, size) {
        (Type::Base(BaseType::Tensor), _) => Some("&[Tensor]".to_owned()),
        (Type::Optional(inner), _) if **inner == Type::Base(BaseType::Tensor) => {
            Some("&[Option<Tensor>]".to_owned())
        }
        (Type::Base(BaseType::Bool), Some(size)) => Some(format!("[bool; {size}]")),
        (Type::Base(base), _) => value(*base).map(|element| format!("&[{element}]")),
        _ => None,
    }
}

/// The method of `Arguments` that unboxes a value of the type, if there is one.
pub(crate) fn boxed(ty: &Type) -> Option<String> {
    let name = match ty {
        Type::Optional(inner) => return boxed(inner).map(|name| format!("optional_{name}")),
        Type::List(inner, size) => match (inner.as_ref(), size) {
            (Type::Base(BaseType::Tensor), _) => "tensors",
            (Type::Optional(inner), _) if **inner == Type::Base(BaseType::Tensor) => "tensor_options",
            (Type::Base(BaseType::Int | BaseType::SymInt), _) => "ints",
            (Type::Base(BaseType::Float | BaseType::SymFloat), _) => "floats",
            (Type::Base(BaseType::Scalar), _) => "scalars",
            (Type::Base(BaseType::Bool), Some(_)) => "bool_array",
            (Type::Base(BaseType::Bool), None) => "bools",
            _ => return None,
        },
        Type::Base(base) => match base {
            BaseType::Tensor => "tensor",
            BaseType::Scalar => "scalar",
            BaseType::Int | BaseType::SymInt => "int",
            BaseType::Float | BaseType::SymFloat => "float",
            BaseType::Bool | BaseType::SymBool => "bool",
            BaseType::Str => "str",
            BaseType::ScalarType => "scalar_type",
            BaseType::Layout => "layout",
            BaseType::Device => "device",
            BaseType::MemoryFormat => "memory_format",
            BaseType::Generator => "generator",
            _ => return None,
        },
        Type::Class(_) => return None,
    };
    Some(name.to_owned())
}

/// The types passed by value.
fn value(base: BaseType) -> Option<&'static str> {
    Some(match base {
        BaseType::Scalar => "Scalar",
        BaseType::Int | BaseType::SymInt => "i64",
        BaseType::Float | BaseType::SymFloat => "f64",
        BaseType::Bool | BaseType::SymBool => "bool",
        BaseType::ScalarType => "ScalarType",
        BaseType::Layout => "Layout",
        BaseType::Device => "Device",
        BaseType::MemoryFormat => "MemoryFormat",
        _ => return None,
    })
}

/// What a function returns, inside its `Result`: `()` for arguments that were written.
pub(crate) fn returned(schema: &FunctionSchema) -> Option<String> {
    if schema.returns.iter().any(|result| result.alias.as_ref().is_some_and(crate::schema::Alias::writes)) {
        return Some("()".to_owned());
    }
    let types: Option<Vec<String>> = schema.returns.iter().map(result).collect();
    let types = types?;
    match types.as_slice() {
        [only] => Some(only.clone()),
        several => Some(format!("({})", several.join(", "))),
    }
}

fn result(result: &Return) -> Option<String> {
    match &result.ty {
        Type::Base(BaseType::Tensor) => Some("Tensor".to_owned()),
        Type::Base(base) => value(*base).map(str::to_owned),
        Type::List(inner, _) => match **inner {
            Type::Base(BaseType::Tensor) => Some("Vec<Tensor>".to_owned()),
            Type::Base(base) => value(base).map(|element| format!("Vec<{element}>")),
            _ => None,
        },
        _ => None,
    }
}

/// A default as a Rust expression of the parameter's type, if the value has one.
pub(crate) fn default(argument: &Argument) -> Option<String> {
    argument.default.as_ref().and_then(|Default { value, .. }| literal(value, &argument.ty))
}

fn literal(value: &Literal, ty: &Type) -> Option<String> {
    match (value, ty) {
        (Literal::None, Type::Optional(_)) => Some("None".to_owned()),
        (value, Type::Optional(inner)) => literal(value, inner).map(|value| format!("Some({value})")),
        (Literal::List(items), Type::List(element, size)) => {
            let items: Option<Vec<String>> = items.iter().map(|item| literal(item, element)).collect();
            Some(listed(&items?, element, *size))
        }
        (single, Type::List(element, Some(size))) => {
            let item = literal(single, element)?;
            Some(listed(&vec![item; usize::try_from(*size).ok()?], element, Some(*size)))
        }
        (value, Type::Base(base)) => base_literal(value, *base),
        _ => None,
    }
}

/// A list: by reference, except a list of bools of fixed length, which is an array.
fn listed(items: &[String], element: &Type, size: Option<u32>) -> String {
    let by_value = *element == Type::Base(BaseType::Bool) && size.is_some();
    format!("{}[{}]", if by_value { "" } else { "&" }, items.join(", "))
}

fn base_literal(value: &Literal, base: BaseType) -> Option<String> {
    match (base, value) {
        (BaseType::Scalar, Literal::Int(value)) => Some(format!("Scalar::Int({value})")),
        (BaseType::Scalar, Literal::Float(value)) => Some(format!("Scalar::Float({value:?})")),
        (BaseType::Float | BaseType::SymFloat, Literal::Int(value)) => Some(format!("{value}.0")),
        (_, Literal::Int(value)) => Some(value.to_string()),
        (_, Literal::Float(value)) => Some(format!("{value:?}")),
        (_, Literal::Bool(value)) => Some(value.to_string()),
        (_, Literal::Str(value)) => Some(format!("{value:?}")),
        (BaseType::Int | BaseType::SymInt, Literal::Name(name)) => match name.as_str() {
            "Mean" => Some("1".to_owned()),
            "Sum" => Some("2".to_owned()),
            _ => None,
        },
        (BaseType::ScalarType, Literal::Name(name)) => {
            scalar_type(name).map(|name| format!("ScalarType::{name}"))
        }
        (BaseType::MemoryFormat, Literal::Name(name)) => {
            let variant = match name.as_str() {
                "contiguous_format" => "Contiguous",
                "preserve_format" => "Preserve",
                "channels_last" => "ChannelsLast",
                "channels_last_3d" => "ChannelsLast3d",
                _ => return None,
            };
            Some(format!("MemoryFormat::{variant}"))
        }
        (BaseType::Layout, Literal::Name(name)) if name == "strided" => Some("Layout::Strided".to_owned()),
        _ => None,
    }
}

fn scalar_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "Bool",
        "uint8" | "byte" => "U8",
        "int8" | "char" => "I8",
        "int16" | "short" => "I16",
        "int32" | "int" => "I32",
        "int64" | "long" => "I64",
        "float16" | "half" => "F16",
        "bfloat16" => "BF16",
        "float32" | "float" => "F32",
        "float64" | "double" => "F64",
        "uint16" => "U16",
        "uint32" => "U32",
        "uint64" => "U64",
        "complex32" | "chalf" => "Complex32",
        "complex64" | "cfloat" => "Complex64",
        "complex128" | "cdouble" => "Complex128",
        _ => return None,
    })
}
