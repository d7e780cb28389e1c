//! The node of an operator: a struct of the values that its formulas use, and the formulas.

use super::expression::Names;
use crate::derivatives::{Body, TypedDerivative, TypedFormula};
use crate::emit::{joined, wrapped};
use crate::formula::{Property, Saved, SavedWhat, Special, Ty, Typed, TypedKind, Variable, saved};
use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

/// The derivative of an operator, as it is emitted.
pub(in crate::emit) struct Node<'a> {
    /// `AddBackward0`
    pub(super) name: String,
    /// The family of the file in which it is defined.
    pub(super) family: &'a str,
    pub(in crate::emit) derivative: &'a TypedDerivative,
    /// The arguments with a gradient, in the order of the schema, which is that of the edges.
    pub(in crate::emit) inputs: Vec<&'a Argument>,
    /// The formulas of those, in the same order.
    pub(in crate::emit) formulas: Vec<&'a TypedFormula>,
    pub(super) fields: Vec<Field>,
}

/// A value that a node saves.
#[derive(Clone, Debug)]
pub(in crate::emit) struct Field {
    pub(super) name: String,
    pub(super) variable: Variable,
    pub(super) what: SavedWhat,
    /// The type of the argument or result from which it is taken.
    pub(super) ty: Type,
    pub(super) storage: FieldStorage,
    /// The formulas that use it.
    pub(super) used_by: Vec<usize>,
    /// Whether every formula uses it, so that it is always saved.
    pub(super) always: bool,
}

/// How a field stores its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldStorage {
    /// A saved tensor.
    Tensor,
    /// Several saved tensors.
    Tensors,
    /// A plain value.
    Copy,
    /// A list of plain values, or a string.
    List,
    /// An optional list or string.
    OptionalList,
}

impl Field {
    pub(super) fn property(&self) -> Option<Property> {
        match self.what {
            SavedWhat::Property(property) => Some(property),
            SavedWhat::Tensor | SavedWhat::Value => None,
        }
    }

    pub(super) fn is_tensor(&self) -> bool {
        matches!(self.storage, FieldStorage::Tensor | FieldStorage::Tensors)
    }

    pub(super) fn is_output(&self) -> bool {
        matches!(self.variable, Variable::Output(_))
    }

    /// The type of the field.
    fn rust_type(&self) -> Result<String, String> {
        Ok(match (self.storage, &self.what) {
            (FieldStorage::Tensor, _) if self.ty.is_optional() => "Option<SavedVariable>".to_owned(),
            (FieldStorage::Tensor, _) if !self.always && !self.is_output() => "MaybeSaved".to_owned(),
            (FieldStorage::Tensor, _) => "SavedVariable".to_owned(),
            (FieldStorage::Tensors, _) => match &self.ty {
                Type::List(inner, _) if inner.is_optional() => "Vec<Option<SavedVariable>>".to_owned(),
                _ => "Vec<SavedVariable>".to_owned(),
            },
            (_, SavedWhat::Property(property)) => property_type(*property, &self.ty).to_owned(),
            _ => owned_type(&self.ty).ok_or_else(|| format!("a `{}` that is saved", self.ty))?,
        })
    }
}

fn property_type(property: Property, ty: &Type) -> &'static str {
    match property {
        Property::Sizes if matches!(ty, Type::List(..)) => "Vec<DimVec>",
        Property::Sizes | Property::Strides => "DimVec",
        Property::Size(_) | Property::Dim | Property::Numel | Property::StorageOffset | Property::Len => {
            "i64"
        }
        Property::ScalarType => "ScalarType",
        Property::Options => "TensorOptions",
        Property::Layout => "Layout",
        Property::Device => "Device",
        Property::IsSome => "bool",
    }
}

/// The owned Rust type of an argument that is saved, if it can be.
fn owned_type(ty: &Type) -> Option<String> {
    match ty {
        Type::Optional(inner) => owned_type(inner).map(|inner| format!("Option<{inner}>")),
        Type::List(inner, size) => match (inner.as_ref(), size) {
            (Type::Base(BaseType::Int | BaseType::SymInt), _) => Some("DimVec".to_owned()),
            (Type::Base(BaseType::Bool), Some(size)) => Some(format!("[bool; {size}]")),
            (Type::Base(BaseType::Float | BaseType::SymFloat), _) => Some("Vec<f64>".to_owned()),
            (Type::Base(BaseType::Bool), None) => Some("Vec<bool>".to_owned()),
            _ => None,
        },
        Type::Base(BaseType::Str) => Some("String".to_owned()),
        Type::Base(BaseType::Generator | BaseType::Storage) => None,
        Type::Base(_) => naming::parameter(ty),
        Type::Class(_) => None,
    }
}

