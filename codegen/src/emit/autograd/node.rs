//! The node of an operator: a struct of the values that its formulas use, and the formulas.

use super::expression::Names;
use crate::derivatives::{Body, TypedDerivative, TypedFormula};
use crate::formula::{Property, Saved, SavedWhat, Special, Typed, TypedKind, Variable, saved};
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
        let optional = self.ty.is_optional() || (!self.always && !self.is_output());
        Ok(match (self.storage, &self.what) {
            (FieldStorage::Tensor, _) if optional => "Option<SavedVariable>".to_owned(),
            (FieldStorage::Tensor, _) => "SavedVariable".to_owned(),
            (FieldStorage::Tensors, _) => match &self.ty {
                Type::List(inner, _) if inner.is_optional() => "Vec<Option<SavedVariable>>".to_owned(),
                _ => "Vec<SavedVariable>".to_owned(),
            },
            (_, SavedWhat::Property(property)) => property_type(*property, &self.ty).to_owned(),
            _ => owned_type(&self.ty).ok_or_else(|| format!("a `{}` that is saved", self.ty))?,
        })
    }

    /// `let other = &self.other.unpack(cx)?;`
    fn unpacked(&self) -> String {
        let name = &self.name;
        let list = matches!(&self.ty, Type::List(inner, _) if inner.is_optional());
        let value = match self.storage {
            FieldStorage::Tensors if list => format!("record::unpack_optionals(&self.{name}, cx)?"),
            FieldStorage::Tensors => format!("record::unpack_list(&self.{name}, cx)?"),
            _ if self.ty.is_optional() => format!("record::unpack_optional(&self.{name}, cx)?"),
            _ if self.always || self.is_output() => format!("self.{name}.unpack(cx)?"),
            _ => format!("record::unpack(&self.{name}, cx)?"),
        };
        format!("let {name} = &{value};\n")
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

    /// The struct and its formulas.
    pub(super) fn emit(&self, names: &Names<'_>) -> Result<String, String> {
        let mut fields = String::new();
        for field in &self.fields {
            fields += &format!("pub(super) {}: {},\n", field.name, field.rust_type()?);
        }
        let fields = if fields.is_empty() { ";".to_owned() } else { format!(" {{\n{fields}}}") };
        let body = self.backward(names)?;
        Ok(format!(
            "pub(super) struct {name}{fields}\n\n\
             impl Backward for {name} {{\n\
             const NAME: &'static str = {name:?};\nconst SAVES: bool = {saves};\n\n\
             fn backward(&self, cx: &Context<'_>, {grads}: &Gradients) -> Result<Gradients> {{\n{body}\n}}{owns}\n}}",
            name = self.name,
            saves = self.fields.iter().any(Field::is_tensor),
            grads = if body.contains("grads") { "grads" } else { "_" },
            owns = self.owns()?,
        ))
    }

    /// The function that visits the saved tensors, if there are any.
    fn owns(&self) -> Result<String, String> {
        let mut text = String::new();
        for field in self.fields.iter().filter(|field| field.is_tensor()) {
            text += &match field.rust_type()?.as_str() {
                "SavedVariable" => format!("self.{}.owns(visit);\n", field.name),
                "Vec<Option<SavedVariable>>" => {
                    format!("self.{}.iter().flatten().for_each(|saved| saved.owns(visit));\n", field.name)
                }
                _ => format!("self.{}.iter().for_each(|saved| saved.owns(visit));\n", field.name),
            };
        }
        Ok(match text.is_empty() {
            true => text,
            false => format!(
                "\n\nfn owns(&self, visit: &mut dyn FnMut(crate::graph::node::Owned<'_>)) {{\n{text}}}"
            ),
        })
    }

    fn backward(&self, names: &Names<'_>) -> Result<String, String> {
        let gradient = self.typed().find_map(only_gradient);
        let mut text = match gradient {
            Some(index) => {
                format!("let Some(grad) = &grads[{index}] else {{ return Ok(Gradients::new()) }};\n")
            }
            None => String::new(),
        };
        let everywhere = |field: &&Field| field.is_tensor() && field.always;
        text.extend(self.fields.iter().filter(everywhere).map(Field::unpacked));
        let optional = |ty: &crate::formula::Ty| {
            *ty == crate::formula::Ty::None || matches!(ty, crate::formula::Ty::Value(ty) if ty.is_optional())
        };
        let simple = self.inputs.iter().all(|input| !matches!(input.ty, Type::List(..)))
            && self.formulas.iter().all(|formula| formula.names.len() == 1)
            && !self.uses_mask();
        let some = self.typed().any(|typed| optional(&typed.ty));
        if simple {
            let mut closures = vec![];
            for (index, formula) in self.formulas.iter().enumerate() {
                closures.push(format!("&|| {}", self.closure(index, formula, names, some)?));
            }
            let function = if some { "optional_gradients" } else { "gradients" };
            return Ok(format!("{text}record::{function}(cx, [{}])", closures.join(", ")));
        }
        text += "let mut inputs = record::InputGradients::new(cx);\n";
        for (index, formula) in self.formulas.iter().enumerate() {
            let list = self.input(&formula.names[0]).is_some_and(|input| matches!(input.ty, Type::List(..)));
            let (method, mask) = match (list, formula.names.len()) {
                (true, 1) => ("list", ""),
                (false, 1) => ("one", ""),
                (false, _) if self.masked(formula) => ("several", "mask"),
                (false, _) => ("several", "_"),
                (true, _) => return Err("a formula of several inputs, one of them a list".to_owned()),
            };
            let body = match list {
                true => self.closure(index, formula, names, false)?,
                false => self.closure(index, formula, names, true)?,
            };
            text += &format!("inputs.{method}(|{mask}| {body})?;\n");
        }
        Ok(text + "Ok(inputs.finish())")
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

    /// The body of the closure of one formula. It unpacks the tensors that not every formula uses.
    fn closure(
        &self,
        index: usize,
        formula: &TypedFormula,
        names: &Names<'_>,
        optional: bool,
    ) -> Result<String, String> {
        let typed = match &formula.body {
            Body::Expression(typed) => typed,
            Body::Special(Special::NotImplemented(name)) => {
                return Ok(format!("record::not_implemented({name:?})"));
            }
            Body::Special(_) => return Err("expected a formula of a gradient".to_owned()),
        };
        let mine = |field: &&Field| field.is_tensor() && !field.always && field.used_by.contains(&index);
        let lets: String = self.fields.iter().filter(mine).map(Field::unpacked).collect();
        let body = match formula.names.len() {
            1 => names.gradient(typed, optional)?,
            several => names.gradients(typed, several)?,
        };
        Ok(if lets.is_empty() && !body.starts_with("let ") { body } else { format!("{{\n{lets}{body}\n}}") })
    }
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
            if typed.ty == crate::formula::Ty::of(&Type::Base(BaseType::Tensor)) =>
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
