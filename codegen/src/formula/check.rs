//! The type checker: determines the type of every part of a formula, and resolves symbols such as `+` to operators.

use super::FormulaError;
use super::ast::{BinaryOperator, Expr, ExprKind};
use super::call::{CallSite, Callee, Passed, resolve};
use super::parse::parse;
use super::saved::Variable;
use super::scope::{Catalog, Scope};
use super::types::{Property, Ty};
use crate::schema::Type;

/// A part of a formula with its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    /// Byte offset into the formula.
    pub at: usize,
    /// The type of its value.
    pub ty: Ty,
    /// What it is.
    pub kind: TypedKind,
}

/// What a part of a formula is.
#[derive(Clone, Debug, PartialEq)]
pub enum TypedKind {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(String),
    /// An absent value.
    None,
    /// A name.
    Variable(Variable),
    /// A call, with every parameter in the order of the schema.
    Call(Callee, Vec<Passed>),
    /// A property of a tensor, which does not depend on its elements.
    Property(Box<Typed>, Property),
    /// The size of a tensor along a dimension that is computed.
    SizeAlong(Box<Typed>, Box<Typed>),
    /// `-` of a number.
    Negate(Box<Typed>),
    /// `!` of a boolean.
    Not(Box<Typed>),
    /// A binary operator on values that are not tensors.
    Binary(BinaryOperator, Box<Typed>, Box<Typed>),
    /// Condition, then, otherwise; both branches are converted to the type of the whole.
    If(Box<Typed>, Box<Typed>, Box<Typed>),
    /// Several values.
    Tuple(Vec<Typed>),
    /// A list.
    List(Vec<Typed>),
    /// An element of a list.
    Index(Box<Typed>, Box<Typed>),
    /// A part of a tuple.
    Field(Box<Typed>, usize),
}

/// A formula that is a keyword and not an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Special {
    /// `non_differentiable`: the input has no gradient.
    NonDifferentiable,
    /// `not_implemented("name")`: computing the gradient is an error.
    NotImplemented(String),
    /// `auto_linear`: the tangent is the operator applied to the tangents.
    AutoLinear,
    /// `auto_element_wise`: the tangent is computed by the backward formula.
    AutoElementWise,
}

impl Special {
    /// The keyword, if the text is one.
    pub fn from_text(text: &str) -> Option<Self> {
        match text.trim() {
            "non_differentiable" => Some(Self::NonDifferentiable),
            "auto_linear" => Some(Self::AutoLinear),
            "auto_element_wise" => Some(Self::AutoElementWise),
            other => {
                let name = other.strip_prefix("not_implemented(\"")?.strip_suffix("\")")?;
                (!name.contains('"')).then(|| Self::NotImplemented(name.to_owned()))
            }
        }
    }
}

/// Parses and type-checks a formula whose value must have the expected type, or, if there are several, be a tuple of them.
///
/// # Errors
/// What is wrong and at which byte.
pub fn check(text: &str, scope: &Scope, catalog: &Catalog, expected: &[Type]) -> Result<Typed, FormulaError> {
    let checker = Checker { scope, catalog };
    let typed = checker.expr(&parse(text)?)?;
    let optional = |ty: &Type| Ty::of(&Type::Optional(Box::new(ty.without_optional().clone())));
    let expected_ty = match expected {
        [only] => optional(only),
        several => Ty::Tuple(several.iter().map(optional).collect()),
    };
    if typed.ty.converts(&expected_ty) {
        return Ok(typed);
    }
    let shown = match expected {
        [only] => Ty::of(only),
        several => Ty::Tuple(several.iter().map(Ty::of).collect()),
    };
    Err(FormulaError::new(typed.at, format!("expected the formula to give {shown} but found {}", typed.ty)))
}

struct Checker<'a> {
    scope: &'a Scope,
    catalog: &'a Catalog,
}

type Checked = Result<Typed, FormulaError>;

