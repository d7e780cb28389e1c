//! The kernel of an operator that gives new tensors, or views: its results, and then their tangents.

use super::call::{Call, Way, duals};
use super::ways;
use crate::graph::hooks::{saving_hooks, without_saving_hooks};
use crate::variable::tangents::{below, put};
use flambeau_core::Result;
use flambeau_ops::dispatch::{OperatorInfo, Value};

/// The results of `operator`, with tangents where an argument has one.
///
/// # Errors
/// Those of the operator and of what its derivative calls.
pub(crate) fn call(
    operator: &'static dyn OperatorInfo,
    way: Way,
    inputs: &[usize],
    given: &[Value],
) -> Result<Vec<Value>> {
    let duals = duals(inputs, given)?;
    let _below = below();
    if duals.is_empty() {
        return operator.call_boxed(given);
    }
    let mut call = Call { operator, inputs, given, duals, results: Vec::new() };
    // The two that run the operator again give its results too, unless hooks are to see what it saves, and nothing else.
    if matches!(way, Way::Linear | Way::Formula(_)) || saving_hooks().is_some() {
        call.results = operator.call_boxed(given)?;
    }
    let _unseen = without_saving_hooks();
    let tangents = match way {
        Way::Linear => ways::linear(&call)?,
        Way::Pointwise => ways::pointwise(&mut call)?,
        Way::Transposed => ways::transposed(&mut call)?,
        Way::Formula(formula) => formula(&call)?,
    };
    for (result, tangent) in call.results.iter().zip(tangents) {
        put_value(result, call.unshared(result, tangent)?)?;
    }
    Ok(call.results)
}

fn put_value(result: &Value, tangent: Value) -> Result<()> {
    match (result, tangent) {
        (Value::Tensor(result), Value::Tensor(tangent)) if result.dtype().is_differentiable() => {
            put(result, tangent)
        }
        (Value::Tensors(results), Value::Tensors(tangents)) => {
            results.iter().zip(tangents).try_for_each(|(result, tangent)| put(result, tangent))
        }
        _ => Ok(()),
    }
}
