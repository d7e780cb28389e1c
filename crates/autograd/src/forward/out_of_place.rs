//! The kernel of an operator that gives new tensors, or views: its results, and then their tangents.

use super::call::{Call, Way, duals};
use super::ways;
use crate::graph::hooks::{saving_hooks, without_saving_hooks};
use crate::variable::tangents::{below, put};
use flambeau_core::{Result, bail};
use flambeau_ops::Tensor;
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
        (Value::Tensor(result), Value::Tensor(tangent)) if result.is_floating_point() => put(result, tangent),
        (Value::Tensors(results), Value::Tensors(tangents)) => {
            results.iter().zip(tangents).try_for_each(|(result, tangent)| put(result, tangent))
        }
        _ => Ok(()),
    }
}

fn next(values: &mut std::vec::IntoIter<Value>) -> Result<Tensor> {
    match values.next() {
        Some(Value::Tensor(tensor)) => Ok(tensor),
        other => bail!(Internal, "expected a tensor as result but got {other:?}"),
    }
}

/// The only result.
pub(crate) fn tensor(values: Vec<Value>) -> Result<Tensor> {
    next(&mut values.into_iter())
}

/// Two results.
pub(crate) fn results2(values: Vec<Value>) -> Result<(Tensor, Tensor)> {
    let mut values = values.into_iter();
    Ok((next(&mut values)?, next(&mut values)?))
}

/// Three results.
pub(crate) fn results3(values: Vec<Value>) -> Result<(Tensor, Tensor, Tensor)> {
    let mut values = values.into_iter();
    Ok((next(&mut values)?, next(&mut values)?, next(&mut values)?))
}

/// Four results.
pub(crate) fn results4(values: Vec<Value>) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let mut values = values.into_iter();
    Ok((next(&mut values)?, next(&mut values)?, next(&mut values)?, next(&mut values)?))
}

/// A list of results.
pub(crate) fn list(values: Vec<Value>) -> Result<Vec<Tensor>> {
    match values.into_iter().next() {
        Some(Value::Tensors(tensors)) => Ok(tensors),
        other => bail!(Internal, "expected a list of tensors as result but got {other:?}"),
    }
}
