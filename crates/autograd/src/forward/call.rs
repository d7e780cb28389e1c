//! A call under way: its arguments, the tangents among them, and the sum that the tangent of a result is.

use crate::handle;
use crate::variable::meta::requires_grad;
use crate::variable::tangents::tangent;
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

pub(super) fn duals(inputs: &[usize], given: &[Value]) -> Result<Vec<Dual>> {
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
    pub(super) fn unshared(&self, result: &Value, tangent: Value) -> Result<Value> {
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