impl Checker<'_> {
    fn expr(&self, expr: &Expr) -> Checked {
        let at = expr.at;
        let (ty, kind) = match &expr.kind {
            ExprKind::Int(value) => (Ty::INT, TypedKind::Int(*value)),
            ExprKind::Float(value) => (Ty::FLOAT, TypedKind::Float(*value)),
            ExprKind::Bool(value) => (Ty::BOOL, TypedKind::Bool(*value)),
            ExprKind::Str(value) => (Ty::STR, TypedKind::Str(value.clone())),
            ExprKind::None => (Ty::None, TypedKind::None),
            ExprKind::Name(name) => return self.name(at, name),
            ExprKind::Call(name, arguments) => return self.call(at, name, None, self.all(arguments)?),
            ExprKind::Method(receiver, name, arguments) => {
                return self.method(at, self.expr(receiver)?, name, self.all(arguments)?);
            }
            ExprKind::Negate(inner) => return self.negate(at, self.expr(inner)?),
            ExprKind::Not(inner) => return self.not(at, self.expr(inner)?),
            ExprKind::Binary(operator, left, right) => {
                return self.binary(at, *operator, self.expr(left)?, self.expr(right)?);
            }
            ExprKind::If(condition, then, otherwise) => {
                let condition = self.expr(condition)?;
                return conditional(at, condition, self.expr(then)?, self.expr(otherwise)?);
            }
            ExprKind::Tuple(items) => {
                let items = self.all(items)?;
                (Ty::Tuple(items.iter().map(|item| item.ty.clone()).collect()), TypedKind::Tuple(items))
            }
            ExprKind::List(items) => return list(at, self.all(items)?),
            ExprKind::Index(base, index) => return self.index(at, self.expr(base)?, self.expr(index)?),
            ExprKind::Field(base, index) => return field(at, self.expr(base)?, *index),
        };
        Ok(Typed { at, ty, kind })
    }

    fn all(&self, exprs: &[Expr]) -> Result<Vec<Typed>, FormulaError> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn name(&self, at: usize, name: &str) -> Checked {
        let known = self.scope.names.get(name);
        let (variable, ty) =
            known.ok_or_else(|| FormulaError::new(at, format!("there is no value `{name}`")))?;
        Ok(Typed { at, ty: ty.clone(), kind: TypedKind::Variable(variable.clone()) })
    }

    fn call(&self, at: usize, name: &str, receiver: Option<Typed>, arguments: Vec<Typed>) -> Checked {
        let resolved = resolve(self.catalog, &CallSite { at, name, receiver, arguments })?;
        Ok(Typed { at, ty: resolved.ty, kind: TypedKind::Call(resolved.callee, resolved.arguments) })
    }

    fn method(&self, at: usize, receiver: Typed, name: &str, arguments: Vec<Typed>) -> Checked {
        let property = match (name, arguments.as_slice()) {
            ("size", [Typed { kind: TypedKind::Int(dim), .. }]) => Some(Property::Size(*dim)),
            (_, []) => Property::from_method(name),
            _ => None,
        };
        if let Some((property, ty)) = property.and_then(|p| Some((p, receiver.ty.property(p)?))) {
            return Ok(Typed { at, ty, kind: TypedKind::Property(Box::new(receiver), property) });
        }
        if receiver.ty != Ty::TENSOR {
            let message = format!("`.{name}()`: expected Tensor but found {}", receiver.ty);
            return Err(FormulaError::new(receiver.at, message));
        }
        match (name, arguments.as_slice()) {
            ("size", [dim]) if dim.ty == Ty::INT => {
                let sizes = TypedKind::Property(Box::new(receiver), Property::Sizes);
                let sizes = Typed { at, ty: Ty::list(Type::Base(crate::schema::BaseType::Int)), kind: sizes };
                let kind = TypedKind::SizeAlong(Box::new(sizes), Box::new(dim.clone()));
                Ok(Typed { at, ty: Ty::INT, kind })
            }
            _ => self.call(at, name, Some(receiver), arguments),
        }
    }

    fn negate(&self, at: usize, inner: Typed) -> Checked {
        if inner.ty == Ty::TENSOR {
            return self.call(at, "neg", None, vec![inner]);
        }
        if !inner.ty.is_number() {
            return Err(FormulaError::new(
                at,
                format!("`-`: expected a number or Tensor but found {}", inner.ty),
            ));
        }
        let kind = match inner.kind {
            TypedKind::Int(value) => TypedKind::Int(-value),
            TypedKind::Float(value) => TypedKind::Float(-value),
            _ => TypedKind::Negate(Box::new(inner.clone())),
        };
        Ok(Typed { at, ty: inner.ty, kind })
    }

    fn not(&self, at: usize, inner: Typed) -> Checked {
        if inner.ty == Ty::TENSOR {
            return self.call(at, "logical_not", None, vec![inner]);
        }
        if inner.ty != Ty::BOOL {
            return Err(FormulaError::new(
                at,
                format!("`!`: expected bool or Tensor but found {}", inner.ty),
            ));
        }
        Ok(Typed { at, ty: Ty::BOOL, kind: TypedKind::Not(Box::new(inner)) })
    }

    fn binary(&self, at: usize, operator: BinaryOperator, left: Typed, right: Typed) -> Checked {
        let named = operator.tensor_operator();
        match (named, left.ty == Ty::TENSOR, right.ty == Ty::TENSOR) {
            (Some(name), true, _) => self.call(at, name, None, vec![left, right]),
            (Some(_), false, true) if left.ty.is_number() => self.number_first(at, operator, left, right),
            _ => plain(at, operator, left, right),
        }
    }

    /// A number on the left of a tensor: the operator on tensors has the tensor as its first argument.
    fn number_first(&self, at: usize, operator: BinaryOperator, number: Typed, tensor: Typed) -> Checked {
        let call = |name: &str, arguments: Vec<Typed>| self.call(at, name, None, arguments);
        match operator {
            BinaryOperator::Sub if !self.catalog.operators("rsub").is_empty() => {
                call("rsub", vec![tensor, number])
            }
            BinaryOperator::Sub => call("add", vec![call("neg", vec![tensor])?, number]),
            BinaryOperator::Div => call("mul", vec![call("reciprocal", vec![tensor])?, number]),
            BinaryOperator::Rem => {
                Err(FormulaError::new(at, "`%`: expected Tensor on the left but found a number"))
            }
            other => call(other.flipped().tensor_operator().unwrap_or_default(), vec![tensor, number]),
        }
    }

    fn index(&self, at: usize, base: Typed, index: Typed) -> Checked {
        if index.ty != Ty::INT {
            return Err(FormulaError::new(
                index.at,
                format!("an index: expected int but found {}", index.ty),
            ));
        }
        if let (TypedKind::Variable(Variable::Gradients), TypedKind::Int(number)) = (&base.kind, &index.kind)
        {
            let outputs = self.scope.outputs;
            if outputs > 1 && usize::try_from(*number).map_or(true, |number| number >= outputs) {
                let message = format!("`grads[{number}]`: the operator has {outputs} outputs");
                return Err(FormulaError::new(index.at, message));
            }
        }
        match &base.ty {
            Ty::Value(Type::List(element, _)) => {
                let ty = Ty::Value((**element).clone());
                Ok(Typed { at, ty, kind: TypedKind::Index(Box::new(base), Box::new(index)) })
            }
            other => Err(FormulaError::new(base.at, format!("`[..]`: expected a list but found {other}"))),
        }
    }
}