fn storage(what: SavedWhat, ty: &Type) -> FieldStorage {
    let by_value = |ty: &Type| match ty {
        Type::List(inner, Some(_)) => **inner == Type::Base(BaseType::Bool),
        Type::List(..) | Type::Base(BaseType::Str) => false,
        _ => true,
    };
    match what {
        SavedWhat::Tensor if matches!(ty, Type::List(..)) => FieldStorage::Tensors,
        SavedWhat::Tensor => FieldStorage::Tensor,
        SavedWhat::Property(Property::Sizes | Property::Strides) => FieldStorage::List,
        SavedWhat::Property(_) => FieldStorage::Copy,
        SavedWhat::Value if by_value(ty.without_optional()) => FieldStorage::Copy,
        SavedWhat::Value if ty.is_optional() => FieldStorage::OptionalList,
        SavedWhat::Value => FieldStorage::List,
    }
}

impl<'a> Node<'a> {
    /// The node of a derivative, or `None` if no input has a gradient.
    pub(super) fn new(
        derivative: &'a TypedDerivative,
        family: &'a str,
        name: String,
    ) -> Result<Option<Self>, String> {
        let constant = |formula: &&TypedFormula| formula.body == Body::Special(Special::NonDifferentiable);
        let mut formulas: Vec<&TypedFormula> = derivative.backward.iter().filter(|f| !constant(f)).collect();
        let schema = &derivative.derivative.schema;
        let index = |name: &String| schema.inputs().position(|argument| argument.name == *name);
        formulas.sort_by_key(|formula| formula.names.first().map(index));
        let names: Vec<&String> = formulas.iter().flat_map(|formula| &formula.names).collect();
        let inputs: Vec<&Argument> = schema.inputs().filter(|a| names.contains(&&a.name)).collect();
        if inputs.iter().map(|argument| &argument.name).ne(names.iter().copied()) {
            return Err("a formula of several inputs names them in the order of the signature".to_owned());
        }
        let mut node = Self { name, family, derivative, inputs, formulas, fields: vec![] };
        node.fields = node.fields()?;
        Ok((!node.inputs.is_empty()).then_some(node))
    }

