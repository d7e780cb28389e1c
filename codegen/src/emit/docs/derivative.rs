//! The lines of the page about an operator's derivative: the gradient of each input, and the JVP rule.

use std::collections::BTreeMap;

use crate::derivatives::{Body, Differentiable, Formula, TypedDerivative};
use crate::emit::autograd::node::{Node, output_name};
use crate::emit::autograd::{Plan, plan, typed_index};
use crate::emit::forward::is_pointwise;
use crate::formula::Special;
use crate::model::Operator;

/// The lines of an operator; none if it has no tensor arguments.
pub(super) fn lines(
    operator: &Operator<'_>,
    typed: &[TypedDerivative],
    nodes: &BTreeMap<usize, Option<Node<'_>>>,
) -> Vec<String> {
    let index = typed_index(operator, typed);
    let gradient = |words: &str| vec![format!("- **Gradient** {words}")];
    match plan(operator, index, nodes) {
        Plan::NoTensors => vec![],
        Plan::Composite => gradient("of the operators it calls"),
        Plan::Unrecorded => gradient("none: not differentiable"),
        Plan::Refused | Plan::Missing(_) => gradient("not implemented, which the backward pass says"),
        Plan::Recorded(node) => {
            let derivative = &node.derivative.derivative;
            if derivative.schema.name != operator.schema.name {
                let name = &derivative.schema.name;
                return gradient(&format!("as [{name}](#{name})"));
            }
            let mut lines = gradient(&gradients(node.derivative));
            lines.extend((!operator.schema.is_in_place()).then(|| tangent(operator, node.derivative)));
            lines
        }
    }
}

/// `self`: `grad * other`, ...; and the inputs and results without gradient.
fn gradients(typed: &TypedDerivative) -> String {
    let derivative = &typed.derivative;
    let backward = derivative.formulas().iter().filter(|formula| !formula.forward);
    let (constant, formulas): (Vec<&Formula>, Vec<&Formula>) = backward
        .partition(|formula| Special::from_text(&formula.text.text) == Some(Special::NonDifferentiable));
    let mut parts: Vec<String> =
        formulas.iter().map(|f| format!("{}: {}", code(&f.names), text(&f.text.text))).collect();
    let inputs: Vec<String> = constant.iter().flat_map(|formula| formula.names.clone()).collect();
    parts.extend((!inputs.is_empty()).then(|| format!("none of {}", code(&inputs))));
    let results: Vec<String> = (0..derivative.schema.returns.len())
        .filter(|index| {
            derivative.output_differentiability.get(*index) == Some(&Differentiable::Known(false))
        })
        .map(|index| output_name(&derivative.schema, index))
        .collect();
    parts.extend((!results.is_empty()).then(|| format!("none through {}", code(&results))));
    parts.join("; ")
}

/// A formula on one line.
fn text(formula: &str) -> String {
    match Special::from_text(formula) {
        Some(Special::NotImplemented(_)) => "not implemented".to_owned(),
        _ => format!("`{}`", formula.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

fn code(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn tangent(operator: &Operator<'_>, typed: &TypedDerivative) -> String {
    let first = typed.forward.first().map(|formula| &formula.body);
    let forward: Vec<&Formula> =
        typed.derivative.formulas().iter().filter(|formula| formula.forward).collect();
    let words = match first {
        Some(Body::Special(Special::AutoLinear)) => "linear".to_owned(),
        Some(Body::Expression(_)) => match forward.as_slice() {
            [only] => text(&only.text.text),
            several => several
                .iter()
                .map(|formula| format!("{}: {}", code(&formula.names), text(&formula.text.text)))
                .collect::<Vec<_>>()
                .join("; "),
        },
        Some(Body::Special(_)) => "pointwise".to_owned(),
        None if is_pointwise(operator) => "pointwise".to_owned(),
        None => "general".to_owned(),
    };
    format!("- **Tangent** {words}")
}
