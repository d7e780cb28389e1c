//! Type-checks every formula of the file, and determines what each operator must save.

use super::{Derivative, Derivatives, Differentiable, Formula};
use crate::formula::{Catalog, Direction, FormulaError, Saved, Scope, Special, Typed, check, saved};
use crate::native_functions::NativeFunctions;
use crate::schema::Type;
use crate::source::{Fault, Faults, Source};

/// The derivatives of one operator, with every formula type-checked.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedDerivative {
    /// The entry.
    pub derivative: Derivative,
    /// Gradients of inputs, in the order of the file.
    pub backward: Vec<TypedFormula>,
    /// Tangents of outputs, in the order of the file.
    pub forward: Vec<TypedFormula>,
    /// The values of the call that the backward formulas use.
    pub saved: Vec<Saved>,
}

/// One formula.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedFormula {
    /// The inputs or outputs it belongs to.
    pub names: Vec<String>,
    /// The formula itself.
    pub body: Body,
}

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One of the keywords.
    Special(Special),
    /// An expression.
    Expression(Typed),
}

impl Derivatives {
    /// Type-checks every formula against the operators and helpers it calls.
    ///
    /// # Errors
    /// All formulas with errors, with line, caret, and the expected and actual types.
    pub fn type_check(
        &self,
        source: Source<'_>,
        functions: &NativeFunctions,
    ) -> Result<Vec<TypedDerivative>, Faults> {
        let catalog = Catalog::new(functions, self);
        let mut faults = Faults::default();
        let mut typed = vec![];
        for derivative in &self.entries {
            let checked = derivative.type_check(source, &catalog, &mut faults);
            faults.take(derivative.all_named(source));
            typed.push(checked);
        }
        faults.or(typed)
    }
}

impl Derivative {
    /// The formulas registered for any backend.
    pub fn formulas(&self) -> &[Formula] {
        self.formulas.iter().find(|(key, _)| key == "Default").map_or(&[], |(_, formulas)| formulas)
    }

    fn type_check(&self, source: Source<'_>, catalog: &Catalog, faults: &mut Faults) -> TypedDerivative {
        let (mut backward, mut forward) = (vec![], vec![]);
        for formula in self.formulas() {
            let body = self.body(formula, catalog);
            let body = body.map_err(|error| formula.text.fault(source, error.at, error.message));
            let Some(body) = faults.take(body) else { continue };
            let list = if formula.forward { &mut forward } else { &mut backward };
            list.push(TypedFormula { names: formula.names.clone(), body });
        }
        let expressions = backward.iter().filter_map(|formula: &TypedFormula| match &formula.body {
            Body::Expression(typed) => Some(typed),
            Body::Special(_) => None,
        });
        let saved = saved(expressions);
        TypedDerivative { derivative: self.clone(), backward, forward, saved }
    }

    fn body(&self, formula: &Formula, catalog: &Catalog) -> Result<Body, FormulaError> {
        let text = &formula.text.text;
        match Special::from_text(text) {
            Some(special) => Ok(Body::Special(special)),
            None => {
                let direction = if formula.forward { Direction::Forward } else { Direction::Backward };
                let scope = Scope::new(self, direction);
                check(text, &scope, catalog, &self.expected_types(formula)).map(Body::Expression)
            }
        }
    }

    /// The types that a formula must have: those of its inputs or outputs.
    fn expected_types(&self, formula: &Formula) -> Vec<Type> {
        let of = |name: &String| {
            let argument = self.schema.arguments().find(|argument| argument.name == *name);
            let number = name.strip_prefix("result").and_then(|index| index.parse().ok()).unwrap_or(0);
            let named = self.schema.returns.iter().find(|result| result.name.as_ref() == Some(name));
            let result = named.or_else(|| self.schema.returns.get(number)).map(|result| &result.ty);
            argument.map(|argument| &argument.ty).or(result)
        };
        formula.names.iter().filter_map(of).map(|ty| ty.without_optional().clone()).collect()
    }

    /// Checks that no gradient is forgotten: every tensor argument has a formula or is declared `non_differentiable`.
    fn all_named(&self, source: Source<'_>) -> Result<(), Fault> {
        let none = |d: &Differentiable| *d == Differentiable::Known(false);
        if !self.output_differentiability.is_empty() && self.output_differentiability.iter().all(none) {
            return Ok(());
        }
        let named = |name: &String| self.formulas().iter().any(|formula| formula.names.contains(name));
        let mut inputs = self.schema.inputs().filter(|argument| argument.ty.holds_tensors());
        match inputs.find(|argument| !named(&argument.name)) {
            None => Ok(()),
            Some(argument) => {
                let name = &argument.name;
                let message = format!("`{name}` has neither a formula nor `{name}: non_differentiable`");
                Err(source.fault(self.at, message))
            }
        }
    }
}
