//! The kernel of an operator that returns new tensors or views: it computes the results, and then their tangents.

use super::call::{Call, JvpRule, duals};
use super::jvp_rules;
use crate::graph::hooks::{saving_hooks, without_saving_hooks};
use crate::variable::tangents::{below, set_tangent};
use flambeau_core::Result;
use flambeau_ops::dispatch::{OperatorInfo, Value};

/// The results of `operator`, with tangents where an argument has one.
///
/// # Errors
/// Those of the operator and of what its derivative calls.
pub(crate) fn call(
    operator: &'static dyn OperatorInfo,
    rule: JvpRule,
    inputs: &[usize],
    given: &[Value],
) -> Result<Vec<Value>> {
    let duals = duals(inputs, given)?;
    let _below = below();
    if duals.is_empty() {
        return operator.call_boxed(given);
    }
    let mut call = Call { operator, inputs, given, duals, results: Vec::new() };
    // `Pointwise` and `Transposed` run the operator themselves and return its results too. But hooks on saved tensors are to see one
    // ordinary call of the operator, and not the calls of the rules.
    if matches!(rule, JvpRule::Linear | JvpRule::Formula(_)) || saving_hooks().is_some() {
        call.results = operator.call_boxed(given)?;
    }
    let _unhooked = without_saving_hooks();
    let tangents = match rule {
        JvpRule::Linear => jvp_rules::linear(&call)?,
        JvpRule::Pointwise => jvp_rules::pointwise(&mut call)?,
        JvpRule::Transposed => jvp_rules::transposed(&mut call)?,
        JvpRule::Formula(formula) => formula(&call)?,
    };
    for (result, tangent) in call.results.iter().zip(tangents) {
        set_tangents(result, call.unshared(result, tangent)?)?;
    }
    Ok(call.results)
}

fn set_tangents(result: &Value, tangent: Value) -> Result<()> {
    match (result, tangent) {
        (Value::Tensor(result), Value::Tensor(tangent)) if result.dtype().is_differentiable() => {
            set_tangent(result, tangent)
        }
        (Value::Tensors(results), Value::Tensors(tangents)) => {
            results.iter().zip(tangents).try_for_each(|(result, tangent)| set_tangent(result, tangent))
        }
        _ => Ok(()),
    }
}
