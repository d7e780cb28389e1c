//! The operators that have a name in Python, and the overloads of each name in the order in which they are tried.

use std::collections::HashMap;

use crate::model::Operator;
use crate::schema::{BaseType, FunctionSchema, Type};
use crate::variants::Variant;

/// A name in Python.
pub(super) struct Name<'a> {
    pub(super) base: String,
    pub(super) overloads: Vec<Overload<'a>>,
}

/// One overload of a name: an operator and its `out=` variant.
pub(super) struct Overload<'a> {
    pub(super) operator: &'a Operator<'a>,
    pub(super) out: Option<&'a Operator<'a>>,
}

/// Names that are attributes in Python, or whose arguments are parsed by hand-written code: `to` takes a positional device.
const BY_HAND: &[&str] = &["numpy_T", "mT", "to"];

/// Functions that are methods in Python too. In Rust such methods would hide methods of traits that every type has.
const METHODS_TOO: &[&str] = &["clone", "equal", "allclose"];

/// Methods in Rust that are attributes in Python, written by hand there.
const ATTRIBUTES: &[&str] = &["real", "imag"];

/// The names, in the order of the file.
pub(super) fn names<'a>(operators: &'a [Operator<'a>]) -> Vec<Name<'a>> {
    let mut names: Vec<Name<'a>> = vec![];
    let mut indices: HashMap<&str, usize> = HashMap::new();
    for operator in operators.iter().filter(|operator| is_bound(operator)) {
        let overload = Overload { operator, out: sibling_out(operators, operator) };
        let base = operator.schema.name.base.as_str();
        let index = *indices.entry(base).or_insert_with(|| {
            names.push(Name { base: base.to_owned(), overloads: vec![] });
            names.len() - 1
        });
        names[index].overloads.push(overload);
    }
    for name in &mut names {
        name.overloads.sort_by_key(|overload| ranks(&overload.operator.schema));
    }
    names
}

/// Backward operators have no name in Python, as in PyTorch; `out=` variants are part of the overload of the functional one.
fn is_bound(operator: &Operator<'_>) -> bool {
    let base = operator.schema.name.base.as_str();
    !operator.schema.is_out() && !base.contains("_backward") && !BY_HAND.contains(&base)
}

fn sibling_out<'a>(operators: &'a [Operator<'a>], operator: &Operator<'_>) -> Option<&'a Operator<'a>> {
    let is_sibling = |other: &&Operator<'_>| {
        std::ptr::eq(other.entry, operator.entry) && other.derived == Some(Variant::Out)
    };
    operators.iter().find(is_sibling).filter(|_| operator.derived.is_none())
}

/// Overloads with narrower types are tried first: a tensor of one element is accepted as a number too, and a number as a list.
fn ranks(schema: &FunctionSchema) -> Vec<u8> {
    schema.positional.iter().map(|argument| rank(&argument.ty)).collect()
}

fn rank(ty: &Type) -> u8 {
    match ty.without_optional() {
        Type::Base(BaseType::Tensor) => 0,
        Type::Base(BaseType::Bool) => 1,
        Type::Base(BaseType::Int | BaseType::SymInt) => 2,
        Type::Base(BaseType::Float) => 3,
        Type::Base(BaseType::Scalar) => 4,
        Type::Base(_) | Type::Class(_) => 5,
        Type::Optional(_) | Type::List(..) => 6,
    }
}

impl Name<'_> {
    pub(super) fn family(&self) -> &str {
        &self.overloads[0].operator.family
    }

    /// The module of the function below `flambeau`; empty for the package itself.
    pub(super) fn module(&self) -> String {
        let module = self.overloads[0].operator.entry.python_module.as_deref();
        module.map_or(String::new(), |module| format!("_{module}"))
    }

    pub(super) fn is_function(&self) -> bool {
        self.overloads.iter().any(Overload::is_function)
    }

    pub(super) fn is_method(&self) -> bool {
        self.overloads.iter().any(|overload| overload.receiver().is_some())
    }

    pub(super) fn doc(&self) -> &str {
        self.overloads.iter().find_map(|overload| overload.operator.entry.doc.as_deref()).unwrap_or_default()
    }
}

impl Overload<'_> {
    /// Whether it is a function. An in-place variant is a function only if it has no other argument, as `relu_(x)`, or if there is no
    /// method.
    pub(super) fn is_function(&self) -> bool {
        let entry = self.operator.entry;
        let alone = self.operator.schema.positional.len() == 1 || !entry.method;
        entry.function && (alone || self.operator.derived != Some(Variant::InPlace))
    }

    /// Whether it creates a tensor with given dtype and device; then it has a parameter `requires_grad` too.
    pub(super) fn is_factory(&self) -> bool {
        let schema = &self.operator.schema;
        schema.tensor_options().is_some() && !schema.name.base.starts_with('_')
    }

    /// The index of `self`, if it can be called as a method.
    pub(super) fn receiver(&self) -> Option<usize> {
        let is_self = |argument: &crate::schema::Argument| {
            argument.name == "self" && argument.ty == Type::Base(BaseType::Tensor)
        };
        let index = self.operator.schema.positional.iter().position(is_self);
        let base = self.operator.schema.name.base.as_str();
        let method = self.operator.entry.method || METHODS_TOO.contains(&base);
        index.filter(|_| method && !ATTRIBUTES.contains(&base))
    }
}
