//! A type-checked formula as Rust: calls of operators and helpers, with `&` and `?` inserted.

use super::node::{Field, FieldStorage};
use crate::formula::{BinaryOperator, Callee, Conversion, Passed, Property, Ty, Typed, TypedKind, Variable};
use crate::model::Operator;
use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

/// What a formula may mention: the fields of its node, and the signatures of what it calls.
pub(in crate::emit) struct Names<'a> {
    pub(in crate::emit) fields: &'a [Field],
    /// Whether arguments, results and tangents are local variables instead: in a formula of tangents.
    pub(in crate::emit) locals: bool,
    pub(in crate::emit) operators: &'a [Operator<'a>],
    pub(in crate::emit) helpers: &'a [FunctionSchema],
}

/// Rust for a value.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) text: String,
    form: Form,
}

/// Who owns the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Its type is `Copy`.
    Copy,
    /// It is a value that can be moved.
    Owned,
    /// It is a field of the node, or a reference already.
    Borrowed,
    /// It is a reference to an unpacked saved tensor.
    Unpacked,
}

type Emitted = Result<Code, String>;

fn code(form: Form, text: impl Into<String>) -> Emitted {
    Ok(Code { text: text.into(), form })
}

fn is_tensor(ty: &Ty) -> bool {
    *ty == Ty::of(&Type::Base(BaseType::Tensor))
}

fn is_optional(ty: &Ty) -> bool {
    matches!(ty, Ty::Value(ty) if ty.is_optional())
}

fn is_list(ty: &Ty) -> bool {
    matches!(ty, Ty::Value(Type::List(..)))
}

fn is_scalar(ty: &Ty) -> bool {
    *ty == Ty::of(&Type::Base(BaseType::Scalar))
}

impl Code {
    /// As an argument of a call, by reference.
    fn borrowed(&self, ty: &Ty) -> String {
        match self.form {
            Form::Owned if is_optional(ty) => format!("{}.as_ref()", self.text),
            Form::Owned => format!("&{}", self.text),
            Form::Copy | Form::Borrowed | Form::Unpacked => self.text.clone(),
        }
    }

    /// As a value that is moved.
    fn owned(&self, ty: &Ty) -> String {
        match self.form {
            Form::Borrowed if is_optional(ty) => format!("{}.cloned()", self.text),
            Form::Borrowed if is_list(ty) => format!("{}.to_vec()", self.text),
            Form::Borrowed => format!("{}.clone()", self.text.trim_start_matches('&')),
            Form::Unpacked => format!("Tensor::clone({})", self.text),
            Form::Copy | Form::Owned => self.text.clone(),
        }
    }
}

/// The local variable of a formula of tangents: `self_p` and `self_t`, `dim`, `result0`.
pub(in crate::emit) fn local(variable: &Variable, ty: &Ty) -> String {
    match variable {
        Variable::Input(name) if matches!(ty, Ty::Value(ty) if ty.holds_tensors()) => format!("{name}_p"),
        Variable::Input(name) => naming::identifier(name),
        Variable::Tangent(name) => format!("{name}_t"),
        Variable::Output(index) => format!("result{index}"),
        Variable::Gradient(_) | Variable::Gradients | Variable::Mask => String::new(),
    }
}