/// A binary operator on values that are not tensors.
fn plain(at: usize, operator: BinaryOperator, left: Typed, right: Typed) -> Checked {
    let numbers = left.ty.is_number() && right.ty.is_number();
    let alike = left.ty == right.ty && !matches!(left.ty, Ty::Tuple(_) | Ty::None);
    let ty = match operator {
        BinaryOperator::And | BinaryOperator::Or if left.ty == Ty::BOOL && right.ty == Ty::BOOL => {
            Some(Ty::BOOL)
        }
        BinaryOperator::Eq | BinaryOperator::Ne if (alike && !is_tensors(&left.ty)) || numbers => {
            Some(Ty::BOOL)
        }
        _ if operator.is_comparison() && numbers => Some(Ty::BOOL),
        _ if operator.tensor_operator().is_some() && !operator.is_comparison() && numbers => {
            Some(wider(&left.ty, &right.ty))
        }
        _ => None,
    };
    let message = || format!("`{}` is not defined between {} and {}", operator.symbol(), left.ty, right.ty);
    let ty = ty.ok_or_else(|| FormulaError::new(at, message()))?;
    Ok(Typed { at, ty, kind: TypedKind::Binary(operator, Box::new(left), Box::new(right)) })
}

fn is_tensors(ty: &Ty) -> bool {
    matches!(ty, Ty::Value(ty) if ty.holds_tensors())
}

