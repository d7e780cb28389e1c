//! From tangents of arguments to tangents of results: by the operator itself, or by its backward pass.

use super::call::{Call, Dual, Sum, any_requires_grad, brought, tensors};
use crate::grad_mode::{enable_grad, is_grad_enabled};
use crate::tensor::Autograd;
use crate::variable::meta::{requires_grad, variable};
use crate::variable::tangents::put;
use crate::{engine, handle};
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// The operator applied to the tangents, zeros where there are none.
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
        Value::Tensor(place) => *place = tensor,
        Value::Tensors(list) => {
            list.get_mut(item).into_iter().for_each(|place| *place = tensor.clone());
        }
        Value::OptionalTensors(list) => {
            list.get_mut(item).into_iter().for_each(|place| *place = Some(tensor.clone()));
        }
        _ => {}
    }
}

/// Whether what is computed is to be part of a graph: a tensor that goes in has a history, or its tangent has.
fn is_recorded(call: &Call<'_>) -> bool {
    is_grad_enabled()
        && (any_requires_grad(call.given) || call.duals.iter().any(|dual| requires_grad(&dual.tangent)))
}

/// An alias of an argument to differentiate by: with the argument's history if that is wanted, else a leaf. Where a graph is
/// made it has the tangent too, for who saves it.
fn variable_of(dual: &Dual, recorded: bool) -> Result<Tensor> {
    let variable = if recorded && requires_grad(&dual.primal) {
        ops::alias(&dual.primal)?
    } else {
        let leaf = handle::alias(&dual.primal)?;
        leaf.requires_grad_(true)?;
        leaf
    };
    if recorded {
        put(&variable, dual.tangent.clone())?;
    }
    Ok(variable)
}

/// The results, without the history of the leaves that were made to differentiate by, unless they have one of their own.
fn results_of(call: &Call<'_>, results: &[Value], recorded: bool) -> Result<Vec<Value>> {
    let own = recorded && any_requires_grad(call.given);
    let plain = |tensor: &Tensor| match own || variable(tensor).is_none() {
        true => Ok(tensor.clone()),
        false => handle::alias(tensor),
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

/// The elements of a result depend on those at their own places, so a backward pass multiplies a tangent by the derivative just
/// as it would a gradient: one pass for each argument with a tangent, brought to the sizes of the result.
pub(super) fn pointwise(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let recorded = is_recorded(call);
    let _enabled = enable_grad();
    let (mut variables, mut made) = pointwise_run(call, None, recorded)?;
    let result =
        made.iter().flat_map(tensors).map(|(_, tensor)| tensor).find(|t| t.dtype().is_differentiable());
    if let Some(result) = result {
        // A gradient has the sizes and the type of its argument, which may be less than the result's.
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

/// The operator on aliases of its dual arguments, brought to the sizes and the type of a result, and those aliases.
fn pointwise_run(
    call: &Call<'_>,
    result: Option<&Tensor>,
    recorded: bool,
) -> Result<(Vec<Tensor>, Vec<Value>)> {
    let (mut given, mut variables) = (call.given.to_vec(), Vec::new());
    for dual in &call.duals {
        let mut variable = variable_of(dual, recorded)?;
        if let Some(result) = result {
            variable = brought(variable, result)?;
            if recorded {
                put(&variable, brought(dual.tangent.clone(), result)?)?;
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
        let seed = brought(dual.tangent.clone(), result)?;
        let (results, variables) = (std::slice::from_ref(result), std::slice::from_ref(variable));
        let grads = engine::grad(results, variables, &[Some(seed)], Some(true), recorded, true)?;
        grads.into_iter().flatten().try_for_each(|grad| tangent.add(grad))?;
    }
    tangent.of(result)
}

/// A backward pass with gradients `u` gives `Jᵀu`, which is linear in `u`; the gradient of that with the tangents as weights is
/// `J` times the tangents, whatever `u` is.
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
    // A result without elements may be one that was not asked for.
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
        let weight = zeros_like(&handle::alias(output)?)?;
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