    fn fields(&self) -> Result<Vec<Field>, String> {
        let typed = |formula: &&'a TypedFormula| match &formula.body {
            Body::Expression(typed) => Some(typed),
            Body::Special(_) => None,
        };
        let uses: Vec<Vec<Saved>> = self
            .formulas
            .iter()
            .map(|formula| typed(formula).map_or(vec![], |typed| saved([typed])))
            .collect();
        let all = saved(self.formulas.iter().filter_map(typed));
        let field = |value: Saved| {
            // A formula that uses a property of a tensor uses the tensor itself, if that is saved instead of the property.
            let inside = |used: &Saved| value.what == SavedWhat::Tensor && !all.contains(used);
            let mine = |used: &Saved| used.variable == value.variable && (*used == value || inside(used));
            let used_by: Vec<usize> = (0..uses.len()).filter(|index| uses[*index].iter().any(mine)).collect();
            let (name, ty) = self.source(&value.variable)?;
            let name = match value.what {
                SavedWhat::Property(property) => {
                    format!("{}_{}", name.trim_end_matches('_'), suffix(property))
                }
                SavedWhat::Tensor | SavedWhat::Value => name,
            };
            let always = used_by.len() == self.formulas.len();
            let storage = storage(value.what, &ty);
            Ok(Field { name, variable: value.variable, what: value.what, ty, storage, used_by, always })
        };
        all.iter().cloned().map(field).collect()
    }

    /// Name and type of an argument or a result.
    fn source(&self, variable: &Variable) -> Result<(String, Type), String> {
        let schema = &self.derivative.derivative.schema;
        match variable {
            Variable::Input(name) => {
                let argument = schema.inputs().find(|argument| argument.name == *name);
                let argument = argument.ok_or_else(|| format!("there is no argument `{name}`"))?;
                Ok((naming::identifier(name), argument.ty.clone()))
            }
            Variable::Output(index) => {
                let result = schema.returns.get(*index).ok_or("there is no such output")?;
                Ok((output_name(schema, *index), result.ty.clone()))
            }
            _ => Err("only arguments and results are saved".to_owned()),
        }
    }

    /// The declaration: the fields, and a formula for each input or for several.
    pub(super) fn emit(&self, names: &Names<'_>) -> Result<String, String> {
        let field = |field: &Field| Ok(format!("{}: {}", field.name, field.rust_type()?));
        let fields = self.fields.iter().map(field).collect::<Result<Vec<_>, String>>()?;
        let grad = self.typed().find_map(only_gradient);
        let grad = grad.map_or(String::new(), |index| format!(", grad = {index}"));
        let always = self.fields.iter().filter(|field| field.is_tensor() && field.always);
        let always: Vec<&str> = always.map(|field| field.name.as_str()).collect();
        let optional = self.typed().any(|typed| typed.ty == Ty::None || is_optional(&typed.ty));
        let simple = self.inputs.iter().all(|input| !matches!(input.ty, Type::List(..)))
            && self.formulas.iter().all(|formula| formula.names.len() == 1)
            && !self.uses_mask();
        let function = match (simple, optional) {
            (true, true) => "optional_gradients",
            (true, false) => "gradients",
            (false, _) => "inputs",
        };
        let head = joined(
            &format!("{} {}", self.name, braced(&fields)),
            &format!("{function}(self, grads{grad}) [{}];", always.join(", ")),
        );
        let mut text = format!("node! {{\n{head}");
        for (index, formula) in self.formulas.iter().enumerate() {
            let method = if simple { String::new() } else { self.method(formula)? };
            let inputs: Vec<String> = formula.names.iter().map(|name| naming::identifier(name)).collect();
            let body =
                self.formula(formula, names, if simple { optional } else { !method.starts_with("list") })?;
            let line = format!("    {method}{}{} => {body},", inputs.join(", "), self.needed(index));
            text += &format!("{}\n", wrapped(&line));
        }
        Ok(text + "}")
    }

    /// `several(mask): `, the method of `InputGradients` that takes a formula.
    fn method(&self, formula: &TypedFormula) -> Result<String, String> {
        let list = self.input(&formula.names[0]).is_some_and(|input| matches!(input.ty, Type::List(..)));
        match (list, formula.names.len()) {
            (true, 1) => Ok("list: ".to_owned()),
            (false, 1) => Ok("one: ".to_owned()),
            (false, _) if self.masked(formula) => Ok("several(mask): ".to_owned()),
            (false, _) => Ok("several(_): ".to_owned()),
            (true, _) => Err("a formula of several inputs, one of them a list".to_owned()),
        }
    }

    /// ` [other]`: the saved tensors that a formula uses and not every formula does.
    fn needed(&self, index: usize) -> String {
        let mine = |field: &&Field| field.is_tensor() && !field.always && field.used_by.contains(&index);
        let needed: Vec<&str> = self.fields.iter().filter(mine).map(|field| field.name.as_str()).collect();
        if needed.is_empty() { String::new() } else { format!(" [{}]", needed.join(", ")) }
    }

    fn typed(&self) -> impl Iterator<Item = &'a Typed> {
        self.formulas.iter().filter_map(|formula| match &formula.body {
            Body::Expression(typed) => Some(typed),
            Body::Special(_) => None,
        })
    }

    pub(super) fn input(&self, name: &str) -> Option<&'a Argument> {
        self.inputs.iter().find(|input| input.name == name).copied()
    }

    fn uses_mask(&self) -> bool {
        self.formulas.iter().any(|formula| self.masked(formula))
    }

    fn masked(&self, formula: &TypedFormula) -> bool {
        matches!(&formula.body, Body::Expression(typed) if uses(typed, &Variable::Mask))
    }

    fn formula(&self, formula: &TypedFormula, names: &Names<'_>, optional: bool) -> Result<String, String> {
        match (&formula.body, formula.names.len()) {
            (Body::Special(Special::NotImplemented(name)), _) => {
                Ok(format!("record::not_implemented({name:?})"))
            }
            (Body::Special(_), _) => Err("expected a formula of a gradient".to_owned()),
            (Body::Expression(typed), 1) => names.gradient(typed, optional),
            (Body::Expression(typed), several) => names.gradients(typed, several),
        }
    }
}

fn is_optional(ty: &Ty) -> bool {
    matches!(ty, Ty::Value(ty) if ty.is_optional())
}

/// `{ alpha: Scalar }`, or `{}`.
pub(super) fn braced(fields: &[String]) -> String {
    if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
}

/// `result`, `result1`, or the output's own name.
pub(in crate::emit) fn output_name(schema: &FunctionSchema, index: usize) -> String {
    let own = schema.returns.get(index).and_then(|result| result.name.as_deref()).map(naming::identifier);
    let numbered = if schema.returns.len() == 1 { "result".to_owned() } else { format!("result{index}") };
    own.unwrap_or(numbered)
}

fn suffix(property: Property) -> String {
    match property {
        Property::Size(dim) if dim < 0 => format!("size_back{}", -dim),
        Property::Size(dim) => format!("size{dim}"),
        Property::ScalarType => "dtype".to_owned(),
        other => other.name().to_owned(),
    }
}

/// The number of the output whose gradient a formula uses without checking whether it is defined.
fn only_gradient(typed: &Typed) -> Option<usize> {
    match &typed.kind {
        TypedKind::Variable(Variable::Gradient(index))
            if typed.ty == Ty::of(&Type::Base(BaseType::Tensor)) =>
        {
            Some(*index)
        }
        _ => typed.children().into_iter().find_map(only_gradient),
    }
}

fn uses(typed: &Typed, variable: &Variable) -> bool {
    matches!(&typed.kind, TypedKind::Variable(known) if known == variable)
        || typed.children().into_iter().any(|child| uses(child, variable))
}
