//! Overload resolution: the overload that a call refers to, and the arguments of its parameters.

use super::FormulaError;
use super::check::Typed;
use super::scope::Catalog;
use super::types::{Conversion, Ty};
use crate::schema::{Argument, Default, FunctionSchema, OperatorName};

/// What is called.
#[derive(Clone, Debug, PartialEq)]
pub enum Callee {
    /// An operator.
    Operator(OperatorName),
    /// A function declared under `helpers`.
    Helper(String),
}

/// The argument for a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// A value of the formula, converted.
    Given(Typed, Conversion),
    /// The default of the schema.
    Default(Default),
    /// One value for the four parameters `dtype, layout, device, pin_memory`.
    Options(Typed),
}

/// A resolved call, with the arguments in the order of the schema's parameters.
pub(super) struct Resolved {
    pub(super) callee: Callee,
    pub(super) ty: Ty,
    pub(super) arguments: Vec<Passed>,
}

/// A call in the formula.
pub(super) struct CallSite<'a> {
    pub(super) at: usize,
    pub(super) name: &'a str,
    /// The value before the dot of a method, which is the parameter `self`.
    pub(super) receiver: Option<Typed>,
    pub(super) arguments: Vec<Typed>,
}

/// Finds the overload with the cheapest conversions; of several, the first in the file. A helper hides operators of the same name.
pub(super) fn resolve(catalog: &Catalog, site: &CallSite<'_>) -> Result<Resolved, FormulaError> {
    let helpers = if site.receiver.is_none() { catalog.helpers(site.name) } else { &[] };
    let candidates: Vec<(&FunctionSchema, bool)> = helpers
        .iter()
        .map(|schema| (schema, true))
        .chain(catalog.operators(site.name).iter().map(|schema| (schema, false)))
        .collect();
    let mut best: Option<(usize, Resolved)> = None;
    let mut failures = vec![];
    for (schema, is_helper) in &candidates {
        match fill(schema, site) {
            Ok((cost, arguments)) if best.as_ref().is_none_or(|(known, _)| cost < *known) => {
                let callee = if *is_helper {
                    Callee::Helper(schema.name.base.clone())
                } else {
                    Callee::Operator(schema.name.clone())
                };
                best = Some((cost, Resolved { callee, ty: returned(schema), arguments }));
            }
            Ok(_) => {}
            Err(error) => failures.push(error),
        }
    }
    match best {
        Some((_, resolved)) => Ok(resolved),
        None => Err(no_match(site, &candidates, failures)),
    }
}

fn no_match(
    site: &CallSite<'_>,
    candidates: &[(&FunctionSchema, bool)],
    mut failures: Vec<FormulaError>,
) -> FormulaError {
    match candidates {
        [] => FormulaError::new(site.at, format!("there is no operator or helper `{}`", site.name)),
        [_] => failures.remove(0),
        several => {
            let given = site.receiver.iter().chain(&site.arguments).map(|argument| argument.ty.to_string());
            let given = given.collect::<Vec<_>>().join(", ");
            let known: Vec<String> = several.iter().map(|(schema, _)| schema.to_string()).collect();
            let message =
                format!("no `{}` takes ({given}); there are\n    {}", site.name, known.join("\n    "));
            FormulaError::new(site.at, message)
        }
    }
}

/// The arguments of all parameters, and the cost of their conversions.
fn fill(schema: &FunctionSchema, site: &CallSite<'_>) -> Result<(usize, Vec<Passed>), FormulaError> {
    let parameters: Vec<&Argument> = schema.inputs().collect();
    let options = schema.tensor_options().map(|range| range.start + schema.positional.len());
    if site.receiver.is_some() && schema.self_argument().is_none() {
        return Err(FormulaError::new(site.at, format!("`{}` has no argument `self`", schema.name)));
    }
    let mut given = site.arguments.iter();
    let (mut cost, mut passed, mut index) = (0, vec![], 0);
    while let Some(parameter) = parameters.get(index) {
        let value = match &site.receiver {
            Some(receiver) if parameter.name == "self" => Some(receiver),
            _ => given.next(),
        };
        match value {
            Some(value) if value.ty == Ty::Options && options == Some(index) => {
                passed.push(Passed::Options(value.clone()));
                index += 4;
                continue;
            }
            Some(value) => {
                let conversion =
                    value.ty.conversion(&parameter.ty).ok_or_else(|| mismatch(schema, parameter, value))?;
                cost += conversion.cost();
                passed.push(Passed::Given(value.clone(), conversion));
            }
            None => passed.push(default(schema, parameter, site)?),
        }
        index += 1;
    }
    match given.next() {
        Some(extra) => {
            Err(FormulaError::new(extra.at, format!("`{}` takes no more arguments: {schema}", schema.name)))
        }
        None => Ok((cost, passed)),
    }
}

fn mismatch(schema: &FunctionSchema, parameter: &Argument, value: &Typed) -> FormulaError {
    let Argument { name, ty, .. } = parameter;
    let message = format!("argument `{name}` of `{}`: expected {ty} but found {}", schema.name, value.ty);
    FormulaError::new(value.at, message)
}

fn default(
    schema: &FunctionSchema,
    parameter: &Argument,
    site: &CallSite<'_>,
) -> Result<Passed, FormulaError> {
    let message = || format!("`{}` needs its argument `{}`: {schema}", schema.name, parameter.name);
    parameter.default.clone().map(Passed::Default).ok_or_else(|| FormulaError::new(site.at, message()))
}

fn returned(schema: &FunctionSchema) -> Ty {
    match schema.returns.as_slice() {
        [only] => Ty::of(&only.ty),
        several => Ty::Tuple(several.iter().map(|result| Ty::of(&result.ty)).collect()),
    }
}
