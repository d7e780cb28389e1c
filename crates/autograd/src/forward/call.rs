//! The kernel of an operator that gives new tensors, or views: its results, and then their tangents.

use super::ways;
use crate::graph::hooks::{saving_hooks, without_saving_hooks};
use crate::handle;
use crate::variable::meta::requires_grad;
use crate::variable::tangents::{below, put, tangent};
use flambeau_core::{Result, Scalar, Storage, bail, ensure};
use flambeau_ops::dispatch::{Arguments, OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};

/// How the tangents of the results follow from those of the arguments.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// The operator is linear in all its differentiable arguments together: it is applied to the tangents.
    Linear,
    /// Each element of the result depends on the elements at its own place: the Jacobian is diagonal, so that a backward pass
    /// gives tangents as well as gradients.
    Pointwise,
    /// A backward pass gives the transposed Jacobian; the gradient of that is the Jacobian.
    Transposed,
    /// A formula of its own.
    Formula(fn(&Call<'_>) -> Result<Vec<Value>>),
}

/// A call under way.
pub(crate) struct Call<'a> {
    pub(super) operator: &'static dyn OperatorInfo,
    /// The places of the differentiable arguments.
    pub(super) inputs: &'a [usize],
    pub(super) given: &'a [Value],
    pub(super) duals: Vec<Dual>,
    pub(super) results: Vec<Value>,
}

/// The tangent of one tensor among the arguments.
pub(super) struct Dual {
    pub(super) argument: usize,
    /// Which tensor of a list.
    pub(super) item: usize,
    pub(super) primal: Tensor,
    pub(super) tangent: Tensor,
}

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

/// The tensors of a value, with their places in it.
pub(super) fn tensors(value: &Value) -> Vec<(usize, &Tensor)> {
    match value {
        Value::Tensor(tensor) => vec![(0, tensor)],
        Value::Tensors(list) => list.iter().enumerate().collect(),
        Value::OptionalTensors(list) => {
            list.iter().enumerate().filter_map(|(i, tensor)| Some((i, tensor.as_ref()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a tensor among the arguments has a history or asks for a gradient.
pub(super) fn any_requires_grad(given: &[Value]) -> bool {
    given.iter().flat_map(tensors).any(|(_, tensor)| requires_grad(tensor))
}

fn duals(inputs: &[usize], given: &[Value]) -> Result<Vec<Dual>> {
    let mut duals = Vec::new();
    for &argument in inputs {
        for (item, primal) in given.get(argument).map(tensors).unwrap_or_default() {
            if let Some(tangent) = tangent(primal)? {
                duals.push(Dual { argument, item, primal: primal.clone(), tangent });
            }
        }
    }
    Ok(duals)
}

impl<'a> Call<'a> {
    /// A formula may give the tangent of an argument as it is; only where the result looks at the argument's memory does its
    /// tangent look at that of the argument's.
    fn unshared(&self, result: &Value, tangent: Value) -> Result<Value> {
        let (Value::Tensor(result), Value::Tensor(own)) = (result, &tangent) else { return Ok(tangent) };
        let shares = |dual: &Dual| {
            Storage::ptr_eq(dual.tangent.storage(), own.storage())
                && !Storage::ptr_eq(dual.primal.storage(), result.storage())
        };
        if self.duals.iter().any(shares) { Ok(Value::Tensor(ops::clone(own, None)?)) } else { Ok(tangent) }
    }

    /// Argument number `argument`, to be taken as what it is.
    ///
    /// # Errors
    /// `InvalidArgument` where there are not so many.
    pub(crate) fn argument(&self, argument: usize) -> Result<Arguments<'a>> {
        let value = self.given.get(argument..=argument).unwrap_or_default();
        Arguments::new(self.operator.name(), value, 1)
    }

    /// The tangent of that argument, if it has one.
    pub(crate) fn tangent(&self, argument: usize) -> Option<&Tensor> {
        self.duals.iter().find(|dual| dual.argument == argument).map(|dual| &dual.tangent)
    }

    /// Refuses a tangent of an argument of which no derivative is known.
    ///
    /// # Errors
    /// `NotImplemented` where it has one.
    pub(crate) fn refuse(&self, argument: usize, name: &str) -> Result<()> {
        ensure!(
            self.tangent(argument).is_none(),
            NotImplemented,
            "the derivative for '{name}' is not implemented."
        );
        Ok(())
    }

    /// Result number `result`.
    ///
    /// # Errors
    /// `Internal` where there are not so many, or it is no tensor.
    pub(crate) fn result(&self, result: usize) -> Result<&Tensor> {
        match self.results.get(result) {
            Some(Value::Tensor(result)) => Ok(result),
            _ => bail!(Internal, "{}: expected a tensor as result {result}", self.operator.name()),
        }
    }
}

/// The sum of the terms of a formula, one for each argument that has a tangent.
#[derive(Default)]
pub(crate) struct Sum(Option<Tensor>);

impl Sum {
    /// Adds a term.
    ///
    /// # Errors
    /// Those of `add`.
    pub(crate) fn add(&mut self, term: Tensor) -> Result<()> {
        self.0 = Some(match self.0.take() {
            None => term,
            Some(sum) => ops::add_tensor(&sum, &term, Scalar::Int(1))?,
        });
        Ok(())
    }

    /// The tangent of `result`, broadcast to its sizes: zeros without terms.
    ///
    /// # Errors
    /// Those of `expand`.
    pub(crate) fn of(self, result: &Tensor) -> Result<Value> {
        Ok(Value::Tensor(match self.0 {
            None => ops::zeros_like(result, None, None, None, None, None)?,
            Some(sum) => brought(sum, result)?,
        }))
    }
}

/// A tangent in the sizes and the type of its result.
pub(super) fn brought(tangent: Tensor, result: &Tensor) -> Result<Tensor> {
    let tangent = match tangent.sizes() == result.sizes() {
        true => tangent,
        false => ops::clone(&ops::expand(&tangent, result.sizes(), false)?, None)?,
    };
    if tangent.dtype() == result.dtype() { Ok(tangent) } else { handle::to_dtype(&tangent, result.dtype()) }
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