/// The type of a sum of two numbers.
fn wider(left: &Ty, right: &Ty) -> Ty {
    let either = |ty: &Ty| left == ty || right == ty;
    [Ty::SCALAR, Ty::FLOAT].into_iter().find(either).unwrap_or(Ty::INT)
}

fn conditional(at: usize, condition: Typed, then: Typed, otherwise: Typed) -> Checked {
    if condition.ty != Ty::BOOL {
        let message = format!("the condition of `if`: expected bool but found {}", condition.ty);
        return Err(FormulaError::new(condition.at, message));
    }
    let optional = |ty: &Ty| match ty {
        Ty::Value(Type::Optional(_)) => ty.clone(),
        Ty::Value(inner) => Ty::Value(Type::Optional(Box::new(inner.clone()))),
        other => other.clone(),
    };
    let ty = match (&then.ty, &otherwise.ty) {
        (a, b) if b.converts(a) => Some(a.clone()),
        (a, b) if a.converts(b) => Some(b.clone()),
        (a, Ty::None) => Some(optional(a)),
        (Ty::None, b) => Some(optional(b)),
        _ => None,
    };
    let message = || format!("the branches of `if` differ: {} and {}", then.ty, otherwise.ty);
    let ty = ty.ok_or_else(|| FormulaError::new(at, message()))?;
    Ok(Typed { at, ty, kind: TypedKind::If(Box::new(condition), Box::new(then), Box::new(otherwise)) })
}

fn list(at: usize, items: Vec<Typed>) -> Checked {
    let element = items.first().map_or(Ty::INT, |first| first.ty.clone());
    if let Some(other) = items.iter().find(|item| item.ty != element) {
        let message = format!("the elements of a list differ: {element} and {}", other.ty);
        return Err(FormulaError::new(other.at, message));
    }
    match element {
        Ty::Value(ty) => Ok(Typed { at, ty: Ty::list(ty), kind: TypedKind::List(items) }),
        other => Err(FormulaError::new(at, format!("a list cannot hold {other}"))),
    }
}

fn field(at: usize, base: Typed, index: usize) -> Checked {
    match &base.ty {
        Ty::Tuple(items) if index < items.len() => {
            Ok(Typed { at, ty: items[index].clone(), kind: TypedKind::Field(Box::new(base), index) })
        }
        other => Err(FormulaError::new(base.at, format!("{other} has no field `{index}`"))),
    }
}

impl Typed {
    /// Its direct parts.
    pub fn children(&self) -> Vec<&Self> {
        match &self.kind {
            TypedKind::Int(_)
            | TypedKind::Float(_)
            | TypedKind::Bool(_)
            | TypedKind::Str(_)
            | TypedKind::None
            | TypedKind::Variable(_) => vec![],
            TypedKind::Call(_, arguments) => arguments.iter().filter_map(Passed::value).collect(),
            TypedKind::Property(inner, _)
            | TypedKind::Negate(inner)
            | TypedKind::Not(inner)
            | TypedKind::Field(inner, _) => vec![inner],
            TypedKind::SizeAlong(a, b) | TypedKind::Binary(_, a, b) | TypedKind::Index(a, b) => vec![a, b],
            TypedKind::If(a, b, c) => vec![a, b, c],
            TypedKind::Tuple(items) | TypedKind::List(items) => items.iter().collect(),
        }
    }
}

impl Passed {
    /// The value of the formula that is passed, unless it is the default of the schema.
    pub fn value(&self) -> Option<&Typed> {
        match self {
            Self::Given(value, _) | Self::Options(value) => Some(value),
            Self::Default(_) => None,
        }
    }
}
