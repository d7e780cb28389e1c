//! Formulas of tangents: a sum of terms, each of which is linear in the tangent of one argument and is skipped if that has none.

use std::collections::BTreeMap;

use crate::derivatives::{Body, TypedDerivative};
use crate::emit::autograd::expression::{Names, local};
use crate::formula::{Callee, Passed, Special, Ty, Typed, TypedKind, Variable};
use crate::model::Operator;
use crate::naming;
use crate::schema::{FunctionSchema, Type};

/// What formulas may call.
pub(super) struct Signatures<'a> {
    pub(super) operators: &'a [Operator<'a>],
    pub(super) helpers: &'a [FunctionSchema],
}

/// The function that computes the tangents of all results; results without a formula have no tangent. An input whose gradient is not
/// implemented has no term, and its tangent is refused as its gradient is in a backward pass.
pub(super) fn function(
    schema: &FunctionSchema,
    name: &str,
    derivative: &TypedDerivative,
    signatures: &Signatures<'_>,
) -> Result<String, String> {
    let formulas = &derivative.forward;
    let names =
        Names { fields: &[], locals: true, operators: signatures.operators, helpers: signatures.helpers };
    let mut used = BTreeMap::new();
    let mut sums = String::new();
    let mut tangents = vec!["Value::None".to_owned(); schema.returns.len()];
    for formula in formulas {
        let ([output], Body::Expression(typed)) = (formula.names.as_slice(), &formula.body) else {
            return Err("a formula gives the tangent of one result".to_owned());
        };
        let index = output_index(schema, output).ok_or("there is no such output")?;
        let result = Variable::Output(index);
        used.insert(result.clone(), Ty::of(&schema.returns[index].ty));
        sums += &format!("let mut tangent{index} = Sum::default();\n");
        for term in terms(typed) {
            collect(term, &mut used);
            let tangent = only_tangent(term)?;
            let argument = schema.arguments().position(|argument| argument.name == tangent);
            let argument = argument.ok_or("there is no such argument")?;
            let value = names.value(term)?;
            sums += &format!(
                "if let Some({tangent}_t) = call.tangent({argument}) {{\ntangent{index}.add({value})?;\n}}\n"
            );
        }
        tangents[index] = format!("tangent{index}.of(result{index})?");
    }
    complete(derivative)?;
    let mut lets = refusals(schema, derivative);
    for (variable, ty) in &used {
        lets += &taken(schema, variable, ty)?;
    }
    Ok(format!(
        "fn {name}(call: &Call<'_>) -> Result<Vec<Value>> {{\n{lets}{sums}Ok(vec![{}])\n}}",
        tangents.join(", ")
    ))
}

/// Checks that no tangent is ignored: an input with a gradient has a term, unless the gradient is zero.
fn complete(derivative: &TypedDerivative) -> Result<(), String> {
    let mut found = vec![];
    for formula in &derivative.forward {
        if let Body::Expression(typed) = &formula.body {
            tangents(typed, &mut found);
        }
    }
    let is_zero = |typed: &Typed| match &typed.kind {
        TypedKind::None => true,
        TypedKind::Call(Callee::Operator(name), _) => name.base == "zeros_like",
        _ => false,
    };
    let has_gradient = |body: &Body| matches!(body, Body::Expression(typed) if !is_zero(typed));
    let mut inputs = derivative.backward.iter().filter(|f| has_gradient(&f.body)).flat_map(|f| &f.names);
    match inputs.find(|name| !found.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!("`{name}` has a gradient, and no term in the formula of tangents")),
    }
}

/// `call.refuse(3, "native_batch_norm, for its running_mean")?;`
fn refusals(schema: &FunctionSchema, derivative: &TypedDerivative) -> String {
    let mut text = String::new();
    for formula in &derivative.backward {
        let Body::Special(Special::NotImplemented(what)) = &formula.body else { continue };
        let refused = schema.arguments().enumerate().filter(|(_, a)| formula.names.contains(&a.name));
        text.extend(refused.map(|(index, _)| format!("call.refuse({index}, {what:?})?;\n")));
    }
    text
}

fn output_index(schema: &FunctionSchema, name: &str) -> Option<usize> {
    let named = schema.returns.iter().position(|result| result.name.as_deref() == Some(name));
    named.or_else(|| match name.strip_prefix("result")? {
        "" => Some(0),
        number => number.parse().ok(),
    })
}

/// The terms of a sum of tensors.
fn terms(typed: &Typed) -> Vec<&Typed> {
    match &typed.kind {
        TypedKind::Call(Callee::Operator(name), arguments)
            if name.base == "add" && name.overload == "Tensor" =>
        {
            match arguments.as_slice() {
                [Passed::Given(left, _), Passed::Given(right, _), Passed::Default(_)] => {
                    [terms(left), terms(right)].concat()
                }
                _ => vec![typed],
            }
        }
        _ => vec![typed],
    }
}

fn collect(typed: &Typed, used: &mut BTreeMap<Variable, Ty>) {
    if let TypedKind::Variable(variable) = &typed.kind
        && !matches!(variable, Variable::Tangent(_))
    {
        used.insert(variable.clone(), typed.ty.clone());
    }
    typed.children().into_iter().for_each(|child| collect(child, used));
}

/// The argument whose tangent a term is linear in.
fn only_tangent(term: &Typed) -> Result<String, String> {
    let mut found = vec![];
    tangents(term, &mut found);
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err("a term of a formula of tangents has none".to_owned()),
        _ => Err("a term of a formula of tangents has several: write a sum".to_owned()),
    }
}

fn tangents(typed: &Typed, found: &mut Vec<String>) {
    if let TypedKind::Variable(Variable::Tangent(name)) = &typed.kind {
        found.push(name.clone());
    }
    typed.children().into_iter().for_each(|child| tangents(child, found));
}

/// `let dim = call.argument(1)?.int()?;`
fn taken(schema: &FunctionSchema, variable: &Variable, ty: &Ty) -> Result<String, String> {
    let name = local(variable, ty);
    match variable {
        Variable::Output(index) => match &schema.returns[*index].ty {
            Type::List(..) => Err("a list of results has no formula of tangents".to_owned()),
            _ => Ok(format!("let {name} = call.result({index})?;\n")),
        },
        Variable::Input(input) => {
            let mut arguments = schema.arguments().enumerate();
            let Some((index, argument)) = arguments.find(|(_, argument)| argument.name == *input) else {
                return Err(format!("there is no argument `{input}`"));
            };
            let take = naming::boxed(&argument.ty).ok_or("an argument that cannot be taken")?;
            Ok(format!("let {name} = call.argument({index})?.{take}()?;\n"))
        }
        _ => Err("a formula of tangents names arguments and results".to_owned()),
    }
}
