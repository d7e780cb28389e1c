//! The names that a formula may use: the operator's arguments, results and gradients, and functions.

use std::collections::HashMap;

use super::saved::Variable;
use super::types::Ty;
use crate::derivatives::{Derivative, Derivatives, Differentiable};
use crate::native_functions::NativeFunctions;
use crate::schema::{BaseType, FunctionSchema, Type};

/// The functions that can be called: helpers and functional operators, by base name.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    helpers: HashMap<String, Vec<FunctionSchema>>,
    operators: HashMap<String, Vec<FunctionSchema>>,
}

/// Whether a formula is for reverse or for forward mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From gradients of outputs to gradients of inputs.
    Backward,
    /// From tangents of inputs to tangents of outputs: `NAME_p` is an input's value, `NAME_t` its tangent.
    Forward,
}

/// The names in scope of one operator's formulas, each with its type.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(super) names: HashMap<String, (Variable, Ty)>,
    /// The type of `grads[i]`, if gradients are given by number.
    pub(super) outputs: usize,
}

impl Catalog {
    /// The operators of one file and the helpers of the other.
    pub fn new(functions: &NativeFunctions, derivatives: &Derivatives) -> Self {
        let mut catalog = Self::default();
        for helper in &derivatives.helpers {
            let schema = helper.value.clone();
            catalog.helpers.entry(schema.name.base.clone()).or_default().push(schema);
        }
        for schema in
            functions.entries.iter().map(|entry| &entry.schema).filter(|schema| schema.is_functional())
        {
            catalog.operators.entry(schema.name.base.clone()).or_default().push(schema.clone());
        }
        catalog
    }

    pub(super) fn helpers(&self, name: &str) -> &[FunctionSchema] {
        self.helpers.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn operators(&self, name: &str) -> &[FunctionSchema] {
        self.operators.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Scope {
    /// The scope of an operator's formulas. `inputs` is how many inputs the formula gives gradients of,
    /// the length of `grad_input_mask`.
    pub fn new(derivative: &Derivative, direction: Direction) -> Self {
        let schema = &derivative.schema;
        let mut scope = Self { names: HashMap::new(), outputs: schema.returns.len() };
        for argument in schema.inputs() {
            scope.argument(&argument.name, &argument.ty, direction);
        }
        for (index, result) in schema.returns.iter().enumerate() {
            let fallback =
                if schema.returns.len() == 1 { "result".to_owned() } else { format!("result{index}") };
            let name = result.name.clone().unwrap_or_else(|| fallback.clone());
            scope.insert(name, Variable::Output(index), &result.ty);
            scope.insert(fallback, Variable::Output(index), &result.ty);
        }
        if direction == Direction::Backward {
            scope.gradients(derivative);
            let mask = Type::List(Box::new(Type::Base(BaseType::Bool)), None);
            scope.insert("grad_input_mask".to_owned(), Variable::Mask, &mask);
        }
        scope
    }

    fn insert(&mut self, name: String, variable: Variable, ty: &Type) {
        self.names.entry(name).or_insert((variable, Ty::of(ty)));
    }

    fn argument(&mut self, name: &str, ty: &Type, direction: Direction) {
        if direction == Direction::Forward && ty.holds_tensors() {
            self.insert(format!("{name}_p"), Variable::Input(name.to_owned()), ty);
            // A term is computed only if its argument has a tangent, so the tangent is not optional.
            self.insert(format!("{name}_t"), Variable::Tangent(name.to_owned()), ty.without_optional());
            // A non-differentiable argument has no tangent, and its own name.
            self.insert(name.to_owned(), Variable::Input(name.to_owned()), ty);
        } else {
            self.insert(name.to_owned(), Variable::Input(name.to_owned()), ty);
        }
    }

    /// With one differentiable output its gradient is `grad`, which is always defined. With several, each may
    /// be undefined: `grads[i]`, or `grad_NAME` if the output has a name.
    fn gradients(&mut self, derivative: &Derivative) {
        let tensor = Type::Base(BaseType::Tensor);
        let differentiable = differentiable_outputs(derivative);
        if let [only] = differentiable.as_slice() {
            let ty = &derivative.schema.returns[*only].ty;
            if *ty == tensor {
                self.insert("grad".to_owned(), Variable::Gradient(*only), &tensor);
                return;
            }
        }
        let optional = Type::Optional(Box::new(tensor));
        for index in differentiable {
            if let Some(name) = &derivative.schema.returns[index].name {
                self.insert(format!("grad_{name}"), Variable::Gradient(index), &optional);
            }
        }
        let list = Type::List(Box::new(optional), None);
        self.insert("grads".to_owned(), Variable::Gradients, &list);
    }
}

/// The outputs that have gradients.
fn differentiable_outputs(derivative: &Derivative) -> Vec<usize> {
    let said = &derivative.output_differentiability;
    let returns = derivative.schema.returns.iter().enumerate();
    let chosen = returns.filter(|(index, result)| {
        let declared =
            said.is_empty() || said.get(*index).is_some_and(|d| *d != Differentiable::Known(false));
        declared && result.ty.holds_tensors()
    });
    chosen.map(|(index, _)| index).collect()
}
