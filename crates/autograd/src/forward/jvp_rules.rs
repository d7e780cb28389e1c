//! The JVP rules, from tangents of arguments to tangents of results: by the operator itself, or by its backward pass.

use super::call::{Call, Dual, Sum, any_requires_grad, expand_to_result, tensors};
use crate::formulas::conjugate;
use crate::grad_mode::{enable_grad, is_grad_enabled};
use crate::tensor::Autograd;
use crate::variable::meta::{requires_grad, variable};
use crate::variable::tangents::set_tangent;
use crate::{alias, engine};
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// Applies the operator to the tangents; zeros stand for those that are absent.
pub(super) fn linear(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut given = call.given.to_vec();
    for &argument in call.inputs {
        for (item, primal) in tensors(&call.given[argument]) {
            let dual = call.duals.iter().find(|dual| dual.argument == argument && dual.item == item);
            let tangent = match dual {
                Some(dual) => dual.tangent.clone(),
                None if primal.dtype().is_differentiable() => zeros_like(primal)?,
                None => primal.clone(),
            };
            set(&mut given[argument], item, tangent);
        }
    }
    call.operator.call_boxed(&given)
}

pub(super) fn zeros_like(like: &Tensor) -> Result<Tensor> {
    ops::zeros_like(like, None, None, None, None, None)
}

fn set(value: &mut Value, item: usize, tensor: Tensor) {
    match value {
        Value::Tensor(slot) => *slot = tensor,
        Value::Tensors(list) => {
            list.get_mut(item).into_iter().for_each(|slot| *slot = tensor.clone());
        }
        Value::OptionalTensors(list) => {
            list.get_mut(item).into_iter().for_each(|slot| *slot = Some(tensor.clone()));
        }
        _ => {}
    }
}

/// Whether the computation of the tangents is to be recorded: an argument or its tangent requires a gradient.
fn is_recorded(call: &Call<'_>) -> bool {
    is_grad_enabled()
        && (any_requires_grad(call.given) || call.duals.iter().any(|dual| dual.tangent.requires_grad()))
}

/// An alias of an argument, with respect to which the rule differentiates: with the argument's history if the call is recorded and
/// the argument has one, else a leaf. If the call is recorded it has the tangent too, since nodes may save it.
fn variable_of(dual: &Dual, recorded: bool) -> Result<Tensor> {
    let variable = if recorded && requires_grad(&dual.primal) {
        ops::alias(&dual.primal)?
    } else {
        let leaf = alias::alias(&dual.primal)?;
        leaf.requires_grad_(true)?;
        leaf
    };
    if recorded {
        set_tangent(&variable, dual.tangent.clone())?;
    }
    Ok(variable)
}

/// The results without the history that leads to the leaves of [`variable_of`], unless the call itself is recorded.
fn results_of(call: &Call<'_>, results: &[Value], recorded: bool) -> Result<Vec<Value>> {
    let own = recorded && any_requires_grad(call.given);
    let plain = |tensor: &Tensor| match own || variable(tensor).is_none() {
        true => Ok(tensor.clone()),
        false => alias::alias(tensor),
    };
    let value = |value: &Value| {
        Ok(match value {
            Value::Tensor(tensor) => Value::Tensor(plain(tensor)?),
            Value::Tensors(list) => Value::Tensors(list.iter().map(plain).collect::<Result<_>>()?),
            other => other.clone(),
        })
    };
    results.iter().map(value).collect()
}

/// Each element of a result depends only on the elements of the arguments at the same index. So a backward pass multiplies a tangent
/// by the derivative just as it does with a gradient; of complex numbers by its conjugate, so that tangents are conjugated before and after.
/// Operators that are not holomorphic, such as `abs`, have formulas of their own. One pass runs for each argument with a tangent, which is first expanded to the
/// sizes of the result.
pub(super) fn pointwise(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let recorded = is_recorded(call);
    let _enabled = enable_grad();
    let (mut variables, mut made) = pointwise_run(call, None, recorded)?;
    let result =
        made.iter().flat_map(tensors).map(|(_, tensor)| tensor).find(|t| t.dtype().is_differentiable());
    if let Some(result) = result {
        // A gradient has the sizes and the dtype of its argument, which may be smaller or narrower than those of the result.
        let fits = |v: &Tensor| v.sizes() == result.sizes() && v.dtype() == result.dtype();
        if !variables.iter().all(fits) {
            let result = result.clone();
            (variables, made) = pointwise_run(call, Some(&result), recorded)?;
        }
    }
    if call.results.is_empty() {
        call.results = results_of(call, &made, recorded)?;
    }
    made.iter().map(|result| pointwise_tangent(call, &variables, result, recorded)).collect()
}