impl Names<'_> {
    /// A part of a formula, as a value that is moved.
    pub(in crate::emit) fn value(&self, formula: &Typed) -> Result<String, String> {
        Ok(self.emit(formula)?.owned(&formula.ty))
    }

    /// A formula as the body of a function that returns `Result<Tensor>`, or of an `Option` of it.
    pub(super) fn gradient(&self, formula: &Typed, optional: bool) -> Result<String, String> {
        let code = self.emit(formula)?;
        Ok(match (code.text.strip_suffix('?'), is_optional(&formula.ty) || formula.ty == Ty::None) {
            (_, false) if optional => format!("Ok(Some({}))", code.owned(&formula.ty)),
            (Some(call), _) if matches!(formula.kind, TypedKind::Call(..)) => call.to_owned(),
            _ => format!("Ok({})", code.owned(&formula.ty)),
        })
    }

    /// A formula that computes several gradients, as an expression of type `Result<[Option<Tensor>; N]>`.
    pub(super) fn gradients(&self, formula: &Typed, count: usize) -> Result<String, String> {
        let some = |text: String, ty: &Ty| match is_optional(ty) || *ty == Ty::None {
            true => text,
            false => format!("Some({text})"),
        };
        match (&formula.kind, &formula.ty) {
            (TypedKind::Tuple(items), _) => {
                let owned = |item: &Typed| Ok(some(self.emit(item)?.owned(&item.ty), &item.ty));
                let items = items.iter().map(owned).collect::<Result<Vec<_>, String>>()?;
                Ok(format!("Ok([{}])", items.join(", ")))
            }
            (_, Ty::Tuple(types)) if types.iter().all(is_optional) => {
                Ok(format!("Ok({}.into())", self.emit(formula)?.text))
            }
            (_, Ty::Tuple(types)) => {
                let names: Vec<String> = (0..count).map(|index| format!("grad{index}")).collect();
                let start = format!("let ({}) = {};", names.join(", "), self.emit(formula)?.text);
                let parts: Vec<String> =
                    names.into_iter().zip(types).map(|(name, ty)| some(name, ty)).collect();
                Ok(format!("{{\n        {start}\n        Ok([{}])\n    }}", parts.join(", ")))
            }
            _ => Err("a formula of several inputs must be a tuple".to_owned()),
        }
    }

    fn emit(&self, typed: &Typed) -> Emitted {
        match &typed.kind {
            TypedKind::Int(value) => code(Form::Copy, value.to_string()),
            TypedKind::Float(value) => code(Form::Copy, format!("{value:?}")),
            TypedKind::Bool(value) => code(Form::Copy, value.to_string()),
            TypedKind::Str(value) => code(Form::Copy, format!("{value:?}")),
            TypedKind::None => code(Form::Copy, "None"),
            TypedKind::Variable(variable) => self.variable(variable, &typed.ty),
            TypedKind::Call(callee, arguments) => self.call(callee, arguments, &typed.ty),
            TypedKind::Property(inner, property) => self.property(inner, *property),
            TypedKind::SizeAlong(sizes, dim) => {
                let sizes = self.emit(sizes)?.borrowed(&sizes.ty);
                code(Form::Copy, format!("formulas::size_along({sizes}, {})?", self.emit(dim)?.text))
            }
            TypedKind::Negate(inner) if is_scalar(&inner.ty) => {
                code(Form::Copy, format!("scalar::neg({})", self.emit(inner)?.text))
            }
            TypedKind::Negate(inner) => code(Form::Copy, format!("-{}", self.operand(inner)?)),
            TypedKind::Not(inner) => code(Form::Copy, format!("!{}", self.operand(inner)?)),
            TypedKind::Binary(operator, left, right) => self.binary(*operator, left, right, &typed.ty),
            TypedKind::If(condition, then, otherwise) => {
                let branch = |branch: &Typed| self.moved(branch, &typed.ty);
                let condition = self.emit(condition)?.text;
                let text =
                    format!("if {condition} {{ {} }} else {{ {} }}", branch(then)?, branch(otherwise)?);
                code(Form::Owned, text)
            }
            TypedKind::Tuple(items) => {
                let owned = |item: &Typed| Ok(self.emit(item)?.owned(&item.ty));
                let items: Result<Vec<String>, String> = items.iter().map(owned).collect();
                code(Form::Owned, format!("({})", items?.join(", ")))
            }
            TypedKind::List(items) => {
                let owned = |item: &Typed| Ok(self.emit(item)?.owned(&item.ty));
                let items: Result<Vec<String>, String> = items.iter().map(owned).collect();
                code(Form::Owned, format!("[{}]", items?.join(", ")))
            }
            TypedKind::Index(base, index) => self.index(base, index),
            TypedKind::Field(base, index) => {
                let form = if is_tensor(&typed.ty) || is_list(&typed.ty) { Form::Owned } else { Form::Copy };
                code(form, format!("{}.{index}", self.emit(base)?.text))
            }
        }
    }

    fn field(&self, variable: &Variable, property: Option<Property>) -> Option<&Field> {
        self.fields.iter().find(|field| field.variable == *variable && field.property() == property)
    }

    fn variable(&self, variable: &Variable, ty: &Ty) -> Emitted {
        match variable {
            _ if self.locals => {
                let form = match ty {
                    ty if is_tensor(ty) => Form::Unpacked,
                    ty if is_list(ty) => Form::Borrowed,
                    _ => Form::Copy,
                };
                code(form, local(variable, ty))
            }
            Variable::Input(_) | Variable::Output(_) => {
                let field = self.field(variable, None).ok_or("a value that is not saved")?;
                match field.storage {
                    FieldStorage::Tensor | FieldStorage::Tensors if is_optional(ty) => {
                        code(Form::Borrowed, format!("{}.as_ref()", field.name))
                    }
                    FieldStorage::Tensor if !is_list(ty) => code(Form::Unpacked, field.name.clone()),
                    FieldStorage::Tensor | FieldStorage::Tensors => code(Form::Borrowed, field.name.clone()),
                    FieldStorage::Copy => code(Form::Copy, format!("self.{}", field.name)),
                    FieldStorage::List => code(Form::Borrowed, format!("&self.{}", field.name)),
                    FieldStorage::OptionalList => {
                        code(Form::Borrowed, format!("self.{}.as_deref()", field.name))
                    }
                }
            }
            Variable::Gradient(index) if is_optional(ty) => {
                code(Form::Borrowed, format!("grads[{index}].as_ref()"))
            }
            Variable::Gradient(_) => code(Form::Borrowed, "grad"),
            Variable::Gradients => code(Form::Borrowed, "grads"),
            Variable::Mask => code(Form::Copy, "mask"),
            Variable::Tangent(name) => Err(format!("the tangent of `{name}` in a backward formula")),
        }
    }

    fn property(&self, inner: &Typed, property: Property) -> Emitted {
        if let TypedKind::Variable(variable) = &inner.kind
            && let Some(field) = self.field(variable, Some(property))
        {
            return match field.storage {
                FieldStorage::List => code(Form::Borrowed, format!("&self.{}", field.name)),
                _ => code(Form::Copy, format!("self.{}", field.name)),
            };
        }
        let of = self.emit(inner)?.text;
        let of = of.trim_start_matches('&');
        match property {
            Property::Sizes if is_list(&inner.ty) => {
                code(Form::Owned, format!("formulas::sizes_of({})", self.emit(inner)?.borrowed(&inner.ty)))
            }
            Property::Sizes | Property::Strides => {
                code(Form::Borrowed, format!("{of}.{}()", property.name()))
            }
            Property::Size(dim) => code(Form::Copy, format!("{of}.size({dim})?")),
            Property::Dim => code(Form::Copy, format!("({of}.dim() as i64)")),
            Property::Len => code(Form::Copy, format!("({of}.len() as i64)")),
            Property::ScalarType => code(Form::Copy, format!("{of}.dtype()")),
            other => code(Form::Copy, format!("{of}.{}()", other.name())),
        }
    }

    fn index(&self, base: &Typed, index: &Typed) -> Emitted {
        match (&base.kind, &index.kind) {
            (TypedKind::Variable(Variable::Gradients), TypedKind::Int(index)) => {
                code(Form::Borrowed, format!("grads[{index}].as_ref()"))
            }
            _ => {
                let list = self.emit(base)?.borrowed(&base.ty);
                let item = format!("formulas::item({list}, {})?", self.emit(index)?.text);
                match &base.ty {
                    Ty::Value(Type::List(element, _)) if element.holds_tensors() => code(Form::Owned, item),
                    _ => code(Form::Copy, item),
                }
            }
        }
    }

    /// An operand of a longer expression, in parentheses if it is a binary or conditional expression.
    fn operand(&self, typed: &Typed) -> Result<String, String> {
        let text = self.emit(typed)?.text;
        let joined = matches!(typed.kind, TypedKind::Binary(..) | TypedKind::If(..)) && !text.ends_with(")?");
        Ok(if joined { format!("({text})") } else { text })
    }

    fn binary(&self, operator: BinaryOperator, left: &Typed, right: &Typed, ty: &Ty) -> Emitted {
        let int = Ty::of(&Type::Base(BaseType::Int));
        let float = Ty::of(&Type::Base(BaseType::Float));
        let scalar = is_scalar(&left.ty) || is_scalar(&right.ty);
        if scalar && !operator.is_comparison() {
            return self.scalar_arithmetic(operator, left, right);
        }
        let divides = matches!(operator, BinaryOperator::Div | BinaryOperator::Rem);
        if divides && *ty == int && !matches!(right.kind, TypedKind::Int(1..)) {
            return Err("an `int` is divided by one that may be 0".to_owned());
        }
        let equality = matches!(operator, BinaryOperator::Eq | BinaryOperator::Ne);
        if let (true, true, TypedKind::Int(value)) = (is_scalar(&left.ty), equality, &right.kind) {
            // A complex number has an imaginary part too.
            let left = self.emit(left)?.text;
            return code(Form::Copy, format!("{left}.to_complex() {} ({value}.0, 0.0)", operator.symbol()));
        }
        let mixed = scalar || ((left.ty == float || right.ty == float) && left.ty != right.ty);
        let side = |side: &Typed| match (&side.kind, mixed) {
            (TypedKind::Int(value), true) => Ok(format!("{value}.0")),
            (_, true) if is_scalar(&side.ty) => Ok(format!("{}.to_f64()", self.emit(side)?.text)),
            (_, true) if side.ty == int => Ok(format!("({} as f64)", self.operand(side)?)),
            (_, _) if is_list(&side.ty) => {
                Ok(format!("{}[..]", self.emit(side)?.text.trim_start_matches('&')))
            }
            _ => self.operand(side),
        };
        code(Form::Copy, format!("{} {} {}", side(left)?, operator.symbol(), side(right)?))
    }

    fn scalar_arithmetic(&self, operator: BinaryOperator, left: &Typed, right: &Typed) -> Emitted {
        let name = match operator {
            BinaryOperator::Add => "add",
            BinaryOperator::Sub => "sub",
            BinaryOperator::Mul => "mul",
            BinaryOperator::Div => "div",
            other => return Err(format!("`{}` between a `Scalar` and a number", other.symbol())),
        };
        let side = |side: &Typed| self.converted(side, &Type::Base(BaseType::Scalar));
        code(Form::Copy, format!("scalar::{name}({}, {})", side(left)?, side(right)?))
    }

    fn call(&self, callee: &Callee, arguments: &[Passed], ty: &Ty) -> Emitted {
        let (function, schema) = match callee {
            Callee::Operator(name) => {
                let operator = self.operators.iter().find(|operator| operator.schema.name == *name);
                (
                    format!("{}::{}", naming::module(name), naming::function(name)),
                    operator.map(|operator| &operator.schema),
                )
            }
            Callee::Helper(name) => {
                let helper = self.helpers.iter().find(|helper| helper.name.base == *name);
                (format!("formulas::{}", naming::identifier(name)), helper)
            }
        };
        let schema = schema.ok_or_else(|| format!("`{function}` has no signature"))?;
        let parameters: Vec<&Argument> = schema.inputs().collect();
        let mut passed = vec![];
        let mut index = 0;
        for argument in arguments {
            let parameter = parameters.get(index).ok_or("more arguments than parameters")?;
            index += if matches!(argument, Passed::Options(_)) { 4 } else { 1 };
            passed.push(self.argument(argument, parameter)?);
        }
        let copies = !is_tensor(ty) && !is_list(ty) && !matches!(ty, Ty::Tuple(_));
        let form = if copies { Form::Copy } else { Form::Owned };
        code(form, format!("{function}({})?", passed.join(", ")))
    }

    fn argument(&self, passed: &Passed, parameter: &Argument) -> Result<String, String> {
        match passed {
            Passed::Given(value, conversion) => self.convert(value, conversion, &parameter.ty),
            Passed::Default(default) => {
                let filled = Argument { default: Some(default.clone()), ..parameter.clone() };
                naming::default(&filled).ok_or_else(|| format!("the default of `{}`", parameter.name))
            }
            Passed::Options(value) => {
                let options = self.emit(value)?.text;
                Ok(["dtype", "layout", "device", "pin_memory"]
                    .map(|part| format!("{options}.{part}"))
                    .join(", "))
            }
        }
    }

    /// A value converted to the type of a parameter.
    fn converted(&self, value: &Typed, ty: &Type) -> Result<String, String> {
        let conversion = value.ty.conversion(ty).ok_or_else(|| format!("{} as `{ty}`", value.ty))?;
        self.convert(value, &conversion, ty)
    }

    fn convert(&self, value: &Typed, conversion: &Conversion, ty: &Type) -> Result<String, String> {
        let emitted = || self.emit(value);
        Ok(match (conversion, &value.kind) {
            // A list of bools of fixed length is passed by value.
            (Conversion::Same, TypedKind::List(items)) if matches!(ty, Type::List(_, Some(_))) => {
                self.list(items, ty)?
            }
            (Conversion::Same, _) => emitted()?.borrowed(&value.ty),
            (Conversion::Float, TypedKind::Int(value)) => format!("{value}.0"),
            (Conversion::Float, _) => format!("{} as f64", self.operand(value)?),
            (Conversion::Scalar, _) => scalar(&value.ty, &emitted()?.text),
            (Conversion::Some(inner), _) => {
                format!("Some({})", self.convert(value, inner, ty.without_optional())?)
            }
            (Conversion::Repeated(count), _) => format!("&[{}; {count}]", emitted()?.text),
            (Conversion::Elements(_), TypedKind::List(items)) => self.list(items, ty)?,
            (Conversion::Elements(inner), _) if **inner == Conversion::Same => emitted()?.borrowed(&value.ty),
            (Conversion::Elements(_), _) => return Err(format!("{} as `{ty}`", value.ty)),
        })
    }

    fn list(&self, items: &[Typed], ty: &Type) -> Result<String, String> {
        let Type::List(element, size) = ty else { return Err(format!("a list as `{ty}`")) };
        let item = |item: &Typed| self.moved(item, &Ty::of(element));
        let items: Result<Vec<String>, String> = items.iter().map(item).collect();
        let by_value = size.is_some() && **element == Type::Base(BaseType::Bool);
        Ok(format!("{}[{}]", if by_value { "" } else { "&" }, items?.join(", ")))
    }

    /// A value that is converted to a type and moved.
    fn moved(&self, value: &Typed, ty: &Ty) -> Result<String, String> {
        let own = || Ok(self.emit(value)?.owned(&value.ty));
        match ty {
            _ if value.ty == *ty || value.ty == Ty::None => own(),
            Ty::Value(Type::Optional(_)) => Ok(format!("Some({})", own()?)),
            Ty::Value(ty) if !ty.holds_tensors() => self.converted(value, ty),
            _ => own(),
        }
    }
}

fn scalar(ty: &Ty, text: &str) -> String {
    match ty {
        Ty::Value(Type::Base(BaseType::Int)) => format!("Scalar::Int({text})"),
        Ty::Value(Type::Base(BaseType::Float)) => format!("Scalar::Float({text})"),
        Ty::Value(Type::Base(BaseType::Bool)) => format!("Scalar::Bool({text})"),
        _ => text.to_owned(),
    }
}