/// Runs the operator on aliases of its dual arguments, expanded to the sizes and converted to the dtype of `result` if there is one.
/// Returns the aliases and the results.
fn pointwise_run(
    call: &Call<'_>,
    result: Option<&Tensor>,
    recorded: bool,
) -> Result<(Vec<Tensor>, Vec<Value>)> {
    let (mut given, mut variables) = (call.given.to_vec(), Vec::new());
    for dual in &call.duals {
        let mut variable = variable_of(dual, recorded)?;
        if let Some(result) = result {
            variable = expand_to_result(variable, result)?;
            if recorded {
                set_tangent(&variable, expand_to_result(dual.tangent.clone(), result)?)?;
            }
        }
        set(&mut given[dual.argument], dual.item, variable.clone());
        variables.push(variable);
    }
    let made = call.operator.call_boxed(&given)?;
    Ok((variables, made))
}

fn pointwise_tangent(call: &Call<'_>, variables: &[Tensor], result: &Value, recorded: bool) -> Result<Value> {
    let Value::Tensor(result) = result else { return Ok(Value::None) };
    if !result.requires_grad() {
        return Ok(Value::None);
    }
    let mut tangent = Sum::default();
    for (dual, variable) in call.duals.iter().zip(variables) {
        let seed = conjugate(&expand_to_result(dual.tangent.clone(), result)?)?;
        let (results, variables) = (std::slice::from_ref(result), std::slice::from_ref(variable));
        let grads = engine::grad(results, variables, &[Some(seed)], Some(true), recorded, true)?;
        grads.into_iter().flatten().try_for_each(|grad| tangent.add(conjugate(&grad)?))?;
    }
    tangent.of(result)
}

/// A backward pass with gradients `u` gives `Jᵀu`, which is linear in `u`. The gradient of this with respect to `u`, with the tangents
/// as gradients of `Jᵀu`, is `J` times the tangents for any `u`.
pub(super) fn transposed(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let recorded = is_recorded(call);
    let _enabled = enable_grad();
    let (mut given, mut variables) = (call.given.to_vec(), Vec::new());
    for dual in &call.duals {
        let variable = variable_of(dual, recorded)?;
        set(&mut given[dual.argument], dual.item, variable.clone());
        variables.push(variable);
    }
    let made = call.operator.call_boxed(&given)?;
    if call.results.is_empty() {
        call.results = results_of(call, &made, recorded)?;
    }
    // A result without elements may be one that the caller did not request.
    let counts = |tensor: &Tensor| tensor.requires_grad() && tensor.numel() > 0;
    let outputs: Vec<Tensor> =
        made.iter().flat_map(tensors).map(|(_, tensor)| tensor).filter(|t| counts(t)).cloned().collect();
    let mut tangents = by_transposition(call, &outputs, &variables, recorded)?.into_iter();
    let mut next = |tensor: &Tensor| match counts(tensor) {
        true => tangents.next().flatten().map_or_else(|| zeros_like(tensor), Ok),
        false => zeros_like(tensor),
    };
    let value = |value: &Value| {
        Ok(match value {
            Value::Tensor(tensor) if tensor.requires_grad() => Value::Tensor(next(tensor)?),
            Value::Tensors(list) => Value::Tensors(list.iter().map(&mut next).collect::<Result<_>>()?),
            _ => Value::None,
        })
    };
    made.iter().map(value).collect()
}

/// The tangents of `outputs`; `None` for zeros.
fn by_transposition(
    call: &Call<'_>,
    outputs: &[Tensor],
    variables: &[Tensor],
    recorded: bool,
) -> Result<Vec<Option<Tensor>>> {
    if outputs.is_empty() {
        return Ok(Vec::new());
    }
    let weight = |output: &Tensor| {
        let weight = zeros_like(&alias::alias(output)?)?;
        weight.requires_grad_(true)?;
        Ok(weight)
    };
    let weights: Vec<Tensor> = outputs.iter().map(weight).collect::<Result<_>>()?;
    let seeds: Vec<Option<Tensor>> = weights.iter().cloned().map(Some).collect();
    let grads = engine::grad(outputs, variables, &seeds, Some(true), true, true)?;
    let (mut transposed, mut along) = (Vec::new(), Vec::new());
    for (grad, dual) in grads.into_iter().zip(&call.duals) {
        if let Some(grad) = grad.filter(requires_grad) {
            transposed.push(grad);
            along.push(Some(dual.tangent.clone()));
        }
    }
    if transposed.is_empty() {
        return Ok(vec![None; outputs.len()]);
    }
    engine::grad(&transposed, &weights, &along, Some(true), recorded, true)
}
